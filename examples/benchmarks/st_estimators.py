"""Gradient estimators on a stochastic autoencoder of 20 Newsgroups.

The experiment of Shekhovtsov and Yanush, "Reintroducing straight-through estimators as
principled methods for stochastic binary networks" (section 5 and appendix D.1): word
counts are encoded into 8, 64 or 256 random bits and decoded again, with every gradient
estimator in the same setting. After a first phase with the estimator, all of them go on
with ARM of 10 samples and a fresh optimizer. At parameters along the trajectory of ARM,
the gradients of the encoder are compared with a precise one::

    python examples/benchmarks/st_estimators.py --data-home DIR --output runs.json
    python examples/benchmarks/st_estimators_report.py runs.json --picture-folder DIR \
        --results docs/results/st_estimators.md
    python examples/benchmarks/st_estimators.py --full --device cuda --data-home DIR

The default is a reduced setting for one core; it says what is reduced. Each training is
written to the file when it is done, and a run that is started again goes on after the
last one. The report takes what is there, of one or several files.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

import numpy as np
import torch
from data_sets import load_20newsgroups
from growing_results import Results
from skorch.callbacks import Callback

from skhash import StochasticAutoencoderHash
from skhash.gradients import GumbelSoftmax, gradient_report
from skhash.neural import Correction
from skhash.noise import Logistic

ESTIMATORS = {
    "arm": "arm",
    "gumbel 1.0": GumbelSoftmax(1.0),
    "gumbel 0.1": GumbelSoftmax(0.1),
    **{name: name for name in ("st", "det_st", "identity_st", "zgr", "disarm")},
}
# What trains: besides these the gradient itself, where all codes can be tried.
TRAINED = ESTIMATORS | {"exact": "exact"}
EXACT_BITS = 10
METRICS = ("cosine", "improvement", "optimum", "rmse")
OTHERS = ["zgr", "disarm", "exact"]  # which the paper does not have
# The paper's setting, and the reduced one.
SETTINGS = {
    "words": (10_000, 300),
    "skip_words": (0, 100),
    "documents": (None, 1000),
    "batch_size": (100, 50),
    "epochs": (1000, 1000),
    "correction_epochs": (500, 150),
    "points": (15, 5),
    "measured_documents": (None, 100),
    "reference_samples": (1000, 500),
    "trials": (100, 20),
}
FULL = {name: full for name, (full, _) in SETTINGS.items()}
# Documents and draws of their bits that the loss is evaluated with, so many times.
LOSS_DOCUMENTS, LOSS_DRAWS, LOSSES = 200, 4, 200


class Watch(Callback):
    """Records the loss of drawn bits on fixed documents, whatever the training sees.

    Parameters
    ----------
    X : Tensor of shape (n_documents, n_words)
    every : int
        Of how many epochs one is recorded.
    keep : list of int
        The epochs whose parameters are kept, in ``kept_``.
    label : str
        What is printed in front of the progress.
    """

    def __init__(self, X, every, keep, label):
        self.X, self.every, self.keep, self.label = X, every, keep, label

    def initialize(self):
        self.kept_, self.records_ = {}, []
        return self

    @torch.no_grad()
    def on_epoch_end(self, net, **kwargs):
        module, epoch = net.module_, len(net.history)
        if epoch % self.every == 0:
            self.records_.append({"epoch": epoch} | self.losses(module, net.device))
        if epoch in self.keep:
            state = module.state_dict()
            self.kept_[epoch] = {name: v.cpu().clone() for name, v in state.items()}
            say(f"{self.label}: epoch {epoch}")

    def losses(self, module, device):
        X = self.X.to(device)
        logits, reconstruct = module(X), module.reconstruction(X)
        # The same uniform numbers every time.
        generator = torch.Generator(device=X.device).manual_seed(0)
        drawn = [module.units.draw(logits, generator) for _ in range(LOSS_DRAWS)]
        p = module.units.noise.cdf(logits)
        return {
            "loss": float(sum(reconstruct(b).mean() for b in drawn) / LOSS_DRAWS),
            "code_loss": float(reconstruct((p > 0.5).to(p.dtype)).mean()),
            "certainty": float((2 * p - 1).abs().mean()),
        }


def say(text):
    print(f"  {datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def load(options):
    """Return the counts, documents in random order; dense where that is faster."""
    X = load_20newsgroups("counts", data_home=options.data_home).train
    frequency = np.asarray(X.sum(axis=0)).ravel()
    order = np.argsort(-frequency, kind="stable")
    chosen = order[options.skip_words : options.skip_words + options.words]
    X = X[:, np.sort(chosen)]
    X = X[np.asarray(X.sum(axis=1)).ravel() > 0]
    # The same documents for all seeds.
    shuffled = np.random.default_rng(0).permutation(X.shape[0])
    X = X[shuffled[: options.documents]]
    return X.toarray() if X.shape[1] <= 1000 else X


def dense(X):
    return torch.tensor(X if isinstance(X, np.ndarray) else X.toarray())


def train(seed, n_bits, name, X, options):
    """Train with one estimator; along the trajectory of ARM, measure all of them."""
    total = options.epochs + options.correction_epochs
    points = np.linspace(0, total, options.points + 1)[1:].astype(int).tolist()
    every = max(1, options.epochs // LOSSES)
    label = f"seed {seed}, {n_bits} bits, {name}"
    encoder = StochasticAutoencoderHash(
        n_bits,
        gradient=TRAINED[name],
        noise=Logistic(scale=2),  # P(bit = 1) is the sigmoid of the logit
        hidden_layer_sizes=(512,),
        decoder_hidden_layer_sizes=None,  # the mirror image
        encoder_input="frequency",
        kl_weight=0.0,
        dropout=0.0,
        input_dropout=0.0,
        optimizer="adam",
        lr=1e-3,
        batch_size=options.batch_size,
        max_epochs=options.epochs,
        correction=Correction("arm", 10, options.correction_epochs),
        callbacks=[Watch(dense(X[:LOSS_DOCUMENTS]), every, points, label)],
        random_state=seed,
        device=options.device,
    )
    start = time.perf_counter()
    encoder.fit(X)
    seconds = time.perf_counter() - start
    watch = dict(encoder.net_.callbacks_)["Watch"]
    records = watch.records_
    columns = {column: [it[column] for it in records] for column in records[0]}
    steps = -(-X.shape[0] // options.batch_size)
    durations = 1000 * np.array([record["dur"] for record in encoder.history_]) / steps
    phases = durations[: options.epochs], durations[options.epochs :]
    paces = [round(float(np.median(phase)), 1) for phase in phases if len(phase)]
    say(f"{label}: {' ms a step, then '.join(map(str, paces))} ms a step")
    result = {"seed": seed, "n_bits": n_bits, "estimator": name, "seconds": seconds}
    result["ms_a_step"] = paces
    if name == "arm":
        result["points"] = [
            measure(encoder, epoch, state, X, options)
            for epoch, state in watch.kept_.items()
        ]
    return result | columns


def measure(encoder, epoch, state, X, options):
    """Return how good all estimators are at the parameters of one epoch."""
    start = time.perf_counter()
    encoder.net_.module_.load_state_dict(state)
    report = gradient_report(
        encoder,
        X[: options.measured_documents],
        ESTIMATORS,
        n_trials=options.trials,
        reference_samples=options.reference_samples,
        batch_size=options.batch_size,
        random_state=encoder.random_state,
        device=options.device,
    )
    rows = {row.estimator: row for row in report.rows if row.group == "encoder"}
    say(f"epoch {epoch}: measured in {time.perf_counter() - start:.0f} s")
    return {
        "epoch": epoch,
        "ceiling": report.settings["cosine_ceiling"]["encoder"],
        "estimators": {
            name: {metric: getattr(row, metric) for metric in METRICS}
            for name, row in rows.items()
        },
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the paper's setting")
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--estimators", nargs="+", choices=TRAINED, default=[*TRAINED])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-home")
    parser.add_argument("--output", type=Path, default=Path("st_estimators.json"))
    for name, (full, reduced) in SETTINGS.items():
        full = "all" if full is None else full
        what = f"{reduced}; with --full {full}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=what)
    options = parser.parse_args()
    for name, (full, reduced) in SETTINGS.items():
        if getattr(options, name) is None:
            setattr(options, name, full if options.full else reduced)
    return options


def in_order(options):
    """Return seed, bits and estimator of each training, what says most first.

    The first seed comes first, and of it the paper's estimators; of the other seeds
    the fewest bits, which take least time.
    """
    first = options.seeds[0]
    tasks = [
        (seed, n_bits, name)
        for n_bits in sorted(options.bits)
        for seed in options.seeds
        for name in options.estimators
        if name != "exact" or n_bits <= EXACT_BITS
    ]
    return sorted(tasks, key=lambda task: (task[0] != first, task[2] in OTHERS))


def main():
    options = parse()
    try:
        X = load(options)
    except FileNotFoundError as error:
        sys.exit(str(error))
    results = Results(options.output, lambda cell: "done")
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings |= {"documents": X.shape[0], "words": X.shape[1]}
    before = results.content.setdefault("settings", settings)
    if before != settings:
        sys.exit(
            f"{options.output} holds trainings of another setting: {before}, and this "
            f"is {settings}. Give another --output."
        )
    for seed, n_bits, name in in_order(options):
        label = f"seed {seed}, {n_bits} bits, {name}"
        results.get(label, lambda task=(seed, n_bits, name): train(*task, X, options))


if __name__ == "__main__":
    main()
