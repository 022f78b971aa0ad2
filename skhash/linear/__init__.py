"""Closed-form and alternating methods: fitted in torch, encoding with NumPy."""

from skhash.linear._itq import ITQHash
from skhash.linear._pca import PCAHash
from skhash.linear._random_hyperplane import RandomHyperplaneHash
from skhash.linear._sdh import SupervisedDiscreteHash

__all__ = ["ITQHash", "PCAHash", "RandomHyperplaneHash", "SupervisedDiscreteHash"]
