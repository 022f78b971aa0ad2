"""scikit-learn estimators that turn vectors into short binary codes and search them."""

from skhash._versions import show_versions
from skhash.auditing import AuditResult, audit
from skhash.classification import SBNClassifier
from skhash.linear import ITQHash, PCAHash
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, HashedNeighbors
from skhash.neural import (
    DualHashEncoder,
    NeighborHash,
    SGHEncoder,
    StochasticAutoencoderHash,
    SupervisedHash,
)
from skhash.persistence import load
from skhash.quantization import AdditiveQuantizer

__all__ = [
    "AdditiveQuantizer",
    "AsymmetricNeighbors",
    "AuditResult",
    "DualHashEncoder",
    "HammingNeighbors",
    "HashedNeighbors",
    "ITQHash",
    "NeighborHash",
    "PCAHash",
    "SBNClassifier",
    "SGHEncoder",
    "StochasticAutoencoderHash",
    "SupervisedHash",
    "audit",
    "load",
    "show_versions",
]

__version__ = "0.1.0"
