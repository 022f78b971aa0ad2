"""`SBNClassifier` beside its real-valued twin, and each of its defaults by itself.

The twin is a network of ReLU units with the same layers, batch norms, batches, epochs
and schedule, trained by the same loop. Its learning rate is chosen for each data set on
validation rows. The classifier is as it comes, the same for all data sets; its defaults
were chosen on validation rows too, where this script changes them one at a time::

    python examples/benchmarks/sbn_twin.py --output twin.json
    python examples/benchmarks/sbn_twin.py --output twin.json --part test \
        --variants default --independent --picture reliability.svg
    python examples/benchmarks/sbn_twin.py --show twin.json --results FILE

An interrupted run resumes with the same file. Test rows are predicted by the network
without noise ("det") and by ensembles. "ece" is the expected calibration error: the
mean distance of confidence and accuracy over 15 bins of confidence, in percent.
"""

import sys
from collections import defaultdict
from functools import cache, partial

import numpy as np
import tools
from sbn_images import ReLU, probabilities
from sbn_images import quality as accuracy_and_loss
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback
from torch.optim import AdamW

from skhash import SBNClassifier
from skhash.noise import Logistic

# Epochs and seeds of each data set. A seed draws the split of the small ones too.
SETS = {
    "wine": (50, range(10)),
    "breast cancer": (50, range(10)),
    "digits": (50, range(5)),
    "newsgroups": (20, range(3)),
    "fashion 10k": (20, range(3)),
    "fashion 60k": (20, range(3)),
}
SMALL = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
LAYERS = (256, 256)
N_VALIDATION = 5000
TWIN_RATES = (0.001, 0.003, 0.01)
N_BINS, SIZES = 15, (10, 50)  # of confidence, and of ensembles
# Titles of the scores, what is said of those of the seeds, and formats.
SCORES = {
    "accuracy": ("acc.", tools.with_spread, ".1f"),
    "log_loss": ("loss", tools.mean_of, ".3f"),
    "ece": ("ece", tools.mean_of, ".1f"),
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


# Differences from the defaults.
VARIANTS = {
    **{"default": {}, "lr .001": {"lr": 0.001}, "lr .01": {"lr": 0.01}},
    **{"no schedule": {"lr_schedule": None}, "steps": {"lr_schedule": "step"}},
    **{"st": {"gradient": "st"}, "psa": {"gradient": "psa"}},
    **{"start 1": {"init_scale": 1.0}, "start 4": {"init_scale": 4.0}},
    "noise .5": {"noise": Logistic(0.5), "init_scale": 1.0},
    "noise 1 to .25": {"callbacks": [AnnealedNoise(1.0, 0.25)]},
    "noise .25 to 1": {"callbacks": [AnnealedNoise(0.25, 1.0)]},
    **{"uniform": {"noise": "uniform"}, "triangular": {"noise": "triangular"}},
    "no norm": {"batch_norm": False},
    "decay .1": {"optimizer": partial(AdamW, weight_decay=0.1)},
    "decay .3": {"optimizer": partial(AdamW, weight_decay=0.3)},
    "bound of 2": {"n_draws": 2},
    **{"from real": {"init": "real"}, "mirror": {"weights": "mirror"}},
    "mirror from real": {"weights": "mirror", "init": "real"},
}


@cache
def load(name, data_home):
    """Return training and test rows and classes; None without a separate test part.

    Rows of the texts are an SVD of their words, made of the training part.
    """
    if name in SMALL:
        return *SMALL[name](return_X_y=True), None, None
    if name == "newsgroups":
        data = tools.load_20newsgroups("texts", data_home=data_home)
        X, X_test = tools.tfidf_axes(data.train, data.query, min_df=3)
        return X, data.train_labels, X_test, data.query_labels
    data = tools.load_fashion_mnist(n_queries=None, data_home=data_home)
    return data.train, data.train_labels, data.query, data.query_labels


def rows_of(name, part, seed, data_home):
    """Return rows and classes to train on, and those of a part to predict."""
    X, y, X_test, y_test = load(name, data_home)
    if X_test is None:
        for _ in range(1 + (part == "validation")):
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
    model = SBNClassifier(LAYERS, max_epochs=SETS[name][0], random_state=seed)
    seconds, _ = tools.cpu_seconds_of(model.set_params(**params).fit, X, y)
    cell = {"cpu_seconds": seconds}
    cell["training loss"] = model.history_[-1]["train_loss"]
    if isinstance(model.gradient, ReLU):
        return cell | {"det": quality(probabilities(model, X_test), y_test)}
    model.set_params(n_predict_samples=0)
    cell["det"] = quality(model.predict_proba(X_test), y_test)
    for size in SIZES:
        p = model.set_params(n_predict_samples=size).predict_proba(X_test)
        cell[str(size)] = quality(p, y_test)
    if arguments.independent:
        cell["independent"] = quality(independent(model, X_test), y_test)
    return cell


def independent(model, X, n_members=10):
    """Return the mean of networks whose noise is not spread over the members."""
    model.set_params(n_predict_samples=1)
    members = []
    for model.predict_seed_ in range(n_members):
        members.append(model.predict_proba(X))
    return np.mean(members, axis=0)


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
        if part == "test":
            found = runs_of(results.content)
            known = {label: found[name, "validation", label] for label in twins}
            if not all(known.values()):
                sys.exit(f"{name}: measure the validation part first, for the rate.")
            best = max(known, key=lambda label: mean(known[label], "det", "accuracy"))
            twins = {best: twins[best]}
        wanted = {label: VARIANTS[label] for label in arguments.variants}
        for label, params in {**twins, **wanted}.items():
            for seed in SETS[name][1]:
                make = partial(measure, name, part, seed, params, arguments)
                results.get(f"{name} / {part} / {label} / {seed}", make)


def runs_of(content):
    """Return the runs of each data set, part and network, one a seed."""
    found = defaultdict(list)
    for key, cell in content["cells"].items():
        name, part, label, _ = key.split(" / ")
        found[name, part, label].append(cell)
    return found


def mean(runs, way, score):
    return tools.mean_of([run[way][score] for run in runs if way in run])


def accuracies(cell):
    """Return the accuracy of each way to predict."""
    return {way: it["accuracy"] for way, it in cell.items() if isinstance(it, dict)}


def tables(content, part):
    """Return means over seeds, with half their range, and in short.

    In short there is a column a data set, for the accuracy and the log loss of the
    smallest ensemble.
    """
    runs = runs_of(content).items()
    found = {(name, label): own for (name, of, label), own in runs if of == part}
    if not found:
        return {}
    every = [accuracies(cell) for cell in content["cells"].values()]
    size = min({way for ways in every for way in ways if way.isdigit()}, key=int)
    tables = {part: whole_table(found, max(every, key=len))}
    for score in ("accuracy", "log_loss"):
        tables[f"{part}_{score}"] = short_table(found, size, score)
    return tables


def whole_table(found, ways):
    """Return all that was measured, a line a setting of a data set."""
    scores = SCORES.values()
    columns = {f"{title} {way}": form for title, _, form in scores for way in ways}
    end = {"training loss": ".3f", "CPU s": ".1f", "seeds": ""}
    table = tools.Table({"data": "", "network": "", **columns, **end})
    for line in sorted(found, key=lambda line: list(SETS).index(line[0])):
        runs = found[line]
        cells = [
            summary([run[way][score] for run in runs if way in run])
            for score, (_, summary, _) in SCORES.items()
            for way in ways
        ]
        loss = tools.mean_of([run["training loss"] for run in runs])
        seconds = float(np.median([run["cpu_seconds"] for run in runs]))
        table.rows.append([*line, *cells, loss, seconds, len(runs)])
    return table


def short_table(found, size, score):
    """Return a score of ensembles of one size, or of ReLU units."""
    names = [name for name in SETS if any(line[0] == name for line in found)]
    table = tools.Table({"network": "", **dict.fromkeys(names, SCORES[score][2])})
    labels = {label for _, label in found}
    for label in (*(f"relu {lr}" for lr in TWIN_RATES), *VARIANTS):
        if label in labels:
            way = "det" if label.startswith("relu") else size
            means = [mean(found.get((name, label), ()), way, score) for name in names]
            table.rows.append([label, *means])
    return table


def draw(content, path):
    """Draw accuracy against confidence on test rows, a panel a data set."""
    found = runs_of(content)
    names = [name for name in PICTURED if found[name, "test", "default"]]
    figure, axes = tools.panels(names, 2, size=(2.8, 3))
    for ax, name in zip(axes, names, strict=True):
        ax.plot([0, 1], [0, 1], color="0.5", zorder=0)
        ours = found[name, "test", "default"]
        relu = [found[name, "test", f"relu {lr}"] for lr in TWIN_RATES]
        twin = [runs for runs in relu if runs][-1]
        size = max(filter(str.isdigit, ours[0]), key=int)
        for runs, way, style, label in (
            (ours, size, "C0o-", f"ensemble of {size}"),
            (ours, "det", "C2^-", "without noise"),
            (twin, "det", "C1s-", "ReLU twin"),
        ):
            count, sums, hits = np.sum([run[way]["bins"] for run in runs], axis=0)
            some = count >= 20  # rows in a bin of confidence
            points = sums[some] / count[some], hits[some] / count[some]
            ax.plot(*points, style, label=label, markersize=4)
        ax.set(xlim=(0.2, 1.01), ylim=(0.2, 1.01), aspect="equal")
    figure.supxlabel("confidence")
    figure.supylabel("accuracy")
    tools.finish(figure, path)


def main():
    measured = {"sets": SETS, "variants": VARIANTS, "independent": False}
    parser = tools.options(__doc__, grows=True, **measured, picture=None)
    parser.add_argument("--part", default="validation", choices=["validation", "test"])
    arguments = parser.parse_args()
    results = tools.Results(arguments.output, accuracies)
    if arguments.show:
        results.content = tools.merged(arguments.show)
    else:
        run(results, arguments)
    content = results.content
    every = tables(content, "validation") | tables(content, "test")
    tools.print_and_save(every, content, arguments.results)
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
