"""`skhash.audit` against plain computations on the rows that it says it drew."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from audit.golden import make_row
from cases import each
from decoded import scores_of_decoded
from scipy import sparse

import skhash
from skhash.auditing import measure, peers, timing
from skhash.auditing import rows as rows_file
from skhash.auditing import run as run_file
from skhash.auditing.choices import ordered
from skhash.auditing.measure import code_search
from skhash.auditing.texts import how_measured
from skhash.neural.neighbor import _encoder

N, D = 160, 10
FAST = {
    "n_bits": [8],
    "methods": ["lsh"],
    "n_neighbors": 4,
    "rerank": 20,
    "device": "cpu",
}
METRICS = pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])


@pytest.fixture(autouse=True)
def timed_once(monkeypatch):
    """Promises depend neither on how often times are measured, nor on epochs."""
    monkeypatch.setattr(timing, "TIMED_SECONDS", 0.0)
    monkeypatch.setattr(_encoder, "AUTO_EPOCHS", (2, 2))


@pytest.fixture
def X():
    generator = np.random.default_rng(0)
    centers = 3 * generator.standard_normal((8, D))
    noise = generator.standard_normal((N, D))
    return (centers[generator.integers(8, size=N)] + noise).astype(np.float32)


@pytest.fixture
def drawn(monkeypatch):
    """Return a function that audits, and returns the result and the rows it drew."""
    splits = []

    def split_rows(*arguments):
        splits.append(rows_file.split_rows(*arguments))
        return splits[-1]

    monkeypatch.setattr(run_file, "split_rows", split_rows)

    def drawn(X, y=None, **options):
        return audit(X, y, **options), splits[-1]

    return drawn


def audit(X, y=None, **options):
    return skhash.audit(X, y, **{**FAST, **options})


def measured(result):
    """Return the rows without their times."""
    return [
        {name: value for name, value in vars(row).items() if "second" not in name}
        for row in result.rows
    ]


def float_order(data, metric="euclidean"):
    """Return the database's rows for each query, the nearest first."""
    scores = scores_of(data.queries, data.database, metric)
    return np.argsort(scores, axis=1, kind="stable")


def scores_of(queries, vectors, metric="euclidean"):
    """Return scores in float64, equal ones for equal vectors."""
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    products = (queries[:, None] * vectors).sum(axis=2)
    if metric == "euclidean":
        return ((queries[:, None] - vectors) ** 2).sum(axis=2)
    return -products / (np.linalg.norm(vectors, axis=1) if metric == "cosine" else 1)


def hamming(encoder, data):
    q, d = encoder.transform(data.queries), encoder.transform(data.database)
    return (q[:, None] != d).sum(axis=2)


def expected_hits(distances, truth, cut):
    """Count true neighbours within `cut`, a true one of a cut tie by its chance."""
    edge = np.sort(distances)[cut - 1]
    nearer, tied = distances < edge, distances == edge
    chance = (cut - nearer.sum()) / tied.sum()
    return nearer[truth].sum() + chance * tied[truth].sum()


def assert_hamming(row, distances, order):
    assert row.search == "hamming"
    pairs = list(zip(distances, order, strict=True))
    for name, cut in (("recall", 4), ("recall_reranked", 20)):
        shares = [expected_hits(own, near[:4], cut) / 4 for own, near in pairs]
        assert getattr(row, name) == pytest.approx(np.mean(shares))
        error = np.std(shares) / np.sqrt(len(shares))
        assert getattr(row, f"{name}_error") == pytest.approx(error)
    assert row.depth == depth_of(
        lambda n: np.mean([expected_hits(one, near[:4], n) / 4 for one, near in pairs])
    )


def depth_of(recall, target=0.9):
    """Return the least of 1, 3, 10 and 30 times 4 candidates that reach the target."""
    return next((n for n in (4, 12, 40, 120) if recall(n) >= target), None)


def recall_of(scores, order, cut):
    """Return the recall of the 4 nearest of a ranking by scores, ties by position."""
    found = np.argsort(scores, axis=1, kind="stable")[:, :cut]
    pairs = zip(order, found, strict=True)
    return np.mean([np.isin(near[:4], own).mean() for near, own in pairs])


def assert_asymmetric(row, scores, order, target=0.9):
    # float32 may order what is nearly as near otherwise: one pair in 128.
    alone, reranked = (pytest.approx(recall_of(scores, order, n), abs=0.01)
                       for n in (4, 20))  # fmt: skip
    assert row.search == "asymmetric"
    assert (row.recall, row.recall_reranked) == (alone, reranked)
    assert row.depth == depth_of(lambda n: recall_of(scores, order, n), target)


class TestRecall:
    @pytest.mark.parametrize(
        "metric, n_bits", [("euclidean", 8), ("cosine", 1024), ("inner_product", 8)]
    )
    def test_by_hamming_distance_over_orders_of_ties(self, X, drawn, metric, n_bits):
        result, data = drawn(X, metric=metric, n_bits=[n_bits])
        distances = hamming(result.encoder, data)
        assert_hamming(result.rows[0], distances, float_order(data, metric))

    @pytest.mark.parametrize(
        "metric, n_bits, n_train, block_bits",
        [
            ("euclidean", 80, 120, 4),
            ("cosine", 8, 128, 8),
            ("inner_product", 8, 128, 8),
        ],
    )
    def test_uncompressed_queries_meet_decoded_codes(
        self, X, drawn, metric, n_bits, n_train, block_bits, monkeypatch
    ):
        monkeypatch.setattr(rows_file, "MAX_TRAIN_ROWS", n_train)
        # Lengths in a byte may cost more of few queries than the tolerance.
        exactly = lambda *_: (23, 23)  # noqa: E731
        monkeypatch.setattr("skhash.quantization._base.choose_fractions", exactly)
        options = {"methods": ["bytes"], "metric": metric, "target_recall": 0.99}
        result, data = drawn(X, n_bits=[n_bits], **options)
        (row,), order = result.rows, float_order(data, metric)
        quantizer = skhash.AdditiveQuantizer(n_bits // 8).fit(data.train)
        codes = quantizer.transform(data.database)
        assert quantizer.block_bits_ == block_bits
        np.testing.assert_array_equal(result.encoder.codebook_, quantizer.codebook_)
        numbers = quantizer.entries_, quantizer.scales_, quantizer.offset_
        assert row.codebook_bytes == sum(it.nbytes for it in numbers if it is not None)
        decoded = quantizer.inverse_transform(codes)
        errors = quantizer.reconstruction_error(data.database, codes)
        scores = scores_of_decoded(
            *(data.queries, decoded, quantizer.offset_, metric),
            added=errors / 4,
            unit_rows=metric == "cosine",
        )
        assert_asymmetric(row, scores, order, target=0.99)


class TestPeers:
    @METRICS
    def test_int8_is_a_byte_a_column(self, X, drawn, metric):
        X[:, 0] = 3  # a constant column has no step
        result, data = drawn(X, methods=["lsh", "int8"], metric=metric)
        least, most = data.database.min(axis=0), data.database.max(axis=0)
        step = np.where(most > least, (most - least) / 255, 1)
        decoded = least + np.round((data.database - least) / step) * step
        (_, row), scores = result.rows, scores_of(data.queries, decoded, metric)
        assert_asymmetric(row, scores, float_order(data, metric))
        assert row.codebook_bytes == 8 * D
        assert (row.n_bits, row.bytes_per_vector) == (8 * D, D)

    @METRICS
    def test_sign_is_a_bit_a_column(self, X, drawn, metric):
        result, data = drawn(X, methods=["lsh", "sign"], metric=metric)
        (_, *rows), order = result.rows, float_order(data, metric)
        mean = data.database.mean(axis=0)
        bits = data.database > mean
        decoded = np.empty_like(data.database)
        for column in range(D):
            for side in (False, True):
                on_side = bits[:, column] == side
                decoded[on_side, column] = data.database[on_side, column].mean()
        distances = ((data.queries > mean)[:, None] != bits).sum(axis=2)
        assert_hamming(rows[0], distances, order)
        assert_asymmetric(rows[1], scores_of(data.queries, decoded, metric), order)
        assert [(row.n_bits, row.bytes_per_vector) for row in rows] == 2 * [(D, 2)]
        assert [row.codebook_bytes for row in rows] == [0, 12 * D]

    @pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
    def test_faiss_is_asked_for_what_its_codes_decode_to(self, X, drawn, metric):
        faiss = pytest.importorskip("faiss")
        _, data = drawn(X, metric=metric)
        order = float_order(data, metric)
        task = measure.Task(data, order[:, :4], 20, metric, 1.0)
        # 4 bits a part, so that the few rows train it, and two columns of zeros; the
        # parts are many, so that no two rows have one code.
        product = metric == "inner_product"
        kind = faiss.METRIC_INNER_PRODUCT if product else faiss.METRIC_L2
        index = faiss.IndexPQ(D + 2, 6, 4, kind)
        index.train(np.pad(data.train, [(0, 0), (0, 2)]))
        index.add(np.pad(data.database, [(0, 0), (0, 2)]))
        found = peers.search_by_faiss(task, "pq", D + 2, 6, part_bits=4)
        assert found[0] == index.code_size == 3
        row = SimpleNamespace(**found[1])
        decoded = index.reconstruct_n(0, index.ntotal)[:, :D]
        scores = scores_of(data.queries, decoded, metric)
        assert_asymmetric(row, scores, order, target=1.0)
        less = replace(task, n_candidates=4)
        _, few = peers.search_by_faiss(less, "pq", D + 2, 6, part_bits=4)
        assert few["depth"] == row.depth > 4

    def test_faiss_at_the_same_bytes(self):
        faiss = pytest.importorskip("faiss")
        X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
        methods, n_bits = ["lsh", "pq", "rabitq"], [8, 7, 24, 64]
        result = audit(X, n_bits=n_bits, methods=methods, rerank=320)
        assert [row.method for row in result.rows].count("pq") == 2
        sizes = {(row.method, row.n_bits): row for row in result.rows}
        for n_bits in (8, 24):
            row = sizes["pq", n_bits]
            assert row.bytes_per_vector == n_bits // 8
            assert row.codebook_bytes == 256 * 6 * 4
            assert row.recall_reranked == 1.0  # all rows were candidates
        assert "pq at 64 bits" in result.skipped[0] and ("pq", 64) not in sizes
        if hasattr(faiss, "IndexRaBitQ"):
            assert sizes["rabitq", 6].code_bytes == 1
            assert sizes["rabitq", 6].bytes_per_vector == 9

    def test_faiss_is_loaded_in_another_process(self, monkeypatch, tmp_path):
        """Its OpenMP library and torch's may not be in one, and it may crash alone."""
        pytest.importorskip("faiss")
        monkeypatch.delitem(sys.modules, "faiss")
        X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
        options = {"methods": ["lsh", "pq"], "rerank": 20}
        assert [row.method for row in audit(X, **options).rows] == ["lsh", "pq"]
        assert "faiss" not in sys.modules
        crash = tmp_path / "crash.py"
        crash.write_text("import os\nos.abort()\n")
        monkeypatch.setattr(timing, "__file__", str(crash))
        assert "pq at 8 bits: faiss ended with status" in audit(X, **options).skipped[0]

    def test_what_cannot_be_measured_is_named(self, X, monkeypatch):
        result = audit(sparse.csr_array(X), methods=["lsh", "sign", "int8"])
        assert [row.method for row in result.rows] == ["lsh"]
        assert [line.partition(":")[0] for line in result.skipped] == ["sign", "int8"]
        pytest.importorskip("faiss")
        skipped = audit(X, methods=["lsh", "pq"]).skipped
        assert "256 rows" in skipped[0]  # 160 train no codebook
        monkeypatch.setitem(sys.modules, "faiss", None)
        result = audit(X, methods=["lsh", "int8", "pq", "rabitq"])
        assert [row.method for row in result.rows] == ["lsh", "int8"]
        assert len(result.skipped) == 2
        assert all("scikit-hash[audit]" in line for line in result.skipped)


class TestOtherMeasurements:
    def test_map_is_the_metric_of_the_drawn_labels(self, X, drawn):
        X[:, 0] = np.arange(N)
        result, data = drawn(X, np.arange(N) % 3)
        rows = data.queries, data.database
        codes = map(result.encoder.transform, rows)
        expected = skhash.metrics.mean_average_precision_score(
            *codes, *(part[:, 0] % 3 for part in rows)
        )
        assert result.rows[0].mean_average_precision == pytest.approx(expected)
        for y in (None, np.arange(N)):  # no two rows share such labels
            assert audit(X, y).rows[0].mean_average_precision is None

    def test_bytes(self, X):
        methods = ["lsh", "bytes"]
        rows = audit(X, n_bits=[8, 12, 16], methods=methods).rows
        # Whole bytes, each number once, and two more for distances, where no two rows
        # share an entry.
        sizes = [(row.n_bits, row.code_bytes, row.bytes_per_vector) for row in rows]
        assert sizes == [(8, 1, 1), (12, 2, 2), (16, 2, 2), (8, 1, 3), (16, 2, 4)]
        lsh, row = audit(X, methods=methods, metric="inner_product").rows
        assert (row.bytes_per_vector, lsh.codebook_bytes) == (1, 0)
        for one in (lsh, row):
            speeds = one.encode_per_second, one.search_per_second
            assert min(one.fit_seconds, *speeds) > 0

    @METRICS
    def test_memory_is_that_of_the_index(self, X, metric):
        """Bytes a code and beside it are those by which an index grows."""
        (row,) = (result := audit(X, methods=["bytes"], metric=metric)).rows
        rows = np.tile(X, (40, 1))
        sizes = [
            code_search(result.encoder, metric, 4).fit(rows[:n]).nbytes_
            for n in (2048, 6144)
        ]
        assert row.bytes_per_vector == (sizes[1] - sizes[0]) / 4096


class TestInput:
    @pytest.mark.parametrize("n_queries", [7, 1000])
    @pytest.mark.parametrize("sample", [None, 50, 10 * N])
    def test_split(self, X, drawn, n_queries, sample, monkeypatch):
        monkeypatch.setattr(rows_file, "MAX_TRAIN_ROWS", 30)
        X[:, 0] = np.arange(N)
        result, data = drawn(X, sample=sample, n_queries=n_queries)
        n, settings = min(sample or N, N), result.settings
        rows = np.concatenate([data.queries[:, 0], data.database[:, 0]])
        assert len(np.unique(rows)) == len(rows) == n
        assert len(data.queries) == settings["n_queries"] == min(n_queries, n // 5)
        assert (settings["n_rows"], settings["n_database"]) == (N, len(data.database))
        # Encoders are fitted on few rows of the database.
        assert settings["n_train"] == len(np.unique(data.train[:, 0])) == 30
        assert np.isin(data.train[:, 0], data.database[:, 0]).all()
        mean = data.train.mean(axis=0, dtype=float)
        np.testing.assert_allclose(result.encoder.mean_, mean, rtol=1e-5)

    def test_only_drawn_rows_of_a_memory_map_are_read(self, X, tmp_path, drawn):
        half = X.astype(np.float16)
        expected = measured(audit(half, sample=60))
        unused = np.random.RandomState(0).permutation(N)[60:]
        half[unused] = np.nan  # would raise, were it looked at
        np.save(tmp_path / "X.npy", half)
        result, data = drawn(np.load(tmp_path / "X.npy", mmap_mode="r"), sample=60)
        assert measured(result) == expected
        for rows in (data.queries, data.database, data.train):
            assert rows.dtype == np.float32 and not isinstance(rows, np.memmap)

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"methods": ["lsh", "foo"]}, "foo"),
            ({"methods": []}, "bytes, itq, sgh, neighbor, pca, lsh"),
            ({"methods": "lsh"}, "methods"),
            ({"n_bits": []}, "n_bits"),
            ({"n_bits": [8, 0]}, "n_bits .* 0"),
            ({"n_bits": [99_999_999]}, "99999999"),
            ({"n_bits": 8}, "n_bits"),
            ({"n_neighbors": 21}, "rerank=20 .* n_neighbors=21"),
            ({"sample": 4}, "4 rows.* 5"),
            ({"sample": 20}, "20 rows .* 4 .* 16 .* 20 .*rerank"),
            ({"target_recall": 0}, "'target_recall'"),
            ({"device": "nowhere"}, "nowhere"),
            ({"y": [0, 1]}, "160 .* 2"),
            ({"y": np.linspace(0, 1, N)}, "classes"),
            ({"y": np.full((N, 2), 2)}, "indicator"),
            ({"X": np.ones(5)}, r"\(5,\)"),
            ({"X": np.full((N, 2), "a")}, "a"),
            ({"methods": ["pca"], "n_bits": [16]}, "pca at 16 bits.*16"),
        ],
    )
    def test_bad_arguments(self, X, options, message):
        with pytest.raises(ValueError, match=message):
            audit(**{"X": X, **options})


class TestOptions:
    def test_methods_and_lengths_in_order_each_once(self, X):
        result = audit(X, methods=["pca", "lsh", "pca"], n_bits=(16, 8, 4, 8))
        # pca has no 16 bits of 10 columns
        asked = [("pca", 8), ("pca", 4), ("lsh", 16), ("lsh", 8), ("lsh", 4)]
        assert [(row.method, row.n_bits) for row in result.rows] == asked
        assert len(result.skipped) == 1 and "pca at 16 bits" in result.skipped[0]

    @pytest.mark.parametrize("metric", ["cosine", "inner_product"])
    @pytest.mark.parametrize("method", run_file.METHODS)
    def test_each_method_is_its_class_with_defaults(self, X, method, metric):
        encoder = audit(X, methods=[method], metric=metric).encoder
        given = {"n_bits": 8, "device": "cpu", "normalize": metric == "cosine"}
        if method == "neighbor":
            given |= {"nested": [8], "metric": metric}
        if method == "bytes":
            given = {"n_bytes": 1, "random_state": None}
        params = encoder.get_params()
        assert type(encoder) is run_file.METHODS[method]
        seed = params.pop("random_state")
        assert isinstance(seed, int) or method == "bytes"
        defaults = type(encoder)().get_params() | given
        assert params == {param: defaults[param] for param in params}

    def test_same_seed_same_result(self, X):
        seeds = 3, np.random.RandomState(3)
        first, second = (audit(X, random_state=seed) for seed in seeds)
        assert measured(first) == measured(second) != measured(audit(X))
        codes = (result.encoder.transform(X) for result in (first, second))
        np.testing.assert_array_equal(*codes)
        assert first.settings["random_state"] == 3
        assert second.settings["random_state"] is None

    def test_an_interrupt_reaches_the_caller_who_has_what_was_measured(self, X):
        results = []

        def interrupt(line, result):
            results.append(result)
            if "pca at 4" in line:
                raise KeyboardInterrupt

        options = {"methods": ["sign", "lsh", "pca"], "n_bits": [4, 8]}
        with pytest.raises(KeyboardInterrupt):
            audit(X, **options, progress=interrupt)
        # Nothing can be recommended before the first encoder.
        counts = [None if one is None else len(one.rows) for one in results[2:]]
        assert counts == [None, None, 3, 4]  # sign has two searches
        result = results[-1]
        whole = audit(X, **{**options, "methods": ["sign", "lsh"]})
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
        result = audit(X, methods=["pca", "lsh"])
        assert [row.method for row in result.rows] == ["lsh"]
        assert result.skipped == ["pca at 8 bits: the loss is nan"]


class TestNested:
    OPTIONS = {"n_bits": [4, 12, 8], "methods": ["neighbor"]}

    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_short_codes_are_cut_from_the_longest(self, X, drawn, metric):
        result, data = drawn(X, **self.OPTIONS, metric=metric)
        params = result.encoder.get_params() | {"n_bits": 12, "nested": [4, 8]}
        longest = skhash.NeighborHash(**params).fit(data.train)
        order = float_order(data, metric)
        assert [row.n_bits for row in result.rows] == [4, 12, 8]
        for row in result.rows:
            distances = hamming(longest.truncate(row.n_bits), data)
            assert_hamming(row, distances, order)

    def test_there_is_one_fit_whose_time_stands_at_the_longest(self, X, monkeypatch):
        fits, timed_fit = [], run_file.timed_fit

        def fit(encoder, rows):
            fits.append(encoder.n_bits)
            return len(fits) + 0 * timed_fit(encoder, rows)

        monkeypatch.setattr(run_file, "timed_fit", fit)
        rows = audit(X, **{**self.OPTIONS, "methods": ["neighbor", "lsh"]}).rows
        assert fits == [12, 4, 12, 8]
        assert [row.fit_seconds for row in rows] == [None, 1, None, 2, 3, 4]

    @pytest.mark.parametrize("target, n_bits", [(0.01, 8), (1.0, 64)])
    def test_the_recommended_encoder_is_of_its_length(
        self, X, target, n_bits, tmp_path
    ):
        # None reaches all, where the best recall is chosen, which is that of most bits.
        options = {"n_bits": [8, 64], "target_recall": target, "rerank": 4}
        result = audit(X, **{**self.OPTIONS, **options})
        assert result.recommended.n_bits == result.encoder.n_bits == n_bits
        codes = result.encoder.transform(X)
        assert codes.shape == (N, n_bits)
        result.encoder.save(tmp_path / "encoder")
        saved = skhash.load(tmp_path / "encoder")
        np.testing.assert_array_equal(saved.transform(X), codes)


def recommend(rows, target=0.9, peers=(), n_rows=1000, rerank=100):
    settings = {"n_neighbors": 10, "rerank": rerank, "target_recall": target}
    settings["n_vectors"] = n_rows
    fitted = {place: f"encoder {place}" for place in range(len(rows))}
    return skhash.AuditResult.from_rows([*rows, *peers], fitted, settings, [])


def random_rows(random, n):
    return [
        make_row(
            *("a", random.choice([8, 16, 32, 64]), random.integers(4, 10) / 10),
            beside=random.choice([None, 0, 4]),
            codebook=random.choice([0, random.integers(4000)]),
        )
        for _ in range(n)
    ]


class TestRecommendation:
    @each("seed", range(40))
    def test_it_is_the_best_of_all_searches(self, seed):
        """By the rule in words: all rows, sorted by what matters first."""
        random = np.random.default_rng(seed)
        rows = random_rows(random, 12)
        n_rows, rerank = int(random.integers(1, 2000)), random.choice([None, 100])
        target, name = random.choice([0.3, 0.8]), "recall" + "_reranked" * bool(rerank)
        ranked = []
        for place, row in enumerate(rows):
            memory = n_rows * row.bytes_per_vector + row.codebook_bytes
            recall = getattr(row, name)
            key = (0, memory, -recall) if recall >= target else (1, -recall, memory)
            ranked.append((key, place))
        result = recommend(rows, target, n_rows=n_rows, rerank=rerank)
        best = min(ranked)[0]
        found = rows.index(result.recommended)
        assert found in [place for key, place in ranked if key == best]
        assert rows[int(result.encoder.split()[1])] == result.recommended
        assert result.choice.memory(n_rows) in best and -result.choice.recall in best

    @each("seed", range(20))
    def test_the_front_is_what_no_other_beats(self, seed):
        random = np.random.default_rng(seed)
        rows, n_rows = random_rows(random, 30), int(random.integers(1, 2000))
        result = recommend(rows[:9], peers=rows[9:], n_rows=n_rows)

        def points_of(rows):
            memories = (n_rows * it.bytes_per_vector + it.codebook_bytes for it in rows)
            return list(zip(memories, (it.recall_reranked for it in rows), strict=True))

        points = {*points_of(rows)}
        front = sorted(
            one
            for one in points
            if not any(m <= one[0] and r >= one[1] for m, r in points - {one})
        )
        first, *others = ordered(result, n_front=99)
        assert first is result.recommended
        assert sorted({*points_of(others), *points_of([first])} & {*front}) == front
        assert points_of(others) == [one for one in front if one in points_of(others)]
        few = ordered(result, n_front=3)
        assert few == [first, *dict.fromkeys([*others[:1], *others[-1:]])]
        first, *others = ordered(result)
        assert first is result.recommended and len(others) == len(rows) - 1
        assert {*map(id, rows)} == {id(first), *map(id, others)}
        memories = [memory for memory, _ in points_of(others)]
        assert memories == sorted(memories)

    def test_the_reason_names_a_rival_and_a_doubt(self):
        rows = [make_row("a", 32, 0.92), make_row("b", 32, 0.95)]
        rows += [make_row("c", 32, 0.6)]
        assert "a with 0.920" in recommend(rows).reason
        assert "standard errors" not in recommend(rows).reason
        assert "standard errors" in recommend(rows[:1]).reason
        assert "c with" not in recommend(rows[1:]).reason
        assert "99.5%" in recommend(rows, 0.995).reason

    def test_alternatives_without_vectors_and_of_peers(self):
        rows = [make_row("a", 32, 0.95), make_row("bytes", 64, 1.0, beside=4)]
        peer = make_row("pq", 16, 1.0, beside=4)
        alone, others = recommend(rows, 0.5, peers=[peer]).alternatives
        assert "codes of 8 bytes by uncompressed queries" in alone
        assert "pq at 16 bits" in alone
        assert recommend(rows, 0.5, peers=[peer]).recommended is rows[0]
        assert "pq at 16" not in others  # its 6 bytes are more than 4
        better = recommend(rows[1:], 0.9, peers=[peer]).alternatives[-1]
        assert "pq at 16 bits" in better and "1.000" in better
        assert len(recommend(rows, 0.4, rerank=None).alternatives) == 0

    def test_the_memory_of_another_engine_is_told_in_plain_figures(self):
        rows, peer = [make_row("a", 16, 0.5)], make_row("int8", 6272, 0.99, beside=0)
        others = recommend(rows, peers=[peer]).alternatives[-1]
        assert others.startswith("With 392 times the memory, another engine finds more")

    @each("n_rows", [999, 1000, 1001])
    def test_a_codebook_of_a_peer_is_counted_once(self, n_rows):
        # 6 bytes and 4000 once, or 10 bytes: as much memory for 1000 vectors.
        rows = [make_row("a", 80, 0.95)]
        peer = make_row("pq", 16, 1.0, beside=4, codebook=4000)
        others = recommend(rows, peers=[peer], n_rows=n_rows).alternatives[-1]
        assert ("With 1,000 or more vectors, this needs less memory: pq" in others) == (
            n_rows < 1000
        )
        assert ("does better than the recommendation: pq" in others) == (n_rows > 999)

    @each("once", [4500, 9000])
    def test_a_peer_is_better_until_a_smaller_code_of_ours_pays(self, once):
        # 10 bytes; of pq 6 and 4000 once; 5 and more once, for still more vectors.
        rows = [
            make_row("a", 80, 0.95),
            make_row("b", 8, 0.95, beside=4, codebook=once),
        ]
        peer = make_row("pq", 16, 1.0, beside=4, codebook=4000)
        ours, *_, others = recommend(rows, peers=[peer], n_rows=500).alternatives
        assert f"With {once // 5:,} or more vectors" in ours
        assert ("With 1,000 to 5,000 vectors, this" in others) == (once == 9000)
        assert ("For more vectors" in others) == (once == 9000)

    def test_a_peer_of_equal_bytes_that_finds_more_is_named(self):
        rows = [make_row("a", 80, 0.95)]
        peer = make_row("pq", 48, 0.97, beside=4, codebook=4000)
        others = recommend(rows, peers=[peer]).alternatives[-1]
        assert "finds more at no more bytes a vector: pq" in others


class TestResult:
    @pytest.mark.parametrize("with_labels", [False, True])
    def test_plain_data(self, X, with_labels):
        y = np.arange(N) if with_labels else None
        numpy_options = {"n_bits": np.array([4, 8]), "methods": np.array(["pca"])}
        numpy_options |= {"n_neighbors": np.int64(4), "target_recall": np.float32(0.5)}
        numpy_options |= {"random_state": np.int32(1)}
        result = audit(X, y, **numpy_options)
        report = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert report["rows"] == [vars(row) for row in result.rows]
        assert report["settings"] == result.settings
        assert report["recommended"]["n_bits"] == result.encoder.n_bits
        frame = result.to_frame()
        assert frame["n_bits"].tolist() == [4, 8]
        assert frame["recall"].tolist() == [row.recall for row in result.rows]
        assert "PCAHash" not in repr(result)

    def recall(self, X, drawn, target_recall=0.01, **options):
        result, data = drawn(X, target_recall=target_recall, **options)
        names = {"X": data.database}
        exec("; ".join([*result.imports, f"search = {result.usage}"]), names)
        found = names["search"].kneighbors(data.queries, return_distance=False)
        order = float_order(data, result.settings["metric"])
        pairs = zip(order, found, strict=True)
        return result, np.mean([np.isin(t[:4], f).mean() for t, f in pairs])

    @pytest.mark.parametrize(
        "metric, rerank", [("euclidean", 20), ("cosine", None), ("inner_product", 20)]
    )
    def test_usage_by_uncompressed_queries(self, X, drawn, rerank, metric):
        options = {"n_bits": [16], "rerank": rerank, "metric": metric}
        result, recall = self.recall(X, drawn, **options, methods=["bytes"])
        assert result.recommended.search == "asymmetric"
        assert recall == pytest.approx(result.choice.recall)
        encoder = result.encoder
        numbers = encoder.entries_, encoder.scales_, encoder.offset_
        n_bytes = sum(it.nbytes for it in numbers if it is not None)
        assert result.storage == {
            "code": 2,
            "beside": {"euclidean": 2, "cosine": 1, "inner_product": 0}[metric],
            "vector": 4 * D if rerank else 0,
            "codebook": n_bytes,
        }

    @METRICS
    def test_usage_by_hamming_distance(self, X, drawn, metric):
        result, recall = self.recall(X, drawn, metric=metric)
        assert result.recommended.search == "hamming"
        # Many codes of 8 bits tie, which the search orders by their positions.
        assert recall == pytest.approx(result.choice.recall, abs=0.1)
        assert recall > 1.3 * result.recommended.recall
        stored = {"code": 1, "beside": 0, "vector": 4 * D, "codebook": 0}
        assert result.storage == stored

    def test_usage_by_hamming_distance_alone(self, X, drawn):
        result, recall = self.recall(X, drawn, n_bits=[512], rerank=4)
        assert not result.is_reranked and "rerank" not in result.usage
        assert recall == pytest.approx(result.choice.recall, abs=0.03)

    @each("dtype", ["f2", "f4", "f8", "u1"])
    def test_vectors_are_counted_as_they_are_kept(self, X, dtype):
        X = (10 * X).astype(dtype)
        result = audit(X, n_bits=[8], methods=["itq"], rerank=20)
        assert result.storage["vector"] == X[0].nbytes
        assert f"{X[0].nbytes:,} bytes each as {X.dtype}" in how_measured(
            result.settings
        )

    def test_imports_are_from_the_top_level_where_they_can_be(self, X):
        for method, lines in {
            "bytes": ["from skhash import HashedNeighbors"],
            "neighbor": ["from skhash import HashedNeighbors, NeighborHash"],
            "lsh": [
                "from skhash import HashedNeighbors",
                "from skhash.linear import RandomHyperplaneHash",
            ],
        }.items():
            result = audit(X, n_bits=[8], methods=[method])
            assert result.imports == lines and "nested" not in result.usage
