"""Losses as exchangeable parts: torch modules that estimators put into networks."""

from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
    make_likelihood,
)

__all__ = [
    "BernoulliLikelihood",
    "GaussianLikelihood",
    "MultinomialLikelihood",
    "make_likelihood",
]
