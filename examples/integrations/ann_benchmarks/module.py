"""Exact Hamming search for ann-benchmarks and for VIBE; both take this file as it is.

In ann-benchmarks this folder is to be ``ann_benchmarks/algorithms/skhash``; in VIBE
this file and those of the folder ``vibe`` beside, ``vibe/algorithms/skhash``.
"""

import numpy as np

from skhash import HammingNeighbors

from ..base.module import BaseANN

# Single queries of a run; tables that they would repay are made in `fit`.
QUERIES = 1000


class Skhash(BaseANN):
    """Rows are bits as booleans (ann-benchmarks), or packed bytes (VIBE)."""

    def __init__(self, metric):
        if metric != "hamming":
            raise NotImplementedError(f"skhash has the metric hamming, got {metric}")
        self.name = "skhash()"

    def fit(self, X):
        self.index = HammingNeighbors(packed=True, n_jobs=1)
        codes = packed(X)
        self.index.fit(codes).prepare(QUERIES)
        self.index.kneighbors(codes[:1], 1)  # compiles

    def query(self, v, n):
        return self.index.kneighbors(packed(v[None]), n, return_distance=False)[0]

    def batch_query(self, X, n):
        self.index.set_params(n_jobs=None)
        self.res = self.index.kneighbors(packed(X), n, return_distance=False)
        self.index.set_params(n_jobs=1)


def packed(X):
    """Return packed codes of bits or of packed codes."""
    return np.packbits(X, axis=1) if X.dtype == bool else X
