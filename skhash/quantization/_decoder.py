"""`LinearDecoder`: a codebook for codes that are given."""

from functools import partial
from numbers import Integral
from typing import Annotated, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_bits, check_codes_of
from skhash.numerics._decoder import bits_to_values, values_to_bits
from skhash.quantization._base import (
    CodebookMixin,
    choose_ridge,
    count_entries,
    is_affordable,
)
from skhash.quantization._codebook import (
    decode,
    fit_blocks,
    refine,
    residuals,
    squared_errors,
)
from skhash.utils._sklearn import Options, fit_context
from skhash.utils.parameters import AnyInt, Count, CountFrom0, with_parameters

# Noise that the codebook has while codes are refined, in standard deviations of what
# the code leaves of a column, over the square root of the number of blocks. It falls to
# 0 by the last alternation. With 0, codes soon stay where they are, though others would
# be better; above 1, many alternations are needed.
RELAXATION = 0.5


@with_parameters(kw_only=True)
class LinearDecoder(CodebookMixin, BaseEstimator):
    """Linear decoder for binary codes, fitted by least squares.

    It gives the codes of any encoder what asymmetric search needs: a vector that each
    code decodes to. It can also refine the codes so that they decode more accurately.

    A code is divided into blocks of `block_bits` bits, and each value of a block has
    its own vector: value v_m of block m adds ``codebook_[m, v_m]`` (with
    ``block_bits=1``, a bit that is set adds ``codebook_[m]``). `fit` minimizes

        ``sum_i |x_i - offset - sum_m codebook[m, v_im]|^2``

    over the codebook and the offset and, if `n_alternations` is not 0, over the codes
    too, in alternation. `refine` returns such codes for any vectors.

    Parameters
    ----------
    block_bits : {1, 4, 8, "auto"}, default="auto"
        Number of bits per block. Larger blocks decode the same codes more accurately,
        but need more training vectors and a larger codebook: for 64 bits and 384
        columns, 98 kB with 1 or 4 bits per block and 0.79 MB with 8. "auto" is 8, or
        less if the codebook would have more than two entries per training vector, more
        than 8192 entries, or more than 134 MB as floats.
    n_alternations : int, default=0
        Number of times that `fit` refines the codes and refits the codebook to them.
        With 0, the codebook suits the given codes; otherwise, those that `refine`
        returns.
    n_restarts : int, default=8
        Number of restarts of the search for each vector's code. More restarts lower the
        error, and take proportionally longer.
    max_train_samples : int or None, default=100_000
        Maximum number of vectors, drawn at random, that `fit` uses. None uses all.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.
    verbose : bool, default=False
        Whether to print the mean squared error after each alternation.

    Attributes
    ----------
    codebook_ : ndarray, float32
        With ``block_bits=1``, of shape (n_bits, n_features): the vector that each bit
        adds if it is set; zeros for a bit that was constant. Otherwise of shape
        (ceil(n_bits / block_bits), 2**block_bits, n_features): the vector that each
        value of each block adds. The first bit of a block is the highest bit of its
        value, as in `numpy.packbits`; a shorter last block is padded with zeros.
    entries_, scales_ : ndarray, ndarray or None
        The codebook as files and indexes store it, as in `skhash.AdditiveQuantizer`.
        For blocks of one bit, the codebook itself and None.
    offset_ : ndarray of shape (n_features,), float64
        Vector added to every decoded vector. For blocks of 4 and 8 bits, the mean of
        the training vectors.
    block_bits_ : {1, 4, 8}
        Number of bits per block.
    error_ : float
        Mean squared error of the training vectors with their refined codes, or with the
        given codes if ``n_alternations=0``; measured on 2000 random ones if there are
        more.
    length_bits_, distance_bits_ : int
        Bits of float mantissa that searches keep for the length of a decoded vector and
        for its squared distance from the offset. `fit` chooses the fewest that lose no
        neighbours.
    normalized_ : bool
        Whether all vectors had unit length, apart from zero vectors. Searches then
        scale decoded vectors to unit length; see `skhash.neighbors.asymmetric_scores`.
    n_bits_ : int
        Number of bits per code.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    skhash.AdditiveQuantizer : Codes for uncompressed queries, without an encoder.
    skhash.SGHEncoder : An encoder with its own decoder.
    skhash.AsymmetricNeighbors : Compares queries with decoded codes.

    Notes
    -----
    Use refined codes for asymmetric search, with uncompressed queries. Their Hamming
    distances follow the distances of the vectors less well than those of the original
    codes. In our benchmarks, refining with ``n_alternations=1`` lowered the recall by
    Hamming distance by up to a third, and each further alternation lowers it more.

    Pass `X` as the encoder sees it: for an encoder with ``normalize=True``, scale the
    vectors to unit length first.

    The search for codes is iterated local search, as in local search quantization, with
    that method's stochastic relaxation: noise on the codebook [1]_. For blocks of 4 and
    8 bits, least squares has a ridge that shrinks each entry towards the sum of its
    single bits. The ridge is chosen on held-out vectors. The search needs the Gram
    matrix of all entries, ``4 (2**block_bits n_bits / block_bits)**2`` bytes: 17 MB for
    64 bits in blocks of 8, and 268 MB for 256. For least squares, `fit` needs four
    times as much, and its time grows with the cube of the number of entries.

    References
    ----------
    .. [1] J. Martinez, S. Zakhmi, H. H. Hoos, J. J. Little, "LSQ++: Lower running time
       and higher recall in multi-codebook quantization", ECCV 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHash
    >>> from skhash.quantization import LinearDecoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = ITQHash(n_bits=32, random_state=0).fit_transform(X)
    >>> plain = LinearDecoder(block_bits=8).fit(X, bits)
    >>> plain.codebook_.shape
    (4, 256, 64)
    >>> error = plain.reconstruction_error(X, bits).mean()
    >>> decoder = LinearDecoder(block_bits=8, n_alternations=6).fit(X, bits)
    >>> refined = decoder.refine(X, bits)
    >>> bool(decoder.reconstruction_error(X, refined).mean() < 0.8 * error)
    True
    """

    block_bits: Annotated[int, Options(Integral, {1, 4, 8})] | Literal["auto"] = "auto"
    n_alternations: CountFrom0 = 0
    n_restarts: CountFrom0 = 8
    max_train_samples: Count | None = 100_000
    n_jobs: AnyInt | None = None
    verbose: bool = False

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, bits) -> Self:
        """Fit the codebook to vectors and their codes.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, as the encoder sees them.
        bits : array-like of shape (n_samples, n_bits)
            Codes of the vectors, 0 and 1.

        Returns
        -------
        self : object
            The fitted decoder. The same vectors and codes always give the same decoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, or if `bits` has other values than 0 and 1 or
            another number of rows.
        """
        X, bits = self._validate(X, reset=True), check_bits(bits)
        check_consistent_length(X, bits)
        X, rows = self._sample(X)
        bits = bits[rows]
        self.n_bits_, block_bits = bits.shape[1], self.block_bits
        if block_bits == "auto":
            block_bits = choose_block_bits(self.n_bits_, X.shape)
        self.block_bits_ = int(block_bits)  # as for `AdditiveQuantizer.n_bytes`
        values = bits_to_values(bits, self.block_bits_)
        return self._keep(X, *self._alternate(X, values))

    def _alternate(self, X, values):
        """Return codes, codebook and offset, refined and fitted in turns."""
        options = {"n_restarts": self.n_restarts, "n_jobs": self.n_jobs}
        options["n_bits"] = self.n_bits_
        ridge, random_state = None, np.random.RandomState(0)
        if self.block_bits_ > 1:
            recode = partial(refine, **options) if self.n_alternations else None
            ridge = choose_ridge(X, values, self.block_bits_, recode)
        decoder = fit_blocks(X, values, self.block_bits_, ridge)
        for turn in range(self.n_alternations):
            scale = RELAXATION * (1 - (turn + 1) / self.n_alternations) ** 0.5
            noisy = with_noise(decoder, scale, X, values, random_state)
            values = refine(X, values, *noisy, seed=turn, **options)
            decoder = fit_blocks(X, values, self.block_bits_, ridge)
            self._report(turn, self.n_alternations, X, values, decoder)
        return values, *decoder

    def inverse_transform(self, bits) -> np.ndarray:
        """Decode bits into vectors.

        They are ``offset_`` plus, for each block, the entry of ``codebook_`` that the
        value of the block selects. With ``block_bits=1`` this is
        ``offset_ + bits codebook_``.

        Parameters
        ----------
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
            The vectors that the codes stand for.
        """
        return decode(self._values(bits), self.codebook_, self.offset_)

    def reconstruction_error(self, X, bits) -> np.ndarray:
        """Return the squared distance of each vector from its decoded code.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, as the encoder sees them.
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distances.
        """
        return squared_errors(*self._check(X, bits), self.codebook_, self.offset_)

    def refine(self, X, bits) -> np.ndarray:
        """Return codes that decode to vectors nearer to `X`.

        The search is coordinate descent over the blocks, restarted `n_restarts` times
        from the best code with some blocks changed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, as the encoder sees them.
        bits : array-like of shape (n_samples, n_bits)
            Codes to start from, 0 and 1.

        Returns
        -------
        refined : ndarray of shape (n_samples, n_bits), uint8
            Refined codes, whose error is at most that of `bits`. They do not depend on
            the other rows or on the number of threads.
        """
        X, values = self._check(X, bits)
        decoder = self.codebook_, self.offset_
        kinds = {"n_restarts": self.n_restarts, "n_jobs": self.n_jobs}
        refined = refine(X, values, *decoder, n_bits=self.n_bits_, **kinds)
        # The search has float32, and may be wrong in a near tie.
        worse = squared_errors(X, refined, *decoder)
        worse = worse >= squared_errors(X, values, *decoder)
        refined[worse] = values[worse]
        return values_to_bits(refined, self.block_bits_, self.n_bits_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check(self, X, bits):
        """Return validated rows, and the values of their codes."""
        values = self._values(bits)
        X = self._validate(X, reset=False)
        check_consistent_length(X, values)
        return X, values

    def _values(self, bits):
        check_is_fitted(self)
        bits = check_codes_of(self, bits, self.n_bits_)
        return bits_to_values(bits, self.block_bits_)


def choose_block_bits(n_bits: int, shape) -> int:
    """Return how large blocks are: bytes, where rows of this shape and time suffice."""
    sizes = (n for n in (8, 4) if is_affordable(count_entries(n_bits, n), shape))
    return next(sizes, 1)


def with_noise(decoder, scale, X, values, random_state):
    """Return the decoder, its codebook with noise of `scale` errors of a block."""
    if not scale:
        return decoder
    codebook, offset = decoder
    left = residuals(X, values, codebook, offset)
    squares = sum(np.square(rest).sum(axis=0) for _, rest in left)
    deviation = np.sqrt(squares / (len(values) * len(codebook)))
    noise = random_state.standard_normal(codebook.shape)
    return codebook + (scale * deviation * noise).astype(np.float32), offset
