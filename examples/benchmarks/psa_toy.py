"""Gradient estimators in a 5-5-5 network, where the truth is known.

The toy problem of Shekhovtsov, Yanush and Flach, "Path sample-analytic gradient
estimators for stochastic binary networks" (NeurIPS 2020, appendix C.1): two classes of
100 points that overlap in the plane, and three layers of five units. The exact gradient
comes from transfer matrices. Networks are trained with it. After 1, 100 and 2000 epochs
every estimator is compared with it, by one sample of the noise; "shapes" compares a few
in networks of other widths and depths, and ``--picture`` draws the losses::

    python examples/benchmarks/psa_toy.py --picture docs/images/psa_toy_training.svg
    python examples/benchmarks/psa_toy.py --shapes
    python examples/benchmarks/psa_toy.py --quick

Layers start with logits of mean 0 and deviation 1 over the data and the noise of the
units below. ``--start mean`` takes the start of `SBNClassifier` instead, where the
deviation is that over the data alone: larger weights.
"""

import statistics
from functools import partial

import numpy as np
import torch
from joblib import Parallel, delayed
from skorch.callbacks import Callback
from tools import Table, finish, options, panels, save, with_spread

from skhash import SBNClassifier, gradients
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
from skhash.noise import Logistic

# A baseline that forgets nothing is close to the true mean loss of each row.
ESTIMATORS = {
    **{"psa": "psa", "psa enhanced": gradients.PSA(enhanced=True)},
    **{it: it for it in ("st", "zgr", "det_st", "hard_st", "identity_st", "tanh")},
    **{f"gumbel {it}": gradients.GumbelSoftmax(it) for it in (1.0, 0.1)},
    "st_gumbel 0.1": gradients.STGumbel(0.1),
    **{it: it for it in ("adf", "local_reparam", "arm", "disarm", "rloo")},
    "reinforce": gradients.Reinforce(baseline=None),
    "reinforce, baseline": gradients.Reinforce(baseline="row", decay=1.0),
    "muprop": gradients.MuProp(baseline=None),
    "muprop, baseline": gradients.MuProp(baseline="row", decay=1.0),
}
FEW = ["psa", "st", "zgr", "arm", "reinforce"]
TRAINED = ["exact_network", "psa", "st", "arm", "reinforce"]
LAYERS = {"layers.0": "layer 1", "layers.1": "layer 2", "layers.2": "layer 3"}
# Measurements of one sample, and their formats.
ONE_SAMPLE = {
    "cosine": ("cosine", ".3f"),
    "RMSE": ("relative_rmse", ".2f"),
    "bias": ("bias", ".2f"),
    "by chance": ("bias_floor", ".2f"),
}
SHAPES = [(2,) * 3, (5,) * 3, (10,) * 3, (5,), (5,) * 5]
TRIALS, QUICK_TRIALS = 100, 10
SEED = 1  # of the points


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
            exact = gradients.ExactNetwork()
            return exact.network_surrogate(function, module.network, X)

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


def train(X, y, gradient, epochs, seed, given, widths=(5, 5, 5), watched=()):
    """Return a classifier after so many epochs."""
    torch.set_num_threads(1)
    start = {"architecture": start_network(X, widths, seed), "init": "default"}
    if given.start == "mean":
        start = {"hidden_layer_sizes": widths, "noise": Logistic(scale=2)}
        start["init_scale"] = 1.0
    start |= {"gradient": ESTIMATORS.get(gradient, gradient), "batch_norm": False}
    # The batches of the paper have 10 rows.
    sgd = {"optimizer": "sgd", "lr": 1.0, "lr_schedule": None, "batch_size": 100}
    model = SBNClassifier(**start, **sgd, max_epochs=epochs, random_state=seed)
    model.set_params(callbacks=[ExactLosses(X, y, watched)], device="cpu")
    return model.fit(X, y)


def losses_of(X, y, gradient, seed, given):
    """Return epochs, expected losses and losses of the ensemble in a training."""
    last = given.epochs[-1]
    watched = sorted({int(epoch) for epoch in np.geomspace(1, last, 25)})
    history = train(X, y, gradient, last, seed, given, watched=watched).net_.history
    records = [history[epoch - 1] for epoch in watched]
    return np.transpose([[r["epoch"], r["expected"], r["ensemble"]] for r in records])


def measure(X, y, names, epochs, seed, given, widths=(5, 5, 5)):
    """Return rows of reports of one sample, by estimator and group of parameters."""
    model = train(X, y, "exact_network", epochs, seed, given, widths)
    estimators = {name: ESTIMATORS[name] for name in names}
    settings = {"n_trials": given.trials, "random_state": seed}
    report = gradients.gradient_report(model, X, estimators, y=y, **settings)
    return {(row.estimator, row.group): row for row in report.rows}


def layer_tables(measured):
    """Return a table a layer of one sample's errors: medians over networks.

    `measured` has the rows of all networks by the number of epochs. Errors are relative
    to the norm of the gradient, and "by chance" is the bias that would be found of what
    has none.
    """
    shown, tables = ONE_SAMPLE.items(), {}
    columns = {f"{title}, {n}": form for n in measured for title, (_, form) in shown}
    for layer, name in {**LAYERS, "head": "head"}.items():
        table = tables[name.replace(" ", "_")] = Table({"estimator": "", **columns})
        for estimator in ESTIMATORS:
            cells = [
                statistics.median(
                    getattr(rows[estimator, layer], what) for rows in networks
                )
                for networks in measured.values()
                for what, _ in ONE_SAMPLE.values()
            ]
            table.rows.append([estimator, *cells])
    return tables


def training_table(curves):
    """Return the losses after training: means over networks, and half their range."""
    table = Table("estimator | expected loss :.3f | loss of the ensemble :.3f")
    for name, runs in curves.items():
        ends = np.transpose([run[1:, -1] for run in runs])
        table.rows.append([name, *map(with_spread, ends)])
    return table


def shapes_table(run, data, seeds, given):
    """Return the errors of one sample in the first layer, after the first epochs."""
    names = ["-".join(map(str, widths)) for widths in SHAPES]
    table = Table({"estimator": "", **dict.fromkeys(names, ".2f")})
    task = delayed(partial(measure, *data, FEW, given.epochs[0]))
    measured = [run(task(seed, given, widths) for seed in seeds) for widths in SHAPES]
    for name in FEW:
        errors = (
            [rows[name, "layers.0"].relative_rmse for rows in networks]
            for networks in measured
        )
        table.rows.append([name, *map(statistics.median, errors)])
    return {"shapes": table}


def draw_training(curves, path):
    """Draw the losses, means over networks."""
    figure, (ax,) = panels([""], size=(5.5, 4.3))
    for i, (name, runs) in enumerate(curves.items()):
        epochs, expected, ensemble = np.mean(runs, axis=0)
        ax.plot(epochs, ensemble, f"C{i}", label=name)
        ax.plot(epochs, expected, f"C{i}--")
    ax.plot([], [], "--", color="0.5", label="dashed: expected loss")
    ax.set(xscale="log", xlabel="epoch", ylabel="loss of the ensemble, nats")
    finish(figure, path)


def main():
    size = {"epochs": [1, 100, 2000], "networks": 3, "jobs": 2, "quick": False}
    parser = options(__doc__, **size, shapes=False, picture=None)
    parser.add_argument("--start", default="drawn", choices=["drawn", "mean"])
    given = parser.parse_args()
    given.trials = QUICK_TRIALS if given.quick else TRIALS
    if given.quick:
        given.epochs, given.networks = [1, 5], 1
    data, seeds = toy(100, SEED), range(given.networks)
    run = Parallel(n_jobs=given.jobs)
    what = f"200 points of seed {SEED}, median of {given.networks} networks"
    if given.shapes:
        tables = shapes_table(run, data, seeds, given)
    else:
        measured = {
            n: run(delayed(measure)(*data, ESTIMATORS, n, s, given) for s in seeds)
            for n in given.epochs
        }
        curves = {
            name: run(delayed(losses_of)(*data, name, seed, given) for seed in seeds)
            for name in TRAINED
        }
        tables = {"training": training_table(curves), **layer_tables(measured)}
        if given.picture:
            draw_training(curves, given.picture)
    for table in tables.values():
        table.printed()
    save(given.output, tables, seeds=seeds, data=what)


if __name__ == "__main__":
    main()
