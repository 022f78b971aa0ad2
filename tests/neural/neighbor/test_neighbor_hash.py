"""NeighborHash against plain loops, scikit-learn's neighbours and its own promises."""

import copy
import pickle

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph

import skhash
from skhash import NeighborHash
from skhash.gradients import gradient_report
from skhash.metrics import mean_average_precision_score
from skhash.neural.neighbor import _encoder
from skhash.numerics._graph import label_partners, neighbor_table, table_of_graph
from skhash.training._module import FedRows, Rows

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def small(**params):
    defaults = {
        "n_bits": 16,
        "nested": (8,),
        "hidden_layer_sizes": (16,),
        "max_epochs": 3,
        "batch_size": 128,
        "random_state": 0,
    }
    return NeighborHash(**defaults | params)


def gaussian_rows(n=80, d=6, seed=0):
    return np.random.RandomState(seed).randn(n, d)


def table_of(X, k=4, metric="euclidean", n_axes=None, rows=None):
    rows = np.arange(X.shape[0]) if rows is None else rows
    return neighbor_table(X, rows, k, metric, n_axes, CPU, torch.Generator())


# The graph


@each("mode", ["connectivity", "distance"])
@each("include_self", [True, False])
def test_a_graph_of_scikit_learn_is_read(mode, include_self):
    X = gaussian_rows()
    graph = kneighbors_graph(X, 4 + include_self, mode=mode, include_self=include_self)
    table = table_of_graph(graph, 4, 80)
    np.testing.assert_array_equal(np.sort(table), np.sort(table_of(X)))
    if mode == "distance":
        np.testing.assert_array_equal(table_of_graph(graph, 2, 80), table_of(X)[:, :2])


def test_rows_of_a_graph_with_few_neighbors_repeat_them():
    graph = sparse.csr_array(np.array([[0, 2.0, 1.0], [1.0, 0, 0], [0, 3.0, 9.0]]))
    np.testing.assert_array_equal(table_of_graph(graph, 5, 3), [[2, 1], [0, 0], [1, 1]])
    with pytest.raises(ValueError, match=r"graph.*\(3, 3\).* 4 "):
        table_of_graph(graph, 5, 4)
    graph = sparse.csr_array(np.eye(3, k=1))
    with pytest.raises(ValueError, match="Row 2 .*graph"):
        table_of_graph(graph, 1, 3)


def test_partners_share_a_class_or_are_neighbors():
    labels = np.array([0, 1, 0, -1, 1, 0, 2, -1])[:, None]
    table = np.tile(np.arange(100, 150), (8, 1))
    partners = label_partners(labels, table, np.random.RandomState(0))
    for row, label in enumerate(labels[:, 0]):
        others = set(np.flatnonzero(labels[:, 0] == label)) - {row}
        if label < 0 or not others:
            np.testing.assert_array_equal(partners[row], table[row])
        else:
            assert set(partners[row]) == others


def test_partners_share_one_of_several_labels():
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]])
    table = np.tile(np.arange(100, 150), (5, 1))
    partners = label_partners(labels, table, np.random.RandomState(0))
    assert [set(row) for row in partners[:3]] == [{1, 2}, {0}, {0}]
    np.testing.assert_array_equal(partners[3:], table[3:])


# The estimator


@each(
    "nested, n_bits, lengths",
    [
        (True, 100, [8, 16, 32, 64, 100]),
        (True, 16, [8, 16]),
        (True, 5, [5]),
        (False, 20, [20]),
        ((16, 5, 16), 20, [5, 16, 20]),
        ([8, 64], 32, [8, 32]),
    ],
)
def test_lengths(nested, n_bits, lengths, digits):
    encoder = small(nested=nested, n_bits=n_bits, max_epochs=1).fit(digits[0])
    assert encoder.lengths_ == lengths


@pytest.mark.parametrize("hidden", [(), (5,)])
def test_truncate_is_a_prefix(hidden, digits, tmp_path):
    X, _ = digits
    encoder = small(hidden_layer_sizes=hidden).fit(X)
    short = encoder.truncate(8)
    np.testing.assert_array_equal(short.transform(X), encoder.transform(X)[:, :8])
    assert short.n_bits == 8 and encoder.n_bits == 16
    assert encoder.transform(X).shape[1] == 16
    assert short.lengths_ == [8] and encoder.truncate(9).lengths_ == [8, 9]
    # The trained module has these bits, and their decoders.
    module = encoder.truncate(9)._restored().eval()
    fed = FedRows(Rows(X), module).values()
    with torch.no_grad():
        logits = encoder.decision_function(X)[:, :9]
        np.testing.assert_allclose(module(fed).numpy(), logits, atol=2e-4)
        decoders = [encoder._restored().decoders, module.decoders]
        (_, whole), (_, cut) = ([d / len(d) ** 0.5 for d in ds] for ds in decoders)
        torch.testing.assert_close(cut, whole[:9])
    short.save(tmp_path / "short")
    loaded = skhash.load(tmp_path / "short")
    np.testing.assert_array_equal(loaded.transform(X), short.transform(X))
    before = encoder.decision_function(X)
    assert short.partial_fit(X).n_iter_ == encoder.n_iter_ + 1
    np.testing.assert_array_equal(encoder.decision_function(X), before)
    for n_bits in (0, 17):
        with pytest.raises(ValueError, match=f"n_bits={n_bits} .*16"):
            encoder.truncate(n_bits)
    with pytest.raises(ValueError, match="n_bits=16.0"):
        encoder.truncate(16.0)


OPTIONS = [
    *({"n_neighbors": 1}, {"metric": "cosine"}, {"metric": "inner_product"}),
    *({"hidden_layer_sizes": (5,)}, {"nested": False}, {"nested": (4,)}),
    *({"temperature": 2.0}, {"gradient": "st"}, {"normalize": True}, {"lr": 0.01}),
    *({"distance_weight": 0.1}, {"reconstruction_weight": 0.1}, {"max_epochs": 4}),
    *({"lr_schedule": "step"}, {"lr_schedule": None}, {"max_train_samples": 100}),
    *({"batch_size": 64}, {"optimizer": "sgd"}, {"weight_decay": 3.0}),
    *({"validation_fraction": 0.2}, {"random_state": 1}),
]


def test_every_option_changes_the_result(digits):
    X = digits[0][:200]
    plain = small().fit(X).decision_function(X)
    for option in OPTIONS:
        changed = small(**option).fit(X).decision_function(X)
        assert np.abs(changed - plain).max() > 1e-3, option


@each("name", ["distance_weight", "reconstruction_weight"])
@each(
    "params, counts",
    [
        ({"metric": "cosine"}, True),
        ({"graph": "exact"}, True),
        ({"metric": "inner_product"}, False),
        ({"graph": kneighbors_graph(gaussian_rows(), 5)}, False),
    ],
)
def test_distances_and_reconstruction_count_without_other_knowledge(
    params, counts, name
):
    X = gaussian_rows()
    logits = [
        small(**{name: weight}, **params).fit(X).decision_function(X)
        for weight in (1.0, 0.0)
    ]
    assert (np.abs(logits[0] - logits[1]).max() > 1e-3) == counts


def test_rows_left_out_are_neighbors_still(digits):
    X, _ = digits
    rows = np.array([3, 50, 7])
    np.testing.assert_array_equal(table_of(X, rows=rows), table_of(X)[rows])
    # Each of the first 300 rows is a pair with one of the others: if those were gone,
    # nothing could be learned that tells the pairs apart.
    pairs = sparse.lil_array((600, 600))
    pairs[np.arange(600), (np.arange(600) + 300) % 600] = 1
    half = small(graph=pairs.tocsr(), max_train_samples=100, max_epochs=20).fit(X)
    bits = half.transform(X)
    other = small(graph=pairs.tocsr(), lr=1e-9, max_epochs=1).fit(X).transform(X)
    agreed, agreed_before = (
        (codes[:300] == codes[300:]).mean() for codes in (bits, other)
    )
    assert agreed > agreed_before


@each(
    "n_samples, params, n_epochs",
    [
        (10**6, {}, 20),  # 50 000 rows in 98 steps
        (320, {}, 100),
        (4000, {}, 94),  # 16 steps of 250 rows
        (20_000, {"batch_size": 400}, 30),
    ],
)
def test_automatic_epochs_make_enough_steps(n_samples, params, n_epochs):
    assert NeighborHash(**params)._phases(n_samples) == (n_epochs,)


@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_automatic_epochs_are_those_of_fits(validation_fraction, monkeypatch):
    monkeypatch.setattr(_encoder, "AUTO_STEPS", 190)
    monkeypatch.setattr(_encoder, "AUTO_EPOCHS", (2, 100))
    X = gaussian_rows(80)
    steps = {"max_epochs": "auto", "batch_size": 2, "n_bits": 4}  # 40 an epoch
    encoder = small(**steps, validation_fraction=validation_fraction).fit(X)
    assert encoder.n_iter_ == encoder.net_.module_.contrast.n_epochs == 5
    assert encoder.net_.module_.steepness == 5
    assert small(**steps).partial_fit(X).net_.module_.contrast.n_epochs == 5


@each("n_bits", [16, 100])
def test_skip_connection_starts_as_the_linear_encoder(n_bits, digits):
    X, _ = digits
    tiny = {"n_bits": n_bits, "lr": 1e-9, "max_epochs": 1}
    linear = small(**tiny).fit(X).decision_function(X)
    hidden = small(**tiny, hidden_layer_sizes=(8, 7)).fit(X).decision_function(X)
    np.testing.assert_allclose(hidden, linear, atol=1e-5)
    np.testing.assert_allclose(linear.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(linear.std(axis=0), 1, rtol=1e-4)


def test_prefixes_start_along_as_many_principal_axes(digits):
    X, _ = digits
    options = {"n_bits": 24, "nested": (4, 12), "lr": 1e-9, "max_epochs": 1}
    directions = small(**options).fit(X).skip_coef_
    components = PCA(40).fit(X).components_
    shares = np.abs(components @ directions) / np.linalg.norm(directions, axis=0)
    for bits, n_axes in ((slice(4), 4), (slice(4, 12), 12), (slice(12, 24), 24)):
        np.testing.assert_allclose(shares[n_axes:, bits], 0, atol=1e-3)
        squares = (shares[:n_axes, bits] ** 2).sum(axis=0)
        np.testing.assert_allclose(squares, 1, rtol=1e-5)
        assert shares[n_axes - 1, bits].max() > 0.1


def test_directions_without_spread_start_at_zero(monkeypatch):
    """Where codes start at the axes themselves, two of them constant."""
    X = np.hstack([gaussian_rows(d=4), np.full((80, 2), 7.0)])
    monkeypatch.setattr(_encoder, "rotated_axes", lambda *_: np.eye(6))
    coef = small(n_bits=6, nested=(4,), lr=1e-9, max_epochs=1).fit(X).skip_coef_
    np.testing.assert_allclose(coef[:, 4:], 0, atol=1e-6)
    np.testing.assert_allclose((X @ coef[:, :4]).std(axis=0), 1, rtol=1e-4)


@each("kind", [np.asarray, sparse.csr_array])
@each("d, params", [(6, {"hidden_layer_sizes": (5, 4)}), (300, {"n_bits": 40})])
def test_codes_are_those_of_the_module(d, params, kind):
    """Though it was fed coordinates, and the encoder reads columns."""
    X = kind(gaussian_rows(120, d) + 3).astype(np.float32)
    encoder = small(**params).fit(X)
    module = encoder.net_.module_.eval()  # so that products are exact
    fed = FedRows(Rows(X), module).values()
    assert fed.shape == (120, min(120, d))
    with torch.no_grad():
        logits = module(fed).numpy()
    np.testing.assert_allclose(encoder.decision_function(X), logits, atol=2e-4)


@each("n, d, n_bits", [(80, 6, 40), (20, 64, 40), (20, 3, 70), (2, 6, 12)])
def test_there_may_be_more_bits_than_columns_and_rows(n, d, n_bits):
    X = gaussian_rows(n, d)
    encoder = small(n_bits=n_bits, max_epochs=20).fit(X)
    logits = encoder.decision_function(X)
    assert np.isfinite(logits).all()
    bits = encoder.transform(X)
    assert ((bits.min(axis=0) == 0) & (bits.max(axis=0) == 1)).mean() > 0.6


def test_curves_are_steep_at_last_in_fits_and_streams(digits):
    X, _ = digits
    encoder = small(max_epochs=3).fit(X)
    assert encoder.net_.module_.steepness == 5
    assert encoder.partial_fit(X).net_.module_.steepness == 5
    stream, grown = small(max_epochs=3), []
    for _ in range(4):
        grown.append(stream.partial_fit(X).net_.module_.steepness)
    np.testing.assert_allclose(grown, [1, 5**0.5, 5, 5])


def test_a_loaded_stream_is_trained_for_the_same(digits, tmp_path):
    X, _ = digits
    stream = small(max_epochs="auto").partial_fit(X)
    stream.save(tmp_path / "stream")
    loaded = skhash.load(tmp_path / "stream").set_params(batch_size=64)
    after = [encoder.partial_fit(X[:99]).net_.module_ for encoder in (stream, loaded)]
    assert after[0].contrast == after[1].contrast
    assert after[0].steepness == after[1].steepness < 1.1


def test_an_exact_graph_is_the_projected_one_for_narrow_rows(digits):
    X, _ = digits
    exact, projected = (
        small(graph=graph, metric="inner_product").fit_transform(X)
        for graph in ("exact", "projected")
    )
    # Neighbours at one distance may come in another order.
    assert (exact == projected).mean() > 0.95


def test_given_neighbours_and_labels_are_learned():
    """Though the rows themselves say nothing of them."""
    X = gaussian_rows(200, 64)
    y = np.arange(200) // 5
    graph = sparse.csr_array((y[:, None] == y) & ~np.eye(200, dtype=bool))
    indicator = np.eye(40, dtype=int)[y]
    plain, *scores = (
        mean_average_precision_score(bits, bits, y, y, exclude_self=True)
        for bits in (
            small(max_epochs=20, graph=source).fit(X, labels).transform(X)
            for source, labels in [
                ("projected", None),
                (graph, None),
                ("projected", y),
                ("projected", indicator),
                ("projected", sparse.csr_array(indicator)),
            ]
        )
    )
    assert min(scores) > 5 * plain


def test_a_given_graph_has_its_limits(digits):
    X, _ = digits
    graph = kneighbors_graph(X, 3)
    with pytest.raises(ValueError, match="graph"):
        small(graph=graph).fit(X[:-1])
    encoder = small(graph=graph).partial_fit(X).partial_fit(X)
    assert encoder.n_iter_ == 2 and encoder.net_.module_.bank is None


def test_no_label_at_all_is_for_streams(digits):
    """Whose other rows may have labels; near rows are partners meanwhile."""
    X, y = digits
    codes = []
    for unknown in (-1, None):
        labels = np.full(len(y), unknown)
        with pytest.raises(ValueError, match="no label"):
            small().fit(X, labels)
        codes.append(small().partial_fit(X, labels).transform(X))
    np.testing.assert_array_equal(*codes)


def test_wrong_labels_are_named(digits):
    X, y = digits
    with pytest.raises(ValueError, match="599"):
        small().fit(X, y[:-1])
    encoder = small().partial_fit(X, y)
    with pytest.raises(ValueError, match="strings"):
        encoder.partial_fit(X, y.astype(str))
    with pytest.raises(ValueError, match=r"shape \(n, \*\(\)\)"):
        encoder.partial_fit(X, np.eye(10, dtype=int)[y])


# Streams


def test_a_stream_keeps_a_bank_of_the_past_and_trains_on_it(digits):
    X, _ = digits
    encoder = small().partial_fit(X[:300])
    np.testing.assert_array_equal(encoder.net_.module_.bank[0], X[:300])
    without = copy.deepcopy(encoder)
    without.net_.module_.bank = None
    logits, others = (
        copy.deepcopy(one).partial_fit(X[300:400]).decision_function(X)
        for one in (encoder, without)
    )
    assert (logits != others).any()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skhash.neural.neighbor._rows.BANK_ROWS", 50)
        encoder.partial_fit(X)
    assert len(encoder.net_.module_.bank[0]) == 50
    encoder.fit(X)
    assert encoder.net_.module_.bank is None
    assert encoder.partial_fit(X).n_iter_ == 4


def test_streams_of_other_kinds_and_with_labels(digits, tmp_path):
    X, y = digits
    encoder = small().partial_fit(X[:200], y[:200])
    encoder.partial_fit(sparse.csr_array(X[200:400]), y[200:400])
    encoder.partial_fit(X[400:], np.full(200, -1))
    bank = encoder.net_.module_.bank
    assert bank[0].shape == (600, 64) and len(bank[1]) == 600
    snapshot = pickle.loads(pickle.dumps(encoder))
    with pytest.raises(ValueError, match="partial_fit"):
        encoder.partial_fit(X)
    np.testing.assert_array_equal(
        encoder.decision_function(X), snapshot.decision_function(X)
    )
    encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert not hasattr(loaded, "net_")
    assert loaded.partial_fit(X).n_iter_ == 4


def test_function_wise_gradients_are_refused(digits):
    with pytest.raises(TypeError, match="NeighborHash"):
        small(gradient="arm").fit(digits[0])
    encoder = small(gradient="st").fit(digits[0])
    with pytest.raises(TypeError, match="rows with partners"):
        gradient_report(encoder, digits[0], ["st"])


def test_a_sample_that_is_all_held_out_is_refused(digits):
    encoder = small(max_train_samples=2, validation_fraction=0.99)
    with pytest.raises(ValueError, match="max_train_samples=2 left 0"):
        encoder.fit(digits[0])


def test_lengths_below_one_are_refused(digits):
    with pytest.raises(ValueError, match=r"nested=\(0, 8\)"):
        small(nested=(0, 8)).fit(digits[0])
    with pytest.raises(ValueError, match=r"nested=\(8.5,\)"):
        small(nested=(8.5,)).fit(digits[0])


@pytest.mark.parametrize(
    ("name", "weight", "factor"),
    [("MANY_ROWS", "distance_weight", 1 / 16)]
    + [("MANY_MORE_ROWS", "reconstruction_weight", 4)],
)
def test_weights_follow_the_number_of_rows(name, weight, factor, digits, monkeypatch):
    """Distances count less where rows are many, and reconstruction more."""
    X, _ = digits
    before = small(n_bits=32).fit(X)
    given = before.get_params()[weight]
    assert getattr(before.net_.module_.contrast, weight) == given
    monkeypatch.setattr(f"skhash.neural.neighbor._encoder.{name}", len(X) / 16)
    after = small(n_bits=32).fit(X)
    assert getattr(after.net_.module_.contrast, weight) == pytest.approx(factor * given)
    assert (after.decision_function(X) != before.decision_function(X)).any()


@each("n", [80, 600])
def test_the_hidden_layer_and_what_is_wanted_follow_the_number_of_rows(n, digits):
    """More rows want nearer partners, and have the units that they can train."""
    X = digits[0][:n]
    encoder = small(hidden_layer_sizes="auto").fit(X)
    given = small(hidden_layer_sizes=(min(512, n),)).fit(X)
    np.testing.assert_array_equal(
        encoder.decision_function(X), given.decision_function(X)
    )
    assert encoder.net_.module_.contrast.sharpness == pytest.approx(n**0.35)
    assert encoder.net_.module_.contrast.by_distance
    assert (
        not small(graph=kneighbors_graph(X, 5)).fit(X).net_.module_.contrast.by_distance
    )
