"""A live index: ids, removal and filters give what a rebuilt index gives."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import each

from skhash.codes import hamming_distances, pack_bits
from skhash.metrics import retrieval_scorer
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.neighbors.store.select import select

N_BITS = 12
BITS = np.array([[i >> b & 1 for b in range(N_BITS)] for i in range(2**N_BITS)])


@pytest.fixture
def codes():
    """Blocks of the kernels are full, and many codes are equally near."""
    return BITS[np.random.default_rng(0).integers(0, 2**N_BITS, 700)]


def test_fitted_codes_ask_for_their_neighbors_where_none_was_removed(codes):
    index = HammingNeighbors(1).fit(codes).remove([0, 5])
    with pytest.raises(ValueError, match=r"2 codes were removed.*compact\(\)"):
        index.kneighbors()
    rest = np.delete(codes, [0, 5], axis=0)
    np.testing.assert_array_equal(
        index.compact().kneighbors(), HammingNeighbors(1).fit(rest).kneighbors()
    )
    index.remove(range(len(rest))).compact()
    assert index.radius_neighbors_graph().shape == (0, 0)
    with pytest.raises(ValueError, match="only 0 besides"):
        index.kneighbors()


def test_removed_codes_do_not_count_for_scorers(codes):
    y = codes[:, 0]
    index = HammingNeighbors().fit(codes, y).remove(np.arange(100))
    rest = HammingNeighbors().fit(codes[100:], y[100:])
    asked = BITS[:9], BITS[:9, 0]
    assert index.score(*asked) == rest.score(*asked)
    assert retrieval_scorer(index, *asked) == retrieval_scorer(rest, *asked)


def test_ids_of_many_codes_are_a_mask(codes):
    store = HammingNeighbors().fit(codes)._store
    decoder = np.ones((N_BITS, 2)), np.ones(2)
    decoded = AsymmetricNeighbors().fit(codes, decoder=decoder)._store
    few, most = [5, 699, 5, 700, 3], [*range(350)]
    for of, ids in (store, few), (store, most), (decoded, few), (decoded, most[:36]):
        selected = select(of, ids=ids)
        found = selected.positions if ids is few else selected.live.nonzero()[0]
        assert found.tolist() == sorted({*ids} - {700})


def test_removal_copies_no_codes(codes):
    packed = np.ascontiguousarray(np.repeat(pack_bits(codes), 4, axis=1))
    index = HammingNeighbors(packed=True).fit(packed).remove([3])
    assert np.shares_memory(index.packed_codes_, packed)


def test_copies_grow_apart(codes):
    index = HammingNeighbors(1).partial_fit(codes[:5]).partial_fit(codes[5:6])
    other = copy.copy(index)
    index.partial_fit(codes[6:7])
    other.partial_fit(codes[7:8])
    other.remove([0])
    np.testing.assert_array_equal(index.packed_codes_, pack_bits(codes[:7]))
    np.testing.assert_array_equal(
        other.packed_codes_, pack_bits(codes[[0, 1, 2, 3, 4, 5, 7]])
    )
    assert index.live_.all()


def test_ids_are_found_after_many_small_additions():
    """Ids in any order, removed and given again, many times over."""
    rng = np.random.default_rng(0)
    names = rng.permutation(400)
    index = HammingNeighbors()
    for name in names:
        index.partial_fit(BITS[[name]], ids=[name])
    for _ in range(5):
        some = rng.choice(names, 60, replace=False)
        index.remove(some).partial_fit(BITS[some], ids=some)
    live = index.live_
    assert sorted(index.ids_[live]) == list(range(400))
    found = index.kneighbors(BITS[:400], 1, return_ids=True, return_distance=False)
    np.testing.assert_array_equal(found[:, 0], np.arange(400))
    assert len(index._store.lookup()._runs) < 10


@each(
    "ids, message",
    [
        ([1, "a"], "all integers or all strings, got 1"),
        ([1.5, 2.0], "dtype float64"),
        ([True, False], "dtype bool"),
        ([1], "inconsistent numbers of samples"),
        (["b", "b"], "'b' occurs twice"),
        (3, r"shape \(\)"),
        ({1, 2}, r"must be a list .* shape \(\)"),
        (
            np.array([1, 2**63], dtype=np.uint64),
            "fit into int64, got 9223372036854775808",
        ),
    ],
)
def test_ids_that_are_refused(ids, message):
    index = HammingNeighbors(1).fit([[0, 0, 0]], ids=[9])
    before = pickle.dumps(index)
    with pytest.raises(ValueError, match=message):
        index.fit([[0, 1], [1, 1]], ids=ids)
    assert pickle.dumps(index) == before


def test_ids_must_fit_those_before():
    index = HammingNeighbors(1).fit([[0, 0]], ids=[1])
    with pytest.raises(ValueError, match="have ids, but these have none; give ids"):
        index.partial_fit([[1, 1]])
    with pytest.raises(ValueError, match="are integers, but these are strings, .*'a'"):
        index.partial_fit([[1, 1]], ids=["a"])
    with pytest.raises(ValueError, match="are integers, but these are strings"):
        index.kneighbors([[1, 1]], ids=["a"])
    with pytest.raises(ValueError, match="no code with the id 2; nothing was removed"):
        index.remove([1, 2])
    assert index.live_.all()
    with pytest.raises(ValueError, match="remove needs the ids of codes, got None"):
        index.remove(None)
    without = HammingNeighbors(1).fit([[0, 0]])
    with pytest.raises(ValueError, match="no code at position -1"):
        without.remove([-1])
    with pytest.raises(ValueError, match="return_ids=True needs ids"):
        without.kneighbors([[0, 0]], return_ids=True)
    with pytest.raises(AttributeError, match="no ids_"):
        without.ids_  # noqa: B018


@each("mask", [[1, 0], [True], [0, 1, 2], np.ones((2, 1), bool)])
def test_masks_that_are_refused(mask):
    index = HammingNeighbors(1).fit([[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="mask must be 2 booleans"):
        index.kneighbors([[0, 0]], mask=mask)


def test_ids_in_an_array_of_strings_of_any_length():
    """NumPy's own type for them, with and without one that is missing."""
    kinds = pytest.importorskip("numpy.dtypes")
    ids = np.array(["a", "bcd", ""], dtype=kinds.StringDType())
    index = HammingNeighbors(1).fit(BITS[:3], ids=ids).remove(ids[:1])
    np.testing.assert_array_equal(index.ids_, ["a", "bcd", ""])
    assert index.kneighbors(BITS[:1], ids=ids, return_ids=True)[1] == "bcd"
    index.partial_fit(BITS[:1], ids=ids[:1])
    assert index.kneighbors(BITS[:1], return_ids=True)[1] == "a"
    ids = np.array(["a", None], dtype=kinds.StringDType(na_object=None))
    with pytest.raises(ValueError, match="all integers or all strings, got None"):
        index.fit(BITS[:2], ids=ids)


@pytest.mark.parametrize("device", ["cpu", "pretend", "cuda"], indirect=True)
@each("share", [0, 0.01, 0.6])
def test_at_most_k_of_the_fitted_codes_within_a_radius(codes, device, share):
    """Behind a mask, a code that is not among those to find has one more of them."""
    mask = np.random.default_rng(2).random(700) < share
    index = HammingNeighbors(4, device=device).fit(codes)
    exclude = np.flatnonzero(mask)[::5]
    given = mask.copy()
    distances, found = index.kneighbors(radius=2, mask=mask, exclude=exclude)
    np.testing.assert_array_equal(mask, given)
    filters = {"mask": mask, "exclude": exclude}
    graph = index.kneighbors_graph(radius=2, mode="distance", **filters)
    np.testing.assert_array_equal(graph.data, np.concatenate(distances))
    np.testing.assert_array_equal(graph.indices, np.concatenate(found))
    mask[exclude] = False
    own = hamming_distances(pack_bits(codes), pack_bits(codes))
    for i, row in enumerate(np.argsort(own, axis=1, kind="stable")):
        expected = row[mask[row] & (row != i) & (own[i, row] <= 2)][:4]
        assert found[i].tolist() == expected.tolist()
        assert distances[i].tolist() == own[i, expected].tolist()


def test_a_radius_that_is_refused(codes):
    with pytest.raises(ValueError, match="radius must be an integer .* got 0.5"):
        HammingNeighbors(4).fit(codes).kneighbors(codes[:1], radius=0.5)


REPLACEMENTS = {
    "replace finds codes by their ids": {"ids": None},
    "no code with the id 77; nothing was replaced": {"ids": [3, 77]},
    "no code with the id 4; nothing was replaced": {"ids": [3, 4]},
    "3 occurs twice": {"ids": [3, 3]},
    "are integers, but these are strings": {"ids": ["a", "b"]},
    "give y to fit": {"ids": [3, 5], "y": None},
    "inconsistent numbers of samples": {"ids": [3]},
}


@each("message", REPLACEMENTS)
def test_replacements_that_are_refused_change_nothing(message):
    index = (
        HammingNeighbors(1).fit(BITS[:9], np.arange(9), ids=np.arange(9)).remove([4])
    )
    before = pickle.dumps(index)
    with pytest.raises(ValueError, match=message):
        index.replace(BITS[:2], **{"y": [0, 1], **REPLACEMENTS[message]})
    assert pickle.dumps(index) == before
    with pytest.raises(ValueError, match="replace finds codes by their ids"):
        HammingNeighbors(1).fit(BITS[:9]).replace(BITS[:1], ids=[3])


def test_threads_see_a_code_before_or_after_it_is_replaced():
    """All codes are replaced at once, by others that are equal: never do some lack."""
    size, n_steps = 40, 60
    names = np.arange(size)
    index = HammingNeighbors(size, n_jobs=1).fit(BITS[[0] * size], ids=names)

    def write():
        for step in range(1, n_steps):
            index.replace(BITS[[step] * size], ids=names[::-1])
            if step % 3 == 0:
                index.compact()

    def read(writing):
        while not writing.done():
            distances, ids = index.kneighbors(BITS[:1], return_ids=True)
            assert len(np.unique(distances)) == 1
            assert sorted(ids[0]) == names.tolist()

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write)
        for reading in [pool.submit(read, writing) for _ in range(3)]:
            reading.result()
        writing.result()
