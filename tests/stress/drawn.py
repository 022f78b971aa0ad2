"""What attacks draw: sizes, codes, layouts of arrays, and who answers."""

from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from scipy import sparse

from skhash.neighbors import _index, _pairs
from skhash.neighbors.kernels.bitslice import PLAIN, possible_ways
from skhash.neighbors.search import (
    asymmetric,
    blocks,
    brute,
    chunks,
    dispatch,
    equal_codes,
    memory,
    multi_index,
    pruned,
    searcher,
    table_scan,
)
from skhash.neighbors.store import select

rngs = st.integers(0, 2**32 - 1).map(np.random.default_rng)
sizes = st.integers(1, 40) | st.integers(1, 1500)
# Lengths of codes, many around those of bytes, words and vectors.
lengths = st.integers(1, 300) | st.sampled_from(
    (1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 192, 256, 512, 513, 1024)
)


class Codes:
    """Codes in clusters; in some draws many are equal, or nearly constant."""

    def __init__(self, rng, n_bits):
        self.noise, density = rng.choice([0, 0.03, 0.5]), rng.choice([0.5, 0.1, 0.95])
        self.centers = rng.random((rng.integers(1, 50), n_bits)) < density

    def draw(self, rng, n):
        owners = rng.integers(0, len(self.centers), n)
        flips = rng.random((n, self.centers.shape[1])) < self.noise
        return (self.centers[owners] ^ flips).astype(np.uint8)


def _mapped(X):
    """Return a map of a file that has no name any more."""
    with TemporaryFile() as file:
        found = np.memmap(file, X.dtype, "w+", shape=X.shape)
    found[:] = X
    return found


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


SPARSE = {"CSR": sparse.csr_array, "CSC": sparse.csc_array, "COO": sparse.coo_matrix}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": _read_only,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "mapped": _mapped,
    "pandas": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X.astype("f4") if X.dtype == "f2" else X),
    "list": lambda X: X.tolist(),
}
KINDS = ("f8", "f4", "f2", "i8", "u1", "?")


def one_of(rng, *values):
    """Return one of some values, and tell which where a test fails."""
    chosen = values[rng.integers(len(values))]
    if currently_in_test_context():  # a thread is in none
        note(f"chosen: {chosen!r}")
    return chosen


def draw_form(rng):
    """Return a type of numbers and a layout, for `formed`."""
    return one_of(rng, *KINDS), one_of(rng, *LAYOUTS, *SPARSE)


def formed(X, form, *, any_type=True, any_sparse=False):
    """Return numbers as another type, where that holds them, and layout."""
    kind, layout = form
    if any_type and layout not in SPARSE:
        with np.errstate(all="ignore"):
            other = X.astype(kind)
        X = other if np.array_equal(other, X) else X
    if layout in SPARSE:
        return SPARSE[layout](X) if any_sparse else X
    return X if layout == "list" and not any_type else LAYOUTS[layout](X)


@contextmanager
def chance_chooses(rng):
    """Search with costs and sizes that are drawn, so that few codes reach all code.

    On few codes nothing but comparing pays, and larger problems take long.
    """
    kinds = {name: _drawn(kind, rng) for name, kind in dispatch.ALGORITHMS.items()}
    way = int(rng.choice([PLAIN, *possible_ways()]))
    small = [
        (dispatch, {"ALGORITHMS": kinds}),
        (blocks, {"fastest_way": lambda program: way}),
        (searcher, {"MIN_CODES": 1, "WEIGHED_COST": 0.0}),
        (memory, {"ENOUGH": 1}),
        (select, {"SCAN_SHARE": rng.choice([0.0, 0.5, 1.0])}),
        (chunks, {"MIN_THREAD_WORK": 1, "MAX_CHUNK": int(rng.choice([3, 256]))}),
        (brute, {"MIN_FEW_WORK": 1, "MAX_KEPT": int(rng.choice([5, 1024]))}),
        (pruned, {"MIN_CLUSTERED": 1, "JUDGED_COST": 0.0, "FIRST_CODES_EACH": 0}),
        (pruned, {"FIRST_CODES": int(rng.choice([1, 100, 8192])), "ROOM": 1}),
        (pruned, {"CHUNK": int(rng.choice([16, 1024])), "PROBED": 2}),
        (pruned, {"MAX_COMPARED": int(rng.choice([3, 4096]))}),
        (multi_index, {"MIN_THREAD_COST": 1e-9, "CHUNK": int(rng.choice([7, 1024]))}),
        (multi_index, {"ROOM": int(rng.choice([10, 2**16]))}),
        (equal_codes, {"MIN_THREAD_ANSWERS": 1, "COUNT_AFTER": 0.0}),
        (equal_codes, {"QUERY_COST": 0.0, "EXPAND_COST": 0.0}),
        (asymmetric, {"MIN_THREAD_WORK": 1}),
        (table_scan, {"MIN_THREAD_WORK": 1}),
        (_pairs, {"BLOCK_ROWS": int(rng.choice([5, 2**14]))}),
    ]
    with ExitStack() as stack:
        for module, values in small:
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


def _drawn(kind, rng):
    """Return an algorithm of this kind that costs what chance says."""

    class Drawn(kind):
        making = 0.0

        def cost(self, question):
            if kind is brute.Brute:  # nothing is made where there are no codes
                return 10 ** rng.uniform(0, 12) if len(self.words) else 0.0
            return super().cost(question) * 10 ** rng.uniform(-2, 2)

    return Drawn


@contextmanager
def torch_answers(rng):
    """Search with torch, as on another device, where codes stay or are sent anew."""
    import torch

    from skhash.neighbors.search import _torch

    room = rng.choice([0, 2**30])
    with (
        patch.object(_index, "inference_device", lambda _: torch.device("cpu")),
        patch.object(_torch, "_room", lambda _: room),
    ):
        yield
