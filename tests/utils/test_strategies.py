"""Strategies by name, as objects, and with wrong parameters."""

import pytest
from sklearn.datasets import load_digits

from skhash import SGHEncoder
from skhash.neural import LatentScale
from skhash.neural.sgh._parts import resolve_scale


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200], y[:200]


def test_wrong_strategies_are_named(digits):
    with pytest.raises(ValueError, match="'scale' parameter of SGHEncoder"):
        SGHEncoder(scale="latnet").fit(digits[0])
    with pytest.raises(ValueError, match="scale='latnet'.*'latent'"):
        resolve_scale("latnet")
    with pytest.raises(ValueError, match="'std' parameter of LatentScale.*-1"):
        SGHEncoder(scale=LatentScale(std=-1)).fit(digits[0])
