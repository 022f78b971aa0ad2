"""Asymmetric scores against decoding in float64."""

import numpy as np
import pytest
from cases import each
from decoded import scores_of_decoded
from sklearn.datasets import load_digits

from skhash import SGHEncoder
from skhash.codes import pack_bits
from skhash.neighbors import AsymmetricNeighbors
from skhash.neighbors.search import asymmetric
from skhash.neighbors.search.asymmetric import asymmetric_scores
from skhash.neighbors.store.decoder import METRICS, read_decoder

N_FEATURES = 11


def make_data(n_bits, n_codes=301, n_queries=13):
    rng = np.random.default_rng(n_bits)
    codebook = rng.normal(size=(n_bits, N_FEATURES))
    offset = 5 * rng.normal(size=N_FEATURES)
    bits = rng.integers(0, 2, (n_codes, n_bits), dtype=np.uint8)
    return rng.normal(size=(n_queries, N_FEATURES)), bits, (codebook, offset)


def decoded_scores(queries, bits, decoder, metric, **options):
    """Decode all codes and compare all pairs, in float64."""
    codebook, offset = decoder
    decoded = offset + bits @ codebook
    return scores_of_decoded(queries, decoded, offset, metric, **options)


@each("metric", METRICS)
@each("n_bits", [1, 7, 8, 63, 64, 65, 130])
def test_scores_are_those_of_decoded_vectors(n_bits, metric):
    queries, bits, decoder = make_data(n_bits)
    expected = decoded_scores(queries, bits, decoder, metric)
    scores = asymmetric_scores(queries, bits, decoder, metric=metric)
    # Some n_bits roundings of terms that are no larger than the largest score.
    np.testing.assert_allclose(scores, expected, atol=1e-5 * np.abs(expected).max())
    packed = pack_bits(bits)
    same = asymmetric_scores(queries, packed, decoder, metric=metric, packed=True)
    np.testing.assert_array_equal(same, scores)
    assert scores.dtype == np.float64


def test_far_from_the_origin_euclidean_scores_keep_their_precision():
    queries, bits, (codebook, _) = make_data(64)
    offset = np.full(N_FEATURES, 1e6)
    near = asymmetric_scores(queries, bits, (codebook, np.zeros(N_FEATURES)))
    far = asymmetric_scores(queries + 1e6, bits, (codebook, offset))
    np.testing.assert_allclose(far, near, rtol=1e-4)


@each("metric", ["euclidean", "cosine"])
def test_rounding_makes_no_score_negative(metric):
    queries, bits, decoder = make_data(65)
    codebook, offset = decoder
    scores = asymmetric_scores(offset + bits @ codebook, bits, decoder, metric=metric)
    assert scores.min() == 0
    squares = np.square(bits @ codebook).sum(axis=1)
    largest = {"euclidean": squares.max(), "cosine": 1}[metric]
    assert scores.diagonal().max() < 1e-5 * largest


def test_a_zero_vector_has_cosine_zero():
    codebook, offset = np.eye(2), np.zeros(2)
    scores = asymmetric_scores(
        [[0.0, 0.0], [3.0, 0.0]], [[0, 0], [1, 0]], (codebook, offset), metric="cosine"
    )
    np.testing.assert_array_equal(scores, [[1, 1], [1, 0]])
    # Not by a sum of large numbers that rounding leaves something of.
    offset = np.array([1234.567, -765.4321])
    queries = np.random.default_rng(0).normal(size=(50, 2))
    decoder = -offset[None], offset
    scores = asymmetric_scores(queries, [[1]], decoder, metric="cosine")
    np.testing.assert_array_equal(scores, 1)


@pytest.mark.parametrize("metric", METRICS)
def test_neither_threads_nor_chunks_nor_company_change_a_score(metric, monkeypatch):
    queries, bits, decoder = make_data(65, n_queries=29)
    expected = asymmetric_scores(queries, bits, decoder, metric=metric, n_jobs=1)
    alone = [asymmetric_scores(q[None], bits, decoder, metric=metric) for q in queries]
    np.testing.assert_array_equal(np.concatenate(alone), expected)
    monkeypatch.setattr(asymmetric, "MIN_THREAD_WORK", 1)
    monkeypatch.setattr(asymmetric, "CHUNK_BYTES", 2000)
    scores = asymmetric_scores(queries, bits, decoder, metric=metric, n_jobs=3)
    np.testing.assert_array_equal(scores, expected)


@each("metric", METRICS)
@each("normalize", [False, True])
def test_queries_go_to_the_space_of_the_encoder(normalize, metric):
    """And so does what codes decode to."""
    X, _ = load_digits(return_X_y=True)
    X = X[:300]
    encoder = SGHEncoder(9, normalize=normalize, max_epochs=1, random_state=0).fit(X)
    bits = encoder.transform(X)
    prepared = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    decoder = encoder.codebook_, encoder.offset_
    options = {"unit_rows": normalize}
    expected = decoded_scores(prepared, bits, decoder, metric, **options)
    scores = asymmetric_scores(X, bits, encoder, metric=metric)
    np.testing.assert_allclose(scores, expected, atol=1e-5 * np.abs(expected).max())
    if normalize:
        for power in (-1000, 1000):
            scaled = asymmetric_scores(np.ldexp(X, power), bits, encoder, metric=metric)
            np.testing.assert_array_equal(scaled, scores)


def test_what_does_not_fit_is_refused():
    queries, bits, (codebook, offset) = make_data(9)
    decoder = codebook, offset
    packed = [np.full((4, n), 255 * (n < 3), dtype=np.uint8) for n in (2, 3)]
    for message, arguments, options in (
        ("8 bits, but the decoder is for 9", (queries, bits[:, 1:], decoder), {}),
        ("3 bytes, but .* 9 bits", (queries, packed[1], decoder), {"packed": True}),
        ("last 7 bit.* be 0", (queries, packed[0], decoder), {"packed": True}),
        ("X_query has 10 .* decode to 11", (queries[:, 1:], bits, decoder), {}),
        ("0 and 1 only", (queries, bits + 1, decoder), {}),
        (r"offset .* shape \(11,\)", (queries, bits, (codebook, offset[1:])), {}),
        ("codebook_ and offset_, .* got 3", (queries, bits, 3), {}),
        ("NaN", (queries * np.nan, bits, decoder), {}),
        ("beyond float32", (queries * 1e30, bits, decoder), {}),
        ("beyond float32", (queries, bits, (codebook * 1e30, offset)), {}),
        ("metric", (queries, bits, decoder), {"metric": "hamming"}),
    ):
        with pytest.raises(ValueError, match=message):
            asymmetric_scores(*arguments, **options)


def test_sums_beyond_float32_are_refused():
    """Each of the terms is a number, and infinity would come of adding them."""
    decoder, codes = (np.full((8, 1), -1e19), np.zeros(1)), np.ones((3, 8))
    index = AsymmetricNeighbors(2, metric="inner_product").fit(codes, decoder=decoder)
    with pytest.raises(ValueError, match="beyond float32"):
        index.kneighbors([[1e19]])
    with pytest.raises(ValueError, match="beyond float32"):
        asymmetric_scores([[1e19]], codes, decoder, metric="inner_product")
    found = index.kneighbors([[1e18]], return_distance=False)
    np.testing.assert_array_equal(found, [[0, 1]])


def block_decoder(block_bits, n_bits, rng, draw):
    n_blocks = -(-n_bits // block_bits)
    return draw((n_blocks, 2**block_bits, N_FEATURES)), draw(N_FEATURES)


def decoded_blocks(bits, decoder):
    """Decode each code block by block, its bits read as a binary number."""
    codebook, offset = decoder
    n_blocks, n_values = codebook.shape[:2]
    block_bits = n_values.bit_length() - 1
    decoded = []
    for code in bits:
        text = "".join(map(str, code)).ljust(n_blocks * block_bits, "0")
        values = [
            int(text[block_bits * m : block_bits * (m + 1)], 2) for m in range(n_blocks)
        ]
        decoded.append(offset + sum(codebook[m][v] for m, v in enumerate(values)))
    return np.array(decoded)


class Fitted:
    """A decoder as an estimator has it."""

    def __init__(self, decoder, n_bits):
        self.codebook_, self.offset_ = decoder
        self.n_bits_ = n_bits


@each("metric", METRICS)
@each("block_bits", [4, 8])
@each("n_bits", [3, 8, 12, 21, 24, 70])
def test_blocks_of_bits_decode_to_entries(block_bits, n_bits, metric):
    rng = np.random.default_rng(n_bits)
    decoder = block_decoder(block_bits, n_bits, rng, lambda n: rng.normal(size=n))
    bits = rng.integers(0, 2, (201, n_bits), dtype=np.uint8)
    queries = rng.normal(size=(13, N_FEATURES))
    fitted = Fitted(decoder, n_bits)
    vectors = decoded_blocks(bits, decoder)
    expected = scores_of_decoded(queries, vectors, decoder[1], metric)
    scores = asymmetric_scores(queries, bits, fitted, metric=metric)
    np.testing.assert_allclose(scores, expected, atol=1e-5 * np.abs(expected).max())
    packed = pack_bits(bits)
    same = asymmetric_scores(queries, packed, fitted, metric=metric, packed=True)
    np.testing.assert_array_equal(same, scores)
    if n_bits % block_bits == 0:
        same = asymmetric_scores(queries, bits, decoder, metric=metric)
        np.testing.assert_array_equal(same, scores)


@pytest.mark.parametrize(
    ("shape", "n_bits", "message"),
    [
        ((2, 8, N_FEATURES), 6, r"codebook must have shape .* got \(2, 8, 11\)"),
        ((2, 256, N_FEATURES, 1), 16, "codebook must have shape"),
        ((2, 256, N_FEATURES), 17, "not fit codes of 17 bits, which are 3 blocks"),
        ((2, 16, N_FEATURES), 4, "not fit codes of 4 bits, which are 1 blocks"),
        ((8, N_FEATURES), 9, "not fit codes of 9 bits"),
    ],
)
def test_codebooks_of_other_shapes(shape, n_bits, message):
    fitted = Fitted((np.ones(shape), np.ones(shape[-1])), n_bits)
    with pytest.raises(ValueError, match=message):
        read_decoder(fitted, "euclidean")
