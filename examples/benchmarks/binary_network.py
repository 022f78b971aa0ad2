"""Fully binary networks: their speed, their codes, and how their weights are trained.

`SBNClassifier` with ``weights="mirror"`` has weights and units of -1 and +1 behind its
first layer, and `export_deterministic` runs them on packed words::

    python examples/benchmarks/binary_network.py speed
    python examples/benchmarks/binary_network.py codes
    python examples/benchmarks/binary_network.py training

"speed" predicts 10 000 rows beside a network of ReLU units of the same widths, trained
by the same loop, whose norms are folded into float32 weights: in NumPy and in torch, in
blocks of 1000 rows. All take turns in one process.

"codes" searches for the bits of the last layer, beside those of `SupervisedHash`, and
"training" compares mirror descent, projected gradients, and BayesBiNN at several
temperatures with identity straight-through.
"""

from functools import cache, partial
from itertools import product
from statistics import median

import joblib
import numpy as np
import torch
from sbn_images import ReLU
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from supervised_hashing import load as load_images
from threadpoolctl import threadpool_limits
from tools import Table, medians, options, save, seconds_of, with_spread

from skhash import HammingNeighbors, SBNClassifier, SupervisedHash
from skhash.metrics import mean_average_precision_score
from skhash.networks import BayesBiNNWeights

# Parameters of all fits, whatever the defaults are.
COMMON = {"gradient": "st", "init_scale": 1.0, "lr_schedule": "cosine"}
COMMON |= {"n_predict_samples": 0, "device": "cpu"}
N_PREDICTED, BLOCK_ROWS, REPEATS, SEEDS = 10_000, 1000, 7, (0, 1, 2)
DIGITS_EPOCHS = 40
SIZES = {"digits": [(256, 256)], "fashion_mnist": [(256, 256), (1024, 1024, 1024)]}


@cache
def load(name):
    """Return training rows, all rows to search in, and queries, with their labels."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X, query, y, query_labels = train_test_split(
            X.astype(np.float32), y, test_size=0.5, random_state=0, stratify=y
        )
        return (X, y), {"training": (X, y)}, (query, query_labels)
    train, other, _, query = load_images().values()
    return train, {"training": train, "separate": other}, query


def epochs_of(name, arguments):
    return DIGITS_EPOCHS if name == "digits" else arguments.epochs


# Speed


def fold(model):
    """Return float32 weights and intercepts of a network that was trained with `ReLU`.

    Norms are part of them, as of the network without noise.
    """
    state = model.net_.module_.network.state_dict()
    arrays = (value.numpy() for value in state.values())
    layers = []
    for layer in model.layers_:
        weight, *norm = (next(arrays) for _ in range(5 if layer["batch_norm"] else 2))
        if layer["batch_norm"]:
            gain, offset, mean, variance = norm
            scale = gain / np.sqrt(variance + 1e-5)
            weight, norm = weight * scale[:, None], [offset - mean * scale]
        layers.append((np.float32(weight), np.float32(norm[0])))
    weight, intercept = layers[0]
    weight = weight / np.float32(model.scale_)
    intercept = intercept - weight @ model.mean_.astype(np.float32)
    return [(weight, intercept), *layers[1:]]


def predict_in_numpy(layers, X):
    classes = []
    for start in range(0, len(X), BLOCK_ROWS):
        x = X[start : start + BLOCK_ROWS]
        for i, (weight, intercept) in enumerate(layers):
            x = x @ weight.T
            x += intercept
            if i < len(layers) - 1:
                np.maximum(x, 0, out=x)
        classes.append(x.argmax(axis=1))
    return np.concatenate(classes)


@torch.inference_mode()
def predict_in_torch(layers, X):
    classes = []
    for x in torch.from_numpy(X).split(BLOCK_ROWS):
        for i, (weight, intercept) in enumerate(layers):
            x = torch.nn.functional.linear(x, weight, intercept)
            if i < len(layers) - 1:
                x = x.relu_()
        classes.append(x.argmax(dim=1))
    return torch.cat(classes).numpy()


def fit(name, sizes, arguments, **params):
    fixed = COMMON | {"max_epochs": epochs_of(name, arguments), "random_state": 0}
    return SBNClassifier(sizes, **fixed | params).fit(*load(name)[0])


def speed(arguments):
    tables = {name: Table(formats) for name, formats in SPEED_TABLES.items()}
    for name, all_sizes in SIZES.items():
        for sizes in all_sizes:
            measure_speed(name, sizes, arguments, tables)
    for table in tables.values():
        table.printed()
    data = f"{N_PREDICTED} rows of the test set"
    save(arguments.output, tables, seeds=[0], data=data)


SPEED_TABLES = {
    "networks": (
        "network | accuracy without noise :.1f | exported :.1f | ReLU :.1f | "
        "kB of weights :.0f | float kB :.0f | kB of inner layers :.0f | "
        "float kB of inner layers :.0f"
    ),
    "speed": (
        "network | rows | threads | packed :.3g | NumPy :.3g | torch :.3g | ratio :.1f"
    ),
    "layers": "layer | packed :.3g | NumPy :.3g | ratio :.1f",
}


def measure_speed(name, sizes, arguments, tables):
    """Measure accuracies, bytes and milliseconds of a network, and of its layers."""
    binary = fit(name, sizes, arguments, weights="mirror", lr=0.01)
    real = fit(name, sizes, arguments, gradient=ReLU(), lr=0.003)
    network, layers = binary.export_deterministic(), fold(real)
    query, labels = load(name)[2]
    assert np.array_equal(network.predict(query), binary.predict(query))
    title = f"{name}, {query.shape[1]}-{'-'.join(map(str, sizes))}"
    classes = [binary.predict(query), network.predict(query)]
    classes.append(predict_in_numpy(layers, query))
    accuracies = [100 * float(np.mean(predicted == labels)) for predicted in classes]
    row = [title, *accuracies, *kilobytes(network, layers)]
    tables["networks"].rows.append(row)
    X = np.resize(query, (N_PREDICTED, query.shape[1]))
    tables["speed"].rows += speed_rows(title, network, layers, X)
    with threadpool_limits(1):
        tables["layers"].rows += layer_rows(title, network, layers, X)


def kilobytes(network, layers):
    """Return the sizes of all weights, packed and float, and of the inner ones."""
    inner = sum(weight.nbytes for weight, _ in layers[1:-1])
    packed = sum(layer.weights.nbytes for layer in network.layers[1:])
    both = layers[0][0].nbytes + layers[-1][0].nbytes
    return [n_bytes / 1e3 for n_bytes in (both + packed, both + inner, packed, inner)]


def speed_rows(title, network, layers, X):
    """Return the time of all rows, with one thread and two, and of one row."""
    tensors, rows = [tuple(map(torch.from_numpy, layer)) for layer in layers], []
    for n, threads, times in ((len(X), 1, REPEATS), (len(X), 2, REPEATS), (1, 1, 20)):
        torch.set_num_threads(threads)
        functions = {
            "packed": lambda n=n: network.predict(X[:n]),
            "NumPy": lambda n=n: predict_in_numpy(layers, X[:n]),
            "torch": lambda n=n: predict_in_torch(tensors, X[:n]),
        }
        with joblib.parallel_config(n_jobs=threads), threadpool_limits(threads):
            found = medians(functions, times)
        ratio = min(found["NumPy"], found["torch"]) / found["packed"]
        rows.append([title, n, threads, *(1000 * it for it in found.values()), ratio])
    return rows


def layer_rows(title, network, layers, X):
    """Return the time of each layer beside that of its float product; one thread."""
    x = ((X - network.mean) / network.scale).astype(np.float32)
    packed, h, rows = None, X, []
    for i, (layer, (weight, _)) in enumerate(zip(network.layers, layers, strict=False)):
        run = partial(layer.read, packed) if i else partial(layer, x)
        times = partial(np.matmul, h, weight.T)
        found = medians({"packed": run, "float": times}, REPEATS)
        what = f"{weight.shape[1]} {'bits' if i else 'real numbers'}"
        name = f"{title}: {what} to {weight.shape[0]}"
        ratio = found["float"] / found["packed"]
        rows.append([name, *(1000 * it for it in found.values()), ratio])
        packed, h = run(), np.maximum(times(), 0)
    return rows


# Codes

# Differences from the defaults of `SBNClassifier`.
MIRROR = {"weights": "mirror", "lr": 0.01, "device": "cpu"}
CODES = {
    "binary network": COMMON | MIRROR,
    "binary, defaults": MIRROR,
    "binary, from real": MIRROR | {"init": "real"},
    "real weights": COMMON | {"lr": 0.003},
    "real, defaults": {"device": "cpu"},
    "SupervisedHash": {"lr_schedule": "cosine", "device": "cpu"},
}


def make(method, n_bits, **params):
    params = CODES[method] | params
    if method == "SupervisedHash":
        return SupervisedHash(n_bits, hidden_layer_sizes=(256,), **params)
    return SBNClassifier((256, n_bits), **params)


def codes(arguments):
    """Measure what is found by codes of the last layer, means over seeds."""
    names = "data | database | bits | method | mAP :.3f | P@100 :.3f | fit s :.1f"
    table = Table(names).printed()
    for name in SIZES:
        (X, y), searched, query = load(name)
        for n_bits, method in product((32, 64), CODES):
            found, seconds = {key: [] for key in searched}, []
            for seed in SEEDS:
                epochs = epochs_of(name, arguments)
                encoder = make(method, n_bits, max_epochs=epochs, random_state=seed)
                seconds.append(seconds_of(encoder.fit, X, y)[0])
                for database, rows in searched.items():
                    found[database].append(search(encoder, query, rows))
            for database, scores in found.items():
                found, precisions = zip(*scores, strict=True)
                cells = with_spread(found), float(np.mean(precisions)), median(seconds)
                table.add(name, database, n_bits, method, *cells)
    save(arguments.output, {"found": table}, seeds=SEEDS)


def search(encoder, query, database):
    """Return the mean average precision, and the precision of 100 nearest codes."""
    bits, others = encoder.transform(query[0]), encoder.transform(database[0])
    index = HammingNeighbors(100).fit(others)
    nearest = index.kneighbors(bits, return_distance=False)
    precision = np.mean(database[1][nearest] == query[1][:, None])
    return mean_average_precision_score(bits, others, query[1], database[1]), precision


# Training


class FromLargeLogits(BayesBiNNWeights):
    """First logits in the unit n / temperature, which is that of the steps."""

    def start(self, shape, n_inputs, generator):
        return super().start(shape, n_inputs, generator) / self.temperature


class IdentityWeights(FromLargeLogits):
    """Identity straight-through without noise: the same at logits beyond all noise."""

    def draw(self, parameter, generator):
        eta = parameter.detach()
        return super().draw(BEYOND_NOISE * eta.sign() + (parameter - eta), generator)


BEYOND_NOISE = 1e3
# Powers of 2 near their names, so that another unit rounds nothing in another way.
TEMPERATURES = {"1": 0, "1/8": -3, "1e-3": -10, "1e-6": -20, "1e-10": -33, "1e-13": -43}
# Rates of Adam; that of BayesBiNN's SGD is the share of logits that a step forgets.
ADAM = {"mirror descent": ("mirror", 0.01), "projected gradient": ("pgd", 0.01)}
BAYES_RATE = 0.03


def train(weights, lr, n_epochs):
    """Return parameters of the inner layer, the last loss and the accuracy."""
    (X, y), _, (query, labels) = load("fashion_mnist")
    optimizer = "sgd" if isinstance(weights, BayesBiNNWeights) else "adam"
    params = COMMON | {"weights": weights, "optimizer": optimizer, "random_state": 0}
    model = SBNClassifier((256, 256), **params | {"lr": lr, "max_epochs": n_epochs})
    model.fit(X, y)
    (eta,) = (w for w in model.weights_ if w.shape == (256, 256))
    return eta, model.history_[-1]["train_loss"], 100 * model.score(query, labels)


def training(arguments):
    settings = dict(ADAM)
    for name, power in TEMPERATURES.items():
        settings[f"BayesBiNN, {name}"] = FromLargeLogits(2.0**power), BAYES_RATE
    settings["identity straight-through"] = IdentityWeights(2.0**-43), BAYES_RATE
    runs = {name: train(*it, arguments.epochs) for name, it in settings.items()}
    identity = runs["identity straight-through"][0]
    names = "weights | training loss :.3f | accuracy :.1f | as identity, % :.2f"
    table = Table(f"{names} | undecided, % :.1f").printed()
    for name, (eta, loss, accuracy) in runs.items():
        p = (eta + 1) / 2 if name == "projected gradient" else expit(2 * eta)
        undecided = 100 * float(np.mean((p > 0.05) & (p < 0.95)))
        same = 100 * float(np.mean((eta > 0) == (identity > 0)))
        table.add(name, loss, accuracy, same, undecided)
    save(arguments.output, {"found": table}, seeds=[0])


def main():
    parts = {"speed": speed, "codes": codes, "training": training}
    parser = options(__doc__, epochs=15)
    parser.add_argument("part", choices=parts)
    arguments = parser.parse_args()
    parts[arguments.part](arguments)


if __name__ == "__main__":
    main()
