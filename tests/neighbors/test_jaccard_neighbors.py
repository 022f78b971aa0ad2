"""`JaccardNeighbors` against fractions of Python's integers, and scikit-learn."""

import copy
from fractions import Fraction

import numpy as np
import pytest
from cases import each, memory_below
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

import skhash
from skhash.codes import pack_bits
from skhash.neighbors import JaccardNeighbors, duplicate_groups, radius_pairs
from skhash.neighbors.kernels import planes as kernels
from skhash.neighbors.search.base import Question
from skhash.neighbors.search.planes import PlaneSearch
from skhash.neighbors.store.planes import Planes

RADII = 0, 0.25, 0.3, 1 / 3, 0.5, 0.9, 1, 2
# Within a block of the kernels, and beyond.
SIZES = 1, 9, 511, 512, 513, 1300


def fractions(queries, codes):
    """Return all distances as fractions."""
    sides = [
        [int("".join(map(str, row)), 2) for row in np.asarray(bits, dtype=int)]
        for bits in (queries, codes)
    ]
    return [
        [
            Fraction((a ^ b).bit_count(), (a | b).bit_count()) if a | b else Fraction(0)
            for b in sides[1]
        ]
        for a in sides[0]
    ]


def expected(queries, codes, k=None, radius=np.inf, allowed=None):
    """Return distances and positions, lists of arrays, in the order of fractions."""
    allowed = range(len(codes)) if allowed is None else allowed
    for own in fractions(queries, codes):
        order = sorted(allowed, key=lambda i, own=own: (own[i], i))
        order = [i for i in order if float(own[i]) <= radius][:k]
        yield np.array([float(own[i]) for i in order]), np.array(order, dtype=int)


def assert_found(found, wanted):
    for *one, other in zip(*found, wanted, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            assert_array_equal(mine, theirs)


def make_codes(seed, n, n_bits, density):
    """Codes around some others, of few ones and of many; some empty, some equal."""
    rng = np.random.default_rng(seed)
    centers = rng.random((max(1, n // 20), n_bits)) < density * rng.random()
    codes = centers[rng.integers(0, len(centers), n)]
    codes ^= rng.random((n, n_bits)) < density / 20
    codes[rng.random(n) < 0.02] = False
    return codes.astype(np.uint8)


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.sampled_from(SIZES),
        "n_bits": st.sampled_from((1, 8, 13, 64, 100, 600, 1100)),
        "density": st.sampled_from((0.02, 0.3, 1.0)),
    }
)


@settings(max_examples=40)
@given(
    problem=problems,
    k=st.sampled_from((1, 2, 10, 600)),
    radius=st.sampled_from(RADII) | st.fractions(0, 1, max_denominator=40).map(float),
    n_jobs=st.sampled_from((1, 2)),
    n_queries=st.sampled_from((1, 5)),
)
def test_answers_are_those_of_fractions(problem, k, radius, n_jobs, n_queries):
    codes = make_codes(**problem)
    queries = np.concatenate([codes, 1 - codes, 0 * codes])[:: len(codes) // 3 + 1]
    queries, k = queries[:n_queries], min(k, len(codes))
    index = JaccardNeighbors(k, radius=radius, n_jobs=n_jobs).fit(codes)
    found = index.kneighbors(queries)
    assert (found[0].dtype, found[1].dtype) == (np.float64, np.int64)
    assert_found(found, expected(queries, codes, k))
    assert_found(
        index.radius_neighbors(queries), expected(queries, codes, None, radius)
    )


def test_equal_distances_of_other_fractions_are_in_the_order_of_positions():
    """1/2 of two ones or of twenty, in every block and in any order of counts."""
    rng = np.random.default_rng(0)
    codes = np.zeros((1600, 60), dtype=np.uint8)
    for code, size in zip(codes, rng.integers(1, 11, 1600), strict=True):
        code[:size] = code[20 : 20 + size] = 1
    codes[rng.random(1600) < 0.3] = 0
    query = np.repeat([[1, 0]], [20, 40], axis=1)
    index = JaccardNeighbors(n_jobs=2).fit(codes)
    for k in (1, 3, 700, 1600):
        assert_found(index.kneighbors(query, k), expected(query, codes, k))
    queries = np.tri(20, 60, dtype=np.uint8)
    assert_found(index.kneighbors(queries, 700), expected(queries, codes, 700))


@each("n_equal", [0, 150, 400])
def test_many_neighbors_of_more_blocks(n_equal):
    """Where some blocks tell how far away the last one is, rightly or not."""
    rng = np.random.default_rng(n_equal)
    codes = (rng.random((6000, 40)) < rng.random((6000, 1))).astype(np.uint8)
    codes[:n_equal] = query = np.repeat([1, 0], 20)
    index = JaccardNeighbors(200).fit(codes)
    found = index.kneighbors([query, codes[-1]])
    assert_found(found, expected([query, codes[-1]], codes, 200))
    mask = np.arange(6000) % 7 == 0
    found = index.kneighbors([query], mask=mask)
    allowed = np.flatnonzero(mask)
    assert_found(found, expected([query], codes, 200, allowed=allowed))


def test_distances_and_graphs_are_those_of_scikit_learn():
    codes = make_codes(1, 400, 90, 0.4)
    index = JaccardNeighbors(6, radius=0.45).fit(codes)
    theirs = NearestNeighbors(n_neighbors=6, radius=0.45, metric="jaccard")
    theirs.fit(codes.astype(bool))
    asked = codes[:50].astype(bool)
    assert_array_equal(index.kneighbors(asked)[0], theirs.kneighbors(asked)[0])
    for mode in ("connectivity", "distance"):
        graph = index.radius_neighbors_graph(codes, mode=mode)
        other = theirs.radius_neighbors_graph(codes.astype(bool), mode=mode)
        assert_array_equal(graph.toarray(), other.toarray())
        assert graph.nnz == other.nnz


@pytest.fixture
def codes():
    return make_codes(3, 1300, 70, 0.4)


@each("sizes", [[1] * 40, [500, 3, 9, 700], [1, 1000, 1, 1]])
def test_codes_are_added_between_searches(codes, sizes):
    """In the room that is left, or with a copy of all; copies grow apart."""
    index, n, former = JaccardNeighbors(), 0, []
    for size in sizes:
        index.partial_fit(codes[n : n + size])
        n += size
        former.append((n, copy.copy(index)))
        found = index.kneighbors(codes[:2], 1)
        assert_found(found, expected(codes[:2], codes[:n], 1))
    for n, one in former:
        assert_array_equal(one.packed_codes_, pack_bits(codes[:n]))
        other = copy.copy(one).partial_fit(1 - codes[:9])
        both = np.concatenate([codes[:n], 1 - codes[:9]])
        assert_array_equal(other.packed_codes_, pack_bits(both))
        assert_found(other.kneighbors(codes[:2], n), expected(codes[:2], both, n))


def test_additions_copy_codes_a_bounded_number_of_times(monkeypatch):
    rng, fill, copied = np.random.default_rng(0), kernels.fill, []
    packed = rng.integers(0, 256, (30 * kernels.BLOCK, 1), dtype=np.uint8)

    def counting(words, *task):
        copied.append(len(words))
        fill(words, *task)

    monkeypatch.setattr(kernels, "fill", counting)
    index = JaccardNeighbors(packed=True)
    for rows in np.split(packed, 30):
        index.partial_fit(rows)
    assert_array_equal(index.packed_codes_, packed)
    assert sum(copied) < 4 * len(packed)


def test_memory_is_that_of_the_codes():
    codes = np.random.default_rng(0).integers(0, 256, (1024, 256), dtype=np.uint8)
    store = JaccardNeighbors(packed=True).fit(codes)._store
    assert store.nbytes == 1024 * (256 + 2 + 4 + 1 / 8)


@each("n_bits, density", [(2048, 0.02), (2**16 + 8, 0.9)])
def test_long_codes(n_bits, density):
    """Of few ones and many; a count of the last ones takes more than 16 bits."""
    codes = np.random.default_rng(0).random((12, n_bits)) < density
    codes[0] = True
    index = JaccardNeighbors().fit(codes)
    assert_found(index.kneighbors(codes, 9), expected(codes, codes, 9))
    assert_found(index.radius_neighbors(codes, 0.8), expected(codes, codes, radius=0.8))
    assert_array_equal(index.packed_codes_, np.packbits(codes, axis=1))


def test_queries_of_long_codes_take_bounded_memory():
    codes = np.ones((1000, 2**16), dtype=bool)
    packed, index = np.packbits(codes, axis=1), JaccardNeighbors(1, packed=True)
    index.fit(packed[:3]).kneighbors(packed[:3])
    with memory_below(2**27):
        index.kneighbors(packed)


def test_blocks_without_codes_that_may_be_found_are_passed_over():
    codes = make_codes(0, 3000, 64, 0.3)
    search = PlaneSearch(Planes.of(np.packbits(codes, axis=1)))
    queries, live = np.zeros((2, 1), np.uint64), np.arange(3000) == 7
    for allowed, n in ((live, 1), (~live, 6), (None, 6)):
        question = Question("nearest", 1, live=allowed)
        (visits,) = search._map(lambda _, v: [v], queries, 1, question, 1)
        assert len(visits) == n


@each("radius", [-0.1, np.nan, np.inf, "wide", None])
def test_impossible_radii_are_refused(radius):
    index = JaccardNeighbors().fit([[0, 1]])
    if radius is not None:
        with pytest.raises(ValueError, match=r"radius must be a finite number of at"):
            index.radius_neighbors([[0, 1]], radius)
    with pytest.raises(ValueError, match="'radius' parameter"):
        JaccardNeighbors(radius=radius).fit([[0, 1]])


@each("radius", [0, 0.2, 1])
def test_pairs_and_groups(radius, monkeypatch):
    monkeypatch.setattr(skhash.neighbors._pairs, "BLOCK_ROWS", 50)
    n, codes = 120, make_codes(5, 120, 40, 0.5)
    apart, options = fractions(codes, codes), {"metric": "jaccard", "n_jobs": 2}
    distances, pairs = radius_pairs(codes, radius, **options)
    wanted = [
        (i, own[j], j)
        for i, own in enumerate(apart)
        for j in range(i + 1, n)
        if float(own[j]) <= radius
    ]
    wanted.sort()
    assert pairs.tolist() == [[i, j] for i, _, j in wanted]
    assert distances.tolist() == [float(one) for _, one, _ in wanted]
    away, groups, kept = duplicate_groups(
        codes, radius, return_distance=True, **options
    )
    joins = sparse.coo_array((np.ones(len(pairs)), pairs.T), shape=(n, n))
    labels = connected_components(joins, directed=False)[1]
    firsts = {}
    numbers = [firsts.setdefault(label, len(firsts)) for label in labels.tolist()]
    assert groups.tolist() == numbers
    assert away.tolist() == [float(apart[i][j]) for i, j in enumerate(kept[groups])]


def test_radii_in_the_other_unit_are_refused():
    for function in (radius_pairs, duplicate_groups):
        with pytest.raises(ValueError, match=r"radius=2 is above 1.*radius=1 - s"):
            function([[0, 1], [1, 1]], 2, metric="jaccard")
        with pytest.raises(ValueError, match="radius must be an integer"):
            function([[0, 1], [1, 1]], 0.5)
