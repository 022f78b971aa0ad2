"""Classifiers whose hidden layers are codes."""

from skhash.classification._sbn import SBNClassifier

__all__ = ["SBNClassifier"]
