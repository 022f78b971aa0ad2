"""Stochastic Generative Hashing."""

from skhash.neural.sgh._encoder import SGHEncoder

__all__ = ["SGHEncoder"]
