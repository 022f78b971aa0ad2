"""What is exported: the live codes of an index, or packed codes."""

import importlib

import numpy as np

from skhash.codes import check_packed
from skhash.neighbors import HammingNeighbors


def read_source(codes, ids=None, n_bits=None):
    """Read what is exported: codes, with an id for each.

    Parameters
    ----------
    codes : HammingNeighbors or array-like of shape (n_samples, n_bytes), uint8
        A fitted index, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        By default the ids of the index, or positions.
    n_bits : int, default=None
        Length of the codes. By default that of an index that was fitted on bits, else
        all bits of the bytes.

    Returns
    -------
    packed : ndarray of shape (n_samples, n_bytes), uint8
    ids : ndarray of shape (n_samples,)
    n_bits : int

    Raises
    ------
    ValueError
        If there are not as many ids as codes, or bits are set behind `n_bits`.

    Examples
    --------
    >>> from skhash.export import read_source
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[1, 0, 1], [0, 1, 1]], ids=["a", "b"])
    >>> read_source(index.remove(["a"]))
    (array([[96]], dtype=uint8), array(['b'], dtype='<U1'), 3)
    """
    if isinstance(codes, HammingNeighbors):
        live = np.flatnonzero(codes.live_)
        if ids is None:
            ids = getattr(codes, "ids_", None)
            ids = live if ids is None else ids[live]
        if n_bits is None and not codes.packed:
            n_bits = codes.n_features_in_
        packed = codes.packed_codes_[live]
    else:
        packed = check_packed(codes)
        ids = np.arange(len(packed)) if ids is None else ids
    if n_bits is None:
        n_bits = 8 * packed.shape[1]
    packed, ids = check_packed(packed, n_bits), np.asarray(ids)
    if ids.shape != (len(packed),):
        raise ValueError(
            f"There are {len(packed)} codes and ids of shape {ids.shape}; give one id "
            "a code."
        )
    return packed, ids, n_bits


def integer_ids(ids, engine):
    """Return ids as int64, or raise ``ValueError`` where `engine` cannot hold them."""
    if ids.dtype.kind not in "iu":
        raise ValueError(
            f"{engine} has integer ids only, got {ids[:1].tolist()}; export with "
            "ids=range(n) and keep the strings beside it."
        )
    return ids.astype(np.int64)


def import_engine(module, package):
    """Import what a user of that engine has installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"This export needs {package}: pip install {package}"
        ) from None
