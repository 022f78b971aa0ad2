"""Codes learned from labels."""

from skhash.neural.supervised._encoder import DualHashEncoder, SupervisedHash

__all__ = ["DualHashEncoder", "SupervisedHash"]
