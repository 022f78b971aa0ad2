"""Quantizers, whose codes decode to sums of codebook entries."""

from skhash.quantization._decoder import LinearDecoder
from skhash.quantization._quantizer import AdditiveQuantizer

__all__ = ["AdditiveQuantizer", "LinearDecoder"]
