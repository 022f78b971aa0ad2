"""`AdditiveQuantizer`: vectors in few bytes, as sums of entries of a codebook."""

from dataclasses import field
from numbers import Integral
from typing import Annotated, Self
from warnings import warn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_packed
from skhash.numerics._decoder import block_values, values_to_bytes
from skhash.numerics._projection import column_means
from skhash.persistence.schema import wholes
from skhash.quantization._base import (
    MAX_ENTRIES,
    MAX_NUMBERS,
    CodebookMixin,
    count_entries,
    is_affordable,
)
from skhash.quantization._beam import MAX_WIDTH
from skhash.quantization._codebook import decode, find_codes, fit_blocks, squared_errors
from skhash.quantization._decoder import RELAXATION, with_noise
from skhash.quantization._residual import residual_codebook
from skhash.utils._sklearn import CodesOutMixin, Interval, fit_context
from skhash.utils.chunks import dense_chunks, dense_rows, even_chunks
from skhash.utils.parameters import (
    AnyInt,
    Count,
    CountFrom0,
    RandomState,
    with_parameters,
)
from skhash.utils.torch import check_device

# Rows with which an entry goes half of the way from where it was to least squares.
RIDGE = 3.0
# Of how many rows at most `fit` sees that they are far away, and from which distance of
# the mean from all others on, in standard deviations of these.
MOST_FAR_ROWS, FAR = 10, 30
# Of up to 10,000 rows, more alternations than 4 lower the error of these rows alone.
# With 100,000 embeddings and 8 bytes, 4, 10, 20 find .42, .45, .46 of the neighbours
# among other rows, in times as 1, 2, 4.
MANY_ROWS, FEW_ALTERNATIONS, MANY_ALTERNATIONS = 10_000, 4, 10


@with_parameters(kw_only=True)
class AdditiveQuantizer(CodebookMixin, CodesOutMixin, BaseEstimator):
    """Quantizer that compresses vectors to a few bytes each, for asymmetric search.

    A code v decodes to ``offset + sum_m codebook[m, v_m]``: each of its blocks, usually
    a byte, selects one entry of the codebook, and the entries are summed. `fit`
    minimizes the squared error of the decoded vectors,

        ``sum_i |x_i - offset - sum_m codebook[m, v_im]|^2``,

    alternating between codebook and codes. See the notes for the algorithm.

    Use the codes with uncompressed queries, as `AsymmetricNeighbors` does, or to
    reconstruct vectors. Hamming distances between them mean nothing.

    Parameters
    ----------
    n_bytes : int, default=8
        Number of bytes per code.
    n_alternations : int, default=None
        Number of times that `fit` encodes the vectors and refits the codebook to the
        codes. None means 4, or 10 for more than 10,000 vectors, where more alternations
        lower the error of other vectors too.
    beam_width : int, default=16
        Number of partial codes that the search for a vector's code keeps at each byte,
        at most 64. A wider beam lowers the error, and takes proportionally longer. You
        can change it after `fit`.
    max_train_samples : int or None, default=100_000
        Maximum number of vectors, drawn at random, that `fit` uses. None uses all.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.
    device : str, default="cpu"
        Where `fit` and `transform` search for codes, as in `HammingNeighbors`. Devices
        may choose different codes if their errors differ only by rounding.
    random_state : int, RandomState instance or None, default=0
        Seed for drawing training vectors, first centres and noise. None is another seed
        for each fit.
    verbose : bool, default=False
        Whether to print the mean squared error after each alternation.

    Attributes
    ----------
    codebook_ : ndarray of shape (n_blocks, 256 or 16, n_features), float32
        Vector that each value of each block adds; for blocks see the notes. It is the
        product of `entries_` and `scales_`, computed on each access.
    entries_ : ndarray of shape (n_blocks, 256 or 16, n_features), int8
        The codebook as integers, which is what files and indexes store. The dtype is
        int16 or float32 if 8 bits would raise the mean or the median squared error of
        the training vectors by more than 0.5 %.
    scales_ : ndarray of shape (n_blocks,), float32, or None
        Power of two by which the integers of each block are multiplied. None if the
        entries are floats.
    offset_ : ndarray of shape (n_features,), float64
        Mean of the training vectors, added to every decoded vector.
    block_bits_ : {8, 4}
        Number of bits per block.
    n_parts_ : int
        Number of parts of the code that are fitted independently; see the notes.
    error_ : float
        Mean squared error of the training vectors when encoded by `transform`, measured
        on 2000 random ones if there are more.
    length_bits_, distance_bits_ : int
        Bits of float mantissa that searches keep for the length of a decoded vector and
        for its squared distance from the offset. `fit` chooses the fewest that lose no
        neighbours.
    normalized_ : bool
        Whether all vectors had unit length, apart from zero vectors. Searches then
        scale decoded vectors to unit length; see `skhash.neighbors.asymmetric_scores`.
    n_bits_ : int
        Length of the codes, ``8 * n_bytes``.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    skhash.HashedNeighbors : Encodes vectors and searches the codes in one estimator.
    skhash.AsymmetricNeighbors : Searches the codes with uncompressed queries.
    skhash.quantization.LinearDecoder : A codebook for existing binary codes.

    Notes
    -----
    The fit starts from residual quantization: the entries of each byte are the centres
    of progressive k-means on the residuals of the bytes before it [2]_. Codes are found
    by a beam search, byte by byte [1]_ [2]_. Least squares then moves the entries; a
    ridge holds back entries that few vectors use. Meanwhile the codebook has noise that
    decreases to 0, a stochastic relaxation [3]_.

    A block is a whole byte (``block_bits_`` is 8) if each part of the codebook then has
    at most two entries per training vector, and the codebook takes at most 134 MB as
    floats (a quarter of that in the index).
    Otherwise a block is half a byte with 16 entries, and the high half comes first.

    The memory of `fit` grows with the square of the number of entries, and its time
    with the cube. Codes of more than 32 bytes (256 with half-byte blocks) are therefore
    divided into parts. Each of P parts is an additive code of the data's coordinates on
    every P-th principal axis; this is additive product quantization [1]_ with other
    axes. There are at most as many parts as columns.

    References
    ----------
    .. [1] A. Babenko, V. Lempitsky, "Additive quantization for extreme vector
       compression", CVPR 2014.
    .. [2] S. Liu, H. Lu, J. Shao, "Improved residual vector quantization for
       high-dimensional approximate nearest neighbor search", arXiv 1509.05195, 2015.
    .. [3] J. Martinez, S. Zakhmi, H. H. Hoos, J. J. Little, "LSQ++: Lower running time
       and higher recall in multi-codebook quantization", ECCV 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import AdditiveQuantizer
    >>> X, _ = load_digits(return_X_y=True)
    >>> quantizer = AdditiveQuantizer(4).fit(X)
    >>> codes = quantizer.transform(X)
    >>> codes.shape, codes.dtype
    ((1797, 4), dtype('uint8'))
    >>> decoded = quantizer.inverse_transform(codes)
    >>> bool(((X - decoded) ** 2).sum() < 0.04 * ((X - X.mean(axis=0)) ** 2).sum())
    True
    """

    n_bytes: Count = field(default=8, kw_only=False)
    n_alternations: CountFrom0 | None = None
    beam_width: Annotated[int, Interval(Integral, 1, MAX_WIDTH, closed="both")] = 16
    max_train_samples: Count | None = 100_000
    n_jobs: AnyInt | None = None
    device: str = "cpu"
    random_state: RandomState = 0
    verbose: bool = False

    _has_hamming_distances = False
    _saved = {"n_parts_": wholes(low=1)}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Learn the codebook from vectors.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors to learn from.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            The fitted quantizer.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, if `n_bytes` is too large for the number of
            columns, or if the device does not exist.

        Warns
        -----
        UserWarning
            If a few rows are so far away that the codes of all others are of no use.
        """
        check_device(self.device)
        seed = seed_of(self.random_state)
        X, rows = self._sample(self._validate(X, reset=True), seed)
        warn_of_a_far_row(X, rows)
        n_bytes = int(self.n_bytes)  # which may be a NumPy integer of few bits
        self.block_bits_, self.n_parts_ = choose_blocks(n_bytes, X.shape)
        self.n_bits_ = 8 * n_bytes
        if self.n_parts_ > 1:
            return self._keep(X, *self._fit_parts(X, seed))
        n_blocks = self.n_bits_ // self.block_bits_
        return self._keep(X, *self._fit_codes(X, n_blocks, seed))

    def transform(self, X) -> np.ndarray:
        """Encode vectors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors to encode.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_bytes), uint8
            One code per row. It does not depend on the other rows or on the number of
            threads. Rows are read in chunks.
        """
        check_is_fitted(self)
        values = self._values(self._validate(X, reset=False))
        return values_to_bytes(values, self.block_bits_)

    def inverse_transform(self, X) -> np.ndarray:
        """Decode codes into vectors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bytes), uint8
            Codes.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
            The vectors that the codes stand for.
        """
        check_is_fitted(self)
        return decode(self._values_of(X), self.codebook_, self.offset_)

    def reconstruction_error(self, X, codes=None) -> np.ndarray:
        """Return the squared distance of each vector from its decoded code.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors.
        codes : array-like of shape (n_samples, n_bytes), uint8, default=None
            Codes of the vectors, if you have them; otherwise `X` is encoded.

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distances.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        values = self._values(X) if codes is None else self._values_of(codes)
        check_consistent_length(X, values)
        return squared_errors(X, values, self.codebook_, self.offset_)

    def score(self, X, y=None) -> float:
        """Return the negated mean squared error of the decoded codes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        score : float
            At most 0; greater is better.
        """
        return -float(self.reconstruction_error(X).mean())

    def _fit_codes(self, X, n_blocks, seed):
        """Return codes, codebook and offset."""
        shape = n_blocks, self.block_bits_
        decoder = noisy = residual_codebook(X, *shape, seed, self.n_jobs)
        random_state = np.random.RandomState(seed)
        n_turns = self.n_alternations
        if n_turns is None:
            n_turns = MANY_ALTERNATIONS if X.shape[0] > MANY_ROWS else FEW_ALTERNATIONS
        for turn in range(n_turns):
            values = self._find_codes(X, *noisy)
            decoder = fit_blocks(X, values, self.block_bits_, RIDGE, decoder[0])
            scale = RELAXATION * max(0, 1 - (turn + 2) / n_turns) ** 0.5
            noisy = with_noise(decoder, scale, X, values, random_state)
            self._report(turn, n_turns, X, values, decoder)
        return self._find_codes(X, *decoder), *decoder

    def _codes_of_fit(self, rows, values):
        return self._values(rows)

    def _fit_parts(self, X, seed):
        """Return codes, codebook and offset, of parts with some principal axes each."""
        codebook, values = [], []
        parts = zip(alternate_axes(X, self.n_parts_), self._parts(), strict=True)
        for (basis, rows), blocks in parts:
            n_blocks = blocks.stop - blocks.start
            codes, entries, _ = self._fit_codes(rows, n_blocks, seed)
            codebook.append(entries @ basis.T.astype(np.float32))
            values.append(codes)
        return np.hstack(values), np.concatenate(codebook), column_means(X)

    def _parts(self):
        """Return the blocks of each part, slices."""
        return even_chunks(self.n_bits_ // self.block_bits_, self.n_parts_)

    def _values(self, X):
        """Return the codes of validated rows, as values of blocks."""
        self._validate_params()  # kernels rely on `beam_width`, which may have changed
        codebook = self.codebook_
        parts = (codebook[blocks] for blocks in self._parts())
        return np.hstack([self._find_codes(X, part, self.offset_) for part in parts])

    def _find_codes(self, X, codebook, offset):
        width = int(self.beam_width)
        return find_codes(X, codebook, offset, width, self.n_jobs, self.device)

    def _values_of(self, codes):
        codes = check_packed(codes, self.n_bits_)
        return block_values(codes, self.block_bits_, len(self.entries_))

    def _check_saved(self):
        super()._check_saved()
        of_bytes = self.block_bits_ > 1 and self.n_bits_ % 8 == 0
        if not of_bytes or self.n_parts_ > len(self.entries_):
            about = f"{self.n_bits_} bits in {self.n_parts_} parts"
            raise ValueError(f"Codes of {about} are not those of a quantizer.")

    @property
    def _n_features_out(self):
        return self.n_bits_ // 8


def warn_of_a_far_row(X, rows):
    """Warn if a few rows have moved the mean away from all others.

    The others are then alike, as seen from there, and rounding errs by more than what
    tells them apart.

    rows : where the rows of X were, as returned by `_sample`
    """
    n, mean = X.shape[0], column_means(X)
    n_far = min(MOST_FAR_ROWS, n // 20)
    chunks = (chunk - mean for _, chunk in dense_chunks(X))
    squares = np.concatenate([np.square(chunk).sum(axis=1) for chunk in chunks])
    far = np.argsort(squares)[n - n_far :]
    # The others are where these, which the mean balances, have moved it away from.
    moved = (dense_rows(X[np.sort(far)]) - mean).sum(axis=0) / (n - n_far)
    others, nearest = np.delete(squares, far), (1 + 1 / FAR**2) * (moved @ moved)
    if others.mean() < nearest and np.ptp(others):  # equal rows lose nothing
        row = far[-1] if isinstance(rows, slice) else rows[far[-1]]
        warn(
            f"Row {row} of X, and perhaps others, is so far away from most rows that "
            "their codes differ by little more than rounding. Check that row, and "
            "remove or clip such rows.",
            stacklevel=5,
        )


def seed_of(random_state) -> int:
    """Return a seed: a number as it is, else one that is drawn."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return check_random_state(random_state).randint(np.iinfo(np.int32).max)


def choose_blocks(n_bytes, shape) -> tuple[int, int]:
    """Return the bits of a block and the number of parts, for rows of this shape."""
    n_columns = shape[1]
    # Half bytes are for few rows, which need not suffice then.
    for block_bits, n_rows in ((8, shape[0]), (4, MAX_ENTRIES)):
        n_entries = count_entries(8 * n_bytes, block_bits)
        n_parts = min(-(-n_entries // MAX_ENTRIES), n_columns)
        if is_affordable(n_entries, (n_rows, n_columns), n_parts):
            return block_bits, n_parts
    most = min(n_columns * MAX_ENTRIES, MAX_NUMBERS // n_columns) // count_entries(8, 4)
    raise ValueError(
        f"n_bytes={n_bytes} is too much for n_features={n_columns}, for which codes "
        f"can have at most {most} bytes. Lower n_bytes, or reduce the columns of wide "
        "rows first, with PCA or TruncatedSVD."
    )


def alternate_axes(X, n_parts: int):
    """Yield bases of every `n_parts`-th principal axis, and the centred rows in these.

    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    basis : ndarray of shape (n_features, n_axes), float64
    rows : ndarray of shape (n_samples, n_axes), float32
    """
    mean = column_means(X)

    def centered():
        return (chunk - mean for _, chunk in dense_chunks(X))

    axes = np.linalg.eigh(sum(rows.T @ rows for rows in centered()))[1][:, ::-1]
    for part in range(n_parts):
        basis = axes[:, part::n_parts]
        rows = [(chunk @ basis).astype(np.float32) for chunk in centered()]
        yield basis, np.concatenate(rows)
