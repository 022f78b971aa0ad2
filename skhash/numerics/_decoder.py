"""Vectors from codes: the arrays of a linear decoder, and their sums.

A code of n bits is cut into ``M = ceil(n / g)`` blocks of g bits, whose values v_m are
numbers in ``range(2^g)``, the first bit being the highest. It decodes to
``offset + sum_m C_m[v_m]``. The codebook C has shape (M, 2^g, n_features), or for g = 1
(n_bits, n_features): what each bit that is set adds.

A codebook may be kept as whole numbers of 8 or 16 bits with a scale for each block.
Then it is their product in float32, and everything is defined by that.
"""

import numpy as np

# So that a product of a whole number and a scale is 0 or a normal float32.
LEAST_SCALE, LARGEST_SCALE = np.float32(2.0**-126), np.float32(2.0**112)


def scaled(entries, scales) -> np.ndarray:
    """Return the codebook of whole numbers and scales; of scales None the entries."""
    return entries if scales is None else entries * scales[:, None, None]


def bits_of_block(codebook) -> int:
    """Return how many bits choose an entry of the codebook."""
    return 1 if codebook.ndim == 2 else codebook.shape[1].bit_length() - 1


def count_blocks(n_bits: int, block_bits: int) -> int:
    return -(-n_bits // block_bits)


def check_codebook(codebook, offset, n_bits, scales=None) -> None:
    """Raise ``ValueError`` unless these decode codes of `n_bits`."""
    if codebook.ndim != 2 and codebook.shape[1:-1] not in ((16,), (256,)):
        raise ValueError(
            "codebook must have shape (n_bits, n_features), (n_blocks, 16, n_features) "
            f"or (n_blocks, 256, n_features), got {codebook.shape}."
        )
    if offset.shape != codebook.shape[-1:]:
        raise ValueError(
            f"offset must have shape {codebook.shape[-1:]}, as the codebook has shape "
            f"{codebook.shape}, got {offset.shape}."
        )
    n_blocks = count_blocks(n_bits, bits_of_block(codebook))
    if n_blocks != len(codebook):
        raise ValueError(
            f"A codebook of shape {codebook.shape} does not fit codes of {n_bits} "
            f"bits, which are {n_blocks} blocks."
        )
    if (codebook.dtype.kind == "i" and codebook.ndim == 3) != (scales is not None):
        raise ValueError("Blocks of whole numbers, and no others, must have scales.")
    if scales is None:
        return
    in_range = LEAST_SCALE <= scales.min() <= scales.max() <= LARGEST_SCALE
    if scales.shape != codebook.shape[:1] or not in_range:
        raise ValueError(
            f"scales must be {len(codebook)} numbers from {LEAST_SCALE} to "
            f"{LARGEST_SCALE}, got {scales}."
        )


def block_values(packed_codes, block_bits: int, n_blocks: int) -> np.ndarray:
    """Return the values of the blocks of packed codes, (n, n_blocks), uint8."""
    values = packed_codes
    if block_bits == 1:
        values = np.unpackbits(packed_codes, axis=1)
    elif block_bits == 4:
        halves = np.stack([packed_codes >> 4, packed_codes & 15], axis=2)
        values = halves.reshape(len(packed_codes), -1)
    return np.ascontiguousarray(values[:, :n_blocks])


def values_to_bytes(values, block_bits: int) -> np.ndarray:
    """Return codes of whole bytes, (n, n_bytes), of the values of 8 or 4 bits."""
    return values if block_bits == 8 else values[:, ::2] << 4 | values[:, 1::2]


def bits_to_values(bits, block_bits: int) -> np.ndarray:
    """Return the values of the blocks, (n, n_blocks), uint8; see `values_to_bits`."""
    n_blocks = count_blocks(bits.shape[1], block_bits)
    return block_values(np.packbits(bits, axis=1), block_bits, n_blocks)


def values_to_bits(values, block_bits: int, n_bits: int) -> np.ndarray:
    """Return the bits, (n, n_bits), uint8, of the values of blocks.

    Bits that the last block is short of are zeros behind its own, as in `np.packbits`.
    """
    bits = np.unpackbits(values[:, :, None], axis=2)[:, :, 8 - block_bits :]
    return np.ascontiguousarray(bits.reshape(len(values), -1)[:, :n_bits])


def sum_of_entries(values, codebook, start=0) -> np.ndarray:
    """Return ``start + sum_m codebook[m, values[:, m]]``.

    The sum has the dtype of the codebook, and the result that of a wider start, too:
    that of rows far from the origin is float64.
    """
    if codebook.ndim == 2:
        return values.astype(codebook.dtype) @ codebook + start
    total = np.zeros((len(values), codebook.shape[2]), dtype=codebook.dtype)
    for entries, indices in zip(codebook, values.T, strict=True):
        total += entries[indices]
    return total + start
