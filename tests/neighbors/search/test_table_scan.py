"""Search by bounds against a stable sort of the scores of all codes."""

from types import SimpleNamespace

import numpy as np
import pytest

from skhash.neighbors import AsymmetricNeighbors
from skhash.neighbors.search import table_scan
from skhash.neighbors.search.asymmetric import asymmetric_scores
from skhash.neighbors.store.decoder import METRICS, read_decoder

BLOCK_BITS = (1, 4, 8)


def make_codebook(block_bits, n_bytes, n_features, draw):
    n_blocks = 8 * n_bytes // block_bits
    entries = () if block_bits == 1 else (2**block_bits,)
    return draw((n_blocks, *entries, n_features)), draw(n_features)


def make_codes(rng, n, n_bytes, n_distinct=None):
    codes = rng.integers(0, 256, (n_distinct or n, n_bytes), dtype=np.uint8)
    return codes[rng.integers(0, len(codes), n)]


def expected_nearest(scores, k):
    order = np.argsort(scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), order


def expected_within(scores, radius):
    for own in scores:
        order = np.argsort(own, kind="stable")
        order = order[own[order] <= np.float32(radius)]
        yield own[order], order


def assert_finds(queries, codes, decoder, metric, k=10, mask=None, n_jobs=1):
    """Neighbours and balls are those of the scores of all codes, to the last bit."""
    options = {"metric": metric, "packed": True, "n_jobs": n_jobs}
    index = AsymmetricNeighbors(k, **options).fit(codes, decoder=decoder)
    scores = asymmetric_scores(queries, codes, decoder, metric=metric, packed=True)
    if mask is not None:
        scores = np.where(mask, scores, np.float32(np.inf))
    found = index.kneighbors(queries, mask=mask)
    expected = expected_nearest(scores, k)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert_finds_within(index, queries, scores, float(np.median(expected[0])), mask)


def assert_finds_within(index, queries, scores, radius, mask=None):
    balls = zip(*index.radius_neighbors(queries, radius, mask=mask), strict=True)
    for ball, others in zip(balls, expected_within(scores, radius), strict=True):
        for one, other in zip(ball, others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block_bits", BLOCK_BITS)
@pytest.mark.parametrize("n", [1, 63, 512, 513, 9000])
def test_nearest_and_balls(block_bits, metric, n):
    rng = np.random.default_rng(n)
    for n_bytes in (1, 3, 16):
        decoder = make_codebook(block_bits, n_bytes, 7, lambda n: rng.normal(size=n))
        codes, queries = make_codes(rng, n, n_bytes), rng.normal(size=(9, 7))
        assert_finds(queries, codes, decoder, metric, min(n, 10))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block_bits", BLOCK_BITS)
def test_whole_numbers_tie(block_bits, metric):
    rng = np.random.default_rng(0)
    decoder = make_codebook(
        block_bits, 2, 3, lambda n: rng.integers(-2, 3, n).astype(float)
    )
    queries = rng.integers(-4, 5, (20, 3)).astype(float)
    for n_distinct in (2, 40, None):
        codes = make_codes(rng, 3000, 2, n_distinct)
        assert_finds(queries, codes, decoder, metric, 70)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("distance", [0.0, 1e3, 1e6])
def test_rounding_excludes_nothing(metric, scale, distance):
    """Scores that are equal but for rounding: a bound without room would lose some."""
    rng = np.random.default_rng(0)
    codebook, offset = make_codebook(8, 4, 5, lambda n: rng.normal(size=n))
    decoder = scale * codebook, scale * (offset + distance)
    codes = make_codes(rng, 5000, 4)
    queries = scale * (rng.normal(size=(12, 5)) + distance * rng.random((12, 1)))
    assert_finds(queries, codes, decoder, metric, 20)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_is_below_the_best_code(metric):
    """Its score, rounded down, lies below the least of all sums."""
    rng = np.random.default_rng(0)
    codebook, offset = make_codebook(8, 5, 6, lambda n: rng.normal(size=n))
    queries = np.vstack([rng.normal(size=(40, 6)), offset, -offset, 3 * offset])
    tables = read_decoder((codebook, offset), metric).tables(queries, 5)
    for query, code in zip(queries, tables.argmin(axis=2), strict=True):
        codes = np.tile(code.astype(np.uint8), (600, 1))
        assert_finds(query[None], codes, (codebook, offset), metric, 1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_bits", [8, 40])
def test_decoders_of_unit_rows(n_bits, metric):
    """Of vectors that are short or zero, scores are those of what a byte makes them."""
    rng = np.random.default_rng(0)
    codebook = rng.normal(size=(n_bits, 3)) * rng.exponential(size=(n_bits, 1)) ** 3
    decoder = SimpleNamespace(codebook_=codebook, offset_=np.zeros(3), normalize=True)
    codes = make_codes(rng, 3000, n_bits // 8)
    codes[::9] = 0
    queries = np.vstack([rng.normal(size=(20, 3)), np.zeros(3)])
    for k in (1, 50, 2900):
        assert_finds(queries, codes, decoder, metric, k)


def test_what_was_found_excludes_nothing_that_is_nearer():
    """Codes of one length: the bound by what a block before has found is the best."""
    codes = np.full((2000, 1), 200, dtype=np.uint8)
    codes[100], codes[700] = 100, 99
    for angle in np.linspace(0.1, 1.5, 30):
        angles = np.linspace(0, np.pi, 256)
        angles[99:101] = angle, angle + 1e-4
        codebook = np.stack([np.cos(angles), np.sin(angles)], axis=1)[None]
        decoder = codebook, np.zeros(2)
        assert_finds(np.array([[1.0, 0.0]]), codes, decoder, "cosine", 1)


@pytest.mark.parametrize("metric", METRICS)
def test_grids_are_below_what_they_stand_for(metric):
    """Codes of one byte and vectors of many lengths: no other bound is looser."""
    rng = np.random.default_rng(0)
    for n_features in (1, 2, 3):
        codebook, offset = make_codebook(8, 1, n_features, lambda n: rng.normal(size=n))
        decoder = codebook * rng.exponential(size=(1, 256, 1)), offset
        codes = np.arange(256, dtype=np.uint8)[:, None]
        queries = rng.normal(size=(300, n_features))
        for k in (1, 3):
            assert_finds(queries, codes, decoder, metric, k)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [0.55, 0.95])
def test_masks(metric, share):
    rng = np.random.default_rng(0)
    decoder = make_codebook(8, 3, 6, lambda n: rng.normal(size=n))
    codes, queries = make_codes(rng, 4000, 3), rng.normal(size=(9, 6))
    assert_finds(queries, codes, decoder, metric, 30, rng.random(4000) < share)


@pytest.mark.parametrize("metric", METRICS)
def test_codes_that_decode_to_zero(metric):
    """The cosine of zero is defined, and the length of a code is not divided by."""
    rng = np.random.default_rng(0)
    codebook, offset = make_codebook(8, 2, 6, lambda n: rng.normal(size=n))
    codebook[:, 7], offset = 0, np.zeros(6)
    codes, queries = make_codes(rng, 3000, 2), rng.normal(size=(9, 6))
    codes[::7], queries[3] = 7, 0
    assert_finds(queries, codes, (codebook, offset), metric, 1000)
    codebook[:] = 0
    assert_finds(queries, codes, (codebook, offset), metric, 1000)


@pytest.mark.parametrize("n_queries", [1, 2, 50])
def test_threads_share_queries_or_codes(n_queries, monkeypatch):
    monkeypatch.setattr(table_scan, "MIN_THREAD_WORK", 1)
    rng = np.random.default_rng(0)
    decoder = make_codebook(8, 4, 6, lambda n: rng.normal(size=n))
    codes, queries = make_codes(rng, 6000, 4, 900), rng.normal(size=(n_queries, 6))
    for n_jobs in (1, 2, 5):
        assert_finds(queries, codes, decoder, "euclidean", 40, n_jobs=n_jobs)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 30, 900])
def test_a_sample_that_misleads(metric, k, monkeypatch):
    """It holds the nearest codes, and more of them than a guess allows for, or none."""
    rng = np.random.default_rng(0)
    decoder = make_codebook(8, 4, 6, lambda n: rng.normal(size=n))
    codes, query = make_codes(rng, 34 * 512, 4), rng.normal(size=(1, 6))
    scores = asymmetric_scores(query, codes, decoder, metric=metric, packed=True)
    codes = codes[np.argsort(scores[0])]
    order = np.argsort(np.arange(len(codes)) % 1024 >= 64, kind="stable")
    asked, search = [], table_scan._nearest

    def watch(*args, guesses):
        asked.append(guesses)
        return search(*args, guesses=guesses)

    monkeypatch.setattr(table_scan, "_nearest", watch)
    for nearest, again in ((order, [False] * (k > 1)), (order[::-1], [])):
        mixed = np.empty_like(codes)
        mixed[nearest] = codes
        asked.clear()
        assert_finds(query, mixed, decoder, metric, k)
        assert asked == [True, *again]
        queries = np.vstack([query, -query, rng.normal(size=(2, 6))])
        assert_finds(queries, mixed, decoder, metric, k, rng.random(34 * 512) < 0.9, 2)


def test_fewer_live_codes_than_neighbours():
    """Infinity stands for those that are not there."""
    rng = np.random.default_rng(0)
    decoder = make_codebook(8, 2, 4, lambda n: rng.normal(size=n))
    codes, queries = make_codes(rng, 20_000, 2), rng.normal(size=(5, 4))
    live = np.arange(len(codes)) % 286 == 0  # 70 of them
    scores = asymmetric_scores(queries, codes, decoder, packed=True)
    expected = expected_nearest(np.where(live, scores, np.float32(np.inf)), 80)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=decoder)
    scorer = index._scorer(index._store)
    found = table_scan.nearest(scorer, scorer.read_queries(queries, "X"), 80, live)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[:, :70], other[:, :70])
    assert (found[0][:, 70:] == np.inf).all()


def test_what_was_made_is_for_these_codes_alone():
    """Codes that come later are found, whatever was made before."""
    rng = np.random.default_rng(0)
    decoder = make_codebook(8, 2, 4, lambda n: rng.normal(size=n))
    codes, queries = make_codes(rng, 700, 2), rng.normal(size=(9, 4))
    index = AsymmetricNeighbors(5, packed=True).fit(codes[:600], decoder=decoder)
    index.kneighbors(queries)
    index.partial_fit(codes[600:]).remove([0, 650])
    live = np.ones(700, dtype=bool)
    live[[0, 650]] = False
    scores = asymmetric_scores(queries, codes, decoder, packed=True)
    scores = np.where(live, scores, np.float32(np.inf))
    expected = expected_nearest(scores, 5)
    for one, other in zip(index.kneighbors(queries), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    kept = expected_nearest(scores[:, live], 5)
    for one, other in zip(index.compact().kneighbors(queries), kept, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("power", [-44, -40, -38, -37, -30, -20, -18, 15, 18])
def test_rounding_at_the_ends_of_float32(metric, power):
    """Steps of scores that are hardly any, or as large as can be, and such radii."""
    rng = np.random.default_rng(0)
    scale = 10.0**power
    for block_bits in BLOCK_BITS:
        codebook, offset = make_codebook(block_bits, 2, 5, lambda n: rng.normal(size=n))
        codes, queries = make_codes(rng, 2000, 2), rng.normal(size=(6, 5))
        for decoder, some in (
            ((scale * codebook, scale * offset), queries),
            ((codebook, offset), scale * queries),
            ((scale * codebook, scale * offset), scale * queries),
        ):
            options = {"metric": metric, "packed": True}
            try:
                scores = asymmetric_scores(some, codes, decoder, **options)
            except ValueError:  # beyond float32
                continue
            assert_finds(some, codes, decoder, metric, 20)
            index = AsymmetricNeighbors(**options).fit(codes, decoder=decoder)
            for radius in (0.0, 1e-44, 1e-37, 1e37, 1e38, 3e38, -1e-44, -1e38):
                assert_finds_within(index, some, scores, radius)
