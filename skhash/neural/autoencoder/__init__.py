"""Stochastic autoencoders with a binary code."""

from skhash.neural.autoencoder._correction import Correction
from skhash.neural.autoencoder._encoder import StochasticAutoencoderHash
from skhash.neural.autoencoder._posterior import CorrelatedPosterior

__all__ = ["Correction", "CorrelatedPosterior", "StochasticAutoencoderHash"]
