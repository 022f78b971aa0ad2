"""`SBNClassifier` beside its real-valued twin, and each of its defaults by itself.

The twin is a network of ReLU units with the same layers, batch norms, batches, epochs
and schedule, trained by the same loop. Its learning rate is chosen for each data set on
validation rows. The classifier is as it comes, the same for all data sets; its defaults
were chosen on validation rows too, where this script changes them one at a time::

    python examples/benchmarks/sbn_twin.py --output twin.json
    python examples/benchmarks/sbn_twin.py --output twin.json --part test \
        --variants default --independent --picture reliability.png
    python examples/benchmarks/sbn_twin.py --show twin.json --results FILE

An interrupted run goes on with the same file. Test rows are predicted by the network
without noise ("det") and by ensembles. "ece" is the expected calibration error: the
mean distance of confidence and accuracy over 15 bins of confidence, in percent.
"""

import argparse
import sys
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
from data_sets import load_20newsgroups, load_fashion_mnist
from drawing import finish, panels
from growing_results import Results, describe, merged
from result_files import Table, save
from sbn_images import ReLU, probabilities
from sbn_images import quality as accuracy_and_loss
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from skorch.callbacks import Callback

from skhash import SBNClassifier
from skhash.noise import Logistic
from skhash.training import Optimizer

# Epochs and seeds of each data set. A seed draws the split of the small ones too.
SETS = {
    "wine": (50, range(10)),
    "breast cancer": (50, range(10)),
    "digits": (50, range(5)),
    "newsgroups": (20, range(3)),
    "fashion 10k": (20, range(3)),
    "fashion 60k": (20, range(3)),
}
LAYERS = (256, 256)
N_VALIDATION = 5000
TWIN_RATES = (0.001, 0.003, 0.01)
N_BINS = 15
# Titles of the scores, whether the spread is shown, and formats.
SCORES = {
    "accuracy": ("acc.", True, ".1f"),
    "log_loss": ("loss", False, ".3f"),
    "ece": ("ece", False, ".1f"),
}
# Of few test rows, few are in doubt.
PICTURED = ("digits", "newsgroups", "fashion 10k", "fashion 60k")


class AnnealedNoise(Callback):
    """Multiplies the scale of all noise along a geometric path from first to last."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def on_epoch_begin(self, net, **kwargs):
        share = (len(net.history) - 1) / max(1, net.n_epochs - 1)
        for layer in net.module_.network.layers:
            layer.units.noise.scale = self.first * (self.last / self.first) ** share


# What differs from the defaults.
VARIANTS = {
    "default": {},
    "lr .001": {"lr": 0.001},
    "lr .01": {"lr": 0.01},
    "no schedule": {"lr_schedule": None},
    "steps": {"lr_schedule": "step"},
    "st": {"gradient": "st"},
    "psa": {"gradient": "psa"},
    "start 1": {"init_scale": 1.0},
    "start 4": {"init_scale": 4.0},
    "noise .5": {"noise": Logistic(0.5), "init_scale": 1.0},
    "noise 1 to .25": {"callbacks": [AnnealedNoise(1.0, 0.25)]},
    "noise .25 to 1": {"callbacks": [AnnealedNoise(0.25, 1.0)]},
    "uniform": {"noise": "uniform"},
    "triangular": {"noise": "triangular"},
    "no norm": {"batch_norm": False},
    "running means": {"bn_recalibrate": False},
    "decay .1": {"optimizer": Optimizer("adamw", weight_decay=0.1)},
    "decay .3": {"optimizer": Optimizer("adamw", weight_decay=0.3)},
    "2 samples": {"n_draws": 2},
    "bound of 2": {"n_draws": 2, "objective": "multi_sample"},
    "from real": {"init": "real"},
    "mirror": {"weights": "mirror"},
    "mirror from real": {"weights": "mirror", "init": "real"},
}


@cache
def load(name, data_home):
    """Return training and test rows and classes; without a test part of their own None.

    Rows of the texts are an SVD of their words, made of the training part.
    """
    small = {"wine": load_wine, "breast cancer": load_breast_cancer}
    small["digits"] = load_digits
    if name in small:
        return *small[name](return_X_y=True), None, None
    if name == "newsgroups":
        data = load_20newsgroups("texts", data_home=data_home)
        map_texts = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, min_df=3, stop_words="english"),
            TruncatedSVD(256, random_state=0),
            Normalizer(),
        )
        X, X_test = map_texts.fit_transform(data.train), map_texts.transform(data.query)
        return np.float32(X), data.train_labels, np.float32(X_test), data.query_labels
    data = load_fashion_mnist(n_queries=None, data_home=data_home)
    return data.train, data.train_labels, data.query, data.query_labels


def rows_of(name, part, seed, data_home):
    """Return rows and classes to train on, and those of a part to predict."""
    X, y, X_test, y_test = load(name, data_home)
    if X_test is None:
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.25, random_state=seed, stratify=y
        )
        if part == "validation":
            X, X_test, y, y_test = train_test_split(
                X, y, test_size=0.25, random_state=seed, stratify=y
            )
    else:
        order = np.random.RandomState(0).permutation(len(X))
        # Validation rows are never trained on, so that both parts see as many rows.
        held, rows = np.split(order, [min(N_VALIDATION, len(X) // 4)])
        if part == "validation":
            X_test, y_test = X[held], y[held]
        rows = rows[:10000] if name == "fashion 10k" else rows
        X, y = X[rows], y[rows]
    if name in ("wine", "breast cancer"):  # columns of different units
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X, y, X_test, y_test


def measure(name, part, seed, params, arguments):
    """Fit once; return what each way to predict reaches."""
    X, y, X_test, y_test = rows_of(name, part, seed, arguments.data_home)
    model = SBNClassifier(
        LAYERS, max_epochs=SETS[name][0], random_state=seed, device=arguments.device
    ).set_params(**params)
    start = time.process_time()
    model.fit(X, y)
    cell = {"cpu_seconds": time.process_time() - start}
    cell["training loss"] = model.history_[-1]["train_loss"]
    if isinstance(model.gradient, ReLU):
        return cell | {"det": quality(probabilities(model, X_test), y_test)}
    model.set_params(predict_mode="det")
    cell["det"] = quality(model.predict_proba(X_test), y_test)
    model.set_params(predict_mode="ensemble")
    for size in arguments.sizes:
        p = model.set_params(n_predict_samples=size).predict_proba(X_test)
        cell[str(size)] = quality(p, y_test)
    if arguments.independent:
        cell["independent"] = quality(independent(model, X_test), y_test)
    return cell


def independent(model, X, n_members=10):
    """Return the mean of networks whose noise is not spread over the members."""
    model.set_params(n_predict_samples=1)
    sums = 0.0
    for seed in range(n_members):
        model.predict_seed_ = seed
        sums = sums + model.predict_proba(X)
    return sums / n_members


def quality(p, y):
    """Return accuracy, log loss, calibration error and the bins of confidence."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    count, sums, hits = (
        np.bincount(bins, weights, N_BINS) for weights in (None, confidence, right)
    )
    scores = accuracy_and_loss(p, y)
    return {
        "accuracy": 100 * scores["accuracy"],
        "log_loss": scores["log_loss"],
        "ece": 100 * float(np.abs(sums - hits).sum() / len(y)),
        "bins": [count.tolist(), sums.tolist(), hits.tolist()],
    }


def run(results, arguments):
    part = arguments.part
    for name in arguments.sets:
        twins = {f"relu {lr}": {"gradient": ReLU(), "lr": lr} for lr in TWIN_RATES}
        wanted = {label: VARIANTS[label] for label in arguments.variants}
        if part == "test":
            cells = results.content["cells"]
            if not all(runs_of(cells, name, "validation", label) for label in twins):
                sys.exit(f"{name}: measure the validation part first, for the rate.")
            best = max(
                twins, key=lambda label: mean(cells, name, "validation", label, "det")
            )
            twins = {best: twins[best]}
        for label, params in {**twins, **wanted}.items():
            for seed in SETS[name][1]:
                make = partial(measure, name, part, seed, params, arguments)
                results.get(f"{name} / {part} / {label} / {seed}", make)


def runs_of(cells, name, part, label):
    start = f"{name} / {part} / {label} / "
    return [cell for key, cell in cells.items() if key.startswith(start)]


def mean(cells, name, part, label, way, score="accuracy"):
    return np.mean([cell[way][score] for cell in runs_of(cells, name, part, label)])


def ways_of(cell):
    return [way for way in cell if isinstance(cell[way], dict)]


def tables(content, part):
    """Return means over seeds, with half their range, and in short.

    In short there is a column a data set, for the accuracy and the log loss of the
    smallest ensemble.
    """
    keys = [key.split(" / ") for key in content["cells"]]
    lines = dict.fromkeys((name, label) for name, of, label, _ in keys if of == part)
    if not lines:
        return {}
    return {
        part: whole_table(content["cells"], part, lines),
        f"{part}_accuracy": short_table(content["cells"], part, lines, "accuracy"),
        f"{part}_log_loss": short_table(content["cells"], part, lines, "log_loss"),
    }


def whole_table(cells, part, lines):
    """Return all that was measured, a line a setting of a data set."""
    ways = max((ways_of(cell) for cell in cells.values()), key=len)
    columns = {
        f"{title} {way}": form for title, _, form in SCORES.values() for way in ways
    }
    end = {"training loss": ".3f", "CPU s": ".1f", "seeds": ""}
    table = Table({"data": "", "network": "", **columns, **end})
    for name, label in sorted(lines, key=lambda line: list(SETS).index(line[0])):
        found = runs_of(cells, name, part, label)
        table.rows.append([name, label, *cells_of(found, ways)])
    return table


def cells_of(runs, ways):
    """Return the cells of a line."""
    line = []
    for score, (_, with_spread, _) in SCORES.items():
        for way in ways:
            values = [run[way][score] for run in runs if way in run]
            mean = float(np.mean(values)) if values else None
            if values and with_spread and len(runs) > 1:
                mean = [mean, float(np.ptp(values)) / 2]
            line.append(mean)
    line.append(float(np.mean([run["training loss"] for run in runs])))
    line.append(float(np.median([run["cpu_seconds"] for run in runs])))
    return [*line, len(runs)]


def short_table(cells, part, lines, score):
    """Return a score of the smallest ensemble, or of ReLU units."""
    names = [name for name in SETS if any(line[0] == name for line in lines)]
    form = SCORES[score][2]
    table = Table({"network": "", **dict.fromkeys(names, form)})
    twins = [f"relu {lr}" for lr in TWIN_RATES]
    labels = {label for _, label in lines}
    for label in [label for label in (*twins, *VARIANTS) if label in labels]:
        way = "det" if label.startswith("relu") else first_size(cells)
        means = [
            float(mean(cells, name, part, label, way, score))
            if runs_of(cells, name, part, label)
            else None
            for name in names
        ]
        table.rows.append([label, *means])
    return table


def first_size(cells):
    """Return the name of the smallest ensemble that was measured."""
    return min(
        {way for cell in cells.values() for way in cell if way.isdigit()}, key=int
    )


def draw(content, path):
    """Draw accuracy against confidence on test rows, a panel a data set."""
    cells = content["cells"]
    names = [name for name in PICTURED if runs_of(cells, name, "test", "default")]
    figure, axes = panels(names, len(names), size=(2.8, 3.2))
    for ax, name in zip(axes, names, strict=True):
        ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
        found = {"default": runs_of(cells, name, "test", "default")}
        for lr in TWIN_RATES:
            if runs := runs_of(cells, name, "test", f"relu {lr}"):
                found["relu"] = runs
        size = max(filter(str.isdigit, found["default"][0]), key=int)
        lines = {
            f"ensemble of {size}": ("default", size, "C0", "o"),
            "without noise": ("default", "det", "C2", "^"),
            "ReLU twin": ("relu", "det", "C1", "s"),
        }
        for legend, (label, way, color, marker) in lines.items():
            draw_reliability(ax, found[label], way, color, marker, legend)
        ax.set(xlim=(0.2, 1.01), ylim=(0.2, 1.01), aspect="equal")
    figure.supxlabel("confidence")
    figure.supylabel("accuracy")
    finish(figure, path)


def draw_reliability(ax, runs, way, color, marker, label):
    """Draw the accuracy in each bin of confidence that has some rows."""
    count, sums, hits = np.sum([run[way]["bins"] for run in runs], axis=0)
    some = count >= 20
    confidence, accuracy = sums[some] / count[some], hits[some] / count[some]
    ax.plot(confidence, accuracy, marker + "-", color=color, label=label, markersize=4)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS
    )
    parser.add_argument("--part", default="validation", choices=["validation", "test"])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10, 50], help="of ensembles"
    )
    parser.add_argument(
        "--independent",
        action="store_true",
        help="also average ten networks with noise of their own",
    )
    parser.add_argument("--data-home")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="a JSON file, to go on from")
    parser.add_argument("--show", type=Path, nargs="+", help="output files to print")
    parser.add_argument("--results", type=Path, help="a file of the tables")
    parser.add_argument("--picture", type=Path, help="where to draw reliability")
    return parser.parse_args(arguments)


def main(arguments=None):
    arguments = parse(arguments)
    results = Results(
        arguments.output,
        lambda cell: {way: cell[way]["accuracy"] for way in ways_of(cell)},
    )
    if arguments.show:
        results.content = merged(arguments.show)
    else:
        run(results, arguments)
    content = results.content
    both = {part: tables(content, part) for part in ("validation", "test")}
    print(describe(content["head"]), f"\n\n{arguments.part} rows")
    for table in both[arguments.part].values():
        table.printed()
    every = both["validation"] | both["test"]
    save(arguments.results, every, measured=content["head"])
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
