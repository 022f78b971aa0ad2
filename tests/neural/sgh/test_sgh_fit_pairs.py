"""SGHEncoder told which rows are similar: pairs, labels, near neighbours."""

import itertools

import numpy as np
import pytest
import sklearn
import torch
from cases import each
from pretend import assert_as_on_cpu
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from skhash import HashedNeighbors, SGHEncoder
from skhash.datasets import load_digits_retrieval
from skhash.metrics import (
    make_retrieval_scorer,
    mean_average_precision_score,
    true_neighbors,
)
from skhash.neural import GivenPairs, LabelPairs, NeighborPairs
from skhash.neural.sgh._module import SGHModule

SMALL = {"n_bits": 6, "max_epochs": 2, "init": "pca", "random_state": 0}
LABELS = SMALL | {"pairs": "labels"}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


@pytest.fixture(scope="module")
def retrieval():
    return load_digits_retrieval()


def some_pairs(y, n_pairs=200, seed=0):
    pairs = np.random.RandomState(seed).randint(len(y), size=(n_pairs, 2))
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def given_pairs(y, **options):
    """Arguments of `fit` for some pairs, which are positions."""
    pairs, similar = some_pairs(y, **options)
    return {"pairs": pairs, "pair_labels": similar, "ids": np.arange(len(y))}


def partly(y, share, seed=0):
    """Labels of some rows, -1 for the others."""
    known = np.random.RandomState(seed).rand(len(y)) < share
    return np.where(known, y, -1)


def precision(encoder, data):
    return mean_average_precision_score(
        encoder.transform(data.query),
        encoder.transform(data.database),
        data.query_labels,
        data.database_labels,
    )


def test_labels_and_pairs_raise_the_precision_of_retrieval(retrieval):
    data = retrieval
    plain, labeled, listed = (
        precision(
            SGHEncoder(16, pairs=source, max_epochs=3, init="pca", random_state=0).fit(
                data.train, **given
            ),
            data,
        )
        for source, given in [
            ("given", {}),
            ("labels", {"y": data.train_labels}),
            ("given", given_pairs(data.train_labels, n_pairs=5000)),
        ]
    )
    assert plain < min(labeled, listed)


@each("kind", ["labels", "given", "neighbors"])
def test_pairs_without_weight_change_nothing(kind, digits):
    X, y = digits
    given = {"labels": {"y": y}, "given": given_pairs(y), "neighbors": {}}[kind]
    options = SMALL | {"max_epochs": 1, "pairs": kind}
    plain = SGHEncoder(**SMALL | {"max_epochs": 1}).fit(X)
    source = {"labels": LabelPairs, "given": GivenPairs, "neighbors": NeighborPairs}
    without = SGHEncoder(**options | {"pairs": source[kind](weight=0.0)})
    without.fit(X, **given)
    np.testing.assert_array_equal(without.components_, plain.components_)
    assert without.history_[0]["train_loss"] == plain.history_[0]["train_loss"]
    weighted = SGHEncoder(**options).fit(X, **given)
    assert not np.array_equal(weighted.components_, plain.components_)
    assert weighted.history_[0]["train_loss"] > plain.history_[0]["train_loss"]
    assert plain.pair_scale_ is None
    assert weighted.pair_scale_ > 0 > weighted.pair_offset_


@each("source", ["given", "neighbors"])
def test_labels_are_not_used_unless_asked_for(source, digits):
    """So that a pipeline with a classifier at its end has the same codes."""
    X, y = digits
    encoder = SGHEncoder(pairs=source, **SMALL)
    alone = encoder.fit(X).components_
    np.testing.assert_array_equal(encoder.fit(X, y + 0.5).components_, alone)


def test_neighbors_are_those_of_the_data(digits, monkeypatch):
    """Rows beyond the limit bring no neighbours, and the others their own."""
    X, _ = digits
    monkeypatch.setattr("skhash.neural.sgh._parts.NEIGHBOR_ROWS", 100)
    random_state, device = np.random.RandomState(0), torch.device("cpu")
    trains = np.ones(len(X), dtype=bool)
    source = NeighborPairs(n_neighbors=3)
    known = source.rows(X, True, trains, random_state, device)
    table = known["partners"][:, :, 0]
    own = np.arange(len(X))
    searched = (table != own[:, None]).any(axis=1)
    assert searched.sum() == 100
    assert (table[~searched] == own[~searched, None]).all()
    truth = true_neighbors(X, None, 3)
    agree = (np.sort(table) == np.sort(truth)).all(axis=1)
    assert agree[searched].mean() > 0.95  # the rest are ties of rounding
    SGHEncoder(pairs=NeighborPairs(n_neighbors=3), **SMALL).fit(X)


@each("n_pairs", [3, 40, 4000])
def test_listed_pairs_are_drawn_in_turn(n_pairs, digits):
    X, _ = digits
    rng = np.random.RandomState(0)
    pairs = np.c_[rng.randint(100, size=n_pairs), 100 + rng.permutation(n_pairs) % 100]
    pairs = np.unique(pairs, axis=0)
    similar = rng.randint(2, size=len(pairs))
    placed = pairs, similar, np.arange(200)
    trains = np.ones(200, dtype=bool)
    drawn = GivenPairs().rows(X[:200], placed, trains, rng, torch.device("cpu"))
    places = np.ravel_multi_index(
        tuple(np.moveaxis(drawn["partners"], 2, 0)), (200, 200)
    )
    known = np.ravel_multi_index(tuple(pairs.T), (200, 200))
    expected = similar[np.searchsorted(known, places)]
    np.testing.assert_array_equal(drawn["labels"], expected)
    counts = np.bincount(np.searchsorted(known, places).ravel(), minlength=len(pairs))
    assert counts.max() - counts.min() <= 1


@each("source", ["labels", "given"])
def test_rows_that_validate_bring_pairs_of_their_own(source, digits):
    """Pairs that are trained on have none of them; theirs have at least one."""
    X, y = digits
    given = given_pairs(y, n_pairs=2000)
    sources = {
        "labels": (LabelPairs(), partly(y, 0.5)),
        "given": (GivenPairs(), tuple(given.values())),
    }
    source, known = sources[source]
    trains = np.random.RandomState(1).rand(len(X)) < 0.7
    rng, device = np.random.RandomState(0), torch.device("cpu")
    partners = source.rows(X, known, trains, rng, device)["partners"]
    assert trains[partners[trains]].all()
    assert (~trains[partners[~trains]]).any(axis=2).all()


def test_pairs_of_rows_that_validate_alone_are_refused(digits):
    X, y = digits
    pairs = {"pairs": [[0, 1]], "pair_labels": [1], "ids": np.arange(len(X))}

    def first_two(dataset, y=None):
        rest = torch.utils.data.Subset(dataset, range(2, len(dataset)))
        return rest, torch.utils.data.Subset(dataset, range(2))

    with pytest.raises(ValueError, match="held out for validation"):
        SGHEncoder(validation_fraction=first_two, **SMALL).fit(X, **pairs)


def test_a_split_is_validated_with_its_pairs(digits):
    X, y = digits
    plain, labeled = (
        SGHEncoder(validation_fraction=0.2, **options).fit(X, y)
        for options in (SMALL, LABELS)
    )
    assert labeled.history_[0]["valid_loss"] > plain.history_[0]["valid_loss"]


@pytest.fixture
def fed(monkeypatch):
    """Notes what each call reads, and the rows that its module is fed."""
    calls, rows = [], SGHModule.rows

    def noted(self, X, targets, run):
        calls.append((X, targets, rows(self, X, targets, run)))
        return calls[-1][-1]

    monkeypatch.setattr(SGHModule, "rows", noted)
    return calls


def test_pairs_are_those_of_the_rows_in_each_fold(digits, fed):
    """A row keeps its pairs, wherever a fold has put it."""
    X, y = digits
    given = given_pairs(y, n_pairs=2000)
    names = np.array([f"row {i}" for i in range(len(X))])
    named = given | {"pairs": names[given["pairs"]], "ids": names}
    search = {"n_bits": [4]}, {"cv": 2, "scoring": make_retrieval_scorer()}
    options = SMALL | {"max_epochs": 1}
    for told in (given, named):
        fed.clear()
        GridSearchCV(SGHEncoder(**options), search[0], refit=False, **search[1]).fit(
            X, y, **told
        )
        kept = 0
        for rows, (_, (pairs, similar, _)), _ in fed:
            place = {row.tobytes(): i for i, row in enumerate(X)}
            own = np.array([place[row.tobytes()] for row in rows])
            a, b = own[pairs].T
            np.testing.assert_array_equal(similar, y[a] == y[b])
            kept += len(pairs)
        # About a quarter of the pairs have both rows in a fold.
        assert len(fed) == 2 and 700 < kept < 1300


def test_a_search_of_vectors_passes_pairs_on(digits):
    X, y = digits
    given = given_pairs(y)
    alone = SGHEncoder(**SMALL).fit(X, **given)
    search = HashedNeighbors(SGHEncoder(**SMALL)).fit(X, **given)
    np.testing.assert_array_equal(search.encoder_.components_, alone.components_)
    np.testing.assert_array_equal(search.index_.ids_, given["ids"])
    with sklearn.config_context(enable_metadata_routing=True):
        encoder = SGHEncoder(**SMALL)
        encoder.set_fit_request(pairs=True, pair_labels=True, ids=True)
        search = HashedNeighbors(encoder).fit(X, **given)
    np.testing.assert_array_equal(search.encoder_.components_, alone.components_)


@each("source", ["labels", "given"])
def test_each_call_of_a_stream_draws_other_pairs(source, digits, fed):
    X, y = digits
    given = given_pairs(y, n_pairs=9000) if source == "given" else {"y": y}
    streams = [SGHEncoder(**SMALL | {"pairs": source}) for _ in range(2)]
    fed.clear()
    for _ in range(3):
        for encoder in streams:
            encoder.partial_fit(X, **given)
    tables = [rows.partners for _, _, rows in fed]
    np.testing.assert_array_equal(tables[::2], tables[1::2])
    for first, second in itertools.combinations(tables[::2], 2):
        assert (first == second).mean() < 0.1


def test_a_stream_may_be_without_pairs_for_a_while_but_not_at_first(digits):
    X, y = digits
    given = given_pairs(y)
    encoder = SGHEncoder(**SMALL).partial_fit(X, **given)
    scale, components = encoder.pair_scale_, encoder.components_
    encoder.partial_fit(X[:200])
    assert encoder.pair_scale_ == scale
    assert not np.array_equal(encoder.components_, components)
    assert encoder.partial_fit(X, **given).pair_scale_ != scale

    encoder = SGHEncoder(**SMALL).partial_fit(X)
    components = encoder.components_
    with pytest.raises(ValueError, match="pairs"):
        encoder.partial_fit(X, **given)
    np.testing.assert_array_equal(encoder.components_, components)
    assert encoder.fit(X, **given).pair_scale_ > 0
    assert encoder.fit(X).pair_scale_ is None


def test_a_stream_may_start_with_rows_of_unknown_class_which_say_nothing(digits):
    X, y = digits
    encoder = SGHEncoder(**LABELS).partial_fit(X, np.full(len(X), -1))
    alone = SGHEncoder(**SMALL).partial_fit(X)
    np.testing.assert_array_equal(encoder.components_, alone.components_)
    scale = encoder.pair_scale_
    assert scale > 0
    assert encoder.partial_fit(X, y).pair_scale_ != scale


def test_pairs_without_a_row_are_left_out(digits):
    X, y = digits
    pairs, similar = some_pairs(y)
    known = (pairs < 200).all(axis=1)
    assert 0 < known.sum() < 200
    ids = np.arange(200)
    told = SGHEncoder(**SMALL).fit(X[:200], pairs=pairs, pair_labels=similar, ids=ids)
    less = SGHEncoder(**SMALL).fit(
        X[:200], pairs=pairs[known], pair_labels=similar[known], ids=ids
    )
    np.testing.assert_array_equal(told.components_, less.components_)


ONE = {"pairs": [[0, 1]], "pair_labels": [1], "ids": np.arange(300)}


@each(
    "given, message",
    [
        ({"pair_labels": None}, "pair_labels"),
        ({"pairs": None}, "pair_labels"),
        ({"ids": None}, "ids=np.arange"),
        ({"pairs": [[0, 300]]}, r"\[0, 300\]"),
        ({"pairs": [[0, 1, 2]]}, "1, 3"),
        ({"pairs": np.zeros((0, 2)), "pair_labels": []}, "of the 0 pairs"),
        ({"ids": np.arange(299)}, "inconsistent"),
        ({"ids": np.arange(300) // 2}, "have 150 values"),
        ({"pair_labels": [2]}, "pair_labels.* 2"),
        ({"pair_labels": [1, 0]}, "inconsistent"),
    ],
)
def test_what_is_no_pair_is_refused(given, message, digits):
    with pytest.raises(ValueError, match=message):
        SGHEncoder(**SMALL).fit(digits[0], **ONE | given)


@each(
    "given, message",
    [
        ({}, "y is None"),
        ({"y": np.arange(4) % 2}, "inconsistent"),
        ({"y": np.eye(3, dtype=int)[np.arange(300) % 3]}, "pair_labels"),
        ({"y": np.full(300, -1)}, "no label"),
        (ONE, "LabelPairs"),
    ],
)
def test_what_are_no_labels_is_refused(given, message, digits):
    with pytest.raises(ValueError, match=message):
        SGHEncoder(**LABELS).fit(digits[0], **given)


def test_pairs_weigh_as_much_as_columns():
    """Columns given twice leave the logits as they are, and double the weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * np.linspace(2, 1, 6)
    known = {"pairs": rng.permutation(40).reshape(-1, 2), "ids": np.arange(40)}
    known["pair_labels"] = np.arange(20) % 2
    options = SMALL | {"max_epochs": 1, "lr": 1e-9, "batch_size": 40}

    def of_pairs(X):
        """Return what a weight of 1 adds to the loss before the first step."""
        losses = []
        for weight in (1.0, 2.0):
            encoder = SGHEncoder(**options | {"pairs": GivenPairs(weight=weight)})
            record = encoder.fit(X, **known).history_[0]
            losses.append(record["train_loss"])
        return losses[1] - losses[0]

    assert of_pairs(np.hstack([X, X])) == pytest.approx(2 * of_pairs(X), rel=1e-4)


@pytest.mark.long
@each("kind", ["labels", "given", "neighbors"])
def test_devices(digits, kind, device):
    X, y = digits
    known = {"labels": {"y": y}, "given": given_pairs(y), "neighbors": {}}[kind]
    # No two distances are alike: near neighbours that tie come in no order.
    X = X + 0.1 * np.random.default_rng(0).random(X.shape)

    def learned(device):
        pairs = GivenPairs() if kind == "given" else kind
        encoder = SGHEncoder(**SMALL | {"pairs": pairs, "device": device})
        encoder.fit(X, **known).partial_fit(X, **known).set_params(device="cpu")
        return encoder.decision_function(X), [encoder.history_[-1]["train_loss"]]

    assert_as_on_cpu(learned, device)
