"""A graph of nearest neighbours by codes, beside the exact one of the vectors.

    python examples/benchmarks/neighbor_graph.py --data-home DATA_HOME
    python examples/benchmarks/neighbor_graph.py --data-home DATA_HOME --quality

Fashion-MNIST and MiniLM embeddings of 20 Newsgroups, each row with its `k` nearest
others by the Euclidean distance. The exact graph is that of
``KNeighborsTransformer(algorithm="brute")``. Encoders are fitted to a part of the same
rows, once; "then vectors" orders 200 candidates by their vectors. The graphs, encoding
included, take turns in one process and on one thread; seconds are medians. Recall is
the share of the edges of the exact graph.

With ``--quality``, for fewer rows and several seeds, which draw the rows and seed all
methods, what becomes of a graph: spectral clusters (their mutual information with the
labels, normalized), and maps by t-SNE (trustworthiness: 1 where neighbours on the map
are neighbours by their vectors). Mean and standard deviation over seeds.
"""

import argparse
import sys
from statistics import median
from time import perf_counter

import numpy as np
from data_sets import load_20newsgroups, load_fashion_mnist
from growing_results import describe, head
from result_files import Table, add_output, save
from sklearn.cluster import SpectralClustering
from sklearn.frozen import FrozenEstimator
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsTransformer
from threadpoolctl import threadpool_limits

from skhash import (
    AsymmetricNeighbors,
    HammingNeighbors,
    HashedNeighbors,
    ITQHash,
    NeighborHash,
    SGHEncoder,
)

N_FIT, N_CANDIDATES, TURNS = 5000, 200, 3
ENCODERS = {
    "ITQ, 64 bits": (ITQHash, 64),
    "ITQ, 256 bits": (ITQHash, 256),
    "SGH, 64 bits": (SGHEncoder, 64),
    "NeighborHash, 128 bits": (NeighborHash, 128),
}
THEN_VECTORS = ", then vectors"
N_CLUSTERING, PERPLEXITY = 10, 30
TIMES = {
    "data": "",
    "graph by": "",
    "fit, s": ".2f",
    "graph, s": ".2f",
    "exact, s": ".2f",
    "times as fast": ".1f",
    "with the fit": ".1f",
    "recall": ".3f",
}
QUALITY = {
    "data": "",
    "graph by": "",
    "recall": ".3f",
    "clusters": ".3f",
    "map": ".4f",
}


def load(name, data_home, n_rows, seed):
    """Return random rows and their labels."""
    if name == "Fashion-MNIST":
        data = load_fashion_mnist(data_home=data_home)
    else:
        data = load_20newsgroups("minilm", data_home=data_home)
    X = np.concatenate([data.database, data.query])
    y = np.concatenate([data.database_labels, data.query_labels])
    rows = np.random.default_rng(seed).permutation(len(X))[:n_rows]
    return np.ascontiguousarray(X[rows], dtype=np.float32), y[rows]


def fit_encoders(X, seed):
    """Return fitted encoders, and the seconds that each took, by name."""
    encoders, seconds = {}, {}
    for name, (encoder, n_bits) in ENCODERS.items():
        start = perf_counter()
        encoders[name] = encoder(n_bits, random_state=seed).fit(X[:N_FIT])
        seconds[name] = perf_counter() - start
    return encoders, seconds


def makers(encoders, k):
    """Return what makes the graphs, of `k` neighbours besides the row itself."""
    found = {"vectors": KNeighborsTransformer(n_neighbors=k, algorithm="brute")}
    for name, encoder in encoders.items():
        encoder = FrozenEstimator(encoder)
        index = AsymmetricNeighbors(k, n_candidates=N_CANDIDATES, n_jobs=1)
        found[name] = HashedNeighbors(encoder, HammingNeighbors(k, n_jobs=1))
        found[name + THEN_VECTORS] = HashedNeighbors(encoder, index, keep_vectors=True)
    return found


def recall_of(graph, exact):
    """Return the share of edges of the exact graph, those to the row itself aside."""
    shared = 0
    for row in range(exact.shape[0]):
        ours, theirs = (
            one.indices[one.indptr[row] : one.indptr[row + 1]] for one in (graph, exact)
        )
        shared += len(np.setdiff1d(np.intersect1d(ours, theirs), row))
    return shared / (exact.nnz - exact.shape[0])


def measure_times(name, data_home, arguments, table):
    """Add a line for each graph by codes."""
    X, _ = load(name, data_home, arguments.rows or 15_000, 0)
    encoders, fits = fit_encoders(X, 0)
    graphs, seconds = {}, {}
    for turn in range(TURNS + 1):
        part = X if turn else X[:1000]  # the first one compiles
        for what, maker in makers(encoders, arguments.k).items():
            start = perf_counter()
            graphs[what] = maker.fit_transform(part)
            seconds.setdefault(what, []).append(perf_counter() - start)
    seconds = {what: median(all[1:]) for what, all in seconds.items()}
    exact = seconds.pop("vectors")
    for what, taken in seconds.items():
        fit = fits[what.removesuffix(THEN_VECTORS)]
        recall = recall_of(graphs[what], graphs["vectors"])
        ratios = exact / taken, exact / (fit + taken)
        table.add(name, what, fit, taken, exact, *ratios, recall)
    return len(X)


def qualities(X, y, seed):
    """Return recall, clusters and map of each graph, by name."""
    k = 3 * PERPLEXITY + 1
    encoders, _ = fit_encoders(X, seed)
    found, exact = {}, None
    for what, maker in makers(encoders, k).items():
        graph = maker.fit_transform(X)
        exact = graph if exact is None else exact
        clusters = SpectralClustering(
            len(np.unique(y)),
            affinity="precomputed_nearest_neighbors",
            n_neighbors=N_CLUSTERING,
            random_state=seed,
        ).fit_predict(graph)
        # A map takes most of the time, and this one's graph is nearly the exact one.
        is_drawn = not what.endswith(THEN_VECTORS)
        found[what] = [
            recall_of(graph, exact),
            normalized_mutual_info_score(y, clusters),
            map_of(graph, X, seed) if is_drawn else None,
        ]
        print(seed, what, *found[what], file=sys.stderr, flush=True)
    return found


def map_of(graph, X, seed):
    """Return the trustworthiness of a map."""
    tsne = TSNE(
        metric="precomputed", init="random", perplexity=PERPLEXITY, random_state=seed
    )
    return trustworthiness(X, tsne.fit_transform(graph), n_neighbors=10)


def measure_quality(name, data_home, arguments, table):
    """Add a line for each graph, that of the vectors first."""
    found = []
    for seed in arguments.seeds:
        X, y = load(name, data_home, arguments.rows or 4000, seed)
        found.append(qualities(X, y, seed))
    for what in found[0]:
        columns = zip(*(one[what] for one in found), strict=True)
        cells = [
            None if None in it else [float(np.mean(it)), float(np.std(it, ddof=1))]
            for it in columns
        ]
        table.add(name, what, *cells)
    return len(X)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=30, help="neighbours, for the times")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    print(describe(head()))
    measure = measure_quality if arguments.quality else measure_times
    table = Table(QUALITY if arguments.quality else TIMES).printed()
    try:
        with threadpool_limits(1):
            n_rows = [
                measure(name, arguments.data_home, arguments, table)
                for name in ("Fashion-MNIST", "MiniLM")
            ]
    except FileNotFoundError as error:
        sys.exit(str(error))
    what = f"perplexity {PERPLEXITY}" if arguments.quality else f"k = {arguments.k}"
    data = f"{' and '.join(f'{n:,}' for n in n_rows)} rows, {what}, one thread"
    seeds = arguments.seeds if arguments.quality else [0]
    save(arguments.output, {"graphs": table}, seeds=seeds, data=data)


if __name__ == "__main__":
    main()
