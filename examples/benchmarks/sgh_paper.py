"""The figures of the SGH paper's supplement, on data at hand.

Dai et al. (2017) compare Stochastic Generative Hashing with the methods of its time in
reconstruction error (figure 4), training time (figure 5), recall of the nearest
neighbours (figures 6 and 7) and recall of the largest inner products (figure 8)::

    python examples/benchmarks/sgh_paper.py error time recall mips --output results
    python examples/benchmarks/sgh_paper.py recall --files sift --database-rows 200000
    python examples/benchmarks/sgh_paper.py --output results --picture docs/images \
        --results docs/results/sgh_paper.md

Each figure is a JSON file of the folder ``--output``; tables and the pictures of
figures 4 and 5 are of all that are there.

The first three run on Fashion-MNIST, "mips" on GloVe's word vectors as they are, not of
unit length; ``--files`` names another data set. "mips_images" has the inner products of
images, which have columns enough for every method, "scales" images of random strength,
whose neighbours are those of the images themselves (section E.1), "labels" has pairs
of rows with known labels (section E.2), and "coding" bits as 0/1 and -1/+1 (section
E.3). Codes are searched in up to three ways: by
Hamming distance, in expectation over the order of equally near codes ("Hamming"); by
uncompressed queries against what the codes decode to ("asymmetric"), where codes of
methods without a decoder get the one of least squares; and the same with codes refined
by coordinate descent ("refined"). Spherical hashing has its own distance ("own
distance", ties by position). PQ and OPQ are faiss's quantizers of as many bytes: no
binary codes, but the right measure for the last two.

Every method has its defaults, but for "SGH, pairs", which learns from the data's near
neighbours too; none has seen the queries. "time" counts the processor
time of all threads: let there be one, by ``OMP_NUM_THREADS=1``.
"""

import json
from collections import defaultdict
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import tools
from every_cell import OTHERS

from skhash import ITQHash, NeighborHash, SGHEncoder, linear, metrics
from skhash.codes import pack_bits, spherical_hamming_distances
from skhash.datasets import RetrievalData
from skhash.metrics import true_neighbors
from skhash.neighbors import AsymmetricNeighbors
from skhash.neural import LatentScale
from skhash.quantization import LinearDecoder

ORDER = "ITQ", "PCA", "KMH", "spherical", "spectral", "scalable graph"
METHODS = {"SGH": SGHEncoder, "SGH, pairs": partial(SGHEncoder, pairs="neighbors")}
METHODS |= {name: OTHERS[name] for name in (*ORDER, "binary autoencoder", "random")}
METHODS["NeighborHash"] = NeighborHash
DECODED = ("SGH", "ITQ")
# Rows on which codes and codebook are fitted in turns.
REFINED_ROWS = 10_000
QUANTIZERS = ("PQ", "OPQ")
# How many are looked at, and how many of the nearest are to be among them.
N_QUERIES, N_RETRIEVED, NEAREST = 1000, 100, (10, 100)
# How often the curves of the reconstruction error are read, in shares of an epoch.
READINGS = 5


def load(figure, name, data_home):
    """Return the data that a figure is drawn on."""
    if figure == "mips" and name is None:
        setting = {"n_queries": 10_000, "n_train": 71_291, "normalize": False}
        return tools.load_glove(**setting, data_home=data_home)
    return tools.LOADERS[name or "fashion_mnist"](data_home=data_home)


def sample(X, n_rows, seed=0):
    """Return at most so many rows, drawn at random, as float32."""
    if len(X) <= n_rows:
        return np.float32(X)
    rows = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
    return np.float32(X[np.sort(rows)])


def reconstruction(data, arguments):
    """Yield the squared error of held-out rows after so many examples seen."""
    train, query = data.train, data.query
    for n_bits, seed in product(arguments.bits, arguments.seeds):
        case = {"bits": n_bits, "seed": seed}
        order = np.random.default_rng(seed).permutation(len(train))
        for method, init in (("SGH", "auto"), ("SGH, random start", "random")):
            # Batches as large as those of one whole fit.
            encoder = SGHEncoder(n_bits, init=init, batch_size=512, random_state=seed)
            seen = 0
            for part in np.array_split(order, READINGS) * encoder.max_epochs:
                encoder.partial_fit(train[part])
                seen += len(part)
                error = float(encoder.reconstruction_error(query).mean())
                yield {"method": method, **case, "examples seen": seen, "error": error}
        for steps in (1, 2, 5, 10, 20, 50) if n_bits <= train.shape[1] else ():
            encoder = ITQHash(n_bits, max_iter=steps, random_state=seed).fit(train)
            decoder, codes = least_squares(encoder, train), encoder.transform(query)
            left = query - decoder.inverse_transform(codes)
            error = float(np.square(left).sum(axis=1).mean())
            seen = steps * len(train)
            yield {"method": "ITQ", **case, "examples seen": seen, "error": error}


def least_squares(encoder, train):
    """Return the decoder of least squares of an encoder's codes."""
    decoder = LinearDecoder(block_bits=1)
    return decoder.fit(train, encoder.transform(train))


# Limits to shorten, for results of a method after less time.
BUDGETS = {
    "SGH": ("max_epochs", (1, 2, 5, 10)),
    "ITQ": ("max_iter", (1, 5, 20, 50)),
    "binary autoencoder": ("max_iter", (1, 3, 10)),
}


def training_time(data, arguments):
    """Yield processor seconds of a fit and the recall of its codes, in turn."""
    truth = true_neighbors(data.query, data.database, 100)
    SGHEncoder(2, max_epochs=1, random_state=0).fit(data.train[:200])
    linear.BinaryAutoencoderHash(2, max_iter=1, random_state=0).fit(data.train[:200])
    for n_bits, seed in product(arguments.bits, arguments.seeds):
        for method, (name, values) in BUDGETS.items():
            for value in values:
                encoder = METHODS[method](n_bits, random_state=seed, **{name: value})
                seconds, _ = tools.cpu_seconds_of(encoder.fit, data.train)
                recall = by_hamming(encoder, data, truth)["10@100"]
                case = {"method": method, "bits": n_bits, "seed": seed, name: value}
                yield {**case, "seconds": seconds, "10@100": recall}


# Settings that are said to make codes follow the direction of rows.
SCALES = {"none": {}, "normalize": {"normalize": True}}
SCALES |= {f"latent {std}": {"latent_scale": LatentScale(std)} for std in (0.3, 1)}
CODINGS = {
    f"{coding}, {gradient}": {"coding": coding, "gradient": gradient}
    for coding in ("01", "pm1")
    for gradient in ("analytic", "exact", "linear")
}


def scaled_recall(data, arguments):
    """Yield recalls where rows have random strengths, of the rows as they were."""
    strength = np.random.default_rng(0)
    parts = (
        np.float32(X * strength.lognormal(0, 0.6, (len(X), 1)))
        for X in (data.train, data.database, data.query)
    )
    scaled = RetrievalData(data.name, data.metric, *parts)
    truth = true_neighbors(data.query, data.database, 100)
    yield from variants(SCALES, scaled, truth, arguments)


def coded_recall(data, arguments):
    """Yield recalls of codes learned as 0/1 and as -1/+1."""
    truth = true_neighbors(data.query, data.database, 100)
    yield from variants(CODINGS, data, truth, arguments)


def labeled_precision(data, arguments):
    """Yield the precision of codes learned with the labels of some training rows."""
    for seed, n_bits in product(arguments.seeds, arguments.bits):
        order = np.random.default_rng(seed).random(len(data.train))
        for share in (0, 0.01, 0.1):
            pairs = {"pairs": "labels"} if share else {}
            encoder = SGHEncoder(n_bits, random_state=seed, **pairs)
            encoder.fit(data.train, np.where(order < share, data.train_labels, -1))
            labels = data.query_labels, data.database_labels
            codes = map(encoder.transform_packed, (data.query, data.database))
            found = metrics.mean_average_precision_score(*codes, *labels, packed=True)
            case = {"method": f"{share:.0%} of the labels", "search": "Hamming"}
            yield {**case, "bits": n_bits, "seed": seed, "mAP": float(found)}


def variants(kinds, data, truth, arguments):
    for seed, n_bits in product(arguments.seeds, arguments.bits):
        for name, params in kinds.items():
            encoder = SGHEncoder(n_bits, random_state=seed, **params).fit(data.train)
            case = {"method": name, "search": "Hamming", "bits": n_bits, "seed": seed}
            yield case | by_hamming(encoder, data, truth)


def recalls(data, arguments, metric):
    """Yield recalls, a method and search at a time."""
    truth = true_neighbors(data.query, data.database, 100, metric=metric)
    for seed, n_bits in product(arguments.seeds, arguments.bits):
        case = {"bits": n_bits, "seed": seed}
        for method in [*METHODS, *QUANTIZERS]:
            if method in QUANTIZERS:
                index = quantizer(method, n_bits, data, metric)
                positions = index.search(data.query, N_RETRIEVED)[1]
                found = by_position(positions, truth)
                yield {"method": method, "search": "asymmetric"} | case | found
                continue
            encoder = METHODS[method](n_bits, random_state=seed)
            try:
                encoder.fit(data.train)
            except ValueError as error:
                print(f"{method} left out: {error}")
                continue
            for search, found in searches(method, encoder, data, truth, metric):
                yield {"method": method, "search": search} | case | found


def searches(method, encoder, data, truth, metric):
    """Yield the searches of an encoder's codes by name, and what they find."""
    yield "Hamming", by_hamming(encoder, data, truth)
    if method == "spherical":
        codes = encoder.transform_packed(data.database)
        positions = [
            np.argsort(spherical_hamming_distances(one, codes)[0], kind="stable")
            for one in encoder.transform_packed(data.query)[:, None]
        ]
        nearest = np.stack([found[:N_RETRIEVED] for found in positions])
        yield "own distance", by_position(nearest, truth)
    if method not in DECODED:
        return
    bits = encoder.transform(data.database)
    decoder = least_squares(encoder, data.train)
    for search in ("asymmetric", "refined"):
        if search == "refined":
            some = sample(data.train, REFINED_ROWS)
            decoder.set_params(n_alternations=10).fit(some, encoder.transform(some))
            bits = decoder.refine(data.database, bits)
        index = AsymmetricNeighbors(N_RETRIEVED, packed=True, metric=metric)
        index.fit(pack_bits(bits), decoder=decoder)
        positions = index.kneighbors(data.query, return_distance=False)
        yield search, by_position(positions, truth)


def by_hamming(encoder, data, truth):
    """Return recalls of the Hamming ranking, in expectation over ties."""
    codes = map(encoder.transform_packed, (data.query, data.database))
    options = {"n_retrieved": N_RETRIEVED, "packed": True}
    recall = partial(metrics.neighbor_recall_score, *codes, **options)
    return {f"{k}@{N_RETRIEVED}": recall(truth[:, :k]) for k in NEAREST}


def by_position(positions, truth):
    """Return recalls of a ranking without ties."""
    recall = partial(metrics.search_recall_score, positions[:, :N_RETRIEVED])
    return {f"{k}@{N_RETRIEVED}": recall(truth[:, :k]) for k in NEAREST}


def quantizer(method, n_bits, data, metric):
    """Return faiss's product quantizer of as many bits, filled."""
    import faiss

    n_columns, n_bytes = data.train.shape[1], n_bits // 8
    # It needs as many columns in each part; zeros at the end change no distance.
    padded = -(-n_columns // n_bytes) * n_bytes
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    before = f"OPQ{n_bytes}_{padded}" if method == "OPQ" else f"Pad{padded}"
    index = faiss.index_factory(n_columns, f"{before},PQ{n_bytes}x8", kind)
    index.train(data.train)
    index.add(data.database)
    return index


FIGURES = {
    "error": reconstruction,
    "time": training_time,
    "recall": partial(recalls, metric="euclidean"),
    "mips": partial(recalls, metric="inner_product"),
    "mips_images": partial(recalls, metric="inner_product"),
    "scales": scaled_recall,
    "labels": labeled_precision,
    "coding": coded_recall,
}


# Tables and pictures


def grouped(rows, *names):
    """Return the rows by the values of these columns."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def means(rows, x, y):
    """Return the values of x, and the mean of y over the seeds at each."""
    points = grouped(rows, x)
    xs = sorted(value for (value,) in points)
    return xs, [float(np.mean([row[y] for row in points[value,]])) for value in xs]


def draw(rows, x, y, label, path):
    """Draw y against x, a panel a code length and a line a method."""
    lengths = grouped(rows, "bits")
    titles = [f"{n_bits} bits" for (n_bits,) in lengths]
    figure, axes = tools.panels(titles, 2, size=(3.2, 2.8))
    for ax, own in zip(axes, lengths.values(), strict=True):
        for (method,), lines in grouped(own, "method").items():
            ax.plot(*means(lines, x, y), "o-", ms=3, label=method)
        ax.set(xscale="log")
    figure.supxlabel(x)
    figure.supylabel(label)
    tools.finish(figure, path)


def recall_table(rows, cut):
    """Return a recall, means over the seeds, a column a length."""
    lengths = sorted({row["bits"] for row in rows})
    columns = {f"{n_bits} bits": ".3f" for n_bits in lengths}
    table = tools.Table({"method": "", "search": "", **columns})
    for names, lines in grouped(rows, "method", "search").items():
        found = dict(zip(*means(lines, "bits", cut), strict=True))
        table.rows.append([*names, *map(found.get, lengths)])
    return table


def time_figures(rows):
    """Return seconds of SGH, and how much longer the binary autoencoder takes.

    The least and the most over the lengths, for the longest training of each.
    """
    longest = defaultdict(dict)
    for row in rows:  # of each method and length the longest is the last
        longest[row["method"]][row["bits"]] = row["seconds"]
    ours, theirs = longest["SGH"], longest["binary autoencoder"]
    ratios = [theirs[n_bits] / ours[n_bits] for n_bits in ours]
    return {
        "SGH, least seconds": min(ours.values()),
        "SGH, most seconds": max(ours.values()),
        "binary autoencoder / SGH, least": min(ratios),
        "binary autoencoder / SGH, most": max(ratios),
    }


# Tables by the figure that they are of, and the recall in them.
TABLES = {
    "Recall 10@100": ("recall", "10@100"),
    "Recall 100@100": ("recall", "100@100"),
    "Largest inner products, recall 10@100": ("mips", "10@100"),
    "Largest inner products of images, recall 10@100": ("mips_images", "10@100"),
    "Scales, recall 10@100": ("scales", "10@100"),
    "Labels of some rows, mean average precision": ("labels", "mAP"),
    "Bits as 0/1 and -1/+1, recall 10@100": ("coding", "10@100"),
}
PICTURES = {
    "error": ("examples seen", "error", "squared error, held-out rows"),
    "time": ("seconds", "10@100", "recall 10@100"),
}


def show(arguments):
    """Print and save tables of all that was measured, and draw two figures."""
    paths = sorted(arguments.output.glob("*.json"))
    contents = {path.stem: json.loads(path.read_text()) for path in paths}
    rows = {figure: content["rows"] for figure, content in contents.items()}
    tables = {
        name: recall_table(rows[source], cut)
        for name, (source, cut) in TABLES.items()
        if source in rows
    }
    figures = time_figures(rows["time"]) if "time" in rows else {}
    heads = [content["head"] for content in contents.values()]
    commands = dict.fromkeys(it for head in heads for it in head["commands"])
    content = {"head": {**heads[-1], "commands": list(commands)}}
    about = {"seeds": sorted({row["seed"] for own in rows.values() for row in own})}
    tools.print_and_save(tables, content, arguments.results, figures=figures, **about)
    for name in PICTURES.keys() & rows if arguments.picture else ():
        path = arguments.picture / f"sgh_paper_{name}.svg"
        draw(rows[name], *PICTURES[name], path)


def measure(figure, arguments):
    """Measure a figure, and keep it in a file after each row."""
    data = load(figure, arguments.files, arguments.data_home)
    rows = data.train, data.database, data.query
    sizes = arguments.train_rows, arguments.database_rows, N_QUERIES
    labels = [data.train_labels, data.database_labels, data.query_labels]
    if labels[0] is not None:
        labels = [sample(y, n) for y, n in zip(labels, sizes, strict=True)]
    data = RetrievalData(data.name, data.metric, *map(sample, rows, sizes), *labels)
    about = (
        f"{data.name}: {len(data.database):,} x {data.database.shape[1]}, "
        f"{len(data.query):,} queries, at most {arguments.train_rows:,} training rows"
    )
    print(f"\n## {figure}, {about}", flush=True)
    rows = []
    for row in FIGURES[figure](data, arguments):
        rows.append(row)
        shown = (f"{v:.4g}" if isinstance(v, float) else v for v in row.values())
        print(*(f"{k}={v}" for k, v in zip(row, shown, strict=True)), flush=True)
        if arguments.output:
            arguments.output.mkdir(parents=True, exist_ok=True)
            measured = {**tools.head(), "commands": [tools.command()]}
            content = {"head": measured, "about": about, "rows": rows}
            path = arguments.output / f"{figure}.json"
            path.write_text(json.dumps(content, indent=1))


def main():
    sizes = {"bits": [8, 16, 32, 64], "seeds": [0, 1, 2], "train_rows": 100_000}
    sizes |= {"database_rows": 1_000_000, "files": None, "data_home": None}
    parser = tools.options(__doc__, **sizes)
    parser.add_argument("figures", nargs="*", help=", ".join(FIGURES))
    parser.add_argument("--results", type=Path, help="a file of the tables")
    parser.add_argument("--picture", type=Path, help="folder for pictures")
    arguments = parser.parse_args()
    for figure in arguments.figures:
        try:
            measure(figure, arguments)
        except FileNotFoundError as error:
            print(f"{figure} left out. {error}")
    if arguments.output:
        show(arguments)


if __name__ == "__main__":
    main()
