"""The fit that quantizer and decoder share: codebook and codes in turns."""

from functools import cache

import numpy as np
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import assert_all_finite

from skhash.numerics._decoder import bits_of_block, check_codebook, count_blocks, scaled
from skhash.numerics._levels import FRACTION_BITS, N_ROWS, choose_fractions
from skhash.persistence.estimators import SaveMixin
from skhash.persistence.schema import Attribute, Plain, optional, reals, wholes
from skhash.quantization._blocks import least_squares
from skhash.quantization._codebook import decode, squared_errors
from skhash.quantization._rounding import round_codebook
from skhash.utils.arrays import (
    check_magnitude,
    contiguous_rows,
    validate_data,
    validate_rows,
)
from skhash.utils.chunks import RowView, dense_chunks, dense_rows

# Entries of a part of a codebook, whose fit needs memory with their square and time
# with the third power (32 bytes in two parts find less than in one); for each row,
# beyond which smaller blocks decode better; the numbers in the codebook.
MAX_ENTRIES, MAX_ENTRIES_PER_ROW, MAX_NUMBERS = 2**13, 2, 2**25
# Ridges to choose from, in rows; by how much the next smaller one may raise the least
# error of held-out rows, as it lowers that of the others; how many rows are held out at
# most.
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SLACK = 1.03
MAX_HELD_OUT = 2000
# By how much the squared length of a row of float16 may differ from 1.
UNIT_TOLERANCE = 0.01


def have_unit_length(X) -> bool:
    """Return whether all rows have unit length, up to rounding, or are zero."""
    squares = row_norms(X, squared=True)
    is_unit = np.abs(squares - 1) < UNIT_TOLERANCE
    return bool(is_unit.any() and (is_unit | (squares == 0)).all())


def count_entries(n_bits: int, block_bits: int) -> int:
    return count_blocks(n_bits, block_bits) * 2**block_bits


def is_affordable(n_entries: int, shape, n_parts=1) -> bool:
    """Return whether rows of this shape, time and memory suffice for a codebook.

    n_parts : of the codebook, each fitted by itself
    """
    n_rows, n_columns = shape
    most = n_parts * min(MAX_ENTRIES, MAX_ENTRIES_PER_ROW * n_rows)
    return n_entries <= min(most, MAX_NUMBERS // n_columns)


def choose_ridge(X, values, block_bits: int, recode=None) -> float:
    """Return the ridge of `RIDGES` that serves held-out rows best, or nearly so.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    values : ndarray of shape (n_samples, n_blocks)
        Their codes.
    block_bits : {4, 8}
    recode : callable, default=None
        Returns the codes that rows held out will have, of these, their codes, codebook
        and offset. None keeps their codes.
    """
    order = np.random.RandomState(0).permutation(len(values))
    held = np.sort(order[: min(len(order) // 5, MAX_HELD_OUT)])
    fitted = np.sort(order[len(held) :])
    if not len(held):
        return RIDGES[-1]
    moments = least_squares(X[fitted], values[fitted], block_bits)
    rows, solve = dense_rows(X[held]), cache(lambda i: moments.solve(RIDGES[i]))

    @cache
    def error(i):
        decoder = solve(i)
        codes = recode(rows, values[held], *decoder) if recode else values[held]
        return squared_errors(rows, codes, *decoder).sum()

    # Each solution takes time: walk from the middle as long as the error falls.
    i = len(RIDGES) // 2
    step = 1 if error(i + 1) < error(i) else -1
    while 0 <= i + step < len(RIDGES) and error(i + step) < error(i):
        i += step
    i -= i > 0 and error(i - 1) < SLACK * error(i)
    return RIDGES[i]


class CodebookMixin(SaveMixin):
    """Estimators with a codebook of blocks, which is fitted in turns with codes.

    Codes are the values of their blocks here, (n_samples, n_blocks), uint8.
    """

    _saved = {
        "entries_": Attribute(("int8", "int16", "float32"), (...,)),
        "scales_": optional(Attribute(("float32",), ("n_blocks",))),
        "offset_": reals("n_features"),
        "block_bits_": wholes(),
        "error_": reals(low=0),
        "normalized_": Plain(bool),
        "n_bits_": wholes(low=1),
        "length_bits_": wholes(high=FRACTION_BITS),
        "distance_bits_": wholes(high=FRACTION_BITS),
    }

    @property
    def codebook_(self) -> np.ndarray:
        """The vectors that values of blocks add: ``entries_`` times ``scales_``."""
        return scaled(self.entries_, self.scales_)

    def _check_saved(self):
        check_codebook(self.entries_, self.offset_, self.n_bits_, self.scales_)
        if bits_of_block(self.entries_) != self.block_bits_:
            raise ValueError(
                f"entries_ has shape {self.entries_.shape}, and block_bits_ is "
                f"{self.block_bits_}."
            )

    def _validate(self, X, *, reset):
        if isinstance(X, RowView):
            validate_data(self, X, reset=reset, skip_check_array=True)
            for _, rows in dense_chunks(X.X) if reset else ():  # before minutes pass
                name = type(self).__name__
                assert_all_finite(rows, estimator_name=name, input_name="X")
            return X
        X = validate_rows(self, X, reset=reset, accept_sparse="csr")
        return RowView(X, prepare=contiguous_rows) if isinstance(X, np.ndarray) else X

    def _sample(self, X, seed=0):
        """Return the rows that `fit` uses, in their order, and which they are."""
        rows, n_rows = slice(None), X.shape[0]
        if self.max_train_samples is not None and n_rows > self.max_train_samples:
            order = np.random.RandomState(seed).permutation(n_rows)
            rows = np.sort(order[: self.max_train_samples])
        X = X[rows]
        check_magnitude(X)
        return X, rows

    def _report(self, turn, n_turns, X, values, decoder):
        """Print the error after an alternation, if `verbose`."""
        if self.verbose:
            error = squared_errors(X, values, *decoder).mean()
            step = f"alternation {turn + 1} of {n_turns}"
            print(f"[{type(self).__name__}] {step}, error {error:.4g}", flush=True)

    def _codes_of_fit(self, rows, values):
        """Return the codes by which rows of the fit are judged, given the last."""
        return values

    def _keep(self, X, values, codebook, offset):
        """Keep a codebook, and what the rows and codes of its fit say of it."""
        self.entries_, self.scales_, self.offset_ = codebook, None, offset
        if self.block_bits_ > 1:
            self.entries_, self.scales_ = round_codebook(X, values, codebook, offset)
            codebook = self.codebook_
        self.normalized_ = have_unit_length(X)
        drawn = np.random.RandomState(0).permutation(X.shape[0])[:N_ROWS]
        rows = dense_rows(X[drawn])
        codes = self._codes_of_fit(rows, values[drawn])
        self.error_ = float(squared_errors(rows, codes, codebook, offset).mean())
        decoded = decode(codes, codebook, offset)
        self.length_bits_, self.distance_bits_ = choose_fractions(rows, decoded, offset)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
