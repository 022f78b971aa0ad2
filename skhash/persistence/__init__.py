"""Saving estimators as arrays and JSON. Loading them runs no code."""

from skhash.persistence.estimators import load

__all__ = ["load"]
