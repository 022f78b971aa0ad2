"""Gradient estimators on a stochastic autoencoder of 20 Newsgroups.

The experiment of Shekhovtsov and Yanush, "Reintroducing straight-through estimators as
principled methods for stochastic binary networks" (section 5 and appendix D.1): word
counts are encoded into 8, 64 or 256 random bits and decoded again, with every gradient
estimator in the same setting. After a first phase with the estimator, all of them go on
with ARM of 10 samples and a fresh optimizer. At parameters along the trajectory of ARM,
the gradients of the encoder are compared with a precise one::

    python examples/benchmarks/st_estimators.py --data-home DIR --output DIR
    python examples/benchmarks/st_estimators.py --full --device cuda --data-home DIR

The default is a reduced setting for two cores; it says what is reduced. It writes the
measurements and the figure, prints tables, and says which claims of the paper held.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import sklearn
import torch
from joblib import Parallel, delayed
from skorch.callbacks import Callback

import skhash
from skhash import StochasticAutoencoderHash
from skhash.datasets import load_20newsgroups
from skhash.gradients import (
    ARM,
    ZGR,
    DeterministicST,
    DisARM,
    GumbelSoftmax,
    IdentityST,
    StraightThrough,
    gradient_report,
)
from skhash.neural import Correction
from skhash.noise import Logistic

ESTIMATORS = {
    "arm": ARM(),
    "gumbel 1.0": GumbelSoftmax(1.0),
    "gumbel 0.1": GumbelSoftmax(0.1),
    "st": StraightThrough(),
    "det_st": DeterministicST(),
    "identity_st": IdentityST(),
    "zgr": ZGR(),
    "disarm": DisARM(),
}
# The biased estimators of the paper; zgr and disarm are not in it.
BIASED = ["gumbel 1.0", "gumbel 0.1", "st", "det_st", "identity_st"]
COLORS = {
    "arm": "#222222",
    "gumbel 1.0": "#8e5ea2",
    "gumbel 0.1": "#c3a1d1",
    "st": "#1b6ca8",
    "det_st": "#d95f02",
    "identity_st": "#e6ab02",
    "zgr": "#2a9d6f",
    "disarm": "#9a9a9a",
}
FULL = {
    "words": 10_000,
    "skip_words": 0,
    "documents": None,
    "batch_size": 100,
    "epochs": 1000,
    "correction_epochs": 500,
    "points": 15,
    "measured_documents": None,
    "reference_samples": 1000,
    "trials": 100,
}
REDUCED = {
    "words": 300,
    "skip_words": 100,
    "documents": 1000,
    "batch_size": 20,
    "epochs": 80,
    "correction_epochs": 20,
    "points": 5,
    "measured_documents": 80,
    "reference_samples": 500,
    "trials": 20,
}
# Documents and draws of their bits that the loss is evaluated with after every epoch.
LOSS_DOCUMENTS, LOSS_DRAWS = 200, 4


class Watch(Callback):
    """Records the loss of drawn bits on fixed documents, whatever the training sees.

    Parameters
    ----------
    X : Tensor of shape (n_documents, n_words)
    keep : list of int
        The epochs whose parameters are kept, in ``kept_``.
    label : str
        What is printed in front of the progress.
    """

    def __init__(self, X, keep, label):
        self.X = X
        self.keep = keep
        self.label = label

    def initialize(self):
        self.kept_, self.start_ = {}, time.perf_counter()
        return self

    @torch.no_grad()
    def on_epoch_end(self, net, **kwargs):
        module, epoch = net.module_, len(net.history)
        X = self.X.to(net.device)
        logits, reconstruct = module(X), module.reconstruction(X)
        # The same uniform numbers every time.
        generator = torch.Generator(device=X.device).manual_seed(0)
        losses = [
            reconstruct(module.units.draw(logits, generator)).mean()
            for _ in range(LOSS_DRAWS)
        ]
        p = module.units.noise.cdf(logits)
        net.history.record("loss", float(sum(losses) / LOSS_DRAWS))
        net.history.record(
            "code_loss", float(reconstruct((p > 0.5).to(p.dtype)).mean())
        )
        net.history.record("certainty", float((2 * p - 1).abs().mean()))
        if epoch in self.keep:
            state = module.state_dict()
            self.kept_[epoch] = {name: v.cpu().clone() for name, v in state.items()}
            say(f"{self.label}: epoch {epoch}, loss {net.history[-1, 'loss']:.1f}")


def say(text):
    print(f"  {datetime.datetime.now():%H:%M:%S} {text}", flush=True)


def load(arguments):
    """Return the counts, dense, documents in random order."""
    X = load_20newsgroups("counts", data_home=arguments.data_home).train
    frequency = np.asarray(X.sum(axis=0)).ravel()
    order = np.argsort(-frequency, kind="stable")
    chosen = order[arguments.skip_words : arguments.skip_words + arguments.words]
    X = X[:, np.sort(chosen)]
    X = X[np.asarray(X.sum(axis=1)).ravel() > 0]
    shuffled = np.random.default_rng(arguments.seed).permutation(X.shape[0])
    return X[shuffled[: arguments.documents]].toarray()


def train(n_bits, name, X, arguments):
    """Train with one estimator; along the trajectory of ARM, measure all of them."""
    total = arguments.epochs + arguments.correction_epochs
    points = np.linspace(0, total, arguments.points + 1)[1:].astype(int).tolist()
    label = f"{n_bits} bits, {name}"
    watch = Watch(torch.tensor(X[:LOSS_DOCUMENTS]), points, label)
    encoder = StochasticAutoencoderHash(
        n_bits,
        gradient=ESTIMATORS[name],
        noise=Logistic(scale=2),  # P(bit = 1) is the sigmoid of the logit
        hidden_layer_sizes=(512,),
        decoder_hidden_layer_sizes=None,  # the mirror image
        encoder_input="frequency",
        kl_weight=0.0,
        dropout=0.0,
        input_dropout=0.0,
        optimizer="adam",
        lr=1e-3,
        batch_size=arguments.batch_size,
        max_epochs=arguments.epochs,
        correction=Correction("arm", 10, arguments.correction_epochs),
        callbacks=[watch],
        random_state=arguments.seed,
        device=arguments.device,
    )
    start = time.perf_counter()
    encoder.fit(X)
    seconds = time.perf_counter() - start
    say(f"{label}: trained in {seconds:.0f} s")
    curves = {
        column: [float(v) for v in encoder.net_.history[:, column]]
        for column in ("loss", "code_loss", "train_loss", "certainty")
    }
    result = {"n_bits": n_bits, "estimator": name, "seconds": seconds} | curves
    if name == "arm":
        watch = dict(encoder.net_.callbacks_)["Watch"]
        result["points"] = [
            measure(encoder, epoch, state, X, arguments)
            for epoch, state in watch.kept_.items()
        ]
    return result


def measure(encoder, epoch, state, X, arguments):
    """Return how good all estimators are at the parameters of one epoch."""
    start = time.perf_counter()
    encoder.net_.module_.load_state_dict(state)
    report = gradient_report(
        encoder,
        X[: arguments.measured_documents],
        ESTIMATORS,
        n_trials=arguments.trials,
        reference=ARM(n_samples=10),
        reference_samples=arguments.reference_samples,
        batch_size=arguments.batch_size,
        random_state=arguments.seed,
        device=arguments.device,
    )
    rows = {row.estimator: row for row in report.rows if row.group == "encoder"}
    ceiling = report.settings["cosine_ceiling"]["encoder"]
    say(
        f"{encoder.n_bits} bits, epoch {epoch}: measured in "
        f"{time.perf_counter() - start:.0f} s, cosine at most {ceiling:.3f}, "
        f"st {rows['st'].cosine:.3f}, arm {rows['arm'].cosine:.3f}"
    )
    return {
        "epoch": epoch,
        "ceiling": ceiling,
        "estimators": {name: row.to_dict() for name, row in rows.items()},
    }


class Results:
    """The measurements, looked up by bits and estimator."""

    def __init__(self, runs, arguments):
        self.epochs = arguments.epochs
        self.bits = sorted(arguments.bits)
        self.runs = {(run["n_bits"], run["estimator"]): run for run in runs}

    def before(self, n_bits, name, column="loss"):
        """Return the losses of the first phase."""
        return np.array(self.runs[n_bits, name][column][: self.epochs])

    def after(self, n_bits, name, column="loss"):
        """Return the losses of the correction."""
        return np.array(self.runs[n_bits, name][column][self.epochs :])

    def points(self, n_bits):
        return self.runs[n_bits, "arm"]["points"]

    def along(self, n_bits, name, metric):
        """Return a measurement at each point of ARM's trajectory."""
        points = self.points(n_bits)
        return np.array([point["estimators"][name][metric] for point in points])


def table(header, rows):
    print(f"\n| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_losses(results, column):
    header = ["estimator"]
    for n_bits in results.bits:
        header += [f"{n_bits} bits", "after ARM-10"]
    rows = []
    for name in ESTIMATORS:
        rows.append([name])
        for n_bits in results.bits:
            for phase in (results.before, results.after):
                losses = phase(n_bits, name, column)
                rows[-1].append(f"{losses[-3:].mean():.1f}")
    table(header, rows)


def print_tables(results):
    print("\nLoss of drawn bits, nats a document, mean of the last three epochs:")
    print_losses(results, "loss")
    print("\nLoss of the likeliest code, the same:")
    print_losses(results, "code_loss")
    print(
        "\nCosine similarity and expected improvement over its optimum, encoder, mean "
        "over the points of ARM's trajectory:"
    )
    header = ["estimator"]
    for n_bits in results.bits:
        header += [f"cosine, {n_bits} bits", "improvement"]
    rows = []
    for name in ESTIMATORS:
        rows.append([name])
        for n_bits in results.bits:
            gain = results.along(n_bits, name, "improvement")
            gain = gain / results.along(n_bits, name, "optimum")
            cosine = results.along(n_bits, name, "cosine")
            rows[-1] += [f"{cosine.mean():.3f}", f"{gain.mean():.3f}"]
    ceilings = [
        np.mean([p["ceiling"] for p in results.points(b)]) for b in results.bits
    ]
    rows.append(["(at most)"] + [c for v in ceilings for c in (f"{v:.3f}", "1")])
    table(header, rows)
    print("\nCosine similarity at each point:")
    for n_bits in results.bits:
        epochs = [str(point["epoch"]) for point in results.points(n_bits)]
        rows = [
            [name, *(f"{v:.3f}" for v in results.along(n_bits, name, "cosine"))]
            for name in ESTIMATORS
        ]
        table([f"{n_bits} bits, epoch", *epochs], rows)


def judge(results):
    """Return the paper's claims as (claim, held, figures)."""
    few, many = results.bits[0], results.bits[-1]
    return [
        judge_repair(results, few),
        judge_direction(results, few),
        judge_more_bits(results, few, many),
        judge_variants(results),
        judge_saturation(results, many),
        judge_training(results),
    ]


def judge_repair(results, n_bits):
    """Compare the last quarter of the first phase with what is before and after it."""
    figures, held = [], []
    for name in [*BIASED, "arm"]:
        before, after = results.before(n_bits, name), results.after(n_bits, name)
        late, early = max(1, len(before) // 4), max(1, len(after) // 4)
        fall = before[-late - 1] - before[-1]
        share = fall / (before[0] - before[-1])
        repair = (before[-1] - after[early - 1]) / early
        held.append(share < 0.05 and repair > max(0, 2 * fall / late))
        figures.append(
            f"{name}: {share:+.1%} of its fall in the last quarter, "
            f"{fall / late:+.2f} nats an epoch, then {repair:+.2f}; "
            f"{before[-1]:.1f} before, {after[-1]:.1f} after"
        )
    n_held = sum(held[: len(BIASED)])
    return (
        f"1. With few bits ({n_bits}) biased estimators stall or rise, and ARM-10 "
        "repairs quickly (the last quarter of the first phase brings less than 5% of "
        "its fall, and the first quarter of the correction falls more than twice as "
        "fast, for most; arm is printed for comparison)",
        n_held > len(BIASED) / 2,
        figures,
    )


def judge_direction(results, n_bits):
    """Look for cosines below 0 in the second half of the trajectory."""
    figures, held = [], []
    for name in BIASED:
        cosines = results.along(n_bits, name, "cosine")
        cosines = cosines[len(cosines) // 2 :]
        held.append(cosines.mean() < 0)
        figures.append(f"{name} {cosines.mean():+.3f} (lowest {cosines.min():+.3f})")
    return (
        f"2. With few bits ({n_bits}) biased estimators point in a wrong direction "
        "(mean cosine below 0 in the second half of the trajectory, for most)",
        sum(held) > len(held) / 2,
        figures,
    )


def judge_more_bits(results, few, many):
    figures, held = [], []
    for name in BIASED:
        means = [results.along(b, name, "cosine").mean() for b in results.bits]
        held.append(means[-1] > means[0])
        figures.append(f"{name} {', '.join(f'{mean:.3f}' for mean in means)}")
    return (
        "3. With more bits all biased estimators improve (mean cosine higher at "
        f"{many} bits than at {few})",
        all(held),
        figures,
    )


def judge_variants(results):
    figures, held = [], []
    for n_bits in results.bits:
        means = {
            name: results.along(n_bits, name, "cosine").mean()
            for name in ("st", "det_st", "identity_st")
        }
        held.append(means["st"] == max(means.values()))
        parts = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        figures.append(f"{n_bits} bits: {parts}")
    return (
        "4. Stochastic straight-through is more accurate than det_st and identity_st "
        "(mean cosine, at every length)",
        all(held),
        figures,
    )


def judge_saturation(results, n_bits):
    points = [point["epoch"] - 1 for point in results.points(n_bits)]
    certainty = np.array(results.runs[n_bits, "arm"]["certainty"])[points]
    cosines = results.along(n_bits, "det_st", "cosine")
    half = len(points) // 2
    figures = [
        f"mean |2p - 1| {certainty[:half].mean():.3f} then "
        f"{certainty[half:].mean():.3f}",
        f"cosine {cosines[:half].mean():.3f} then {cosines[half:].mean():.3f}",
    ]
    return (
        f"5. det_st improves as the units saturate ({n_bits} bits: both higher in the "
        "second half of the trajectory)",
        certainty[half:].mean() > certainty[:half].mean()
        and cosines[half:].mean() > cosines[:half].mean(),
        figures,
    )


def judge_training(results):
    figures, held = [], []
    for n_bits in results.bits:
        ends = {name: results.before(n_bits, name)[-3:].mean() for name in BIASED}
        best = min(ends, key=ends.get)
        arm = results.before(n_bits, "arm")[-3:].mean()
        held.append(ends[best] < arm)
        better = ", ".join(n for n in BIASED if ends[n] < arm) or "none"
        figures.append(
            f"{n_bits} bits: arm {arm:.1f}, {best} {ends[best]:.1f}, better: {better}"
        )
    return (
        "6. Biased estimators can beat 1-sample ARM in training (a lower loss at the "
        "end of the first phase, at any length)",
        any(held),
        figures,
    )


def draw(results, path):
    """Draw losses, improvements and cosines, a column for each number of bits."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        3,
        len(results.bits),
        figsize=(3.6 * len(results.bits) + 0.6, 8.4),
        sharex="col",
        squeeze=False,
        layout="constrained",
    )
    for column, n_bits in zip(axes.T, results.bits, strict=True):
        loss, improvement, cosine = column
        epochs = [point["epoch"] for point in results.points(n_bits)]
        gap = epochs[0] / 40  # between the error bars of two estimators
        for number, (name, color) in enumerate(COLORS.items()):
            style = {"color": color, "linewidth": 1.3}
            losses = results.runs[n_bits, name]["loss"]
            # The first steep fall would flatten the rest.
            first = len(losses) // 50
            shown = range(first + 1, len(losses) + 1)
            loss.plot(shown, losses[first:], **style, label=name)
            style |= {"marker": "o", "markersize": 3, "elinewidth": 0.8}
            beside = np.array(epochs) + gap * (number - len(COLORS) / 2)
            for ax, metric in ((improvement, "improvement"), (cosine, "cosine")):
                middle, low, high = (
                    results.along(n_bits, name, metric + end)
                    for end in ("", "_low", "_high")
                )
                # The mean of the trials may lie outside of their central part.
                errors = np.clip([middle - low, high - middle], 0, None)
                ax.errorbar(beside, middle, errors, **style)
        best = results.along(n_bits, "arm", "optimum")
        (best_line,) = improvement.plot(epochs, best, "--", color="0.4", linewidth=1)
        ceilings = [point["ceiling"] for point in results.points(n_bits)]
        cosine.plot(epochs, ceilings, "--", color="0.4", linewidth=1)
        cosine.axhline(0, color="0.4", linewidth=0.8)
        loss.set_title(f"{n_bits} bits")
        cosine.set_xlabel("epoch")
        for ax in column:
            switch = ax.axvline(results.epochs, color="0.4", linewidth=0.8, ls=":")
            ax.grid(alpha=0.3)
            ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("loss of drawn bits, nats")
    axes[1, 0].set_ylabel("expected improvement")
    axes[2, 0].set_ylabel("cosine similarity")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    handles += [best_line, switch]
    labels += ["best possible", "switch to ARM-10"]
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the paper's setting")
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=None, help="processes")
    parser.add_argument("--data-home")
    parser.add_argument("--output", type=Path, default=Path("st_estimators"))
    for name, value in REDUCED.items():
        option = "--" + name.replace("_", "-")
        full = "all" if FULL[name] is None else FULL[name]
        parser.add_argument(option, type=int, help=f"{value}; with --full {full}")
    arguments = parser.parse_args()
    for name, value in (FULL if arguments.full else REDUCED).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.jobs is None:
        arguments.jobs = min(os.cpu_count(), 2) if arguments.device == "cpu" else 1
    return arguments


def main():
    arguments = parse()
    try:
        X = load(arguments)
    except FileNotFoundError as error:
        sys.exit(str(error))
    start = time.perf_counter()
    machine = (
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy "
        f"{np.__version__}, scikit-learn {sklearn.__version__}, torch "
        f"{torch.__version__}, skhash {skhash.__version__}"
    )
    if arguments.device != "cpu":
        machine += f", {torch.cuda.get_device_name()}"
    print(machine)
    documents, words = X.shape
    print(
        f"20 Newsgroups counts, training part: {documents:,} documents, {words:,} "
        f"words, seed {arguments.seed}"
    )
    settings = {n: getattr(arguments, n) for n in [*REDUCED, "bits", "seed", "device"]}
    reduced = [
        f"{name} {settings[name]} (full: {'all' if value is None else value})"
        for name, value in FULL.items()
        if settings[name] != value
    ]
    print("Differs from the full setting: " + ("; ".join(reduced) or "nothing"))
    print("The batch size of the paper is not stated.")
    arguments.output.mkdir(parents=True, exist_ok=True)
    # The trajectories of ARM first: they take longest, with all that is measured there.
    tasks = [(n_bits, "arm") for n_bits in sorted(arguments.bits, reverse=True)]
    tasks += [(b, name) for b, _ in tasks for name in ESTIMATORS if name != "arm"]
    runs = Parallel(n_jobs=arguments.jobs)(
        delayed(train)(n_bits, name, X, arguments) for n_bits, name in tasks
    )
    results = Results(runs, arguments)
    print_tables(results)
    claims = judge(results)
    print("\nThe claims of the paper in this run:")
    for claim, held, figures in claims:
        print(f"\n{claim}: {'held' if held else 'did not hold'}.")
        for line in figures:
            print(f"    {line}")
    seconds = time.perf_counter() - start
    report = {
        "machine": machine,
        "settings": settings | {"documents": documents, "words": words},
        "seconds": seconds,
        "runs": runs,
        "claims": [
            {"claim": claim, "held": bool(held), "figures": figures}
            for claim, held, figures in claims
        ],
    }
    (arguments.output / "st_estimators.json").write_text(json.dumps(report, indent=1))
    draw(results, arguments.output / "st_estimators.png")
    print(f"\n{seconds / 60:.1f} minutes; figures in {arguments.output}")


if __name__ == "__main__":
    main()
