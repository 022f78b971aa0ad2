"""Sources of exports: live codes of an index or packed codes, and their decoder."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_packed
from skhash.neighbors import (
    AsymmetricNeighbors,
    HammingNeighbors,
    HashedNeighbors,
)
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.ids import IdLookup, read_ids

# Names of the items of a code in tables, see `Decoder.items`.
ITEMS = ("term", "factor")


def read_source(codes, ids=None, n_bits=None):
    """Read the codes to export, with an id for each.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted `HammingNeighbors`, `AsymmetricNeighbors` or `HashedNeighbors`, or
        packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        By default the ids of the index, or positions.
    n_bits : int, default=None
        Length of the codes. By default that of an index that was fitted on bits or has
        a decoder, else all bits of the bytes.

    Returns
    -------
    packed : ndarray of shape (n_samples, n_bytes), uint8
    ids : ndarray of shape (n_samples,), int64 or str
    n_bits : int

    Raises
    ------
    ValueError
        If an index would refuse the ids, or bits are set behind `n_bits`.
    """
    index = fitted_index(codes)
    if index is not None:
        live = np.flatnonzero(index.live_)
        if ids is None:
            ids = getattr(index, "ids_", None)
            ids = live if ids is None else ids[live]
        if n_bits is None and not index.packed:
            n_bits = index.n_features_in_
        if n_bits is None and index._store.decoder is not None:
            n_bits = index._store.decoder.n_bits
        packed = index.packed_codes_[live]
    else:
        packed = check_packed(codes)
        ids = np.arange(len(packed)) if ids is None else ids
    if n_bits is None:
        n_bits = 8 * packed.shape[1]
    packed, ids = check_packed(packed, n_bits), read_ids(ids, packed)
    IdLookup().add(ids, np.arange(len(ids)), None)  # refuses one that occurs twice
    return packed, ids, n_bits


def read_items(codes):
    """Return the score terms and factors of the codes that `read_source` reads.

    Returns
    -------
    items : dict of str to ndarray of shape (n_samples,), float32
        "term", for angles also "factor"; empty where there is no decoder.
    """
    index = fitted_index(codes)
    if index is None or index._store.decoder is None:
        return {}
    store, live = index._store, index.live_
    if store.levels is None:
        return {"term": np.zeros(live.sum(), dtype=np.float32)}
    keys = store.decoder.keys_of_levels(store.levels[live])
    items = store.decoder.terms_and_factors(keys)
    return dict(zip(ITEMS, items[: 1 + store.decoder.by_angle], strict=False))


def read_scoring(source, metric=None):
    """Return the `Decoder` of an index, or of a decoder for `AsymmetricNeighbors.fit`.

    metric : str or None, which is that of an index, or else "euclidean"
    """
    index = fitted_index(source)
    if index is None:
        return read_decoder(source, metric or "euclidean")
    decoder = index._store.decoder
    if decoder is None:
        raise ValueError(
            f"This {type(source).__name__} has no decoder; one is in an "
            "AsymmetricNeighbors that was fitted by fit(codes, decoder=...)."
        )
    if metric not in (None, decoder.metric):
        raise ValueError(
            f"metric={metric!r}, but the index was fitted for {decoder.metric!r}; "
            "leave it out, or pass the decoder itself."
        )
    return decoder


def fitted_index(source):
    """Return the index that `source` is or holds, or None if it is neither."""
    if isinstance(source, HashedNeighbors):
        check_is_fitted(source)
        source = source.index_
    if not isinstance(source, (AsymmetricNeighbors, HammingNeighbors)):
        return None
    check_is_fitted(source)
    return source


def whole_ids(ids, engine):
    """Return ids, or raise ``ValueError`` if `engine` cannot hold them."""
    wrong = ids if ids.dtype.kind == "U" else ids[ids < 0]
    if len(wrong):
        raise ValueError(
            f"{engine} has integer ids of at least 0 only, got {wrong[0].item()!r}; "
            "export with ids=range(n) and keep your ids beside it."
        )
    return ids
