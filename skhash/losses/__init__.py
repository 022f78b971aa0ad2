"""Losses as exchangeable parts: of reconstruction, and of codes that fit labels."""

from sklearn.base import clone

from skhash.losses._centers import CSQLoss, MDSHCLoss, OrthoHashLoss
from skhash.losses._classes import CrossEntropyLoss, SupervisedContrastiveLoss
from skhash.losses._discrete import DSDHLoss
from skhash.losses._hash_centers import gilbert_varshamov_distance, hash_centers
from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
    make_likelihood,
)
from skhash.losses._objective import Objective, SupervisedLoss, Training, share_label
from skhash.losses._pairwise import DHNLoss, DSHLoss, DTSHLoss, HashNetLoss

__all__ = [
    "BernoulliLikelihood",
    "CSQLoss",
    "CrossEntropyLoss",
    "DHNLoss",
    "DSDHLoss",
    "DSHLoss",
    "DTSHLoss",
    "GaussianLikelihood",
    "HashNetLoss",
    "MDSHCLoss",
    "MultinomialLikelihood",
    "Objective",
    "OrthoHashLoss",
    "SupervisedContrastiveLoss",
    "SupervisedLoss",
    "Training",
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
        If it is neither.

    Examples
    --------
    >>> from skhash.losses import make_loss
    >>> make_loss("csq")
    CSQLoss()
    """
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    if isinstance(loss, SupervisedLoss):
        return clone(loss)
    raise ValueError(
        f"loss={loss!r} is not one of {', '.join(LOSSES)}, nor an instance of a class "
        "of skhash.losses."
    )
