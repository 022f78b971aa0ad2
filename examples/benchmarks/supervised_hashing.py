"""Supervised codes: losses, the solvers of DualHash, its optimizers and its weights.

On Fashion-MNIST the training set is 1000 images of each class of the training part, 500
others of each class are for validation, and 500 images of each class of the test part
are the queries. They are searched for in three databases: "training" is the training
set itself, as in the papers; "separate" the 45 000 images of the training part that are
left; "unseen" has the images of three classes, drawn by the seed, with an encoder that
saw the seven others::

    python examples/benchmarks/supervised_hashing.py losses --output runs.json
    python examples/benchmarks/supervised_hashing.py optimizers --output dualhash.json
    python examples/benchmarks/supervised_hashing.py lengths weights \
        --output dualhash.json
    python examples/benchmarks/supervised_hashing.py --show runs.json \
        --picture docs/images/supervised_distances.svg --results FILE

"losses" are `DualHashEncoder`, its solvers and updates, and the losses of
`SupervisedHash`. Each method has four candidate settings; that with the best mean
average precision on validation images, against the separate database, with 32 bits and
one seed, is taken everywhere.

"optimizers" gives each optimizer of DualHash a grid of step sizes, and STORM of its
forgetting too, wide enough that the best is inside it, and trains the best with three
seeds; here digits are a second set. "lengths" compares solvers and losses with 16, 48
and 64 bits, and "weights" the penalty's two weights on a grid. All networks are trained
for the same number of epochs, with a cosine schedule.
"""

import json
import warnings
from functools import cache, partial
from itertools import product
from statistics import median
from typing import NamedTuple

import numpy as np
import tools
from skorch.callbacks import LRScheduler
from torch import nn
from torch.optim import SGD

from skhash import DualHashEncoder, ITQHash, NeighborHash, SupervisedHash, metrics
from skhash.datasets import load_digits_retrieval
from skhash.linear import SupervisedDiscreteHash
from skhash.losses import make_loss
from skhash.training import Storm

CUTS = (100, 1000)
IMAGE = (1, 28, 28)
TUNING_SEED, TUNING_BITS = 100, 32

# Data


class Search(NamedTuple):
    """Queries and a database, as rows and labels."""

    query: np.ndarray
    query_labels: np.ndarray
    database: np.ndarray
    database_labels: np.ndarray


def of_each_class(labels, sizes, random_state):
    """Yield so many positions of each class, drawn, for each of the sizes."""
    order = random_state.permutation(len(labels))
    ranks = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        ranks[rows] = np.arange(len(rows))
    start = 0
    for size in sizes:
        yield np.flatnonzero((ranks >= start) & (ranks < start + size))
        start += size


@cache
def load(data_home=None):
    """Return training rows, other rows, validation rows and queries, with labels."""
    data = tools.load_fashion_mnist(n_queries=None, data_home=data_home)
    y, draw = data.train_labels, np.random.RandomState
    train, validation, other = of_each_class(y, (1000, 500, len(y)), draw(0))
    (query,) = of_each_class(data.query_labels, (500,), draw(0))
    parts = {"train": train, "other": other, "validation": validation}
    parts = {part: (data.train[rows], y[rows]) for part, rows in parts.items()}
    return parts | {"query": (data.query[query], data.query_labels[query])}


@cache
def experiment(name, protocol, seed=0, data_home=None):
    """Return training rows with their labels, and the searches by their names."""
    if name == "digits":
        return digits(protocol)
    train, other, validation, query = load(data_home).values()
    if protocol == "validation":
        return train, {"validation": Search(*validation, *other)}
    if protocol == "seen":
        databases = {"training": train, "separate": other}
        return train, {name: Search(*query, *rows) for name, rows in databases.items()}
    unseen = np.random.RandomState(seed).choice(np.unique(train[1]), 3, replace=False)
    seen, query, database = (
        tuple(values[np.isin(part[1], unseen) == is_new] for values in part)
        for part, is_new in ((train, False), (query, True), (other, True))
    )
    return seen, {"unseen": Search(*query, *database)}


def digits(protocol):
    """Return digits to train on, and a search of the others or of the queries."""
    data = load_digits_retrieval()
    X, y = data.train, data.train_labels
    if protocol == "seen":
        return (X, y), {"separate": Search(data.query, data.query_labels, X, y)}
    held, kept = np.split(np.random.RandomState(0).permutation(len(X)), [300])
    train = X[kept], y[kept]
    return train, {"validation": Search(X[held], y[held], *train)}


# Methods


def network(options):
    """Return the parameters that all networks have in common."""
    shape = {"hidden_layer_sizes": (options.hidden,)}
    if options.convolutions:
        module = partial(convolutions, n_hidden=options.hidden)
        shape = {"module": module, "input_shape": IMAGE}
    return shape | {
        "max_epochs": options.epochs,
        "device": options.device,
        "callbacks": [LRScheduler("CosineAnnealingLR", T_max=options.epochs)],
    }


def convolutions(n_features, n_bits, n_hidden):
    """Return a network of two convolutions, each with pooling, and a hidden layer."""
    layers = []
    for n_before, n_after in ((1, 32), (32, 64)):
        layers += [nn.Conv2d(n_before, n_after, 3, padding=1), nn.BatchNorm2d(n_after)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(64 * n_features // 16, n_hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(n_hidden, n_bits))


def per_bit(params, n_bits):
    """Replace "logits", the likelihood's scale times the bits, by the scale."""
    if "logits" in params:
        params = params | {"logit_scale": params["logits"] / n_bits}
        del params["logits"]
    return params


def dual(n_bits, seed, options, *, solver="prox", optimizer="adamw", lr=1e-3, **params):
    loss = make_loss("dualhash").set_params(solver=solver, **per_bit(params, n_bits))
    steps = {"optimizer": optimizer, "lr": lr, "random_state": seed}
    return DualHashEncoder(n_bits, loss=loss, **steps, **network(options))


def with_loss(name, n_bits, seed, options, *, lr, dropout=0.0, **params):
    loss = make_loss(name).set_params(**per_bit(params, n_bits))
    steps = {"lr": lr, "dropout": dropout, "random_state": seed}
    return SupervisedHash(n_bits, loss=loss, **steps, **network(options))


def sdh(n_bits, seed, options, **params):
    return SupervisedDiscreteHash(n_bits, random_state=seed, **params)


def neighbor(n_bits, seed, options, **params):
    return NeighborHash(
        n_bits, random_state=seed, device=options.device, nested=False, **params
    )


def itq(n_bits, seed, options):
    return ITQHash(n_bits, random_state=seed)


def candidates(own, values, lrs=(1e-3, 3e-3)):
    return [{"lr": lr, own: value} for lr in lrs for value in values]


def solver(name, own="w_weight", values=(0.01, 0.1), optimizer="adamw"):
    """Return how to make a `DualHashEncoder`, and its candidates."""
    make = partial(dual, solver=name, optimizer=optimizer)
    lrs = {"adamw": (1e-3, 3e-3), "storm": (1.0, 3.0)}.get(optimizer, (0.1, 0.3))
    return make, candidates(own, values, lrs)


def other(name, own, *values):
    """Return how to make a `SupervisedHash` with a loss, and its candidates."""
    return partial(with_loss, name), candidates(own, values)


NESTEROV = partial(SGD, momentum=0.9, nesterov=True)
RIDGES = [
    {"projection_weight": weight, "projection_ridge": ridge}
    for weight in (1e-5, 1e-3)
    for ridge in (1e-2, 1.0)
]
# Each method, and its candidate settings.
METHODS = {
    "default": (dual, [{}]),
    "none": solver(None, "logits", (10, 20)),
    **{name: solver(name) for name in ("subgradient", "prox", "wcr", "dual_dc")},
    "dual": solver("dual", "penalty", (0.03, 0.3)),
    "dual momentum": solver("dual", "penalty", (0.03, 0.3), NESTEROV),
    "dual storm": solver("dual", "penalty", (0.03, 0.3), "storm"),
    "cross_entropy": other("cross_entropy", "dropout", 0.0, 0.2),
    "contrastive": other("contrastive", "temperature", 0.25, 0.125),
    "csq": other("csq", "quantization_weight", 1e-4, 0.1),
    "dhn": other("dhn", "logits", 5, 20),
    "dsdh": other("dsdh", "logits", 5, 20),
    "dsh": other("dsh", "quantization_weight", 0.01, 0.1),
    "dtsh": other("dtsh", "margin", 5.0, 8.0),
    "hashnet": other("hashnet", "logits", 5, 10),
    "mdshc": other("mdshc", "quantization_weight", 1e-4, 0.1),
    "orthohash": other("orthohash", "scale", 2.0, 8.0),
    "sdh": (sdh, RIDGES),
    "neighbor": (neighbor, candidates("temperature", (0.24, 0.96), (0.03, 0.1))),
    "ITQ": (itq, [{}]),
}

# Of DualHash

SEEDS, BITS, SETS = (0, 1, 2), (64, 16, 48), ("fashion_mnist", "digits")
STORM_STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FORGETTING = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
GRID = {
    "adamw": ("adamw", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)),
    "momentum": (NESTEROV, (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)),
} | {f"storm {c}": (partial(Storm, forgetting=c), STORM_STEPS) for c in FORGETTING}
# How the paper's supplement has the penalty, all with momentum, and other losses.
SOLVERS = {
    "StoM (dual)": "dual",
    "SGDM (subgradient)": "subgradient",
    "SPGD (prox)": "prox",
    "WCR": "wcr",
    "no penalty": None,
}
LOSSES = ("dhn", "hashnet", "orthohash", "mdshc")
KNOWN = tools.ROOT / "docs/results/supervised_hashing.md"
WEIGHTS = {"w_weight": (0.001, 0.01, 0.1, 1.0), "penalty": (0.01, 0.1, 1.0, 10.0)}

# Measures

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


def measure(make, params, n_bits, seed, task, options):
    """Fit once; return what the codes reach in each search of a task."""
    name, protocol = task
    drawn = seed if protocol == "unseen" else 0
    train, searches = experiment(name, protocol, drawn, options.data_home)
    encoder = make(n_bits, seed, options, **params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The dual variable")  # kept as a share
        seconds, _ = tools.seconds_of(encoder.fit, *train)
    history = getattr(encoder, "history_", [])
    result = {"params": params, "fit_seconds": seconds}
    result["losses"] = [epoch["train_loss"] for epoch in history]
    result["seconds"] = median(it["dur"] for it in history) if history else None
    for own in ("quantization_error_", "dual_active_fraction_"):
        result[own] = getattr(encoder, own, None)
    return {name: result | scores(encoder, it) for name, it in searches.items()}


def scores(encoder, search):
    codes = encoder.transform(search.query), encoder.transform(search.database)
    labelled = *codes, search.query_labels, search.database_labels
    precisions = metrics.precision_at_k_score(*labelled, k=CUTS)
    result = {f"P@{k}": own for k, own in zip(CUTS, precisions, strict=True)}
    result["mAP"] = metrics.mean_average_precision_score(*labelled)
    result["P@r2"], result["coverage"] = metrics.precision_within_radius_score(
        *labelled, return_coverage=True
    )
    result["separability"] = metrics.separability_score(*labelled)
    histogram = np.array(metrics.hamming_distance_histogram(*labelled))
    result["histogram"] = histogram.tolist()
    found, strange = histogram.astype(float).cumsum(axis=1)
    recall, precision = found / found[-1], found / np.maximum(found + strange, 1)
    levels = np.interp(LEVELS, recall, precision).tolist()
    return result | {"PR": dict(zip(map(str, LEVELS), levels, strict=True))}


def exact_cosine(seed, protocol, options):
    """Return the precisions of the rows themselves, ranked by their cosine."""
    drawn = seed if protocol == "unseen" else 0
    searches = experiment("fashion_mnist", protocol, drawn, options.data_home)[1]
    return {name: cosine_scores(search) for name, search in searches.items()}


def cosine_scores(search):
    query, database = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (search.query, search.database)
    )
    precisions, at_cuts = [], []
    for start in range(0, len(query), 250):
        block = slice(start, start + 250)
        order = np.argsort(-(query[block] @ database.T), axis=1)
        relevant = search.database_labels[order] == search.query_labels[block, None]
        precision = relevant.cumsum(axis=1) / np.arange(1, len(database) + 1)
        precisions.append((precision * relevant).sum(axis=1) / relevant.sum(axis=1))
        at_cuts.append(precision[:, np.subtract(CUTS, 1)])
    at_cuts = np.concatenate(at_cuts).mean(axis=0).tolist()
    result = {f"P@{k}": value for k, value in zip(CUTS, at_cuts, strict=True)}
    return {"mAP": float(np.concatenate(precisions).mean())} | result


# Parts


def losses(results, options):
    """Choose a setting of each method, and measure it in all databases."""
    validation = "fashion_mnist", "validation"
    for method in options.methods:
        make, settings = METHODS[method]
        for params in settings if len(settings) > 1 else ():
            it = make, params, TUNING_BITS, TUNING_SEED, validation, options
            name = f"losses / tuning / {method} / {json.dumps(params)}"
            results.get(name, partial(measure, *it))
        params = best_of(tried(results.content["cells"], method)) or settings[0]
        for case in product(options.protocols, options.bits, options.seeds):
            protocol, n_bits, seed = case
            it = make, params, n_bits, seed, ("fashion_mnist", protocol), options
            name = f"losses / {protocol} / {method} / {n_bits} / {seed}"
            results.get(name, partial(measure, *it))
    for protocol, seed in product(options.protocols, options.seeds):
        if protocol == "unseen" or seed == options.seeds[0]:
            name = f"losses / {protocol} / exact cosine / 0 / {seed}"
            results.get(name, partial(exact_cosine, seed, protocol, options))


def tried(cells, method):
    """Return the precision and the parameters of each candidate of a method."""
    found = of_part(cells, f"losses / tuning / {method}")
    return [(it["validation"]["mAP"], it["validation"]["params"]) for it in found]


def best_of(pairs):
    """Return the setting of the highest value, the first of them."""
    return max(pairs, key=lambda pair: pair[0])[1] if pairs else None


def of_part(cells, start):
    return [cell for name, cell in cells.items() if name.startswith(f"{start} / ")]


def with_solver(optimizer, solver="dual"):
    return partial(dual, solver=solver, optimizer=optimizer)


def tune(results, name, options):
    """Try the grid on validation rows; return the step size of each optimizer."""
    for label, (optimizer, lrs) in GRID.items():
        for lr in lrs:
            task = {"lr": lr}, TUNING_BITS, TUNING_SEED, (name, "validation"), options
            make = partial(measure, with_solver(optimizer), *task)
            results.get(f"{name} / tuning / {label} / {lr}", make)
    return chosen(results.content["cells"], name)


def grid_of(cells, name):
    """Return what was reached by optimizer and step size; None where it diverged."""
    found = {
        label: {lr: cells.get(f"{name} / tuning / {label} / {lr}") for lr in lrs}
        for label, (_, lrs) in GRID.items()
    }
    return {
        label: {lr: cell and cell["validation"] for lr, cell in own.items()}
        for label, own in found.items()
    }


def chosen(cells, name):
    """Return the step size of each optimizer: of STORM with the best forgetting."""
    best = {
        label: max((cell["mAP"], lr) for lr, cell in own.items() if cell)
        for label, own in grid_of(cells, name).items()
        if any(own.values())
    }
    if len(best) < len(GRID):
        return {}
    storm = max((it for it in best if it.startswith("storm")), key=best.get)
    labels = dict.fromkeys(["adamw", "momentum", storm, "storm 0.1", "storm 1.0"])
    return {label: best[label][1] for label in labels}


def optimizers(results, options):
    """Tune all optimizers, and train what was chosen with each seed."""
    for name in SETS[::-1]:
        for label, lr in tune(results, name, options).items():
            for seed in SEEDS:
                task = {"lr": lr}, TUNING_BITS, seed, (name, "seen"), options
                make = partial(measure, with_solver(GRID[label][0]), *task)
                results.get(f"{name} / chosen / {label} / {lr} / {seed}", make)


def lengths(results, options):
    """Compare solvers and losses at three lengths, what says most first."""
    picked = tune(results, "fashion_mnist", options)
    storm = [label for label in picked if label.startswith("storm")][0]
    makes = {
        label: (with_solver(NESTEROV, name), {"lr": picked["momentum"]})
        for label, name in SOLVERS.items()
    }
    makes["StoRM"] = with_solver(GRID[storm][0]), {"lr": picked[storm]}
    for row in tools.read_table(KNOWN, "mAP of the candidates"):
        if row["method"] in LOSSES:
            params = json.loads(row["chosen"].strip("`"))
            makes[row["method"]] = METHODS[row["method"]][0], params
    for seed, n_bits, (label, it) in product(SEEDS, BITS, makes.items()):
        make = partial(measure, *it, n_bits, seed, ("fashion_mnist", "seen"), options)
        results.get(f"lengths / {label} / {n_bits} / {seed}", make)


def weights(results, options):
    """Try pairs of the penalty's weights, with the solver of the paper."""
    lr = tune(results, "fashion_mnist", options)["momentum"]
    for n_bits, *values in product((64, 16), *WEIGHTS.values()):
        params = {"lr": lr} | dict(zip(WEIGHTS, values, strict=True))
        task = params, n_bits, TUNING_SEED, ("fashion_mnist", "validation"), options
        make = partial(measure, with_solver(NESTEROV), *task)
        results.get(f"weights / {n_bits} / {values}", make)


# Tables

COLUMNS = tools.columns(
    "mAP :.3f | P@100 :.3f | P@1000 :.3f | P@r2 :.3f | coverage :.3f | q. error :.3f | "
    "separability :.1f | s/epoch :.2f"
)
KEYS = {"q. error": "quantization_error_", "s/epoch": "seconds"}


def scores_table(by_method):
    """Return means over the runs of each method, best mean average precision first."""
    table = tools.Table({"method": "", **COLUMNS, "seeds": ""})
    for method, runs in by_method.items():
        found = [[run.get(KEYS.get(name, name)) for run in runs] for name in COLUMNS]
        found = [[value for value in own if value is not None] for own in found]
        means = tools.with_spread(found[0]), *map(tools.mean_of, found[1:])
        table.rows.append([method, *means, len(runs)])
    table.rows.sort(key=lambda row: -np.atleast_1d(row[1])[0])
    return table


def compared(cells, part):
    """Return the runs of "losses" or "lengths" by database, bits and method."""
    found = {}
    for name, cell in cells.items():
        if name.startswith(part) and "tuning" not in name:
            *_, method, n_bits, _ = name.split(" / ")
            for database, run in cell.items():
                by_method = found.setdefault((database, int(n_bits)), {})
                by_method.setdefault(method, []).append(run)
    return found


def loss_tables(cells):
    """Return the tables of all databases, with the exact cosine as a bound."""
    found, tables = compared(cells, "losses"), {}
    for (database, n_bits), by_method in found.items():
        if n_bits:
            bound = found.get((database, 0), {})
            tables[f"{database}_{n_bits}"] = scores_table(by_method | bound)
    table = tools.Table("method | candidates | chosen")
    for method in METHODS:
        if pairs := tried(cells, method):
            values = " ".join(f"{value:.3f}" for value, _ in pairs)
            table.rows.append([method, values, f"`{json.dumps(best_of(pairs))}`"])
    return tables | {"mAP of the candidates on validation images": table}


def grid_tables(cells, name):
    """Return mean average precision on validation rows, and the last loss, by step."""
    measures = {
        "grid": lambda it: it["mAP"],
        "grid_losses": lambda it: it["losses"][-1],
    }
    tables = {}
    for key, value in measures.items():
        table = tables[f"{name}_{key}"] = tools.Table(
            "optimizer | step sizes | reached"
        )
        for label, own in grid_of(cells, name).items():
            reached = (f"{value(it):.3f}" if it else "diverged" for it in own.values())
            steps = " ".join(f"{lr:g}" for lr in own)
            table.rows.append([label, steps, " ".join(reached)])
    return tables


def chosen_tables(cells, name):
    """Return what the chosen settings reach, and their losses by epoch."""
    table = tools.Table(
        "optimizer | step :g | mAP :.3f | P@r2 :.3f | last loss :.3f | s/epoch :.2f"
    )
    curves = {}
    for label, lr in chosen(cells, name).items():
        found = of_part(cells, f"{name} / chosen / {label} / {lr}")
        if runs := [cell["separate"] for cell in found]:
            curves[label] = np.mean([run["losses"] for run in runs], axis=0).tolist()
            values = [[run[key] for run in runs] for key in ("mAP", "P@r2")]
            values.append([run["losses"][-1] for run in runs])
            seconds = median(run["seconds"] for run in runs)
            table.rows.append([label, lr, *map(tools.with_spread, values), seconds])
    epochs = enumerate(zip(*curves.values(), strict=True), 1)
    rows = [[epoch, *values] for epoch, values in epochs]
    losses = tools.Table({"epoch": "", **dict.fromkeys(curves, ".3f")}, rows)
    return {f"{name}_chosen": table, f"{name}_curves": losses}


def length_tables(cells):
    """Return all measures in both databases, and precision by recall at 64 bits."""
    found = compared(cells, "lengths")
    tables = {f"{it}_{n}": scores_table(own) for (it, n), own in sorted(found.items())}
    curve = tools.Table({"method": "", **{f"recall {it:g}": ".3f" for it in LEVELS}})
    for label, runs in found.get(("separate", 64), {}).items():
        means = [
            tools.mean_of([run["PR"][str(level)] for run in runs]) for level in LEVELS
        ]
        curve.rows.append([label, *means])
    return tables | {"precision_by_recall": curve}


def weight_tables(cells):
    """Return mean average precision on validation rows for all pairs of weights."""
    pairs = {f"penalty {it:g}": ".3f" for it in WEIGHTS["penalty"]}
    table = tools.Table({"bits": "", "w_weight": "", **pairs})
    for n_bits, w in product((16, 64), WEIGHTS["w_weight"]):
        names = [f"weights / {n_bits} / {[w, p]}" for p in WEIGHTS["penalty"]]
        found = [
            cells[it]["validation"]["mAP"] if it in cells else None for it in names
        ]
        if any(found):
            table.rows.append([n_bits, f"{w:g}", *found])
    return {"weights": table}


def tables_of(cells):
    tables = loss_tables(cells)
    for name in SETS:
        if of_part(cells, f"{name} / tuning"):
            tables |= chosen_tables(cells, name) | grid_tables(cells, name)
    return tables | length_tables(cells) | weight_tables(cells)


def draw(cells, path):
    """Draw the distances of queries to images with and without a common label."""
    shown = ("ITQ", "cross_entropy", "mdshc", "default")
    cells = {
        it: of_part(cells, f"losses / seen / {it} / {TUNING_BITS}") for it in shown
    }
    runs = {method: own[0]["separate"] for method, own in cells.items() if own}
    titles = [f"{method}, mAP {run['mAP']:.3f}" for method, run in runs.items()]
    figure, axes = tools.panels(titles, 2, size=(3.8, 2.5), sharex=True, sharey=True)
    for ax, title, run in zip(axes, titles, runs.values(), strict=True):
        histogram = map(np.array, run["histogram"])
        metrics.DistanceHistogramDisplay(*histogram, name=title).plot(ax)
        ax.label_outer()
        ax.get_legend().remove()
    tools.finish(figure, path)


PARTS = {it.__name__: it for it in (losses, optimizers, lengths, weights)}


def main():
    protocols = dict.fromkeys(["seen", "unseen"])
    cells = {"protocols": protocols, "bits": [32, 64], "methods": METHODS}
    fits = {"seeds": list(SEEDS), "epochs": 15, "hidden": 256, "convolutions": False}
    more = {"device": "auto", "picture": None}
    parser = tools.options(__doc__, grows=True, **cells, **fits, **more)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    options = parser.parse_args()
    if options.show:
        content = tools.merged(options.show)
    else:
        results = tools.Results(
            options.output, lambda cell: [round(it["mAP"], 4) for it in cell.values()]
        )
        for part in options.parts:
            PARTS[part](results, options)
        content = results.content
    cells = content["cells"]
    fits = [it for it in cells if "tuning" not in it and not it.startswith("weights")]
    about = {"seeds": sorted({int(name.rsplit(" / ", 1)[1]) for name in fits})}
    about["data"] = "Fashion-MNIST: 10 000 training images, 5000 queries"
    about["data"] += "; digits" * any(name.startswith("digits") for name in cells)
    tools.print_and_save(tables_of(cells), content, options.results, **about)
    if options.picture:
        draw(cells, options.picture)


if __name__ == "__main__":
    main()
