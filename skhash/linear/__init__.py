"""Encoders that are fitted in closed form or by alternating steps."""

from skhash.linear._binary_autoencoder import BinaryAutoencoderHash
from skhash.linear._itq import ITQHash
from skhash.linear._kmeans import KMeansHash
from skhash.linear._pca import PCAHash
from skhash.linear._random_hyperplane import RandomHyperplaneHash
from skhash.linear._scalable_graph import ScalableGraphHash
from skhash.linear._sdh import SupervisedDiscreteHash
from skhash.linear._spectral import SpectralHash
from skhash.linear._spherical import SphericalHash
from skhash.quantization import LinearDecoder  # noqa: F401, its place before

__all__ = [
    "BinaryAutoencoderHash",
    "ITQHash",
    "KMeansHash",
    "PCAHash",
    "RandomHyperplaneHash",
    "ScalableGraphHash",
    "SpectralHash",
    "SphericalHash",
    "SupervisedDiscreteHash",
]
