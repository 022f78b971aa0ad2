"""Vectors from codes: a linear decoder, its least-squares fit, and better codes."""

from functools import cache, partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_bits
from skhash.linear._blocks import BlockMoments
from skhash.linear._descent import BlockDescent
from skhash.linear._residual import residual_codebook
from skhash.numerics._decoder import (
    bits_of_block,
    bits_to_values,
    check_codebook,
    count_blocks,
    sum_of_entries,
    values_to_bits,
)
from skhash.numerics._levels import FRACTION_BITS, N_ROWS, choose_fractions
from skhash.numerics._projection import column_means
from skhash.persistence.estimators import save_estimator
from skhash.persistence.schema import Plain, optional, reals, wholes
from skhash.utils._sklearn import Interval, Options, StrOptions, fit_context
from skhash.utils.arrays import validate_data
from skhash.utils.chunks import dense_chunks, dense_rows, row_chunks

# Share of ridge in the least squares, on bits of variance at most a quarter. It only
# matters where bits are constant or copies of each other.
RIDGE = 1e-6
# Entries of a part of a decoder, whose fit needs memory with their square and time with
# the third power (32 bytes in two parts find less than in one); for each row, beyond
# which smaller blocks decode better; the numbers in the codebook.
MAX_ENTRIES, MAX_ENTRIES_PER_ROW, MAX_NUMBERS = 2**13, 2, 2**25
# For blocks: ridges to choose from, in rows; by how much the next smaller one may raise
# the least error of held-out rows, as it lowers that of the others; how many rows are
# held out at most.
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SLACK = 1.03
MAX_HELD_OUT = 2000
# Share of the squared error of a code that is added to its distances.
ERROR_WEIGHT = 0.25
# By how much the squared length of a row of float16 may differ from 1.
UNIT_TOLERANCE = 0.01


def fit_codebook(X, bits) -> tuple[np.ndarray, np.ndarray]:
    """Minimize ``|X - offset - bits codebook|_F^2`` by the normal equations.

    Moments are summed in float64 about the means, one chunk of rows at a time.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
        0 and 1.

    Returns
    -------
    codebook : ndarray of shape (n_bits, n_features), float32
        The vector that each bit adds; zeros for a constant bit.
    offset : ndarray of shape (n_features,), float64
        The decoded code of zeros.
    """
    n_bits = bits.shape[1]
    mean, mean_bits = column_means(X), bits.mean(axis=0, dtype=np.float64)
    moments = RIDGE * X.shape[0] * np.eye(n_bits)
    cross = np.zeros((n_bits, X.shape[1]))
    for rows, chunk in dense_chunks(X):
        centered_bits = bits[rows] - mean_bits
        moments += centered_bits.T @ centered_bits
        cross += centered_bits.T @ (chunk - mean)
    codebook = np.linalg.solve(moments, cross)
    offset = mean - mean_bits @ codebook
    return codebook.astype(np.float32), offset


def decode(bits, codebook, offset) -> np.ndarray:
    """Return the vectors of bits, (n_samples, n_features), of the offset's dtype.

    Where a block is one bit, real numbers may stand for bits.
    """
    block_bits = bits_of_block(codebook)
    decoded = np.empty((len(bits), len(offset)), dtype=offset.dtype)
    for rows in row_chunks(len(bits), 8 * (bits.shape[1] + len(offset))):
        own = bits[rows]
        values = own if block_bits == 1 else bits_to_values(own, block_bits)
        decoded[rows] = sum_of_entries(values, codebook, offset)
    return decoded


def squared_errors(X, bits, codebook, offset) -> np.ndarray:
    """Return the squared distance of each row from its decoded bits, float64."""
    errors = np.empty(X.shape[0])
    for rows, residual in residuals(X, bits, codebook, offset):
        errors[rows] = np.einsum("ij,ij->i", residual, residual, dtype=np.float64)
    return errors


def residuals(X, bits, codebook, offset):
    """Yield rows and what their decoded bits leave of them, chunk by chunk."""
    for rows, chunk in dense_chunks(X):
        yield rows, chunk - decode(bits[rows], codebook, offset)


def refine(X, bits, codebook, offset, *, n_bits, **options) -> np.ndarray:
    """Lower the squared distance of each row from its decoded bits.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits) or None
        Where to start, 0 and 1. None starts from codes that are made one block after
        the other, each of the best value for what those before it leave.
    codebook : ndarray of shape (n_bits, n_features) or (n_blocks, n_values, n_features)
    offset : ndarray of shape (n_features,)
    n_bits : int
    **options
        Of `BlockDescent`.

    Returns
    -------
    refined : ndarray of shape (n_samples, n_bits), uint8
    """
    block_bits = bits_of_block(codebook)
    descent = BlockDescent(codebook, n_bits, **options)
    refined = np.empty((X.shape[0], n_bits), dtype=np.uint8)
    for rows, chunk in dense_chunks(X):
        centered = chunk - offset.astype(np.float64)
        if bits is None:
            values = np.empty((len(centered), descent.n_blocks), dtype=np.uint8)
        else:
            values = bits_to_values(bits[rows], block_bits)
        descent.improve(centered, values, begin=bits is None)
        refined[rows] = values_to_bits(values, block_bits, n_bits)
    return refined


def have_unit_length(X) -> bool:
    """Return whether all rows have unit length, up to rounding, or are zero."""
    squares = row_norms(X, squared=True)
    is_unit = np.abs(squares - 1) < UNIT_TOLERANCE
    return bool(is_unit.any() and (is_unit | (squares == 0)).all())


def count_parts(n_bits: int, block_bits: int, n_columns: int) -> int:
    """Return how many parts the principal axes are dealt to."""
    n_entries = count_blocks(n_bits, block_bits) * 2**block_bits
    return min(-(-n_entries // MAX_ENTRIES), n_columns)


def choose_block_bits(n_bits: int, shape, *, in_parts: bool) -> int:
    """Return how large blocks are: bytes, where rows and time suffice.

    shape : of the rows that a decoder is fitted to
    in_parts : whether it may be one of several parts
    """
    n_rows, n_columns = shape
    most = min(MAX_ENTRIES, MAX_ENTRIES_PER_ROW * n_rows)
    for block_bits in (8, 4):
        n_entries = count_blocks(n_bits, block_bits) * 2**block_bits
        n_parts = count_parts(n_bits, block_bits, n_columns) if in_parts else 1
        if n_entries <= min(n_parts * most, MAX_NUMBERS // n_columns):
            return block_bits
    return 1


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


def choose_ridge(X, bits, block_bits: int, recode=None) -> float:
    """Return the ridge of `RIDGES` that serves held-out rows best, or nearly so.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
    block_bits : {4, 8}
    recode : callable, default=None
        Returns the bits that rows held out will have, of these, their bits, codebook
        and offset. None keeps their bits.
    """
    order = np.random.RandomState(0).permutation(len(bits))
    held = np.sort(order[: min(len(order) // 5, MAX_HELD_OUT)])
    fitted = np.sort(order[len(held) :])
    if not len(held):
        return RIDGES[-1]
    values = bits_to_values(bits[fitted], block_bits)
    moments = BlockMoments(X[fitted], values, block_bits)
    rows = dense_rows(X[held])

    @cache
    def error(i):
        decoder = moments.solve(RIDGES[i])
        codes = recode(rows, bits[held], *decoder) if recode else bits[held]
        return squared_errors(rows, codes, *decoder).sum()

    # Each solution takes time: walk from the middle as long as the error falls.
    i = len(RIDGES) // 2
    step = 1 if error(i + 1) < error(i) else -1
    while 0 <= i + step < len(RIDGES) and error(i + step) < error(i):
        i += step
    return RIDGES[i - (i > 0 and error(i - 1) < SLACK * error(i))]


class LinearDecoderMixin:
    """Encoders whose codes decode as ``offset_ + bits codebook_``."""

    codebook_: np.ndarray  # (n_bits, n_features), float32
    offset_: np.ndarray  # (n_features,), float64

    _saved = {
        "codebook_": reals("n_bits", "n_features"),
        "offset_": reals("n_features"),
    }

    def inverse_transform(self, X) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
            The mean of the decoder.
        """
        check_is_fitted(self)
        bits = check_bits(X)
        self._check_code_length(bits)
        return decode(bits, self.codebook_, self.offset_)

    def reconstruction_error(self, X) -> np.ndarray:
        """Return the squared distance of each vector from its decoded code.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distance between a row (of unit length, with
            `normalize`) and ``inverse_transform(transform(row))``.
        """
        X = self._validate_fitted(X)
        error = np.empty(X.shape[0])
        for rows, chunk in self._chunks(X):
            bits = self._bits(chunk)
            error[rows] = squared_errors(chunk, bits, self.codebook_, self.offset_)
        return error


class LinearDecoder(BaseEstimator):
    """Least-squares vectors for the codes of any encoder, and codes that fit vectors.

    A code is cut into blocks of `block_bits` bits, and each value of a block has its
    own vector: value v_m of block m adds ``codebook_[m, v_m]`` (with ``block_bits=1``,
    a bit that is set adds ``codebook_[m]``). Minimized is

        ``sum_i |x_i - offset - sum_m codebook[m, v_im]|^2``

    over codebook and offset, for given codes, and with `n_alternations` over the codes
    too, in turns. It gives an encoder what asymmetric search needs; `refine` finds
    codes that serve it better.

    Parameters
    ----------
    block_bits : {1, 4, 8, "auto"}, default="auto"
        Bits of a block: the more, the better the same codes decode, with a codebook of
        ``codebook_.nbytes``, ``4 n_features 2**block_bits n_bits / block_bits`` (for
        64 bits and 384 columns 98 kB, 393 kB and 3.1 MB), and the more rows are needed.
        "auto" is 8, and less where the codebook would have more than two entries for
        each row and part, or more than 134 MB, and for codes that start from those of
        an encoder and have more than 256 bits.
    start : {"codes", "residual"}, default="codes"
        Where codes come from that are refined. "codes" are those of the encoder. With
        "residual" they are those of residual quantization: progressive k-means of what
        the blocks before leave, and a beam search. Codes decode nearer to the vectors,
        after fewer alternations, and have nothing in common with those of the encoder.
        It is for uncompressed queries alone, and for
        blocks of 4 and 8 bits and at least one alternation; otherwise it is as
        "codes".
    n_alternations : int, default=6
        How often the codes are refined and the codebook fitted to them anew. The
        codebook then is that of codes that `refine` returns; 0 is for given codes.
    n_restarts : int, default=8
        Restarts of the search for the best code of a row: the more, the lower the
        error, in time in proportion.
    relaxation : float, default=0.5
        Noise that the codebook has while `fit` refines codes, in standard deviations of
        what the code leaves of a column, over the square root of the number of blocks.
        It falls to 0 by the last alternation. With 0, codes soon stay where they are,
        though others would be better; above 1, many alternations are needed.
    ridge : float or None, default=None
        For blocks of 4 and 8 bits: shrinks an entry towards the sum of its single bits,
        half way if it is found in so many rows. None chooses the ridge that decodes
        held-out rows best, with alternations by refined codes, or the next smaller one
        if its error is at most 3 % larger: fitted rows find more by it.
    max_train_samples : int or None, default=100_000
        `fit` uses so many rows, drawn at random; None, all.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.
    verbose : bool, default=False
        Whether to print the mean squared error after each alternation.

    Attributes
    ----------
    codebook_ : ndarray, float32
        With ``block_bits=1`` of shape (n_bits, n_features): what each bit adds to the
        decoded vector; zeros for a bit that was constant. Else of shape
        (ceil(n_bits / block_bits), 2**block_bits, n_features): what each block adds by
        its value, a number whose highest bit is the first, as `numpy.packbits` has it;
        a last block with fewer bits has zeros behind them.
    offset_ : ndarray of shape (n_features,), float64
        Added to these; for blocks of 4 and 8 bits the mean of the rows.
    block_bits_ : int
        Bits of a block.
    n_parts_ : int
        Parts of the code that are fitted by themselves: see the notes.
    error_ : float
        Mean squared error of the rows that `fit` saw, by the codes that it was given.
    ridge_ : float
        The ridge that was used, for blocks of 4 and 8 bits.
    length_bits_, distance_bits_ : int
        Bits of the fraction of a float that suffice for the length of a decoded vector,
        and for its squared distance from the offset, where searches keep these: with
        fewer, `fit` found that rows lose neighbours.
    normalized_ : bool
        Whether all rows had unit length, but for zeros. Then searches scale what codes
        decode to, as `skhash.neighbors.asymmetric_scores` says.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    skhash.SGHEncoder : An encoder with its own decoder.
    skhash.AsymmetricNeighbors : Searches by decoded codes.

    Notes
    -----
    Refined codes are for asymmetric search, queries being real vectors. Their Hamming
    distances from encoded queries follow the distances of vectors less well than those
    of the codes that they were made from: a little with ``n_alternations=1``, much with
    20 and ``relaxation=1``, which serve asymmetric search best.

    `X` has to be what the encoder sees: with ``normalize=True``, scale the rows before.

    The search for codes is iterated local search, as in local search quantization, and
    the noise its stochastic relaxation [1]_. It needs the Gram matrix of all entries,
    ``4 (2**block_bits n_bits / block_bits)**2`` bytes: 17 MB for 64 bits in blocks of
    8, and 268 MB for 256. `fit` needs four times as much for least squares, and its
    time grows with the third power of the number of entries. So longer codes from
    residuals have parts of up to 256 bits (2048, in blocks of 4): of P parts, one has
    every P-th principal axis of the rows, and an additive code of what they are there.
    This is additive product quantization [2]_ with other axes.

    References
    ----------
    .. [1] J. Martinez, S. Zakhmi, H. H. Hoos, J. J. Little, "LSQ++: Lower running time
       and higher recall in multi-codebook quantization", ECCV 2018.
    .. [2] A. Babenko, V. Lempitsky, "Additive quantization for extreme vector
       compression", CVPR 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHash
    >>> from skhash.linear import LinearDecoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = ITQHash(n_bits=32, random_state=0).fit_transform(X)
    >>> decoder = LinearDecoder(block_bits=8).fit(X, bits)
    >>> decoder.codebook_.shape
    (4, 256, 64)
    >>> refined = decoder.refine(X, bits)
    >>> plain = LinearDecoder(block_bits=8, n_alternations=0).fit(X, bits)
    >>> error = plain.reconstruction_error(X, bits).mean()
    >>> bool(decoder.reconstruction_error(X, refined).mean() < 0.8 * error)
    True
    """

    n_parts_ = 1  # files of earlier versions say nothing

    _saved = {
        "codebook_": reals(...),
        "offset_": reals("n_features"),
        "block_bits_": wholes(),
        "n_parts_": optional(wholes(low=1)),
        "error_": reals(low=0),
        "ridge_": optional(reals(low=0)),
        "normalized_": optional(Plain(bool)),
        "n_bits_": wholes(low=1),
        "length_bits_": wholes(high=FRACTION_BITS),
        "distance_bits_": wholes(high=FRACTION_BITS),
    }
    _parameter_constraints: dict = {
        "block_bits": [Options(Integral, {1, 4, 8}), StrOptions({"auto"})],
        "start": [StrOptions({"codes", "residual"})],
        "n_alternations": [Interval(Integral, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "relaxation": [Interval(Real, 0, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither"), None],
        "max_train_samples": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        *,
        block_bits="auto",
        start="codes",
        n_alternations=6,
        n_restarts=8,
        relaxation=0.5,
        ridge=None,
        max_train_samples=100_000,
        n_jobs=None,
        verbose=False,
    ):
        self.block_bits = block_bits
        self.start = start
        self.n_alternations = n_alternations
        self.n_restarts = n_restarts
        self.relaxation = relaxation
        self.ridge = ridge
        self.max_train_samples = max_train_samples
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, bits):
        """Fit the codebook, and refine the codes in turn.

        :doc:`/benchmarks/encoding` has the seconds of fits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors.
        bits : array-like of shape (n_samples, n_bits)
            Their codes, 0 and 1.

        Returns
        -------
        self : object
            The fitted decoder. The same rows and codes make the same one.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, or `bits` other values than 0 and 1 or another
            number of rows.
        """
        X = self._validate(X, reset=True)
        bits = check_bits(bits)
        check_consistent_length(X, bits)
        self.n_bits_ = bits.shape[1]
        X, bits = self._sample(X, bits)
        self._choose_blocks(X.shape)
        self.normalized_ = have_unit_length(X)
        if self.n_parts_ > 1:
            self._fit_parts(X, bits)
            return self._choose_fractions(X, None)
        if self._from_residuals:
            decoder = residual_codebook(X, self.n_bits_, self.block_bits_)
            bits = refine(X, None, *decoder, n_bits=self.n_bits_, n_jobs=self.n_jobs)
        self._choose_ridge(X, bits)
        self._fit_codebook(X, bits)
        self.error_ = float(self._errors(X, bits).mean())
        random_state, codes = np.random.RandomState(0), bits
        for turn in range(self.n_alternations):
            share = 1 - (turn + 1) / self.n_alternations
            scale = share**0.5 * self.relaxation
            codebook = self._with_noise(scale, X, codes, random_state)
            codes = self._refine(X, codes, codebook, seed=turn)
            self._fit_codebook(X, codes)
            if self.verbose:
                error = self._errors(X, codes).mean()
                step = f"alternation {turn + 1} of {self.n_alternations}"
                print(f"[LinearDecoder] {step}, error {error:.4g}", flush=True)
        return self._choose_fractions(X, codes)

    def inverse_transform(self, bits) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
        """
        return decode(self._check_bits(bits), self.codebook_, self.offset_)

    def reconstruction_error(self, X, bits) -> np.ndarray:
        """Return the squared distance of each vector from its decoded code.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distances.
        """
        return self._errors(*self._check(X, bits))

    def refine(self, X, bits=None) -> np.ndarray:
        """Return codes that decode to vectors nearer to `X`.

        Coordinate descent over the blocks, and `n_restarts` times again from the best
        code with some blocks changed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        bits : array-like of shape (n_samples, n_bits) or None, default=None
            Codes to start from, 0 and 1. None, or ``start="residual"``, makes them
            one block after the other, by a beam search: codes about as good are found
            without an encoder, but their Hamming distances mean nothing.

        Returns
        -------
        refined : ndarray of shape (n_samples, n_bits), uint8
            Codes whose error is not larger than that of `bits` where these are the
            start. They do not depend on the rows beside them or on the number of
            threads.
        """
        X, bits = self._check(X, bits)
        if self._from_residuals:
            bits = None
        refined = self._refine(X, bits, self.codebook_)
        if bits is not None:  # the search has float32, and may be wrong in a near tie
            worse = self._errors(X, refined) >= self._errors(X, bits)
            refined[worse] = bits[worse]
        return refined

    def save(self, path) -> None:
        """Write the fitted decoder to a directory of JSON and safetensors.

        Parameters
        ----------
        path : path-like
            A new directory, or one that `save` wrote before.

        See Also
        --------
        skhash.load : Reads the directory without running code.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    def _check_saved(self):
        check_codebook(self.codebook_, self.offset_, self.n_bits_)
        if self.n_parts_ > len(self.codebook_):
            raise ValueError(
                f"n_parts_ is {self.n_parts_}, of {len(self.codebook_)} blocks."
            )
        if bits_of_block(self.codebook_) != self.block_bits_:
            raise ValueError(
                f"codebook_ has shape {self.codebook_.shape}, and block_bits_ is "
                f"{self.block_bits_}."
            )

    @property
    def _keeps_no_codes(self):
        return self.start == "residual" and self.n_alternations > 0

    @property
    def _from_residuals(self):
        return self._keeps_no_codes and self.block_bits_ > 1

    def _choose_blocks(self, shape):
        self.block_bits_, self.n_parts_ = self.block_bits, 1
        if self.block_bits == "auto":
            options = {"in_parts": self._keeps_no_codes}
            self.block_bits_ = choose_block_bits(self.n_bits_, shape, **options)
        if self._from_residuals:
            self.n_parts_ = count_parts(self.n_bits_, self.block_bits_, shape[1])

    def _parts(self):
        """Return the blocks and the bits of each part, slices."""
        n_blocks = count_blocks(self.n_bits_, self.block_bits_)
        edges = np.linspace(0, n_blocks, self.n_parts_ + 1).astype(int)
        blocks = map(slice, edges[:-1], edges[1:])
        starts = np.minimum(self.block_bits_ * edges, self.n_bits_)
        return list(zip(blocks, map(slice, starts[:-1], starts[1:]), strict=True))

    def _fit_parts(self, X, bits):
        decoder = clone(self).set_params(block_bits=self.block_bits_)
        codebook, self.error_ = [], 0.0
        parts = alternate_axes(X, self.n_parts_)
        for (basis, rows), (_, own) in zip(parts, self._parts(), strict=True):
            decoder.fit(rows, bits[:, own])
            decoder.ridge = self.ridge_ = decoder.ridge_  # the first choice serves all
            codebook.append(decoder.codebook_ @ basis.T.astype(np.float32))
            self.error_ += decoder.error_
        self.codebook_ = np.concatenate(codebook)
        self.offset_ = column_means(X)

    def _choose_fractions(self, X, bits):
        """Choose how exactly searches keep numbers of codes; None refines codes."""
        some = np.random.RandomState(0).permutation(X.shape[0])[:N_ROWS]
        rows = dense_rows(X[some])
        bits = self._refine(rows, None, self.codebook_) if bits is None else bits[some]
        decoded = decode(bits, self.codebook_, self.offset_)
        chosen = choose_fractions(rows, decoded, self.offset_, ERROR_WEIGHT)
        self.length_bits_, self.distance_bits_ = chosen
        return self

    def _sample(self, X, bits):
        """Return the rows that `fit` uses, in their order."""
        if self.max_train_samples is None or len(bits) <= self.max_train_samples:
            return X, bits
        order = np.random.RandomState(0).permutation(len(bits))
        rows = np.sort(order[: self.max_train_samples])
        return X[rows], bits[rows]

    def _choose_ridge(self, X, bits):
        """Choose the ridge by the given codes, or refined ones if they will change."""
        if self.block_bits_ == 1:
            return
        self.ridge_ = self.ridge
        if self.ridge is None:
            recode = None
            if self.n_alternations:
                recode = partial(refine, n_bits=self.n_bits_, n_jobs=self.n_jobs)
            self.ridge_ = choose_ridge(X, bits, self.block_bits_, recode)

    def _fit_codebook(self, X, bits):
        if self.block_bits_ == 1:
            self.codebook_, self.offset_ = fit_codebook(X, bits)
        else:
            values = bits_to_values(bits, self.block_bits_)
            moments = BlockMoments(X, values, self.block_bits_)
            self.codebook_, self.offset_ = moments.solve(self.ridge_)

    def _with_noise(self, scale, X, bits, random_state):
        """Return the codebook with noise of `scale` times the error of a block."""
        if not scale:
            return self.codebook_
        decoder = self.codebook_, self.offset_
        left = residuals(X, bits, *decoder)
        squares = sum(np.square(rest).sum(axis=0) for _, rest in left)
        deviation = np.sqrt(squares / (len(bits) * len(self.codebook_)))
        noise = random_state.standard_normal(self.codebook_.shape)
        return self.codebook_ + (scale * deviation * noise).astype(np.float32)

    def _refine(self, X, bits, codebook, seed=0):
        options = {"n_restarts": self.n_restarts, "n_jobs": self.n_jobs, "seed": seed}
        refined = []
        for blocks, own in self._parts():
            start = None if bits is None else bits[:, own]
            decoder, n_bits = (codebook[blocks], self.offset_), own.stop - own.start
            refined.append(refine(X, start, *decoder, n_bits=n_bits, **options))
        return np.hstack(refined)

    def _errors(self, X, bits):
        return squared_errors(X, bits, self.codebook_, self.offset_)

    def _validate(self, X, *, reset):
        options = {"dtype": [np.float32, np.float64], "order": "C"}
        return validate_data(self, X, reset=reset, accept_sparse="csr", **options)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _check(self, X, bits):
        bits = None if bits is None else self._check_bits(bits)
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if bits is not None:
            check_consistent_length(X, bits)
        return X, bits

    def _check_bits(self, bits):
        check_is_fitted(self)
        bits = check_bits(bits)
        if bits.shape[1] != self.n_bits_:
            raise ValueError(
                f"Codes have {bits.shape[1]} bits, but this LinearDecoder was fitted "
                f"for {self.n_bits_}."
            )
        return bits
