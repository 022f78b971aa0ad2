"""Small pictures as PNG, within the page."""

import base64
import struct
import zlib
from numbers import Integral

import numpy as np

COLOR_TYPES = {1: 0, 3: 2}  # of PNG: grey, and red, green and blue


def png(pixels) -> bytes:
    """Return a PNG file of pixels of shape (height, width, 1 or 3), uint8."""
    height, width, n_channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[n_channels], 0, 0, 0)
    rows = pixels.reshape(height, -1)
    # Each line begins with its filter, 0 for none.
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind, content) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + checksum.to_bytes(4)


def data_uri(pixels) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def check_image_shape(shape, n_features) -> tuple[int, ...]:
    """Return the shape of an image, or raise where rows are none of that shape.

    Parameters
    ----------
    shape : sequence of int
        Height and width, and for colours 3 behind or before them.
    n_features : int
    """
    if not _is_image_shape(shape):
        raise ValueError(
            f"image_shape={shape!r} is no height and width, such as (28, 28), and no "
            "(28, 28, 3) or (3, 28, 28) of colours."
        )
    if np.prod(shape) != n_features:
        raise ValueError(
            f"An image of shape {'x'.join(map(str, shape))} has {np.prod(shape):,} "
            f"numbers, and the vectors have {n_features:,}."
        )
    return tuple(shape)


def _is_image_shape(shape) -> bool:
    if not isinstance(shape, tuple | list):
        return False
    if not all(isinstance(size, Integral) and size > 0 for size in shape):
        return False
    return len(shape) == 2 or (len(shape) == 3 and 3 in (shape[0], shape[-1]))


def images(vectors, shape) -> dict[int, str]:
    """Return pictures of rows: from the least of their values, black, to the greatest.

    Parameters
    ----------
    vectors : dict of ndarray
        By row.
    shape : tuple of int
        As `check_image_shape` returns it.
    """
    values = np.array(list(vectors.values()), dtype=np.float64)
    low, high = values.min(), values.max()
    levels = np.round(255 * (values - low) / ((high - low) or 1)).astype(np.uint8)
    levels = levels.reshape(-1, *shape)
    if len(shape) == 2:
        levels = levels[..., None]
    elif shape[-1] != 3:
        levels = np.moveaxis(levels, 1, -1)
    return dict(zip(vectors, map(data_uri, levels), strict=True))
