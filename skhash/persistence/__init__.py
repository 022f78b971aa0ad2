"""Saving estimators as JSON and arrays; loading them runs no code."""

from skhash.persistence.estimators import load

__all__ = ["load"]
