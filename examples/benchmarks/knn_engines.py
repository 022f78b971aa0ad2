"""The engines that `knn.py` compares: each makes an index and gives its searches."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import faiss
import numpy as np
from numba import njit

from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search.algorithm import Question
from skhash.utils.kernels import popcount

SLICE = 1024  # codes whose words stay in the first cache while queries pass
# Queries after which "auto" knows where neighbours are, and has made tables that pay.
WARM_UP_CALLS = 100
QUESTION = Question("nearest", 1)


@dataclass
class Engine:
    """An index and its searches.

    Attributes
    ----------
    searches : dict
        By name, functions of queries that return positions (-1 for none): an array, or
        for a radius a list of arrays.
    n_bytes : callable
        Returns the bytes that the index takes, or None where nobody can tell.
    warm_up : int
        Calls before time is taken.
    extra_seconds : callable
        Returns how long building takes that happens within the first calls.
    """

    searches: dict
    n_bytes: callable
    warm_up: int = 1
    extra_seconds: callable = field(default=lambda: 0.0)


def bytes_of(part):
    """Return the bytes of all arrays that an object holds, each once."""

    def arrays(part):
        if isinstance(part, np.ndarray):
            return {part.ctypes.data: part.nbytes}
        inner = getattr(part, "__dict__", {}).values()
        found = map(arrays, part if isinstance(part, tuple) else inner)
        return {place: n for each in found for place, n in each.items()}

    return sum(arrays(part).values())


def ours(name, algorithm, codes, k, radius, threads):
    index = HammingNeighbors(k or 1, algorithm=algorithm, packed=True, n_jobs=threads)
    index.fit(codes)

    def made():
        """Return what "auto" has made to search faster: tables, for one."""
        searcher = index._store.codes_key.searcher
        if searcher is None:
            return []
        parts = (searcher.algorithms[name] for name in ("multi_index", "pruned"))
        return [part for part in parts if part.is_made(QUESTION)]

    def n_bytes():
        return bytes_of((index._store["words"], *made()))

    def extra_seconds():
        task = index._store["words"], 8 * codes.shape[1]
        return sum(seconds_of(type(part)(*task).make, QUESTION)[0] for part in made())

    def search(queries):
        if radius is None:
            return index.kneighbors(queries)[1]
        return index.radius_neighbors(queries, radius)[1]

    warm_up = 1 if algorithm == "brute" else WARM_UP_CALLS
    return Engine({name: search}, n_bytes, warm_up, extra_seconds)


def brute(codes, k, radius, threads):
    return ours("ours, brute", "brute", codes, k, radius, threads)


def auto(codes, k, radius, threads):
    return ours("ours", "auto", codes, k, radius, threads)


def flat(codes, k, radius, threads):
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)

    def search(queries):
        if radius is None:
            return index.search(queries, k)[1]
        # Its radius is exclusive.
        starts, _, positions = index.range_search(queries, radius + 1)
        return np.split(positions, starts[1:-1].astype(np.int64))

    return Engine({"faiss flat": search}, lambda: codes.nbytes)


def stateless(codes, k, radius, threads):
    return Engine(
        {"faiss knn_hamming": lambda queries: faiss.knn_hamming(queries, codes, k)[1]},
        lambda: codes.nbytes,
    )


def faiss_bytes(index):
    return lambda: faiss.serialize_index_binary(index).nbytes


def multi_hash(codes, k, radius, threads):
    n_bits = 8 * codes.shape[1]
    width = min(20, len(codes).bit_length() - 1)
    index = faiss.IndexBinaryMultiHash(n_bits, n_bits // width, width)
    index.add(codes)

    def search(flips, queries):
        index.nflip = flips
        return index.search(queries, k)[1]

    return Engine(
        {f"faiss MultiHash, flips {f}": _with(search, f) for f in (0, 1)},
        faiss_bytes(index),
    )


def inverted(codes, k, radius, threads):
    n_lists = 2 ** (len(codes).bit_length() // 2)
    quantizer = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index = faiss.IndexBinaryIVF(quantizer, 8 * codes.shape[1], n_lists)
    index.train(codes[: 64 * n_lists])
    index.add(codes)

    def search(n_probe, queries):
        index.nprobe = n_probe
        return index.search(queries, k)[1]

    return Engine(
        {f"faiss IVF, probes {p}": _with(search, p) for p in (8, 64)},
        faiss_bytes(index),
    )


def hnsw(codes, k, radius, threads):
    index = faiss.IndexBinaryHNSW(8 * codes.shape[1], 16)
    index.add(codes)

    def search(ef, queries):
        index.hnsw.efSearch = ef
        return index.search(queries, k)[1]

    return Engine(
        {f"faiss HNSW, ef {ef}": _with(search, ef) for ef in (64, 256)},
        faiss_bytes(index),
    )


def usearch_exact(codes, k, radius, threads):
    from usearch.index import MetricKind, ScalarKind, search

    def ask(queries):
        options = {"exact": True, "threads": threads, "dtype": ScalarKind.B1}
        found = search(codes, queries, k, MetricKind.Hamming, **options)
        return np.asarray(found.keys).reshape(len(queries), -1)

    return Engine({"usearch exact": ask}, lambda: codes.nbytes)


def usearch_graph(codes, k, radius, threads):
    from usearch.index import Index, MetricKind, ScalarKind

    index = Index(
        ndim=8 * codes.shape[1], metric=MetricKind.Hamming, dtype=ScalarKind.B1
    )
    index.add(np.arange(len(codes), dtype=np.uint64), codes, threads=threads)

    def search(ef, queries):
        index.expansion_search = ef
        found = index.search(queries, k, threads=threads)
        return np.asarray(found.keys).reshape(len(queries), -1)

    return Engine(
        {f"usearch graph, ef {ef}": _with(search, ef) for ef in (64, 256)},
        lambda: index.serialized_length,
    )


def pynear(codes, k, radius, threads):
    from pynear import MIHBinaryIndex

    index = MIHBinaryIndex(codes.shape[1] // 2)
    index.set(codes)

    def search(reach, queries):
        # It may find fewer than k.
        found = np.full((len(queries), k), -1)
        for row, positions in zip(
            found, index.searchKNN(queries, k, reach)[0], strict=True
        ):
            row[: len(positions)] = positions
        return found

    return Engine(
        {f"PyNear multi-index, radius {r}": _with(search, r) for r in (8, 16)},
        lambda: None,
    )


def scikit_learn(codes, k, radius, threads):
    from sklearn.neighbors import NearestNeighbors

    bits = np.unpackbits(codes, axis=1)
    index = NearestNeighbors(algorithm="brute", metric="hamming", n_jobs=threads)
    index.fit(bits)

    def search(queries):
        queries = np.unpackbits(queries, axis=1)
        return index.kneighbors(queries, k, return_distance=False)

    return Engine({"scikit-learn brute": search}, lambda: bits.nbytes)


def popcount_limit(codes, k, radius, threads):
    """What counting all differing bits takes, word by word, without looking at them."""
    words = np.ascontiguousarray(codes.view(np.uint64).T)
    pool = ThreadPoolExecutor(threads)

    def count(queries):
        chunks = np.array_split(queries.view(np.uint64), min(threads, len(queries)))
        list(pool.map(partial(count_all, words), chunks))

    return Engine({"popcount limit": count}, lambda: None)


@njit(nogil=True)
def count_all(words, queries):
    """Sum all distances; `words` has shape (n_words, n)."""
    total = np.uint64(0)
    n_words, n = words.shape
    for start in range(0, n, SLICE):
        stop = min(start + SLICE, n)
        for q in range(len(queries)):
            for w in range(n_words):
                query, row = queries[q, w], words[w, start:stop]
                for i in range(len(row)):
                    total += popcount(row[i] ^ query)
    return total


def _with(search, setting):
    return lambda queries: search(setting, queries)


EXACT = [brute, auto, flat, stateless, popcount_limit]
RADIUS = [brute, auto, flat]
APPROXIMATE = [multi_hash, inverted, pynear]
SLOW = [usearch_exact]
# These take long to build.
GRAPHS = [hnsw, usearch_graph]
SMALL = [scikit_learn]


def seconds_of(call, *arguments):
    """Return the seconds that a call takes, and its answer."""
    start = time.perf_counter()
    answer = call(*arguments)
    return time.perf_counter() - start, answer
