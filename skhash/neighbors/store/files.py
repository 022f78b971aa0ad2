"""Files of a store: its columns, its decoder and its clusters.

Codes stand in rows of whole words, so that kernels read a map of the file directly, and
opening it reads none of them.

Checksums find accidents. A file may hold anything and the checksum that fits, and still
must not make a kernel leave its arrays: so types, shapes and some content are checked.
"""

import numpy as np

from skhash.codes import packed_width
from skhash.neighbors.store.clusters import BLOCK, ClusterArrays, position_type
from skhash.neighbors.store.decoder import METRICS, Decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.store import Store
from skhash.numerics._decoder import check_codebook
from skhash.numerics._levels import FRACTION_BITS, LARGEST_PATTERN
from skhash.persistence.state import in_order
from skhash.persistence.tensors import naming_damage

# Arrays with a row a code, those of a decoder, of clusters, and all.
COLUMNS = ("y", "ids", "live", "vectors", "places", "levels")
DECODER = ("codebook", "offset")
CLUSTERS = {f"cluster_{name}": name for name in ClusterArrays._fields}
ARRAYS = ("codes", *COLUMNS, "codebook", "offset", *CLUSTERS)


def write_store(store) -> tuple[dict, dict]:
    """Return the arrays of a store by name, and its values for JSON."""
    arrays, scoring = {"codes": store["words"].view(np.uint8), **store.columns()}, None
    values, vectors = {"n_bytes": store.n_bytes}, arrays.get("vectors")
    if isinstance(vectors, KeptFile):
        arrays |= {"vectors": None, "places": vectors.places}
        values["vectors_file"] = {"path": vectors.path, "sum": vectors.sum}
    searcher = store.codes_key.get("searcher")
    clusters = (searcher or store.codes_key).clusters
    if clusters is not None:
        arrays |= {name: getattr(clusters, own) for name, own in CLUSTERS.items()}
    if store.decoder is not None:
        decoder = store.decoder
        arrays |= {"codebook": decoder.codebook, "offset": decoder.offset}
        names = "n_bits", "normalized", "metric", "fraction_bits", "base"
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
    arrays, n_bytes = dict(saved.arrays), values["n_bytes"]
    file = values.get("vectors_file")
    unknown = sorted(arrays.keys() - set(ARRAYS))
    if unknown:
        raise ValueError(f"This skhash does not know: {unknown}; update it.")
    n_bits = _check_arrays(arrays, n_bytes, n_features)
    if file is not None:
        file = KeptFile(file["path"], file["sum"], arrays.pop("places", None))
        arrays["vectors"] = file
    decoder = _read_decoder(arrays, values["decoder"], n_bits)
    clusters = _read_clusters(arrays)
    columns = {name: arrays[name] for name in arrays.keys() & set(COLUMNS)}
    whole = {"n_bytes": n_bytes, "clusters": clusters}
    store = Store(arrays["codes"], decoder, **whole, **columns)

    def check():
        with naming_damage(saved.path.parent):
            if verify:
                saved.check()
                if file is not None:
                    file.check()
            _check_content(arrays, n_bits, decoder)

    store.check_first(check if saved.mapped else None)
    if not saved.mapped:
        check()
    return store


def _check_arrays(arrays, n_bytes, n_features):
    """Return the number of bits, or raise unless types and shapes are those of a save.

    arrays : dict of ndarrays, or of memory maps, of which nothing is read
    """
    wrong = [name for name, array in arrays.items() if not _is_of_its_kind(name, array)]
    if wrong or "codes" not in arrays:
        name = (wrong or ["codes"])[0]
        raise ValueError(
            f"{name} is missing, or of a type or shape that it cannot have."
        )
    codes = arrays["codes"]
    n_bits = 8 * n_bytes if n_features == n_bytes else n_features  # packed, or not
    if (
        type(n_bytes) is not int
        or codes.shape[1] != 8 * -(-n_bytes // 8)
        or packed_width(n_bits) != n_bytes
    ):
        raise ValueError(
            f"Codes of n_bytes={n_bytes} are not those of n_features_in_={n_features}."
        )
    return n_bits


def _is_of_its_kind(name, array):
    dtype, kind, ndim = array.dtype, array.dtype.kind, array.ndim
    return {
        "codes": dtype == np.uint8 and ndim == 2 and array.flags.c_contiguous,
        "y": kind not in "OV" and ndim in (1, 2),
        "ids": (dtype == np.int64 or kind == "U") and ndim == 1,
        "live": kind == "b" and ndim == 1,
        "vectors": kind in "iuf" and ndim == 2,
        "places": dtype == np.int64 and ndim == 1,
        "levels": dtype == np.uint8 and ndim == 2 and 1 <= array.shape[1] <= 4,
        "codebook": (dtype, ndim) in ((np.float64, 2), (np.float32, 3)),
        "offset": dtype == np.float64 and ndim == 1,
    }.get(name, name in CLUSTERS)


def _read_decoder(arrays, scoring, n_bits):
    """Return the decoder, or None; raise unless it fits the codes."""
    there = arrays.keys() & {*DECODER, "levels"}
    if scoring is None and not there:
        return None
    kinds = {"n_bits": int, "normalized": bool, "metric": str}
    kinds |= {"fraction_bits": int, "base": int}
    if (
        type(scoring) is not dict
        or {name: type(value) for name, value in scoring.items()} != kinds
        or scoring["metric"] not in METRICS
        or not 0 <= scoring["fraction_bits"] <= FRACTION_BITS
        or not 0 <= scoring["base"] <= LARGEST_PATTERN
        # Of codes that were packed, the decoder alone knows how many bits they have.
        or packed_width(scoring["n_bits"]) != packed_width(n_bits)
        or scoring["n_bits"] > n_bits
        or not there >= set(DECODER)
    ):
        raise ValueError("Its decoder does not fit the codes.")
    codebook, offset = arrays["codebook"], arrays["offset"]
    check_codebook(codebook, offset, scoring["n_bits"])
    decoder = Decoder(codebook, offset, **scoring)
    if decoder.has_numbers != ("levels" in there):
        raise ValueError("Its levels do not fit the decoder.")
    return decoder


def _read_clusters(arrays):
    """Return the clusters, or None; raise if kernels would read outside the arrays.

    The content of the large ones is not looked at: see `_check_content`.
    """
    there = {own: arrays[name] for name, own in CLUSTERS.items() if name in arrays}
    if not there:
        return None
    if len(there) < len(CLUSTERS):
        raise ValueError(f"Of its clusters, there are {sorted(there)} alone.")
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


def _check_content(arrays, n_bits, decoder):
    """Raise ``ValueError`` for impossible content of the arrays, which are read."""
    codes = arrays["codes"]
    if n_bits < 8 * codes.shape[1]:
        last_words = codes[:, -8:].view(np.uint64)
        used = np.bitwise_or.reduce(last_words, axis=0).view(np.uint8)
        if np.unpackbits(used)[n_bits - 8 * codes.shape[1] :].any():
            raise ValueError(f"Its codes have more than {n_bits} bits.")
    # Of booleans that are neither 0 nor 1, counts are wrong.
    if "live" in arrays and arrays["live"].view(np.uint8).max(initial=0) > 1:
        raise ValueError("live holds others than 0 and 1.")
    for name in arrays.keys() & set(DECODER):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds NaN or infinity.")
    if "levels" in arrays:
        keys = decoder.keys_of_levels(arrays["levels"])
        shift = FRACTION_BITS - decoder.fraction_bits
        if keys.max(initial=0) << shift > LARGEST_PATTERN:
            raise ValueError("levels stand for numbers beyond float32.")
    if "cluster_positions" in arrays:
        positions, n = arrays["cluster_positions"], len(codes)
        if positions.min(initial=0) < 0 or positions.max(initial=0) >= max(1, n):
            raise ValueError(f"Positions of the clusters are not those of {n} codes.")
