"""Losses of supervised hashing, and likelihoods of reconstruction."""

from skhash.losses._centers import CSQLoss, MDSHCLoss, OrthoHashLoss, hash_centers
from skhash.losses._discrete import DSDHLoss
from skhash.losses._dual import DualHashLoss, DualSolver, ProxSolver
from skhash.losses._objective import SupervisedLoss, share_label
from skhash.losses._pairwise import (
    CrossEntropyLoss,
    DHNLoss,
    DSHLoss,
    DTSHLoss,
    HashNetLoss,
    SupervisedContrastiveLoss,
)
from skhash.utils.parameters import resolved

__all__ = [
    "CSQLoss",
    "CrossEntropyLoss",
    "DHNLoss",
    "DSDHLoss",
    "DSHLoss",
    "DTSHLoss",
    "DualSolver",
    "DualHashLoss",
    "HashNetLoss",
    "MDSHCLoss",
    "OrthoHashLoss",
    "ProxSolver",
    "SupervisedContrastiveLoss",
    "SupervisedLoss",
    "hash_centers",
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
    """Return a new loss by its name, or a clone of the given loss.

    Parameters
    ----------
    loss : str or SupervisedLoss

    Raises
    ------
    ValueError
        If it is neither, or if one of its parameters is out of range.

    Examples
    --------
    >>> from skhash.losses import make_loss
    >>> make_loss("csq")
    CSQLoss()
    """
    return resolved(loss, LOSSES, SupervisedLoss, "loss")
