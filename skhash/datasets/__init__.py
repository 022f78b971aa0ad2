"""Readers for the field's files, and loaders of a few data sets; nothing downloads.

A *reader* (``read_...``, `open_vectors`) takes the path of a file in a known format and
raises ``ValueError`` where the file is not what it claims to be. A *loader*
(``load_...``) knows one data set, where its files lie and how it is split; it raises
``FileNotFoundError`` with the command that installs the files where they are absent,
and never puts other data in their place.
"""

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._digits import load_digits_retrieval
from skhash.datasets._fashion_mnist import load_fashion_mnist
from skhash.datasets._glove import load_glove
from skhash.datasets._hdf5 import read_ann_hdf5
from skhash.datasets._images import read_cifar_binary, read_idx
from skhash.datasets._mat import read_vdsh_mat
from skhash.datasets._newsgroups import load_20newsgroups
from skhash.datasets._npz import read_sparse_npz
from skhash.datasets._vecs import read_bvecs, read_fvecs, read_ivecs
from skhash.datasets._vectors import open_vectors

__all__ = [
    "RetrievalData",
    "load_20newsgroups",
    "load_digits_retrieval",
    "load_fashion_mnist",
    "load_glove",
    "open_vectors",
    "read_ann_hdf5",
    "read_bvecs",
    "read_cifar_binary",
    "read_fvecs",
    "read_idx",
    "read_ivecs",
    "read_sparse_npz",
    "read_vdsh_mat",
]
