"""One query at a time: `HammingNeighbors` beside faiss, and what memory allows.

    python examples/benchmarks/one_query.py
    python examples/benchmarks/one_query.py --codes 1000 10000 --bits 64

Random codes, 10 neighbours, every code compared (``algorithm="brute"``), another query
each time. faiss, ours, and a plain read of all words (a compiled loop of xor, the
limit) take turns in one process, so that small caches hold what the one before left;
medians of 30 turns, of 200 calls each for 10 000 codes or fewer. faiss and ours have
their defaults, all threads; *one thread* is ours with ``n_jobs=1``.

"Vectors": one thread; random unit vectors, 384 columns, searched by ``HashedNeighbors``
with codes of 8 bytes or of 64 bits of `PCAHash`, in turns of 20 calls. *index* is its
index alone, given the normalized vector or its code; *PQ* is that of faiss, with 8
bytes; *exact* is scikit-learn's brute force. Fits are quick, and the index has the same
work whatever the codes.
"""

from itertools import cycle

import faiss
import numpy as np
from numba import njit
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize
from tools import Table, columns, medians, options, save

from skhash import AdditiveQuantizer, HashedNeighbors, PCAHash
from skhash.neighbors import HammingNeighbors

K, SMALL, CALLS, SOME, TURNS = 10, 10_000, 200, 20, 30
QUERIES = columns(
    "codes :, | bits | faiss, us :.1f | ours, us :.1f | one thread, us :.1f | "
    "ratio :.2f | ours, GB/s :.1f | plain read, GB/s :.1f"
)
VECTORS = columns(
    "vectors :, | 8 bytes, us :.0f | their index, us :.0f | 64 bits, us :.0f | "
    "index of bits, us :.0f | PQ, us :.0f | exact, us :.0f"
)


@njit
def read_all(words):
    """Return the xor of all words, so that each is read."""
    total = np.uint64(0)
    for i in range(len(words)):  # which becomes vector instructions
        total ^= words[i]
    return total


def seconds_of_calls(searches, calls):
    """Return the median seconds of a call of each search; they take turns."""
    many = {
        name: lambda search=search: [search() for _ in range(calls)]
        for name, search in searches.items()
    }
    return {name: it / calls for name, it in medians(many, TURNS).items()}


def compare(n, n_bits):
    """Return a row of the table."""
    rng = np.random.default_rng(n_bits)
    codes = rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (64, 1, n_bits // 8), dtype=np.uint8)
    flat = faiss.IndexBinaryFlat(n_bits)
    flat.add(codes)
    options = {"n_neighbors": K, "packed": True, "algorithm": "brute"}
    ours, alone = (HammingNeighbors(**options, n_jobs=j).fit(codes) for j in (None, 1))
    words, query = codes.view(np.uint64).ravel(), cycle(queries)
    searches = {
        "faiss": lambda: flat.search(next(query), K),
        "ours": lambda: ours.kneighbors(next(query)),
        "alone": lambda: alone.kneighbors(next(query)),
        "read": lambda: read_all(words),
    }
    times = seconds_of_calls(searches, CALLS if n <= SMALL else 1)
    best, gigabytes = min(times["ours"], times["alone"]), codes.nbytes / 1e9
    microseconds = (1e6 * times[it] for it in ("faiss", "ours", "alone"))
    rates = gigabytes / best, gigabytes / times["read"]
    return n, n_bits, *microseconds, times["faiss"] / times["ours"], *rates


def compare_vectors(n):
    """Return a row of the table of vectors."""
    rng = np.random.default_rng(n)
    X = normalize(rng.standard_normal((n + 64, 384), dtype=np.float32))
    X, queries = X[:n], cycle(X[n:, None])
    product = faiss.IndexPQ(384, 8, 8)
    product.train(X[:10_000])
    product.add(X)
    quick = {"n_alternations": 0, "beam_width": 1, "random_state": 0}
    known = {"n_neighbors": K, "metric": "cosine"}
    by_bytes, by_bits = (
        HashedNeighbors(encoder, **known, n_jobs=1).fit(X)
        for encoder in (AdditiveQuantizer(8, **quick), PCAHash(64))
    )
    code = by_bits.encoder_.transform_packed(X[:1])
    exact = NearestNeighbors(algorithm="brute", **known).fit(X)
    searches = {
        "bytes": lambda: by_bytes.kneighbors(next(queries)),
        "index": lambda: by_bytes.index_.kneighbors(next(queries)),
        "bits": lambda: by_bits.kneighbors(next(queries)),
        "codes": lambda: by_bits.index_.kneighbors(code),
        "PQ": lambda: product.search(next(queries), K),
        "exact": lambda: exact.kneighbors(next(queries)),
    }
    times = seconds_of_calls(searches, SOME)
    return n, *(1e6 * time for time in times.values())


def main():
    sizes = [1000, 10_000, 100_000, 1_000_000, 10_000_000]
    lengths = {"bits": [64, 128, 256, 512], "vectors": [1000, 10_000, 100_000]}
    arguments = options(__doc__, codes=sizes, **lengths).parse_args()
    queries = Table(QUERIES).printed()
    for n in arguments.codes:
        for n_bits in arguments.bits:
            queries.add(*compare(n, n_bits))
    vectors = Table(VECTORS).printed()
    for n in arguments.vectors:
        vectors.add(*compare_vectors(n))
    data = "random codes, 10 neighbours, all compared"
    save(arguments.output, {"Queries": queries, "Vectors": vectors}, data=data)


if __name__ == "__main__":
    main()
