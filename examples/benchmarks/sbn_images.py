"""Stochastic binary networks on images: noises, estimators, binary weights, ensembles.

`SBNClassifier` learns Fashion-MNIST, the digits of scikit-learn, or CIFAR-10 from the
folder ``cifar-10-batches-bin`` of the data home. Beside it stands a network of ReLU
units of the same shape, its real twin, trained by the same loop with the same batches,
batch norms, optimizer, schedule and augmentation::

    python examples/benchmarks/sbn_images.py --networks mlp --output mlp.json
    python examples/benchmarks/sbn_images.py --lrs auto --output convolutions.json
    python examples/benchmarks/sbn_images.py --show convolutions.json --results FILE
    python examples/benchmarks/sbn_images.py --data cifar10 --full --output cifar10.json

The default are convolutions of a third of the papers' width and a few rows, for one
core; ``--full`` has the papers' networks, all rows and their augmentation, and wants a
GPU. What is measured is in the output file after each fit, and is not measured again:
an interrupted run resumes where it was, and more ``--seeds``, or other ``--rows`` and
``--epochs``, add to what is there.

A method's learning rate is the best of ``--lrs`` on validation rows, with one seed and
half of the epochs; or, by ``--lrs auto``, that which a search of ten trials finds,
once, on a part of the rows. All seeds share it. The test rows are predicted by the
network without noise ("det"), and by ensembles of networks with noise.
"""

import time
from functools import cache, partial
from pathlib import Path
from statistics import median

import numpy as np
import tools
import torch
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from tools import images

from skhash import SBNClassifier
from skhash.datasets import load_digits_retrieval
from skhash.gradients import LayerwiseGradient, MuProp, Reinforce

TUNING_SEED = 100
N_VALIDATION = 2000
# The search for a rate, as in the PSA paper: epochs of each trial, trials, the range of
# logarithms, and what the loss of a training that diverges counts as.
SEARCH_EPOCHS, SEARCH_STEPS, LOG_LR, WORST_LOSS = 5, 10, (-6, 0), 1e10
# Training rows that the expected loss is evaluated on, with one draw of the noise each.
N_EXPECTED = 5000
# Images that are predicted at a time.
CHUNK = 200
# Added to probabilities, so that their logarithms are finite.
TINY = 1e-12

AUGMENTATIONS, allconv, vgg = images.AUGMENTATIONS, images.allconv, images.vgg
REDUCED = {
    "mlp": {"epochs": 10, "hidden_layer_sizes": (256, 256)},
    "allconv": {"epochs": 8, "architecture": allconv(32, 64), "batch_size": 64},
    "vgg": {"epochs": 8, "architecture": vgg(40, 80, 160), "batch_size": 64},
}
REDUCED["allconv"]["hidden_layer_sizes"] = ()
REDUCED["vgg"]["hidden_layer_sizes"] = (340, 340)
REDUCED_ROWS = 10_000
FULL = {
    "mlp": {"epochs": 50, "hidden_layer_sizes": (512, 512), "augment": "affine"},
    "allconv": {"epochs": 500, "augment": "flip_crop", "hidden_layer_sizes": ()},
    "vgg": {"epochs": 500, "augment": "flip_crop", "hidden_layer_sizes": (1024, 1024)},
}
FULL["allconv"]["architecture"] = allconv(96, 192)
FULL["vgg"]["architecture"] = vgg(128, 256, 512)


class ReLU(LayerwiseGradient):
    """Makes units real: what is above noise is their value, in place of their sign."""

    def sample(self, logits, generator=None, *, units=None):
        return logits.relu()


# Differences of methods from straight-through with logistic noise and real weights.
METHODS = {
    "st": {},
    "st uniform": {"noise": "uniform"},
    "st triangular": {"noise": "triangular"},
    **{it: {"gradient": it} for it in ("psa", "zgr", "gumbel", "tanh", "det_st")},
    **{it: {"gradient": it} for it in ("identity_st", "hard_st", "adf")},
    **{it: {"gradient": it} for it in ("local_reparam", "disarm")},
    "reinforce": {"gradient": Reinforce(baseline="row")},
    "muprop": {"gradient": MuProp(baseline="row")},
    "st mirror": {"weights": "mirror"},
    "st pgd": {"weights": "pgd"},
    "st lr=auto": {"lr": "auto"},
    "default": {"gradient": "zgr", "init_scale": 2.0},
    "from real": {"gradient": "zgr", "init_scale": 2.0, "init": "real"},
    "relu": {"gradient": ReLU()},
}
# PSA cannot pass the pooling of "vgg".
NETWORK_METHODS = {
    "mlp": tuple(METHODS),
    "allconv": ("st", "psa", "relu"),
    "vgg": ("st", "relu"),
}


@cache
def load(name, network, data_home):
    """Return shuffled training rows, validation rows and test rows, and their shape."""
    if name == "cifar10":
        home = Path(data_home or "~/skhash_data").expanduser() / "cifar-10-batches-bin"
        files = [home / f"data_batch_{number}.bin" for number in range(1, 6)]
        X, y = tools.read_cifar_binary(files)
        X_test, y_test = tools.read_cifar_binary([home / "test_batch.bin"])
        X, X_test = (np.float32(images) / 255 for images in (X, X_test))
        shape = (3, 32, 32)
    else:
        is_small, side = name == "digits", 8 if name == "digits" else 28
        fashion = partial(tools.load_fashion_mnist, n_queries=None, data_home=data_home)
        data = (load_digits_retrieval if is_small else fashion)()
        X, y, shape = data.train, data.train_labels, (1, side, side)
        X_test, y_test = data.query, data.query_labels
        if network == "allconv" and not is_small:
            # Made for 32 x 32 pixels; it would leave one place of smaller images.
            X, X_test, shape = framed(X), framed(X_test), (1, 32, 32)
    order = np.random.RandomState(0).permutation(len(X))
    validation, train = np.split(order, [min(N_VALIDATION, len(X) // 5)])
    parts = {"train": train, "validation": validation}
    parts = {part: (X[rows], y[rows]) for part, rows in parts.items()}
    return parts | {"test": (X_test, y_test)}, shape


def framed(X):
    """Return images of 28 x 28 in a black frame of two pixels."""
    return np.pad(X.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2))).reshape(len(X), -1)


def classifier(network, method, lr, seed, arguments, share=1.0):
    """Return a classifier to fit, for a share of the epochs, and how many rows."""
    params = dict((FULL if arguments.full else REDUCED)[network])
    epochs, rows = params.pop("epochs"), None if arguments.full else REDUCED_ROWS
    augment = arguments.augment or params.get("augment")
    params["augment"] = AUGMENTATIONS.get(augment)
    model = SBNClassifier(
        input_shape=load(arguments.data, network, arguments.data_home)[1],
        max_epochs=round(share * (arguments.epochs or epochs)),
        gradient="st",
        init_scale=1.0,  # the papers' start
        lr_schedule="cosine",
        device=arguments.device,
        random_state=seed,
    )
    model.set_params(**{"lr": lr} | params | METHODS[method])
    return model, arguments.rows or rows


def name_of(model):
    """Return the name of what changes the images, None without."""
    return {change: name for name, change in AUGMENTATIONS.items()}.get(model.augment)


def measure(network, method, lr, seed, part, arguments, share=1.0):
    """Fit once, for a share of the epochs; return what predictions of a part reach."""
    data, _ = load(arguments.data, network, arguments.data_home)
    model, rows = classifier(network, method, lr, seed, arguments, share)
    X, y = (values[:rows] for values in data["train"])
    start, cpu_start = time.perf_counter(), time.process_time()
    if model.lr == "auto":
        model.set_params(lr=least_loss_rate(model, X, y))
    model.fit(X, y)
    result = {
        "network": network,
        "method": method if model.augment is None else f"{method}, {name_of(model)}",
        "seed": seed,
        "lr": model.lr,
        "rows": len(X),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu_start,
        "losses": [epoch["train_loss"] for epoch in model.history_],
    }
    if arguments.expected and not isinstance(model.gradient, ReLU):
        some = X[:N_EXPECTED], y[:N_EXPECTED]
        result["expected"] = quality(probabilities(model, some[0], 0), some[1])
    return result | scores(model, *data[part], arguments.sizes)


def scores(model, X, y, sizes):
    """Return accuracies and log losses of each way to predict."""
    found = {"det": quality(probabilities(model, X), y)}
    if isinstance(model.gradient, ReLU):
        return found
    sums = 0.0
    for n_members in range(1, max(sizes) + 1):
        sums = sums + probabilities(model, X, seed=n_members)
        if n_members in sizes:
            found[str(n_members)] = quality(sums / n_members, y)
    return found


def quality(p, y):
    log_likelihood = np.log(p[np.arange(len(y)), y] + TINY)
    return {
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
        "log_loss": float(-log_likelihood.mean()),
    }


@torch.no_grad()
def probabilities(model, X, seed=None):
    """Return what the network without noise predicts, or one with the noise of a seed.

    Each row has separate noise, as in the papers; `predict_proba` draws it once for all
    rows, spread over the members, and sums in float64, which takes three times as long
    with convolutions.
    """
    is_real = isinstance(model.gradient, ReLU)
    network = model.net_.module_.network.eval()
    if not is_real:
        network = model._network(model.det_statistics_ if seed is None else ())
    device = next(model.net_.module_.parameters()).device
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    network, chunks = network.to(device), []
    for rows in np.array_split(X, -(-len(X) // CHUNK)):
        x = torch.tensor((rows - model.mean_) / model.scale_, dtype=torch.float32)
        if is_real:
            h = relu_outputs(network, x.to(device))
        else:
            h = network(x.to(device), generator, deterministic=seed is None)
        chunks.append(h.softmax(dim=1).cpu().numpy())
    return np.concatenate(chunks)


def relu_outputs(network, x):
    """Return the outputs of a network that was trained with `ReLU`."""
    *layers, head = network.realize()
    for layer in layers:
        x = layer(x).relu()
    return head(x)


def tune(network, method, arguments):
    """Return the learning rate of a method, and how it was found."""
    if arguments.lrs == ["auto"]:
        return {"lr": search(network, method, arguments)}
    found = {}
    for lr in map(float, arguments.lrs):
        try:
            result = measure(
                network, method, lr, TUNING_SEED, "validation", arguments, 0.5
            )
            found[lr] = max(result[way]["accuracy"] for way in ways_of(result))
        except ValueError as error:
            if "diverged" not in str(error):
                raise
            found[lr] = 0.0
    return {"lr": max(found, key=found.get), "found": found}


def search(network, method, arguments):
    """Return the learning rate that a search finds on some rows."""
    data, _ = load(arguments.data, network, arguments.data_home)
    model, _ = classifier(network, method, "auto", TUNING_SEED, arguments)
    rows = (values[: arguments.search_rows] for values in data["train"])
    return least_loss_rate(model, *rows)


def least_loss_rate(model, X, y):
    """Return the learning rate of the least training loss after some epochs."""
    model = clone(model).set_params(max_epochs=SEARCH_EPOCHS, lr_schedule=None)

    def loss_at(log_lr):
        try:
            model.set_params(lr=float(10**log_lr)).fit(X, y)
        except ValueError:  # it diverged
            return WORST_LOSS
        return model.history_[-1]["train_loss"]

    found = minimize_scalar(
        loss_at, bounds=LOG_LR, method="bounded", options={"maxiter": SEARCH_STEPS}
    )
    return float(10**found.x)


def rate(results, network, method, arguments):
    """Return the learning rate of a method: given, known from the file, or tuned."""
    if "lr" in METHODS[method]:
        return None
    if len(arguments.lrs) == 1 and arguments.lrs != ["auto"]:
        return float(arguments.lrs[0])
    rows = arguments.search_rows if arguments.lrs == ["auto"] else arguments.rows
    name = [setting(arguments), network, method, "lr", *arguments.lrs, str(rows)]
    return results.get("/".join(name), lambda: tune(network, method, arguments))["lr"]


def setting(arguments):
    """Return what names of measurements begin with: data, and if networks are full."""
    return arguments.data + (", full" if arguments.full else "")


def run_all(results, arguments):
    """Tune and measure what is asked for and is not there; write after each fit."""
    for network in arguments.networks:
        methods = arguments.methods or NETWORK_METHODS[network]
        rates = {m: rate(results, network, m, arguments) for m in methods}
        for seed in arguments.seeds:
            for method, lr in rates.items():
                fit = (network, method, lr, seed)
                model, rows = classifier(*fit, arguments)
                name = (
                    f"{setting(arguments)}/{network}/{method}/{rows or 'all'} rows/"
                    f"{model.max_epochs} epochs/augment={name_of(model)}/lr={lr}/{seed}"
                )
                results.get(name, partial(measure, *fit, "test", arguments))


# Tables


def ways_of(result):
    """Return what ways to predict were measured: det, and sizes of ensembles."""
    return [way for way in result if way == "det" or way.isdigit()]


def tables_of(content):
    """Return the learning rates that were tried, and fits of one size."""
    tables = {"rates": rates_table(content)}
    for (data, network, rows, epochs), by_method in fits_of(content).items():
        tables[", ".join((data, network, rows, epochs))] = fits_table(by_method)
    return tables


def rates_table(content):
    """Return the learning rates that were taken, and how accurate others were.

    That is the accuracy on validation rows, in percent.
    """
    cells = {n: c for n, c in content["cells"].items() if "losses" not in c}
    found = {
        name: {str(lr): 100 * share for lr, share in cell.get("found", {}).items()}
        for name, cell in cells.items()
    }
    tried = dict.fromkeys(lr for shares in found.values() for lr in shares)
    formats = {"network": "", "method": "", "taken": ".2g"}
    table = tools.Table(formats | dict.fromkeys(tried, ".1f"))
    for name, cell in cells.items():
        shares = map(found[name].get, tried)
        table.rows.append([*name.split("/")[1:3], cell["lr"], *shares])
    return table


def fits_of(content):
    """Return the fits of each method, for all data, networks and sizes of training."""
    found = {}
    for name, fit in content["cells"].items():
        if "losses" in fit:
            data, network, _, rows, epochs, *_ = name.split("/")
            size = data, network, rows, epochs
            found.setdefault(size, {}).setdefault(fit["method"], []).append(fit)
    return found


def fits_table(by_method):
    """Return means over seeds and half the range, best accuracy first."""
    every = [run for runs in by_method.values() for run in runs]
    ways = max(map(ways_of, every), key=len)
    columns = {f"acc. {way}": ".1f" for way in ways}
    columns |= {f"loss {way}": ".3f" for way in ways}
    end = {"training loss": ".3f", "expected loss": ".3f", "CPU s": ".1f", "seeds": ""}
    if not any("expected" in run for run in every):
        del end["expected loss"]
    rows = []
    for method, runs in by_method.items():
        measured = {way: [run[way] for run in runs if way in run] for way in ways}
        row = [method, ", ".join(f"{lr:.2g}" for lr in sorted({r["lr"] for r in runs}))]
        for own in measured.values():
            row.append(tools.with_spread([100 * each["accuracy"] for each in own]))
        row += [
            tools.mean_of([it["log_loss"] for it in own]) for own in measured.values()
        ]
        row.append(tools.mean_of([run["losses"][-1] for run in runs]))
        if "expected loss" in end:
            known = [run["expected"]["log_loss"] for run in runs if "expected" in run]
            row.append(tools.mean_of(known))
        seconds = median(run["cpu_seconds"] for run in runs)
        rows.append([*row, seconds, len(runs)])
    accuracies = slice(2, 2 + len(ways))
    rows.sort(
        key=lambda row: -max(np.atleast_1d(it)[0] for it in row[accuracies] if it)
    )
    return tools.Table({"method": "", "lr": "", **columns, **end}, rows)


def parse():
    runs = {"lrs": ["1e-3", "3e-3", "1e-2"], "search_rows": 2000, "seeds": [0, 1, 2]}
    runs |= {"sizes": [1, 10], "full": False, "expected": False, "device": "auto"}
    parser = tools.options(__doc__, grows=True, networks=["allconv", "vgg"], **runs)
    option, sets = parser.add_argument, ["fashion_mnist", "digits", "cifar10"]
    option("--data", default=sets[0], choices=sets)
    option("--methods", nargs="+", choices=METHODS)
    option("--rows", type=int, help="training rows")
    option("--epochs", type=int)
    option("--augment", choices=["affine", "flip_crop"])
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.show:
        content = tools.merged(arguments.show)
    else:
        results = tools.Results(arguments.output, summary)
        run_all(results, arguments)
        content = results.content
    tools.print_and_save(tables_of(content), content, arguments.results)


def summary(cell):
    """Return what is said of a measurement when it is made."""
    kept = {way: cell[way]["accuracy"] for way in ways_of(cell)}
    return {"lr": cell["lr"]} | kept


if __name__ == "__main__":
    main()
