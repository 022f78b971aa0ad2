"""Encoding of blocks of vectors."""

import copy
from typing import Any

import numpy as np

from skhash.codes import packed_width


def encode_blocks(encoder, X) -> Any:
    """Encode a Dask array block by block, on the workers.

    Parameters
    ----------
    encoder : fitted encoder
        Encoder, which is sent to the workers without its training state. Fit it on a
        sample; about 50,000 rows are enough.
    X : dask.array.Array of shape (n_samples, n_features)
        Vectors; some blocks may be empty. To make such an array from a memory map, call
        ``dask.array.from_array(memmap, chunks=(100_000, -1))``.

    Returns
    -------
    packed : dask.array.Array of shape (n_samples, ceil(n_bits / 8)), uint8
        Result of ``encoder.transform_packed``, not yet computed.

    Raises
    ------
    TypeError
        If the encoder has no such method, like a quantizer.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from skhash.distributed import encode_blocks
    >>> X = da.from_array(vectors, chunks=(100_000, -1))  # doctest: +SKIP
    >>> encode_blocks(encoder, X).to_zarr("codes.zarr")  # doctest: +SKIP
    """
    if not hasattr(encoder, "transform_packed"):
        raise TypeError(
            f"{type(encoder).__name__} has no transform_packed; pass encoders of bits."
        )
    n_bits = len(encoder.get_feature_names_out())
    X = X.rechunk({1: -1})
    return X.map_blocks(
        _encode,
        encoder=_light(encoder),
        width=packed_width(n_bits),
        chunks=(X.chunks[0], (packed_width(n_bits),)),
        dtype=np.uint8,
        meta=np.empty((0, 0), dtype=np.uint8),
    )


def _light(encoder):
    """Return a copy without its training state."""
    encoder = copy.copy(encoder)
    vars(encoder).pop("net_", None)
    return encoder


def _encode(block, encoder, width):
    # Encoders refuse an array without rows, such as a filter leaves.
    if not len(block):
        return np.empty((0, width), dtype=np.uint8)
    return encoder.transform_packed(block)
