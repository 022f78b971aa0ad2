"""scikit-learn estimators that turn vectors into short binary codes and search them."""

from skhash._audit import AuditResult, audit
from skhash.classification import SBNClassifier
from skhash.linear import (
    BinaryAutoencoderHash,
    ITQHash,
    KMeansHash,
    PCAHash,
    RandomHyperplaneHash,
    ScalableGraphHash,
    SpectralHash,
    SphericalHash,
    SupervisedDiscreteHash,
)
from skhash.neighbors import HammingNeighbors, HashedNeighbors
from skhash.neural import (
    DualHashEncoder,
    NeighborHash,
    SGHEncoder,
    StochasticAutoencoderHash,
    SupervisedHash,
)
from skhash.persistence import load

__all__ = [
    "AuditResult",
    "BinaryAutoencoderHash",
    "DualHashEncoder",
    "HammingNeighbors",
    "HashedNeighbors",
    "ITQHash",
    "KMeansHash",
    "NeighborHash",
    "PCAHash",
    "RandomHyperplaneHash",
    "SBNClassifier",
    "SGHEncoder",
    "ScalableGraphHash",
    "SpectralHash",
    "SphericalHash",
    "StochasticAutoencoderHash",
    "SupervisedDiscreteHash",
    "SupervisedHash",
    "audit",
    "load",
]

__version__ = "0.1.0"
