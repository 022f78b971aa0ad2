"""Curves over k, histograms of distances, and quantization errors."""

import numpy as np
import pytest
from cases import each
from sklearn.metrics.pairwise import cosine_similarity

from skhash.codes import hamming_distances, pack_bits
from skhash.metrics import (
    hamming_distance_histogram,
    mean_average_precision_score,
    precision_at_k_score,
    quantization_error,
    recall_at_k_score,
)

SCORES = [mean_average_precision_score, precision_at_k_score, recall_at_k_score]


@pytest.fixture(params=["classes", "indicators"])
def data(request):
    """Short codes with many ties, and a query to which nothing is relevant."""
    rng = np.random.default_rng(0)
    queries, database = rng.integers(0, 2, (12, 6)), rng.integers(0, 2, (80, 6))
    if request.param == "classes":
        wanted, labels = rng.integers(0, 3, 12), rng.integers(0, 3, 80)
        wanted[5] = 7
    else:
        wanted, labels = rng.integers(0, 2, (12, 4)), rng.integers(0, 2, (80, 4))
        wanted[5] = 0
    return queries, database, wanted, labels


@each("score", SCORES)
@each("ties", ["expected", "index", "best", "worst"])
def test_several_k_are_one_after_the_other(score, ties, data):
    cuts = [7, 1, 80]
    for average in ("mean", None):
        options = {"ties": ties, "average": average}
        curve = score(*data, k=cuts, **options)
        points = [score(*data, k=k, **options) for k in cuts]
        np.testing.assert_allclose(curve, np.stack(points, axis=-1), rtol=1e-14)
    assert np.isnan(curve[5]).all() and not np.isnan(curve[4]).any()
    assert len(np.unique(curve[4])) > 1
    one = score(*data, k=[7], ties=ties)
    assert one.shape == (1,)
    if score is mean_average_precision_score and ties != "expected":
        for normalize in ("relevant", "retrieved"):
            options = {"normalize": normalize, "ties": ties}
            points = [score(*data, k=k, **options) for k in cuts]
            np.testing.assert_allclose(score(*data, k=cuts, **options), points)


@each("score", SCORES)
@each("k", [[], [3, 0], [[1, 2]], [1.5], [3, 81]])
def test_bad_k_among_several_are_named(score, k, data):
    with pytest.raises(ValueError, match="k must be|k=81 is more than the 80"):
        score(*data, k=k)


def test_histograms_count_every_pair(data):
    queries, database, wanted, labels = data
    distances = hamming_distances(pack_bits(queries), pack_bits(database))
    if labels.ndim == 1:
        share = wanted[:, None] == labels
    else:
        share = wanted @ labels.T > 0
    relevant, irrelevant = hamming_distance_histogram(*data)
    np.testing.assert_array_equal(relevant, np.bincount(distances[share], minlength=7))
    np.testing.assert_array_equal(
        irrelevant, np.bincount(distances[~share], minlength=7)
    )
    packed = pack_bits(queries), pack_bits(database), wanted, labels
    of_bytes = hamming_distance_histogram(*packed, packed=True)
    np.testing.assert_array_equal(of_bytes[0], [*relevant, 0, 0])


def test_histograms_without_the_query_itself(data):
    _, codes, _, labels = data
    relevant, irrelevant = hamming_distance_histogram(
        codes, codes, labels, labels, exclude_self=True
    )
    kept = hamming_distance_histogram(codes, codes, labels, labels)
    labelled = np.ones(80) if labels.ndim == 1 else labels.any(axis=1)
    assert kept[0][0] - relevant[0] == labelled.sum()
    assert relevant.sum() + irrelevant.sum() == 80 * 79
    assert (relevant % 2 == 0).all() and (irrelevant % 2 == 0).all()


def test_quantization_errors_are_distances_to_the_signs():
    outputs = np.random.default_rng(0).normal(size=(30, 11))
    signs = np.sign(outputs)
    expected = {
        "absolute": np.abs(outputs - signs).mean(axis=1),
        "squared": np.square(outputs - signs).mean(axis=1),
        "cosine": 1 - np.diag(cosine_similarity(outputs, signs)),
    }
    for kind, values in expected.items():
        each = quantization_error(outputs, kind=kind, average=None)
        np.testing.assert_allclose(each, values, rtol=1e-12)
        error = quantization_error(outputs, kind=kind)
        assert error == pytest.approx(values.mean(), rel=1e-12)
    for scale in (1e-300, 1e300):
        each = quantization_error(scale * outputs, kind="cosine", average=None)
        np.testing.assert_allclose(each, expected["cosine"], rtol=1e-12)


@each("kind", ["absolute", "squared", "cosine"])
def test_quantization_errors_of_signs_and_of_zeros(kind):
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (5, 8))
    assert quantization_error(signs, kind=kind) == pytest.approx(0, abs=1e-15)
    assert quantization_error(np.zeros((2, 8)), kind=kind) == 1


@each("outputs", [[1.0, 2.0], [[np.nan, 1.0]], [["a", "b"]]])
def test_outputs_that_are_no_numbers_are_refused(outputs):
    with pytest.raises(ValueError):
        quantization_error(outputs)
