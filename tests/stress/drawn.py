"""Draws of attacks: sizes, codes and layouts of arrays."""

import numpy as np
from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from layouts import LAYOUTS, SPARSE

rngs = st.integers(0, 2**32 - 1).map(np.random.default_rng)
sizes = st.integers(1, 40) | st.integers(1, 1500) | st.sampled_from((3000, 9000))
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


FORMS = {**LAYOUTS, "C": np.ascontiguousarray, "list": lambda X: X.tolist()}
KINDS = ("f8", "f4", "f2", "i8", "u1", "?")


def one_of(rng, *values):
    """Return one of some values, and tell which where a test fails."""
    chosen = values[rng.integers(len(values))]
    if currently_in_test_context():  # a thread is in none
        note(f"chosen: {chosen!r}")
    return chosen


def draw_form(rng):
    """Return a type of numbers and a layout, for `formed`."""
    return one_of(rng, *KINDS), one_of(rng, *FORMS, *SPARSE)


def formed(X, form, *, any_type=True, any_sparse=False):
    """Return numbers as another type, where that holds them, and layout."""
    kind, layout = form
    if any_type and layout not in SPARSE:
        with np.errstate(all="ignore"):
            other = X.astype(kind)
        X = other if np.array_equal(other, X) else X
    if layout in SPARSE:
        return SPARSE[layout](X) if any_sparse else X
    if layout == "list" and not any_type:
        return X
    has_no_type = layout == "polars" and X.dtype == "f2"
    return FORMS[layout](X.astype("f4") if has_no_type else X)
