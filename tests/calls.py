"""Ask every kernel a little: ``python calls.py FILE PART ...`` keeps the answers.

Vectors hold small whole numbers, so that scores are exact on any processor.
"""

import importlib
import pkgutil
import sys
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
from numba.core.dispatcher import Dispatcher

import skhash
from skhash.codes import packed_to_words
from skhash.linear import RandomHyperplaneHash
from skhash.metrics import (
    mean_average_precision_score,
    ndcg_at_k_score,
    neighbor_recall_score,
    true_neighbors,
)
from skhash.neighbors import AsymmetricNeighbors, JaccardNeighbors, asymmetric_scores
from skhash.neighbors.search import table_scan
from skhash.neighbors.search.base import Question
from skhash.neighbors.search.choose import ALGORITHMS
from skhash.neighbors.search.vectors import VectorScorer
from skhash.neighbors.store.decoder import METRICS
from skhash.numerics._binary import BinaryUnits
from skhash.quantization import AdditiveQuantizer, LinearDecoder
from skhash.quantization._codebook import find_codes

N_FEATURES = 5
REACHES = {"nearest": 9, "within": 3}


def answers(parts):
    """Yield what is answered in some of the `PARTS`."""
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 256, (40, 25), dtype=np.uint8)
    codes = centers[rng.integers(0, 40, 700)]
    codes ^= np.packbits(rng.random((700, 200)) < 0.05, axis=1)
    vectors = rng.integers(-4, 5, (700, N_FEATURES)).astype(np.float32)
    for part in parts:
        yield from PARTS[part](codes, vectors)


def hamming(names, lengths, codes, vectors):
    """Few queries and many of codes of some lengths, by some algorithms."""
    for n_bytes, name in product(lengths, names):
        words = packed_to_words(np.ascontiguousarray(codes[:, :n_bytes]))
        algorithm = ALGORITHMS[name](words, 8 * n_bytes)
        algorithm.make(1)
        for mask in (None, np.arange(len(words)) % 3 > 0):
            for n_queries, (what, reach) in product((3, 200), REACHES.items()):
                if (name, what) != ("multi_index", "nearest"):  # balls that grow
                    question = Question(what, reach, 1, mask)
                    yield from getattr(algorithm, what)(words[:n_queries], question)


def asymmetric(codes, vectors):
    """Decoders of bits, nibbles and bytes, and vectors."""
    codes, rng = np.ascontiguousarray(codes[:, :3]), np.random.default_rng(1)
    n_bits = 8 * codes.shape[1]
    shapes = (n_bits,), (n_bits // 4, 16), (n_bits // 8, 256)
    for metric in METRICS:
        index = AsymmetricNeighbors(9, metric=metric, packed=True, n_jobs=1)
        for shape in shapes:
            codebook = rng.integers(-2, 3, (*shape, N_FEATURES)).astype(float)
            index.fit(codes, decoder=(codebook, codebook.reshape(-1, N_FEATURES)[0]))
            for n_queries in (1, 20):
                yield from asked(index, vectors[:n_queries])
        index.set_params(search_fraction=0.1)
        with patch.object(table_scan, "MIN_BLOCKS", 1):  # which has too few, then all
            found = index.kneighbors(vectors[:3], 600)
        yield found[0]
        decoder = codebook, np.ones(N_FEATURES)
        options = {"metric": metric, "packed": True}
        yield asymmetric_scores(vectors[:3], codes, decoder, **options)
        queries = np.array(vectors[:20], dtype=float)
        candidates = rng.integers(0, 700, (20, 9))
        yield VectorScorer(vectors, metric, 1).score_candidates(queries, candidates)


def asked(index, queries):
    distances, positions = index.kneighbors(queries)
    yield distances
    if index.metric != "cosine":
        yield positions
        balls = index.radius_neighbors(queries, float(np.median(distances)))
        yield from map(np.concatenate, balls)


def encoding(codes, vectors):
    """Rows of all precisions, and networks of packed weights."""
    encoder = RandomHyperplaneHash(16, random_state=0).fit(vectors)
    for kind in (np.float16, np.float32, np.float64):
        yield encoder.transform_packed(vectors.astype(kind))
    words = np.ascontiguousarray(codes[:64, :16]).view(np.uint64)
    yield np.asarray(BinaryUnits(words, np.zeros(64, dtype=np.int64))(words))


def others(codes, vectors):
    """Fits of decoders, and metrics."""
    bits = np.unpackbits(codes[:, :2], axis=1)
    for block_bits in (1, 4):
        decoder = LinearDecoder(n_alternations=1, n_restarts=1, block_bits=block_bits)
        yield decoder.fit(vectors, bits).refine(vectors, bits)
    # Its centres are of real numbers, which differ by rounding.
    AdditiveQuantizer(2, n_alternations=1).fit(vectors)
    codebook = np.resize(vectors, (3, 256, N_FEATURES))
    yield find_codes(vectors, codebook, np.zeros(N_FEATURES), width=4)
    labels, options = np.arange(len(codes)) % 3, {"packed": True, "ties": "index"}
    for score in (mean_average_precision_score, ndcg_at_k_score):
        yield np.array(score(codes[:9], codes, labels[:9], labels, **options))
    for metric in METRICS:
        nearest = true_neighbors(vectors[:9], vectors, 5, metric=metric)
        yield nearest
        yield np.array(neighbor_recall_score(codes[:9], codes, nearest, **options))


def jaccard(codes, vectors):
    """Codes of few ones and of many, some removed."""
    for some in (codes, np.tile(codes, 30)):
        index = JaccardNeighbors(9, packed=True, n_jobs=1).fit(some[:600])
        index.partial_fit(some[600:]).remove(np.arange(0, 700, 3))
        for n_queries in (1, 200):
            yield from index.kneighbors(some[:n_queries])
            yield from map(np.concatenate, index.radius_neighbors(some[:n_queries]))
        yield index.packed_codes_


PARTS = {
    "jaccard": jaccard,
    "brute": partial(hamming, ["brute"], (16, 25)),
    "indexes": partial(hamming, [*ALGORITHMS][1:], (25,)),
    "asymmetric": asymmetric,
    "encoding": encoding,
    "others": others,
}


def unreached():
    """Return the names of the package's kernels that were not called."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(skhash.__path__, "skhash.")
        if "kernels" in found.name
    ]
    return {
        f"{module.__name__}.{name}"
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher) and not kernel.overloads
    }


if __name__ == "__main__":
    np.savez(sys.argv[1], *answers(sys.argv[2:]))
    print(*unreached())
