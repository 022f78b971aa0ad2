"""Distances within and between classes, against sums over all pairs."""

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from skhash.codes import hamming_distances, pack_bits
from skhash.metrics import class_distances, separability_score
from skhash.utils import chunks


def random_data(multilabel, n=60, n_bits=70):
    """Codes of two words, with classes, or with up to 70 labels: masks of two words."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (n, n_bits))
    if not multilabel:
        return codes, rng.integers(0, 5, n)
    labels = (rng.random((n, 70)) < 0.03).astype(int)
    assert (labels.sum(axis=1) == 0).any()  # some rows share a label with none
    return codes, labels


def pair_means(codes, labels, other_codes, other_labels, left_out):
    distances = hamming_distances(pack_bits(codes), pack_bits(other_codes))
    if labels.ndim == 1:
        share = labels[:, None] == other_labels
    else:
        share = labels @ other_labels.T > 0
    return distances[share & ~left_out].mean(), distances[~share & ~left_out].mean()


@each("multilabel", [False, True])
def test_means_over_pairs_of_one_set(multilabel):
    codes, labels = random_data(multilabel)
    below = np.tri(len(codes), dtype=bool)  # each unordered pair once
    expected = pair_means(codes, labels, codes, labels, left_out=below)
    np.testing.assert_allclose(class_distances(codes, labels), expected, rtol=1e-14)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("budget", [1, 2000])
def test_means_over_pairs_of_two_sets_in_chunks(multilabel, budget, monkeypatch):
    monkeypatch.setattr(chunks.row_chunks, "__defaults__", (budget,))
    codes, labels = random_data(multilabel)
    data = codes[:20], labels[:20], codes[20:], labels[20:]
    expected = pair_means(*data, left_out=np.False_)
    other = {"database_codes": codes[20:], "database_labels": labels[20:]}
    found = class_distances(*data[:2], **other)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    score = separability_score(codes[:20], codes[20:], labels[:20], labels[20:])
    assert score == pytest.approx(expected[1] - expected[0], rel=1e-12)


@each("multilabel", [False, True])
def test_leaving_out_the_query_itself(multilabel):
    codes, labels = random_data(multilabel)
    others, other_labels = codes[::-1], labels[::-1]  # own pairs are not all alike
    own = np.eye(len(codes), dtype=bool)
    intra, inter = pair_means(codes, labels, others, other_labels, left_out=own)
    data = codes, others, labels, other_labels
    score = separability_score(*data, exclude_self=True)
    assert score == pytest.approx(inter - intra, rel=1e-12)
    assert score != pytest.approx(separability_score(*data), rel=1e-6)


def test_formats_give_the_same():
    codes, classes = random_data(multilabel=False)
    expected = class_distances(codes, classes)
    one_hot = np.eye(5, dtype=int)[classes]
    names = np.array(["a", "b", "c", "d", "e"], dtype=object)
    assert class_distances(pack_bits(codes), classes, packed=True) == expected
    assert class_distances(codes, names[classes]) == expected
    for indicator in (one_hot, sparse.csr_array(one_hot)):
        np.testing.assert_allclose(
            class_distances(codes, indicator), expected, rtol=1e-14
        )


def test_no_pairs_give_nan_and_a_warning():
    codes = [[0, 0], [1, 1]]
    with pytest.warns(UndefinedMetricWarning, match="share a label") as record:
        intra, inter = class_distances(codes, [1, 2])
    assert np.isnan(intra) and inter == 2
    assert record[0].filename == __file__
    with pytest.warns(UndefinedMetricWarning, match="share no label") as record:
        score = separability_score(codes, codes, [1, 1], [1, 1])
    assert np.isnan(score)
    assert record[0].filename == __file__


def test_half_a_database_is_named():
    with pytest.raises(ValueError, match="database_labels are missing"):
        class_distances([[0, 1]], [1], database_codes=[[0, 1]])


def test_groups_in_whatever_shape_numpy_gives_them(monkeypatch):
    unique = np.unique

    def of_2_0_0(rows, axis, return_inverse):
        values, inverse = unique(rows, axis=axis, return_inverse=return_inverse)
        return values, inverse.reshape(-1, 1)

    codes, labels = random_data(multilabel=True)
    expected = class_distances(codes, labels)
    monkeypatch.setattr(np, "unique", of_2_0_0)
    assert class_distances(codes, labels) == expected
