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
    """Find the parts of an encoder, index, Pipeline, or fitted search over these."""
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if not isinstance(estimator, Pipeline):
        if _is_index(estimator):
            return Parts(None, None, estimator)
        return Parts(None, _checked_encoder(estimator), None)
    index, stop = None, _without_passthrough(estimator, len(estimator))
    if stop and _is_index(estimator[stop - 1]):
        index, stop = estimator[stop - 1], _without_passthrough(estimator, stop - 1)
    if stop == 0:
        return Parts(None, None, index)
    before = estimator[: stop - 1] if stop > 1 else None
    return Parts(before, _checked_encoder(estimator[:stop]), index)


def _without_passthrough(pipeline, stop: int) -> int:
    """Move `stop` back over steps that do nothing."""
    while stop and pipeline[stop - 1] in (None, "passthrough"):
        stop -= 1
    return stop


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
    """Encode what is scored."""
    codes = X if parts.encoder is None else parts.encoder.transform(X)
    if getattr(parts.index, "packed", False):
        return check_packed(codes)
    return pack_bits(codes)


def indexed(index):
    """Return the packed codes and the labels that an index holds, without removed."""
    labels = getattr(index, "y_", None)
    if labels is None:
        raise ValueError(
            f"{type(index).__name__} was fitted without labels, so what it finds "
            "cannot be scored against y; fit it (or its Pipeline) with y."
        )
    live = getattr(index, "live_", None)
    if live is None or live.all():
        return index.packed_codes_, labels
    return index.packed_codes_[live], labels[live]


def are_same_rows(codes, y, database, labels) -> bool:
    """Tell whether the index is asked for its own rows, each of which finds itself."""
    if codes.shape != database.shape or not np.array_equal(codes, database):
        return False
    if sparse.issparse(y) or sparse.issparse(labels):
        y, labels = sparse.csr_array(y), sparse.csr_array(labels)
        return y.shape == labels.shape and (y != labels).nnz == 0
    return np.array_equal(np.asarray(y), np.asarray(labels))


def is_numeric(X) -> bool:
    """Tell whether `X` is a matrix of numbers."""
    if sparse.issparse(X):
        return True
    if hasattr(X, "dtypes"):  # a data frame, whose columns differ
        return all(getattr(dtype, "kind", "O") in "biuf" for dtype in X.dtypes)
    X = np.asarray(X)
    return X.ndim == 2 and X.dtype.kind in "biuf"
