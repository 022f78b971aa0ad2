"""Fitted estimators as files of JSON and arrays: loading them runs no code."""

from skhash.persistence.estimators import load, load_estimator, save_estimator

__all__ = ["load", "load_estimator", "save_estimator"]
