"""Every search path against the definition: all distances, and a stable sort."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import brute_nearest, brute_within, nearest

from skhash.codes import hamming_distances, pack_bits, packed_to_words
from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.kernels.bitslice import LANES
from skhash.neighbors.search import brute, chunks

WIDTHS = (1, 7, 8, 9, 24, 63, 64, 65, 100, 128, 200, 256, 300, 512, 520)
# Few queries take another way than many.
FEW = kernels.FEW_QUERIES
N_QUERIES = st.one_of(st.integers(1, FEW - 1), st.integers(FEW, 3 * FEW))


def reference_nearest(packed, queries, k):
    distances = hamming_distances(queries, packed)
    positions = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, positions, axis=1), positions


def reference_within(packed, queries, radius):
    distances, positions = reference_nearest(packed, queries, len(packed))
    inside = distances <= radius
    return (
        [d[row] for d, row in zip(distances, inside, strict=True)],
        [p[row] for p, row in zip(positions, inside, strict=True)],
    )


def numba_arguments(packed, queries):
    return packed_to_words(packed), 8 * packed.shape[1], packed_to_words(queries)


def numba_nearest(packed, queries, k, n_jobs=1):
    return brute_nearest(*numba_arguments(packed, queries), k, n_jobs)


def numba_within(packed, queries, radius, n_jobs=1):
    return brute_within(*numba_arguments(packed, queries), radius, n_jobs)


def among_others(packed):
    """Codes among as many that do not count, and which those are."""
    live = np.random.default_rng(len(packed)).permutation(2 * len(packed)) % 2 == 0
    mixed = packed[np.arange(2 * len(packed)) // 2]
    mixed[live] = packed
    return mixed, live


def masked_nearest(packed, queries, k, n_jobs=1):
    mixed, live = among_others(packed)
    arguments = numba_arguments(mixed, queries)
    distances, positions = brute_nearest(*arguments, k, n_jobs, live)
    assert live[positions].all()
    return distances, np.cumsum(live)[positions] - 1


def masked_within(packed, queries, radius, n_jobs=1):
    mixed, live = among_others(packed)
    arguments = numba_arguments(mixed, queries)
    distances, positions = brute_within(*arguments, radius, n_jobs, live)
    return distances, [np.cumsum(live)[found] - live[found] for found in positions]


def make_codes(seed, n, n_bits, density):
    """Codes with many ties: fewer distinct ones the further `density` is from 1/2."""
    return pack_bits(np.random.default_rng(seed).random((n, n_bits)) < density)


def assert_nearest(packed, queries, k, search):
    distances, positions = search(packed, queries, k)
    expected_distances, expected_positions = reference_nearest(packed, queries, k)
    assert distances.dtype == np.int32
    assert positions.dtype == np.int64
    np.testing.assert_array_equal(distances, expected_distances)
    np.testing.assert_array_equal(positions, expected_positions)


def assert_within(packed, queries, radius, search):
    answers = search(packed, queries, radius)
    expected = reference_within(packed, queries, radius)
    for arrays, expected_arrays, dtype in zip(
        answers, expected, (np.int32, np.int64), strict=True
    ):
        assert len(arrays) == len(queries)
        for array, expected_array in zip(arrays, expected_arrays, strict=True):
            assert array.dtype == dtype
            np.testing.assert_array_equal(array, expected_array)


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.one_of(st.integers(1, 40), st.sampled_from((255, 256, 257, 700))),
        "n_bits": st.one_of(st.sampled_from(WIDTHS), st.integers(1, 320)),
        "density": st.sampled_from((0.0, 0.02, 0.1, 0.5)),
    }
)


@pytest.mark.parametrize(
    ("nearest", "within"),
    [(numba_nearest, numba_within), (masked_nearest, masked_within)],
)
@settings(max_examples=60)
@given(problem=problems, n_queries=N_QUERIES, share=st.floats(0, 1.1))
def test_answers_are_the_reference(nearest, within, problem, n_queries, share):
    packed = make_codes(**problem)
    queries = make_codes(**{**problem, "n": n_queries, "seed": problem["seed"] + 1})
    k = 1 + round(min(share, 1) * (len(packed) - 1))
    assert_nearest(packed, queries, k, nearest)
    assert_within(packed, queries, round(share**2 * problem["n_bits"]), within)


@each("n_bits", WIDTHS)
@each("n", [1, 511, 1024, 1025])
@each("n_queries", [3, FEW])
def test_block_edges(n_queries, n, n_bits):
    packed = make_codes(0, n, n_bits, 0.3)
    queries = make_codes(1, n_queries, n_bits, 0.3)
    for k in {1, min(n, 100), n}:
        assert_nearest(packed, queries, k, numba_nearest)
    for radius in (0, n_bits // 4, n_bits):
        assert_within(packed, queries, radius, numba_within)


@each("n_queries", [2, 2 * FEW])
def test_queries_that_have_found_equal_codes_leave_the_others_to_search(n_queries):
    packed = np.repeat(make_codes(0, 100, 128, 0.5), 20, axis=0)
    queries = packed[:: len(packed) // n_queries][:n_queries].copy()
    queries[1::2, 0] ^= 1
    for k in (1, 20, 21):
        assert_nearest(packed, queries, k, numba_nearest)


@pytest.mark.parametrize("n_queries", [1, 3, FEW])
@pytest.mark.parametrize("n_bits", [64, 200])
def test_threads_share_the_codes_where_queries_are_few(n_bits, n_queries, monkeypatch):
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    monkeypatch.setattr(brute, "MIN_FEW_WORK", 1)
    packed = make_codes(0, 700, n_bits, 0.1)
    queries = make_codes(1, n_queries, n_bits, 0.1)
    for k in (1, 30, 300):
        assert_nearest(packed, queries, k, lambda *a: numba_nearest(*a, 3))
        assert_nearest(packed, queries, k, lambda *a: masked_nearest(*a, 3))
    for radius in (0, n_bits // 8):
        assert_within(packed, queries, radius, lambda *a: numba_within(*a, 3))
        assert_within(packed, queries, radius, lambda *a: masked_within(*a, 3))


def test_room_of_one_search_serves_another():
    packed = make_codes(0, 500, 128, 0.1)
    search = brute.Brute(packed_to_words(packed), 128)
    asked = [(1, 5), (1, 5), (3, 5), (1, 300), (1, 5), (2, 1)] * 20

    def ask(seed):
        n_queries, k = asked[seed]
        queries = make_codes(seed, n_queries, 128, 0.4)
        found = nearest(search, packed_to_words(queries), k)
        expected = reference_nearest(packed, queries, k)
        return all(map(np.array_equal, found, expected))

    assert all(map(ask, range(len(asked))))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(len(asked))))


@pytest.mark.parametrize("n_queries", [2, FEW])
def test_more_codes_within_the_radius_than_fit_at_a_time(n_queries, monkeypatch):
    n_codes = kernels.SLAB if n_queries < FEW else 64 * LANES
    room = n_queries * n_codes
    monkeypatch.setattr(brute, "WITHIN_ROOM", room)
    packed, queries = make_codes(0, 20_000, 9, 0.4), make_codes(1, n_queries, 9, 0.4)
    for radius in (1, 9):
        assert_within(packed, queries, radius, numba_within)


@each("k", [1, 5, 600])
def test_a_database_that_gets_ever_nearer_overflows_no_buffer(k):
    # Each code is nearer than all before: the most that a scan can be made to hold.
    n_bits = 512
    distances = np.repeat(np.arange(n_bits, -1, -1), 4)
    packed = pack_bits(np.arange(n_bits) < distances[:, None])
    query = np.zeros((1, n_bits // 8), dtype=np.uint8)
    assert_nearest(packed, query, k, numba_nearest)


@pytest.mark.parametrize("n_bits", [64, 65])
def test_threads_and_chunks_do_not_change_the_answer(n_bits, monkeypatch):
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    monkeypatch.setattr(chunks, "MAX_CHUNK", 3)
    packed, queries = make_codes(0, 500, n_bits, 0.2), make_codes(1, 17, n_bits, 0.2)
    for n_jobs in (1, 2, 5):
        assert_nearest(packed, queries, 9, lambda *a, j=n_jobs: numba_nearest(*a, j))
        assert_within(packed, queries, 9, lambda *a, j=n_jobs: numba_within(*a, j))


@each("n_queries", [3, 40])
@each("n_bytes", [1, 9, 31, 63])
def test_bits_behind_the_codes_stay_within_the_arrays(n_bytes, n_queries):
    """Answers are of no use then, and still positions of codes."""
    n_words = -(-n_bytes // 8)
    words = np.full((600, n_words), 2**64 - 1, dtype=np.uint64)
    queries = np.zeros((n_queries, n_words), dtype=np.uint64)
    for k in (1, 600):
        distances, positions = brute_nearest(words, 8 * n_bytes, queries, k, 1)
        assert ((0 <= positions) & (positions < 600)).all()
        assert ((0 <= distances) & (distances <= 64 * n_words)).all()
    for radius in (0, 8 * n_bytes):
        distances, positions = brute_within(words, 8 * n_bytes, queries, radius, 1)
        for near, found in zip(distances, positions, strict=True):
            assert (near <= radius).all() and ((0 <= found) & (found < 600)).all()
