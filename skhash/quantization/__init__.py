"""Vectors in few bytes that decode to sums of entries of a codebook."""

from skhash.quantization._decoder import LinearDecoder
from skhash.quantization._quantizer import AdditiveQuantizer

__all__ = ["AdditiveQuantizer", "LinearDecoder"]
