"""Arrays that grow by rows, and the labels that go along with codes."""

import numpy as np
from sklearn.utils import check_array, check_consistent_length


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


def read_labels(X, y):
    """Return validated labels of the codes `X`, or None."""
    if y is None:
        return None
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(X, y)
    return y


def check_labels_fit(known, new):
    """Raise ``ValueError`` unless `new` labels can be added to the `known` ones."""
    if (known is None) != (new is None):
        has, lacks = ("no labels", "some") if known is None else ("labels", "none")
        raise ValueError(
            f"The codes before have {has} and these have {lacks}; give y to fit and to "
            "every partial_fit, or to none of them."
        )
    if known is not None and known.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"The labels before have shape (n, *{known.shape[1:]}) and these (n, "
            f"*{new.shape[1:]}); both must have the same columns."
        )
