"""Encoders, decoders and their losses as torch modules, imported to train one."""

from skhash.networks._layers import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)

__all__ = ["BinaryConv2d", "BinaryLinear", "RealLinear", "StochasticBinaryNetwork"]
