"""`HashedNeighbors` against its parts, put together by hand."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import polars
import pyarrow
import pytest
from cases import each
from pandas import DataFrame
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    StandardScaler,
    normalize,
)

import skhash
from skhash import AdditiveQuantizer, HashedNeighbors
from skhash.datasets import load_digits_retrieval
from skhash.linear import RandomHyperplaneHash
from skhash.metrics import (
    make_neighbor_recall_scorer,
    make_retrieval_scorer,
    mean_average_precision_score,
    precision_at_k_score,
    true_neighbors,
)
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, _hashed
from skhash.quantization import LinearDecoder
from skhash.utils.arrays import unit_rows
from skhash.utils.chunks import RowView, dense_chunks, row_chunks

ENCODER = RandomHyperplaneHash(21, random_state=0)
QUANTIZER = AdditiveQuantizer(3, n_alternations=1, beam_width=2)
METRICS = "euclidean", "inner_product", "cosine"


@pytest.fixture(scope="module")
def data():
    data = load_digits_retrieval()
    return replace(
        data,
        database=data.database[:400],
        database_labels=data.database_labels[:400],
        query=data.query[:30],
        query_labels=data.query_labels[:30],
    )


def by_vectors(rerank=400, encoder=ENCODER, **params):
    """A search that compares vectors, all of them by default."""
    return HashedNeighbors(encoder, rerank=rerank, vectors=True, **params)


def exact(queries, rows, metric):
    """Return the distances of all pairs, as scikit-learn defines them, in float64."""
    queries, rows = (np.asarray(part, dtype=float) for part in (queries, rows))
    if metric == "inner_product":
        return -queries @ rows.T
    if metric == "cosine":
        return 1 - normalize(queries) @ normalize(rows).T
    return np.linalg.norm(queries[:, None] - rows, axis=2)


@each("metric", METRICS)
@each("encoder", [1, make_pipeline(PCA(12), QUANTIZER)])
def test_bytes_are_those_of_a_quantizer(data, encoder, metric):
    """Step by step, the same."""
    search = HashedNeighbors(encoder, metric=metric).fit(data.database[:350])
    search.partial_fit(data.database[350:])
    rows, queries = data.database, data.query
    if metric == "cosine":
        rows, queries = normalize(rows), normalize(queries)
    by_hand = AdditiveQuantizer(1) if encoder == 1 else clone(encoder)
    by_hand.fit(rows[:350])
    parts = rows[:350], rows[350:]
    codes = np.concatenate([by_hand.transform(part) for part in parts])
    quantizer, arguments = by_hand, {}
    if encoder != 1:
        rows, queries = map(by_hand[0].transform, (rows, queries))
        quantizer = by_hand[1]
    if metric == "euclidean":
        decoded = quantizer.inverse_transform(codes).astype(float)
        arguments["errors"] = np.square(rows - decoded).sum(axis=1)
    index = AsymmetricNeighbors(metric=metric, packed=True)
    index.fit(codes, decoder=quantizer, **arguments)
    np.testing.assert_array_equal(search.index_.packed_codes_, codes)
    assert_same_neighbors(search.kneighbors(data.query), index.kneighbors(queries))


def assert_same_neighbors(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)


@each("metric", METRICS)
def test_an_encoders_bits_may_be_searched_by_uncompressed_queries(data, metric):
    """Its codes stay as they are."""
    rows, queries = data.database, data.query
    search = HashedNeighbors(ENCODER, metric=metric, index=AsymmetricNeighbors())
    search.fit(rows)
    if metric == "cosine":
        rows, queries = normalize(rows), normalize(queries)
    bits = clone(ENCODER).fit_transform(rows)
    decoder = LinearDecoder().fit(rows, bits)
    errors = decoder.reconstruction_error(rows, bits)
    arguments = {"errors": errors} if metric == "euclidean" else {}
    index = AsymmetricNeighbors(metric=metric).fit(bits, decoder=decoder, **arguments)
    assert_same_neighbors(search.kneighbors(data.query), index.kneighbors(queries))


@each("metric", METRICS)
@each("encoder", [QUANTIZER, make_pipeline(PCA(12), ENCODER)])
def test_the_nearest_codes_are_reranked(data, encoder, metric):
    search = by_vectors(30, encoder, metric=metric)
    search.fit(data.database[:300]).partial_fit(data.database[300:])
    by_codes = HashedNeighbors(encoder, n_neighbors=30, metric=metric)
    by_codes.fit(data.database[:300]).partial_fit(data.database[300:])
    mask = np.random.default_rng(0).random(400) < 0.7
    for options in ({}, {"mask": mask}):
        few = by_codes.kneighbors(data.query, return_distance=False, **options)
        scores = np.full((30, 400), np.inf)
        values = exact(data.query, data.database, metric)
        np.put_along_axis(scores, few, np.take_along_axis(values, few, 1), 1)
        expected = np.argsort(scores, axis=1, kind="stable")[:, :5]
        distances, found = search.kneighbors(data.query, **options)
        np.testing.assert_array_equal(found, expected)
        values = np.take_along_axis(scores, found, 1)
        np.testing.assert_allclose(distances, values, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="rerank=30 must be at least n_neighbors=31"):
        search.kneighbors(data.query, 31)


@each(
    "params, message",
    [
        ({"rerank": 10}, "rerank=10 and vectors=None do not go together"),
        ({"vectors": True}, "rerank=None and vectors=True"),
        ({"index": AsymmetricNeighbors(metric="cosine")}, "metric='cosine', and the"),
        ({"encoder": 2, "index": HammingNeighbors()}, "no Hamming distances"),
        ({"encoder": 0}, "'encoder' parameter"),
        ({"metric": "manhattan"}, "'metric' parameter"),
    ],
)
def test_parameters_that_do_not_go_together(data, params, message):
    search = HashedNeighbors(ENCODER).fit(data.database)
    before = search.kneighbors(data.query)
    with pytest.raises(ValueError, match=message):
        clone(search).set_params(**params).fit(data.database)
    with pytest.raises(ValueError, match=message):
        search.set_params(**params).fit(data.database[:50])
    params = {"encoder": ENCODER, "rerank": None, "vectors": None, "index": None}
    search.set_params(**params, metric="euclidean")  # all or nothing
    np.testing.assert_array_equal(search.kneighbors(data.query), before)
    search.rerank = 10
    with pytest.raises(ValueError, match="fit it with vectors=True"):
        search.kneighbors(data.query)


@each("encoder", [2, ENCODER])
def test_a_score_needs_labels(data, encoder):
    X, y = data.query, data.query_labels
    for labels, asked in [(None, None), (None, y), (y, None)]:
        search = HashedNeighbors(encoder).fit(X, labels)
        with pytest.raises(ValueError, match="needs labels.*neighbor_recall_scorer"):
            search.score(X, asked)


def test_the_score_of_codes(data):
    search = HashedNeighbors(ENCODER).fit(data.database, data.database_labels)
    expected = mean_average_precision_score(
        *map(search.encoder_.transform, (data.query, data.database)),
        data.query_labels,
        data.database_labels,
    )
    assert search.score(data.query, data.query_labels) == expected
    scorer = make_retrieval_scorer()
    assert scorer(search, data.query, data.query_labels) == expected
    search.set_params(index=skhash.neighbors.JaccardNeighbors())
    search.fit(data.database, data.database_labels)
    expected = search.index_.score(search._encode(data.query), data.query_labels)
    assert search.score(data.query, data.query_labels) == expected


@each("rerank", [None, np.int8(40)])
@each("labels", ["classes", "several"])
def test_the_score_is_that_of_what_is_found(data, labels, rerank):
    y, query_labels = data.database_labels, data.query_labels
    if labels == "several":
        y, query_labels = (
            np.column_stack([np.eye(70, dtype=int)[7 * own], own % 2])
            for own in (y, query_labels)
        )
    search = HashedNeighbors(QUANTIZER, rerank=rerank, vectors=bool(rerank))
    search.fit(data.database, y if labels == "classes" else sparse.csc_array(y))
    search.remove([3, 5])
    k = rerank or len(y) - 2
    found = search.kneighbors(data.query, k, return_distance=False)
    live, expected = search.index_.live_, []
    for own, positions in zip(query_labels, found, strict=True):
        relevant = y == own if y.ndim == 1 else (y & own).any(axis=1)
        hits, precisions = 0, []
        for rank, position in enumerate(positions, 1):
            hits += relevant[position]
            precisions += [hits / rank] * int(relevant[position])
        expected.append(sum(precisions) / min(relevant[live].sum(), k))
    score = search.score(data.query, query_labels)
    assert score == pytest.approx(np.mean(expected))
    scorer = make_retrieval_scorer()
    assert scorer(search, data.query, query_labels) == score
    behind = make_pipeline(FunctionTransformer(np.negative), search)
    assert scorer(behind, -data.query, query_labels) == score


@each("kind", ["coo", "csc"])
def test_the_score_of_sparse_queries(data, kind):
    search = HashedNeighbors(ENCODER, index=AsymmetricNeighbors())
    search.fit(data.database, data.database_labels)
    expected = search.score(data.query, data.query_labels)
    for make in sparse.csr_array, sparse.csr_matrix:
        rows = make(data.query).asformat(kind)
        assert search.score(rows, data.query_labels) == pytest.approx(expected)


@each("removed", [[], [3, 5]])
@each("vectors", [False, True])
@each("several", [False, True])
def test_rows_of_the_index_leave_themselves_out(data, several, vectors, removed):
    X, y = data.database[:120], data.database_labels[:120]
    y = np.column_stack([np.eye(10, dtype=int)[y], y % 2]) if several else y
    rerank = 30 if vectors else None
    search = HashedNeighbors(QUANTIZER, rerank=rerank, vectors=vectors).fit(X, y)
    search.remove(removed)
    rest = np.delete(np.arange(len(X)), removed)
    expected = []
    for i in rest:
        others = np.setdiff1d(rest, [i])
        relevant = (y[i] & y).any(axis=1) if several else y == y[i]
        k = 30 if vectors else len(others)
        found = search.kneighbors(X[[i]], k, ids=others, return_distance=False)[0]
        precisions = np.cumsum(relevant[found]) / np.arange(1, k + 1)
        most = min(relevant[others].sum(), k)
        expected.append((precisions * relevant[found]).sum() / most)
    scorer = make_retrieval_scorer()
    assert scorer(search, X[rest], y[rest]) == pytest.approx(np.mean(expected))
    assert search.score(X[rest], y[rest]) > np.mean(expected)


@each("front", [None, StandardScaler()])
@each("rerank", [None, 30, 15])
def test_neighbor_recall_is_that_of_the_search(data, front, rerank):
    params = {"metric": "cosine", "rerank": rerank, "vectors": bool(rerank)}
    search = make_pipeline(front, HashedNeighbors(QUANTIZER, **params))
    search.fit(data.database)
    X = data.train[-200:]
    rows = X if front is None else search[:-1].transform(X)
    frozen = FrozenEstimator(search[-1].encoder_)
    by_hand = clone(search[-1]).set_params(encoder=frozen).fit(rows)
    k = min(20, rerank or 20)
    found = by_hand.kneighbors(rows, k, exclude_self=True, return_distance=False)
    truth = true_neighbors(X, n_neighbors=10, metric="cosine")
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)]
    recall = make_neighbor_recall_scorer(n_retrieved=k)  # the metric is the search's
    assert recall(search, X) == pytest.approx(np.mean(shares))
    assert search[-1].index_.n_samples_fit_ == len(data.database)  # as before


@each("scoring", ["labels", "neighbors"])
def test_scorers_see_encoder_and_index(data, scoring):
    """The same numbers as a Pipeline of the two, whatever is in front of them."""
    X, y = data.database, data.database_labels
    scorer = {
        "labels": make_retrieval_scorer(precision_at_k_score, k=5),
        "neighbors": make_neighbor_recall_scorer(n_retrieved=20),
    }[scoring]
    index = HammingNeighbors()
    plain = make_pipeline(StandardScaler(), ENCODER, index)
    values = cross_val_score(plain, X, y, cv=2, scoring=scorer)
    for search in (
        HashedNeighbors(make_pipeline(StandardScaler(), ENCODER), index=index),
        make_pipeline(StandardScaler(), HashedNeighbors(ENCODER)),
    ):
        found = cross_val_score(search, X, y, cv=2, scoring=scorer)
        np.testing.assert_allclose(found, values, rtol=1e-12)
    scaled = FrozenEstimator(plain[:2].fit(X))
    assert scorer(HashedNeighbors(scaled).fit(X, y), X, y) == scorer(
        plain.fit(X, y), X, y
    )


def test_decoded_codes_have_no_vectors_to_ask_for(data):
    search = HashedNeighbors(QUANTIZER).fit(data.database)
    with pytest.raises(ValueError, match="X=None asks for .* exclude_self=True"):
        search.kneighbors()
    own = search.kneighbors(data.database, exclude_self=True)
    expected = search.index_.kneighbors(data.database, exclude_self=True)
    np.testing.assert_array_equal(own, expected)


@each("metric", METRICS)
def test_queries_are_encoded_only_where_their_codes_are_compared(data, metric):
    """An encoder that cannot encode is seen there, and nowhere else."""
    decoded = HashedNeighbors(ENCODER, index=AsymmetricNeighbors()).fit(data.database)
    ranked = by_vectors(20).fit(data.database)
    expected = decoded.kneighbors(data.query)
    for search in (decoded, ranked):
        del search.encoder_.components_
    np.testing.assert_array_equal(decoded.kneighbors(data.query), expected)
    named = DataFrame(data.database).add_prefix("pixel")
    decoded.set_params(metric=metric).fit(named)
    for X, message in (
        (named.iloc[:, 1:], "names"),
        (named[named.columns[::-1]], "names"),
        (pyarrow.table(named[named.columns[::-1]]), "names"),
        (data.query[:, 1:], "has 63 features"),
        (data.query[0], "2D"),
    ):
        with pytest.raises(ValueError, match=message):
            decoded.kneighbors(X)
    with pytest.raises(NotFittedError):
        ranked.kneighbors(data.query)
    with pytest.raises(NotFittedError):
        AsymmetricNeighbors().replace(data.query > 0, ids=range(30))
    with pytest.raises(NotFittedError):
        skhash.neighbors.JaccardNeighbors().score(data.query > 0)


def test_fitted_rows_of_known_codes_have_the_names_of_the_fit(data):
    named = DataFrame(data.database).add_prefix("pixel")
    search = by_vectors(20).fit(named)
    with pytest.raises(ValueError, match="names"):
        search.kneighbors(named[named.columns[::-1]], exclude_self=True)
    frozen = FrozenEstimator(clone(ENCODER).fit(named))
    for rows in (named[named.columns[::-1]], named.iloc[:, 1:]):
        with pytest.raises(ValueError, match="names"):
            HashedNeighbors(frozen, metric="cosine").fit(rows)


@each("frame", [DataFrame, polars.DataFrame])
@pytest.mark.filterwarnings("error")
def test_an_encoder_of_a_frame_gets_scaled_rows_with_their_names(frame, data):
    found = []
    for make in (np.asarray, lambda X: frame({str(i): x for i, x in enumerate(X.T)})):
        frozen = FrozenEstimator(clone(ENCODER).fit(make(data.database)))
        search = HashedNeighbors(frozen, metric="cosine").fit(make(data.database))
        found.append(search.kneighbors(make(data.query))[1])
    np.testing.assert_array_equal(*found)


def test_the_number_of_threads_may_change_after_the_fit(data):
    asked = []

    class Telling(HammingNeighbors):
        def kneighbors(self, *args, **options):
            asked.append(self.n_jobs)
            return super().kneighbors(*args, **options)

    search = by_vectors(20, index=Telling(n_jobs=2), n_jobs=4).fit(data.database)
    for n_jobs in (4, 1, None):
        search.set_params(n_jobs=n_jobs).kneighbors(data.query)
    assert asked == [4, 1, 2]


@each("form", [DataFrame, np.ndarray.tolist])
@each("metric", METRICS)
def test_rows_of_unit_length_in_frames_and_lists(data, form, metric):
    rows = unit_rows(data.database.astype(np.float64))
    with_frames = make_pipeline(Normalizer(), QUANTIZER).set_output(transform="pandas")
    for encoder in (QUANTIZER, with_frames):
        search = HashedNeighbors(encoder, metric=metric)
        expected = search.fit(rows).kneighbors(rows[:9])
        found = search.fit(form(rows)).kneighbors(rows[:9])
        np.testing.assert_array_equal(found, expected)


@each("index", [None, HammingNeighbors(), AsymmetricNeighbors(4)])
def test_its_own_number_of_neighbors_comes_first(data, index):
    search = HashedNeighbors(ENCODER, index=index, n_neighbors=4).fit(data.database)
    found = (search.kneighbors(data.query, n)[1] for n in (None, 4))
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match="'n_neighbors' parameter"):
        clone(search).set_params(n_neighbors=0).fit(data.database)
    other = clone(search).set_params(index=HammingNeighbors(3))
    with pytest.raises(ValueError, match="n_neighbors=3, and the search 4; set Hash"):
        other.fit(data.database)
    with pytest.raises(ValueError, match="NearestNeighbors.* is no index of codes"):
        other.set_params(index=NearestNeighbors()).fit(data.database)


@each("metric", ["euclidean", "inner_product"])
def test_directions_are_not_mixed_with_lengths(data, metric):
    rows = normalize(data.database)
    rows[3] = 0
    search = HashedNeighbors(2, metric=metric).fit(rows)
    search.partial_fit(rows[:9]).partial_fit(rows[3:4])
    before = search.kneighbors(rows)
    with pytest.raises(ValueError, match="to unit length, or fit again with metric="):
        search.partial_fit(7 * rows[:9])
    np.testing.assert_array_equal(search.kneighbors(rows), before)


def test_nothing_keeps_an_encoder_whose_search_is_gone(data):
    frozen = FrozenEstimator(clone(ENCODER).fit(data.train))
    HashedNeighbors(frozen).fit(data.database).kneighbors(data.query)
    kept = weakref.ref(frozen.estimator)
    del frozen
    gc.collect()
    assert kept() is None


def test_a_fitted_quantizer_stays_as_it_is(data, monkeypatch, capsys):
    quantizer = clone(QUANTIZER).fit(data.train)
    expected = HashedNeighbors(QUANTIZER).fit(data.train).kneighbors(data.query)
    monkeypatch.setattr(AdditiveQuantizer, "fit", None)
    search = HashedNeighbors(FrozenEstimator(quantizer), verbose=True).fit(data.train)
    np.testing.assert_array_equal(search.kneighbors(data.query), expected)
    steps = capsys.readouterr().out.splitlines()
    assert [line.split(": ", 1)[1] for line in steps] == [
        "encoder, AdditiveQuantizer as it is",
        "codes of all rows",
        "done",
    ]


def test_a_copy_of_the_vectors_is_kept(data):
    X = data.database.copy()
    search = HashedNeighbors(ENCODER, rerank=20, vectors=np.True_).fit(X)
    expected = search.kneighbors(data.query)
    X[:] = 0
    np.testing.assert_array_equal(search.kneighbors(data.query), expected)


@pytest.fixture
def file(data, tmp_path):
    np.save(tmp_path / "vectors.npy", data.database)
    return tmp_path / "vectors.npy"


def test_another_file_of_vectors_is_refused(data, file, tmp_path):
    search = by_vectors(50).set_params(vectors=str(file))
    with pytest.raises(ValueError, match="has 400 rows, but X has 399"):
        search.fit(data.database[1:])
    assert not hasattr(search, "encoder_")
    other = data.database.copy()
    other[7] *= 1.01
    with pytest.raises(ValueError, match="other rows than X, in rows 0 to 399"):
        search.fit(other)
    search.fit(data.database).save(tmp_path / "index")
    np.save(file, other)
    with pytest.raises(ValueError, match="changed since it was indexed"):
        skhash.load(tmp_path / "index")
    later = skhash.load(tmp_path / "index", mmap=True)
    with pytest.raises(ValueError, match="changed since it was indexed"):
        later.kneighbors(data.query)
    skhash.load(tmp_path / "index", verify=False)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*vectors\.npy"):
        skhash.load(tmp_path / "index")


@each("make", [lambda encoder: encoder, FrozenEstimator])
def test_vectors_are_scaled_where_they_are_read(make, monkeypatch):
    """No copy of all is made for the cosine, and the codes are those of such a copy."""
    for chunks in (row_chunks, dense_chunks):
        monkeypatch.setattr(chunks, "__defaults__", (10**5,))
    X = np.random.default_rng(0).normal(size=(3000, 30)).astype(np.float32)
    X[7] = 0
    options = {"n_alternations": 0, "beam_width": 1, "max_train_samples": 600}
    encoder = AdditiveQuantizer(1, **options).fit(unit_rows(X[:600]))
    sizes, scale = [], _hashed.unit_rows

    def note(rows):
        sizes.append(len(rows))
        return scale(rows)

    monkeypatch.setattr(_hashed, "unit_rows", note)
    search = HashedNeighbors(make(encoder), metric="cosine").fit(X)
    assert sum(sizes) >= len(X) > max(sizes)
    codes = search.encoder_.transform(unit_rows(X))
    np.testing.assert_array_equal(search.index_.packed_codes_, codes)
    assert search.kneighbors(X[:1], 1, ids=[7])[0] == 1  # a right angle


def test_a_number_that_is_none_is_found_before_the_fit():
    """Also in a row that is not in the sample of the fit."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    for value in (np.nan, np.inf):
        for row in range(0, 300, 60):
            wrong = X.copy()
            wrong[row, 1] = value
            encoder = AdditiveQuantizer(1, max_train_samples=20)
            with pytest.raises(ValueError, match="X contains"):
                encoder.fit(RowView(wrong, prepare=unit_rows))
            with pytest.raises(ValueError, match="X contains"):
                HashedNeighbors(encoder, metric="cosine").fit(wrong)
