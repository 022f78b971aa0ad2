"""Recall that an audit expects among more vectors, against plain computations."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise_distances

import skhash
from skhash.auditing import texts
from skhash.auditing.growth import Growth, measure_growth

N, K, N_FOUND = 800, 3, 7
OPTIONS = {"n_bits": [8], "methods": ["lsh"], "n_neighbors": K, "device": "cpu"}


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)


@pytest.mark.parametrize("n", [30, 5000, 10**9])
def test_the_angle_is_linear_in_the_logarithm(n):
    start, slope = 0.2, 0.07
    sizes = np.array([40, 900, 20_000])
    angles = start + slope * np.log([*sizes, n])
    found = Growth(sizes.tolist(), np.cos(angles[:-1]) ** 2, n)
    expected = np.cos(min(angles[-1], np.pi / 2)) ** 2
    assert found.expected == pytest.approx(expected)


def test_of_all_recalls_one_the_expected_is_one():
    assert Growth([10, 30, 100], [1.0, 1.0, 1.0], 10**6).expected == pytest.approx(1)


@pytest.mark.parametrize("n_vectors, is_rough", [(1000, False), (1001, True)])
@pytest.mark.parametrize("target, is_below", [(0.975, True), (0.9, False)])
def test_rough_estimates_and_those_below_the_target_are_named(
    n_vectors, is_rough, target, is_below
):
    growth = Growth([10, 30, 100], [0.99, 0.98, 0.97], n_vectors)
    assert 0.9 < growth.expected < 0.97
    told = SimpleNamespace(settings={"target_recall": target}, growth=growth)
    assert ("rough estimate" in texts.caution(told)) == is_rough
    assert (f"below the target of {100 * target:g}%" in texts.caution(told)) == is_below


@pytest.mark.parametrize("rerank", [None, N_FOUND])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("most", [100_000, 300])
def test_vectors_that_were_not_fitted_are_searched(
    X, rerank, metric, most, monkeypatch
):
    monkeypatch.setattr("skhash.auditing.growth.MAX_TRAIN_ROWS", most)
    asked = []

    def recorded(encoder, task, n_vectors, generator):
        asked.append((task, generator.get_state()))
        return measure_growth(encoder, task, n_vectors, generator)

    monkeypatch.setattr("skhash.auditing.run.measure_growth", recorded)
    options = {**OPTIONS, "methods": ["itq"], "metric": metric, "rerank": rerank}
    options |= {"n_bits": [5], "n_vectors": 5000}
    result = skhash.audit(X, **options)
    task, state = asked[0]
    rows, queries = task.data.database, task.data.queries
    generator = np.random.RandomState()
    generator.set_state(state)
    order = generator.permutation(len(rows))
    n_fitted = min(round(0.8 * len(rows)), most)
    sizes = [13, 38, 128] if most > 640 else [34, 102, 340]
    encoder = clone(result.encoder).fit(rows[order[:n_fitted]])
    recalls = []
    for size in sizes:
        found_in = rows[order[n_fitted:][:size]]
        truth = np.argsort(pairwise_distances(queries, found_in), axis=1)[:, :K]
        codes = encoder.transform(queries), encoder.transform(found_in)
        distances = pairwise_distances(*codes, metric="cityblock")
        best = np.argsort(distances, axis=1, kind="stable")[:, : rerank or K]
        pairs = zip(truth, best, strict=True)
        recalls.append(np.mean([np.isin(*pair).mean() for pair in pairs]))
    assert result.growth.sizes == sizes
    np.testing.assert_allclose(result.growth.recalls, recalls)
    assert result.growth.n_vectors == 5000
    report = json.loads(json.dumps(result.to_dict()))["growth"]
    assert report["expected"] == result.growth.expected
    assert report["recalls"] == result.growth.recalls
    assert f"expect {report['expected']:.1%}" in result.to_html()


def test_without_a_number_nothing_is_measured(X, monkeypatch):
    monkeypatch.setattr("skhash.auditing.run.measure_growth", None)
    result = skhash.audit(X, **OPTIONS)
    assert result.growth is None and result.to_dict()["growth"] is None
    assert "--n-vectors N" in texts.caution(result)
    part = skhash.audit(X, **OPTIONS, sample=150)
    assert f"--n-vectors {N}" in texts.caution(part)


def test_too_few_vectors_for_parts_of_a_fifth(X):
    with pytest.raises(ValueError, match="n_vectors=9 .* 650 .* 13 .* 640.* rerank"):
        skhash.audit(X, **OPTIONS, rerank=13, n_vectors=9)
    result = skhash.audit(X, **OPTIONS, rerank=12, n_vectors=np.int64(9))
    assert json.loads(json.dumps(result.to_dict()))["growth"]["n_vectors"] == 9


@pytest.mark.parametrize("fall", [0.0, 0.1, 0.2, 0.3, 1.0])
def test_the_choice_is_the_least_memory_that_reaches_the_target(X, fall, monkeypatch):
    """All recalls fall by one angle; the best row, measured by all of them."""

    def among_more(recall):
        return np.cos(min(np.arccos(np.sqrt(recall)) + fall, np.pi / 2)) ** 2

    def fallen(encoder, task, n_vectors, generator):
        (row,) = (row for row in rows if row.n_bits == encoder.n_bits)
        asked.append(row)
        recall = among_more(row.recall_reranked)
        return Growth([1, 2, 4], [recall] * 3, n_vectors)

    options = {**OPTIONS, "n_bits": [1, 2, 3, 5, 8, 16, 32, 64], "rerank": 9}
    options |= {"target_recall": 0.5}
    rows, asked = skhash.audit(X, **options).rows, []
    monkeypatch.setattr("skhash.auditing.run.measure_growth", fallen)
    result = skhash.audit(X, **options, n_vectors=10**6)
    recalls = {row.n_bits: among_more(row.recall_reranked) for row in rows}
    able = [n for n in recalls if recalls[n] >= 0.5] or [max(recalls, key=recalls.get)]
    assert result.recommended.n_bits == min(able)
    assert result.growth.expected == pytest.approx(recalls[min(able)])
    assert len({row.n_bits for row in asked}) == len(asked) <= 3
    is_reached = max(recalls.values()) >= 0.5
    assert result.reason.startswith("the least memory" if is_reached else "the best")
    assert ("among 1,000,000 vectors" in result.reason) == (len(asked) > 1)
    assert result.choice.memory(10**6) == 10**6 * result.recommended.bytes_per_vector
