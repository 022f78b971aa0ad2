"""Losses as exchangeable parts: of reconstruction, and of codes that fit labels."""

from skhash.losses._centers import CSQLoss, MDSHCLoss, OrthoHashLoss
from skhash.losses._classes import CrossEntropyLoss, SupervisedContrastiveLoss
from skhash.losses._discrete import DSDHLoss
from skhash.losses._dual import DualHashLoss
from skhash.losses._hash_centers import gilbert_varshamov_distance, hash_centers
from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
    make_likelihood,
)
from skhash.losses._objective import Objective, SupervisedLoss, Training, share_label
from skhash.losses._pairwise import DHNLoss, DSHLoss, DTSHLoss, HashNetLoss
from skhash.losses._solvers import Dual, DualDC, Prox, Subgradient, WeaklyConvex
from skhash.utils.strategies import resolved

__all__ = [
    "BernoulliLikelihood",
    "CSQLoss",
    "CrossEntropyLoss",
    "DHNLoss",
    "DSDHLoss",
    "DSHLoss",
    "DTSHLoss",
    "Dual",
    "DualDC",
    "DualHashLoss",
    "GaussianLikelihood",
    "HashNetLoss",
    "MDSHCLoss",
    "MultinomialLikelihood",
    "Objective",
    "OrthoHashLoss",
    "Prox",
    "Subgradient",
    "SupervisedContrastiveLoss",
    "SupervisedLoss",
    "Training",
    "WeaklyConvex",
    "gilbert_varshamov_distance",
    "hash_centers",
    "make_likelihood",
    "make_loss",
    "share_label",
]

LOSSES = {
    "contrastive": SupervisedContrastiveLoss,
    "cross_entropy": CrossEntropyLoss,
    "csq": CSQLoss,
    "dhn": DHNLoss,
    "dsdh": DSDHLoss,
    "dsh": DSHLoss,
    "dtsh": DTSHLoss,
    "dualhash": DualHashLoss,
    "hashnet": HashNetLoss,
    "mdshc": MDSHCLoss,
    "orthohash": OrthoHashLoss,
}


def make_loss(loss) -> SupervisedLoss:
    """Return a fresh loss of a name, or a clone of the loss itself.

    Parameters
    ----------
    loss : str or SupervisedLoss

    Raises
    ------
    ValueError
        If it is neither, or a parameter of it is out of range.

    Examples
    --------
    >>> from skhash.losses import make_loss
    >>> make_loss("csq")
    CSQLoss()
    """
    return resolved(loss, LOSSES, SupervisedLoss, "loss")
