"""Inputs of metrics: codes and labels, checked once and laid out for counting."""

import warnings
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from skhash.codes import check_packed, pack_bits, packed_to_words
from skhash.metrics import _ranking
from skhash.metrics._counts import Ranking
from skhash.utils.arrays import as_array
from skhash.utils.chunks import dense_chunks
from skhash.utils.parameters import ArrayLike, Count

EMPTY = {"skip": np.nan, "zero": 0.0}
# Types of parameters that several metrics share.
Cuts = Count | ArrayLike
Ties = Literal["expected", "index", "best", "worst"]
EmptyBall = Literal["skip", "zero"]
Average = Literal["mean"] | None


def labelled_ranking(data, packed, exclude_self) -> Ranking:
    """Check the codes and labels of queries and of the database, and lay them out."""
    queries, database, n_bits = _check_codes(*data[:2], packed, exclude_self)
    labels = encode_labels(*data[2:], len(queries), len(database))
    words = np.ascontiguousarray(packed_to_words(database).T)
    return Ranking(packed_to_words(queries), words, n_bits, *labels, exclude_self)


def encode_labels(query_labels, database_labels, n_queries, n_database):
    """Check labels; return `wanted`, `classes`, `masks` and `levels` of a `Ranking`."""
    query_labels = _check_labels("query", query_labels, n_queries)
    database_labels = _check_labels("database", database_labels, n_database)
    if query_labels.ndim != database_labels.ndim:
        raise ValueError(
            f"query_labels have {query_labels.ndim} dimension(s) and database_labels "
            f"{database_labels.ndim}; give both as classes (1-D) or both as an "
            "indicator matrix (2-D)."
        )
    encode = _encode_classes if query_labels.ndim == 1 else _encode_indicators
    return encode(query_labels, database_labels)


def unlabelled_ranking(codes, packed, exclude_self) -> Ranking:
    """Check codes without labels, and lay them out as of one class."""
    labels = (np.zeros(np.shape(rows)[:1], dtype=int) for rows in codes)
    return labelled_ranking((*codes, *labels), packed, exclude_self)


def check_cuts(name: str, k, n_ranked: int) -> np.ndarray:
    """Return one number of ranks, or several, as an array of 0 or 1 dimensions."""
    cuts = as_array(n_ranked if k is None else k)
    if cuts.ndim > 1 or cuts.size == 0 or cuts.dtype.kind not in "iu" or cuts.min() < 1:
        raise ValueError(f"{name} must be one or more integers >= 1, got {k!r}.")
    if cuts.max() > n_ranked:
        raise ValueError(
            f"{name}={cuts.max()} is more than the {n_ranked} codes that each query "
            f"ranks; use {name} <= {n_ranked}."
        )
    return cuts


def summarize(values: np.ndarray, average: str | None, depth: int = 4):
    """Return the values, a row a query, or their means without those that are NaN.

    A warning points `depth` calls up: past this one, the public function, and
    scikit-learn's check around it.
    """
    if average is None:
        return values
    defined = ~np.isnan(values)
    if not defined.any():
        warnings.warn(
            f"None of the {len(values)} queries has a defined score (nothing in the "
            "database is relevant to it, or its ball is empty), so the mean is NaN.",
            UndefinedMetricWarning,
            stacklevel=depth,
        )
    sums = np.where(defined, values, 0.0).sum(axis=0)
    means = _ranking.ratio(sums, defined.sum(axis=0), np.nan)
    return means if values.ndim == 2 else float(means)


def _check_codes(query_codes, database_codes, packed, exclude_self):
    names = {"query_codes": query_codes, "database_codes": database_codes}
    for name, codes in names.items():
        if np.ndim(codes) != 2:
            raise ValueError(
                f"{name} must be two-dimensional, got shape {np.shape(codes)}. Pass a "
                "single code as one row, and pass codes before labels."
            )
    as_packed = check_packed if packed else pack_bits
    widths = [np.shape(codes)[-1:] for codes in (query_codes, database_codes)]
    queries, database = as_packed(query_codes), as_packed(database_codes)
    if widths[0] != widths[1]:
        unit = "bytes" if packed else "bits"
        raise ValueError(
            f"query_codes have {widths[0][0]} {unit}, but database_codes have "
            f"{widths[1][0]}; both must come from the same encoder."
        )
    if len(queries) == 0 or len(database) <= exclude_self:
        raise ValueError(
            f"Got {len(queries)} queries and {len(database)} database codes, so there "
            f"is nothing to rank; pass at least {1 + exclude_self} of each."
        )
    if exclude_self and len(queries) != len(database):
        raise ValueError(
            "exclude_self=True leaves code i out for query i, so queries and database "
            f"must be the same rows; got {len(queries)} and {len(database)}. Pass the "
            "database as query_codes too, or use exclude_self=False."
        )
    return queries, database, 8 * widths[0][0] if packed else widths[0][0]


def _check_labels(role: str, labels, n_codes: int):
    if not sparse.issparse(labels):
        labels = as_array(labels)
    if labels.ndim not in (1, 2) or labels.shape[0] != n_codes:
        raise ValueError(
            f"{role}_labels must have one row for each of the {n_codes} {role}_codes, "
            "and one dimension (classes) or two (indicators of several labels); got "
            f"shape {labels.shape}."
        )
    if labels.ndim == 2:
        _check_indicator(role, labels)
    elif labels.dtype.kind == "f":
        wrong = labels != np.round(labels)  # NaN too
        if wrong.any():
            raise ValueError(
                f"{role}_labels must be classes, got the number {labels[wrong][0]!s}. "
                "Bin continuous targets, or score against true neighbours with "
                "neighbor_recall_score."
            )
    return labels


def _check_indicator(role, labels):
    if labels.shape[1] == 1:
        raise ValueError(
            f"{role}_labels have shape {labels.shape}; for one class per row pass "
            "labels.ravel(). An indicator of several labels has two or more columns."
        )
    values = labels.data if sparse.issparse(labels) else labels
    wrong = values[~np.isin(values, (0, 1))]
    if wrong.size or values.dtype.kind not in "biuf":
        value = wrong[0] if wrong.size else f"dtype {values.dtype}"
        raise ValueError(
            f"Two-dimensional {role}_labels must be an indicator of 0 and 1, got "
            f"{value!s}; sklearn.preprocessing.MultiLabelBinarizer makes one."
        )


def _encode_classes(query_labels, database_labels):
    # NumPy would turn numbers into text; what objects hold shows when they are sorted.
    kinds = {labels.dtype.kind for labels in (query_labels, database_labels)}
    if kinds & set("UST") and kinds & set("biuf"):
        raise ValueError(
            f"query_labels have dtype {query_labels.dtype} and database_labels "
            f"{database_labels.dtype}, which never compare equal; give both as numbers "
            "or both as strings."
        )
    parts = [query_labels, database_labels]
    if kinds == {"i", "u"}:  # of which NumPy would make floats, and lose digits
        parts = [labels.astype(object) for labels in parts]
    together = np.concatenate(parts)
    try:
        codes = np.unique(together, return_inverse=True)[1].astype(np.uint64)
    except TypeError as error:
        raise ValueError(
            f"Labels must be of one type to be compared: {error}."
        ) from error
    n_queries = len(query_labels)
    masks = np.empty((0, len(database_labels)), dtype=np.uint64)
    return codes[:n_queries, None], codes[n_queries:], masks, 2


def _encode_indicators(query_labels, database_labels):
    if query_labels.shape[1] != database_labels.shape[1]:
        raise ValueError(
            f"query_labels have {query_labels.shape[1]} columns, but database_labels "
            f"have {database_labels.shape[1]}; a column must be the same label in both."
        )
    wanted, masks = _label_masks(query_labels), _label_masks(database_labels)
    most = min(np.bitwise_count(rows).sum(axis=1).max() for rows in (wanted, masks))
    none = np.empty(0, dtype=np.uint64)
    return wanted, none, np.ascontiguousarray(masks.T), max(int(most), 1) + 1


def _label_masks(labels) -> np.ndarray:
    """Pack an indicator's rows into words, as codes are."""
    if sparse.issparse(labels):
        labels = labels.tocsr()
    chunks = [np.packbits(rows != 0, axis=1) for _, rows in dense_chunks(labels)]
    return packed_to_words(np.concatenate(chunks))
