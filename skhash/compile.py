"""``skhash warm``: compile all kernels beforehand, into numba's cache on disk."""

from time import perf_counter

import numpy as np

from skhash.auditing import audit
from skhash.neighbors import HammingNeighbors, JaccardNeighbors
from skhash.numerics._binary import BinaryUnits
from skhash.utils.lazy import LateModule

_searcher = LateModule("skhash.neighbors.search.choose")

# Lengths of codes, in bytes: those that searches have a program for, and two others.
LENGTHS = (8, 16, 32, 12, 96)
FEW, MANY = 2, 40


def main() -> None:
    """Compile the kernels, and print each step with its time."""
    start = perf_counter()
    for name, step in STEPS.items():
        begin = perf_counter()
        print(f"{name} ... ", end="", flush=True)
        step()
        print(f"{perf_counter() - begin:.1f} s", flush=True)
    print(f"all in {perf_counter() - start:.1f} s", flush=True)


def _codes(n, n_bytes):
    random = np.random.default_rng(0)
    return random.integers(256, size=(n, n_bytes), dtype=np.uint8)


def _search():
    for n_bytes in LENGTHS:
        codes = _codes(1000, n_bytes)
        index = HammingNeighbors(packed=True, algorithm="brute").fit(codes)
        for n_queries in (FEW, MANY):
            index.kneighbors(codes[:n_queries])
            index.radius_neighbors(codes[:n_queries], radius=2)
    index = JaccardNeighbors(packed=True).fit(codes)
    index.kneighbors(codes[:1]), index.radius_neighbors(codes[:1])


def _search_by_tables():
    words = _codes(1000, 8).view(np.uint64)
    for name in ("pruned", "multi_index"):
        algorithm = _searcher.ALGORITHMS[name](words, 64)
        algorithm.make()
        for n_queries in (FEW, MANY):
            what = "nearest" if name == "pruned" else "within"
            _searcher.Question(what, 1).ask(algorithm, words[:n_queries])


def _audit():
    vectors = np.random.default_rng(0).normal(size=(500, 16))
    labels = np.arange(500) % 3
    audit(vectors, labels, n_bits=[16], methods=["bytes", "sgh", "neighbor"])


def _networks():
    words = _codes(64, 8).view(np.uint64)
    BinaryUnits(words, np.zeros(len(words), dtype=np.int64))(words)


STEPS = {
    "search of codes": _search,
    "search by clusters and tables": _search_by_tables,
    "search by uncompressed queries, training, metrics": _audit,
    "networks of packed weights": _networks,
}
