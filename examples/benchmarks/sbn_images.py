"""Stochastic binary networks on images: noises, estimators, binary weights, ensembles.

`SBNClassifier` learns Fashion-MNIST, or CIFAR-10 from the folder
``cifar-10-batches-bin`` of the data home. Beside it stands a network of ReLU units of
the same shape, trained by the same loop with the same batches, batch norms, optimizer,
schedule and augmentation::

    python examples/benchmarks/sbn_images.py --output results.json
    python examples/benchmarks/sbn_images.py --show results.json --picture losses.png
    python examples/benchmarks/sbn_images.py --data cifar10 --full --networks vgg

The default is a reduced setting for one core; ``--full`` has the papers' networks,
all rows and their augmentation, and wants a GPU. Each method has the same learning
rates to choose from. The one with the best accuracy on validation rows, with one seed
and half of the epochs, is taken with all other seeds. The test rows are predicted by
the network without noise ("det"), by one with noise and by ten.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import sklearn
import torch

import skhash
from skhash import SBNClassifier
from skhash.classification import VGG, AllConv
from skhash.datasets import load_fashion_mnist, read_cifar_binary
from skhash.gradients import LayerwiseGradient

TUNING_SEED = 100
N_VALIDATION = 2000
# Added to probabilities, so that their logarithms are finite.
TINY = 1e-12
# Of the axis of losses.
TICKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5)

REDUCED = {
    "mlp": {"rows": 10000, "epochs": 10, "hidden_layer_sizes": (256, 256)},
    "allconv": {"rows": 4000, "epochs": 10, "architecture": AllConv((8, 16))},
    "vgg": {
        "rows": 4000,
        "epochs": 10,
        "architecture": VGG((8, 16)),
        "hidden_layer_sizes": (128,),
    },
}
FULL = {
    "mlp": {"epochs": 50, "hidden_layer_sizes": (512, 512), "augment": "affine"},
    "allconv": {"epochs": 500, "augment": "flip_crop"},
    "vgg": {
        "epochs": 500,
        "augment": "flip_crop",
        "hidden_layer_sizes": (1024, 1024),
    },
}


class ReLU(LayerwiseGradient):
    """Makes units real: what is above noise is their value, in place of their sign."""

    def sample(self, logits, generator=None, *, units=None):
        return logits.relu()


METHODS = {
    "st": {},
    "st uniform": {"noise": "uniform"},
    "st triangular": {"noise": "triangular"},
    "psa": {"gradient": "psa"},
    "zgr": {"gradient": "zgr"},
    "gumbel": {"gradient": "gumbel"},
    "tanh": {"gradient": "tanh"},
    "det_st": {"gradient": "det_st"},
    "identity_st": {"gradient": "identity_st"},
    "hard_st": {"gradient": "hard_st"},
    "disarm": {"gradient": "disarm"},
    "st mirror": {"weights": "mirror"},
    "st pgd": {"weights": "pgd"},
    "st lr=auto": {"lr": "auto"},
    "relu": {"gradient": ReLU()},
}
# What is worth its time with convolutions on one core.
CONVOLUTIONAL = ("st", "st uniform", "st triangular", "psa", "st mirror", "relu")
NETWORK_METHODS = {"mlp": tuple(METHODS), "allconv": CONVOLUTIONAL}
NETWORK_METHODS["vgg"] = tuple(m for m in CONVOLUTIONAL if m != "psa")


@cache
def load(name, network, data_home):
    """Return shuffled training rows, validation rows and test rows, and their shape."""
    if name == "cifar10":
        folder = (
            Path(data_home or "~/skhash_data").expanduser() / "cifar-10-batches-bin"
        )
        files = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
        X, y = read_cifar_binary(files)
        X_test, y_test = read_cifar_binary(folder / "test_batch.bin")
        X, X_test = (np.float32(images) / 255 for images in (X, X_test))
        shape = (3, 32, 32)
    else:
        data = load_fashion_mnist(n_queries=None, data_home=data_home)
        X, y = data.train, data.train_labels
        X_test, y_test = data.query, data.query_labels
        shape = (1, 28, 28)
        if network == "allconv":
            # Made for 32 x 32 pixels; it would leave one place of smaller images.
            X, X_test = framed(X), framed(X_test)
            shape = (1, 32, 32)
    order = np.random.RandomState(0).permutation(len(X))
    validation, train = np.split(order, [N_VALIDATION])
    parts = {
        "train": (X[train], y[train]),
        "validation": (X[validation], y[validation]),
    }
    return parts | {"test": (X_test, y_test)}, shape


def framed(X):
    """Return images of 28 x 28 in a black frame of two pixels."""
    return np.pad(X.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2))).reshape(len(X), -1)


def measure(network, method, lr, seed, part, arguments, share=1.0):
    """Fit once, for a share of the epochs; return what predictions of a part reach."""
    data, shape = load(arguments.data, network, arguments.data_home)
    params = dict((FULL if arguments.full else REDUCED)[network])
    rows, epochs = params.pop("rows", None), params.pop("epochs")
    X, y = (values[: arguments.rows or rows] for values in data["train"])
    model = SBNClassifier(
        architecture=network,
        input_shape=shape,
        max_epochs=round(share * (arguments.epochs or epochs)),
        lr_schedule="cosine",
        device=arguments.device,
        random_state=seed,
    )
    model.set_params(**{"lr": lr} | params | METHODS[method])
    start, cpu_start = time.perf_counter(), time.process_time()
    model.fit(X, y)
    result = {"network": network, "method": method, "seed": seed, "lr": model.lr_}
    result |= {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu_start,
        "losses": [epoch["train_loss"] for epoch in model.history_],
        "rows": len(X),
    }
    return result | scores(model, *data[part], arguments.sizes)


def scores(model, X, y, sizes):
    """Return accuracies and log losses of each way to predict."""
    if isinstance(model.gradient, ReLU):
        probabilities = {"det": relu_probabilities(model, X)}
    else:
        ways = {"det": {"predict_mode": "det"}} | {
            str(size): {"predict_mode": "ensemble", "n_predict_samples": size}
            for size in sizes
        }
        probabilities = {
            name: model.set_params(**way).predict_proba(X) for name, way in ways.items()
        }
    return {
        name: {
            "accuracy": float(np.mean(model.classes_[p.argmax(axis=1)] == y)),
            "log_loss": float(-np.log(p[np.arange(len(y)), y] + TINY).mean()),
        }
        for name, p in probabilities.items()
    }


@torch.no_grad()
def relu_probabilities(model, X):
    """Return the probabilities of a network that was trained with `ReLU`."""
    network = model.net_.module_.network.eval()
    device = next(network.parameters()).device
    *layers, head = network.realize()
    chunks = []
    for rows in np.array_split(X, -(-len(X) // 250)):
        x = torch.tensor((rows - model.mean_) / model.scale_, dtype=torch.float32)
        x = x.to(device)
        for layer in layers:
            x = layer(x).relu()
        chunks.append(head(x).softmax(dim=1).cpu().numpy())
    return np.concatenate(chunks)


def tune(network, method, arguments):
    """Return the learning rate of the best accuracy on validation rows, and all."""
    if "lr" in METHODS[method]:
        return None, {}
    if len(arguments.lrs) == 1:
        return arguments.lrs[0], {}
    found = {}
    for lr in arguments.lrs:
        try:
            result = measure(
                network, method, lr, TUNING_SEED, "validation", arguments, 0.5
            )
            found[lr] = best_accuracy(result)
        except ValueError as error:
            if "diverged" not in str(error):
                raise
            found[lr] = 0.0
    return max(found, key=found.get), found


def best_accuracy(result):
    return max(result[way]["accuracy"] for way in ways_of(result))


def ways_of(result):
    """Return what ways to predict were measured: det, and sizes of ensembles."""
    return [way for way in result if way == "det" or way.isdigit()]


def show(output):
    """Print the learning rates that were tried, and a table for each network."""
    print("\nvalidation accuracy of learning rates, one seed:\n")
    for name, found in output["tuning"].items():
        print(name, " ".join(f"{lr}: {value:.4f}" for lr, value in found.items()))
    for network in dict.fromkeys(result["network"] for result in output["results"]):
        by_method = {}
        for result in output["results"]:
            if result["network"] == network:
                by_method.setdefault(result["method"], []).append(result)
        print_table(network, by_method)


def print_table(network, by_method):
    """Print means over seeds and half the range, best accuracy first."""
    every = [run for runs in by_method.values() for run in runs]
    ways = max(map(ways_of, every), key=len)
    columns = [f"acc. {way}" for way in ways] + [f"loss {way}" for way in ways]
    columns = ["method", "lr", *columns, "training loss", "CPU s", "seeds"]
    print(f"\n{network}, {len(every[0]['losses'])} epochs of {every[0]['rows']} rows\n")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    lines = [line_of(method, runs, ways) for method, runs in by_method.items()]
    for _, line in sorted(lines, reverse=True):
        print(line)


def line_of(method, runs, ways):
    """Return the accuracy to sort by, and the line of a method."""
    measured = {way: [run[way] for run in runs if way in run] for way in ways}
    accuracies = {
        way: [100 * each["accuracy"] for each in measured[way]] for way in ways
    }
    cells = [", ".join(f"{lr:.2g}" for lr in sorted({run["lr"] for run in runs}))]
    for values in accuracies.values():
        cells.append(
            f"{np.mean(values):.1f} ± {np.ptp(values) / 2:.1f}" if values else ""
        )
    for values in measured.values():
        mean = np.mean([each["log_loss"] for each in values]) if values else None
        cells.append(f"{mean:.3f}" if values else "")
    cells.append(f"{np.mean([run['losses'][-1] for run in runs]):.3f}")
    cells.append(f"{statistics.median(run['cpu_seconds'] for run in runs):.1f}")
    cells.append(str(len(runs)))
    best = max(np.mean(values) for values in accuracies.values() if values)
    return best, f"| {method} | {' | '.join(cells)} |"


def draw(results, arguments):
    """Draw the training loss of each epoch, mean over seeds."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    kinds = {
        ("mlp", "estimators"): lambda m: "gradient" in METHODS[m] or m == "st",
        ("mlp", "noises and weights"): lambda m: (
            "gradient" not in METHODS[m] and "lr" not in METHODS[m]
        ),
        ("allconv", "all"): lambda m: True,
        ("vgg", "all"): lambda m: True,
    }
    panels = {}
    for result in results:
        for kind, belongs in kinds.items():
            if kind[0] == result["network"] and belongs(result["method"]):
                runs = panels.setdefault(kind, {}).setdefault(result["method"], [])
                runs.append(result["losses"])
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.4 * len(panels), 3.8), layout="constrained"
    )
    axes = np.atleast_1d(axes)
    for ax, ((network, kind), by_method) in zip(axes, panels.items(), strict=True):
        colors = iter(plt.colormaps["tab10"].colors)
        curves = {method: np.mean(runs, axis=0) for method, runs in by_method.items()}
        for method, losses in sorted(curves.items(), key=lambda item: -item[1][-1]):
            style = {"color": "black" if method in ("st", "relu") else next(colors)}
            if method == "relu":
                style["linestyle"] = "--"
            epochs = np.arange(1, len(losses) + 1)
            ax.plot(epochs, losses, label=method, **style)
        ax.set(xlabel="epochs", title=f"{network}: {kind}", yscale="log")
        ax.set_yticks(TICKS, map(str, TICKS))
        ax.set_yticks([], minor=True)
        losses = np.concatenate(list(curves.values()))
        ax.set_ylim(0.9 * losses.min(), 1.1 * losses.max())
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="x-small")
    axes[0].set_ylabel("training loss")
    figure.savefig(arguments.picture, dpi=90)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", default="fashion_mnist", choices=["fashion_mnist", "cifar10"]
    )
    parser.add_argument("--data-home")
    parser.add_argument(
        "--networks", nargs="+", default=["mlp", "allconv"], choices=REDUCED
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--full", action="store_true", help="the papers' networks")
    parser.add_argument("--rows", type=int, help="training rows")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--lrs", type=float, nargs="+", default=[1e-3, 3e-3, 1e-2])
    parser.add_argument(
        "--share-lr",
        action="store_true",
        help="tune the first method and relu only; the others take the first one's",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1, 10], help="of ensembles"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="a JSON file of all results")
    parser.add_argument("--show", type=Path, nargs="+", help="output files to print")
    parser.add_argument("--picture", type=Path, help="where to draw training losses")
    return parser.parse_args()


def run_all(arguments):
    """Tune and measure all that is asked for; write after each fit."""
    output = {"setting": setting_of(arguments), "tuning": {}, "results": []}
    for network in arguments.networks:
        chosen = {}
        for method in arguments.methods or NETWORK_METHODS[network]:
            if arguments.share_lr and method != "relu" and chosen:
                chosen[method] = next(iter(chosen.values()))
                continue
            chosen[method], found = tune(network, method, arguments)
            output["tuning"][f"{network} {method}"] = found
        for seed in arguments.seeds:
            for method, lr in chosen.items():
                result = measure(network, method, lr, seed, "test", arguments)
                output["results"].append(result)
                if arguments.output:
                    arguments.output.write_text(json.dumps(output, indent=1))
    return output


def setting_of(arguments):
    setting = {
        name: value
        for name, value in vars(arguments).items()
        if name not in ("output", "show", "picture", "data_home")
    }
    machine = (
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, Python "
        f"{platform.python_version()}, numpy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}, torch {torch.__version__}, skhash {skhash.__version__}"
    )
    return setting | {"machine": machine}


def main():
    arguments = parse()
    if arguments.show:
        outputs = [json.loads(path.read_text()) for path in arguments.show]
    else:
        try:
            outputs = [run_all(arguments)]
        except FileNotFoundError as error:
            sys.exit(str(error))
    for output in outputs:
        print(output["setting"])
        show(output)
    if arguments.picture:
        draw([result for output in outputs for result in output["results"]], arguments)


if __name__ == "__main__":
    main()
