"""Strategies by name, as objects, and with wrong parameters."""

import pytest
from sklearn.datasets import load_digits

from skhash import SGHEncoder
from skhash.neural import LatentScale
from skhash.neural.sgh._parts import resolve_pairs


def test_wrong_strategies_are_named():
    X = load_digits().data[:200]
    with pytest.raises(ValueError, match="'pairs' parameter of SGHEncoder"):
        SGHEncoder(pairs="neighbours").fit(X)
    with pytest.raises(ValueError, match="pairs='neighbours'.*'neighbors'"):
        resolve_pairs("neighbours")
    with pytest.raises(ValueError, match="'latent_scale' parameter of SGHEncoder"):
        SGHEncoder(latent_scale=0.3).fit(X)
    with pytest.raises(ValueError, match="'std' parameter of LatentScale.*-1"):
        SGHEncoder(latent_scale=LatentScale(std=-1)).fit(X)
