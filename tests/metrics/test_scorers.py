"""Scorers within scikit-learn's searches, on encoders, pipelines and indexes."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from cases import each
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skhash import AdditiveQuantizer, metrics
from skhash.codes import pack_bits
from skhash.metrics import (
    hamming_distance_histogram,
    hamming_precision_recall_curve,
    make_neighbor_recall_scorer,
    make_retrieval_scorer,
    mean_average_precision_score,
    ndcg_at_k_score,
    neighbor_recall_score,
    precision_at_k_score,
    retrieval_scorer,
    true_neighbors,
)
from skhash.neighbors import (
    AsymmetricNeighbors,
    HammingNeighbors,
    HashedNeighbors,
    JaccardNeighbors,
)
from skhash.utils import chunks

# Every public scorer; those that are made, as they are by default.
SCORERS = {
    name: getattr(metrics, name)() if name.startswith("make_") else vars(metrics)[name]
    for name in metrics.__all__
    if name.endswith("_scorer")
}


class Signs(TransformerMixin, BaseEstimator):
    """Signs of random projections."""

    def __init__(self, n_bits=8, packed=False):
        self.n_bits = n_bits
        self.packed = packed

    def fit(self, X, y=None, sample_weight=None):
        self.mean_ = np.asarray(X.mean(axis=0)).ravel()
        rng = np.random.default_rng(0)
        self.planes_ = rng.normal(size=(X.shape[1], self.n_bits))
        self.weighted_ = sample_weight is not None
        return self

    def transform(self, X):
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        bits = ((X - self.mean_) @ self.planes_ > 0).astype(np.uint8)
        return pack_bits(bits) if self.packed else bits

    def get_feature_names_out(self, input_features=None):
        return np.array([f"bit{i}" for i in range(self.n_bits)], dtype=object)


class Index(TransformerMixin, BaseEstimator):
    """The attributes by which a scorer knows an index; `transform` gives no codes."""

    def __init__(self, packed=False):
        self.packed = packed

    def fit(self, X, y=None):
        self.packed_codes_ = X if self.packed else pack_bits(X)
        self.y_ = y
        return self

    def kneighbors(self, X):
        raise AssertionError("a scorer has no need to search")

    def transform(self, X):
        raise AssertionError("a scorer wants codes and not a graph")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_encoder_is_scored_leave_one_out_in_the_fold(digits):
    X, y = digits
    encoder, cv = Signs(16), KFold(3)
    results = cross_validate(encoder, X, y, cv=cv, scoring=retrieval_scorer)
    for score, (train, test) in zip(results["test_score"], cv.split(X), strict=True):
        codes = clone(encoder).fit(X[train]).transform(X[test])
        own = mean_average_precision_score(
            codes, codes, y[test], y[test], exclude_self=True
        )
        assert score == pytest.approx(own)


def test_pipeline_ending_in_an_encoder_is_scored_the_same_way(digits):
    X, y = digits
    plain = cross_validate(Signs(16), X / 4, y, scoring=retrieval_scorer, cv=3)
    scale = FunctionTransformer(lambda rows: rows / 4)
    pipeline = make_pipeline(scale, Signs(16), "passthrough")
    piped = cross_validate(pipeline, X, y, scoring=retrieval_scorer, cv=3)
    np.testing.assert_allclose(piped["test_score"], plain["test_score"])


@each("make_index", [Index, HammingNeighbors])
def test_pipeline_ending_in_an_index_is_scored_against_the_training_fold(
    digits, make_index
):
    X, y = digits
    pipeline, cv = make_pipeline(StandardScaler(), Signs(16), make_index()), KFold(3)
    scorer = make_retrieval_scorer(precision_at_k_score, k=20)
    results = cross_validate(pipeline, X, y, cv=cv, scoring=scorer)
    for score, (train, test) in zip(results["test_score"], cv.split(X), strict=True):
        encoder = make_pipeline(StandardScaler(), Signs(16)).fit(X[train])
        codes = encoder.transform(X[test]), encoder.transform(X[train])
        own = precision_at_k_score(*codes, y[test], y[train], k=20)
        assert score == pytest.approx(own)


def test_scores_of_the_training_rows_leave_each_row_out(digits):
    X, y = digits
    pipeline = make_pipeline(Signs(16), Index()).fit(X, y)
    score = retrieval_scorer(pipeline, X, y)
    codes = pipeline[0].transform(X)
    assert score == mean_average_precision_score(codes, codes, y, y, exclude_self=True)
    assert score < mean_average_precision_score(codes, codes, y, y)
    other = y.copy()
    other[0] += 1
    moved = mean_average_precision_score(codes, codes, other, y)
    assert retrieval_scorer(pipeline, X, other) == moved
    assert retrieval_scorer(Signs(16).fit(X), X, y) == score


def test_index_alone_and_packed_codes(digits):
    X, y = digits
    codes = Signs(16).fit(X).transform(X)
    queries, database = (codes[:100], y[:100]), (codes[100:], y[100:])
    own = mean_average_precision_score(codes[:100], codes[100:], y[:100], y[100:])
    assert retrieval_scorer(Index().fit(*database), *queries) == own
    assert retrieval_scorer(make_pipeline(Index()).fit(*database), *queries) == own
    padded = make_pipeline("passthrough", Index()).fit(*database)
    assert retrieval_scorer(padded, *queries) == own
    packed = make_pipeline(Signs(16, packed=True), Index(packed=True))
    packed.fit(X, y)
    packed[-1].fit(pack_bits(codes[100:]), y[100:])
    assert retrieval_scorer(packed, X[:100], y[:100]) == own


def test_data_frames_and_several_labels(digits):
    X, y = digits
    encoder = Signs(16).set_output(transform="pandas")
    frame = pd.DataFrame(X)
    indicator = np.column_stack([np.eye(10, dtype=int)[y], y % 2])
    score = make_retrieval_scorer(ndcg_at_k_score, k=10, gain="exponential")
    plain = score(Signs(16).fit(X), X, indicator)
    assert score(encoder.fit(frame), frame, indicator) == pytest.approx(plain)
    pipeline = make_pipeline(Signs(16), Index()).fit(X, indicator)
    assert score(pipeline, X, indicator) == pytest.approx(plain)
    assert retrieval_scorer(encoder, frame, pd.Series(y)) == retrieval_scorer(
        encoder, frame, y
    )


def test_nested_search_is_scored_by_its_best(digits):
    X, y = digits
    search = GridSearchCV(
        make_pipeline(Signs(), Index()), {"signs__n_bits": [4, 16]},
        scoring=retrieval_scorer, cv=2,
    )  # fmt: skip
    cv = KFold(2)
    nested = cross_validate(search, X, y, scoring=retrieval_scorer, cv=cv)
    plain = make_pipeline(Signs(16), Index())
    plain = cross_validate(plain, X, y, scoring=retrieval_scorer, cv=cv)
    np.testing.assert_array_equal(nested["test_score"], plain["test_score"])


def test_sample_weight_reaches_fit_and_not_the_scorer(digits):
    X, y = digits
    with warnings.catch_warnings():
        # scikit-learn says so from 1.7 on
        warnings.filterwarnings("ignore", ".*sample_weight", UserWarning)
        search = GridSearchCV(
            Signs(), {"n_bits": [4]}, cv=2, refit="map", error_score="raise",
            scoring={"map": retrieval_scorer, "recall": make_neighbor_recall_scorer()},
        ).fit(X, y, sample_weight=np.ones(len(X)))  # fmt: skip
    assert search.best_estimator_.weighted_


@each("several", [False, True])
def test_metadata_routing_does_not_break(digits, routing, several):
    X, y = digits
    recall = make_neighbor_recall_scorer(n_neighbors=5, n_retrieved=20)
    scoring = {"map": retrieval_scorer, "recall": recall}
    search = GridSearchCV(
        Signs().set_fit_request(sample_weight=True),
        {"n_bits": [4, 16]},
        scoring=scoring if several else retrieval_scorer,
        refit="map" if several else True,
        cv=2,
        error_score="raise",
    )
    search.fit(X, y, sample_weight=np.ones(len(X)))
    assert search.best_params_ == {"n_bits": 16}
    assert search.score(X, y) == retrieval_scorer(search.best_estimator_, X, y)


@each("name", SCORERS)
def test_every_scorer_keeps_the_contract(digits, name):
    """A number, the more the better, with or without an index or other rows."""
    X, y = digits
    scorer = SCORERS[name]
    coarse, fine = Signs(2).fit(X), Signs(32).fit(X)
    assert isinstance(scorer(fine, X, y), float)
    assert 0 <= scorer(coarse, X, y) < scorer(fine, X, y) <= 1
    pipeline = make_pipeline(Signs(32), Index()).fit(X, y)
    assert scorer(pipeline, X, y) == scorer(fine, X, y)
    for copied in [clone(scorer), pickle.loads(pickle.dumps(scorer))]:
        assert repr(copied) == repr(scorer)
        assert copied(fine, X, y) == scorer(fine, X, y)
    assert name.removeprefix("make_") in repr(scorer)
    search = GridSearchCV(fine, {"n_bits": [1]}, scoring=scorer)
    assert repr(clone(search).scoring) == repr(scorer)
    assert not isinstance(scorer, BaseEstimator)
    results = cross_validate(fine, X, y, scoring={name: scorer}, cv=2)
    assert np.isfinite(results[f"test_{name}"]).all()


@each("make", [make_retrieval_scorer, make_neighbor_recall_scorer])
def test_a_scorer_that_was_not_made_is_one_error(digits, make):
    X, y = digits
    message = rf"pass scoring={make.__name__}\(\), with \(\)"
    for scoring in (make, {"own": make}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match=message):
                cross_validate(Signs(), X, y, scoring=scoring, cv=2)


def recall(codes, X, n_neighbors=5, n_retrieved=20):
    truth = true_neighbors(X, n_neighbors=n_neighbors)
    return neighbor_recall_score(
        codes, codes, truth, n_retrieved=n_retrieved, exclude_self=True
    )


def test_neighbor_recall_asks_the_space_of_the_input(digits):
    X, _ = digits
    scorer = make_neighbor_recall_scorer(n_neighbors=5, n_retrieved=20)
    pipeline = make_pipeline(StandardScaler(), PCA(4), Signs(16)).fit(X)
    codes = pipeline.transform(X)
    reduced = pipeline[:-1].transform(X)
    assert scorer(pipeline, X) == recall(codes, X)
    for frame in (pd.DataFrame, partial(pd.DataFrame, dtype=object), pl.DataFrame):
        assert scorer(pipeline, frame(X)) == recall(codes, X)
    # The same fitted steps: a second fit may differ in rounding, and so in a bit.
    steps = [step for _, step in pipeline.steps]
    index = Index().fit(codes)
    indexed = make_pipeline(*steps, index)
    for searched in (indexed, make_pipeline(*steps, "passthrough", index)):
        assert scorer(searched, X) == pytest.approx(recall(codes, X))
    assert recall(codes, X) != recall(codes, reduced)
    encoder = Signs(16).fit(X)
    assert scorer(encoder, X) == recall(encoder.transform(X), X)


def test_neighbor_recall_of_texts_asks_the_space_of_the_encoder():
    rng = np.random.default_rng(0)
    words = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"])
    texts = [" ".join(words[rng.integers(0, 8, 12)]) for _ in range(90)]
    pipeline = make_pipeline(TfidfVectorizer(), Signs(16), Index()).fit(texts)
    vectors = pipeline[0].transform(texts)
    own = recall(pipeline[:-1].transform(texts), vectors.toarray())
    scorer = make_neighbor_recall_scorer(n_neighbors=5, n_retrieved=20)
    for rows in (texts, pd.Series(texts), pl.Series(texts), np.array(texts)):
        assert scorer(pipeline, rows) == pytest.approx(own)
    column = make_pipeline(FunctionTransformer(np.ravel), *pipeline)
    for frame in (pd.DataFrame({"text": texts}), pl.DataFrame({"text": texts})):
        assert scorer(column, frame) == pytest.approx(own)
    results = cross_validate(
        pipeline, texts, cv=3, error_score="raise",
        scoring=make_neighbor_recall_scorer(n_neighbors=2, n_retrieved=5),
    )  # fmt: skip
    assert (results["test_score"] > 0).all()


def test_neighbor_recall_passes_the_metric_on(digits):
    X, _ = digits
    encoder = Signs(16).fit(X)
    values = {
        make_neighbor_recall_scorer(n_retrieved=20, metric=metric)(encoder, X)
        for metric in ["euclidean", "cosine", "inner_product", None]
    }
    assert len(values) == 3
    with pytest.raises(ValueError, match="metric='cosin' is not one of euclidean, cos"):
        make_neighbor_recall_scorer(metric="cosin")


def test_what_cannot_be_scored_is_named(digits):
    X, y = digits
    encoder = Signs(4).fit(X)
    with pytest.raises(ValueError, match="needs labels, but y is None.*true neigh"):
        retrieval_scorer(encoder, X)
    with pytest.raises(ValueError, match="Index was fitted without labels"):
        retrieval_scorer(make_pipeline(Signs(4), Index()).fit(X), X, y)
    with pytest.raises(TypeError, match="KFold: it has no transform"):
        retrieval_scorer(KFold(), X, y)
    with pytest.raises(ValueError, match="0 and 1 only"):
        retrieval_scorer(StandardScaler().fit(X), X, y)
    with pytest.raises(ValueError, match="n_retrieved=100 is more than the 49"):
        make_neighbor_recall_scorer()(encoder, X[:50])
    index = Index().fit(encoder.transform(X), y)
    for alone in [index, make_pipeline(index)]:
        with pytest.raises(TypeError, match="has only codes"):
            make_neighbor_recall_scorer()(alone, X)


@each(
    "score_func, options, error, message",
    [
        ("map", {}, TypeError, "callable, got 'map'"),
        (neighbor_recall_score, {}, TypeError, "use make_neighbor_recall_scorer"),
        (hamming_precision_recall_curve, {}, TypeError, "use precision_within"),
        (hamming_distance_histogram, {}, TypeError, "use separability_score"),
        (precision_at_k_score, {"k": [1, 2]}, ValueError, r"number k, got k=\[1, 2\]"),
        (
            precision_at_k_score,
            {"packed": True, "exclude_self": False},
            ValueError,
            r"scorer itself sets \['exclude_self', 'packed'\]",
        ),
    ],
)
def test_bad_scorers_are_named(score_func, options, error, message):
    with pytest.raises(error, match=message):
        make_retrieval_scorer(score_func, **options)


@each("index", [HammingNeighbors(), AsymmetricNeighbors()])
def test_codes_of_a_search_by_cosine_are_those_of_scaled_rows(digits, index):
    X, y = digits
    X = X * np.random.default_rng(0).lognormal(size=(len(X), 1))
    search = HashedNeighbors(Signs(16), metric="cosine", index=index)
    scorer = make_retrieval_scorer(precision_at_k_score, k=20)
    for behind in (search, make_pipeline(StandardScaler(with_mean=False), search)):
        behind.fit(X[:400], y[:400])
        by_hand = make_pipeline(Normalizer(), Signs(16), Index())
        if behind is not search:
            by_hand.steps.insert(0, ("scale", StandardScaler(with_mean=False)))
        by_hand.fit(X[:400], y[:400])
        for rows in (slice(400), slice(400, 600)):
            assert scorer(behind, X[rows], y[rows]) == scorer(by_hand, X[rows], y[rows])


def test_codes_without_hamming_distances_are_refused(digits):
    """A search by them is scored by what it finds."""
    X, y = (part[:120] for part in digits)
    quantizer = AdditiveQuantizer(2, n_alternations=1, beam_width=1)
    search = HashedNeighbors(quantizer).fit(X, y)
    piped = HashedNeighbors(make_pipeline(StandardScaler(), quantizer)).fit(X, y)
    for scored in (search, piped, make_pipeline(FunctionTransformer(), search)):
        assert 0 < retrieval_scorer(scored, X, y) < 1
        assert 0 < make_neighbor_recall_scorer()(scored, X) <= 1
    encoder = search.encoder_
    index = HammingNeighbors(packed=True).fit(encoder.transform(X), y)
    asked = make_retrieval_scorer(precision_at_k_score, k=5)
    alone = encoder, make_pipeline(StandardScaler(), encoder)
    for scorer, scored in [
        *((asked, one) for one in (search, piped)),
        *((SCORERS[name], one) for name in SCORERS for one in alone),
        (retrieval_scorer, make_pipeline(encoder, index)),
    ]:
        with pytest.raises(ValueError, match="Codes of AdditiveQuantizer cannot"):
            scorer(scored, X, y)


def test_a_search_that_compares_vectors_is_scored_by_them(digits):
    X, y = (part[:200] for part in digits)
    search = HashedNeighbors(Signs(4), rerank=199, vectors=True).fit(X[:150], y[:150])
    expected = search.score(X[150:], y[150:])
    assert retrieval_scorer(search, X[150:], y[150:]) == expected
    assert make_neighbor_recall_scorer(n_neighbors=10, n_retrieved=199)(search, X) == 1
    assert make_neighbor_recall_scorer(n_neighbors=10, n_retrieved=10)(search, X) == 1
    with pytest.raises(ValueError, match="n_retrieved=200 .*rerank=199 "):
        make_neighbor_recall_scorer(n_neighbors=10, n_retrieved=200)(search, X)
    by_codes = HashedNeighbors(Signs(4)).fit(X[:150], y[:150])
    assert retrieval_scorer(by_codes, X[150:], y[150:]) < expected - 0.1
    score = retrieval_scorer(by_codes, X[:150], y[:150])
    columns = sparse.csr_array(np.eye(10, dtype=int)[y[:150]])
    by_codes.fit(X[:150], columns)
    assert retrieval_scorer(by_codes, X[:150], columns) == score


def test_an_index_with_other_distances_is_scored_by_them(monkeypatch):
    """Mean average precision of scikit-learn's Jaccard distances, sorted stably."""
    n_asked, asked = [], JaccardNeighbors.kneighbors

    def counted(self, X, *arguments, **options):
        n_asked.extend(np.shape(X)[:1])
        return asked(self, X, *arguments, **options)

    monkeypatch.setattr(JaccardNeighbors, "kneighbors", counted)
    # Some rows at a time: there is no array with a cell for each pair.
    monkeypatch.setattr(chunks.row_chunks, "__defaults__", (2**16,))
    rng = np.random.default_rng(0)
    codes, labels = rng.random((90, 12)) < 0.4, rng.integers(3, size=90)
    steps = make_pipeline(FunctionTransformer(), JaccardNeighbors())
    search = steps.fit(codes[:60], labels[:60])
    of_rows = HashedNeighbors(FunctionTransformer(), index=JaccardNeighbors())
    of_rows.fit(codes[:60], labels[:60])
    distances = pairwise_distances(codes, codes[:60], "jaccard")
    for rows, n_found in ((slice(60), 59), (slice(60, 90), 60)):
        if n_found == 59:  # each row is in the index, and left out
            np.fill_diagonal(distances, np.inf)
        order = np.argsort(distances[rows], axis=1, kind="stable")[:, :n_found]
        hits = labels[order] == labels[rows, None]
        precisions = np.cumsum(hits, axis=1) / np.arange(1, n_found + 1)
        means = (precisions * hits).sum(axis=1) / hits.sum(axis=1)
        for scored in (search, of_rows):
            score = make_retrieval_scorer()(scored, codes[rows], labels[rows])
            assert score == pytest.approx(means.mean())
    assert max(n_asked) < 12
    assert (
        make_neighbor_recall_scorer(n_neighbors=10, n_retrieved=89)(of_rows, codes) == 1
    )
    for other in (make_retrieval_scorer(k=5), make_neighbor_recall_scorer()):
        with pytest.raises(ValueError, match="not that of JaccardNeighbors"):
            other(search, codes, labels)
