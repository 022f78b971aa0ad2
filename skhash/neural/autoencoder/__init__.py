"""Stochastic autoencoders with a binary code."""

from skhash.neural.autoencoder._encoder import StochasticAutoencoderHash
from skhash.neural.autoencoder._parts import Correction, CorrelatedPosterior

__all__ = ["Correction", "CorrelatedPosterior", "StochasticAutoencoderHash"]
