"""`HammingNeighbors` as an estimator: its answers, its errors, and its company."""

import pickle

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import check_estimator

from skhash.codes import from_hex, hamming_distances, pack_bits, unpack_bits
from skhash.neighbors import HammingNeighbors, JaccardNeighbors


class ThresholdingNeighbors(HammingNeighbors):
    """Takes floats, so that scikit-learn's checks reach past the refusal of them."""

    def _pack(self, codes):
        return pack_bits(codes > 0)


def test_scikit_learn_checks():
    check_estimator(ThresholdingNeighbors(), on_skip=None)


@pytest.fixture
def bits():
    """300 codes of 70 bits around 20 centres: many ties and duplicates."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2, (20, 70), dtype=np.uint8)
    flips = rng.random((300, 70)) < 0.02
    return centres[rng.integers(0, 20, 300)] ^ flips


@pytest.fixture
def queries(bits):
    return bits[::29] ^ (np.arange(70) % 9 == 0)


def expected_neighbors(codes, queries, k):
    distances = hamming_distances(pack_bits(queries), pack_bits(codes))
    positions = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, positions, axis=1), positions


@each("mode", ["connectivity", "distance"])
@each("fitted", [True, False])
def test_graphs_are_those_of_scikit_learn(bits, queries, mode, fitted):
    X = None if fitted else queries
    index = HammingNeighbors(4, radius=12).fit(bits)
    theirs = NearestNeighbors(n_neighbors=4, radius=12, metric="manhattan")
    theirs.fit(bits.astype(float))
    ours = index.kneighbors_graph(X, mode=mode)
    assert ours.format == "csr"
    assert type(ours) is type(theirs.kneighbors_graph(X, mode=mode))
    assert ours.shape == (300 if fitted else len(queries), 300)
    assert ours.nnz == 4 * ours.shape[0]
    their_graph = theirs.kneighbors_graph(X, mode=mode)
    # Which of equally near codes come last is theirs to choose; how near, is not.
    np.testing.assert_allclose(ours.sum(axis=1).flat, their_graph.sum(axis=1).flat)
    np.testing.assert_array_equal(
        index.radius_neighbors_graph(X, mode=mode).toarray(),
        theirs.radius_neighbors_graph(X, mode=mode).toarray(),
    )


@each("index", [HammingNeighbors(radius=20), JaccardNeighbors(radius=0.5)])
def test_fitted_codes_are_left_out_of_their_answers(bits, index):
    """The same as queries or as None: the neighbours of each but itself."""
    index, n = index.fit(bits), len(bits)
    order = index.kneighbors(bits, n, return_distance=False)
    others = [row[row != own] for own, row in enumerate(order)]
    for X in (bits, None):
        asked = {"exclude_self": X is not None, "return_distance": False}
        found = index.kneighbors(X, 7, **asked)
        np.testing.assert_array_equal(found, [row[:7] for row in others])
        for own, row in enumerate(index.radius_neighbors(X, **asked)):
            np.testing.assert_array_equal(row, others[own][: len(row)])
    for search in (index.kneighbors, index.radius_neighbors):
        with pytest.raises(ValueError, match=f"the {n} fitted rows, .* got 9 rows"):
            search(bits[:9], exclude_self=True)


def test_graphs_are_arrays_where_those_of_scikit_learn_are(bits):
    if "sparse_interface" not in get_config():
        pytest.skip("scikit-learn 1.9 begins to return sparse arrays")
    with config_context(sparse_interface="sparray"):
        assert isinstance(HammingNeighbors().fit_transform(bits), sparse.csr_array)


def test_partial_fit_copies_each_row_a_bounded_number_of_times():
    index = HammingNeighbors()
    buffers = set()
    for _ in range(1000):
        index.partial_fit([[0, 1]])
        buffers.add(id(index._store._rooms["words"]))
        kept = index._store  # noqa: F841 (so that ids are not used twice)
    assert len(buffers) < 40


def test_partial_fit_does_not_write_into_the_data_of_the_caller():
    ours = np.zeros((4, 8), dtype=np.uint8)
    labels = np.zeros(4, dtype=int)
    index = HammingNeighbors(packed=True).fit(ours[:2], labels[:2])
    index.partial_fit(np.full((2, 8), 255, np.uint8), [1, 1])
    assert not ours.any()
    assert not labels.any()
    np.testing.assert_array_equal(index.y_, [0, 0, 1, 1])


@each(
    "codes, y, message",
    [
        ([[0, 2]], [1], "0 and 1 only"),
        ([[0, 1]], [1, 2], "inconsistent numbers"),
        ([[np.nan, 1]], [1], "NaN"),
        ([0, 1], [1, 2], "1D array"),
        (np.zeros((0, 2)), [], "0 sample"),
        ([[0, 1]], None, "have labels, but these have none"),
        ([[0, 1]], [[1, 2]], "same columns"),
        ([[0]], [7], "X has 1 features"),
    ],
)
def test_partial_fit_refuses_what_does_not_fit(codes, y, message):
    index = HammingNeighbors(n_neighbors=1).fit([[0, 0], [1, 1]], [5, 6])
    before = pickle.dumps(index)
    with pytest.raises(ValueError, match=message):
        index.partial_fit(codes, y)
    assert pickle.dumps(index) == before
    with pytest.raises(ValueError, match="have no labels, but these have some"):
        HammingNeighbors().fit([[0]]).partial_fit([[1]], [1])


def test_impossible_questions():
    index = HammingNeighbors().fit([[0, 0], [1, 1], [0, 1]])
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"at least 1, got {k}"):
            index.kneighbors([[0, 0]], n_neighbors=k)
    for X in ([[0, 0, 1]], np.array([[0, 0, 1]])):
        with pytest.raises(ValueError, match="X has 3 features"):
            index.kneighbors(X, 1)
    for radius in (-1, 0.5):
        with pytest.raises(ValueError, match=f"at least 0, got {radius}"):
            index.radius_neighbors([[0, 0]], radius=radius)
    with pytest.raises(ValueError, match=r"fit\(codes, y\)"):
        index.score([[0, 0]], [1])
    with pytest.raises(ValueError, match="n_neighbors=4 .* only 3"):
        index.kneighbors([[0, 0]], n_neighbors=4)
    with pytest.raises(ValueError, match="n_neighbors=3 .* only 2 besides"):
        index.kneighbors(n_neighbors=3)
    with pytest.raises(ValueError, match="n_neighbors=6 .* only 3"):
        index.transform([[0, 0]])


def test_packed_is_never_guessed(bits):
    with pytest.raises(ValueError, match="packed=True"):
        HammingNeighbors().fit(pack_bits(bits))
    with pytest.raises(ValueError, match="uint8"):
        HammingNeighbors(packed=True).fit(bits.astype(int))


def test_unknown_mode_and_device():
    index = HammingNeighbors(1).fit([[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="'weights'"):
        index.kneighbors_graph(mode="weights")
    for graph in (index.kneighbors_graph, index.radius_neighbors_graph):
        for option in ("return_ids", "return_distance"):
            with pytest.raises(TypeError, match=option):
                graph(**{option: True})
    with pytest.raises(ValueError, match="abacus"):
        HammingNeighbors(device="abacus").fit([[0, 0]])


def test_a_device_that_is_gone_means_the_cpu(bits, queries):
    index = HammingNeighbors().fit(bits).set_params(device="cuda:99")
    expected = HammingNeighbors().fit(bits).kneighbors(queries)
    np.testing.assert_array_equal(index.kneighbors(queries), expected)


def test_pickle_holds_codes_and_no_room(bits, queries):
    index = HammingNeighbors().fit(bits[:250], np.arange(250))
    index.partial_fit(bits[250:251], [250])
    assert len(index._store._rooms["words"]) > 251
    loaded = pickle.loads(pickle.dumps(index))
    assert len(loaded._store._rooms["words"]) == len(loaded._store._rooms["y"]) == 251
    np.testing.assert_array_equal(loaded.kneighbors(queries), index.kneighbors(queries))
    loaded.partial_fit(bits[251:], np.arange(251, 300))
    index.partial_fit(bits[251:], np.arange(251, 300))
    np.testing.assert_array_equal(loaded.kneighbors(queries), index.kneighbors(queries))
    np.testing.assert_array_equal(loaded.packed_codes_, pack_bits(bits))
    assert not hasattr(clone(index), "packed_codes_")


def test_memory_mapped_codes(bits, queries, tmp_path):
    np.save(tmp_path / "codes.npy", pack_bits(bits)[:, :8])
    codes = np.load(tmp_path / "codes.npy", mmap_mode="r")
    asked = pack_bits(queries)[:, :8]
    index = HammingNeighbors(packed=True).fit(codes)
    assert np.shares_memory(index.packed_codes_, codes)
    expected = expected_neighbors(unpack_bits(codes, 64), unpack_bits(asked, 64), 5)
    np.testing.assert_array_equal(index.kneighbors(asked), expected)


QUERY_METHODS = (
    "kneighbors",
    "radius_neighbors",
    "kneighbors_graph",
    "radius_neighbors_graph",
    "transform",
    "score",
)


def ask(index, method, queries):
    arguments = (queries, queries[:, 0]) if method == "score" else (queries,)
    return getattr(index, method)(*arguments)


LARGE = 2**60 + 1


@each(
    "some, others",
    [
        ([1, 2], ["1", "b"]),
        (["1", "b"], [1, 2]),
        ([LARGE, 2], np.array([2**63 + 1, 2], dtype=np.uint64)),
        (np.array([LARGE, 2], dtype=np.uint64), [1, 2]),
        ([1.5, 2], [LARGE, 2]),
        ([LARGE, 2], [1.5, 2]),
        ([True, False], [1, 2]),
        (["1", "b"], [True, False]),
        (["1", "b"], np.array(["c", 3], dtype=object)),
    ],
)
def test_labels_that_would_change_are_refused(some, others):
    index = HammingNeighbors().fit([[0, 1]] * 2, some)
    with pytest.raises(ValueError, match="give labels of the same type"):
        index.partial_fit([[0, 1]] * 2, others)
    assert index.y_.tolist() == list(some)


@each(
    "some, others",
    [
        (np.array([1, 2], dtype=np.int32), np.array([LARGE, 255])),
        (np.array([LARGE, 2]), np.array([1, 255], dtype=np.uint8)),
        (np.array([0.1, 2], dtype=np.float32), np.array([0.1, 2])),
        (np.array(["1", "b"]), np.array(["longer", "b"])),
        (np.array(["1", "b"]), np.array(["longer", "b"], dtype=object)),
    ],
)
def test_labels_of_other_sizes_stay_what_they_are(some, others):
    for first, second in ((some, others), (others, some)):
        index = HammingNeighbors().fit([[0, 1]] * 2, first)
        index.partial_fit([[0, 1]] * 2, second)
        assert index.y_.tolist() == [*first.tolist(), *second.tolist()]


@each("method", [*QUERY_METHODS, "partial_fit"])
@each("fitted_packed", [False, True])
def test_codes_of_another_width_reach_no_kernel(method, fitted_packed):
    """Of bits taken for bytes there are as many columns, and more bits."""
    codes = np.random.default_rng(0).integers(0, 2, (20, 8), dtype=np.uint8)
    index = HammingNeighbors(2, packed=fitted_packed).fit(codes, codes[:, 0])
    index.set_params(packed=not fitted_packed)
    message = f"packed={not fitted_packed} .* {1 + 7 * (not fitted_packed)} bytes"
    with pytest.raises(ValueError, match=message):
        ask(index, "score" if method == "partial_fit" else method, codes)
    index.set_params(packed=fitted_packed)
    ask(index, method if method != "partial_fit" else "kneighbors", codes)


@each("method", [*QUERY_METHODS, "partial_fit", "save"])
@each("params", [{"n_neighbors": "3"}, {"radius": 2.0}, {"n_jobs": 1.5}])
def test_impossible_parameters_after_fit(bits, method, params, tmp_path):
    """The message is that of fit, whatever passed before."""
    index = HammingNeighbors(2).fit(bits, bits[:, 0])
    ask(index, "kneighbors", bits[:1])
    index.set_params(**params)
    with pytest.raises(ValueError) as expected:
        clone(index).fit(bits)
    assert "parameter of HammingNeighbors must be" in str(expected.value)
    with pytest.raises(type(expected.value)) as found:
        index.save(tmp_path) if method == "save" else ask(index, method, bits[:1])
    assert str(found.value) == str(expected.value)


def test_numbers_of_few_bits(bits, queries):
    """Sums and products of them do not wrap around."""
    small, large = np.int8(100), np.uint8(250)
    index = HammingNeighbors(small, radius=large).fit(bits)
    plain = HammingNeighbors(100, radius=250).fit(bits)
    np.testing.assert_array_equal(index.kneighbors(queries), plain.kneighbors(queries))
    assert (index.transform(queries) != plain.transform(queries)).nnz == 0
    index.set_params(n_neighbors=np.int8(127))
    assert index.transform(queries[:1]).nnz == 128
    found = index.radius_neighbors(queries, return_distance=False)
    assert all(len(one) == len(bits) for one in found)


def test_filters_may_leave_too_few(bits):
    index, mask = HammingNeighbors().fit(bits), np.arange(len(bits)) < 2
    with pytest.raises(ValueError, match="only 2 after filtering"):
        index.kneighbors(bits[:1], 3, mask=mask)
    with pytest.raises(ValueError, match=f"only {len(bits)} "):
        index.kneighbors(bits[:1], len(bits) + 1)


def test_hex_strings_are_told_where_to_go():
    with pytest.raises(ValueError, match="2D array") as told:
        HammingNeighbors().fit(["ffd8", "03a1"])
    assert "from_hex(X)" in told.value.__notes__[0]
    index = HammingNeighbors(1, packed=True).fit(from_hex(["ffd8", "03a1"]))
    assert index.kneighbors(from_hex(["03a0"]), return_distance=False) == [[1]]
