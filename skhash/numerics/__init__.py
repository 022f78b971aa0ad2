"""Numerics that several families of methods share: projections, rotations, scales."""
