"""Classifiers whose hidden layers are codes."""

from skhash.classification._architectures import VGG, AllConv
from skhash.classification._sbn import SBNClassifier

__all__ = ["VGG", "AllConv", "SBNClassifier"]
