"""The engines that `knn.py` compares: each makes an index and gives its searches.

An engine is called with packed codes, k or None, a radius or None, and threads. It
returns searches by name, which map queries to positions (-1 for none, or for a radius
a list of arrays), and the bytes that the index takes, None where nobody can tell.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import faiss
import numpy as np
from numba import njit

from skhash.neighbors import HammingNeighbors
from skhash.utils.kernels import popcount

SLICE = 1024  # codes whose words stay in the first cache while queries pass
EXPECTED = 10**6  # queries, for which "auto" makes what pays


def bytes_of(part):
    """Return the bytes of all arrays that an object holds, each once."""

    def arrays(part):
        if isinstance(part, np.ndarray):
            return {part.ctypes.data: part.nbytes}
        inner = (
            part if isinstance(part, tuple | list) else getattr(part, "__dict__", part)
        )
        inner = inner.values() if isinstance(inner, dict) else inner
        inner = inner if isinstance(inner, tuple | list | type({}.values())) else ()
        return {place: n for each in map(arrays, inner) for place, n in each.items()}

    return sum(arrays(part).values())


def ours(name, algorithm, codes, k, radius, threads):
    index = HammingNeighbors(k or 1, algorithm=algorithm, packed=True, n_jobs=threads)
    index.fit(codes).prepare(EXPECTED, radius=radius)

    def search(queries):
        if radius is None:
            return index.kneighbors(queries)[1]
        return index.radius_neighbors(queries, radius)[1]

    return {name: search}, bytes_of(index)


brute = partial(ours, "ours, brute", "brute")
auto = partial(ours, "ours", "auto")


def flat(codes, k, radius, threads):
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)

    def search(queries):
        if radius is None:
            return index.search(queries, k)[1]
        # Its radius is exclusive.
        starts, _, positions = index.range_search(queries, radius + 1)
        return np.split(positions, starts[1:-1].astype(np.int64))

    return {"faiss flat": search}, codes.nbytes


def stateless(codes, k, radius, threads):
    search = {"faiss knn_hamming": lambda q: faiss.knn_hamming(q, codes, k)[1]}
    return search, codes.nbytes


def of_faiss(name, index, codes, k, settings, change):
    """Return searches by an index of faiss with each of some settings."""
    index.add(codes)

    def search(setting, queries):
        change(setting)
        return index.search(queries, k)[1]

    searches = {f"faiss {name} {it}": partial(search, it) for it in settings}
    return searches, faiss.serialize_index_binary(index).nbytes


def multi_hash(codes, k, radius, threads):
    n_bits, width = 8 * codes.shape[1], min(20, len(codes).bit_length() - 1)
    index = faiss.IndexBinaryMultiHash(n_bits, n_bits // width, width)
    change = partial(setattr, index, "nflip")
    return of_faiss("MultiHash, flips", index, codes, k, (0, 1), change)


def inverted(codes, k, radius, threads):
    n_bits, n_lists = 8 * codes.shape[1], 2 ** (len(codes).bit_length() // 2)
    quantizer = faiss.IndexBinaryFlat(n_bits)
    index = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
    index.train(codes[: 64 * n_lists])
    change = partial(setattr, index, "nprobe")
    return of_faiss("IVF, probes", index, codes, k, (8, 64), change)


def hnsw(codes, k, radius, threads):
    index = faiss.IndexBinaryHNSW(8 * codes.shape[1], 16)
    change = partial(setattr, index.hnsw, "efSearch")
    return of_faiss("HNSW, ef", index, codes, k, (64, 256), change)


def usearch_exact(codes, k, radius, threads):
    from usearch.index import MetricKind, ScalarKind, search

    def ask(queries):
        options = {"exact": True, "threads": threads, "dtype": ScalarKind.B1}
        found = search(codes, queries, k, MetricKind.Hamming, **options)
        return np.asarray(found.keys).reshape(len(queries), -1)

    return {"usearch exact": ask}, codes.nbytes


def usearch_graph(codes, k, radius, threads):
    from usearch.index import Index, MetricKind, ScalarKind

    options = {"metric": MetricKind.Hamming, "dtype": ScalarKind.B1}
    index = Index(ndim=8 * codes.shape[1], **options)
    index.add(np.arange(len(codes), dtype=np.uint64), codes, threads=threads)

    def search(ef, queries):
        index.expansion_search = ef
        found = index.search(queries, k, threads=threads)
        return np.asarray(found.keys).reshape(len(queries), -1)

    searches = {f"usearch graph, ef {ef}": partial(search, ef) for ef in (64, 256)}
    return searches, index.serialized_length


def pynear(codes, k, radius, threads):
    from pynear import MIHBinaryIndex

    index = MIHBinaryIndex(codes.shape[1] // 2)
    index.set(codes)

    def search(reach, queries):
        # It may find fewer than k.
        found = np.full((len(queries), k), -1)
        answers = index.searchKNN(queries, k, reach)[0]
        for row, positions in zip(found, answers, strict=True):
            row[: len(positions)] = positions
        return found

    searches = {f"PyNear multi-index, radius {r}": partial(search, r) for r in (8, 16)}
    return searches, None


def scikit_learn(codes, k, radius, threads):
    from sklearn.neighbors import NearestNeighbors

    bits = np.unpackbits(codes, axis=1)
    index = NearestNeighbors(algorithm="brute", metric="hamming", n_jobs=threads)
    index.fit(bits)

    def search(queries):
        queries = np.unpackbits(queries, axis=1)
        return index.kneighbors(queries, k, return_distance=False)

    return {"scikit-learn brute": search}, bits.nbytes


def popcount_limit(codes, k, radius, threads):
    """Count all differing bits, word by word, without looking at the counts."""
    words = np.ascontiguousarray(codes.view(np.uint64).T)
    pool = ThreadPoolExecutor(threads)

    def count(queries):
        chunks = np.array_split(queries.view(np.uint64), min(threads, len(queries)))
        list(pool.map(partial(count_all, words), chunks))

    return {"popcount limit": count}, None


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


EXACT = [brute, auto, flat, stateless, popcount_limit]
RADIUS = [brute, auto, flat]
APPROXIMATE = [multi_hash, inverted, pynear]
# These take long to search, or to build.
SLOW, GRAPHS, SMALL = [usearch_exact], [hnsw, usearch_graph], [scikit_learn]
