"""What the arrays of a saved index must be, as the kernels take it for granted.

Checksums find accidents. A file may hold anything and the checksum that fits, and still
must not make a kernel leave its arrays.
"""

import numpy as np

from skhash.codes import packed_width
from skhash.neighbors.search.asymmetric import METRICS, items_per_code
from skhash.persistence.directory import check_keys

# Arrays with a row a code, and what a decoder takes.
COLUMNS = ("y", "ids", "live", "vectors", "items")
DECODER = ("codebook", "offset", "items")


def check_arrays(arrays, manifest, file) -> None:
    """Raise ``ValueError`` unless types and shapes are those that a save writes.

    arrays : dict of ndarrays, or of memory maps, of which nothing is read
    """
    wrong = [name for name, array in arrays.items() if not _is_of_its_kind(name, array)]
    if wrong or "codes" not in arrays:
        raise ValueError(
            f"{file.parent} is damaged: {(wrong or ['codes'])[0]} is missing, or of a "
            "type or shape that it cannot have."
        )
    codes, n_bytes = arrays["codes"], manifest["n_bytes"]
    if n_bytes < 1 or codes.shape[1] != 8 * -(-n_bytes // 8):
        raise ValueError(
            f"{file} is damaged: codes of n_bytes={n_bytes} are not those in rows of "
            f"{codes.shape[1]} bytes."
        )
    if {len(arrays[name]) for name in arrays.keys() & set(COLUMNS)} - {len(codes)}:
        raise ValueError(f"{file.parent} is damaged: its arrays differ in length.")
    _check_decoder(arrays, manifest, file)


def _is_of_its_kind(name, array):
    dtype, kind, ndim = array.dtype, array.dtype.kind, array.ndim
    return {
        "codes": dtype == np.uint8 and ndim == 2 and array.flags.c_contiguous,
        "y": kind not in "OV" and ndim in (1, 2),
        "ids": (dtype == np.int64 or kind == "U") and ndim == 1,
        "live": kind == "b" and ndim == 1,
        "vectors": kind in "iuf" and ndim == 2,
        "items": dtype == np.float32 and ndim == 2 and array.flags.c_contiguous,
        "codebook": dtype == np.float64 and ndim == 2,
        "offset": dtype == np.float64 and ndim == 1,
    }[name]


def _check_decoder(arrays, manifest, file):
    scoring, there = manifest.get("decoder"), arrays.keys() & set(DECODER)
    if scoring is None and not there:
        return
    check_keys(manifest, {"decoder": dict}, file)
    check_keys(scoring, {"normalized": bool, "metric": str}, file)
    n_bits, n_bytes = count_bits(manifest, file), manifest["n_bytes"]
    if (
        scoring["metric"] not in METRICS
        or there != set(DECODER)
        or arrays["codebook"].shape[1:] != arrays["offset"].shape
        # Of codes that were packed, the decoder alone knows how many bits they have.
        or packed_width(len(arrays["codebook"])) != n_bytes
        or len(arrays["codebook"]) > n_bits
        or arrays["items"].shape[1] != items_per_code(scoring["metric"])
    ):
        raise ValueError(f"{file} is damaged: its decoder does not fit the codes.")


def count_bits(manifest, file) -> int:
    """Return how many bits a code has, by the number of columns that were fitted."""
    n_features, n_bytes = manifest["values"]["n_features_in_"], manifest["n_bytes"]
    if n_features == n_bytes:  # packed
        return 8 * n_bytes
    if packed_width(n_features) != n_bytes:
        raise ValueError(
            f"{file} is damaged: codes of n_bytes={n_bytes} are not those of "
            f"n_features_in_={n_features}."
        )
    return n_features


def check_content(arrays, n_bits, path) -> None:
    """Raise ``ValueError`` unless the arrays hold what they can; this reads them."""
    codes = arrays["codes"]
    if n_bits < 8 * codes.shape[1]:
        last_words = codes[:, -8:].view(np.uint64)
        used = np.bitwise_or.reduce(last_words, axis=0).view(np.uint8)
        if np.unpackbits(used)[n_bits - 8 * codes.shape[1] :].any():
            raise ValueError(f"{path} is damaged: codes have more than {n_bits} bits.")
    # Of booleans that are neither 0 nor 1, counts are wrong.
    if "live" in arrays and arrays["live"].view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"{path} is damaged: live holds others than 0 and 1.")
    for name in arrays.keys() & set(DECODER):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path} is damaged: {name} holds NaN or infinity.")
