"""Readers for the field's files of vectors, and a small data set; nothing downloads.

A reader raises ``ValueError`` if a file is not what it claims to be. Loaders of other
data sets are in ``examples/data``.
"""

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._digits import load_digits_retrieval
from skhash.datasets._hdf5 import read_ann_hdf5
from skhash.datasets._vectors import open_vectors

__all__ = ["RetrievalData", "load_digits_retrieval", "open_vectors", "read_ann_hdf5"]
