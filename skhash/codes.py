"""The formats of a binary code and the conversions between them.

A code has three forms: *bits* (``uint8`` 0/1, one column per bit) in the public API,
*packed* bytes (``uint8``, eight bits per byte, the first bit highest, padding bits 0)
in files and indexes, and *signs* (-1/+1) inside losses. *Words* are packed bytes viewed
as ``uint64``, which kernels count. All conversions are in this module.
"""

from operator import index
from string import hexdigits

import numpy as np

from skhash.utils.arrays import as_array
from skhash.utils.chunks import row_chunks

__all__ = [
    "bits_to_signs",
    "from_hex",
    "hamming_distances",
    "pack_bits",
    "signs_to_bits",
    "spherical_hamming_distances",
    "to_hex",
    "unpack_bits",
]

# The two codings of a bit in a model: its low value, and the step to its high one.
CODINGS = {"01": (0.0, 1.0), "pm1": (-1.0, 2.0)}

# Kernels keep a distance and a position in one word of 64 bits.
MAX_BITS = 2**22


def packed_width(n_bits: int) -> int:
    """Return the number of bytes that hold `n_bits` bits.

    Parameters
    ----------
    n_bits : int
        Number of bits per code.

    Returns
    -------
    n_bytes : int

    Examples
    --------
    >>> from skhash.codes import packed_width
    >>> packed_width(12)
    2
    """
    return -(-index(n_bits) // 8)


def check_bits(bits) -> np.ndarray:
    """Return `bits` as a C-contiguous ``uint8`` array of 0/1, or raise.

    Parameters
    ----------
    bits : array-like of shape (n, n_bits)
        Bits, as booleans or as numbers 0 and 1.

    Returns
    -------
    bits : ndarray of shape (n, n_bits), uint8
        Bits 0 and 1.

    Raises
    ------
    ValueError
        If the array is not two-dimensional, is masked, has no columns, or holds values
        other than 0 and 1.

    Examples
    --------
    >>> from skhash.codes import check_bits
    >>> check_bits([[True, False, 1.0]])
    array([[1, 0, 1]], dtype=uint8)
    """
    bits = as_array(bits)
    if bits.ndim != 2 or bits.shape[1] == 0:
        raise ValueError(
            "Codes must have shape (n_codes, n_bits) with n_bits >= 1, got an array of "
            f"shape {bits.shape}. Pass a single code as codes.reshape(1, -1)."
        )
    if bits.dtype != bool:
        if bits.dtype.kind not in "iuf":
            raise ValueError(f"Codes must be numbers 0 and 1, got dtype {bits.dtype}.")
        for rows in row_chunks(bits.shape[0], bits.shape[1] * bits.itemsize):
            block = bits[rows]
            wrong = (block != 0) & (block != 1)
            if wrong.any():
                raise ValueError(
                    f"Codes must hold 0 and 1 only, got {block[wrong][0]!s}. Encode "
                    "vectors first. For packed bytes set packed=True or use "
                    "unpack_bits; for -1/+1 use signs_to_bits."
                )
    return np.ascontiguousarray(bits, dtype=np.uint8)


def check_packed(packed, n_bits: int | None = None) -> np.ndarray:
    """Return packed codes as a C-contiguous ``uint8`` array, or raise.

    Parameters
    ----------
    packed : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int, default=None
        Number of bits, if known. The number of bytes and the padding bits are then
        checked too.

    Returns
    -------
    packed : ndarray of shape (n, ceil(n_bits / 8)), uint8

    Raises
    ------
    ValueError
        If the dtype is not ``uint8``, if the shape does not fit, if the array is
        masked, or if a padding bit is set.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import check_packed
    >>> check_packed(np.array([[255, 128]], dtype=np.uint8), n_bits=9)
    array([[255, 128]], dtype=uint8)
    """
    packed = as_array(packed)
    if packed.dtype != np.uint8:
        raise ValueError(
            f"Packed codes must have dtype uint8, got {packed.dtype}. Convert hex "
            "strings by from_hex(codes), words by codes.view(np.uint8), and other "
            "bytes by codes.astype(np.uint8)."
        )
    if packed.ndim != 2 or packed.shape[1] == 0:
        raise ValueError(
            "Packed codes must have shape (n_codes, n_bytes) with n_bytes >= 1, got "
            f"{packed.shape}. Pass a single code as packed.reshape(1, -1)."
        )
    if n_bits is not None:
        if packed.shape[1] != packed_width(n_bits):
            raise ValueError(
                f"Codes of {n_bits} bits need {packed_width(n_bits)} bytes, got "
                f"{packed.shape[1]}."
            )
        padding = 8 * packed.shape[1] - index(n_bits)
        if padding and (packed[:, -1] & ((1 << padding) - 1)).any():
            raise ValueError(
                f"The last {padding} bit(s) of the last byte must be 0 in packed codes "
                f"of {n_bits} bits; pack with numpy.packbits(..., bitorder='big')."
            )
    return np.ascontiguousarray(packed)


def check_codes_of(estimator, bits, n_bits: int) -> np.ndarray:
    """Return `check_bits`, or raise unless they are the `n_bits` of an estimator."""
    bits = check_bits(bits)
    if bits.shape[1] != n_bits:
        raise ValueError(
            f"Codes have {bits.shape[1]} bits, but this {type(estimator).__name__} was "
            f"fitted for {n_bits}."
        )
    return bits


def pack_bits(bits) -> np.ndarray:
    """Pack 0/1 bits into bytes, the first bit in the highest place of the first byte.

    Parameters
    ----------
    bits : array-like of shape (n, n_bits)
        Bits 0 and 1, or booleans. `n_bits` does not have to be a multiple of 8.

    Returns
    -------
    packed : ndarray of shape (n, ceil(n_bits / 8)), uint8
        Padding bits at the end of the last byte are 0.

    See Also
    --------
    unpack_bits : The inverse.

    Examples
    --------
    >>> from skhash.codes import pack_bits, unpack_bits
    >>> packed = pack_bits([[1, 0, 0, 0, 0, 0, 0, 1, 1, 0]])
    >>> packed
    array([[129, 128]], dtype=uint8)
    >>> unpack_bits(packed, n_bits=10)
    array([[1, 0, 0, 0, 0, 0, 0, 1, 1, 0]], dtype=uint8)
    """
    return np.packbits(check_bits(bits), axis=1, bitorder="big")


def unpack_bits(packed, n_bits: int) -> np.ndarray:
    """Unpack bytes into 0/1 bits.

    Parameters
    ----------
    packed : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Number of bits per code.

    Returns
    -------
    bits : ndarray of shape (n, n_bits), uint8
        Bits 0 and 1.

    Raises
    ------
    ValueError
        If `packed` is not a matrix of ``uint8``, if it is masked, if its number of
        bytes does not fit `n_bits`, or if a padding bit is set.

    See Also
    --------
    pack_bits : The inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import unpack_bits
    >>> unpack_bits(np.array([[0b10100000]], dtype=np.uint8), n_bits=3)
    array([[1, 0, 1]], dtype=uint8)
    """
    packed = check_packed(packed, n_bits)
    return np.unpackbits(packed, axis=1, count=n_bits, bitorder="big")


def from_hex(strings) -> np.ndarray:
    """Read codes from hexadecimal strings, such as perceptual hashes.

    Parameters
    ----------
    strings : array-like of shape (n,), str
        Hexadecimal digits in upper or lower case, optionally after ``0x``. All strings
        must have the same number of digits; each digit is four bits.

    Returns
    -------
    packed : ndarray of shape (n, ceil(n_digits / 2)), uint8
        The first digit is in the highest place of the first byte. If the number of
        digits is odd, the last four bits are padding, 0.

    Raises
    ------
    ValueError
        If one is not such a string, or not as long as the first. The message quotes the
        string and its position.

    See Also
    --------
    to_hex : The inverse.

    Examples
    --------
    >>> from skhash.codes import from_hex
    >>> from_hex(["ff01", "0xA0B1"])
    array([[255,   1],
           [160, 177]], dtype=uint8)
    """
    given = as_array(strings, dtype=object)
    if given.ndim != 1:
        raise ValueError(f"Hex strings must be a list, got shape {given.shape}.")
    texts = [str(s).lower().removeprefix("0x") for s in given]
    n_digits = len(texts[0]) if texts else 2
    are_right = [
        isinstance(s, str) and 0 < len(text) == n_digits and not text.strip(hexdigits)
        for s, text in zip(given, texts, strict=True)
    ]
    if not all(are_right):
        place = are_right.index(False)
        if not isinstance(given[place], str):
            raise ValueError(
                f"Hex strings must be strings, got {given[place]!r} at position "
                f"{place}. To pack an array of integers, view its bytes: "
                'numbers.astype(">u8")[:, None].view(np.uint8).'
            )
        raise ValueError(
            f"Each string must hold {n_digits} hexadecimal digits, as the first does; "
            f"got {given[place]!r} at position {place}."
        )
    padding = "0" * (n_digits % 2)
    packed = bytearray.fromhex("".join(text + padding for text in texts))
    return np.frombuffer(packed, np.uint8).reshape(
        len(texts), packed_width(4 * n_digits)
    )


def to_hex(packed) -> np.ndarray:
    """Write packed codes as hexadecimal strings.

    Parameters
    ----------
    packed : array-like of shape (n, n_bytes), uint8
        Packed codes.

    Returns
    -------
    strings : ndarray of shape (n,), str
        Two digits per byte, in lower case.

    See Also
    --------
    from_hex : The inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import to_hex
    >>> to_hex(np.array([[255, 1], [160, 177]], dtype=np.uint8))
    array(['ff01', 'a0b1'], dtype='<U4')
    """
    packed = check_packed(packed)
    rows = [row.tobytes().hex() for row in packed]
    return np.array(rows, dtype=f"<U{2 * packed.shape[1]}")


def packed_to_words(packed: np.ndarray) -> np.ndarray:
    """View packed bytes as 64-bit words; the last word is padded with zeros.

    The byte order within a word is that of the machine. Words are only for counting
    differing bits, which the order does not affect; do not store them.

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), uint8

    Returns
    -------
    words : ndarray of shape (n, ceil(n_bytes / 8)), uint64
        A view of `packed` if its rows are whole words, otherwise a copy.

    Raises
    ------
    ValueError
        If codes have more than 2^22 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import packed_to_words
    >>> np.bitwise_count(packed_to_words(np.array([[1, 3]], dtype=np.uint8)))
    array([[3]], dtype=uint8)
    """
    n, n_bytes = packed.shape
    if 8 * n_bytes > MAX_BITS:
        raise ValueError(
            f"Codes of {8 * n_bytes} bits are too long; the maximum is {MAX_BITS}."
        )
    n_words = -(-n_bytes // 8)
    if n_bytes == 8 * n_words and packed.flags.c_contiguous:
        return packed.view(np.uint64)
    padded = np.zeros((n, 8 * n_words), dtype=np.uint8)
    padded[:, :n_bytes] = packed
    return padded.view(np.uint64)


def bits_to_signs(bits, dtype=np.float32) -> np.ndarray:
    """Map bits 0/1 to signs -1/+1.

    Parameters
    ----------
    bits : array-like of shape (n, n_bits)
        0 and 1, or booleans.
    dtype : dtype, default=np.float32
        A signed integer or a float.

    Returns
    -------
    signs : ndarray of shape (n, n_bits), dtype
        Signs -1 and +1.

    Raises
    ------
    ValueError
        If `bits` is not a matrix, is masked, has no columns, or holds values other than
        0 and 1, or if `dtype` cannot hold -1.

    Examples
    --------
    >>> from skhash.codes import bits_to_signs
    >>> bits_to_signs([[0, 1]])
    array([[-1.,  1.]], dtype=float32)
    """
    if np.dtype(dtype).kind not in "if":
        raise ValueError(
            f"dtype must be able to hold -1, got {np.dtype(dtype)}; use a signed "
            "integer or a float."
        )
    return check_bits(bits).astype(dtype) * 2 - 1


def signs_to_bits(signs) -> np.ndarray:
    """Map signs -1/+1 to bits 0/1.

    Parameters
    ----------
    signs : array-like of any shape
        -1 and +1.

    Returns
    -------
    bits : ndarray of the same shape, uint8
        Bits 0 and 1.

    Raises
    ------
    ValueError
        If there is any other value, including 0.

    Examples
    --------
    >>> from skhash.codes import signs_to_bits
    >>> signs_to_bits([[-1.0, 1.0]])
    array([[0, 1]], dtype=uint8)
    """
    signs = as_array(signs)
    if signs.dtype.kind not in "iuf":
        raise ValueError(f"Signs must be numbers -1 and +1, got dtype {signs.dtype}.")
    wrong = (signs != 1) & (signs != -1)
    if wrong.any():
        raise ValueError(f"Signs must be -1 or +1, got {signs[wrong][0]!s}.")
    return (signs > 0).astype(np.uint8)


def hamming_distances(packed_a, packed_b) -> np.ndarray:
    """Compute the Hamming distances of all pairs of codes.

    The result is an (n_a, n_b) matrix. To find near codes without one, use
    `HammingNeighbors`.

    Parameters
    ----------
    packed_a : array-like of shape (n_a, n_bytes), uint8
        First packed codes of the pairs.
    packed_b : array-like of shape (n_b, n_bytes), uint8
        Second packed codes of the pairs.

    Returns
    -------
    distances : ndarray of shape (n_a, n_b), int32
        Numbers of bits that differ.

    Examples
    --------
    >>> from skhash.codes import hamming_distances, pack_bits
    >>> hamming_distances(pack_bits([[0, 0, 1]]), pack_bits([[0, 0, 1], [1, 1, 0]]))
    array([[0, 3]], dtype=int32)
    """
    return _count_ones(packed_a, packed_b, np.bitwise_xor)


def spherical_hamming_distances(packed_a, packed_b) -> np.ndarray:
    """Compute the spherical Hamming distances of all pairs of codes.

    This is the distance that `SphericalHash` was published with (Heo et al., 2012,
    equation 7): the number of differing bits divided by the number of common ones,
    because vectors that share many balls lie in a small region. If two codes have no
    ones in common, the divisor is 0.1, so that they are far apart, but not all equally
    far.

    Parameters
    ----------
    packed_a : array-like of shape (n_a, n_bytes), uint8
        First packed codes of the pairs.
    packed_b : array-like of shape (n_b, n_bytes), uint8
        Second packed codes of the pairs.

    Returns
    -------
    distances : ndarray of shape (n_a, n_b), float64
        Spherical Hamming distances.

    See Also
    --------
    hamming_distances : The number of bits that differ.

    Notes
    -----
    The paper leaves the distance undefined if there are no common ones. The authors'
    code adds 0.1 to every number of common ones, which changes the order of other codes
    too.

    Examples
    --------
    >>> from skhash.codes import pack_bits, spherical_hamming_distances
    >>> query, codes = [[1, 1, 0]], [[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]]
    >>> spherical_hamming_distances(pack_bits(query), pack_bits(codes))
    array([[ 0. ,  1. ,  0.5, 30. ]])
    """
    common = _count_ones(packed_a, packed_b, np.bitwise_and)
    return _count_ones(packed_a, packed_b, np.bitwise_xor) / np.maximum(common, 0.1)


def _count_ones(packed_a, packed_b, combine) -> np.ndarray:
    """Count the ones of all pairs of codes, combined by a function of words."""
    packed_a, packed_b = check_packed(packed_a), check_packed(packed_b)
    if packed_a.shape[1] != packed_b.shape[1]:
        raise ValueError(
            f"Codes of {packed_a.shape[1]} bytes and of {packed_b.shape[1]} bytes "
            "cannot be compared; both must have the same length."
        )
    a, b = packed_to_words(packed_a), packed_to_words(packed_b)
    counts = np.empty((len(a), len(b)), dtype=np.int32)
    for rows in row_chunks(len(a), 8 * b.size):
        ones = np.bitwise_count(combine(a[rows, None, :], b[None, :, :]))
        counts[rows] = ones.sum(axis=2, dtype=np.int32)
    return counts
