"""Columns beside the codes, and removal of a query from its answer."""

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from skhash.utils.arrays import check_array


def read_labels(X, y):
    """Return validated labels of the codes `X`, or None."""
    if y is None:
        return None
    y = y.toarray() if sparse.issparse(y) else y
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(X, y)
    # As data frames hold strings.
    if y.dtype.kind in "OT" and all(isinstance(label, str) for label in y.flat):
        y = y.astype(str)
    return y


def read_vectors(X):
    """Return validated rows as searches read them; a memory map stays on disk."""
    vectors = as_numbers(check_array(X))
    return vectors if _is_mapped(vectors) else np.ascontiguousarray(vectors)


def as_numbers(vectors):
    """Return booleans as 0 and 1, and other vectors as they are."""
    return vectors.view(np.uint8) if vectors.dtype == bool else vectors


def _is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


def check_column_fits(name, known, new):
    """Raise ``ValueError`` unless `new` rows of a column can follow the `known` ones.

    `name` is that of the column and of its parameter.
    """
    column = {"y": "labels"}.get(name, name)
    if (known is None) != (new is None):
        has, lacks = ("no " + column, "some") if known is None else (column, "none")
        raise ValueError(
            f"The codes in the index have {has}, but these have {lacks}; give {name} "
            "to fit and to every partial_fit, or to none of them."
        )
    if known is not None and known.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"The {column} in the index have shape (n, *{known.shape[1:]}), but these "
            f"have (n, *{new.shape[1:]}); both must have the same columns."
        )
    if name == "y" and known is not None:
        _check_type_stays(known.dtype, new.dtype)


def _check_type_stays(known, new):
    """Raise ``ValueError`` if labels of one type would become others among the other's.

    Such are numbers among strings, and int64 among uint64, which NumPy makes float64.
    """
    kinds = [dtype.kind.replace("u", "i") for dtype in (known, new)]
    if len({*kinds}) > 1 or kinds[0] == "i" and np.result_type(known, new).kind == "f":
        raise ValueError(
            f"The labels in the index have dtype {known}, but these have {new}; give "
            "labels of the same type."
        )


def without_self(distances, positions, first=0):
    """Return the neighbours of query i without the code ``first + i``.

    Arrays lose one column. A row without the code, as too many equal codes come before
    it, loses its last one.
    """
    if isinstance(positions, list):
        kept = [places != first + i for i, places in enumerate(positions)]
        return tuple(
            [part[k] for part, k in zip(parts, kept, strict=True)]
            for parts in (distances, positions)
        )
    kept = positions != np.arange(first, first + len(positions))[:, None]
    kept[kept.all(axis=1), -1] = False
    shape = len(kept), kept.shape[1] - 1
    return distances[kept].reshape(shape), positions[kept].reshape(shape)


def nearest_within(distances, positions, k, radius, first=None):
    """Return lists of the neighbours of each query within a radius, at most `k`.

    first : position of the first query's code, if each query is a fitted code that is
        left out of its answer, or else None
    """
    kept = distances <= radius
    if first is not None:
        kept &= positions != np.arange(first, first + len(positions))[:, None]
    kept &= kept.cumsum(axis=1) <= k
    return tuple(
        [row[mask] for row, mask in zip(part, kept, strict=True)]
        for part in (distances, positions)
    )


def object_array(arrays):
    """Return an array of arrays, of equal length or not."""
    result = np.empty(len(arrays), dtype=object)
    result[:] = arrays
    return result


def with_rows(room, n, rows):
    """Return an array whose first rows are ``room[:n]`` and then `rows`.

    It is `room` itself if `rows` fit in, and else a larger one, by half at least, so
    that many small additions copy each row a bounded number of times. ``room[:n]`` is
    never written.
    """
    needed = n + len(rows)
    dtype = np.result_type(room, rows)
    if needed > len(room) or dtype != room.dtype:
        larger = np.zeros((max(needed, n + n // 2), *room.shape[1:]), dtype=dtype)
        larger[:n] = room[:n]
        room = larger
    room[n:needed] = rows
    return room
