"""NeighborHash against plain loops, scikit-learn's neighbours and its own promises."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash
from skhash import ITQHash, NeighborHash, PCAHash
from skhash.algebra._graph import (
    label_partners,
    neighbor_table,
    table_of_graph,
)
from skhash.gradients import DeterministicST
from skhash.metrics import (
    make_neighbor_recall_scorer,
    mean_average_precision_score,
    neighbor_recall_score,
    true_neighbors,
)
from skhash.neural.neighbor._module import (
    NeighborModule,
    _known,
    distance_loss,
    prefix_losses,
)
from skhash.training._batches import Batch

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def small(**params):
    defaults = {
        "n_bits": 16,
        "nested": (8,),
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


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
@pytest.mark.parametrize("kind", ["float64", "float32", "far", "sparse"])
def test_neighbors_are_those_of_a_plain_search(metric, kind):
    X = gaussian_rows() + 0.5
    if kind == "far":
        X = X + 1e6
    given = X.astype(np.float32) if kind == "float32" else X
    given = sparse.csr_array(X) if kind == "sparse" else given
    if metric == "inner_product":
        keys = -X @ X.T
        np.fill_diagonal(keys, np.inf)
        expected = np.argsort(keys, axis=1)[:, :4]
    else:
        search = NearestNeighbors(n_neighbors=4, metric=metric, algorithm="brute")
        expected = search.fit(X).kneighbors(return_distance=False)
    if kind == "far" and metric != "euclidean":
        return  # directions of rows that are all but equal: no float32 can tell
    np.testing.assert_array_equal(table_of(given, metric=metric), expected)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_projection_loses_nothing_where_the_axes_hold_everything(metric, kind):
    X = gaussian_rows(d=3) @ gaussian_rows(3, 40, seed=1) + 1.0
    table = table_of(X, metric=metric)
    projected = table_of(kind(X), metric=metric, n_axes=3)
    assert (projected == table).mean() > 0.99
    assert (table_of(X, metric=metric, n_axes=1) == table).mean() < 0.9


def test_at_most_all_other_rows():
    table = table_of(gaussian_rows(4), k=10)
    np.testing.assert_array_equal(
        np.sort(table), [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    )


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
@pytest.mark.parametrize("include_self", [True, False])
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
    with pytest.raises(ValueError, match=r"graph has shape \(3, 3\), but X has 4 rows"):
        table_of_graph(graph, 5, 4)
    graph = sparse.csr_array(np.eye(3, k=1))
    with pytest.raises(ValueError, match="Row 2 has no neighbour in graph"):
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


# The loss


def loop_loss(rows, partners, length, temperature, known):
    n, total = len(rows), 0.0
    for i in range(n):
        forward = backward = 0.0
        for j in range(n):
            if known is not None and known[i, j]:
                continue
            agreement = rows[i, :length] @ partners[j, :length] / length
            forward += np.exp(agreement / temperature)
        for j in range(n):
            if known is not None and known[j, i]:
                continue
            agreement = rows[j, :length] @ partners[i, :length] / length
            backward += np.exp(agreement / temperature)
        own = rows[i, :length] @ partners[i, :length] / length / temperature
        total += (np.log(forward) + np.log(backward)) / 2 - own
    return total / n


@pytest.mark.parametrize("masked", [False, True])
def test_loss_is_the_formula(masked):
    rng = np.random.RandomState(0)
    rows, partners = np.sign(rng.randn(2, 7, 12))
    known = rng.rand(7, 7) < 0.3
    np.fill_diagonal(known, False)
    lengths, temperatures = [3, 8, 12], [0.7, 0.5, 0.3]
    losses = prefix_losses(
        torch.from_numpy(rows),
        torch.from_numpy(partners),
        lengths,
        temperatures,
        torch.from_numpy(known) if masked else None,
    )
    expected = [
        loop_loss(rows, partners, m, T, known if masked else None)
        for m, T in zip(lengths, temperatures, strict=True)
    ]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-12)


def test_loss_is_finite_at_any_temperature():
    rows = torch.ones(3, 8, requires_grad=True)
    loss = prefix_losses(rows, -torch.ones(3, 8), [8], [1e-3]).sum()
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(rows.grad).all()


def make_module(**params):
    rng = np.random.RandomState(0)
    options = {
        "mean": np.zeros(4),
        "scale": 1.0,
        "coefs": [rng.randn(4, 6)],
        "intercepts": [rng.randn(6)],
        "skip_coef": None,
        "lengths": [6],
        "temperature": 2.0,
        "gradient": DeterministicST(),
        "interpolate": False,
        "distance_weight": 0.0,
        "unit_rows": False,
    }
    return NeighborModule(**options | params)


def strangers(X, labels=None):
    """A batch of rows and partners that are no candidates of other rows."""
    n = len(X)
    near = torch.arange(n).reshape(n, 1, 1)
    return Batch(X, torch.arange(n), labels=labels, partners=near)


def test_forward_is_the_layers_and_the_skip():
    rng = np.random.RandomState(1)
    coefs, intercepts = [rng.randn(4, 5), rng.randn(5, 6)], [rng.randn(5), rng.randn(6)]
    skip, X = rng.randn(4, 6), rng.randn(9, 4)
    module = make_module(coefs=coefs, intercepts=intercepts, skip_coef=skip).double()
    hidden = np.maximum(X @ coefs[0] + intercepts[0], 0)
    expected = hidden @ coefs[1] + intercepts[1] + X @ skip
    logits = module(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-5)


@pytest.mark.parametrize("labelled", [None, "classes", "several"])
def test_rows_known_to_be_near_are_no_negatives(labelled):
    """Own position, and two candidates, of each row; then those of partners.

    Row by row, without labels: 0 is the partner of row 3, 9 that of row 2 and 4 that of
    row 0. That 1 is itself is on the diagonal, as is what row 0 has with 4.
    """
    rows = np.array([[0, 4, 5], [1, 6, 9], [2, 4, 7], [3, 7, 8]])
    partners = np.array([[4, 0, 2], [1, 0, 0], [9, 2, 2], [0, 5, 5]])
    near = [(0, 3), (1, 2), (2, 0)]
    labels, other_labels = [[3], [-1], [5], [8]], [[-1], [8], [2], [5]]
    if labelled == "classes":
        near += [(3, 1), (2, 3)]
    if labelled == "several":
        labels = [[1, 1], [0, 0], [0, 1], [0, 0]]
        other_labels = [[0, 1], [1, 0], [1, 1], [0, 0]]
        near += [(0, 1), (0, 2)]
    table = torch.from_numpy(np.vstack([rows, partners]))
    known = _known(
        *Batch(
            torch.zeros(8, 1),
            rows=table[:, 0],
            labels=torch.tensor(labels + other_labels) if labelled else None,
            partners=table[:, 1:, None],
        ).parts()
    )
    expected = np.zeros((4, 4), dtype=bool)
    expected[tuple(np.transpose(near))] = True
    np.testing.assert_array_equal(known.numpy(), expected)


def test_interpolated_partners_lie_on_the_way_to_their_rows():
    module = make_module(interpolate=True)
    X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    rows, partners = module._interpolated(X).chunk(2)
    torch.testing.assert_close(rows, X[:4])
    share = (partners - rows) / (X[4:] - rows)
    torch.testing.assert_close(share, share[:, :1].expand_as(share), rtol=1e-3, atol=0)
    assert (share > 0).all() and (share < 1).all() and share[:, 0].std() > 0.01
    assert (module(X) != module.eval()(X)).any()
    logits = X @ (module.coefs[0] / 2) + module.intercepts[0]
    torch.testing.assert_close(module(X), logits)


def test_loss_of_a_batch_sums_the_prefixes():
    module = make_module(lengths=[2, 6])
    X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    logits = module(X)
    signs = torch.sign(logits)
    expected = prefix_losses(signs[:4], signs[4:], [2, 6], [2 / 2**0.5, 2 / 6**0.5])
    loss = module.loss(logits, strangers(X))
    torch.testing.assert_close(loss, expected.sum())
    loss.backward()
    assert module.coefs[0].grad.abs().max() > 0


def test_distance_loss_is_that_of_weighted_correlation():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    signs = torch.sign(torch.randn(12, 9, generator=generator, dtype=torch.float64))
    distance = euclidean_distances(X[:6].numpy(), X[6:].numpy())
    weights = np.exp(-(distance**2) / (distance**2).mean()).ravel()
    agreement = (signs[:6] @ signs[6:].T).numpy().ravel()
    covariance = np.cov(distance.ravel(), agreement, aweights=weights)
    r = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    loss = distance_loss(signs[:6], signs[6:], torch.from_numpy(distance**2))
    np.testing.assert_allclose(loss.item(), 1 - r**2, rtol=1e-12)


def test_distance_loss_is_finite_where_nothing_varies():
    rows = torch.ones(3, 8, requires_grad=True)
    loss = distance_loss(rows, torch.ones(3, 8), torch.zeros(3, 3))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(rows.grad).all()


@pytest.mark.parametrize("unit_rows", [False, True])
def test_distances_are_those_of_the_rows(unit_rows):
    rng = np.random.RandomState(0)
    X, mean, scale = rng.randn(10, 4) + 1, np.array([1.0, 0, 2, 0]), 3.0
    module = make_module(mean=mean, scale=scale, unit_rows=unit_rows).double()
    fed = torch.from_numpy((X - mean) / scale)
    if unit_rows:
        expected = cosine_distances(X[:5], X[5:]) * 2
    else:
        expected = euclidean_distances(X[:5], X[5:], squared=True) / scale**2
    squares = module._squared_distances(*fed.chunk(2))
    np.testing.assert_allclose(squares.numpy(), expected, rtol=1e-6)


def test_long_codes_add_their_distance_loss():
    rng = np.random.RandomState(0)
    options = {
        "coefs": [rng.randn(4, 100)],
        "intercepts": [rng.randn(100)],
        "lengths": [64, 80, 100],
    }
    X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    plain = make_module(**options)
    weighted = make_module(**options, distance_weight=3.0)
    logits = plain(X)
    rows, partners = torch.sign(logits).chunk(2)
    squares = torch.cdist(X[:4], X[4:]).square()
    added = sum(distance_loss(rows[:, :m], partners[:, :m], squares) for m in (80, 100))
    batch = strangers(X)
    difference = weighted.loss(logits, batch) - plain.loss(logits, batch)
    torch.testing.assert_close(difference, 3 * added, rtol=1e-4, atol=1e-4)
    labelled = strangers(X, labels=torch.arange(8)[:, None])
    assert weighted.loss(logits, labelled) == plain.loss(logits, labelled)


# The estimator


def recall(encoder, X):
    bits = encoder.transform(X)
    truth = true_neighbors(X, n_neighbors=10)
    return neighbor_recall_score(
        bits, bits, truth, n_retrieved=20, exclude_self=True, n_jobs=1
    )


@pytest.mark.parametrize("n_bits", [8, 16, 32])
def test_every_prefix_beats_components_and_rotation(n_bits, digits):
    X, _ = digits
    nested = small(n_bits=32, nested=(8, 16), max_epochs=30).fit(X)
    score = recall(nested.truncate(n_bits), X)
    assert score > recall(PCAHash(n_bits).fit(X), X)
    assert score > recall(ITQHash(n_bits, random_state=0).fit(X), X)


def test_hidden_layers_find_more_partners(digits):
    X, _ = digits
    losses = [
        small(max_epochs=30, hidden_layer_sizes=hidden).fit(X).history_[-1]
        for hidden in ((64,), ())
    ]
    assert losses[0]["train_loss"] < losses[1]["train_loss"]


def test_nested_training_is_for_the_prefixes(digits):
    X, _ = digits
    prefixes = [
        recall(small(n_bits=32, nested=nested, max_epochs=30).fit(X).truncate(8), X)
        for nested in ((8, 16), False)
    ]
    assert prefixes[0] > prefixes[1]


@pytest.mark.parametrize(
    ("nested", "n_bits", "lengths"),
    [
        (True, 64, [16, 32, 64]),
        (True, 20, [16, 20]),
        (True, 8, [8]),
        (False, 64, [64]),
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
    short.save(tmp_path / "short")
    loaded = skhash.load(tmp_path / "short")
    np.testing.assert_array_equal(loaded.transform(X), short.transform(X))
    before = encoder.decision_function(X)
    assert short.partial_fit(X).n_iter_ == encoder.n_iter_ + 1
    np.testing.assert_array_equal(encoder.decision_function(X), before)
    for n_bits in (0, 17):
        with pytest.raises(ValueError, match=f"n_bits={n_bits} is not from 1 to 16"):
            encoder.truncate(n_bits)
    with pytest.raises(ValueError, match="n_bits=16.0 must be an integer"):
        encoder.truncate(16.0)


OPTIONS = [
    {"n_neighbors": 1},
    {"metric": "cosine"},
    {"metric": "inner_product"},
    {"hidden_layer_sizes": (5,)},
    {"nested": False},
    {"nested": (4,)},
    {"temperature": 2.0},
    {"gradient": "st"},
    {"interpolate": True},
    {"lr_schedule": "cosine"},
    {"max_train_samples": 300},
    {"init": "itq"},
    {"init": "pca"},
    {"init": "random"},
    {"normalize": True},
    {"lr": 0.01},
    {"max_epochs": 4},
    {"batch_size": 64},
    {"optimizer": "sgd"},
    {"validation_fraction": 0.2},
    {"random_state": 1},
]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_every_option_changes_the_result(option, digits):
    X, _ = digits
    changed = small(**option).fit(X).decision_function(X)
    assert np.abs(changed - small().fit(X).decision_function(X)).max() > 1e-3


@pytest.mark.parametrize(
    ("params", "counts"),
    [
        ({}, True),
        ({"metric": "cosine"}, True),
        ({"metric": "inner_product"}, False),
        ({"interpolate": True}, False),
        ({"graph": kneighbors_graph(gaussian_rows(), 5)}, False),
        ({"n_bits": 64}, False),
    ],
    ids=str,
)
def test_distances_count_for_long_codes_only(params, counts):
    X = gaussian_rows()
    logits = [
        small(**{"n_bits": 72, "distance_weight": weight, **params})
        .fit(X)
        .decision_function(X)
        for weight in (10.0, 0.0)
    ]
    assert (np.abs(logits[0] - logits[1]).max() > 1e-3) == counts


def test_distances_help_long_codes(digits):
    X, _ = digits
    with_distances, without = (
        recall(small(n_bits=128, max_epochs=30, distance_weight=weight).fit(X), X)
        for weight in (10.0, 0.0)
    )
    assert with_distances > without


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


@pytest.mark.parametrize("labelled", [False, True])
def test_some_rows_do_nearly_as_well_as_all(labelled, digits):
    X, y = digits
    params = {"max_epochs": 30, "batch_size": 64}

    def score(**options):
        encoder = small(**params | options).fit(X, y if labelled else None)
        return label_map(encoder, X, y) if labelled else recall(encoder, X)

    few, all_rows, untrained = (
        score(max_train_samples=300),
        score(max_train_samples=None),
        score(lr=1e-9, max_epochs=1),
    )
    assert few > (untrained + all_rows) / 2


def test_automatic_batches_follow_the_number_of_rows():
    encoder = NeighborHash()
    sizes = [encoder._resolve_batch_size(n) for n in (100, 3200, 10**6)]
    assert sizes == [64, 200, 512]


def test_skip_connection_starts_as_the_linear_encoder(digits):
    X, _ = digits
    tiny = {"lr": 1e-9, "max_epochs": 1, "init": "pca"}
    linear = small(**tiny).fit(X).decision_function(X)
    hidden = small(**tiny, hidden_layer_sizes=(8, 7)).fit(X).decision_function(X)
    np.testing.assert_allclose(hidden, linear, atol=1e-5)
    np.testing.assert_array_equal(linear > 0, PCAHash(16).fit(X).transform(X))
    np.testing.assert_allclose(linear.std(axis=0), 1, rtol=1e-4)


def test_exact_and_given_graphs_are_the_projected_one_for_narrow_rows(digits):
    X, _ = digits
    bits = small().fit(X).transform(X)
    graph = kneighbors_graph(X, 5, mode="distance")
    for option in ("exact", graph):
        agreed = (small(graph=option).fit(X).transform(X) == bits).mean()
        assert agreed > 0.95  # neighbours at one distance may come in another order
    far = kneighbors_graph(-X, 5, metric=lambda x, y: -np.abs(x - y).sum())
    assert (small(graph=far).fit(X).transform(X) == bits).mean() < 0.9


def test_a_given_graph_has_its_limits(digits):
    X, _ = digits
    graph = kneighbors_graph(X, 3)
    with pytest.raises(ValueError, match="graph has shape"):
        small(graph=graph).fit(X[:-1])
    encoder = small(graph=graph).partial_fit(X).partial_fit(X)
    assert encoder.n_iter_ == 2 and encoder.bank_ is None


def label_map(encoder, X, y):
    bits = encoder.transform(X)
    return mean_average_precision_score(bits[300:], bits[:300], y[300:], y[:300])


def test_labels_beat_neighbors_and_some_labels_beat_none(digits):
    X, y = digits
    some = np.where(np.arange(300) % 5, -1, y[:300])
    scores = [
        label_map(small(max_epochs=30).fit(X[:300], labels), X, y)
        for labels in (None, some, y[:300])
    ]
    assert scores == sorted(scores)
    assert scores[2] > scores[0] + 0.05


def test_labels_may_have_any_names(digits):
    X, y = digits
    bits = small().fit(X, y).transform(X)
    np.testing.assert_array_equal(small().fit(X, y + 3).transform(X), bits)
    words = np.array(list("abcdefghij"))[y]
    np.testing.assert_array_equal(small().fit(X, words).transform(X), bits)
    assert (small().fit(X).transform(X) != bits).mean() > 0.05


@pytest.mark.parametrize("unknown", [-1, "-1", None])
def test_unknown_classes_have_several_names(unknown, digits):
    X, y = digits
    some = np.where(np.arange(len(y)) % 3, -1, y)
    bits = small().fit(X, some).transform(X)
    names = np.array([*"abcdefghij", unknown], dtype=object)[some]
    np.testing.assert_array_equal(small().fit(X, names).transform(X), bits)
    assert (small().fit(X, y).transform(X) != bits).any()


def test_no_label_is_no_supervision(digits):
    """In a stream, whose other rows may have labels."""
    X, y = digits
    bits = small().partial_fit(X).transform(X)
    unknown = np.full(len(y), -1)
    np.testing.assert_array_equal(small().partial_fit(X, unknown).transform(X), bits)
    with pytest.raises(ValueError, match="no label"):
        small().fit(X, unknown)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_several_labels(form):
    X, y = make_multilabel_classification(200, 12, n_classes=4, random_state=0)
    encoder = small(max_epochs=20).fit(X, form(y))
    bits = encoder.transform(X)
    unsupervised = small(max_epochs=20).fit_transform(X)
    score, without = (
        mean_average_precision_score(codes, codes, y, y, exclude_self=True)
        for codes in (bits, unsupervised)
    )
    assert score > without


def test_wrong_labels_are_named(digits):
    X, y = digits
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        small().fit(X, X[:, 3] + 0.5 * np.random.RandomState(0).rand(len(X)))
    with pytest.raises(ValueError, match="holds -1; give 0 and 1"):
        small().fit(X, 2 * np.eye(10, dtype=int)[y] - 1)
    encoder = small().partial_fit(X, y)
    with pytest.raises(ValueError, match="strings in some calls"):
        encoder.partial_fit(X, y.astype(str))
    with pytest.raises(ValueError, match=r"shape \(n, \*\(\)\)"):
        encoder.partial_fit(X, np.eye(10, dtype=int)[y])


@pytest.mark.parametrize("hidden", [(), (16,)])
@pytest.mark.parametrize("moved", ["scaled", "shifted"])
def test_scale_and_shift_change_next_to_nothing(hidden, moved, digits):
    X = digits[0].astype(np.float64)
    bits = small(hidden_layer_sizes=hidden).fit_transform(X)
    other = X * 2.0**9 if moved == "scaled" else X + 2.0**20
    changed = small(hidden_layer_sizes=hidden).fit_transform(other)
    np.testing.assert_array_equal(changed, bits)


def test_columns_that_are_constant_do_no_harm(digits):
    X, _ = digits
    wide = np.hstack([X, np.full((len(X), 3), 7.0)])
    logits = small(n_bits=100).fit(wide).decision_function(wide)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("hidden", [(), (6,)])
def test_sparse_rows_are_the_dense_ones(hidden, digits):
    X, _ = digits
    options = {"hidden_layer_sizes": hidden, "lr": 0.01}
    dense = small(**options).fit(X)
    from_sparse = small(**options).fit(sparse.csr_array(X))
    assert (from_sparse.transform(X) == dense.transform(X)).mean() > 0.97
    np.testing.assert_array_equal(
        dense.transform(sparse.csr_array(X)), dense.transform(X)
    )


# Streams


def test_a_stream_keeps_a_bank_of_the_past(digits):
    X, _ = digits
    encoder = small().partial_fit(X[:300])
    np.testing.assert_array_equal(encoder.bank_[0], X[:300])
    before = recall(encoder, X)
    for _ in range(10):
        encoder.partial_fit(X[300:])
    assert encoder.n_iter_ == 11
    assert recall(encoder, X) > before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skhash.neural.neighbor._encoder.BANK_ROWS", 50)
        encoder.partial_fit(X)
    assert len(encoder.bank_[0]) == 50
    encoder.fit(X)
    assert encoder.bank_ is None
    assert encoder.partial_fit(X).n_iter_ == 4


def test_the_bank_is_trained_on(digits):
    X, _ = digits
    encoder = small().partial_fit(X[:300])
    without = copy.deepcopy(encoder)
    without.bank_ = None
    with_bank = encoder.partial_fit(X[300:400]).decision_function(X)
    assert np.abs(
        with_bank - without.partial_fit(X[300:400]).decision_function(X)
    ).max()


def test_streams_of_other_kinds_and_with_labels(digits, tmp_path):
    X, y = digits
    encoder = small().partial_fit(X[:200], y[:200])
    encoder.partial_fit(sparse.csr_array(X[200:400]), y[200:400])
    encoder.partial_fit(X[400:], np.full(200, -1))
    assert encoder.bank_[0].shape == (600, 64) and len(encoder.bank_[1]) == 600
    snapshot = pickle.loads(pickle.dumps(encoder))
    with pytest.raises(ValueError, match="all calls of partial_fit or in none"):
        encoder.partial_fit(X)
    np.testing.assert_array_equal(
        encoder.decision_function(X), snapshot.decision_function(X)
    )
    encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert not hasattr(loaded, "bank_")
    assert loaded.partial_fit(X).n_iter_ == 4


def test_grid_search_over_its_parameters(digits):
    X, _ = digits
    search = GridSearchCV(
        make_pipeline(StandardScaler(), small(max_epochs=1)),
        {
            "neighborhash__n_bits": [8, 16],
            "neighborhash__temperature": [0.4, 0.8],
            "neighborhash__n_neighbors": [3, 10],
        },
        scoring=make_neighbor_recall_scorer(n_neighbors=5, n_retrieved=10),
        cv=2,
        error_score="raise",
    ).fit(X)
    assert search.best_params_["neighborhash__n_bits"] == 16


def test_function_wise_gradients_are_refused(digits):
    with pytest.raises(TypeError, match="NeighborHash"):
        small(gradient="arm").fit(digits[0])


def test_lengths_below_one_are_refused(digits):
    with pytest.raises(ValueError, match="length below 1"):
        small(nested=(0, 8)).fit(digits[0])
    with pytest.raises(ValueError, match=r"nested=\(8.5,\) must hold integers"):
        small(nested=(8.5,)).fit(digits[0])


@pytest.mark.parametrize("sizes", [(0,), (-1,), ("a",), (2.5,), ((3,),)])
def test_wrong_layer_sizes_are_named(sizes):
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        small(hidden_layer_sizes=sizes).fit(gaussian_rows())
