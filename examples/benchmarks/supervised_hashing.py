"""Supervised codes: DualHashEncoder beside the losses of SupervisedHash, and bounds.

On Fashion-MNIST the training set is 1000 images of each class of the training part, 500
others of each class are for validation, and 500 images of each class of the test part
are the queries. They are searched for in three databases, one a *protocol*::

    training   the training set itself, as in the papers
    separate   the 45 000 images of the training part that are left
    unseen     the images of three classes, with an encoder that saw the seven others

With "minilm", sentence embeddings of 20 Newsgroups, the training messages are the
training set and the database, and "unseen" leaves out six groups. Which classes are
left out is drawn by the seed::

    python examples/benchmarks/supervised_hashing.py fashion_mnist
    python examples/benchmarks/supervised_hashing.py minilm --data-home DIR
    python examples/benchmarks/supervised_hashing.py --cnn --device cuda --full
    python examples/benchmarks/supervised_hashing.py --show FILE ... --results FILE

The default is a reduced setting for two cores; ``--full`` has 16 to 64 bits and larger
networks. Each method has four candidate settings: two step sizes, and two values of one
constant of its own. The one with the best mean average precision on the validation
images, against the separate database, at one length with one seed, is taken everywhere.
All networks are trained for the same number of epochs, with a cosine schedule.
"""

import argparse
import json
import statistics
import sys
import warnings
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from data_sets import load_20newsgroups, load_fashion_mnist
from growing_results import command, describe, head
from joblib import Parallel, delayed
from result_files import Table, add_files, mean_of, save
from skorch.callbacks import LRScheduler
from timing import seconds_of
from torch import nn

from skhash import DualHashEncoder, ITQHash, SupervisedHash, metrics
from skhash.linear import SupervisedDiscreteHash
from skhash.losses import make_loss
from skhash.training import Optimizer

CUTS = (100, 1000)
TUNING_SEED = 100
REDUCED = {"bits": [32, 64], "epochs": 15, "hidden": 256}
FULL = {"bits": [16, 32, 48, 64], "epochs": 60, "hidden": 1024}


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
def load(name, data_home):
    """Return training rows, other rows, validation rows and queries, with labels."""
    if name == "minilm":
        data = load_20newsgroups("minilm", data_home=data_home)
        X, y = data.train, data.train_labels
        sizes = (len(y) // 200, len(y))  # a tenth of the messages
        validation, train = of_each_class(y, sizes, np.random.RandomState(0))
        other = train[:0]
        query = np.arange(len(data.query_labels))
    else:
        data = load_fashion_mnist(n_queries=None, data_home=data_home)
        X, y = data.train, data.train_labels
        sizes = (1000, 500, len(y))
        train, validation, other = of_each_class(y, sizes, np.random.RandomState(0))
        (query,) = of_each_class(data.query_labels, (500,), np.random.RandomState(0))
    parts = {"train": train, "other": other, "validation": validation}
    parts = {part: (X[rows], y[rows]) for part, rows in parts.items()}
    return parts | {"query": (data.query[query], data.query_labels[query])}


@cache
def experiment(name, protocol, seed, data_home):
    """Return training rows with their labels, and the searches by their names."""
    parts = load(name, data_home)
    train, other, validation, query = (
        parts[part] for part in ("train", "other", "validation", "query")
    )
    if protocol == "tuning":
        database = other if len(other[1]) else train
        return train, {"validation": Search(*validation, *database)}
    if name == "minilm":
        train = tuple(map(np.concatenate, zip(train, validation, strict=True)))
        other = train
    if protocol == "seen":
        searches = {"training": Search(*query, *train)}
        if name != "minilm":
            searches["separate"] = Search(*query, *other)
        return train, searches
    classes = np.unique(train[1])
    n_unseen = round(0.3 * len(classes))
    unseen = np.random.RandomState(seed).choice(classes, n_unseen, replace=False)
    seen, query, database = (
        tuple(values[np.isin(part[1], unseen) == is_new] for values in part)
        for part, is_new in ((train, False), (query, True), (other, True))
    )
    return seen, {"unseen": Search(*query, *database)}


# Methods


def small_cnn(n_features, n_bits):
    """Two convolutions and a hidden layer for images of 28 x 28 pixels."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        nn.MaxPool2d(2),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *(nn.Linear(32 * 49, 256, bias=False), nn.BatchNorm1d(256), nn.ReLU()),
        *(nn.Linear(256, n_bits, bias=False), nn.BatchNorm1d(n_bits)),
    )


def network(setting):
    """Return the parameters that all networks have in common."""
    epochs = setting["epochs"]
    params = {
        "max_epochs": epochs,
        "device": setting["device"],
        "callbacks": [LRScheduler("CosineAnnealingLR", T_max=epochs)],
    }
    if setting["cnn"]:
        return params | {"module": small_cnn, "input_shape": (1, 28, 28)}
    return params | {"hidden_layer_sizes": (setting["hidden"],)}


def per_bit(params, n_bits):
    """Replace "logits", the likelihood's scale times the bits, by the scale."""
    if "logits" in params:
        params = params | {"logit_scale": params["logits"] / n_bits}
        del params["logits"]
    return params


def dual(n_bits, seed, setting, *, solver="prox", optimizer="adamw", lr=1e-3, **params):
    loss = make_loss("dualhash").set_params(solver=solver, **per_bit(params, n_bits))
    steps = {"optimizer": optimizer, "lr": lr, "random_state": seed}
    return DualHashEncoder(n_bits, loss=loss, **steps, **network(setting))


def with_loss(name, n_bits, seed, setting, *, lr, dropout=0.0, **params):
    loss = make_loss(name).set_params(**per_bit(params, n_bits))
    params = network(setting)
    if not setting["cnn"]:
        params["dropout"] = dropout
    return SupervisedHash(n_bits, loss=loss, lr=lr, random_state=seed, **params)


def sdh(n_bits, seed, setting, **params):
    return SupervisedDiscreteHash(n_bits, random_state=seed, **params)


def itq(n_bits, seed, setting):
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


NESTEROV = Optimizer("sgd", momentum=0.9, nesterov=True)
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
    "contrastive": other("contrastive", "temperature", 1.0, 2.0),
    "csq": other("csq", "quantization_weight", 1e-4, 0.1),
    "dhn": other("dhn", "logits", 5, 20),
    "dsdh": other("dsdh", "logits", 5, 20),
    "dsh": other("dsh", "quantization_weight", 0.01, 0.1),
    "dtsh": other("dtsh", "margin", 5.0, 8.0),
    "hashnet": other("hashnet", "logits", 5, 10),
    "mdshc": other("mdshc", "quantization_weight", 1e-4, 0.1),
    "orthohash": other("orthohash", "scale", 2.0, 8.0),
    "sdh": (sdh, RIDGES),
    "ITQ": (itq, [{}]),
}


# Measures


def measure(method, params, n_bits, seed, data, setting):
    """Fit once; return what the codes reach in each search of the data."""
    train, searches = data
    encoder = METHODS[method][0](n_bits, seed, setting, **params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The dual variable")  # shown in a column
        seconds, _ = seconds_of(encoder.fit, *train)
    result = {"method": method, "n_bits": n_bits, "seed": seed, "params": params}
    history = getattr(encoder, "history_", [])
    result["losses"] = [epoch["train_loss"] for epoch in history]
    durations = [epoch["dur"] for epoch in history]
    result["seconds"] = statistics.median(durations) if durations else None
    result["fit_seconds"] = seconds
    for name in ("quantization_error_", "dual_active_fraction_"):
        result[name] = getattr(encoder, name, None)
    return [
        result | {"protocol": name} | scores(encoder, search, setting["tuning"])
        for name, search in searches.items()
    ]


def scores(encoder, search, only_map):
    codes = encoder.transform(search.query), encoder.transform(search.database)
    labelled = *codes, search.query_labels, search.database_labels
    result = {"mAP": metrics.mean_average_precision_score(*labelled)}
    if only_map:
        return result
    for k, precision in zip(
        CUTS, metrics.precision_at_k_score(*labelled, k=CUTS), strict=True
    ):
        result[f"P@{k}"] = precision
    result["P@r2"], result["coverage"] = metrics.precision_within_radius_score(
        *labelled, return_coverage=True
    )
    result["separability"] = metrics.separability_score(*labelled)
    histogram = metrics.hamming_distance_histogram(*labelled)
    result["histogram"] = [counts.tolist() for counts in histogram]
    return result


def cosine_scores(search):
    """Return the same for the rows themselves, ranked by their cosine."""
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
    at_cuts = np.concatenate(at_cuts).mean(axis=0)
    result = {f"P@{k}": value for k, value in zip(CUTS, at_cuts, strict=True)}
    return {"mAP": np.concatenate(precisions).mean()} | result


def run_all(jobs, n_jobs):
    """Yield the results of all jobs in their order."""
    runs = Parallel(n_jobs, return_as="generator")(delayed(measure)(*j) for j in jobs)
    for results in runs:
        yield from results


def tune(arguments, setting):
    """Return what the candidates of each method reached, and print it."""
    data = experiment(arguments.data, "tuning", 0, arguments.data_home)
    jobs = [
        (method, params, arguments.tuning_bits, TUNING_SEED, data, setting)
        for method in arguments.methods
        for params in METHODS[method][1]
        if len(METHODS[method][1]) > 1
    ]
    found = {method: [] for method in arguments.methods}
    for result in run_all(jobs, arguments.jobs):
        found[result["method"]].append((result["mAP"], result["params"]))
    print(f"\nmAP on validation rows, {arguments.tuning_bits} bits, one seed:")
    candidates_table(found).printed()
    return found


def candidates_table(found):
    """Return what each method's candidates reached, and which was chosen."""
    table = Table(dict.fromkeys(("method", "candidates", "chosen"), ""))
    for method, tried in found.items():
        if len(tried) > 1:
            values = " ".join(f"{value:.3f}" for value, _ in tried)
            table.rows.append([method, values, f"`{json.dumps(best(tried))}`"])
    return table


def best(tried):
    """Return the parameters of the highest value."""
    return max(tried, key=lambda pair: pair[0])[1] if tried else {}


# Tables

COLUMNS = {
    **dict.fromkeys(("mAP", "P@100", "P@1000", "P@r2"), ".3f"),
    **{"coverage": ".2f", "quantization_error_": ".3f"},
    **{"separability": ".1f", "seconds": ".2f"},
}
TITLES = {"quantization_error_": "q. error", "seconds": "s/epoch"}


def data_of(protocol, seed, arguments):
    """Return the data of a run: only "unseen" depends on the seed."""
    seed = seed if protocol == "unseen" else 0
    return experiment(arguments.data, protocol, seed, arguments.data_home)


def show(outputs, arguments):
    """Print and save the tables of runs, with the exact cosine as a bound."""
    results = [result for output in outputs for result in output["results"]]
    seeds = sorted({result["seed"] for result in results})
    print(f"\nmAP, mean over seeds {seeds} ± half the range")
    kinds = {(result["protocol"], result["n_bits"]): None for result in results}
    tables, bounds = {"validation": candidates_table(outputs[0]["tuning"])}, {}
    for protocol, n_bits in kinds:
        if protocol not in bounds:
            kind = "unseen" if protocol == "unseen" else "seen"
            drawn = seeds if protocol == "unseen" else [0]
            searches = [data_of(kind, s, arguments)[1][protocol] for s in drawn]
            scores = [cosine_scores(search) for search in searches]
            bounds[protocol] = {
                it: mean_of([s[it] for s in scores]) for it in scores[0]
            }
        print(f"\n{protocol}, {n_bits} bits:")
        table = table_of(results, protocol, n_bits, bounds[protocol]).printed()
        tables[f"{protocol}_{n_bits}"] = table
    active = {it["method"]: it["dual_active_fraction_"] for it in results}
    active = {name: share for name, share in active.items() if share is not None}
    print(f"\nshare of the dual variable that was not 0: {active}")
    figures = {"dual_active": active}
    measured = outputs[-1].get("head", head())
    commands = [c for o in outputs for c in o.get("head", {}).get("commands", [])]
    measured = {**measured, "commands": list(dict.fromkeys(commands))}
    save(arguments.results, tables, figures, seeds=seeds, measured=measured)


def table_of(results, protocol, n_bits, bound):
    """Return means over seeds, best mean average precision first."""
    names = {TITLES.get(name, name): form for name, form in COLUMNS.items()}
    by_method = {}
    for result in results:
        if result["protocol"] == protocol and result["n_bits"] == n_bits:
            by_method.setdefault(result["method"], []).append(result)
    rows = [["exact cosine", *map(bound.get, COLUMNS)]]
    for method, runs in by_method.items():
        found = {name: [run[name] for run in runs] for name in COLUMNS}
        known = ([it for it in own if it is not None] for own in found.values())
        cells = [mean_of(own) for own in known]
        cells[0] = [cells[0], float(np.ptp(found["mAP"])) / 2]
        rows.append([method, *cells])
    rows.sort(key=lambda row: -np.atleast_1d(row[1])[0])
    return Table({"method": "", **names}, rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    option, sets = parser.add_argument, ["fashion_mnist", "minilm"]
    both, unseen = ["seen", "unseen"], '"seen" is both "training" and "separate"'
    option("data", nargs="?", default=sets[0], choices=sets)
    option("--cnn", action="store_true", help="a CNN in place of the MLP")
    option("--full", action="store_true", help="the large setting")
    option("--bits", type=int, nargs="+")
    option("--epochs", type=int)
    option("--hidden", type=int, help="units of the hidden layer")
    option("--tuning-bits", type=int, default=32)
    option("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    option("--seeds", type=int, nargs="+", default=[0, 1, 2])
    option("--protocols", nargs="+", default=both, choices=both, help=unseen)
    option("--jobs", type=int, default=1, help="processes")
    option("--tuned", type=Path, help="take what this output file chose")
    add_files(parser)
    arguments = parser.parse_args()
    for name, value in (FULL if arguments.full else REDUCED).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.cnn and arguments.data != "fashion_mnist":
        parser.error("--cnn is for images")
    return arguments


def main():
    arguments = parse()
    names = ("data", "data_home", "cnn", "epochs", "hidden", "device")
    setting = {name: getattr(arguments, name) for name in names}
    try:
        load(arguments.data, arguments.data_home)
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"{describe(head())}\n{setting}")
    if arguments.show:
        show([json.loads(path.read_text()) for path in arguments.show], arguments)
        return
    if arguments.tuned:
        tried = json.loads(arguments.tuned.read_text())["tuning"]
    else:
        tried = tune(arguments, setting | {"tuning": True})
    chosen = {method: best(tried[method]) for method in arguments.methods}
    setting["tuning"] = False
    jobs = [
        (method, chosen[method], n_bits, seed, data_of(protocol, seed, arguments))
        + (setting,)
        for protocol in arguments.protocols
        for n_bits in arguments.bits
        for method in arguments.methods
        for seed in arguments.seeds
    ]
    measured = {**head(), "commands": [command()]}
    output = {"head": measured, "setting": setting, "tuning": tried, "results": []}
    for result in run_all(jobs, arguments.jobs):
        output["results"].append(result)
        if arguments.output:
            arguments.output.write_text(json.dumps(output, indent=1))
    show([output], arguments)


if __name__ == "__main__":
    main()
