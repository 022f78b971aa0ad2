"""The encoder and the index within a fitted estimator, by what they can do.

An *index* has `kneighbors` and holds `packed_codes_`; an *encoder* is whatever else has
`transform`. No estimator of this library is imported.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from skhash.codes import check_packed, pack_bits


class Parts(NamedTuple):
    """A fitted object taken apart; parts that are missing are None."""

    before: object  # the transformer of all steps in front of the encoder
    encoder: object  # from what is scored to codes
    index: object


def take_apart(estimator) -> Parts:
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if not isinstance(estimator, Pipeline):
        if _is_index(estimator):
            return Parts(None, None, estimator)
        return Parts(None, _checked_encoder(estimator), None)
    n_steps, index = len(estimator.steps), None
    if _is_index(estimator.steps[-1][1]):
        n_steps, index = n_steps - 1, estimator.steps[-1][1]
    if n_steps == 0:
        return Parts(None, None, index)
    last = n_steps - 1
    while last > 0 and estimator.steps[last][1] in (None, "passthrough"):
        last -= 1
    before = estimator[:last] if last > 0 else None
    return Parts(before, _checked_encoder(estimator[:n_steps]), index)


def _is_index(estimator) -> bool:
    return hasattr(estimator, "kneighbors") and hasattr(estimator, "packed_codes_")


def _checked_encoder(estimator):
    if not hasattr(estimator, "transform"):
        raise TypeError(
            f"Cannot score {type(estimator).__name__}: it has no transform. Retrieval "
            "scorers take an encoder, HammingNeighbors, or a Pipeline that ends in one."
        )
    return estimator


def packed_codes(parts: Parts, X) -> np.ndarray:
    codes = X if parts.encoder is None else parts.encoder.transform(X)
    if getattr(parts.index, "packed", False):
        return check_packed(codes)
    return pack_bits(codes)


def indexed(index):
    labels = getattr(index, "y_", None)
    if labels is None:
        raise ValueError(
            f"{type(index).__name__} was fitted without labels, so what it finds "
            "cannot be scored against y; fit it (or its Pipeline) with y."
        )
    return index.packed_codes_, labels


def are_same_rows(codes, y, database, labels) -> bool:
    """Tell whether the index is asked for its own rows, each of which finds itself."""
    if codes.shape != database.shape or not np.array_equal(codes, database):
        return False
    if sparse.issparse(y) or sparse.issparse(labels):
        y, labels = sparse.csr_array(y), sparse.csr_array(labels)
        return y.shape == labels.shape and (y != labels).nnz == 0
    return np.array_equal(np.asarray(y), np.asarray(labels))


def is_numeric(X) -> bool:
    if sparse.issparse(X):
        return True
    if hasattr(X, "dtypes"):  # a data frame, whose columns differ
        return all(getattr(dtype, "kind", "O") in "biuf" for dtype in X.dtypes)
    X = np.asarray(X)
    return X.ndim == 2 and X.dtype.kind in "biuf"
