"""Readers of common vector files, and a small data set. Nothing is downloaded.

Readers raise ``ValueError`` if a file is damaged or of another format. Loaders of other
data sets are in ``examples/data``.
"""

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._digits import load_digits_retrieval
from skhash.datasets._hdf5 import read_ann_hdf5
from skhash.datasets._vectors import open_vectors

__all__ = ["RetrievalData", "load_digits_retrieval", "open_vectors", "read_ann_hdf5"]
