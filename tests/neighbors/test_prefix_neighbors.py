"""`PrefixNeighbors` against a plain computation of what it promises."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skhash import NeighborHash
from skhash.codes import pack_bits
from skhash.neighbors import HammingNeighbors, PrefixNeighbors, _prefix


@pytest.fixture
def bits():
    """400 codes of 90 bits around 25 centres: many ties, over a prefix too."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2, (25, 90), dtype=np.uint8)
    return centres[rng.integers(0, 25, 400)] ^ (rng.random((400, 90)) < 0.03)


@pytest.fixture
def queries(bits):
    return bits[::23] ^ (np.arange(90) % 11 == 0)


def expected_neighbors(codes, queries, k, prefix_bits, n_candidates):
    """Two stable sorts a query, the second one of the candidates by position."""
    for query in queries:
        differ = codes != query
        by_prefix = differ[:, :prefix_bits].sum(axis=1)
        candidates = np.sort(np.argsort(by_prefix, kind="stable")[:n_candidates])
        distances = differ[candidates].sum(axis=1)
        order = np.argsort(distances, kind="stable")[:k]
        yield distances[order], candidates[order]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("prefix_bits", [1, 8, 13, 32, 65, 88, 90])
@pytest.mark.parametrize("n_candidates", [7, 30, 400, 1000])
def test_candidates_by_the_prefix_in_the_order_of_all_bits(
    bits, queries, packed, prefix_bits, n_candidates
):
    index = PrefixNeighbors(
        7, prefix_bits=prefix_bits, n_candidates=n_candidates, packed=packed, n_jobs=1
    )
    convert = pack_bits if packed else np.asarray
    distances, positions = index.fit(convert(bits)).kneighbors(convert(queries))
    expected = expected_neighbors(bits, queries, 7, prefix_bits, n_candidates)
    for i, (expected_distances, expected_positions) in enumerate(expected):
        np.testing.assert_array_equal(distances[i], expected_distances)
        np.testing.assert_array_equal(positions[i], expected_positions)
    assert (distances.dtype, positions.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("n_candidates", [400, 401])
def test_with_all_codes_as_candidates_it_is_exact(bits, queries, n_candidates):
    index = PrefixNeighbors(9, prefix_bits=3, n_candidates=n_candidates).fit(bits)
    expected = HammingNeighbors(9).fit(bits).kneighbors(queries)
    np.testing.assert_array_equal(index.kneighbors(queries), expected)


def test_blocks_and_threads_change_nothing(bits, queries, monkeypatch):
    index = PrefixNeighbors(5, prefix_bits=20, n_candidates=50).fit(bits)
    expected = index.kneighbors(queries)
    monkeypatch.setattr(_prefix, "BLOCK_BYTES", 3 * 32 * 50)
    for n_jobs in (1, 2):
        found = index.set_params(n_jobs=n_jobs).kneighbors(queries)
        np.testing.assert_array_equal(found, expected)


def test_prefixes_of_a_nested_code():
    X = np.random.default_rng(0).standard_normal((200, 8))
    encoder = NeighborHash(32, max_epochs=1, device="cpu", random_state=0).fit(X)
    index = PrefixNeighbors(prefix_bits=16).fit(encoder.transform(X))
    np.testing.assert_array_equal(
        index.prefix_index_.packed_codes_, encoder.truncate(16).transform_packed(X)
    )


def test_clone_and_pickle(bits, queries):
    index = PrefixNeighbors(5, prefix_bits=20, n_candidates=50).fit(bits)
    expected = index.kneighbors(queries)
    copy = pickle.loads(pickle.dumps(index))
    np.testing.assert_array_equal(copy.kneighbors(queries), expected)
    again = clone(index)
    with pytest.raises(NotFittedError):
        again.kneighbors(queries)
    np.testing.assert_array_equal(again.fit(bits).kneighbors(queries), expected)
    assert again.n_features_in_ == 90


@pytest.mark.parametrize(
    "params, message",
    [
        ({"prefix_bits": 91}, "prefix_bits=91 is more than the 90 bits"),
        ({"prefix_bits": 0}, "'prefix_bits'"),
        ({"n_candidates": 0}, "'n_candidates'"),
        ({"packed": True}, "uint8"),
    ],
)
def test_what_fit_refuses(bits, params, message):
    with pytest.raises(ValueError, match=message):
        PrefixNeighbors(**{"prefix_bits": 20, **params}).fit(bits.astype(float))


def test_a_prefix_longer_than_packed_codes(bits):
    with pytest.raises(ValueError, match="prefix_bits=97 is more than the 96 bits"):
        PrefixNeighbors(prefix_bits=97, packed=True).fit(pack_bits(bits))


@pytest.mark.parametrize(
    "n_neighbors, message",
    [
        (51, "n_candidates=50 must be at least n_neighbors=51"),
        (401, "n_neighbors=401 .* only 400"),
        (0, "at least 1, got 0"),
    ],
)
def test_what_kneighbors_refuses(bits, queries, n_neighbors, message):
    index = PrefixNeighbors(prefix_bits=20, n_candidates=50).fit(bits)
    with pytest.raises(ValueError, match=message):
        index.kneighbors(queries, n_neighbors)


def test_queries_of_another_width(bits, queries):
    index = PrefixNeighbors(prefix_bits=20).fit(bits)
    with pytest.raises(ValueError, match="89 features, but .* 90 features"):
        index.kneighbors(queries[:, 1:])


@pytest.mark.parametrize(
    "params",
    [{"n_neighbors": 0}, {"prefix_bits": 0.5}, {"n_candidates": "all"}, {"packed": 2}],
    ids=str,
)
def test_impossible_parameters_after_fit(bits, params):
    index = PrefixNeighbors(prefix_bits=12).fit(bits).set_params(**params)
    with pytest.raises(ValueError) as expected:
        clone(index).fit(bits)
    with pytest.raises(type(expected.value)) as found:
        index.kneighbors(bits[:1])
    assert str(found.value) == str(expected.value)


def test_another_prefix_after_fit(bits):
    index = PrefixNeighbors(prefix_bits=12).fit(bits).set_params(prefix_bits=14)
    with pytest.raises(ValueError, match="prefix_bits=14, but .* prefix_bits=12; fit"):
        index.kneighbors(bits[:1])


def test_numbers_of_few_bits(bits, queries):
    small = {"prefix_bits": np.uint8(13), "n_candidates": np.int8(100)}
    plain = PrefixNeighbors(prefix_bits=13, n_candidates=100).fit(bits)
    found = PrefixNeighbors(**small).fit(bits).kneighbors(queries)
    np.testing.assert_array_equal(found, plain.kneighbors(queries))
