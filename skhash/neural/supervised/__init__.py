"""Codes that follow labels."""

from skhash.neural.supervised._dual import DualHashEncoder
from skhash.neural.supervised._encoder import SupervisedHash

__all__ = ["DualHashEncoder", "SupervisedHash"]
