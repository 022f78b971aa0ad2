"""`skhash.audit` against plain computations on the rows that it says it drew."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from skhash._audit import _clock, _data, _measure, _peers, _run
from skhash._audit._measure import AuditRow, bit_statistics
from skhash._audit._result import SEARCHES, choices_of, make_result
from sklearn.base import clone

import skhash

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

N, D = 160, 10
FAST = {"n_bits": [8], "methods": ["lsh"], "k": 4, "rescore": 20, "device": "cpu"}
PEER_METHODS = ["lsh", "pq", "rabitq"]


@pytest.fixture(autouse=True)
def timed_once(monkeypatch):
    """Results do not depend on how often the audit takes the time."""
    monkeypatch.setattr(_measure, "TIMED_SECONDS", 0.0)


@pytest.fixture
def X():
    generator = np.random.default_rng(0)
    centers = 3 * generator.standard_normal((8, D))
    noise = generator.standard_normal((N, D))
    return (centers[generator.integers(8, size=N)] + noise).astype(np.float32)


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(3, size=N)


@pytest.fixture
def drawn(monkeypatch):
    """Return a list that collects the splits of audits."""
    splits = []

    def split_rows(*arguments):
        splits.append(_data.split_rows(*arguments))
        return splits[-1]

    monkeypatch.setattr(_run, "split_rows", split_rows)
    return splits


def float_order(queries, database, metric="euclidean"):
    """Return the database's rows for each query, the nearest first."""
    queries, database = queries.astype(np.float64), database.astype(np.float64)
    if metric == "euclidean":
        keys = ((queries[:, None] - database) ** 2).sum(axis=2)
    elif metric == "cosine":
        norms = np.outer(
            np.linalg.norm(queries, axis=1), np.linalg.norm(database, axis=1)
        )
        keys = -(queries @ database.T) / norms
    else:
        keys = -(queries @ database.T)
    return np.argsort(keys, axis=1, kind="stable")


def hamming(encoder, queries, database):
    q, d = encoder.transform(queries), encoder.transform(database)
    return (q[:, None] != d).sum(axis=2)


def measured(result):
    """Return the rows without their times."""
    return [
        {
            name: value
            for name, value in vars(row).items()
            if "second" not in name and name not in ("method", "n_bits")
        }
        for row in result.rows
    ]


class TestRecall:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    def test_both_recalls_over_random_orders_of_ties(self, X, drawn, metric):
        result = skhash.audit(X, metric=metric, **FAST)
        (data,), (row,) = drawn, result.rows
        order = float_order(data.queries, data.database, metric)
        distances = hamming(result.encoder, data.queries, data.database)
        generator = np.random.default_rng(0)
        alone, rescored = [], []
        for _ in range(300):
            noise = generator.random(distances.shape)
            ranked = np.argsort(distances + noise, axis=1)
            for query, found in enumerate(ranked):
                truth = order[query, :4]
                alone.append(np.isin(found[:4], truth).mean())
                # Re-scoring: the candidates in the order of their float distances.
                candidates = set(found[:20])
                best = [item for item in order[query] if item in candidates][:4]
                rescored.append(np.isin(best, truth).mean())
        assert row.recall == pytest.approx(np.mean(alone), abs=0.01)
        assert row.recall_rescored == pytest.approx(np.mean(rescored), abs=0.01)

    def test_long_codes_query_by_query(self, X, drawn):
        # So many bits that ties are few; a tied one counts by its chance here.
        result = skhash.audit(X, **{**FAST, "n_bits": [4096]})
        (data,) = drawn
        order = float_order(data.queries, data.database)
        distances = hamming(result.encoder, data.queries, data.database)
        alone, values = (
            [
                expected_hits(row, nearest[:4], cut) / 4
                for row, nearest in zip(distances, order, strict=True)
            ]
            for cut in (4, 20)
        )
        assert result.rows[0].recall == pytest.approx(np.mean(alone))
        assert result.rows[0].recall_rescored == pytest.approx(np.mean(values))
        assert result.rows[0].recall_rescored_error == pytest.approx(
            np.std(values) / np.sqrt(len(values))
        )

    def test_all_rows_as_candidates_find_everything(self, X):
        result = skhash.audit(X, **{**FAST, "rescore": N - N // 5})
        assert result.rows[0].recall_rescored == 1.0
        assert result.rows[0].recall_rescored_error == 0.0


def recalls_of(scores, order, k=4, rescore=20):
    """Return the recalls of a ranking by scores, equal ones by position."""
    found = np.argsort(scores, axis=1, kind="stable")
    pairs = list(zip(order, found, strict=True))
    return [
        np.mean([np.isin(t[:k], f[:n]).mean() for t, f in pairs]) for n in (k, rescore)
    ]


def scores_of(queries, decoded, metric="euclidean"):
    """Return scores in float64, equal ones for equal decoded rows."""
    queries, decoded = queries.astype(np.float64), decoded.astype(np.float64)
    products = (queries[:, None] * decoded).sum(axis=2)
    if metric == "euclidean":
        return ((queries[:, None] - decoded) ** 2).sum(axis=2)
    return -products / (np.linalg.norm(decoded, axis=1) if metric == "cosine" else 1)


class TestRealQueries:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    def test_recalls_are_those_of_decoded_refined_codes(self, X, drawn, metric):
        result = skhash.audit(X, metric=metric, **{**FAST, "n_bits": [24]})
        (data,), (row,) = drawn, result.rows
        order = float_order(data.queries, data.database, metric)
        bits = result.encoder.transform(data.database)
        refined = result.decoder.refine(data.database, bits)
        decoded = result.decoder.inverse_transform(refined)
        scores = scores_of(data.queries, decoded, metric)
        if metric == "euclidean":
            errors = result.decoder.reconstruction_error(data.database, refined)
            scores += skhash.AsymmetricNeighbors().error_weight * errors
        alone, rescored = recalls_of(scores, order)
        # float32 may order what is nearly as near otherwise: one pair in 128.
        assert row.recall_asymmetric == pytest.approx(alone, abs=0.01)
        assert row.recall_asymmetric_rescored == pytest.approx(rescored, abs=0.01)
        unrefined = result.decoder.inverse_transform(bits)
        others = recalls_of(scores_of(data.queries, unrefined, metric), order)
        assert row.recall_asymmetric != pytest.approx(others[0], abs=0.01)

    def test_the_decoder_is_fitted_to_the_codes_of_the_training_rows(self, X, drawn):
        result = skhash.audit(X, **FAST)
        (data,) = drawn
        codes = result.encoder.transform(data.train)
        expected = clone(result.decoder).fit(data.train, codes)
        np.testing.assert_allclose(
            result.decoder.codebook_, expected.codebook_, atol=1e-6
        )
        n_bytes = result.decoder.codebook_.nbytes + result.decoder.offset_.nbytes
        assert result.rows[0].codebook_bytes == n_bytes

    def test_the_error_is_that_of_a_mean_over_queries(self, X):
        first = skhash.audit(X, **FAST).rows[0]
        # A recall of 0 or 1 has none; one of half the queries has the largest.
        shares = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        means = _measure.means_of("recall", shares)
        assert means == {
            "recall": 0.5,
            "recall_error": 0.25,
            "recall_rescored": 1.0,
            "recall_rescored_error": 0.0,
        }
        assert 0 < first.recall_asymmetric_error < 0.1


class TestPeers:
    def audit(self, X, *methods, **options):
        result = skhash.audit(X, **{**FAST, "methods": ["lsh", *methods], **options})
        return {row.method: row for row in result.rows}, result

    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    def test_int8_is_a_byte_a_column(self, X, drawn, metric):
        rows, _ = self.audit(X, "int8", metric=metric)
        (data,) = drawn
        least, most = data.database.min(axis=0), data.database.max(axis=0)
        steps = np.round((data.database - least) / (most - least) * 255)
        decoded = least + steps * (most - least) / 255
        order = float_order(data.queries, data.database, metric)
        alone, rescored = recalls_of(scores_of(data.queries, decoded, metric), order)
        assert rows["int8"].recall_asymmetric == pytest.approx(alone, abs=0.01)
        assert rows["int8"].recall_asymmetric_rescored == pytest.approx(rescored)
        assert rows["int8"].recall is None
        assert (rows["int8"].n_bits, rows["int8"].bytes_per_vector) == (8 * D, D)
        assert rows["int8"].codebook_bytes == 8 * D

    def test_int8_of_a_column_that_is_constant(self, X):
        X[:, 0] = 3
        rows, _ = self.audit(X, "int8")
        assert rows["int8"].recall_asymmetric > 0.9

    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    def test_sign_is_a_bit_a_column(self, X, drawn, metric):
        rows, _ = self.audit(X, "sign", metric=metric)
        (data,), row = drawn, rows["sign"]
        mean = data.database.mean(axis=0)
        bits = data.database > mean
        decoded = np.empty_like(data.database)
        for column in range(D):
            for side in (False, True):
                rows = bits[:, column] == side
                decoded[rows, column] = data.database[rows, column].mean()
        order = float_order(data.queries, data.database, metric)
        distances = ((data.queries > mean)[:, None] != bits).sum(axis=2)
        for name, cut in (("recall", 4), ("recall_rescored", 20)):
            hits = [
                expected_hits(one, nearest[:4], cut) / 4
                for one, nearest in zip(distances, order, strict=True)
            ]
            assert getattr(row, name) == pytest.approx(np.mean(hits))
        alone, rescored = recalls_of(scores_of(data.queries, decoded, metric), order)
        assert row.recall_asymmetric == pytest.approx(alone, abs=0.01)
        assert row.recall_asymmetric_rescored == pytest.approx(rescored, abs=0.01)
        assert (row.n_bits, row.bytes_per_vector) == (D, 2)

    @pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
    def test_faiss_is_asked_for_what_its_codes_decode_to(self, X, drawn, metric):
        faiss = pytest.importorskip("faiss")
        skhash.audit(X, metric=metric, **FAST)
        (data,) = drawn
        order = float_order(data.queries, data.database, metric)
        task = _measure.Task(data, order[:, :4], 20, metric)
        kind = _peers._faiss_metric(faiss, metric)
        # 4 bits a part, so that the few rows train it, and two columns of zeros; the
        # parts are many, so that no two rows have one code.
        index = faiss.IndexPQ(D + 2, 6, 4, kind)
        measured = _peers._by_faiss(index, D + 2, task)
        decoded = index.reconstruct_n(0, index.ntotal)[:, :D]
        alone, rescored = recalls_of(scores_of(data.queries, decoded, metric), order)
        assert measured["recall_asymmetric"] == pytest.approx(alone, abs=0.01)
        assert measured["recall_asymmetric_rescored"] == pytest.approx(
            rescored, abs=0.01
        )

    def test_faiss_at_the_same_bytes(self):
        faiss = pytest.importorskip("faiss")
        X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
        options = {"n_bits": [8, 24, 64], "rescore": 320}
        result = skhash.audit(X, **{**FAST, **options, "methods": PEER_METHODS})
        rows = [row for row in result.rows if row.method in ("pq", "rabitq")]
        pq = [row for row in rows if row.method == "pq"]
        assert [row.n_bits for row in pq] == [8, 24]
        assert [row.bytes_per_vector for row in pq] == [1, 3]
        assert [row.codebook_bytes for row in pq] == [256 * 6 * 4, 256 * 6 * 4]
        skipped = ["pq at 64 bits: it takes a column a byte, and here are 6"]
        if hasattr(faiss, "IndexRaBitQ"):
            (rabitq,) = rows[2:]
            assert (rabitq.code_bytes, rabitq.bytes_per_vector) == (1, 9)
        else:
            skipped.append(f"rabitq: faiss {faiss.__version__} has none; update it")
        assert result.skipped == skipped
        for row in rows:  # all rows were candidates
            assert row.recall_asymmetric_rescored == 1.0
            assert row.recall is row.bit_balance is None

    def test_few_rows_are_too_few_for_pq(self, X):
        pytest.importorskip("faiss")
        assert self.audit(X, "pq")[1].skipped == ["pq at 8 bits: it takes 256 rows"]

    def test_faiss_that_is_missing_is_named(self, X, monkeypatch):
        monkeypatch.setitem(sys.modules, "faiss", None)
        rows, result = self.audit(X, "int8", "pq", "rabitq")
        assert [*rows] == ["lsh", "int8"]
        missing = 'faiss is not installed; pip install "scikit-hash[audit]"'
        assert result.skipped == [f"pq at 8 bits: {missing}", f"rabitq: {missing}"]

    def test_sparse_rows_are_not_for_them(self, X):
        rows, result = self.audit(sparse.csr_array(X), "sign", "int8")
        assert [*rows] == ["lsh"]
        assert result.skipped == [
            "sign: it takes dense vectors",
            "int8: it takes dense vectors",
        ]


class TestTimes:
    def test_the_first_call_is_not_timed(self, monkeypatch):
        monkeypatch.setattr(_measure, "TIMED_SECONDS", 5.0)
        now, costs = [0.0], iter([100.0, 3.0, 2.0, 4.0, 1.0])

        def call():
            now[0] += next(costs)
            return now[0]

        clock = SimpleNamespace(perf_counter=lambda: now[0])
        monkeypatch.setattr(_measure, "time", clock)
        # 100 s compile; then 3 and 2 s are the 5 s of repetition.
        assert _measure.timed(call)[1] == 2.0


def expected_hits(distances, truth, cut):
    """Count true neighbours within `cut`, a true one of a cut tie by its chance."""
    edge = np.sort(distances)[cut - 1]
    nearer, tied = distances < edge, distances == edge
    chance = (cut - nearer.sum()) / tied.sum()
    return nearer[truth].sum() + chance * tied[truth].sum()


class TestOtherMeasurements:
    def test_map_is_the_metric_of_the_drawn_labels(self, X, labels, drawn):
        result = skhash.audit(X, labels, **FAST)
        (data,) = drawn
        assert result.rows[0].mean_average_precision == pytest.approx(
            skhash.metrics.mean_average_precision_score(
                result.encoder.transform(data.queries),
                result.encoder.transform(data.database),
                data.query_labels,
                data.database_labels,
            )
        )

    def test_labels_stay_with_their_rows(self, X, drawn):
        X[:, 0] = np.arange(N)
        skhash.audit(X, np.arange(N) % 3, **FAST)
        (data,) = drawn
        np.testing.assert_array_equal(data.query_labels, data.queries[:, 0] % 3)
        np.testing.assert_array_equal(data.database_labels, data.database[:, 0] % 3)

    def test_indicator_of_several_labels(self, X, labels):
        one_hot = np.eye(3, dtype=int)[labels]
        expected = measured(skhash.audit(X, labels, **FAST))
        assert measured(skhash.audit(X, one_hot, **FAST)) == expected
        assert measured(skhash.audit(X, sparse.csr_array(one_hot), **FAST)) == expected
        one_hot[:, 0] = 1
        assert measured(skhash.audit(X, one_hot, **FAST)) != expected

    def test_labels_as_strings_and_lists(self, X, labels):
        expected = measured(skhash.audit(X, labels, **FAST))
        words = [f"class {label}" for label in labels]
        assert measured(skhash.audit(X, words, **FAST)) == expected
        assert measured(skhash.audit(X, pd.Series(words), **FAST)) == expected

    def test_labels_that_no_two_rows_share_give_no_map(self, X):
        result = skhash.audit(X, np.arange(N), **FAST)
        assert result.rows[0].mean_average_precision is None
        assert result.skipped == [
            "mAP: no query has a label that occurs in the database"
        ]

    def test_without_labels_no_map(self, X):
        assert skhash.audit(X, **FAST).rows[0].mean_average_precision is None

    def test_bit_statistics_of_the_database(self, X, drawn):
        result = skhash.audit(X, **FAST)
        (data,) = drawn
        bits = result.encoder.transform(data.database).astype(float)
        shares = [np.mean(column) for column in bits.T]
        balance = np.mean([min(share, 1 - share) for share in shares])
        correlations = [
            abs(np.corrcoef(bits[:, i], bits[:, j])[0, 1])
            for i in range(8)
            for j in range(8)
            if i != j and 0 < shares[i] < 1 and 0 < shares[j] < 1
        ]
        assert result.rows[0].bit_balance == pytest.approx(balance)
        assert result.rows[0].bit_correlation == pytest.approx(
            np.mean(correlations), abs=1e-6
        )

    def test_bits_that_never_vary_correlate_with_nothing(self):
        bits = np.array([[0, 1, 0], [0, 1, 1]], dtype=np.uint8)
        assert bit_statistics(bits) == (pytest.approx(0.5 / 3), 0.0)
        assert bit_statistics(bits[:, :2]) == (0.0, 0.0)

    def test_bytes_and_compression(self, X):
        result = skhash.audit(X, **{**FAST, "n_bits": [8, 12]})
        assert [row.code_bytes for row in result.rows] == [1, 2]
        # The float of a code that distances to it take; for the cosine they are two.
        assert [row.bytes_per_vector for row in result.rows] == [1 + 4, 2 + 4]
        assert [row.compression for row in result.rows] == [4 * D / 5, 4 * D / 6]
        (row,) = skhash.audit(X, metric="cosine", **FAST).rows
        assert row.bytes_per_vector == 1 + 8

    def test_times_are_positive(self, X):
        (row,) = skhash.audit(X, **FAST).rows
        assert row.fit_seconds > 0
        assert row.encode_per_second > 0
        assert row.search_per_second > 0


class TestSplit:
    def test_queries_are_not_in_the_database(self, X, drawn):
        X[:, 0] = np.arange(N)
        skhash.audit(X, **FAST)
        (data,) = drawn
        rows = np.concatenate([data.queries[:, 0], data.database[:, 0]])
        assert len(data.queries) == N // 5
        np.testing.assert_array_equal(np.sort(rows), np.arange(N))

    @pytest.mark.parametrize("n_queries, expected", [(7, 7), (1000, N // 5)])
    def test_number_of_queries(self, X, n_queries, expected):
        settings = skhash.audit(X, n_queries=n_queries, **FAST).settings
        assert settings["n_queries"] == expected
        assert settings["n_database"] == N - expected

    def test_sample(self, X, drawn):
        X[:, 0] = np.arange(N)
        settings = skhash.audit(X, sample=50, **FAST).settings
        (data,) = drawn
        rows = np.concatenate([data.queries[:, 0], data.database[:, 0]])
        assert len(np.unique(rows)) == 50
        assert (settings["n_rows"], settings["n_database"]) == (N, 40)

    def test_sample_larger_than_the_data_is_all(self, X):
        everything = measured(skhash.audit(X, **FAST))
        assert measured(skhash.audit(X, sample=10 * N, **FAST)) == everything

    def test_encoders_are_fitted_on_few_rows_of_the_database(
        self, X, drawn, monkeypatch
    ):
        monkeypatch.setattr(_data, "MAX_TRAIN_ROWS", 30)
        X[:, 0] = np.arange(N)
        result = skhash.audit(X, **FAST)
        (data,) = drawn
        assert result.settings["n_train"] == len(data.train) == 30
        assert len(np.unique(data.train[:, 0])) == 30
        assert np.isin(data.train[:, 0], data.database[:, 0]).all()
        np.testing.assert_allclose(
            result.encoder.mean_, data.train.mean(axis=0, dtype=float), rtol=1e-5
        )

    def test_only_drawn_rows_are_read(self, X, drawn):
        generator = np.random.RandomState(0)
        unused = generator.permutation(N)[60:]
        X[unused] = np.nan  # would raise, were it looked at
        skhash.audit(X, sample=60, **FAST)
        assert len(drawn[0].database) == 48


class TestInput:
    def test_memory_map_is_read_by_row(self, X, tmp_path, drawn):
        np.save(tmp_path / "X.npy", X.astype(np.float16))
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        result = skhash.audit(mapped, sample=60, **FAST)
        (data,) = drawn
        for rows in (data.queries, data.database, data.train):
            assert rows.dtype == np.float32
            assert not isinstance(rows, np.memmap)
        expected = skhash.audit(X.astype(np.float16), sample=60, **FAST)
        assert measured(result) == measured(expected)

    @pytest.mark.parametrize(
        "convert",
        [
            np.ndarray.tolist,
            pd.DataFrame,
            np.asfortranarray,
            lambda X: X.astype(np.float64),
        ],
        ids=["list", "frame", "fortran", "float64"],
    )
    def test_dense_forms_agree(self, X, convert):
        expected = measured(skhash.audit(X, **FAST))
        assert measured(skhash.audit(convert(X), **FAST)) == expected

    @pytest.mark.parametrize(
        "form",
        [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array],
    )
    def test_sparse_forms_agree_with_dense(self, X, form, drawn):
        X[X < 1] = 0
        dense = skhash.audit(X, **FAST)
        result = skhash.audit(form(X), **FAST)
        assert sparse.issparse(drawn[1].database)
        for got, expected in zip(measured(result), measured(dense), strict=True):
            # Its floats are fewer bytes; all that depends on the codes is equal.
            got.pop("compression"), expected.pop("compression")
            assert got == pytest.approx(expected)

    def test_sparse_rows_count_by_their_values(self, X):
        X[:] = 0
        X[:, :3] = np.random.default_rng(0).random((N, 3)) + 1
        result = skhash.audit(sparse.csr_array(X), **FAST)
        assert result.settings["float_bytes_per_vector"] == 3 * (4 + 4)
        assert result.settings["sparse"] is True

    def test_integers(self, X, drawn):
        skhash.audit(X.astype(np.uint8), **FAST)
        assert drawn[0].database.dtype == np.float32


class TestOptions:
    def test_methods_and_lengths_in_order_each_once(self, X):
        result = skhash.audit(
            X, **{**FAST, "methods": ["pca", "lsh", "pca"], "n_bits": (8, 4, 8)}
        )
        asked = [("pca", 8), ("pca", 4), ("lsh", 8), ("lsh", 4)]
        assert [(row.method, row.n_bits) for row in result.rows] == asked

    @pytest.mark.parametrize(
        "method, name",
        [
            ("sgh", "SGHEncoder"),
            ("neighbor", "NeighborHash"),
            ("itq", "ITQHash"),
            ("pca", "PCAHash"),
            ("lsh", "RandomHyperplaneHash"),
        ],
    )
    def test_each_method_is_its_class_with_defaults(self, X, method, name):
        encoder = skhash.audit(X, **{**FAST, "methods": [method]}).encoder
        params = encoder.get_params()
        assert type(encoder).__name__ == name
        assert (params.pop("n_bits"), params.pop("device")) == (8, "cpu")
        assert isinstance(params.pop("random_state"), int)
        defaults = type(encoder)().get_params()
        if method == "neighbor":
            defaults["nested"] = [8]  # the lengths asked for
        assert params == {param: defaults[param] for param in params}

    def test_cosine_normalises_the_encoders(self, X):
        result = skhash.audit(X, metric="cosine", **FAST)
        assert result.encoder.normalize
        scales = np.random.default_rng(0).uniform(1, 9, (N, 1)).astype(np.float32)
        codes = result.encoder.transform(X)
        assert (codes != result.encoder.transform(scales * X)).mean() < 0.01
        again = skhash.audit(scales * X, metric="cosine", **FAST)
        assert again.rows[0].recall == pytest.approx(result.rows[0].recall, abs=0.02)

    @pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
    def test_other_metrics_do_not(self, X, metric):
        assert not skhash.audit(X, metric=metric, **FAST).encoder.normalize

    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    def test_neighbors_are_those_of_the_metric(self, X, metric):
        options = {**FAST, "methods": ["neighbor"], "metric": metric}
        encoder = skhash.audit(X, **options).encoder
        assert encoder.metric == metric
        assert encoder.normalize is (metric == "cosine")

    @pytest.mark.parametrize(
        "option",
        [
            {"k": 3},
            {"rescore": 30},
            {"sample": 100},
            {"n_queries": 10},
            {"metric": "inner_product"},
            {"random_state": 1},
            {"n_bits": [9]},
            {"methods": ["pca"]},
        ],
        ids=lambda option: next(iter(option)),
    )
    def test_an_option_changes_what_is_measured(self, X, option):
        default = measured(skhash.audit(X, **FAST))
        assert measured(skhash.audit(X, **{**FAST, **option})) != default

    def test_same_seed_same_result(self, X):
        first, second = (
            skhash.audit(X, **FAST, random_state=seed)
            for seed in (3, np.random.RandomState(3))
        )
        assert measured(first) == measured(second)
        np.testing.assert_array_equal(
            first.encoder.transform(X), second.encoder.transform(X)
        )
        assert first.settings["random_state"] == 3
        assert second.settings["random_state"] is None

    def test_target_recall_moves_the_recommendation(self, X):
        options = {**FAST, "n_bits": [4, 512]}
        low = skhash.audit(X, target_recall=0.1, **options)
        high = skhash.audit(X, target_recall=0.99, **options)
        assert low.recommended is low.rows[0]
        assert high.recommended is high.rows[1]
        assert low.encoder.n_bits == 4
        assert high.encoder.n_bits == 512

    def test_device(self, X):
        assert skhash.audit(X, **FAST).encoder.device == "cpu"
        with pytest.raises(ValueError, match="nowhere"):
            skhash.audit(X, **{**FAST, "device": "nowhere"})

    def test_progress(self, X):
        lines = []
        options = {**FAST, "n_bits": [4, 8], "sample": 100}
        skhash.audit(X, **options, progress=lambda line, _: lines.append(line))
        assert lines[:4] == [
            "reading 100 of 160 rows",
            "finding the true neighbours of 20 queries",
            "compiling what fits and searches take, once in a process",
            "lsh at 4 bits (1 of 2)",
        ]
        last, examples = lines[4:]
        assert examples.startswith("looking at neighbours by lsh at ")
        assert re.fullmatch(
            r"lsh at 8 bits \(2 of 2\), \d s passed, about \d s left", last
        )

    def test_kernels_are_compiled_before_the_clock_runs(self, X, monkeypatch):
        steps = []

        def noted(name):
            call = getattr(_run, name)

            def note(*arguments):
                steps.append(name)
                return call(*arguments)

            return note

        for name in ("compile_kernels", "fit_few", "Clock", "measure_encoder"):
            monkeypatch.setattr(_run, name, noted(name))
        skhash.audit(X, **{**FAST, "methods": ["lsh", "pca", "sign"]})
        assert steps == [
            *("compile_kernels", "fit_few", "fit_few", "Clock"),
            *("measure_encoder", "measure_encoder"),
        ]

    def measured_on_a_clock(self, X, monkeypatch, costs, **options):
        """Return the lines of progress where fits and the rest take these seconds."""
        lines, now = [], [0.0]
        clock = SimpleNamespace(perf_counter=lambda: now[0])
        for module in (_run, _clock):
            monkeypatch.setattr(module, "time", clock)

        def fit(encoder, X):
            now[0] += costs["fit"][type(encoder).__name__] * encoder.n_bits
            encoder.fit(X)
            return costs["fit"][type(encoder).__name__] * encoder.n_bits

        def measure(encoder, *arguments):
            now[0] += costs["rest"][encoder.n_bits]
            return measure_encoder(encoder, *arguments)

        def peer(*arguments):
            now[0] += costs["peer"]
            return measure_peer(*arguments)

        measure_encoder, measure_peer = _run.measure_encoder, _run.measure_peer
        monkeypatch.setattr(_run, "timed_fit", fit)
        monkeypatch.setattr(_run, "measure_encoder", measure)
        monkeypatch.setattr(_run, "measure_peer", peer)
        options = {**FAST, **options}
        skhash.audit(X, **options, progress=lambda line, _: lines.append(line))
        return [line.partition(", ")[2] for line in lines[3:-1]]

    def test_time_left_is_right_once_each_length_is_known(self, X, monkeypatch):
        """After the first method only fits of others are not known: they take none."""
        costs = {"fit": {"ITQHash": 0.0, "RandomHyperplaneHash": 0.0}, "peer": 3.0}
        costs["rest"] = {4: 5.0, 8: 11.0}
        options = {"n_bits": [4, 8], "methods": ["lsh", "itq", "sign", "int8"]}
        times = self.measured_on_a_clock(X, monkeypatch, costs, **options)
        # Nothing is known of the engines but that they are no slower than an encoder.
        assert times == [
            "",
            # The length of 8 is taken to need 5 * sqrt(2): 2 * 7.07 + 5 + 2 * 5.
            "5 s passed, about 29 s left",
            "16 s passed, about 26 s left",
            "21 s passed, about 21 s left",
            "32 s passed, about 10 s left",
            "35 s passed, about 5 s left",
        ]

    def test_fits_that_are_not_known_are_taken_to_be_as_the_quickest(
        self, X, monkeypatch
    ):
        costs = {"fit": {"ITQHash": 100.0, "RandomHyperplaneHash": 1.0}}
        costs["rest"] = {4: 1.0}
        options = {"n_bits": [4], "methods": ["itq", "lsh", "pca"]}
        costs["fit"]["PCAHash"] = 9.0
        times = self.measured_on_a_clock(X, monkeypatch, costs, **options)
        assert times == [
            "",
            "6 min 41 s passed, about 13 min 22 s left",  # two more fits of 400 s
            "6 min 46 s passed, about 5 s left",
        ]

    def test_one_fit_of_all_lengths_is_counted_once(self, X, monkeypatch):
        costs = {"fit": {"NeighborHash": 100.0, "RandomHyperplaneHash": 100.0}}
        costs["rest"] = {4: 1.0, 9: 2.0}
        options = {"n_bits": [4, 9], "methods": ["lsh", "neighbor"]}
        times = self.measured_on_a_clock(X, monkeypatch, costs, **options)
        # A fit of 400 s at 4 bits is one of 600 s at 9, of both methods.
        assert times[1:] == [
            "6 min 41 s passed, about 20 min 4 s left",
            "21 min 43 s passed, about 13 min 3 s left",
            "36 min 44 s passed, about 2 s left",
        ]

    def test_an_interrupt_reaches_the_caller_who_has_what_was_measured(self, X):
        results = []

        def interrupt(line, result):
            results.append(result)
            if "pca at 4" in line:
                raise KeyboardInterrupt

        options = {**FAST, "methods": ["sign", "lsh", "pca"], "n_bits": [4, 8]}
        with pytest.raises(KeyboardInterrupt):
            skhash.audit(X, **options, progress=interrupt)
        # Nothing can be recommended before the first encoder.
        counts = [None if one is None else len(one.rows) for one in results[3:]]
        assert counts == [None, None, 2, 3]
        result = results[-1]
        whole = skhash.audit(X, **{**options, "methods": ["sign", "lsh"]})
        assert measured(result) == measured(whole)
        assert result.usage == whole.usage
        assert "pca at 4 bits, pca at 8 bits" in result.skipped[-1]


class TestNested:
    OPTIONS = {**FAST, "n_bits": [4, 12, 8], "methods": ["neighbor"]}

    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_short_codes_are_cut_from_the_longest(self, X, drawn, metric):
        result = skhash.audit(X, **self.OPTIONS, metric=metric)
        seed = result.encoder.random_state
        (data,) = drawn
        longest = skhash.NeighborHash(
            12,
            nested=[4, 8],
            metric=metric,
            normalize=metric == "cosine",
            device="cpu",
            random_state=seed,
        ).fit(data.train)
        order = float_order(data.queries, data.database, metric)
        assert [row.n_bits for row in result.rows] == [4, 12, 8]
        for row in result.rows:
            encoder = longest.truncate(row.n_bits)
            distances = hamming(encoder, data.queries, data.database)
            for name, cut in (("recall", 4), ("recall_rescored", 20)):
                hits = [
                    expected_hits(one, nearest[:4], cut) / 4
                    for one, nearest in zip(distances, order, strict=True)
                ]
                assert getattr(row, name) == pytest.approx(np.mean(hits))

    def test_there_is_one_fit_whose_time_stands_at_the_longest(self, X, monkeypatch):
        fits, timed_fit = [], _run.timed_fit

        def fit(encoder, rows):
            fits.append((type(encoder), encoder.n_bits))
            return len(fits) + 0 * timed_fit(encoder, rows)

        monkeypatch.setattr(_run, "timed_fit", fit)
        options = {**self.OPTIONS, "methods": ["neighbor", "lsh"]}
        rows = skhash.audit(X, **options).rows
        others = [(skhash.linear.RandomHyperplaneHash, n) for n in (4, 12, 8)]
        assert fits == [(skhash.NeighborHash, 12), *others]
        assert [row.fit_seconds for row in rows] == [None, 1, None, 2, 3, 4]

    @pytest.mark.parametrize("target, n_bits", [(0.01, 8), (1.0, 64)])
    def test_the_recommended_encoder_is_of_its_length(
        self, X, target, n_bits, tmp_path
    ):
        # None reaches all, where the best recall is taken, which is that of most bits.
        options = {"n_bits": [8, 64], "target_recall": target, "rescore": 4}
        result = skhash.audit(X, **{**self.OPTIONS, **options})
        assert result.recommended.n_bits == result.encoder.n_bits == n_bits
        codes = result.encoder.transform(X)
        assert codes.shape == (N, n_bits)
        result.encoder.save(tmp_path / "encoder")
        saved = skhash.load(tmp_path / "encoder")
        np.testing.assert_array_equal(saved.transform(X), codes)


class TestLeftOut:
    def test_lengths_beyond_the_features(self, X):
        result = skhash.audit(
            X, **{**FAST, "methods": ["itq", "lsh"], "n_bits": [8, 16]}
        )
        measured_pairs = [(row.method, row.n_bits) for row in result.rows]
        assert measured_pairs == [("itq", 8), ("lsh", 8), ("lsh", 16)]
        assert result.skipped == [
            f"itq at 16 bits: it makes at most {D} bits of these vectors"
        ]

    def test_a_method_that_fails_does_not_end_the_audit(self, X, monkeypatch):
        class Diverging(skhash.PCAHash):
            def _fit_codes(self, X, y, random_state):
                if self.n_bits > 1:
                    raise ValueError("the loss is nan")
                super()._fit_codes(X, y, random_state)

        monkeypatch.setitem(_run.METHODS, "pca", Diverging)
        result = skhash.audit(X, **{**FAST, "methods": ["pca", "lsh"]})
        assert [row.method for row in result.rows] == ["lsh"]
        assert result.skipped == ["pca at 8 bits: the loss is nan"]

    def test_nothing_measurable(self, X):
        with pytest.raises(ValueError, match=r"Nothing .* pca at 16 bits.* 10 bits"):
            skhash.audit(X, **{**FAST, "methods": ["pca"], "n_bits": [16]})


class TestErrors:
    @pytest.mark.parametrize(
        "options, message",
        [
            ({"methods": ["lsh", "foo"]}, "Unknown methods: foo; use some of sgh, nei"),
            (
                {"methods": []},
                "at least one of the methods sgh, neighbor, itq, pca, lsh",
            ),
            ({"methods": ["int8"]}, "at least one of the methods sgh"),
            ({"methods": "lsh"}, "'methods'.* must be an array-like"),
            ({"n_bits": []}, "at least one"),
            ({"n_bits": [8, 0]}, "n_bits .* got 0"),
            ({"n_bits": [8.5]}, "n_bits .* got 8.5"),
            ({"n_bits": 8}, "'n_bits'.* must be an array-like"),
            ({"metric": "hamming"}, "'metric'.* 'hamming' instead"),
            ({"k": 21}, "rescore=20 .* k=21"),
            ({"k": 0}, "'k'"),
            ({"n_queries": 0}, "'n_queries'"),
            ({"sample": 0}, "'sample'"),
            ({"sample": 4}, "4 rows are too few: .* it takes 5"),
            ({"sample": 20}, "20 rows are too few: 4 .* 16 .* rescore=20"),
            ({"target_recall": 0}, "'target_recall'"),
            ({"target_recall": 1.1}, "'target_recall'"),
            ({"random_state": -1}, "'random_state'"),
            ({"y": [0, 1]}, "160 rows and y 2"),
            ({"y": np.linspace(0, 1, N)}, "must be classes"),
            ({"y": np.full((N, 2), 2)}, "indicator"),
            ({"X": np.ones(5)}, r"shape \(n_samples, n_features\), got \(5,\)"),
            ({"X": np.full((N, 2), "a")}, "could not convert"),
        ],
    )
    def test_message(self, X, options, message):
        with pytest.raises(ValueError, match=message):
            skhash.audit(**{"X": X, **FAST, **options})

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_a_value_that_is_not_finite_is_named_by_its_row(self, X, value, form):
        X[17, 3] = value
        with pytest.raises(ValueError, match=r"^Row 17 \(from 0\) holds NaN or inf"):
            skhash.audit(form(X), **FAST)

    def test_labels_are_refused_before_anything_is_fitted(self, X):
        lines = []
        with pytest.raises(ValueError):
            progress = lambda line, _: lines.append(line)  # noqa: E731
            skhash.audit(X, np.full(N, np.nan), progress=progress, **FAST)
        assert len(lines) == 1


def make_row(method, n_bits, hamming=None, asymmetric=0.0, codebook=0, error=0.0):
    """Return a row whose recalls after re-scoring are given, others being half."""
    n_bytes = (n_bits + 7) // 8
    recalls = {"recall": hamming, "recall_asymmetric": asymmetric}
    values = {
        name + suffix: None if value is None else value * share
        for name, value in recalls.items()
        for suffix, share in (("", 0.5), ("_rescored", 1.0))
    }
    return AuditRow(
        method=method,
        n_bits=n_bits,
        code_bytes=n_bytes,
        bytes_per_vector=n_bytes + 4,
        codebook_bytes=codebook,
        compression=256 / n_bytes,
        fit_seconds=1.0,
        encode_per_second=1.0,
        **values,
        **{f"{name}_error": error for name in values},
    )


class TestRecommendation:
    def recommend(self, rows, target=0.9, peers=(), n_rows=1000, **settings):
        settings = {"k": 10, "rescore": 100, **settings}
        settings |= {"target_recall": target, "n_rows": n_rows}
        fitted = {place: (f"encoder {place}", None) for place in range(len(rows))}
        return make_result([*rows, *peers], fitted, settings, [])

    def test_the_smallest_that_reaches(self):
        rows = [make_row("a", 64, 0.99), make_row("a", 32, 0.9), make_row("b", 16, 0.8)]
        result = self.recommend(rows)
        assert result.recommended is rows[1]
        assert result.encoder == "encoder 1"
        assert (result.search, result.choice.n_bytes) == ("hamming", 4)
        goal = "90% of the 10 true neighbours after re-scoring 100 candidates"
        assert result.reason.startswith(f"the least memory that reaches {goal}")

    def test_of_equal_sizes_the_better(self):
        rows = [
            make_row("a", 32, 0.92),
            make_row("b", 32, 0.95),
            make_row("c", 32, 0.94),
            make_row("d", 32, 0.6),
            make_row("a", 64, 0.99),
        ]
        result = self.recommend(rows)
        assert result.recommended is rows[1]
        assert "next comes c with 0.940" in result.reason

    def test_size_is_counted_in_bytes(self):
        rows = [make_row("a", 12, 0.91), make_row("a", 16, 0.95)]
        assert self.recommend(rows).recommended is rows[1]

    def test_a_rival_below_the_target_is_not_named(self):
        rows = [make_row("a", 32, 0.95), make_row("b", 32, 0.8)]
        assert "next" not in self.recommend(rows).reason

    def test_floats_beside_the_codes_are_counted(self):
        rows = [make_row("a", 32, 0.5, 0.95), make_row("a", 56, 0.95, 0.99)]
        result = self.recommend(rows)
        assert (result.recommended, result.search) == (rows[1], "hamming")
        rows[1] = make_row("a", 72, 0.95, 0.99)
        result = self.recommend(rows)
        assert (result.recommended, result.search) == (rows[0], "asymmetric")
        assert result.choice.n_bytes == 8

    @pytest.mark.parametrize(
        "n_rows, search", [(1000, "hamming"), (1001, "asymmetric")]
    )
    def test_a_decoder_is_counted_once(self, n_rows, search):
        # 8 bytes and 4000 once, or 12 bytes: as much memory for 1000 vectors.
        rows = [make_row("a", 32, 0.5, 0.91, codebook=4000), make_row("a", 96, 0.95)]
        result = self.recommend(rows, n_rows=n_rows)
        assert result.search == search
        later = "From 1,000 vectors on less memory: a at 32 bits by real queries"
        assert (later in result.alternatives[0]) == (search == "hamming")

    @pytest.mark.parametrize("error, said", [(0.02, True), (0.005, False)])
    def test_within_two_standard_errors(self, error, said):
        result = self.recommend([make_row("a", 32, 0.92, error=error)])
        assert ("within two standard errors of 90%" in result.reason) == said

    def test_none_reaches(self):
        rows = [make_row("a", 32, 0.5), make_row("b", 64, 0.7), make_row("c", 16, 0.7)]
        result = self.recommend(rows)
        assert result.recommended is rows[2]
        assert "none reaches 90%" in result.reason
        assert "more bits or a larger rescore" in result.reason

    def test_target_is_not_rounded(self):
        assert "99.5%" in self.recommend([make_row("a", 8, 1.0)], 0.995).reason

    def test_without_rescoring_recalls_are_those_of_the_search_alone(self):
        rows = [make_row("a", 32, 1.0), make_row("a", 64, 0.8, 1.0)]
        result = self.recommend(rows, 0.45, rescore=10)
        assert result.choice.recall == 0.5
        assert result.recommended is rows[0]
        assert not result.is_rescored
        assert "re-scoring" not in result.reason + "".join(result.alternatives)

    def test_what_could_be_taken_without_rescoring(self):
        rows = [make_row("a", 32, 0.95), make_row("a", 64, 0.8, 1.0)]
        (line,) = self.recommend(rows, 0.5).alternatives
        assert line.startswith("Without re-scoring: a at 64 bits by real queries (12 ")
        (line,) = self.recommend(rows, 0.9).alternatives
        start = (
            "Without re-scoring no encoder reaches 90%; the best: a at 64 bits by real"
        )
        assert line.startswith(start)

    @pytest.mark.parametrize("bits, better", [(128, False), (16, True)])
    def test_what_engine_does_better_without_rescoring(self, bits, better):
        rows, peers = [make_row("a", 64, 0.8, 1.0)], [make_row("pq", bits, None, 1.0)]
        line = self.recommend(rows, 0.5, peers=peers).alternatives[0]
        said = f"Another engine does better: pq at {bits} bits by real queries ("
        assert (said in line) == better

    def test_peers_are_compared_and_never_taken(self):
        rows, peers = [make_row("a", 64, 0.95)], [make_row("pq", 16, None, 0.99)]
        result = self.recommend(rows, peers=peers)
        assert result.recommended is rows[0]
        assert result.alternatives[-1] == (
            "Another engine does better than the recommendation: pq at 16 bits by real "
            "queries (6 bytes a vector; recall 0.990 +- 0.000)."
        )
        result = self.recommend(rows, peers=[make_row("pq", 64, None, 0.99)])
        assert result.alternatives[-1] == (
            "No other engine that was measured does better than the recommendation."
        )

    def test_every_measured_search_is_a_choice(self):
        rows = [make_row("a", 8, 0.5), make_row("pq", 8, None, 0.7)]
        choices = choices_of(rows, rescored=True)
        assert [(choice.row.method, choice.search) for choice in choices] == [
            ("a", "hamming"),
            ("a", "asymmetric"),
            ("pq", "asymmetric"),
        ]


class TestResult:
    def test_encoder_is_the_recommended_one(self, X):
        result = skhash.audit(X, **{**FAST, "n_bits": [4, 8], "methods": ["pca"]})
        assert result.encoder.n_bits == result.recommended.n_bits
        codes = result.encoder.transform(X)
        assert codes.shape == (N, result.recommended.n_bits)

    def test_to_frame(self, X):
        result = skhash.audit(X, **{**FAST, "n_bits": [4, 8]})
        frame = result.to_frame()
        assert frame["n_bits"].tolist() == [4, 8]
        assert frame["recall"].tolist() == [row.recall for row in result.rows]
        assert set(frame.columns) == set(vars(result.rows[0]))

    @pytest.mark.parametrize("with_labels", [False, True])
    def test_to_dict_is_strict_json(self, X, with_labels):
        y = np.arange(N) if with_labels else None
        numpy_options = {
            "n_bits": np.array([4, 8]),
            "methods": np.array(["lsh"]),
            "k": np.int64(4),
            "target_recall": np.float32(0.5),
            "random_state": np.int32(1),
        }
        result = skhash.audit(X, y, **{**FAST, **numpy_options})
        text = json.dumps(result.to_dict(), allow_nan=False)
        report = json.loads(text)
        assert [row["n_bits"] for row in report["rows"]] == [4, 8]
        assert report["recommended"]["method"] == "lsh"
        assert report["recommended"]["reason"] == result.reason
        assert report["settings"]["n_features"] == D

    def test_repr_does_not_unfold_the_encoder(self, X):
        assert "RandomHyperplaneHash" not in repr(skhash.audit(X, **FAST))


class TestUsage:
    """What the result says how to search, done as it says."""

    def recall(self, X, drawn, **options):
        result = skhash.audit(X, **{**FAST, "target_recall": 0.01, **options})
        (data,) = drawn
        names = {**vars(skhash), **vars(skhash.linear)}
        search = eval(result.usage, names).fit(data.database)
        metric, k = result.settings["metric"], result.settings["k"]
        found = search.kneighbors(data.queries, return_distance=False)
        order = float_order(data.queries, data.database, metric)
        pairs = zip(order, found, strict=True)
        return result, np.mean([np.isin(t[:k], f).mean() for t, f in pairs])

    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
    @pytest.mark.parametrize("rescore", [4, 20])
    def test_real_queries(self, X, drawn, rescore, metric):
        # 2 bytes and 4 or 8 of floats reach what 8 bytes by Hamming distance do not.
        options = {"n_bits": [16], "rescore": rescore, "metric": metric}
        options["target_recall"] = 1.0
        result, recall = self.recall(X, drawn, **options)
        assert result.search == "asymmetric"
        assert recall == pytest.approx(result.choice.recall)

    def test_candidates_by_hamming_distance(self, X, drawn):
        result, recall = self.recall(X, drawn)
        assert result.search == "hamming"
        # Many codes of 8 bits tie, which the search orders by their positions.
        assert recall == pytest.approx(result.choice.recall, abs=0.1)
        assert recall > 1.3 * result.recommended.recall

    def test_hamming_distance_alone(self, X, drawn):
        result, recall = self.recall(X, drawn, n_bits=[512], rescore=4)
        assert result.usage.endswith("HammingNeighbors(4))")
        assert recall == pytest.approx(result.choice.recall, abs=0.03)

    def test_what_has_to_be_stored(self, X):
        options = {**FAST, "target_recall": 1.0, "n_bits": [16]}
        result = skhash.audit(X, **options)
        n_bytes = result.decoder.codebook_.nbytes + result.decoder.offset_.nbytes
        assert result.storage == {
            "code": 2,
            "floats": 4,
            "vector": 4 * D,
            "decoder": n_bytes,
        }
        result = skhash.audit(X, **{**options, "target_recall": 0.01})
        assert result.storage == {"code": 2, "floats": 0, "vector": 4 * D, "decoder": 0}
        result = skhash.audit(X, **{**options, "rescore": 4})
        assert result.storage["vector"] == 0


class TestPlot:
    @pytest.fixture
    def result(self, X):
        methods = ["lsh", "pca", "sign", "int8"]
        return skhash.audit(X, **{**FAST, "methods": methods, "n_bits": [8, 4, 32]})

    @pytest.fixture
    def ax(self):
        from matplotlib.figure import Figure

        return Figure(layout="constrained").subplots()

    def test_best_of_each_length_of_both_searches(self, result, ax):
        assert result.plot(ax) is ax
        lines = {line.get_label(): line for line in ax.lines}
        own = [row for row in result.rows if row.method in ("lsh", "pca")]
        for search, name in (("hamming", "Hamming distance"), ("asymmetric", "real")):
            recall, size = SEARCHES[search]
            for suffix in ("", "_rescored"):
                (line,) = [
                    line
                    for label, line in lines.items()
                    if name in label and ("re-scored" in label) == bool(suffix)
                ]
                sizes = sorted({getattr(row, size) for row in own})
                best = [
                    max(
                        getattr(row, recall + suffix)
                        for row in own
                        if getattr(row, size) == n
                    )
                    for n in sizes
                ]
                np.testing.assert_array_equal(line.get_xdata(), sizes)
                np.testing.assert_array_equal(line.get_ydata(), best)

    def test_the_recommendation_is_named_and_has_a_circle(self, result, ax):
        result.plot(ax)
        (note,), best = ax.texts, result.choice
        assert note.get_text() == (
            "recommended (circle)\nfor 160 vectors:\n"
            f"{best.row.method} at {best.row.n_bits} bits, {best.n_bytes} bytes"
        )
        (circle,) = [line for line in ax.lines if line.get_fillstyle() == "none"]
        np.testing.assert_array_equal(
            circle.get_xydata(), [[best.n_bytes, best.recall]]
        )

    def test_labels(self, result, ax):
        result.plot(ax)
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert texts == [
            "by real queries, 20 re-scored",
            "by Hamming distance, 20 re-scored",
            "by real queries",
            "by Hamming distance",
            "sign",
            "int8",
            "target 0.9",
        ]
        assert ax.get_xlabel() == "bytes per vector in memory (float32: 40)"
        assert ax.get_ylabel() == "recall of the 4 nearest"
        assert ax.get_title() == "128 vectors of 10 numbers, euclidean"

    @pytest.mark.parametrize("n_methods", [1, 2])
    @pytest.mark.parametrize("n_lengths", [1, 2])
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_the_legend_stands_right_of_the_axes(
        self, X, ax, n_methods, n_lengths, metric
    ):
        options = {
            "methods": ["lsh", "pca"][:n_methods],
            "n_bits": [4, 8][:n_lengths],
            "metric": metric,
        }
        skhash.audit(X, **{**FAST, **options}).plot(ax)
        ax.figure.draw_without_rendering()
        legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert axes.x1 <= legend.x0
        assert legend.x1 <= ax.figure.bbox.x1

    def test_a_new_figure_by_default(self, result):
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        ax = result.plot()
        assert len(plt.get_fignums()) == len(before) + 1
        plt.close(ax.figure)
