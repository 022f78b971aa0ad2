"""Search by bounds against a stable sort of the scores of all codes."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from decoded import numbers_of, rounded, scores_of_decoded
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import leaves_list, linkage
from searches import assert_same, bytes_held

import skhash
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


def make_case(n, n_queries, n_bytes=4, n_features=6, block_bits=8, seed=0):
    """Return a generator, and the queries, codes and decoder that it drew."""
    rng = np.random.default_rng(seed)
    decoder = make_codebook(block_bits, n_bytes, n_features, partial(rng.normal, 0, 1))
    codes = make_codes(rng, n, n_bytes)
    return rng, rng.normal(size=(n_queries, n_features)), codes, decoder


def with_fraction(decoder, bits):
    """Return a decoder that keeps `bits` bits of the fraction of numbers."""
    codebook, offset = decoder
    names = "codebook_", "offset_", "length_bits_", "distance_bits_"
    values = codebook, offset, bits, bits
    return SimpleNamespace(**dict(zip(names, values, strict=True)))


def expected_nearest(scores, k):
    order = np.argsort(scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), order


def expected_within(scores, radius):
    for own in scores:
        order = np.argsort(own, kind="stable")
        order = order[own[order] <= radius]
        yield own[order], order


def assert_finds(queries, codes, decoder, metric, k=10, mask=None, n_jobs=1, share=1.0):
    """Neighbours and balls are those of the scores of all codes, to the last bit."""
    options = {"metric": metric, "packed": True, "n_jobs": n_jobs}
    index = AsymmetricNeighbors(k, search_fraction=share, **options)
    index.fit(codes, decoder=decoder)
    scores = asymmetric_scores(queries, codes, decoder, metric=metric, packed=True)
    if mask is not None:
        scores = np.where(mask, scores, np.float32(np.inf))
    expected = expected_nearest(scores, k)
    assert_same(index.kneighbors(queries, mask=mask), expected)
    assert_finds_within(index, queries, scores, float(np.median(expected[0])), mask)


def assert_finds_within(index, queries, scores, radius, mask=None):
    balls = zip(*index.radius_neighbors(queries, radius, mask=mask), strict=True)
    assert_same(balls, expected_within(scores, radius))


@each("metric", METRICS)
@each("block_bits", BLOCK_BITS)
@each("n", [1, 63, 512, 513, 9000])
def test_nearest_and_balls(block_bits, metric, n):
    for n_bytes, fraction_bits in ((1, 4), (3, 4), (3, 11), (16, 23)):
        _, *case, decoder = make_case(n, 9, n_bytes, 7, block_bits, seed=n)
        assert_finds(*case, with_fraction(decoder, fraction_bits), metric, min(n, 10))


@each("metric", METRICS)
@each("block_bits", BLOCK_BITS)
def test_whole_numbers_tie(block_bits, metric):
    rng = np.random.default_rng(0)
    decoder = make_codebook(
        block_bits, 2, 3, lambda n: rng.integers(-2, 3, n).astype(float)
    )
    queries = rng.integers(-4, 5, (20, 3)).astype(float)
    for n_distinct in (2, 40, None):
        codes = make_codes(rng, 3000, 2, n_distinct)
        assert_finds(queries, codes, decoder, metric, 70)


@each("metric", METRICS)
@each("scale", [1e-4, 1.0, 1e4])
@each("distance", [0.0, 1e3, 1e6])
def test_rounding_excludes_nothing(metric, scale, distance):
    """Scores that are equal but for rounding: a bound without room would lose some."""
    rng, queries, codes, (codebook, offset) = make_case(5000, 12, n_features=5)
    decoder = scale * codebook, scale * (offset + distance)
    queries = scale * (queries + distance * rng.random((12, 1)))
    assert_finds(queries, codes, decoder, metric, 20)


@each("metric", METRICS)
def test_nothing_is_below_the_best_code(metric):
    """Its score, rounded down, lies below the least of all sums."""
    _, queries, _, (codebook, offset) = make_case(1, 40, 5)
    queries = np.vstack([queries, offset, -offset, 3 * offset])
    tables = read_decoder((codebook, offset), metric).tables(queries, 5)
    for query, code in zip(queries, tables.argmin(axis=2), strict=True):
        codes = np.tile(code.astype(np.uint8), (600, 1))
        assert_finds(query[None], codes, (codebook, offset), metric, 1)


@each("metric", METRICS)
@each("n_bits", [8, 40])
def test_decoders_of_unit_rows(n_bits, metric):
    """Of vectors that are short or zero, scores are those of the zero vector."""
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


def test_rows_of_zeros_are_found_whatever_their_codes():
    """Limits that neighbours tighten must not exclude them: the distance is 1."""
    angles = np.linspace(0.6 * np.pi, np.pi, 256)
    codebook = np.stack([np.cos(angles), np.sin(angles)], axis=1)[None]
    codes = make_codes(np.random.default_rng(0), 2000, 1)
    errors = np.where(np.arange(len(codes)) == 1999, np.inf, 0)
    index = AsymmetricNeighbors(20, metric="cosine", packed=True)
    for last in (255, 200, 70):  # the code of the row of zeros
        codes[1999] = last
        index.fit(codes, decoder=(codebook, np.zeros(2)), errors=errors)
        distances, positions = index.kneighbors(np.array([[1.0, 0.0]]))
        assert positions[0, 0] == 1999
        scores = np.where(errors > 0, 1, 1 - np.cos(angles)[codes[:, 0]])
        assert_allclose(distances[0], np.sort(scores)[:20], rtol=1e-6)


@each("metric", METRICS)
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


@each("metric", METRICS)
def test_codes_that_decode_to_zero(metric):
    """The cosine of zero is defined, and the length of a code is not divided by."""
    _, queries, codes, (codebook, _) = make_case(3000, 9, 2)
    codebook[:, 7], offset = 0, np.zeros(6)
    codes[::7], queries[3] = 7, 0
    assert_finds(queries, codes, (codebook, offset), metric, 1000)
    codebook[:] = 0
    assert_finds(queries, codes, (codebook, offset), metric, 1000)


@pytest.mark.parametrize("n_queries", [1, 2, 50])
def test_threads_share_queries_or_codes(n_queries, monkeypatch):
    monkeypatch.setattr(table_scan, "MIN_THREAD_WORK", 1)
    rng, queries, _, decoder = make_case(900, n_queries)
    codes = make_codes(rng, 6000, 4, 900)
    for n_jobs in (1, 2, 5):
        assert_finds(queries, codes, decoder, "euclidean", 40, n_jobs=n_jobs)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 30, 900])
def test_a_sample_that_misleads(metric, k, monkeypatch):
    """It holds the nearest codes, and more of them than a guess allows for, or none."""
    rng, query, codes, decoder = make_case(34 * 512, 1)
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


def near_lists(queries, codes, decoder, metric, unit_rows, n_blocks):
    """Return whether each code is in one of the blocks with the nearest lists.

    Blocks hold 512 codes in the order of the first byte and of that of the others whose
    entries vary most, by their tree. Lists are scored as if codes had no other bytes.
    """
    codebook, offset = decoder
    by_angle, values = unit_rows or metric == "cosine", [codes[:, 0], codes[:, 2]]
    lists = offset + codebook[0][values[0]] + codebook[2][values[1]]
    numbers = rounded(numbers_of(lists, offset, by_angle))
    metric = "inner_product" if by_angle else metric  # in the same order, also below 0
    options = {"numbers": numbers, "unit_rows": by_angle}
    scores = scores_of_decoded(queries, lists, offset, metric, **options)
    leaves = leaves_list(linkage(codebook[2], "ward", optimal_ordering=True))
    order = np.lexsort((leaves.argsort()[values[1]], values[0]))
    starts = np.arange(0, len(codes), 512)
    least = np.minimum.reduceat(scores[:, order], starts, axis=1)
    is_near = least <= np.sort(least)[:, [n_blocks - 1]] + 1e-6
    return is_near[:, order.argsort() // 512]


@pytest.mark.skipif(not table_scan.is_fast(), reason="all codes are searched")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["normal", "integers", "of unit rows"])
def test_a_share_is_the_blocks_of_the_nearest_lists(
    kind, metric, monkeypatch, tmp_path
):
    """All that tie, as integers do; among their codes, the answer is exact."""
    monkeypatch.setattr(table_scan, "MIN_BLOCKS", 2)
    monkeypatch.setattr(table_scan, "MIN_THREAD_WORK", 1)
    n, unit_rows = 20 * 512 + 7, kind == "of unit rows"
    rng, queries, codes, (codebook, offset) = make_case(n, 9)
    if kind == "integers" and metric != "cosine":  # equal cosines differ by rounding
        queries, codebook, offset = (it.round() for it in (queries, codebook, offset))
    codebook[2] *= 2
    codebook[3] = -codebook[2]  # lists are longer than what codes decode to
    codes[:, 0], codes[:, 3] = codes[:, 0] % 16, codes[:, 2]
    codes[:, 2:] %= 16
    parts = {"codebook_": codebook, "offset_": offset, "normalize": unit_rows}
    decoder, options = SimpleNamespace(**parts), {"metric": metric, "packed": True}
    scores = asymmetric_scores(queries, codes, decoder, **options)
    index = AsymmetricNeighbors(30, **options, search_fraction=0.5)
    index.partial_fit(codes[:5000], decoder=decoder).kneighbors(queries[:1])
    index.partial_fit(codes[5000:])
    for share, n_blocks in ((1e-9, 2), (0.25, 6), (1.0, 21)):
        task = codes, (codebook, offset), metric, unit_rows, n_blocks
        is_near, every = near_lists(queries, *task), np.ones(n, dtype=bool)
        assert is_near.all() == (share == 1)
        for mask in (every, rng.random(n) < 0.6):
            kept = np.where(is_near & mask, scores, np.float32(np.inf))
            expected = expected_nearest(kept, 30)
            for n_jobs, rows in ((1, slice(9)), (5, slice(9)), (2, slice(3, 4))):
                index.set_params(search_fraction=share, n_jobs=n_jobs)
                found = index.kneighbors(queries[rows], mask=mask)
                assert_same(found, [it[rows] for it in expected])
            masked, radius = np.where(mask, scores, np.inf), expected[0][0, -1]
            assert_finds_within(index, queries, masked, float(radius), mask)
    assert index.nbytes_ == pytest.approx(bytes_held(index), rel=0.01)  # padding
    # Removed codes stay where they are, in files too.
    index.set_params(search_fraction=0.25).remove(np.flatnonzero(~mask)).save(tmp_path)
    is_near = near_lists(queries, codes, (codebook, offset), metric, unit_rows, 6)
    expected = expected_nearest(np.where(is_near & mask, scores, np.float32("inf")), 30)
    for it in (index, skhash.load(tmp_path)):
        assert_same(it.kneighbors(queries), expected)


def test_a_share_is_all_without_lists_or_neighbours_in_them(monkeypatch):
    """Of 64 blocks, and of decoders that are not of two whole bytes; or of few live."""
    rng, queries, codes, decoder = make_case(64 * 512, 3)
    decoder[0][2] *= 2
    assert_finds(queries, codes, decoder, "euclidean", share=1e-9)
    monkeypatch.setattr(table_scan, "MIN_BLOCKS", 1)
    for block_bits, n_bytes in ((1, 4), (4, 4), (8, 1)):
        other = make_codebook(block_bits, n_bytes, 6, partial(rng.normal, 0, 1))
        assert_finds(queries, codes[:, :n_bytes], other, "cosine", share=1e-9)
    task = codes, decoder, "euclidean"
    assert_finds(queries, *task, mask=rng.random(len(codes)) < 0.3, share=1e-9)
    scores = asymmetric_scores(queries[:1], codes, decoder, packed=True)[0]
    mask = scores > np.quantile(scores, 0.4)  # the sample in all blocks needs live ones
    mask &= ~near_lists(queries[:1], *task, False, 1)[0]
    assert_finds(queries[:1], *task, mask=mask, share=1e-9)


def test_fewer_live_codes_than_neighbours():
    """Infinity stands for those that are not there."""
    _, queries, codes, decoder = make_case(20_000, 5, 2, 4)
    live = np.arange(len(codes)) % 286 == 0  # 70 of them
    scores = asymmetric_scores(queries, codes, decoder, packed=True)
    expected = expected_nearest(np.where(live, scores, np.float32(np.inf)), 80)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=decoder)
    scorer = index._scorer(index._store)
    squares, found = table_scan.nearest(
        scorer, scorer.read_queries(queries, "X"), 80, live
    )
    found = np.sqrt(squares.astype(float)), found
    assert_same([it[:, :70] for it in found], [it[:, :70] for it in expected])
    assert (found[0][:, 70:] == np.inf).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("power", [-44, -38, -30, -18, 18])
def test_rounding_at_the_ends_of_float32(metric, power):
    """Steps of scores that are hardly any, or as large as can be, and such radii."""
    scale = 10.0**power
    for block_bits in BLOCK_BITS:
        _, queries, codes, (codebook, offset) = make_case(1100, 4, 2, 5, block_bits)
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


def test_bytes_of_nearly_independent_halves():
    rng = np.random.default_rng(0)
    high, low = rng.normal(size=(2, 3, 16, 6))
    sums = (high[:, :, None] + low[:, None]).reshape(3, 256, 6)
    noise = rng.normal(size=sums.shape)
    for size, expected in ((0, True), (0.2, True), (2, False)):
        decoder = read_decoder((sums + size * noise, np.zeros(6)), "euclidean")
        assert table_scan.has_halves(decoder) == expected
    assert table_scan.has_halves(read_decoder((sums[0], np.zeros(6)), "euclidean"))


def test_the_order_of_lists_needs_no_new_order_of_entries():
    _, queries, codes, decoder = make_case(70 * 512, 1)
    index = AsymmetricNeighbors(1, packed=True, search_fraction=1e-9)
    index.fit(codes, decoder=decoder).kneighbors(queries)
    before = table_scan._places_of_alike.cache_info().misses
    index.partial_fit(codes[:1]).kneighbors(queries)
    assert table_scan._places_of_alike.cache_info().misses == before
