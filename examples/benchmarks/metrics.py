"""Retrieval metrics beside NumPy.

Mean average precision of 10 000 queries against 60 000 codes of 64 bits, the size of
Fashion-MNIST. Two ways that published code does it with NumPy stand beside
`skhash.metrics`: the distance matrix from a product of signs and a sort, and XOR with
``numpy.bitwise_count`` and a radix sort of bytes. Both sort each row of a chunk of
queries, so they answer ``ties="index"``, and their numbers must be equal to ours.

All alternate in one process; the table shows medians. Run from the repository root::

    python examples/benchmarks/metrics.py
    python examples/benchmarks/metrics.py --queries 1000 --repeats 5
"""

import numpy as np
from tools import Table, columns, medians, options, save

from skhash import metrics
from skhash.codes import bits_to_signs, pack_bits, packed_to_words

COLUMNS = columns(
    "metric | seconds :.2f | ns a pair :.2f | times the product :.1f | times xor :.1f"
)
CHUNK = 100  # queries; 100 rows of 60 000 float32 distances are 24 MB


def make_data(n_queries, n_database, n_bits=64, n_classes=10, flip=0.4, seed=0):
    """Codes scattered around one random code a class, and their classes."""
    rng = np.random.default_rng(seed)
    centers = rng.integers(0, 2, (n_classes, n_bits), dtype=np.uint8)
    labels = rng.integers(0, n_classes, n_queries + n_database)
    bits = centers[labels] ^ (rng.random((len(labels), n_bits)) < flip)
    queries, database = bits[:n_queries], bits[n_queries:]
    return queries, database, labels[:n_queries], labels[n_queries:]


def numpy_by_product(queries, database, query_labels, labels):
    """Signs, a matrix product, ``argsort``."""
    signs = bits_to_signs(database).T
    half = queries.shape[1] / 2

    def distances(rows):
        return half - (bits_to_signs(queries[rows]) @ signs) / 2

    return _mean_average_precision(distances, query_labels, labels)


def numpy_by_xor(queries, database, query_labels, labels):
    """XOR of 64-bit words, ``bitwise_count``, ``argsort`` of bytes."""
    query_words, words = (
        packed_to_words(pack_bits(bits))[:, 0] for bits in (queries, database)
    )

    def distances(rows):
        return np.bitwise_count(query_words[rows, None] ^ words)

    return _mean_average_precision(distances, query_labels, labels)


def _mean_average_precision(distances, query_labels, labels):
    total, ranks = 0.0, np.arange(1, len(labels) + 1)
    for start in range(0, len(query_labels), CHUNK):
        rows = slice(start, start + CHUNK)
        order = np.argsort(distances(rows), axis=1, kind="stable")
        relevant = labels[order] == query_labels[rows, None]
        precision = np.cumsum(relevant, axis=1) / ranks
        total += ((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).sum()
    return total / len(query_labels)


def main():
    settings = options(__doc__, queries=10_000, database=60_000, repeats=3).parse_args()
    data = make_data(settings.queries, settings.database)
    codes = queries, database = data[:2]
    rng = np.random.default_rng(1)
    wanted = rng.random((len(queries), 24)) < 0.1
    given = rng.random((len(database), 24)) < 0.1
    start = rng.integers(0, len(database), (len(queries), 1))
    truth = (start + np.arange(10)) % len(database)  # any ten: time does not depend

    score = metrics.mean_average_precision_score
    tasks = {
        "NumPy, product and argsort": lambda: numpy_by_product(*data),
        "NumPy, XOR and radix argsort": lambda: numpy_by_xor(*data),
        "mAP, ties by index": lambda: score(*data, ties="index"),
        "mAP, expected": lambda: score(*data),
        "precision-recall curve": lambda: metrics.hamming_precision_recall_curve(*data),
        "NDCG, 24 labels": lambda: metrics.ndcg_at_k_score(*codes, wanted, given),
        "neighbour recall": lambda: metrics.neighbor_recall_score(*codes, truth),
    }
    results = {}

    def kept(name):
        results[name] = tasks[name]()

    calls = {name: lambda name=name: kept(name) for name in tasks}
    seconds, table = medians(calls, settings.repeats), Table(COLUMNS).printed()
    product, xor, ours, *_ = results.values()
    np.testing.assert_allclose([product, xor], ours, rtol=1e-9)
    product, xor, *_ = seconds.values()
    pairs = len(queries) * len(database)
    for name, median in seconds.items():
        table.add(name, median, 1e9 * median / pairs, product / median, xor / median)
    data = f"{len(queries):,} queries, {len(database):,} codes of 64 bits, "
    data += f"medians of {settings.repeats}"
    save(settings.output, {"Metrics": table}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
