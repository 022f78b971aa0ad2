"""The encoder and the index within a fitted estimator, found by their methods.

An *index* has `kneighbors` and holds `packed_codes_`; a search of vectors has an
``encoder_`` and an ``index_``; an *encoder* is whatever else has `transform`. No
estimator of this library is imported.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skhash.codes import check_packed, pack_bits
from skhash.utils.arrays import as_array


class Parts(NamedTuple):
    """The parts of a fitted object; missing ones are None."""

    before: object  # the transformer of all steps in front of the encoder
    encoder: object  # from the scored rows to codes
    index: object
    is_packed: bool = False  # whether codes come as packed bytes
    search: object = None  # of vectors, unless it ranks by Hamming distance alone
    before_search: object = None  # the transformer of the steps in front of that
    metric: str = "euclidean"  # of the last one, by which vectors are near

    def searched(self, X):
        """Return rows as the search of vectors gets them."""
        return X if self.before_search is None else self.before_search.transform(X)


def take_apart(estimator) -> Parts:
    """Find the parts of an encoder, index, Pipeline, or fitted search over these."""
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    steps = _steps(estimator)
    index, is_packed, searched = None, False, (None, None)
    metric = steps[-1].metric if _ends_with(steps, "metric") else "euclidean"
    if _ends_with(steps, "encoder_", "index_"):
        search = steps.pop()
        index = search.index_
        by_codes = has_hamming_distances(index) and not hasattr(index, "metric")
        if not by_codes or getattr(search, "rerank", None):
            searched = search, make_pipeline(*steps) if steps else None
        if getattr(search, "metric", None) == "cosine":
            steps.append(FunctionTransformer(search._scaled))
        steps += _steps(search.encoder_)
    elif _ends_with(steps, "kneighbors", "packed_codes_"):
        index = steps.pop()
        is_packed = getattr(index, "packed", False)
    if not steps:
        return Parts(None, None, index, is_packed)
    if not hasattr(steps[-1], "transform"):
        raise TypeError(
            f"Cannot score {type(steps[-1]).__name__}: it has no transform. Retrieval "
            "scorers take an encoder, HammingNeighbors, HashedNeighbors, or a Pipeline "
            "that ends in one."
        )
    if len(steps) == 1:
        return Parts(None, *steps, index, is_packed, *searched, metric)
    whole = make_pipeline(*steps)
    return Parts(whole[:-1], whole, index, is_packed, *searched, metric)


def _steps(estimator) -> list:
    """Return the steps of a Pipeline that do something, or the one estimator."""
    if isinstance(estimator, FrozenEstimator):
        return _steps(estimator.estimator)
    if not isinstance(estimator, Pipeline):
        return [estimator]
    steps = [step for _, step in estimator.steps]
    return [step for step in steps if step not in (None, "passthrough")]


def _ends_with(steps, *names) -> bool:
    return bool(steps) and all(hasattr(steps[-1], name) for name in names)


def packed_codes(parts: Parts, X) -> np.ndarray:
    """Encode the rows to score by Hamming distance."""
    encoder = None if parts.encoder is None else _steps(parts.encoder)[-1]
    if not has_hamming_distances(encoder):
        raise ValueError(
            f"Codes of {type(encoder).__name__} cannot be compared by Hamming "
            "distance, as this scorer does. Score a HashedNeighbors of it with "
            "make_retrieval_scorer(), without options, or with "
            "make_neighbor_recall_scorer()."
        )
    if not has_hamming_distances(parts.index):
        raise ValueError(
            f"This scorer compares codes by Hamming distance, which is not that of "
            f"{type(parts.index).__name__}; score it with make_retrieval_scorer(), "
            "without options."
        )
    return pack(parts, codes_of(parts, X))


def has_hamming_distances(part) -> bool:
    """Return whether codes are compared by Hamming distance, as most are."""
    return getattr(part, "_has_hamming_distances", True)


def codes_of(parts: Parts, X):
    """Return the codes of the rows to score, as the index gets them."""
    return X if parts.encoder is None else parts.encoder.transform(X)


def pack(parts: Parts, codes) -> np.ndarray:
    """Return codes, packed."""
    return check_packed(codes) if parts.is_packed else pack_bits(codes)


def indexed(index):
    """Return the live packed codes of an index, and their labels."""
    labels = getattr(index, "y_", None)
    if labels is None:
        raise ValueError(
            f"{type(index).__name__} was fitted without labels, so its neighbours "
            "cannot be scored against y; fit it, or its Pipeline, with y."
        )
    live = getattr(index, "live_", None)
    if live is None or live.all():
        return index.packed_codes_, labels
    return index.packed_codes_[live], labels[live]


def are_same_rows(codes, y, database, labels) -> bool:
    """Return whether the queries are the rows of the index."""
    if codes.shape != database.shape or not np.array_equal(codes, database):
        return False
    if sparse.issparse(y) or sparse.issparse(labels):
        y, labels = sparse.csr_array(y), sparse.csr_array(labels)
        return y.shape == labels.shape and (y != labels).nnz == 0
    return np.array_equal(as_array(y), labels)
