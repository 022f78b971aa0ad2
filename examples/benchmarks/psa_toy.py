"""How good gradient estimators are in a 5-5-5 network, where the truth is known.

The toy problem of Shekhovtsov, Yanush and Flach, "Path sample-analytic gradient
estimators for stochastic binary networks" (NeurIPS 2020, appendix C.1): two classes of
100 points that overlap in the plane, and three layers of five units. The exact gradient
comes from transfer matrices. Networks are trained with it. After 1, 100 and 2000 epochs
every estimator is compared with it, for 1 to 1000 samples of the noise. Counterparts of
figures C.2 to C.6 are drawn::

    python examples/benchmarks/psa_toy.py --picture-folder DIR
    python examples/benchmarks/psa_toy.py --quick

Layers start with logits of mean 0 and deviation 1 over the data and the noise of the
units below. ``--start mean`` takes the start of `SBNClassifier` instead, where the
deviation is that over the data alone: larger weights.
"""

import argparse
import os
import statistics
from pathlib import Path

import numpy as np
import torch
from drawing import finish, panels
from growing_results import describe, head
from joblib import Parallel, delayed
from result_files import Table, add_output, print_all, save
from skorch.callbacks import Callback

from skhash import SBNClassifier
from skhash.gradients import (
    PSA,
    ExactNetwork,
    GumbelSoftmax,
    MuProp,
    Reinforce,
    STGumbel,
    gradient_report,
)
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
from skhash.noise import Logistic

# A baseline that forgets nothing is close to the true mean loss of each row.
ESTIMATORS = {
    **{"psa": "psa", "psa enhanced": PSA(enhanced=True)},
    **{it: it for it in ("st", "zgr", "det_st", "hard_st", "identity_st", "tanh")},
    **{"gumbel 1.0": GumbelSoftmax(1.0), "gumbel 0.1": GumbelSoftmax(0.1)},
    "st_gumbel 0.1": STGumbel(0.1),
    **{it: it for it in ("adf", "local_reparam", "arm", "disarm", "rloo")},
    "reinforce": Reinforce(baseline=None),
    "reinforce, baseline": Reinforce(baseline="row", decay=1.0),
    "muprop": MuProp(baseline=None),
    "muprop, baseline": MuProp(baseline="row", decay=1.0),
}
# What the pictures show, in their colours; the second is for the shapes of networks.
COLORS = {
    "psa": "#d95f02",
    "st": "#1b6ca8",
    "zgr": "#2a9d6f",
    "adf": "#c51b7d",
    "gumbel 1.0": "#8e5ea2",
    "gumbel 0.1": "#c3a1d1",
    "arm": "#222222",
    "disarm": "#777777",
    "reinforce": "#8c510a",
    "reinforce, baseline": "#dfa12d",
    "muprop, baseline": "#80b1d3",
}
FEW = ["psa", "st", "zgr", "arm", "reinforce"]
TRAINED = ["exact_network", "psa", "st", "arm", "reinforce"]
LAYERS = {"layers.0": "layer 1", "layers.1": "layer 2", "layers.2": "layer 3"}
# What is said of one sample, and its format.
ONE_SAMPLE = {
    "cosine": ("cosine", ".3f"),
    "RMSE": ("relative_rmse", ".2f"),
    "bias": ("bias", ".2f"),
    "by chance": ("bias_floor", ".2f"),
}
SHAPES = {
    "width": {f"{n} units a layer": (n,) * 3 for n in (2, 5, 10)},
    "depth": {f"{n} layer(s)": (5,) * n for n in (1, 3, 5)},
}
# Samples of an estimate, and how many such estimates are drawn.
TRIALS = {1: 100, 10: 40, 100: 10, 1000: 3}
QUICK_TRIALS = {1: 10, 10: 3}


def toy(n_per_class, seed):
    """Points above 0, and points below the cosine of their first coordinate."""
    random = np.random.default_rng(seed)
    x = random.uniform(-np.pi / 2, np.pi / 2, 2 * n_per_class)
    height = random.uniform(0, 1, 2 * n_per_class)
    y = np.repeat([1, 0], n_per_class)
    return np.column_stack([x, np.where(y, height, (1 + np.cos(x)) * height - 1)]), y


class ExactLosses(Callback):
    """Records the expected loss and that of the ensemble, after some epochs."""

    def __init__(self, X, y, epochs):
        self.X, self.y, self.epochs = X, y, epochs

    @torch.no_grad()
    def on_epoch_end(self, net, **kwargs):
        if len(net.history) not in self.epochs:
            return
        module, sign = net.module_, torch.as_tensor(2 * self.y - 1)
        X = torch.tensor((self.X - module.mean) / module.scale, dtype=torch.float32)

        def log_likelihood(outputs):
            margin = sign * (outputs[..., 1] - outputs[..., 0])
            return torch.nn.functional.logsigmoid(margin)

        def mean_over_noise(function):
            return ExactNetwork().network_surrogate(function, module.network, X)

        likelihood = mean_over_noise(lambda outputs: log_likelihood(outputs).exp())
        net.history.record("expected", -float(mean_over_noise(log_likelihood).mean()))
        net.history.record("ensemble", -float(likelihood.log().mean()))


def start_network(X, widths, seed):
    """Return a factory of networks; see the top of this file for their start."""

    @torch.no_grad()
    def architecture(n_features, n_classes):
        generator = torch.Generator().manual_seed(seed)
        sizes = [n_features, *widths]
        layers = [
            BinaryLinear(n, m, noise=Logistic(scale=2), generator=generator)
            for n, m in zip(sizes[:-1], sizes[1:], strict=True)
        ]
        x = torch.tensor(X - X.mean(axis=0), dtype=torch.float32)
        x = (x / x.square().mean().sqrt()).repeat(50, 1)
        for layer in layers:
            std, mean = torch.std_mean(layer.realize()(x), dim=0)
            layer.bias.copy_((layer.bias - mean) / std)
            layer.weight.div_(std[:, None])
            x = layer.units.draw(layer.realize()(x), generator)
        head = RealLinear(sizes[-1], n_classes, generator=generator)
        return StochasticBinaryNetwork(layers, head)

    return architecture


def train(X, y, gradient, epochs, seed, options, widths=(5, 5, 5), watched=()):
    """Return a classifier after so many epochs."""
    torch.set_num_threads(1)
    start = {"architecture": start_network(X, widths, seed), "init": "default"}
    if options.start == "mean":
        start = {"hidden_layer_sizes": widths, "noise": Logistic(scale=2)}
        start["init_scale"] = 1.0
    return SBNClassifier(
        **start,
        gradient=ESTIMATORS.get(gradient, gradient),
        batch_norm=False,
        optimizer="sgd",
        lr=options.lr,
        lr_schedule=None,
        batch_size=options.batch_size,
        max_epochs=epochs,
        callbacks=[ExactLosses(X, y, watched)],
        random_state=seed,
        device="cpu",
    ).fit(X, y)


def losses_of(X, y, gradient, seed, options):
    """Return epochs, expected losses and losses of the ensemble in a training."""
    last = options.epochs[-1]
    watched = sorted({int(epoch) for epoch in np.geomspace(1, last, 25)})
    history = train(X, y, gradient, last, seed, options, watched=watched).net_.history
    records = [history[epoch - 1] for epoch in watched]
    return np.transpose([[r["epoch"], r["expected"], r["ensemble"]] for r in records])


def measure(X, y, names, epochs, seed, options, widths=(5, 5, 5), trials=None):
    """Return rows of reports, by estimator, group of parameters and samples."""
    model = train(X, y, "exact_network", epochs, seed, options, widths)
    rows = {}
    for n_samples, n_trials in (trials or {1: options.trials[1]}).items():
        # An estimate is the mean over so many samples of the noise.
        model.set_params(n_draws=n_samples)
        estimators = {name: ESTIMATORS[name] for name in names}
        report = gradient_report(
            model, X, estimators, y=y, n_trials=n_trials, random_state=seed
        )
        rows |= {(row.estimator, row.group, n_samples): row for row in report.rows}
    return rows


def layer_tables(measured):
    """Return a table a layer of one sample's errors: medians over networks.

    `measured` has the rows of all networks by the number of epochs. Errors are relative
    to the norm of the gradient, and "by chance" is the bias that would be found of what
    has none.
    """
    columns = {
        f"{title}, {n}": form
        for n in measured
        for title, (_, form) in ONE_SAMPLE.items()
    }
    tables = {}
    for layer, name in {**LAYERS, "head": "head"}.items():
        table = tables[name.replace(" ", "_")] = Table({"estimator": "", **columns})
        for estimator in ESTIMATORS:
            cells = [
                statistics.median(
                    getattr(rows[estimator, layer, 1], what) for rows in networks
                )
                for networks in measured.values()
                for what, _ in ONE_SAMPLE.values()
            ]
            table.rows.append([estimator, *cells])
    return tables


def training_table(curves):
    """Return the losses after training: means over networks, and half their range."""
    formats = {"estimator": "", "expected loss": ".3f", "loss of the ensemble": ".3f"}
    table = Table(formats)
    for name, runs in curves.items():
        ends = np.array([run[1:, -1] for run in runs])
        means, spreads = ends.mean(axis=0), np.ptp(ends, axis=0) / 2
        pairs = zip(means.tolist(), spreads.tolist(), strict=True)
        table.rows.append([name, *map(list, pairs)])
    return table


def draw_training(curves, path):
    """Draw the losses, means over networks."""
    figure, (ax,) = panels([""], size=(5.5, 4.3))
    for name, runs in curves.items():
        epochs, expected, ensemble = np.mean(runs, axis=0)
        color = COLORS.get(name, "#e6ab02")
        ax.plot(epochs, ensemble, color=color, label=name)
        ax.plot(epochs, expected, "--", color=color)
    ax.plot([], [], "--", color="0.3", label="dashed: expected loss")
    ax.set(xscale="log", xlabel="epoch", ylabel="loss of the ensemble, nats")
    finish(figure, path)


def draw_curves(settings, metric, path):
    """Draw a measurement against samples, by title, rows, group and names."""
    titles = [title for title, *_ in settings]
    figure, axes = panels(titles, size=(3.2, 4), sharey=True)
    for ax, (_, rows, group, names) in zip(axes, settings, strict=True):
        for name in names:
            samples = sorted({n for _, _, n in rows})
            values = [getattr(rows[name, group, n], metric) for n in samples]
            ax.plot(samples, values, "o-", ms=3, color=COLORS[name], label=name)
        ax.set(xscale="log", xlabel="samples")
    if metric == "cosine":
        axes[0].set_ylabel("cosine similarity to the gradient, layer 1")
    else:
        axes[0].set(yscale="log", ylabel="RMSE over the norm of the gradient")
    finish(figure, path)


def measure_samples(run, data, options):
    """Return what pictures are drawn of: rows by epochs, and by shapes of networks.

    All are of the first of the networks.
    """
    first, trials = options.epochs[0], options.trials
    by_epoch = run(
        delayed(measure)(*data, COLORS, n, 0, options, trials=trials)
        for n in options.epochs
    )
    titles = [f"epoch {n}" for n in options.epochs]
    found = {"epochs": dict(zip(titles, by_epoch, strict=True))}
    for kind, shapes in SHAPES.items():
        rows = run(
            delayed(measure)(*data, FEW, first, 0, options, widths, trials)
            for widths in shapes.values()
        )
        found[kind] = dict(zip(shapes, rows, strict=True))
    return found


def draw_all(folder, found, curves):
    """Draw figures C.2 to C.6, after the first of the networks but for the training."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_training(curves, folder / "psa_toy_training.png")
    first = next(iter(found["epochs"].values()))
    settings = [(title, first, k, COLORS) for k, title in LAYERS.items()]
    draw_curves(settings, "relative_rmse", folder / "psa_toy_rmse.png")
    for kind, metric, names in (
        ("epochs", "cosine", COLORS),
        ("width", "relative_rmse", FEW),
        ("depth", "relative_rmse", FEW),
    ):
        settings = [(*pair, "layers.0", names) for pair in found[kind].items()]
        name = "cosine" if kind == "epochs" else kind
        draw_curves(settings, metric, folder / f"psa_toy_{name}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 100, 2000])
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--start", choices=["drawn", "mean"], default="drawn")
    parser.add_argument("--batch-size", type=int, default=100, help="the paper has 10")
    parser.add_argument("--lr", type=float, default=1.0, help="of plain SGD")
    parser.add_argument("--seed", type=int, default=1, help="of the points")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--picture-folder", type=Path)
    add_output(parser)
    options = parser.parse_args()
    options.trials = QUICK_TRIALS if options.quick else TRIALS
    if options.quick:
        options.epochs, options.networks = [1, 5], 1
    print(describe(head()))
    data, seeds = toy(100, options.seed), range(options.networks)
    run = Parallel(n_jobs=options.jobs)
    measured = {
        n: run(delayed(measure)(*data, ESTIMATORS, n, s, options) for s in seeds)
        for n in options.epochs
    }
    tables = layer_tables(measured)
    curves = {
        name: run(delayed(losses_of)(*data, name, seed, options) for seed in seeds)
        for name in TRAINED
    }
    tables["training"] = training_table(curves)
    if options.picture_folder is not None:
        found = measure_samples(run, data, options)
        draw_all(options.picture_folder, found, curves)
    print_all(tables)
    what = f"200 points of seed {options.seed}, median of {options.networks} networks"
    save(options.output, tables, seeds=seeds, data=what)


if __name__ == "__main__":
    main()
