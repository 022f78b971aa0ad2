"""Definitions, options and formats of the scores against labels."""

from inspect import signature
from pathlib import Path

import joblib
import numpy as np
import pytest
from cases import each
from page_examples import page_functions
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from skhash import metrics
from skhash.codes import hamming_distances, pack_bits
from skhash.metrics import (
    _counts,
    hamming_precision_recall_curve,
    mean_average_precision_score,
    ndcg_at_k_score,
    precision_within_radius_score,
)

# Every public score of queries against labels.
SCORES = [
    score
    for name, score in vars(metrics).items()
    if name.endswith("_score")
    and {"query_labels", "average"} <= signature(score).parameters.keys()
]
# Those of the pages take the same data and formats; what else they take is theirs.
SHOWN = page_functions(end="_score")


# Other public names, by the file that tests them.
OTHERS = {
    "test_curves.py": "hamming_distance_histogram quantization_error",
    "test_label_scores.py": "hamming_precision_recall_curve",
    "test_displays.py": "DistanceHistogramDisplay HammingPrecisionRecallDisplay "
    "PrecisionAtKDisplay",
    "test_scorers.py": "make_neighbor_recall_scorer make_retrieval_scorer "
    "retrieval_scorer",
    "test_separability.py": "class_distances separability_score",
    "test_true_neighbors.py": "neighbor_recall_score search_recall_score "
    "true_neighbors",
}


def test_every_public_name_is_tested():
    others = {(name, file) for file in OTHERS for name in OTHERS[file].split()}
    tested = {score.__name__ for score in SCORES} | {name for name, _ in others}
    assert set(metrics.__all__) == tested, "OTHERS needs the file of its tests"
    for name, file in others:
        assert name in (Path(__file__).parent / file).read_text("utf-8"), name


@pytest.fixture
def classes():
    """Queries and a database with classes; 70 bits take two words, one part-full."""
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 2, (4, 70))
    query_labels, labels = rng.integers(0, 4, 30), rng.integers(0, 4, 2500)
    flips = rng.random((30, 70)) < 0.35, rng.random((2500, 70)) < 0.35
    return (
        centers[query_labels] ^ flips[0],
        centers[labels] ^ flips[1],
        query_labels,
        labels,
    )


@pytest.fixture
def indicators(classes):
    """The same codes with several of 70 labels a row: two words of masks."""
    rng = np.random.default_rng(1)
    queries, database, _, _ = classes
    wanted, labels = rng.random((30, 70)) < 0.05, rng.random((2500, 70)) < 0.05
    wanted[:, 0] = labels[0, 0] = True
    return queries, database, wanted.astype(int), labels.astype(int)


def brute_average_precision(queries, database, wanted, labels):
    """Stable order, plain loops over a full matrix."""
    distances = hamming_distances(pack_bits(queries), pack_bits(database))
    scores = []
    for row, label in zip(distances, wanted, strict=True):
        order = np.argsort(row, kind="stable")
        relevant = labels == label if labels.ndim == 1 else (labels @ label) > 0
        ranks = np.flatnonzero(relevant[order]) + 1
        scores.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return scores


@pytest.mark.parametrize("data", ["classes", "indicators"])
def test_average_precision_matches_loops(data, request):
    data = request.getfixturevalue(data)
    values = mean_average_precision_score(*data, ties="index", average=None)
    np.testing.assert_allclose(values, brute_average_precision(*data), rtol=1e-12)


def test_hand_made_table():
    #  distances 0 1 1 2 3, relevance 1 0 1 0 1
    query, labels = [[0, 0, 0]], [1, 0, 1, 0, 1]
    codes = [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    data = (query, codes, [1], labels)
    assert precision_within_radius_score(*data, radius=1) == pytest.approx(2 / 3)
    precision, recall, radii = hamming_precision_recall_curve(*data)
    np.testing.assert_allclose(precision, [1, 2 / 3, 1 / 2, 3 / 5])
    np.testing.assert_allclose(recall, [1 / 3, 2 / 3, 2 / 3, 1])
    assert radii.tolist() == [0, 1, 2, 3]


def test_denominators_differ_only_where_lists_are_cut():
    data = ([[0, 0]], [[0, 0], [0, 1], [1, 1]], [1], [1, 0, 0])
    for normalize in ("min", "relevant", "retrieved"):
        assert mean_average_precision_score(*data, normalize=normalize) == 1
    with pytest.raises(ValueError, match='use ties="index"'):
        mean_average_precision_score(*data, k=2, normalize="retrieved")


@pytest.mark.parametrize("score", SHOWN)
def test_shown_scores_leave_one_out_and_do_not_follow_positions(score, classes):
    _, database, _, labels = classes
    codes, labels = database[:40, :5], labels[:40]
    values = score(codes, codes, labels, labels, exclude_self=True, average=None)
    for i in range(40):
        rest = np.flatnonzero(np.arange(40) != i)[::-1]
        others = codes[rest], labels[[i]], labels[rest]
        alone = score(codes[[i]], *others, average=None)
        assert values[i] == pytest.approx(alone[0], rel=1e-12)


@each("score", SHOWN)
def test_shown_scores_skip_queries_with_nothing_relevant(score):
    data = ([[0, 1], [1, 1]], [[0, 1], [1, 1]], ["a", "z"], ["a", "b"])
    values = score(*data, average=None)
    assert values[0] == score(*data) == 1 and np.isnan(values[1])


@pytest.mark.parametrize("score", [*SCORES, *SHOWN])
@pytest.mark.parametrize("data", ["classes", "indicators"])
def test_chunks_and_threads_do_not_change_a_bit(score, data, request, monkeypatch):
    data = request.getfixturevalue(data)
    reference = score(*data, average=None)
    for budget, n_jobs in [(1, 1), (30_000, 3), (2**24, -1)]:
        monkeypatch.setattr(_counts, "QUERY_CHUNK_BYTES", budget)
        monkeypatch.setattr(_counts, "MIN_THREAD_WORK", 1)
        with joblib.parallel_config(n_jobs=n_jobs):
            values = score(*data, average=None)
        np.testing.assert_array_equal(values, reference)
    assert score(*data) == pytest.approx(np.nanmean(reference), rel=1e-14)


@pytest.mark.parametrize("score", [*SCORES, *SHOWN])
def test_packed_codes_and_other_formats_give_the_same(score, classes):
    queries, database, wanted, labels = classes
    reference = score(*classes)
    assert score(
        pack_bits(queries), pack_bits(database), wanted, labels, packed=True
    ) == pytest.approx(reference, rel=1e-14)
    assert score(queries > 0, database.astype(float), wanted, labels) == reference
    names = np.array(["ant", "bee", "cat", "dog"])
    assert score(queries, database, names[wanted], list(names[labels])) == reference
    objects = names.astype(object)
    assert score(queries, database, objects[wanted], objects[labels]) == reference
    assert score(queries, database, wanted.astype(object), labels) == reference
    one_hot = np.eye(4, dtype=int)
    assert score(queries, database, one_hot[wanted], one_hot[labels]) == reference
    far = np.array([-7, 2**60, 10**6, 0])
    assert score(queries, database, far[wanted], far[labels]) == reference


def test_long_integers_of_two_types_are_told_apart():
    labels = 2**60 + np.arange(3)
    data = np.zeros((3, 1)), np.zeros((3, 1)), labels, labels.astype(np.uint64)
    assert mean_average_precision_score(*data, k=1, ties="best") == 1
    assert precision_within_radius_score(*data) == pytest.approx(1 / 3)


@pytest.mark.parametrize("score", [*SCORES, *SHOWN])
def test_sparse_indicators_give_the_same(score, indicators):
    queries, database, wanted, labels = indicators
    sparse_labels = sparse.csr_array(wanted), sparse.csr_matrix(labels)
    assert score(queries, database, *sparse_labels) == score(*indicators)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("ties", ["expected", "index"])
def test_leave_one_out_is_a_loop_over_the_others(score, ties, classes):
    _, database, _, labels = classes
    codes, labels = database[:40], labels[:40]
    options = {} if score is precision_within_radius_score else {"ties": ties}
    options["average"] = None
    values = score(codes, codes, labels, labels, exclude_self=True, **options)
    for i in range(40):
        rest = np.arange(40) != i
        alone = score(codes[[i]], codes[rest], labels[[i]], labels[rest], **options)
        assert values[i] == pytest.approx(alone[0], rel=1e-12)
    kept = score(codes, codes, labels, labels, **options)
    assert not np.allclose(kept, values)


@each("score", SCORES)
def test_queries_with_nothing_relevant(score):
    data = ([[0, 1], [1, 1]], [[0, 1], [1, 1]], ["a", "z"], ["a", "b"])
    k = {"k": 1} if "k" in score.__annotations__ else {"radius": 0}
    values = score(*data, average=None, **k)
    assert values[0] == 1 and np.isnan(values[1])
    assert score(*data, **k) == 1
    with pytest.warns(UndefinedMetricWarning, match="None of the 2 queries") as record:
        score(data[0], data[1], ["y", "z"], ["a", "b"], **k)
    assert record[0].filename == __file__
    none = np.zeros((2, 3), dtype=int)
    assert np.isnan(score(*data[:2], none, none, average=None, **k)).all()


def test_empty_balls():
    data = ([[0, 0], [1, 1], [0, 0]], [[0, 0], [0, 1]], [1, 1, 3], [1, 1])
    score, coverage = precision_within_radius_score(
        *data, radius=0, return_coverage=True
    )
    assert score == 0.5 and coverage == pytest.approx(2 / 3)
    assert precision_within_radius_score(*data, radius=0, empty_ball="skip") == 1
    values, covered = precision_within_radius_score(
        *data, radius=0, return_coverage=True, average=None
    )
    np.testing.assert_array_equal(values, [1, 0, np.nan])
    np.testing.assert_array_equal(covered, [True, False, True])
    assert precision_within_radius_score(*data, radius=99) == 1


@pytest.mark.parametrize("empty_ball", ["zero", "skip"])
def test_the_curve_goes_through_the_scores_at_each_radius(empty_ball, classes):
    precision, recall, radii = hamming_precision_recall_curve(
        *classes, empty_ball=empty_ball
    )
    assert len(precision) == len(recall) == 71
    assert recall[-1] == 1 and (np.diff(recall) >= 0).all()
    for radius in radii[20:40:5]:
        score = precision_within_radius_score(
            *classes, radius=int(radius), empty_ball=empty_ball
        )
        assert precision[radius] == pytest.approx(score, rel=1e-13)


def test_the_curve_skips_and_warns():
    data = ([[0, 0], [1, 1]], [[0, 1]], [1, 2], [1])
    precision, recall, _ = hamming_precision_recall_curve(*data, empty_ball="skip")
    np.testing.assert_array_equal(precision, [np.nan, 1, 1])
    np.testing.assert_array_equal(recall, [0, 1, 1])
    each = hamming_precision_recall_curve(*data, average=None)
    assert each[0].shape == each[1].shape == (2, 3)
    assert np.isnan(each[0][1]).all() and np.isnan(each[1][1]).all()
    with pytest.warns(UndefinedMetricWarning) as record:
        hamming_precision_recall_curve(data[0], data[1], [3, 3], [1])
    assert {warning.filename for warning in record} == {__file__}


def test_too_many_shared_labels_for_the_exponential_gain():
    labels = np.ones((2, 600), dtype=int)
    data = ([[0, 1], [1, 1]], [[0, 1], [1, 1]], labels, labels)
    assert ndcg_at_k_score(*data) == 1
    with pytest.raises(ValueError, match="share 600 labels, too many"):
        ndcg_at_k_score(*data, gain="exponential")


CODES = [[0, 1], [1, 1]]
BAD = [
    (([[0, 1, 1]], CODES, [1], [1, 2]), {}, "3 bits, but database_codes have 2"),
    (([[0, 9]], CODES, [1], [1, 2]), {}, "got 9"),
    (([0, 1], CODES, [1], [1, 2]), {}, "^query_codes .* Pass a single code as one row"),
    (([1], [1, 2], CODES[:1], CODES), {}, "pass codes before labels"),
    ((CODES, [1, 2], CODES, CODES), {}, "^database_codes"),
    ((np.empty((0, 2)), CODES, [], [1, 2]), {}, "nothing to rank"),
    ((CODES[:1], CODES[:1], [1], [1]), {"exclude_self": True}, "at least 2 of each"),
    ((CODES, CODES, [1], [1, 2]), {}, "each of the 2 query_codes"),
    ((CODES, CODES, [1, 2], [1, 2, 3]), {}, "each of the 2 database_codes"),
    ((CODES, CODES, [1, 2], np.eye(2)), {}, "both as"),
    ((CODES, CODES, [1, 2], ["1", "2"]), {}, "never compare equal"),
    ((CODES, CODES, [1.5, 2], [1, 2]), {}, "got the number 1.5"),
    ((CODES, CODES, [np.nan, 2], [1, 2]), {}, "got the number nan"),
    ((CODES, CODES, [[1], [2]], [1, 2]), {}, r"labels.ravel\(\)"),
    ((CODES, CODES, [[1, 2], [0, 0]], np.eye(2)), {}, "0 and 1, got 2"),
    ((CODES, CODES, [["a", "b"], ["c", "d"]], np.eye(2)), {}, "MultiLabelBinarizer"),
    ((CODES, CODES, np.eye(2), np.ones((2, 3))), {}, "2 columns"),
    ((CODES, CODES, np.array([1, "a"], object), [1, 2]), {}, "never compare|one type"),
    ((CODES[:1], CODES, [1], [1, 2]), {"exclude_self": True}, "same rows; got 1 and 2"),
    ((CODES, CODES, [1, 2], [1, 2]), {"packed": True}, "dtype uint8"),
    ((CODES, CODES, [1, 2], [1, 2]), {"average": "macro"}, "average"),
]


@each("score", SCORES)
@each("data, options, message", BAD)
def test_bad_input_is_named(score, data, options, message):
    with pytest.raises(ValueError, match=message):
        score(*data, **options)


@each("score", [s for s in SCORES if "k" in s.__annotations__])
@each("k", [0, -1, 2.5, 3])
def test_bad_k_is_named(score, k):
    with pytest.raises(ValueError, match=f"k.*{k}"):
        score(CODES, CODES, [1, 2], [1, 2], k=k)
