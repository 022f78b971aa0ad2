"""A fit is all or nothing: one contract of every public estimator."""

import inspect
import sys
from itertools import cycle

import numpy as np
import pytest
import savable
from sklearn.base import clone
from sklearn.utils import get_tags
from test_common import SMALL, instances, public_estimators

from skhash import SBNClassifier

INDEXES = "AsymmetricNeighbors", "HammingNeighbors", "JaccardNeighbors"


def arguments(estimator, version):
    """Return what `fit` takes, by name; each version has columns of another number."""
    d, n_columns = savable.rows(version), 6 - version
    X, bits = d.X[:, :n_columns], d.bits[:, :n_columns]
    name = type(estimator).__name__
    given = {"X": bits if name in INDEXES else X, "y": d.y, "bits": bits, "ids": d.ids}
    given |= {"decoder": (np.ones((n_columns, 6)), np.ones(6))}
    given |= {"pairs": d.ids[:6].reshape(3, 2), "pair_labels": [1, 0, 1]}
    if name == "ShardedNeighbors":
        given["X"] = [np.packbits(np.tile(bits, 3), axis=1)] * 2
    taken = inspect.signature(estimator.fit).parameters
    return {name: value for name, value in given.items() if name in taken}


def answers(estimator):
    if hasattr(estimator, "save"):
        return savable.answers(estimator)
    codes = savable.CODES[:9, : estimator.n_features_in_]
    return list(estimator.kneighbors(codes))


def breaking(estimator):
    """Yield arguments that `fit` refuses; all but one are those of version 1."""
    given = arguments(estimator, 1)
    broken = {"bits": given.get("bits", 0) + 2, "ids": ["a"] * 59, "decoder": "none"}
    if type(estimator).__name__ in INDEXES:
        broken["X"] = given["X"] + 2
    elif type(estimator).__name__ == "ShardedNeighbors":
        broken["X"] = [given["X"][0], given["X"][0][:, :0]]
    else:
        broken["X"] = np.where(given["X"] == given["X"].max(), np.nan, given["X"])
    scores = hasattr(estimator, "score") and not hasattr(estimator, "inverse_transform")
    if get_tags(estimator).target_tags.required or scores:
        broken["y"] = savable.Y[:-2]
    for name in broken.keys() & given.keys():
        yield given | {name: broken[name]}


def interrupted(estimator, error, at=None):
    """Fit, and raise `error` before the line of this number.

    Lines are those of the estimator's methods, each counted when it first runs. Return
    their number, or None where `error` was raised.
    """
    lines = set()

    def trace(frame, event, argument):
        if frame.f_locals.get("self") is not estimator:
            return None
        if event == "line":
            lines.add((frame.f_code, frame.f_lineno))
            if at is not None and len(lines) > at:
                raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        estimator.fit(**arguments(estimator, 1))
    except (KeyboardInterrupt, MemoryError):
        return None
    finally:
        sys.settrace(before)
    return len(lines)


@pytest.mark.parametrize("estimator", instances(public_estimators(), SMALL), ids=str)
def test_a_fit_that_raises_changes_nothing(estimator):
    estimator = clone(estimator)
    if isinstance(estimator, SBNClassifier):
        estimator.set_params(max_epochs=1)
    estimator.fit(**arguments(estimator, 0))
    expected = answers(estimator)
    before = dict(vars(estimator))

    def check():
        assert vars(estimator).keys() == before.keys()
        assert all(vars(estimator)[name] is value for name, value in before.items())
        for one, other in zip(answers(estimator), expected, strict=True):
            np.testing.assert_array_equal(one, other)

    for given in breaking(estimator):
        with pytest.raises((TypeError, ValueError)):
            estimator.fit(**given)
        check()
    n_lines = interrupted(clone(estimator), None)
    errors = cycle([KeyboardInterrupt(), MemoryError()])
    # An attribute that is set too early stays: the last lines are all tried.
    for line in sorted({*range(0, n_lines, 19), *range(max(0, n_lines - 7), n_lines)}):
        if interrupted(estimator, next(errors), line) is not None:
            break  # a fit without a seed may have fewer lines
        check()
    else:
        estimator.fit(**arguments(estimator, 1))
    assert n_lines > 20
    assert estimator.n_features_in_ != before["n_features_in_"]
