"""Stochastic autoencoders with a binary code."""

from skhash.neural.autoencoder._encoder import StochasticAutoencoderHash

__all__ = ["StochasticAutoencoderHash"]
