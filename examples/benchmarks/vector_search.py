"""Sentence embeddings at 8, 16 and 32 bytes: what searches by them still find.

The embeddings are those of 20 Newsgroups by MiniLM, 384 numbers of unit length; the
training messages are the database, the test messages the queries::

    python examples/benchmarks/vector_search.py --picture docs/images/recall_bytes.png
    python examples/benchmarks/vector_search.py --bits 64 --seeds 0 --methods ITQ

Each code is searched in three ways: by Hamming distance alone (in expectation over the
order of tied codes); by a real-valued query against the codes, where the score of a
code is the sum of the query's logits, each with the sign that the code has there (which
is `AsymmetricNeighbors` with logits as queries, and a decoder that makes signs of
bits); and by the cosine of the float vectors among the first 50, 100 or 500 codes by
Hamming distance (P@100 of 100 thus is that of Hamming alone).

"PQ" is faiss's product quantiser with as many bytes, whose candidates faiss re-scores.
It is no binary code: its distances are sums of looked-up numbers. It runs where faiss
is installed.

Every method has its defaults, but for the hidden layer of "neighbor MLP" and its step
size; none has seen the queries, or a label. The database is shuffled once, so that
candidates equally near are taken at random.
"""

import argparse
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from data_sets import load_20newsgroups
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import ITQHash, NeighborHash, SGHEncoder
from skhash.codes import pack_bits
from skhash.linear import RandomHyperplaneHash
from skhash.metrics import (
    neighbor_recall_score,
    precision_at_k_score,
    true_neighbors,
)
from skhash.neighbors import AsymmetricNeighbors

CANDIDATES = (50, 100, 500)
LONGEST = 100  # ranking that is measured
# What is measured, and what its table is called; +- is the largest half range over the
# seeds in a row.
MEASURES = {"10@10": "nearest", "P@10": "first_ten", "P@100": "first_hundred"}
HAMMING, ASYMMETRIC = "Hamming", "real query"
RESCORED = [f"of {count}" for count in CANDIDATES]
SEARCHES = [HAMMING, ASYMMETRIC, *RESCORED]


class SignOfColumns:
    """The signs of the first columns, as they are."""

    def __init__(self, n_bits, random_state=None):
        self.n_bits = n_bits

    def fit(self, X):
        return self

    def decision_function(self, X):
        return X[:, : self.n_bits]


METHODS = {
    "sign of columns": SignOfColumns,
    "random": RandomHyperplaneHash,
    "ITQ": ITQHash,
    "SGH": SGHEncoder,
    "neighbor": NeighborHash,
    "neighbor MLP": partial(NeighborHash, hidden_layer_sizes=(512,), lr=0.03),
}


class Collection:
    """Vectors, labels and true neighbours, and what a search of them is worth."""

    def __init__(self, data):
        order = np.random.default_rng(0).permutation(len(data.database))
        self.database, self.queries = data.database[order], data.query
        self.labels = np.asarray(data.database_labels)[order]
        self.query_labels = np.asarray(data.query_labels)
        self.truth = true_neighbors(
            self.queries, self.database, LONGEST, metric="cosine"
        )

    def score(self, positions):
        """Measure ranked positions of the database, a row a query."""
        found = positions[:, :10, None] == self.truth[:, None, :10]
        relevant = self.labels[positions] == self.query_labels[:, None]
        scores = {"10@10": found.any(axis=1).mean(), "P@10": relevant[:, :10].mean()}
        if positions.shape[1] >= 100:
            scores["P@100"] = relevant[:, :100].mean()
        return scores

    def score_hamming(self, query_codes, codes):
        labels = self.query_labels, self.labels
        precisions = {
            f"P@{k}": precision_at_k_score(
                query_codes, codes, *labels, k=k, packed=True
            )
            for k in (10, 100)
        }
        recall = neighbor_recall_score(
            query_codes, codes, self.truth[:, :10], n_retrieved=10, packed=True
        )
        return {"10@10": recall, **precisions}


def measure_codes(make, n_bits, collection, seed):
    """Fit one encoder; return the scores of each search, and the fit time."""
    encoder = make(n_bits, random_state=seed)
    start = time.perf_counter()
    encoder.fit(collection.database)
    seconds = time.perf_counter() - start
    logits = encoder.decision_function(collection.queries)
    query_codes = pack_bits(logits > 0)
    codes = pack_bits(encoder.decision_function(collection.database) > 0)
    scores = {HAMMING: collection.score_hamming(query_codes, codes)}
    width = logits.shape[1]
    to_signs = 2 * np.eye(width), -np.ones(width)
    index = AsymmetricNeighbors(packed=True, metric="inner_product")
    _, positions = index.fit(codes, decoder=to_signs).kneighbors(logits, LONGEST)
    scores[ASYMMETRIC] = collection.score(positions)
    index.set_params(metric="cosine").fit(codes, vectors=collection.database)
    for name, count in zip(RESCORED, CANDIDATES, strict=True):
        _, positions = index.set_params(n_candidates=count).kneighbors(
            collection.queries, min(count, LONGEST), codes=query_codes
        )
        scores[name] = collection.score(positions)
    return scores, seconds


def measure_pq(n_bits, collection, seed):
    """Measure faiss's product quantiser, whose queries are real vectors too."""
    import faiss

    n_features = collection.database.shape[1]
    index = faiss.IndexPQ(n_features, n_bits // 8, 8)
    index.pq.cp.seed = seed + 1234  # which is faiss's own default
    start = time.perf_counter()
    index.train(collection.database)
    seconds = time.perf_counter() - start
    index.add(collection.database)
    _, positions = index.search(collection.queries, LONGEST)
    scores = {ASYMMETRIC: collection.score(positions)}
    # Of vectors of unit length, the nearest have the largest cosine.
    refined = faiss.IndexRefineFlat(index, faiss.swig_ptr(collection.database))
    for name, count in zip(RESCORED, CANDIDATES, strict=True):
        n_found = min(count, LONGEST)
        refined.k_factor = count / n_found
        _, positions = refined.search(collection.queries, n_found)
        scores[name] = collection.score(positions)
    return scores, seconds


def measure_all(collection, arguments):
    """Return ``{(n_bits, method): runs}``, a run being scores and seconds."""
    width = collection.database.shape[1]
    jobs = {
        (n_bits, method): partial(measure_codes, METHODS[method], n_bits)
        for n_bits in arguments.bits
        for method in arguments.methods
    }
    if "sign of columns" in arguments.methods:
        jobs[width, "sign of columns"] = partial(measure_codes, SignOfColumns, width)
    try:
        import faiss  # noqa: F401
    except ImportError:
        print("PQ left out: faiss is not installed", file=sys.stderr)
    else:
        jobs |= {(n, "PQ, not binary"): partial(measure_pq, n) for n in arguments.bits}
    results = {}
    for key in sorted(jobs, key=lambda key: key[0]):
        results[key] = [jobs[key](collection, seed) for seed in arguments.seeds]
        print(f"{key[1]} at {key[0]} bits: measured", file=sys.stderr)
    return results


def table_of(measure, results):
    """Return one measure of all codes and searches, as a mean over the seeds."""
    columns = {"bytes": "", "method": "", **dict.fromkeys(SEARCHES, ".3f")}
    table = Table({**columns, "+-": ".3f", "fit s": ".1f"})
    for (n_bits, method), runs in results.items():
        found = [
            [
                scores[search][measure]
                for scores, _ in runs
                if measure in scores.get(search, ())
            ]
            for search in SEARCHES
        ]
        means = [np.mean(values) if values else None for values in found]
        spread = max(np.ptp(values) / 2 for values in found if values)
        seconds = statistics.median(seconds for _, seconds in runs)
        table.rows.append([n_bits // 8, method, *means, spread, seconds])
    return table


STYLES = {
    "neighbor MLP": ("#1b6ca8", "o-"),
    "neighbor": ("#5aa9e6", "o-"),
    "ITQ": ("#d95f02", "s-"),
    "SGH": ("#2a9d5c", "D-"),
    "random": ("0.55", "v-"),
    "sign of columns": ("0.2", "^-"),
    "PQ, not binary": ("#8e5ea2", "P--"),
}
PANELS = {
    HAMMING: "Hamming distance alone",
    ASYMMETRIC: "Real-valued query against codes",
    "of 100": "100 candidates, re-scored by floats",
}


def draw(results, width, picture):
    """Draw recall against bytes, a panel a search."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(
        1, 3, figsize=(12, 4.3), sharey=True, layout="constrained"
    )
    methods = [name for name in STYLES if any(name == method for _, method in results)]
    sizes = sorted({n_bits // 8 for n_bits, _ in results})
    for ax, (search, title) in zip(all_axes, PANELS.items(), strict=True):
        for method in methods:
            color, style = STYLES[method]
            points = [
                (n_bits // 8, np.mean([scores[search]["10@10"] for scores, _ in runs]))
                for (n_bits, name), runs in results.items()
                if name == method and search in runs[0][0]
            ]
            if points:
                ax.plot(*zip(*points, strict=True), style, color=color, markersize=5)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [f"{size}" for size in sizes])
        ax.minorticks_off()
        ax.set(ylim=(0, 1.02), xlabel=f"bytes per vector (float32: {4 * width:,})")
        ax.set_title(title, fontsize="medium")
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    all_axes[0].set_ylabel("recall of the 10 nearest in the first 10")
    lines = [
        all_axes[0].plot([], [], style, color=color, label=name, markersize=5)[0]
        for name in methods
        for color, style in [STYLES[name]]
    ]
    figure.legend(handles=lines, loc="outside right center", frameon=False)
    figure.savefig(picture, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    parser.add_argument("--picture", type=Path, help="a PNG file to draw")
    add_output(parser)
    arguments = parser.parse_args()
    try:
        data = load_20newsgroups("minilm", data_home=arguments.data_home)
    except FileNotFoundError as error:
        sys.exit(str(error))
    collection = Collection(data)
    n_database, width = collection.database.shape
    print(describe(head()))
    # Imports and compilation are no part of a fit.
    SGHEncoder(2, max_epochs=1, random_state=0).fit(collection.database[:200])
    results = measure_all(collection, arguments)
    exact = collection.score(collection.truth)
    tables = {name: table_of(measure, results) for measure, name in MEASURES.items()}
    for measure, name in MEASURES.items():
        print(f"\n{measure}; {exact[measure]:.3f} by the float vectors")
        tables[name].printed()
    figures = {f"exact_{name}": exact[measure] for measure, name in MEASURES.items()}
    data = f"{n_database:,} vectors of {4 * width:,} bytes, "
    data += f"{len(collection.queries):,} queries"
    save(arguments.output, tables, figures, seeds=arguments.seeds, data=data)
    if arguments.picture:
        draw(results, width, arguments.picture)


if __name__ == "__main__":
    main()
