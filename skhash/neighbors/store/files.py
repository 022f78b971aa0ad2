"""Files of a store: its columns, its decoder and its clusters.

Codes stand in rows of whole words, so that kernels read a map of the file directly, and
opening it reads none of them.

Checksums find accidents. A file may hold anything and the checksum that fits, and still
must not make a kernel leave its arrays: so types, shapes and some content are checked.
"""

import numpy as np

from skhash.codes import packed_width
from skhash.neighbors.store.blocks import Blocks, Order
from skhash.neighbors.store.clusters import BLOCK, ClusterArrays, position_type
from skhash.neighbors.store.decoder import METRICS, Decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.planes import Planes
from skhash.neighbors.store.store import Store
from skhash.numerics._decoder import check_codebook
from skhash.numerics._levels import (
    FRACTION_BITS,
    LARGEST_PATTERN,
    levels_to_keys,
    n_level_bytes,
)
from skhash.persistence.state import check_keys, in_order
from skhash.persistence.tensors import naming_damage
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule

_kernels = LateModule("skhash.neighbors.kernels.blocks")
_planes = LateModule("skhash.neighbors.kernels.planes")

# Columns, arrays of a decoder, of clusters, codes of three layouts, what planes need
# beside them, and all.
COLUMNS = ("y", "ids", "live", "vectors", "places")
# Vectors that are not in the file which has the others.
ADDED = "added"
DECODER = ("codebook", "offset")
CODEBOOKS = ("float64", 2), ("float32", 3), ("int16", 3), ("int8", 3)
CLUSTERS = {f"cluster_{name}": name for name in ClusterArrays._fields}
CODES, BESIDE = ("codes", "blocks", "planes"), ("counts", "order")
VALUES = ("n", "n_bytes", "decoder", "vectors_file")
ARRAYS = (*CODES, *BESIDE, *COLUMNS, ADDED, *DECODER, "scales", *CLUSTERS)


def write_store(store) -> tuple[dict, dict]:
    """Return the arrays of a store by name, and its values for JSON."""
    # The codes come first, as the first array begins with a line of the cache.
    blocks = store["blocks"]
    if blocks is None:
        arrays = {"codes": store["words"].view(np.uint8)}
    elif store.decoder is None:
        arrays = blocks.arrays()
    else:
        arrays = {"blocks": blocks.whole}
        if blocks.order:
            arrays["order"] = blocks.order.positions
    arrays, scoring = arrays | store.columns(), None
    values = {"n": store.n, "n_bytes": store.n_bytes}
    vectors = arrays.get("vectors")
    if isinstance(vectors, KeptFile):
        arrays |= {"vectors": None, "places": vectors.places, ADDED: vectors.added}
        values["vectors_file"] = {"path": vectors.path, "sum": vectors.sum}
    searcher = store.codes_key.get("searcher")
    clusters = (searcher or store.codes_key).clusters
    if clusters is not None:
        arrays |= {name: getattr(clusters, field) for name, field in CLUSTERS.items()}
    if store.decoder is not None:
        decoder = store.decoder
        arrays |= {"codebook": decoder.entries, "scales": decoder.scales}
        arrays["offset"] = decoder.offset
        names = "n_bits", "normalized", "metric", "fraction_bits", "base", "last"
        scoring = {name: getattr(decoder, name) for name in names}
    arrays = {
        name: in_order(name, array)
        for name, array in arrays.items()
        if array is not None
    }
    return arrays, {**values, "decoder": scoring}


def read_store(saved, values, n_features, verify):
    """Return the store from the `Arrays` and values of `write_store`.

    The content of a map is checked before its first use.
    """
    arrays, n, n_bytes = dict(saved.arrays), values["n"], values["n_bytes"]
    file = values.get("vectors_file")
    check_keys(arrays, ARRAYS)
    check_keys(values, VALUES)
    n_bits = _check_arrays(arrays, n, n_bytes, n_features)
    if file is not None:
        rows = (arrays.pop(name, None) for name in ("places", ADDED))
        file = KeptFile(file["path"], file["sum"], *rows)
        arrays["vectors"] = file
    decoder = _read_decoder(arrays, values["decoder"], n_bits)
    clusters = _read_clusters(arrays)
    columns = {name: arrays[name] for name in arrays.keys() & set(COLUMNS)}
    codes = arrays.get("codes")
    if "planes" in arrays:
        parts = (arrays[name] for name in ("planes", *BESIDE))
        codes = Planes(*parts, (n, n_bytes))
    elif decoder is not None:
        order = Order(arrays["order"]) if "order" in arrays else None
        codes = Blocks(arrays["blocks"], n, n_bytes, order=order)
    store = Store(codes, decoder, n_bytes=n_bytes, clusters=clusters, **columns)

    def check():
        with naming_damage(saved.path.parent):
            if verify:
                saved.check()
                if file is not None:
                    file.check()
            _check_content(arrays, n_bits, store)

    store.check_first(check if saved.mapped else None)
    if not saved.mapped:
        check()
    return store


def _check_arrays(arrays, n, n_bytes, n_features):
    """Return the number of bits, or raise unless types and shapes are those of a save.

    arrays : dict of ndarrays, or of memory maps, of which nothing is read
    """
    wrong = [name for name, array in arrays.items() if not _is_of_its_kind(name, array)]
    if "planes" in arrays or "counts" in arrays:
        wrong += sorted({"planes", *BESIDE} - arrays.keys())
    if wrong or len(arrays.keys() & set(CODES)) != 1:
        name = (wrong or ["codes"])[0]
        raise ValueError(
            f"{name} is missing, or of a type or shape that it cannot have."
        )
    n_bits = 8 * n_bytes if n_features == n_bytes else n_features  # packed, or not
    if type(n_bytes) is not int or packed_width(n_bits) != n_bytes:
        raise ValueError(
            f"Codes of n_bytes={n_bytes} are not those of n_features_in_={n_features}."
        )
    if "codes" in arrays:
        expected = [(n, 8 * -(-n_bytes // 8))]
    elif "planes" in arrays:
        expected = [(-(-n // _planes.BLOCK), 8 * n_bytes + 1, _planes.WORDS)]
    else:
        size = _kernels.BLOCK
        expected = [(-(-n // size), n_bytes + width, size) for width in range(5)]
    (codes,) = (arrays[name] for name in arrays.keys() & set(CODES))
    if type(n) is not int or codes.shape not in expected:
        raise ValueError(f"{n} codes of {n_bytes} bytes have not shape {codes.shape}.")
    if {len(arrays[name]) for name in arrays.keys() & {*COLUMNS, *BESIDE}} - {n}:
        raise ValueError("Its arrays differ in length.")
    return n_bits


def _is_of_its_kind(name, array):
    dtype, kind, ndim = array.dtype, array.dtype.kind, array.ndim
    return {
        "codes": dtype == np.uint8 and ndim == 2 and array.flags.c_contiguous,
        "blocks": dtype == np.uint8 and ndim == 3 and array.flags.c_contiguous,
        "planes": dtype == np.uint64 and ndim == 3 and array.flags.c_contiguous,
        "counts": dtype in (np.uint16, np.uint32) and ndim == 1,
        "y": kind not in "OV" and ndim in (1, 2),
        "ids": (dtype == np.int64 or kind == "S") and ndim == 1,
        "live": kind == "b" and ndim == 1,
        "vectors": kind in "iuf" and ndim == 2,
        "places": dtype == np.int64 and ndim == 1,
        ADDED: kind in "iuf" and ndim == 2,
        "order": dtype.kind == "i" and ndim == 1,
        "codebook": (str(dtype), ndim) in CODEBOOKS,
        "scales": dtype == np.float32 and ndim == 1,
        "offset": dtype == np.float64 and ndim == 1,
    }.get(name, name in CLUSTERS)


def _read_decoder(arrays, scoring, n_bits):
    """Return the decoder, or None; raise unless it fits the codes."""
    there = arrays.keys() & {*DECODER, "blocks", "scales"}
    if scoring is None and not there and ("order" in arrays) == ("planes" in arrays):
        return None
    kinds = {"n_bits": int, "normalized": bool, "metric": str}
    kinds |= {"fraction_bits": int, "base": int, "last": int}
    check_keys(scoring if type(scoring) is dict else {}, kinds)
    if (
        type(scoring) is not dict
        or {name: type(value) for name, value in scoring.items()} != kinds
        or scoring["metric"] not in METRICS
        or not 0 <= scoring["fraction_bits"] <= FRACTION_BITS
        or min(scoring["base"], scoring["last"]) < 0
        or _largest_pattern(**scoring) > LARGEST_PATTERN
        # Of codes that were packed, the decoder alone knows how many bits they have.
        or packed_width(scoring["n_bits"]) != packed_width(n_bits)
        or scoring["n_bits"] > n_bits
        or len(there - {"scales"}) != 3
    ):
        raise ValueError("Its decoder does not fit the codes.")
    codebook, offset = arrays["codebook"], arrays["offset"]
    scales = arrays.get("scales")
    check_codebook(codebook, offset, scoring["n_bits"], scales)
    decoder = Decoder(codebook, offset, scales, **scoring)
    width = arrays["blocks"].shape[1] - packed_width(n_bits)
    if width != (n_level_bytes(decoder.last) if decoder.has_numbers else 0):
        raise ValueError("Its levels do not fit the decoder.")
    return decoder


def _largest_pattern(base, last, fraction_bits, **others):
    """Return the bit pattern of the largest number beside a code."""
    return (base + last) << (FRACTION_BITS - fraction_bits)


def _read_clusters(arrays):
    """Return the clusters, or None; raise if kernels would read outside the arrays.

    The content of the large ones is not looked at: see `_check_content`.
    """
    there = {field: arrays[name] for name, field in CLUSTERS.items() if name in arrays}
    if not there:
        return None
    if len(there) < len(CLUSTERS):
        raise ValueError(f"Of its clusters, there are {sorted(there)} alone.")
    if "codes" not in arrays:
        raise ValueError("Codes in blocks have no clusters.")
    n, n_bytes = arrays["codes"].shape
    sizes, kind = there["sizes"], position_type(n)
    is_counted = (
        sizes.dtype == np.int64
        and sizes.ndim == 1
        and sizes.min(initial=0) >= 0
        and sizes.max(initial=0) <= n
        and sizes.sum(dtype=float) == n
    )
    n_blocks = int((-(-sizes // BLOCK)).sum()) if is_counted else 0
    expected = {
        "centers": (np.uint8, (len(sizes), n_bytes)),
        "blocks": (np.uint8, (n_blocks, n_bytes, BLOCK)),
        "positions": (kind, (n,)),
        "lowest": (kind, (n_blocks,)),
        "rings": (np.uint8, (2, n_blocks)),
    }
    for name, (dtype, shape) in expected.items():
        array = there[name]
        is_right = array.dtype == dtype and array.shape == shape
        if not (is_counted and is_right and array.flags.c_contiguous):
            raise ValueError(f"The clusters ({name}) do not fit the {n} codes.")
    return ClusterArrays(**there)


def _largest_level(codes, last):
    """Return the largest level of these codes, of which a chunk is read at a time."""
    blocks, largest, size = codes.whole, 0, _kernels.BLOCK
    for rows in row_chunks(len(blocks), 32 * size):
        n = min(codes.n, rows.stop * size) - rows.start * size
        levels = Blocks(blocks[rows], n, codes.n_bytes).levels
        if levels is not None:
            largest = max(largest, levels_to_keys(levels, 0, last).max(initial=0))
    return largest


def _check_content(arrays, n_bits, store):
    """Raise ``ValueError`` for impossible content of the arrays, which are read."""
    if "codes" in arrays:
        codes = arrays["codes"]
        last_words = codes[:, -8:].view(np.uint64)
        used = np.bitwise_or.reduce(last_words, axis=0).view(np.uint8)
        n_bits -= 8 * (codes.shape[1] - 8)
    elif "planes" in arrays:
        first = 8 * (store.n_bytes - 1)
        used = arrays["planes"][:, first:].any(axis=(0, 2))
        used, n_bits = np.packbits(used, bitorder="little"), n_bits - first
    else:
        used = np.bitwise_or.reduce(arrays["blocks"][:, store.n_bytes - 1], axis=None)
        used = np.atleast_1d(used)
        n_bits = store.decoder.n_bits - 8 * (store.n_bytes - 1)
        codes = Blocks(arrays["blocks"], store.n, store.n_bytes)
        if _largest_level(codes, store.decoder.last) > store.decoder.last:
            raise ValueError("levels are above the largest.")
    if np.unpackbits(used)[n_bits:].any():
        raise ValueError("Its codes have more bits than they may have.")
    # Of booleans that are neither 0 nor 1, counts are wrong.
    if "live" in arrays and arrays["live"].view(np.uint8).max(initial=0) > 1:
        raise ValueError("live holds others than 0 and 1.")
    for name in arrays.keys() & set(DECODER):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds NaN or infinity.")
    if "order" in arrays and store.n:
        order, n = arrays["order"], store.n
        is_there = np.zeros(n, dtype=bool)
        if order.dtype == position_type(n) and 0 <= order.min() <= order.max() < n:
            is_there[order] = True
        if not is_there.all():
            raise ValueError(f"order does not hold every position of {n} codes once.")
    if "cluster_positions" in arrays:
        positions, n = arrays["cluster_positions"], store.n
        if positions.min(initial=0) < 0 or positions.max(initial=0) >= max(1, n):
            raise ValueError(f"Positions of the clusters are not those of {n} codes.")
