"""scikit-learn estimators that turn vectors into short binary codes and search them."""

from typing import TYPE_CHECKING

from skhash.utils.lazy import late_names

__all__ = [
    "AdditiveQuantizer",
    "AsymmetricNeighbors",
    "AuditResult",
    "DualHashEncoder",
    "HammingNeighbors",
    "HashedNeighbors",
    "ITQHash",
    "JaccardNeighbors",
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

# Type checkers read the first part; the second is what runs. So each name is imported
# when it is asked for: search of codes does not wait for what fits encoders.
if TYPE_CHECKING:
    from skhash._versions import show_versions
    from skhash.auditing import AuditResult, audit
    from skhash.classification import SBNClassifier
    from skhash.linear import ITQHash, PCAHash
    from skhash.neighbors import (
        AsymmetricNeighbors,
        HammingNeighbors,
        HashedNeighbors,
        JaccardNeighbors,
    )
    from skhash.neural import (
        DualHashEncoder,
        NeighborHash,
        SGHEncoder,
        StochasticAutoencoderHash,
        SupervisedHash,
    )
    from skhash.persistence import load
    from skhash.quantization import AdditiveQuantizer
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "_versions": ["show_versions"],
            "auditing": ["AuditResult", "audit"],
            "classification": ["SBNClassifier"],
            "linear": ["ITQHash", "PCAHash"],
            "neighbors": [
                "AsymmetricNeighbors",
                "HammingNeighbors",
                "HashedNeighbors",
                "JaccardNeighbors",
            ],
            "neural": [
                "DualHashEncoder",
                "NeighborHash",
                "SGHEncoder",
                "StochasticAutoencoderHash",
                "SupervisedHash",
            ],
            "persistence": ["load"],
            "quantization": ["AdditiveQuantizer"],
        },
        ("base", "codes", "datasets", "distributed", "export", "gradients")
        + ("losses", "metrics", "networks", "noise", "training"),
    )
