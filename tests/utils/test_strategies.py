"""Strategies by name, as objects, and with wrong parameters."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skhash import SGHEncoder
from skhash.neural import LabelPairs, LatentScale, NeighborPairs
from skhash.neural.sgh._parts import resolve_scale

SMALL = {"n_bits": 6, "max_epochs": 2, "init": "pca", "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200], y[:200]


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ({"scale": "latent"}, {"scale": LatentScale()}),
        ({"pairs": "labels"}, {"pairs": LabelPairs()}),
        ({"pairs": "neighbors"}, {"pairs": NeighborPairs()}),
    ],
)
def test_a_name_is_a_strategy_with_its_defaults(name, strategy, digits):
    named, made = (
        SGHEncoder(**SMALL, **given).fit(*digits) for given in (name, strategy)
    )
    np.testing.assert_array_equal(named.components_, made.components_)


def test_strategies_are_resolved_to_objects_of_their_own():
    scale = LatentScale(std=0.7)
    assert resolve_scale(scale) is not scale
    assert resolve_scale(scale).std == 0.7
    assert resolve_scale(None) is None


def test_wrong_strategies_are_named(digits):
    with pytest.raises(ValueError, match="'scale' parameter of SGHEncoder"):
        SGHEncoder(scale="latnet").fit(digits[0])
    with pytest.raises(ValueError, match="scale='latnet'.*'latent'"):
        resolve_scale("latnet")
    with pytest.raises(ValueError, match="'std' parameter of LatentScale.*-1"):
        SGHEncoder(scale=LatentScale(std=-1)).fit(digits[0])
