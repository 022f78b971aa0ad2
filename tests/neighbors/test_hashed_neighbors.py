"""`HashedNeighbors` against its parts, put together by hand."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from decoded import numbers_of, rounded, scores_of_decoded
from pandas import DataFrame
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    StandardScaler,
    normalize,
)

from skhash import AdditiveQuantizer, HashedNeighbors, PCAHash, SGHEncoder
from skhash.codes import pack_bits
from skhash.datasets import load_digits_retrieval
from skhash.linear import RandomHyperplaneHash
from skhash.metrics import (
    make_neighbor_recall_scorer,
    make_retrieval_scorer,
    mean_average_precision_score,
    precision_at_k_score,
    true_neighbors,
)
from skhash.neighbors import (
    AsymmetricNeighbors,
    HammingNeighbors,
    PrefixNeighbors,
    asymmetric_scores,
)
from skhash.quantization import LinearDecoder

ENCODER = RandomHyperplaneHash(21, random_state=0)
SGH = SGHEncoder(21, max_epochs=1, random_state=0)
REFINER = LinearDecoder(n_alternations=1, n_restarts=2)


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


def by_vectors(k=5, **params):
    """A search that compares the real vectors."""
    index = AsymmetricNeighbors(k, **params)
    return HashedNeighbors(ENCODER, index, keep_vectors=True)


@pytest.mark.parametrize("index", [None, HammingNeighbors(7), PrefixNeighbors(4)])
def test_without_reranking_it_is_encoding_and_search(data, index):
    encoder = RandomHyperplaneHash(200, random_state=0).fit(data.database)
    by_hand = clone(index or HammingNeighbors()).fit(encoder.transform(data.database))
    search = HashedNeighbors(encoder, index).fit(data.database)
    expected = by_hand.kneighbors(encoder.transform(data.query))
    np.testing.assert_array_equal(search.kneighbors(data.query), expected)
    fewer = search.kneighbors(data.query, 2, return_distance=False)
    np.testing.assert_array_equal(fewer, expected[1][:, :2])
    assert search.encoder_ is not encoder and search.index_ is not index


def test_all_candidates_by_vectors_are_the_true_neighbors(data):
    search = by_vectors().fit(data.database)
    expected = true_neighbors(data.query, data.database, 5)
    np.testing.assert_array_equal(search.kneighbors(data.query)[1], expected)
    own = true_neighbors(data.database, n_neighbors=5)
    np.testing.assert_array_equal(search.kneighbors()[1], own)


@pytest.mark.parametrize("front", [FunctionTransformer(), PCA(12)])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_decoder_is_that_of_the_encoder(data, normalize, front):
    """A codebook of the last step is in its space, and so are the queries."""
    encoder = SGHEncoder(21, max_epochs=1, normalize=normalize, random_state=0)
    encoder = make_pipeline(front, encoder) if isinstance(front, PCA) else encoder
    search = HashedNeighbors(encoder, AsymmetricNeighbors(), decoder="encoder")
    search.fit(data.database)
    front = clone(front).fit(data.database)
    rows, queries = map(front.transform, (data.database, data.query))
    fitted = search.encoder_[-1] if isinstance(front, PCA) else search.encoder_
    scores = asymmetric_scores(queries, fitted.transform(rows), fitted)
    expected = np.argsort(scores, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(search.kneighbors(data.query)[1], expected)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "cosine"])
@pytest.mark.parametrize("n_candidates", [None, 60])
def test_by_default_it_fits_a_decoder(data, metric, n_candidates):
    """Candidates by Hamming distance need codes near those of the encoder."""
    index = AsymmetricNeighbors(metric=metric, n_candidates=n_candidates)
    search = HashedNeighbors(ENCODER, index).fit(data.database)
    encoder = clone(ENCODER).fit(data.database)
    decoder = LinearDecoder(n_alternations=1)
    if n_candidates is None:
        decoder = AdditiveQuantizer(-(-encoder.n_bits // 8))
    decoder.fit(data.database, encoder.transform(data.database))

    def coded(rows):
        if n_candidates is None:
            codes = told = decoder.transform(rows)
        else:
            told = decoder.refine(rows, encoder.transform(rows))
            codes = pack_bits(told)
        errors = decoder.reconstruction_error(rows, told)
        return {"X": codes, "errors": errors} if metric == "euclidean" else {"X": codes}

    by_hand = clone(index).set_params(packed=True)
    by_hand.fit(**coded(data.database), decoder=decoder)
    by_hand.partial_fit(**coded(data.database[:50] + 1))
    search.partial_fit(data.database[:50] + 1)
    queries = encoder.transform_packed(data.query)
    expected = by_hand.kneighbors(data.query, codes=queries)
    np.testing.assert_array_equal(search.kneighbors(data.query), expected)


@pytest.mark.parametrize("decoder", [None, REFINER])
@pytest.mark.parametrize("encoder", [ENCODER, SGH], ids=["random", "SGH"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_codes_decode_to_the_rows_that_the_encoder_sees(data, encoder, decoder, metric):
    """The same as scaling rows before, wherever they are scaled."""
    norms = np.random.default_rng(0).lognormal(size=len(data.database))[:, None]
    X, query = data.database * norms, data.query * norms[: len(data.query)]
    index = AsymmetricNeighbors(metric=metric)
    by_hand = HashedNeighbors(encoder, index, decoder=decoder)
    scores, expected = by_hand.fit(normalize(X)).kneighbors(normalize(query))
    own = by_hand.kneighbors(normalize(X), own=True, return_distance=False)
    within = clone(encoder).set_params(normalize=True)
    frozen = FrozenEstimator(clone(within).fit(X))
    steps = make_pipeline(Normalizer(), encoder)
    for same in (within, frozen, steps, make_pipeline("passthrough", within)):
        search = HashedNeighbors(same, index, decoder=decoder).fit(X)
        found = search.kneighbors(query)
        np.testing.assert_allclose(found[0], scores, rtol=1e-3, atol=1e-5)
        assert (found[1] == expected).mean() > 0.98  # the rest are ties of rounding
        positions = search.kneighbors(X, own=True, return_distance=False)
        assert (positions == own).mean() > 0.98


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
    assert not hasattr(HashedNeighbors(ENCODER, PrefixNeighbors()), "score")


@pytest.mark.parametrize("n_candidates", [None, 40])
@pytest.mark.parametrize("labels", ["classes", "several"])
def test_the_score_is_that_of_what_is_found(data, labels, n_candidates):
    y, query_labels = data.database_labels, data.query_labels
    if labels == "several":
        y, query_labels = (
            np.column_stack([np.eye(70, dtype=int)[7 * own], own % 2])
            for own in (y, query_labels)
        )
    index = AsymmetricNeighbors(n_candidates=n_candidates)
    search = HashedNeighbors(ENCODER, index).fit(data.database, y)
    search.remove([3, 5])
    k = n_candidates or len(y) - 2
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


@pytest.mark.parametrize("kind", ["bsr", "coo", "csc", "dia", "dok", "lil"])
def test_the_score_of_sparse_queries(data, kind):
    search = HashedNeighbors(ENCODER, AsymmetricNeighbors())
    search.fit(data.database, data.database_labels)
    expected = search.score(data.query, data.query_labels)
    for make in sparse.csr_array, sparse.csr_matrix:
        rows = make(data.query).asformat(kind)
        assert search.score(rows, data.query_labels) == pytest.approx(expected)


@pytest.mark.parametrize("removed", [[], [3, 5]])
@pytest.mark.parametrize("keep_vectors", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_rows_of_the_index_leave_themselves_out(data, several, keep_vectors, removed):
    X, y = data.database[:120], data.database_labels[:120]
    y = np.column_stack([np.eye(10, dtype=int)[y], y % 2]) if several else y
    index = AsymmetricNeighbors(n_candidates=30 if keep_vectors else None)
    search = HashedNeighbors(ENCODER, index, keep_vectors=keep_vectors).fit(X, y)
    search.remove(removed)
    rest = np.delete(np.arange(len(X)), removed)
    expected = []
    for i in rest:
        others = np.setdiff1d(rest, [i])
        relevant = (y[i] & y).any(axis=1) if several else y == y[i]
        k = 30 if keep_vectors else len(others)
        found = search.kneighbors(X[[i]], k, ids=others, return_distance=False)[0]
        precisions = np.cumsum(relevant[found]) / np.arange(1, k + 1)
        most = min(relevant[others].sum(), k)
        expected.append((precisions * relevant[found]).sum() / most)
    scorer = make_retrieval_scorer()
    assert scorer(search, X[rest], y[rest]) == pytest.approx(np.mean(expected))
    assert search.score(X[rest], y[rest]) > np.mean(expected)


@pytest.mark.parametrize("front", [None, StandardScaler()])
@pytest.mark.parametrize("n_candidates", [None, 30, 15])
def test_neighbor_recall_is_that_of_the_search(data, front, n_candidates):
    index = AsymmetricNeighbors(metric="cosine", n_candidates=n_candidates)
    params = {"keep_vectors": True, "decoder": REFINER} if n_candidates else {}
    search = make_pipeline(front, HashedNeighbors(ENCODER, index, **params))
    search.fit(data.database)
    X = data.train[-200:]
    rows = X if front is None else search[:-1].transform(X)
    parts = {"encoder": FrozenEstimator(search[-1].encoder_)}
    parts["decoder"] = FrozenEstimator(search[-1].decoder_)
    by_hand = clone(search[-1]).set_params(**parts).fit(rows)
    k = min(20, n_candidates or 20)
    found = by_hand.kneighbors(rows, k, own=True, return_distance=False)
    truth = true_neighbors(X, n_neighbors=10, metric="cosine")
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)]
    recall = make_neighbor_recall_scorer(10, 20, metric="cosine")
    assert recall(search, X) == pytest.approx(np.mean(shares))
    assert search[-1].index_.n_samples_fit_ == len(data.database)  # as before


@pytest.mark.parametrize("scoring", ["labels", "neighbors"])
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
        HashedNeighbors(make_pipeline(StandardScaler(), ENCODER), index),
        make_pipeline(StandardScaler(), HashedNeighbors(ENCODER)),
    ):
        found = cross_val_score(search, X, y, cv=2, scoring=scorer)
        np.testing.assert_allclose(found, values, rtol=1e-12)
    scaled = FrozenEstimator(plain[:2].fit(X))
    assert scorer(HashedNeighbors(scaled).fit(X, y), X, y) == scorer(
        plain.fit(X, y), X, y
    )


def test_a_grid_search_over_the_encoder(data):
    search = GridSearchCV(
        HashedNeighbors(PCAHash()),
        {"encoder__n_bits": [2, 16]},
        scoring=make_retrieval_scorer(),
        cv=2,
    ).fit(data.database, data.database_labels)
    assert search.best_params_ == {"encoder__n_bits": 16}
    scores = search.cv_results_["mean_test_score"]
    assert 0.1 < scores[0] < scores[1] < 1


def test_asymmetric_neighbors_of_the_fitted_vectors(data):
    search = HashedNeighbors(ENCODER, AsymmetricNeighbors()).fit(data.database)
    with pytest.raises(ValueError, match="X=None asks for .* own=True"):
        search.kneighbors()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search.kneighbors(data.query, own=True)
    scores, positions = search.kneighbors(data.database, 6)
    own = search.kneighbors(data.database, own=True)
    for i in range(len(data.database)):
        other = positions[i] != i
        np.testing.assert_array_equal(own[1][i], positions[i][other][:5])
        np.testing.assert_array_equal(own[0][i], scores[i][other][:5])


@pytest.mark.parametrize("by", ["codes", "decoder", "vectors"])
def test_rows_are_added_and_the_encoder_stays(data, by):
    encoder = clone(ENCODER).fit(data.train)
    frozen = FrozenEstimator(encoder)
    index = AsymmetricNeighbors(5, n_candidates=20)
    index = HammingNeighbors(5) if by == "codes" else index
    search = HashedNeighbors(frozen, index, keep_vectors=by == "vectors")
    search.partial_fit(data.database[:250])
    search.partial_fit(data.database[250:251]).partial_fit(data.database[251:])
    assert search.encoder_ is frozen
    arguments, codes = {}, encoder.transform(data.database)
    if by == "vectors":
        arguments["vectors"] = data.database
    if by == "decoder":  # it is that of the first call
        decoder = LinearDecoder(n_alternations=1)
        arguments["decoder"] = decoder.fit(data.database[:250], codes[:250])
        codes = decoder.refine(data.database, codes)
        arguments["errors"] = decoder.reconstruction_error(data.database, codes)
    by_hand = clone(index).fit(codes, **arguments)
    question = {"X": encoder.transform(data.query)}
    if by != "codes":
        question = {"X": data.query, "codes": question["X"]}
    expected = by_hand.kneighbors(**question)
    np.testing.assert_array_equal(search.kneighbors(data.query), expected)
    radius = expected[0][0, -1]
    expected = by_hand.radius_neighbors(**question, radius=radius)
    found = search.radius_neighbors(data.query, radius)
    for own, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.hstack(own), np.hstack(theirs))
        assert list(map(len, own)) == list(map(len, theirs))


def test_queries_are_encoded_only_where_their_codes_are_compared(data):
    """An encoder that cannot encode is seen there, and nowhere else."""
    decoded = HashedNeighbors(ENCODER, AsymmetricNeighbors(5)).fit(data.database)
    ranked = by_vectors(n_candidates=20).fit(data.database)
    expected = decoded.kneighbors(data.query)
    for search in (decoded, ranked):
        del search.encoder_.components_
    np.testing.assert_array_equal(decoded.kneighbors(data.query), expected)
    named = DataFrame(data.database).add_prefix("pixel")
    decoded.fit(named)
    for X, message in (
        (named.iloc[:, 1:], "names"),
        (named[named.columns[::-1]], "names"),
        (data.query[:, 1:], "has 63 features"),
        (data.query[0], "2D"),
    ):
        with pytest.raises(ValueError, match=message):
            decoded.kneighbors(X)
    with pytest.raises(NotFittedError):
        ranked.kneighbors(data.query)


def test_ids_and_filters_reach_the_index(data):
    names = np.array([f"digit {i}" for i in range(400)])
    search = by_vectors()
    search.partial_fit(data.database[:100], ids=names[:100])
    search.partial_fit(data.database[100:], ids=names[100:])
    _, positions = search.kneighbors(data.query)
    found = search.kneighbors(data.query, return_distance=False, return_ids=True)
    np.testing.assert_array_equal(found, names[positions])
    mask = np.arange(400) % 2 == 0
    even = search.kneighbors(data.query, return_distance=False, mask=mask)
    expected = 2 * true_neighbors(data.query, data.database[::2], 5)
    np.testing.assert_array_equal(even, expected)
    found = search.remove(names[1::2]).kneighbors(data.query, return_distance=False)
    np.testing.assert_array_equal(found, even)
    found = search.compact().kneighbors(data.query, return_distance=False)
    np.testing.assert_array_equal(2 * found, even)


def test_graphs_are_those_of_the_neighbors(data):
    search = by_vectors().fit(data.database)
    distances, positions = search.kneighbors(data.query)
    graph = search.kneighbors_graph(data.query, mode="distance")
    np.testing.assert_array_equal(graph.indices.reshape(positions.shape), positions)
    np.testing.assert_array_equal(graph.data.reshape(positions.shape), distances)
    own = search.kneighbors_graph()
    np.testing.assert_array_equal(own.indices.reshape(400, 5), search.kneighbors()[1])
    assert search.transform(data.query).nnz == 30 * 6


@pytest.mark.parametrize("kind", [HammingNeighbors, AsymmetricNeighbors])
def test_text_in_a_pipeline(kind):
    words = ["hash", "code", "bit", "near", "far", "query", "index"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 6)) for _ in range(60)]
    search = make_pipeline(TfidfVectorizer(), HashedNeighbors(ENCODER, kind(3)))
    search.fit(texts)
    X = search[:-1].transform(texts)
    assert sparse.issparse(X)
    encoder = clone(ENCODER).fit(X)
    bits = encoder.transform(X)
    if kind is HammingNeighbors:
        expected = HammingNeighbors(3).fit(bits).kneighbors(bits)[1]
    else:
        quantizer = AdditiveQuantizer(-(-bits.shape[1] // 8)).fit(X)
        index = AsymmetricNeighbors(3, packed=True)
        index.fit(quantizer.transform(X), decoder=quantizer)
        expected = index.kneighbors(X)[1]
    np.testing.assert_array_equal(search[-1].kneighbors(X)[1], expected)
    inside = HashedNeighbors(make_pipeline(TfidfVectorizer(), ENCODER), kind(3))
    np.testing.assert_array_equal(inside.fit(texts).kneighbors(texts)[1], expected)


@pytest.mark.parametrize("index", [None, HammingNeighbors(3), AsymmetricNeighbors(3)])
def test_its_own_number_of_neighbors_comes_first(data, index):
    search = HashedNeighbors(ENCODER, index, n_neighbors=4).fit(data.database)
    found = (search.kneighbors(data.query, n)[1] for n in (None, 4))
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match="'n_neighbors' parameter"):
        clone(search).set_params(n_neighbors=0).fit(data.database)


def test_clones_pickles_and_parameters(data):
    search = by_vectors(n_candidates=100)
    search.set_params(encoder__n_bits=30, index__n_neighbors=2).fit(data.database)
    expected = search.kneighbors(data.query)
    assert expected[1].shape[1] == 2 and search.encoder_.n_bits == 30
    copied = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(copied.kneighbors(data.query), expected)
    with pytest.raises(NotFittedError):
        clone(search).kneighbors(data.query)


def test_a_memory_map_stays_one(data, tmp_path):
    np.save(tmp_path / "vectors.npy", data.database)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    search = by_vectors().fit(mapped)
    assert np.shares_memory(search.index_._store["vectors"], mapped)


def test_a_fitted_encoder_stays_as_it_is(data, monkeypatch, capsys):
    encoder, decoder = clone(ENCODER).fit(data.train), clone(REFINER)
    decoder.fit(data.train, encoder.transform(data.train))
    expected = HashedNeighbors(encoder, AsymmetricNeighbors(), decoder=decoder)
    expected = expected.fit(data.train)
    for cls in (RandomHyperplaneHash, LinearDecoder):
        monkeypatch.setattr(cls, "fit", None)
    frozen = {"encoder": FrozenEstimator(encoder), "decoder": FrozenEstimator(decoder)}
    search = HashedNeighbors(**frozen, index=AsymmetricNeighbors(), verbose=True)
    search.fit(data.train)
    answers = (one.kneighbors(data.query) for one in (search, expected))
    np.testing.assert_array_equal(*answers)
    steps = capsys.readouterr().out.splitlines()
    assert [line.split(": ", 1)[1] for line in steps] == [
        "encoder, RandomHyperplaneHash as it is",
        "decoder of the codes",
        "codes of all rows",
        "done",
    ]


@pytest.fixture
def file(data, tmp_path):
    np.save(tmp_path / "vectors.npy", data.database)
    return tmp_path / "vectors.npy"


@pytest.mark.parametrize(
    "params",
    [{}, {"decoder": REFINER}, {"decoder": REFINER, "encoder__normalize": True}],
    ids=["codes", "decoder", "cosine"],
)
def test_a_file_of_vectors_is_used_where_it_lies(data, file, tmp_path, params):
    by_copy = clone(by_vectors(n_candidates=50)).set_params(**params)
    by_copy.set_params(index__metric="cosine" if len(params) > 1 else "euclidean")
    by_file = clone(by_copy).set_params(keep_vectors=file).fit(data.database)
    expected = by_copy.fit(data.database).kneighbors(data.query)

    def check(search):
        scores, positions = search.kneighbors(data.query)
        np.testing.assert_array_equal(positions, expected[1])
        np.testing.assert_allclose(scores, expected[0], rtol=1e-3, atol=1e-6)

    check(by_file)
    # Less than with the vectors, by nearly their bytes.
    without = len(pickle.dumps(by_copy)) - 0.8 * data.database.nbytes
    pickled = pickle.dumps(by_file)
    assert len(pickled) < without
    check(pickle.loads(pickled))
    folder = tmp_path / "index"
    by_file.save(folder)
    (saved,) = folder.iterdir()
    assert saved.stat().st_size < without
    for options in ({}, {"mmap": True}):
        check(HashedNeighbors.load(folder, **options))
    by_file.partial_fit(data.database[:3]).save(folder)
    assert saved.stat().st_size > without  # no longer those of the file
    by_file.remove([400, 401, 402])
    check(by_file)


def test_another_file_of_vectors_is_refused(data, file, tmp_path):
    search = by_vectors(n_candidates=50).set_params(keep_vectors=str(file))
    with pytest.raises(ValueError, match="has 400 rows, and X 399"):
        search.fit(data.database[1:])
    assert not hasattr(search, "encoder_")
    other = data.database.copy()
    other[7] *= 1.01
    with pytest.raises(ValueError, match="other rows than X, .* in rows 0 to 399"):
        search.fit(other)
    search.fit(data.database).save(tmp_path / "index")
    np.save(file, other)
    with pytest.raises(ValueError, match="is not what it was when it was indexed"):
        HashedNeighbors.load(tmp_path / "index")
    later = HashedNeighbors.load(tmp_path / "index", mmap=True)
    with pytest.raises(ValueError, match="is not what it was when it was indexed"):
        later.kneighbors(data.query)
    HashedNeighbors.load(tmp_path / "index", verify=False)
    np.save(file, other[1:])
    with pytest.raises(ValueError, match=r"vectors\.npy has 399 rows"):
        HashedNeighbors.load(tmp_path / "index", verify=False)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*vectors\.npy"):
        HashedNeighbors.load(tmp_path / "index")
    with pytest.raises(FileNotFoundError, match=r"no file .*vectors\.npy"):
        search.fit(other)


def test_codes_are_refined_for_the_search(data):
    X, encoder = data.database, PCAHash(16)
    refiner = LinearDecoder(n_alternations=3, n_restarts=4)
    search = HashedNeighbors(encoder, AsymmetricNeighbors(10), decoder=refiner)
    search.fit(X[:300]).partial_fit(X[300:])
    # Step by step, the same.
    encoder = clone(encoder).fit(X[:300])
    decoder = clone(refiner).fit(X[:300], encoder.transform(X[:300]))
    np.testing.assert_array_equal(search.decoder_.codebook_, decoder.codebook_)
    refined = decoder.refine(X, encoder.transform(X))
    errors = 0.25 * decoder.reconstruction_error(X, refined)
    decoded = decoder.inverse_transform(refined)
    task = data.query, decoded, decoder.offset_, "euclidean"
    numbers = numbers_of(decoded, decoder.offset_, False, errors)
    numbers = rounded(numbers, decoder.distance_bits_)
    scores = scores_of_decoded(*task, numbers=numbers)
    found = search.kneighbors(data.query)[1]
    np.testing.assert_array_equal(
        found, np.argsort(scores, axis=1, kind="stable")[:, :10]
    )


@pytest.mark.parametrize("params", [{"decoder": REFINER}, {"keep_vectors": True}])
def test_what_compares_vectors_needs_an_asymmetric_search(data, params):
    (name,) = params
    with pytest.raises(ValueError, match=f"{name} says .* HammingNeighbors compares"):
        HashedNeighbors(ENCODER, **params).fit(data.database)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("encoder", [ENCODER, make_pipeline(PCA(12), ENCODER)])
def test_a_decoder_finds_candidates_that_are_compared_by_vectors(data, encoder, metric):
    index = AsymmetricNeighbors(5, metric=metric, n_candidates=30)
    search = HashedNeighbors(encoder, index, decoder=REFINER, keep_vectors=True)
    search.fit(data.database[:300]).partial_fit(data.database[300:])
    by_codes = AsymmetricNeighbors(30, metric=metric)
    by_codes = HashedNeighbors(encoder, by_codes, decoder=REFINER)
    by_codes.fit(data.database[:300]).partial_fit(data.database[300:])
    candidates = by_codes.kneighbors(data.query, return_distance=False)
    rows, queries = data.database, data.query
    if encoder is not ENCODER:
        rows, queries = map(search.encoder_[0].transform, (rows, queries))
    scores, positions = search.kneighbors(data.query)
    for query, few, own, found in zip(
        queries, candidates, scores, positions, strict=True
    ):
        few = np.sort(few)
        if metric == "euclidean":
            exact = np.square(rows[few].astype(float) - query).sum(axis=1)
        else:
            exact = 1 - normalize(rows[few]) @ normalize(query[None])[0]
        order = np.argsort(exact, kind="stable")[:5]
        np.testing.assert_array_equal(found, few[order])
        np.testing.assert_allclose(own, exact[order], rtol=1e-4, atol=1e-6)
    own = search.kneighbors(data.database, own=True, return_distance=False)
    assert (own != np.arange(len(data.database))[:, None]).all()
    with pytest.raises(ValueError, match="says how many: set its n_candidates"):
        search.set_params(index__n_candidates=None).fit(data.database)
