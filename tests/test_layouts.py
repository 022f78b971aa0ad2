"""Every public function answers the same, however its input lies in memory."""

import warnings

import numpy as np
import pytest
import test_masked_arrays
from layouts import FLOATS, LAYOUTS, SPARSE, vectors
from numba.core.errors import TypingError

from skhash import HammingNeighbors, ITQHash, SBNClassifier, codes, metrics
from skhash.linear import LinearDecoder, RandomHyperplaneHash
from skhash.neighbors import (
    AsymmetricNeighbors,
    HashedNeighbors,
    asymmetric_scores,
    duplicate_groups,
    radius_pairs,
)

N_FEATURES, N_BITS = 24, 20
DATA, QUERIES = vectors(300, N_FEATURES), vectors(30, N_FEATURES, seed=1)
LABELS = np.arange(300) % 3
ENCODER = ITQHash(N_BITS, random_state=0).fit(DATA)
BITS, QUERY_BITS = ENCODER.transform(DATA), ENCODER.transform(QUERIES)
DECODERS = {
    block_bits: LinearDecoder(block_bits=block_bits).fit(DATA, BITS)
    for block_bits in (1, 4, 8)
}
METRICS = ("euclidean", "inner_product", "cosine")


def neighbors_by_codes(block_bits, metric):
    index = AsymmetricNeighbors(10, radius=0.9, metric=metric)
    index.fit(BITS, decoder=DECODERS[block_bits])
    return lambda X: [*index.kneighbors(X), *index.radius_neighbors(X)]


def neighbors_by_vectors(metric, make=np.asarray):
    index = AsymmetricNeighbors(10, radius=0.9, metric=metric, n_candidates=50)
    index.fit(BITS, vectors=make(DATA))
    return lambda X: index.kneighbors(X, codes=QUERY_BITS)


def neighbors_of_all_vectors(metric, make=np.asarray):
    index = AsymmetricNeighbors(10, radius=0.9, metric=metric)
    index.fit(BITS, vectors=make(DATA))
    return lambda X: [*index.kneighbors(X), *index.radius_neighbors(X)]


def hashed(index, **options):
    search = HashedNeighbors(RandomHyperplaneHash(N_BITS, random_state=0), index)
    return search.set_params(**options).fit(DATA).kneighbors


# Functions of real queries.
SEARCHES = {
    **{
        f"decoder of {block_bits} bits, {metric}": neighbors_by_codes(
            block_bits, metric
        )
        for block_bits in DECODERS
        for metric in METRICS
    },
    **{f"vectors, {metric}": neighbors_by_vectors(metric) for metric in METRICS},
    **{
        f"all vectors, {metric}": neighbors_of_all_vectors(metric) for metric in METRICS
    },
    "scores": lambda X: [
        asymmetric_scores(X, BITS, decoder, metric=metric)
        for decoder in DECODERS.values()
        for metric in METRICS
    ],
    "hashed, Hamming": hashed(HammingNeighbors(10)),
    "hashed, decoder": hashed(AsymmetricNeighbors(10)),
    "hashed, candidates by decoder": hashed(
        AsymmetricNeighbors(10, n_candidates=40), keep_vectors=True
    ),
    "hashed, unit rows": hashed(AsymmetricNeighbors(10), encoder__normalize=True),
    "true neighbours": lambda X: [
        metrics.true_neighbors(X, DATA, n_neighbors=5, metric=metric)
        for metric in METRICS
    ],
    "encoding": lambda X: [ENCODER.transform(X), ENCODER.transform_packed(X)],
}
DENSE_ONLY = {name for name in SEARCHES if "vectors" in name} | {
    "hashed, candidates by decoder"
}


def assert_same(answers, others):
    for one, other in zip(answers, others, strict=True):
        if one.dtype == object:
            assert_same(one, other)
        else:
            np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", SEARCHES)
def test_queries(name, form):
    search = SEARCHES[name]
    assert_same(search(LAYOUTS[form](QUERIES)), search(QUERIES))


def sure_positions(scores, positions):
    """Return positions where the next scores differ by more than rounding."""
    gaps = np.diff(scores.astype(np.float64), axis=1) > 1e-5
    apart = np.pad(gaps, ((0, 0), (1, 0))) & np.pad(gaps, ((0, 0), (0, 1)))
    return np.where(apart, positions, -1)


@pytest.mark.parametrize("form", [*FLOATS, *SPARSE])
@pytest.mark.parametrize("name", SEARCHES)
def test_queries_of_other_types(name, form):
    if form in SPARSE and name in DENSE_ONLY:
        return
    search, make = SEARCHES[name], {**FLOATS, **SPARSE}[form]
    expected, found = search(QUERIES), search(make(QUERIES))
    if name in ("scores", "encoding", "true neighbours"):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        return
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(
        sure_positions(*found[:2]), sure_positions(*expected[:2])
    )


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("make", [neighbors_by_vectors, neighbors_of_all_vectors])
@pytest.mark.parametrize("metric", METRICS)
def test_vectors_that_are_kept(metric, make, form):
    assert_same(make(metric, LAYOUTS[form])(QUERIES), make(metric)(QUERIES))


@pytest.mark.parametrize("form", LAYOUTS)
def test_added_vectors(form):
    """Also of an index that copied them, as pickling and adding do."""
    make = LAYOUTS[form]
    index = AsymmetricNeighbors(10).fit(BITS[:100], vectors=make(DATA[:100]))
    index.partial_fit(BITS[100:], vectors=make(DATA[100:]))
    expected = neighbors_of_all_vectors("euclidean")(QUERIES)
    assert_same(index.kneighbors(QUERIES), expected[:2])


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("block_bits", DECODERS)
def test_decoders(block_bits, form):
    make, expected = LAYOUTS[form], DECODERS[block_bits]
    decoder = LinearDecoder(block_bits=block_bits).fit(make(DATA), make(BITS))
    np.testing.assert_array_equal(decoder.codebook_, expected.codebook_)
    assert_same(
        [decoder.refine(make(DATA), make(BITS)), decoder.inverse_transform(make(BITS))],
        [expected.refine(DATA, BITS), expected.inverse_transform(BITS)],
    )
    errors = [
        fitted.reconstruction_error(*arrays)
        for fitted, arrays in (
            (decoder, (make(DATA), make(BITS))),
            (expected, (DATA, BITS)),
        )
    ]
    np.testing.assert_array_equal(*errors)


@pytest.mark.parametrize("form", LAYOUTS)
def test_classifier(form):
    make = LAYOUTS[form]
    settings = {"hidden_layer_sizes": (8,), "max_epochs": 2, "random_state": 0}
    expected = SBNClassifier(**settings).fit(DATA, LABELS)
    found = SBNClassifier(**settings).fit(make(DATA), LABELS)
    np.testing.assert_array_equal(
        found.predict_proba(make(QUERIES)), expected.predict_proba(QUERIES)
    )


PACKED, QUERY_PACKED = codes.pack_bits(BITS), codes.pack_bits(QUERY_BITS)
SIDES = (LABELS[:30], LABELS)


def of_hamming(make, packed=False):
    data, queries = (PACKED, QUERY_PACKED) if packed else (BITS, QUERY_BITS)
    index = HammingNeighbors(10, radius=6, packed=packed)
    index.fit(make(data[:200])).partial_fit(make(data[200:]))
    queries = make(queries)
    return [*index.kneighbors(queries), *index.radius_neighbors(queries)]


# Functions of codes, given what makes a form of them.
OF_BITS = {
    "HammingNeighbors": of_hamming,
    "pack_bits": lambda make: [codes.pack_bits(make(BITS))],
    "bits_to_signs": lambda make: [codes.bits_to_signs(make(BITS))],
    "duplicate_groups": lambda make: [duplicate_groups(make(BITS), radius=4)],
    "radius_pairs": lambda make: list(radius_pairs(make(BITS), radius=5)),
    "mean average precision": lambda make: [
        np.asarray(
            metrics.mean_average_precision_score(make(QUERY_BITS), make(BITS), *SIDES)
        )
    ],
    "scores": lambda make: [
        asymmetric_scores(QUERIES, make(BITS), decoder) for decoder in DECODERS.values()
    ],
}
OF_PACKED = {
    "HammingNeighbors": lambda make: of_hamming(make, packed=True),
    "unpack_bits": lambda make: [codes.unpack_bits(make(PACKED), N_BITS)],
    "hamming_distances": lambda make: [
        codes.hamming_distances(make(QUERY_PACKED), make(PACKED))
    ],
    "spherical_hamming_distances": lambda make: [
        codes.spherical_hamming_distances(make(QUERY_PACKED), make(PACKED))
    ],
    "mean average precision": lambda make: [
        np.asarray(
            metrics.mean_average_precision_score(
                make(QUERY_PACKED), make(PACKED), *SIDES, packed=True
            )
        )
    ],
    "scores": lambda make: [
        asymmetric_scores(QUERIES, make(PACKED), decoder, packed=True)
        for decoder in DECODERS.values()
    ],
}


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", OF_BITS)
def test_bits(name, form):
    ask = OF_BITS[name]
    assert_same(ask(LAYOUTS[form]), ask(np.asarray))


@pytest.mark.parametrize("dtype", [bool, ">i4", np.int64, np.float32, np.float64])
@pytest.mark.parametrize("name", OF_BITS)
def test_bits_of_other_types(name, dtype):
    ask = OF_BITS[name]
    assert_same(ask(lambda bits: bits.astype(dtype)), ask(np.asarray))


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", OF_PACKED)
def test_packed(name, form):
    ask = OF_PACKED[name]
    assert_same(ask(LAYOUTS[form]), ask(np.asarray))


def test_no_kernel_is_compiled_for_rows_that_lie_apart():
    from skhash.neighbors.kernels import products

    queries, features = np.ones((4, 8), np.float32), np.ones((1, 8, 256), np.float32)
    sums = np.empty((4, 1, 256), np.float32)
    products.multiply(queries, features, sums)
    np.testing.assert_array_equal(sums, 8)
    for wrong in (np.asfortranarray(queries), queries[:, ::2], queries[::2]):
        with pytest.raises(TypeError):
            products.multiply(wrong, features, sums)
    with pytest.raises(TypingError):
        products.multiply(queries.astype(np.float64), features, sums)


def arrays_in(answer):
    """Yield the arrays of an answer, whatever it comes in."""
    if isinstance(answer, np.ndarray | np.number | float):
        yield np.asarray(answer)
    elif isinstance(answer, tuple | list):
        for one in answer:
            yield from arrays_in(one)


# Fits of encoders draw: `checks.check_any_layout` has them, with a seed.
ROOMS = [room for room in test_masked_arrays.ROOMS if room.__name__ != "of_encoders"]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
@pytest.mark.parametrize("form", ["Fortran", "gaps", "backwards", "off by a byte"])
def test_every_public_function(room, form):
    """As the test of masked arrays asks them all, with what they take."""
    calls = zip(room(), room(), strict=True)
    for (function, given), (again, same) in calls:
        with warnings.catch_warnings(action="ignore"):
            formed = {
                name: LAYOUTS[form](value)
                if isinstance(value, np.ndarray) and value.ndim == 2
                else value
                for name, value in same.items()
            }
            expected, found = function(**given), again(**formed)
        for one, other in zip(arrays_in(expected), arrays_in(found), strict=True):
            assert_same([other], [one])
