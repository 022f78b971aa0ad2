"""What goes along with codes row by row, and the row of a query itself."""

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from skhash.codes import check_unmasked


def read_labels(X, y):
    """Return validated labels of the codes `X`, or None."""
    if y is None:
        return None
    y = check_array(check_unmasked(y), ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(X, y)
    return y


def check_column_fits(column, name, known, new):
    """Raise ``ValueError`` unless `new` rows of a column can follow the `known` ones.

    `column` says what the rows are, and `name` is the parameter that takes them.
    """
    if (known is None) != (new is None):
        has, lacks = ("no " + column, "some") if known is None else (column, "none")
        raise ValueError(
            f"The codes before have {has} and these have {lacks}; give {name} to fit "
            "and to every partial_fit, or to none of them."
        )
    if known is not None and known.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"The {column} before have shape (n, *{known.shape[1:]}) and these (n, "
            f"*{new.shape[1:]}); both must have the same columns."
        )


def all_but_self(positions, first=0):
    """Mark all entries of row i but ``first + i``, or the last one where it is missing.

    It is missing where more codes equal to it than fit in come before it.
    """
    kept = positions != np.arange(first, first + len(positions))[:, None]
    kept[kept.all(axis=1), -1] = False
    return kept
