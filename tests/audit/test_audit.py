"""`skhash.audit` against plain computations on the rows that it says it drew."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import skhash
from skhash.auditing import data as data_file
from skhash.auditing import measure, peers
from skhash.auditing import run as run_file
from skhash.auditing.measure import AuditRow, bit_statistics
from skhash.auditing.result import Result, choices_of

N, D = 160, 10
FAST = {"n_bits": [8], "methods": ["lsh"], "k": 4, "rescore": 20, "device": "cpu"}
METRICS = pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])


@pytest.fixture(autouse=True)
def timed_once(monkeypatch):
    """Results do not depend on how often the audit takes the time."""
    monkeypatch.setattr(measure, "TIMED_SECONDS", 0.0)


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
        splits.append(data_file.split_rows(*arguments))
        return splits[-1]

    run_file._compile_kernels("euclidean", "float32")  # they draw rows of their own
    monkeypatch.setattr(run_file, "_compile_kernels", lambda *_: None)
    monkeypatch.setattr(run_file, "split_rows", split_rows)
    return splits


def float_order(queries, database, metric="euclidean"):
    """Return the database's rows for each query, the nearest first."""
    queries, database = queries.astype(np.float64), database.astype(np.float64)
    keys = -(queries @ database.T)
    if metric == "euclidean":
        keys = ((queries[:, None] - database) ** 2).sum(axis=2)
    elif metric == "cosine":
        norms = (np.linalg.norm(rows, axis=1) for rows in (queries, database))
        keys = keys / np.outer(*norms)
    return np.argsort(keys, axis=1, kind="stable")


def hamming(encoder, queries, database):
    q, d = encoder.transform(queries), encoder.transform(database)
    return (q[:, None] != d).sum(axis=2)


def expected_hits(distances, truth, cut):
    """Count true neighbours within `cut`, a true one of a cut tie by its chance."""
    edge = np.sort(distances)[cut - 1]
    nearer, tied = distances < edge, distances == edge
    chance = (cut - nearer.sum()) / tied.sum()
    return nearer[truth].sum() + chance * tied[truth].sum()


def shares_of(distances, order, cut):
    """Return the expected recall of the 4 nearest for each query."""
    pairs = zip(distances, order, strict=True)
    return [expected_hits(row, nearest[:4], cut) / 4 for row, nearest in pairs]


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


def assert_asymmetric(row, scores, order):
    alone, rescored = recalls_of(scores, order)
    # float32 may order what is nearly as near otherwise: one pair in 128.
    assert row.recall_asymmetric == pytest.approx(alone, abs=0.01)
    assert row.recall_asymmetric_rescored == pytest.approx(rescored, abs=0.01)


class TestRecall:
    @METRICS
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
        (row,) = (result := skhash.audit(X, **{**FAST, "n_bits": [1024]})).rows
        (data,) = drawn
        order = float_order(data.queries, data.database)
        distances = hamming(result.encoder, data.queries, data.database)
        alone, rescored = (shares_of(distances, order, cut) for cut in (4, 20))
        assert row.recall == pytest.approx(np.mean(alone))
        assert row.recall_rescored == pytest.approx(np.mean(rescored))
        error = np.std(rescored) / np.sqrt(len(rescored))
        assert row.recall_rescored_error == pytest.approx(error)

    @METRICS
    def test_real_queries_meet_decoded_refined_codes(self, X, drawn, metric):
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
        assert_asymmetric(row, scores, order)
        unrefined = result.decoder.inverse_transform(bits)
        others = recalls_of(scores_of(data.queries, unrefined, metric), order)
        assert row.recall_asymmetric != pytest.approx(others[0], abs=0.01)

    def test_the_decoder_is_fitted_to_the_codes_of_the_training_rows(self, X, drawn):
        result = skhash.audit(X, **FAST)
        codes = result.encoder.transform(drawn[0].train)
        expected = clone(result.decoder).fit(drawn[0].train, codes).codebook_
        np.testing.assert_allclose(result.decoder.codebook_, expected, atol=1e-6)
        n_bytes = result.decoder.codebook_.nbytes + result.decoder.offset_.nbytes
        assert result.rows[0].codebook_bytes == n_bytes


class TestPeers:
    def audit(self, X, *methods, **options):
        result = skhash.audit(X, **{**FAST, "methods": ["lsh", *methods], **options})
        return {row.method: row for row in result.rows}, result

    def test_the_cosine_asks_for_directions_alone(self, X):
        lengths = np.exp2(np.random.default_rng(0).integers(-3, 4, (N, 1)))
        one, other = (
            self.audit(rows, "sign", "int8", metric="cosine")[0]
            for rows in (X, X * lengths.astype(np.float32))
        )
        for method, row in one.items():
            for name in ("recall", "recall_rescored", "recall_asymmetric"):
                assert getattr(row, name) == getattr(other[method], name)

    @METRICS
    def test_int8_is_a_byte_a_column(self, X, drawn, metric):
        X[:, 0] = 3  # a constant column has no step
        rows, _ = self.audit(X, "int8", metric=metric)
        (data,) = drawn
        least, most = data.database.min(axis=0), data.database.max(axis=0)
        step = np.where(most > least, (most - least) / 255, 1)
        decoded = least + np.round((data.database - least) / step) * step
        order = float_order(data.queries, data.database, metric)
        assert_asymmetric(rows["int8"], scores_of(data.queries, decoded, metric), order)
        assert rows["int8"].recall is None
        assert (rows["int8"].n_bits, rows["int8"].bytes_per_vector) == (8 * D, D)
        assert rows["int8"].codebook_bytes == 8 * D

    @METRICS
    def test_sign_is_a_bit_a_column(self, X, drawn, metric):
        row = self.audit(X, "sign", metric=metric)[0]["sign"]
        (data,) = drawn
        mean = data.database.mean(axis=0)
        bits = data.database > mean
        decoded = np.empty_like(data.database)
        for column in range(D):
            for side in (False, True):
                rows = bits[:, column] == side
                decoded[rows, column] = data.database[rows, column].mean()
        order = float_order(data.queries, data.database, metric)
        distances = ((data.queries > mean)[:, None] != bits).sum(axis=2)
        alone, rescored = (np.mean(shares_of(distances, order, n)) for n in (4, 20))
        assert row.recall == pytest.approx(alone)
        assert row.recall_rescored == pytest.approx(rescored)
        assert_asymmetric(row, scores_of(data.queries, decoded, metric), order)
        assert (row.n_bits, row.bytes_per_vector) == (D, 2)

    @pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
    def test_faiss_is_asked_for_what_its_codes_decode_to(self, X, drawn, metric):
        faiss = pytest.importorskip("faiss")
        skhash.audit(X, metric=metric, **FAST)
        (data,) = drawn
        order = float_order(data.queries, data.database, metric)
        task = measure.Task(data, order[:, :4], 20, metric)
        kind = peers._faiss_metric(faiss, metric)
        # 4 bits a part, so that the few rows train it, and two columns of zeros; the
        # parts are many, so that no two rows have one code.
        index = faiss.IndexPQ(D + 2, 6, 4, kind)
        row = SimpleNamespace(**peers._by_faiss(index, D + 2, task))
        decoded = index.reconstruct_n(0, index.ntotal)[:, :D]
        assert_asymmetric(row, scores_of(data.queries, decoded, metric), order)

    def test_faiss_at_the_same_bytes(self):
        faiss = pytest.importorskip("faiss")
        X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
        options = {"n_bits": [8, 24, 64], "rescore": 320}
        _, result = self.audit(X, "pq", "rabitq", **options)
        sizes = {(row.method, row.n_bits): row for row in result.rows}
        for n_bits in (8, 24):
            row = sizes["pq", n_bits]
            assert row.bytes_per_vector == n_bits // 8
            assert row.codebook_bytes == 256 * 6 * 4
            assert row.recall_asymmetric_rescored == 1.0  # all rows were candidates
            assert row.recall is row.bit_balance is None
        assert "pq at 64 bits" in result.skipped[0] and ("pq", 64) not in sizes
        if hasattr(faiss, "IndexRaBitQ"):
            assert sizes["rabitq", 6].code_bytes == 1
            assert sizes["rabitq", 6].bytes_per_vector == 9

    def test_what_cannot_be_measured_is_named(self, X, monkeypatch):
        rows, result = self.audit(sparse.csr_array(X), "sign", "int8")
        assert [*rows] == ["lsh"]
        assert [line.partition(":")[0] for line in result.skipped] == ["sign", "int8"]
        pytest.importorskip("faiss")
        assert "256 rows" in self.audit(X, "pq")[1].skipped[0]  # 160 train no codebook
        monkeypatch.setitem(sys.modules, "faiss", None)
        rows, result = self.audit(X, "int8", "pq", "rabitq")
        assert [*rows] == ["lsh", "int8"]
        assert len(result.skipped) == 2
        assert all("scikit-hash[audit]" in line for line in result.skipped)


class TestOtherMeasurements:
    def test_the_first_call_is_not_timed(self, monkeypatch):
        monkeypatch.setattr(measure, "TIMED_SECONDS", 5.0)
        now, costs = [0.0], iter([100.0, 3.0, 2.0, 4.0, 1.0])

        def call():
            now[0] += next(costs)
            return now[0]

        clock = SimpleNamespace(perf_counter=lambda: now[0])
        monkeypatch.setattr(measure, "time", clock)
        # 100 s compile; then 3 and 2 s are the 5 s of repetition.
        assert measure.timed(call)[1] == 2.0

    def test_map_is_the_metric_of_the_drawn_labels(self, X, drawn):
        X[:, 0] = np.arange(N)
        result = skhash.audit(X, np.arange(N) % 3, **FAST)
        (data,) = drawn
        rows = data.queries, data.database
        codes = map(result.encoder.transform, rows)
        expected = skhash.metrics.mean_average_precision_score(
            *codes, *(part[:, 0] % 3 for part in rows)
        )
        assert result.rows[0].mean_average_precision == pytest.approx(expected)
        assert skhash.audit(X, **FAST).rows[0].mean_average_precision is None

    def test_forms_of_labels(self, X, labels):
        expected = measured(skhash.audit(X, labels, **FAST))
        one_hot = np.eye(3, dtype=int)[labels]
        words = [f"class {label}" for label in labels]
        for y in (one_hot, sparse.csr_array(one_hot), words, pd.Series(words)):
            assert measured(skhash.audit(X, y, **FAST)) == expected
        one_hot[:, 0] = 1
        assert measured(skhash.audit(X, one_hot, **FAST)) != expected

    def test_labels_that_no_two_rows_share_give_no_map(self, X):
        result = skhash.audit(X, np.arange(N), **FAST)
        assert result.rows[0].mean_average_precision is None
        assert "mAP" in result.skipped[0]

    def test_bit_statistics_of_the_database(self, X, drawn):
        result = skhash.audit(X, **FAST)
        bits = result.encoder.transform(drawn[0].database).astype(float)
        shares = bits.mean(axis=0)
        balance = np.mean([min(share, 1 - share) for share in shares])
        varying = [i for i in range(8) if 0 < shares[i] < 1]
        correlations = [
            abs(np.corrcoef(bits[:, i], bits[:, j])[0, 1])
            for i in varying
            for j in varying
            if i != j
        ]
        assert result.rows[0].bit_balance == pytest.approx(balance)
        expected = pytest.approx(np.mean(correlations), abs=1e-6)
        assert result.rows[0].bit_correlation == expected
        # Bits that never vary correlate with nothing.
        bits = np.array([[0, 1, 0], [0, 1, 1]], dtype=np.uint8)
        assert bit_statistics(bits) == (pytest.approx(0.5 / 3), 0.0)

    def test_bytes_and_compression(self, X):
        rows = skhash.audit(X, **{**FAST, "n_bits": [8, 12]}).rows
        assert [row.code_bytes for row in rows] == [1, 2]
        # The float of a code that distances to it need; for the cosine they are two.
        assert [row.bytes_per_vector for row in rows] == [1 + 4, 2 + 4]
        assert [row.compression for row in rows] == [4 * D / 5, 4 * D / 6]
        (row,) = skhash.audit(X, metric="cosine", **FAST).rows
        assert row.bytes_per_vector == 1 + 8
        assert min(row.fit_seconds, row.encode_per_second, row.search_per_second) > 0


class TestInput:
    @pytest.mark.parametrize("n_queries", [7, 1000])
    @pytest.mark.parametrize("sample", [None, 50, 10 * N])
    def test_split(self, X, drawn, n_queries, sample):
        X[:, 0] = np.arange(N)
        options = {**FAST, "sample": sample, "n_queries": n_queries}
        settings = skhash.audit(X, **options).settings
        (data,) = drawn
        n = min(sample or N, N)
        rows = np.concatenate([data.queries[:, 0], data.database[:, 0]])
        assert len(np.unique(rows)) == len(rows) == n
        assert len(data.queries) == settings["n_queries"] == min(n_queries, n // 5)
        assert (settings["n_rows"], settings["n_database"]) == (N, len(data.database))

    def test_encoders_are_fitted_on_few_rows_of_the_database(
        self, X, drawn, monkeypatch
    ):
        monkeypatch.setattr(data_file, "MAX_TRAIN_ROWS", 30)
        X[:, 0] = np.arange(N)
        result = skhash.audit(X, **FAST)
        (data,) = drawn
        assert result.settings["n_train"] == len(np.unique(data.train[:, 0])) == 30
        assert np.isin(data.train[:, 0], data.database[:, 0]).all()
        mean = data.train.mean(axis=0, dtype=float)
        np.testing.assert_allclose(result.encoder.mean_, mean, rtol=1e-5)

    def test_only_drawn_rows_of_a_memory_map_are_read(self, X, tmp_path, drawn):
        half = X.astype(np.float16)
        expected = measured(skhash.audit(half, sample=60, **FAST))
        unused = np.random.RandomState(0).permutation(N)[60:]
        half[unused] = np.nan  # would raise, were it looked at
        np.save(tmp_path / "X.npy", half)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert measured(skhash.audit(mapped, sample=60, **FAST)) == expected
        data = drawn[-1]
        for rows in (data.queries, data.database, data.train):
            assert rows.dtype == np.float32 and not isinstance(rows, np.memmap)

    def test_forms_of_vectors_agree(self, X, drawn):
        X = np.where(X < 1, 0, X.astype(int)).astype(np.float32)
        expected = measured(skhash.audit(X, **FAST))
        forms = [X.tolist(), pd.DataFrame(X), np.asfortranarray(X)]
        forms += [X.astype(np.float64), X.astype(np.uint8)]
        for form in forms:
            assert measured(skhash.audit(form, **FAST)) == expected
        for form in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
            result = skhash.audit(form(X), **FAST)
            assert sparse.issparse(drawn[-1].database) and result.settings["sparse"]
            # A value and an int32 index each.
            n_bytes = round(8 * drawn[-1].database.nnz / len(drawn[0].database))
            assert result.settings["float_bytes_per_vector"] == n_bytes
            for got, dense in zip(measured(result), expected, strict=True):
                ratio = 4 * D / n_bytes
                assert got.pop("compression") * ratio == pytest.approx(8.0)
                assert {**got, "compression": 8.0} == pytest.approx(dense)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_a_value_that_is_not_finite_is_named_by_its_row(self, X, value, form):
        X[17, 3] = value
        with pytest.raises(ValueError, match=r"\b17\b"):
            skhash.audit(form(X), **FAST)

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"methods": ["lsh", "foo"]}, "foo"),
            ({"methods": []}, "sgh, neighbor, itq, pca, lsh"),
            ({"methods": ["int8"]}, "sgh, neighbor, itq, pca, lsh"),
            ({"methods": "lsh"}, "methods"),
            ({"n_bits": []}, "n_bits"),
            ({"n_bits": [8, 0]}, "n_bits .* 0"),
            ({"n_bits": [8.5]}, "n_bits .* 8.5"),
            ({"n_bits": [99_999_999]}, "99999999"),
            ({"n_bits": 8}, "n_bits"),
            ({"metric": "hamming"}, "metric.*hamming"),
            ({"k": 21}, "rescore=20 .* k=21"),
            ({"k": 0}, "'k'"),
            ({"n_queries": 0}, "'n_queries'"),
            ({"sample": 0}, "'sample'"),
            ({"sample": 4}, "4 rows.* 5"),
            ({"sample": 20}, "20 rows .* 4 .* 16 .* rescore=20"),
            ({"target_recall": 0}, "'target_recall'"),
            ({"target_recall": 1.1}, "'target_recall'"),
            ({"random_state": -1}, "'random_state'"),
            ({"device": "nowhere"}, "nowhere"),
            ({"y": [0, 1]}, "160 .* 2"),
            ({"y": np.linspace(0, 1, N)}, "classes"),
            ({"y": np.arange(N)[:, None]}, "1"),
            ({"y": np.full((N, 2), 2)}, "indicator"),
            ({"X": np.ones(5)}, r"\(5,\)"),
            ({"X": np.full((N, 2), "a")}, "a"),
            ({"methods": ["pca"], "n_bits": [16]}, "pca at 16 bits.*16"),
        ],
    )
    def test_bad_arguments(self, X, options, message):
        with pytest.raises(ValueError, match=message):
            skhash.audit(**{"X": X, **FAST, **options})

    def test_labels_are_refused_before_anything_is_fitted(self, X):
        lines = []
        with pytest.raises(ValueError):
            skhash.audit(
                X,
                np.full(N, np.nan),
                progress=lambda line, _: lines.append(line),
                **FAST,
            )
        assert len(lines) == 1


class TestOptions:
    def test_methods_and_lengths_in_order_each_once(self, X):
        result = skhash.audit(
            X, **{**FAST, "methods": ["pca", "lsh", "pca"], "n_bits": (16, 8, 4, 8)}
        )
        # pca has no 16 bits of 10 columns
        asked = [("pca", 8), ("pca", 4), ("lsh", 16), ("lsh", 8), ("lsh", 4)]
        assert [(row.method, row.n_bits) for row in result.rows] == asked
        assert len(result.skipped) == 1 and "pca at 16 bits" in result.skipped[0]

    @METRICS
    @pytest.mark.parametrize("method", ["sgh", "neighbor", "itq", "pca", "lsh"])
    def test_each_method_is_its_class_with_defaults(self, X, method, metric):
        classes = {
            "sgh": skhash.SGHEncoder,
            "neighbor": skhash.NeighborHash,
            "itq": skhash.ITQHash,
            "pca": skhash.PCAHash,
            "lsh": skhash.linear.RandomHyperplaneHash,
        }
        options = {**FAST, "methods": [method], "metric": metric}
        encoder = skhash.audit(X, **options).encoder
        params = encoder.get_params()
        assert type(encoder) is classes[method]
        assert isinstance(params.pop("random_state"), int)
        given = {"n_bits": 8, "device": "cpu", "normalize": metric == "cosine"}
        if method == "neighbor":
            given |= {"nested": [8], "metric": metric}
        defaults = classes[method]().get_params() | given
        assert params == {param: defaults[param] for param in params}

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
        codes = (result.encoder.transform(X) for result in (first, second))
        np.testing.assert_array_equal(*codes)
        assert first.settings["random_state"] == 3
        assert second.settings["random_state"] is None

    def test_steps_in_their_order(self, X, monkeypatch):
        """Kernels are compiled before anything is timed; rows are told at once."""
        steps = []

        def noted(name):
            call = getattr(run_file, name)

            def note(*arguments):
                steps.append(name)
                return call(*arguments)

            return note

        for name in ("_compile_kernels", "fit_few", "measure_encoder", "measure_peer"):
            monkeypatch.setattr(run_file, name, noted(name))

        def progress(line, result):
            steps.append(0 if result is None else len(result.rows))

        options = {**FAST, "methods": ["lsh", "sign", "pca"]}
        skhash.audit(X, **options, progress=progress)
        assert [step for step in steps if step != 0] == [
            *("_compile_kernels", "fit_few", "fit_few"),
            *("measure_encoder", 1, "measure_peer", 2, "measure_encoder", 3),
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

    def test_a_method_that_fails_does_not_end_the_audit(self, X, monkeypatch):
        class Diverging(skhash.PCAHash):
            def _fit_codes(self, X, y, random_state):
                if self.n_bits > 1:
                    raise ValueError("the loss is nan")
                super()._fit_codes(X, y, random_state)

        monkeypatch.setitem(run_file.METHODS, "pca", Diverging)
        result = skhash.audit(X, **{**FAST, "methods": ["pca", "lsh"]})
        assert [row.method for row in result.rows] == ["lsh"]
        assert result.skipped == ["pca at 8 bits: the loss is nan"]


class TestNested:
    OPTIONS = {**FAST, "n_bits": [4, 12, 8], "methods": ["neighbor"]}

    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_short_codes_are_cut_from_the_longest(self, X, drawn, metric):
        result = skhash.audit(X, **self.OPTIONS, metric=metric)
        (data,) = drawn
        params = result.encoder.get_params() | {"n_bits": 12, "nested": [4, 8]}
        longest = skhash.NeighborHash(**params).fit(data.train)
        order = float_order(data.queries, data.database, metric)
        assert [row.n_bits for row in result.rows] == [4, 12, 8]
        for row in result.rows:
            encoder = longest.truncate(row.n_bits)
            distances = hamming(encoder, data.queries, data.database)
            alone, rescored = (np.mean(shares_of(distances, order, n)) for n in (4, 20))
            assert row.recall == pytest.approx(alone)
            assert row.recall_rescored == pytest.approx(rescored)

    def test_there_is_one_fit_whose_time_stands_at_the_longest(self, X, monkeypatch):
        fits, timed_fit = [], run_file.timed_fit

        def fit(encoder, rows):
            fits.append(encoder.n_bits)
            return len(fits) + 0 * timed_fit(encoder, rows)

        monkeypatch.setattr(run_file, "timed_fit", fit)
        rows = skhash.audit(X, **{**self.OPTIONS, "methods": ["neighbor", "lsh"]}).rows
        assert fits == [12, 4, 12, 8]
        assert [row.fit_seconds for row in rows] == [None, 1, None, 2, 3, 4]

    @pytest.mark.parametrize("target, n_bits", [(0.01, 8), (1.0, 64)])
    def test_the_recommended_encoder_is_of_its_length(
        self, X, target, n_bits, tmp_path
    ):
        # None reaches all, where the best recall is chosen, which is that of most bits.
        options = {"n_bits": [8, 64], "target_recall": target, "rescore": 4}
        result = skhash.audit(X, **{**self.OPTIONS, **options})
        assert result.recommended.n_bits == result.encoder.n_bits == n_bits
        codes = result.encoder.transform(X)
        assert codes.shape == (N, n_bits)
        result.encoder.save(tmp_path / "encoder")
        saved = skhash.load(tmp_path / "encoder")
        np.testing.assert_array_equal(saved.transform(X), codes)


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


def recommend(rows, target=0.9, peers=(), n_rows=1000, rescore=100):
    settings = {"k": 10, "rescore": rescore, "target_recall": target, "n_rows": n_rows}
    fitted = {place: (f"encoder {place}", None) for place in range(len(rows))}
    return Result.from_rows([*rows, *peers], fitted, settings, [])


class TestRecommendation:
    @pytest.mark.parametrize("seed", range(40))
    def test_it_is_the_best_of_all_searches(self, seed):
        """By the rule in words: all searches, sorted by what matters first."""
        random = np.random.default_rng(seed)
        rows = [
            make_row("a", bits, *random.integers(4, 10, 2) / 10, random.integers(4000))
            for bits in random.choice([8, 16, 32, 64], 6)
        ]
        n_rows, rescore = int(random.integers(1, 2000)), int(random.choice([10, 100]))
        target, suffix = random.choice([0.3, 0.8]), "_rescored" * (rescore > 10)
        ranked = []
        for place, row in enumerate(rows):
            for search, name, memory in (
                ("hamming", "recall", n_rows * row.code_bytes),
                (
                    "asymmetric",
                    "recall_asymmetric",
                    n_rows * row.bytes_per_vector + row.codebook_bytes,
                ),
            ):
                recall = getattr(row, name + suffix)
                key = (0, memory, -recall) if recall >= target else (1, -recall, memory)
                ranked.append((key, place, search))
        result = recommend(rows, target, n_rows=n_rows, rescore=rescore)
        best = min(ranked)[0]
        found = rows.index(result.recommended), result.search
        assert found in [
            (place, search) for key, place, search in ranked if key == best
        ]
        assert result.encoder == f"encoder {rows.index(result.recommended)}"
        assert result.choice.memory(n_rows) in best and -result.choice.recall in best

    @pytest.mark.parametrize("n_rows", [999, 1000, 1001])
    def test_a_decoder_is_counted_once(self, n_rows):
        # 8 bytes and 4000 once, or 12 bytes: as much memory for 1000 vectors.
        rows = [make_row("a", 32, 0.5, 0.91, codebook=4000), make_row("a", 96, 0.95)]
        result = recommend(rows, n_rows=n_rows)
        assert result.search == ("hamming" if n_rows <= 1000 else "asymmetric")
        assert ("1,000" in result.alternatives[0]) == (n_rows <= 1000)

    def test_the_reason_names_a_rival_and_a_doubt(self):
        rows = [make_row("a", 32, 0.92, error=0.02), make_row("b", 32, 0.95)]
        rows += [make_row("c", 32, 0.6)]
        assert "a with 0.920" in recommend(rows).reason
        assert "standard errors" not in recommend(rows).reason
        assert "standard errors" in recommend(rows[:1]).reason
        assert "c with" not in recommend(rows[1:]).reason
        assert "99.5%" in recommend(rows, 0.995).reason

    def test_alternatives_without_vectors_and_of_peers(self):
        rows = [make_row("a", 32, 0.95), make_row("a", 64, 0.8, 1.0)]
        peer = make_row("pq", 16, None, 1.0)
        alone, others = recommend(rows, 0.5, peers=[peer]).alternatives
        assert "a at 64 bits by real queries" in alone and "pq at 16 bits" in alone
        assert recommend(rows, 0.5, peers=[peer]).recommended is rows[0]
        assert "pq at 16" not in others  # its 6 bytes are more than 4
        better = recommend(rows[1:], 0.9, peers=[peer]).alternatives[-1]
        assert "pq at 16 bits" in better and "1.000" in better
        assert len(recommend(rows, 0.4, rescore=10).alternatives) == 0

    def test_every_measured_search_is_a_choice(self):
        rows = [make_row("a", 8, 0.5), make_row("pq", 8, None, 0.7)]
        choices = choices_of(rows, rescored=True)
        assert [(choice.row.method, choice.search) for choice in choices] == [
            ("a", "hamming"),
            ("a", "asymmetric"),
            ("pq", "asymmetric"),
        ]


class TestResult:
    @pytest.mark.parametrize("with_labels", [False, True])
    def test_plain_data(self, X, with_labels):
        y = np.arange(N) if with_labels else None
        numpy_options = {
            "n_bits": np.array([4, 8]),
            "methods": np.array(["pca"]),
            "k": np.int64(4),
            "target_recall": np.float32(0.5),
            "random_state": np.int32(1),
        }
        result = skhash.audit(X, y, **{**FAST, **numpy_options})
        report = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert report["rows"] == [vars(row) for row in result.rows]
        assert report["settings"] == result.settings
        assert report["recommended"]["n_bits"] == result.encoder.n_bits
        frame = result.to_frame()
        assert frame["n_bits"].tolist() == [4, 8]
        assert frame["recall"].tolist() == [row.recall for row in result.rows]
        assert "PCAHash" not in repr(result)

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

    @METRICS
    @pytest.mark.parametrize("rescore", [4, 20])
    def test_usage_by_real_queries(self, X, drawn, rescore, metric):
        # 2 bytes and 4 or 8 of floats reach what 8 bytes by Hamming distance do not.
        options = {"n_bits": [16], "rescore": rescore, "metric": metric}
        result, recall = self.recall(X, drawn, **options, target_recall=1.0)
        assert result.search == "asymmetric"
        assert recall == pytest.approx(result.choice.recall)
        n_bytes = result.decoder.codebook_.nbytes + result.decoder.offset_.nbytes
        assert result.storage == {
            "code": 2,
            "floats": 8 if metric == "cosine" else 4,
            "vector": 4 * D if rescore == 20 else 0,
            "decoder": n_bytes,
        }

    def test_usage_by_hamming_distance(self, X, drawn):
        result, recall = self.recall(X, drawn)
        assert result.search == "hamming"
        # Many codes of 8 bits tie, which the search orders by their positions.
        assert recall == pytest.approx(result.choice.recall, abs=0.1)
        assert recall > 1.3 * result.recommended.recall
        assert result.storage == {"code": 1, "floats": 0, "vector": 4 * D, "decoder": 0}

    def test_usage_by_hamming_distance_alone(self, X, drawn):
        result, recall = self.recall(X, drawn, n_bits=[512], rescore=4)
        assert result.search == "hamming"
        assert recall == pytest.approx(result.choice.recall, abs=0.03)
