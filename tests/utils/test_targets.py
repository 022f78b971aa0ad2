"""Labels of any type: what is read, what is unknown, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from cases import each
from scipy import sparse

from skhash.utils.targets import (
    check_shared,
    encoded_labels,
    encoded_targets,
    partial_labels,
)

# Three classes and an unknown row, in the order of their names.
CODES = [0, 1, 0, 2, -1, 2]


@each(
    "y",
    [
        [3, 5, 3, 9, -1, 9],
        np.array([3, 5, 3, 9, -1, 9], dtype=np.int8),
        np.array([3.0, 5, 3, 9, -1, 9]),
        [3, 5, 3, 9, None, 9],
        np.array([3, 5, 3, 9, None, 9], dtype=object),
        np.array([3, 5, 3, 9, "-1", 9], dtype=object),
        ["a", "b", "a", "c", None, "c"],
        ["a", "b", "a", "c", -1, "c"],
        ["a", "b", "a", "c", "-1", "c"],
        np.array(["a", "b", "a", "c", "-1", "c"]),
        np.array(["a", "b", "a", "c", "-1", "c"], dtype=np.dtypes.StringDType()),
        np.array([["a"], ["b"], ["a"], ["c"], [None], ["c"]], dtype=object),
        pd.Series(["a", "b", "a", "c", None, "c"], dtype=object),
        pd.Series([3, 5, 3, 9, -1, 9]),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_classes_and_an_unknown_one(y):
    labels = partial_labels(y)
    assert encoded_labels(labels)[:, 0].tolist() == CODES
    assert encoded_labels(labels[[3, 4]])[:, 0].tolist() == [0, -1]


@each("form", [np.asarray, sparse.csr_array, np.ndarray.tolist])
@each("dtype", [int, bool, float])
def test_columns_of_several_labels(form, dtype):
    y = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=dtype)
    np.testing.assert_array_equal(encoded_labels(partial_labels(form(y))), y)
    classes, codes = encoded_targets(form(y), None)
    np.testing.assert_array_equal(codes, y)
    assert classes.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y"),
        ([-1, -1], "no label"),
        (["-1", None], "no label"),
        ([4, 4, 4], "only one class"),
        ([4, 4, -1], "besides -1.*another number"),
        ([1, 2, 3], "no two rows share one"),
        ([1, 2, -1], "2 labels, but no two"),
        (np.zeros((3, 2)), "no label"),
        (np.eye(3), "no two rows share one"),
        (2 * np.eye(3) - 1, "holds -1.0; give 0 and 1"),
        (sparse.csr_array(-np.eye(3)), "holds -1.0; give 0 and 1"),
        ([[0.5, 1], [0, 1]], "holds 0.5"),
        ([1.5, 2.5, 1.5], "Unknown label type"),
        ([1.0, np.nan, 1.0], "NaN"),
        (["a", np.nan, "a"], "holds nan among strings"),
        ([1, None, np.nan], "holds nan among numbers"),
        (["a", 1, "a"], "holds 1 among strings"),
        (pd.Series([1, pd.NA, 1], dtype="Int64"), "NaN|holds <NA> among numbers"),
        ([("a",), 1], "setting an array|y should be a 1d array|holds"),
    ],
    ids=str,
)
def test_what_says_nothing_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        partial_labels(y)


def test_a_part_of_a_stream_may_be_without_labels():
    for y in ([-1, -1], [4, 4], [1, 2], np.zeros((3, 2)), np.eye(3)):
        partial_labels(y, is_part=True)


def test_targets_that_no_rows_share():
    check_shared(encoded_targets(["a", "b", "a"], None)[1])
    with pytest.raises(ValueError, match="3 labels, but no two"):
        check_shared(encoded_targets(["a", "b", "c"], None)[1])
