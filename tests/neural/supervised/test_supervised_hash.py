"""SupervisedHash with each loss: what it learns, and the loss as a parameter."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import LabelBinarizer

import skhash
from skhash import ITQHash, SupervisedHash
from skhash.datasets import load_digits_retrieval
from skhash.losses import (
    LOSSES,
    CSQLoss,
    DHNLoss,
    MDSHCLoss,
    OrthoHashLoss,
    SupervisedLoss,
)
from skhash.losses._objective import Objective
from skhash.metrics import mean_average_precision_score


@pytest.fixture(scope="module")
def digits():
    return load_digits_retrieval()


def small(**params):
    defaults = {
        "n_bits": 16,
        "hidden_layer_sizes": (64,),
        "max_epochs": 6,
        "random_state": 0,
    }
    return SupervisedHash(**defaults | params)


def precision_of(encoder, data):
    return mean_average_precision_score(
        encoder.transform_packed(data.query),
        encoder.transform_packed(data.database),
        data.query_labels,
        data.database_labels,
        packed=True,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss, digits):
    """Against codes without labels, and those of a network that was hardly trained."""
    unsupervised = precision_of(ITQHash(16, random_state=0).fit(digits.train), digits)
    start = small(loss=loss, lr=1e-9, max_epochs=1)
    encoder = small(loss=loss)
    for fitted in (start, encoder):
        fitted.fit(digits.train, digits.train_labels)
    learned = precision_of(encoder, digits)
    assert learned > unsupervised
    assert learned > precision_of(start, digits)
    losses = [record["train_loss"] for record in encoder.history_]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_takes_several_labels(loss, digits):
    """Digits by three questions: is it even, is it below 5, has it a closed loop."""
    y = digits.train_labels
    labels = np.stack([y % 2 == 0, y < 5, np.isin(y, [0, 6, 8, 9])], axis=1).astype(int)
    assert not labels.any(axis=1).all()
    encoder = small(loss=loss, max_epochs=3).fit(digits.train, labels)
    assert encoder.separability_ > 0


def test_labels_of_any_type_and_one_column_a_class_are_the_same(digits):
    names = np.array([f"digit {label}" for label in digits.train_labels])
    columns = LabelBinarizer().fit_transform(digits.train_labels)
    bits = [
        small(loss="csq", max_epochs=1).fit(digits.train, y).transform(digits.query)
        for y in (digits.train_labels, names, columns)
    ]
    np.testing.assert_array_equal(bits[1], bits[0])
    np.testing.assert_array_equal(bits[2], bits[0])


def test_the_loss_is_told_of_epochs_rows_and_data(digits):
    X, y = digits.train[:50], digits.train_labels[:50]

    class Watched(Objective):
        def __init__(self, training):
            super().__init__()
            self.training_labels, self.encoder = training.labels, (training.encoder,)
            self.epochs, self.rows = [], []

        def start_epoch(self, epoch):
            self.epochs.append(epoch)

        def forward(self, logits, labels, rows, X):
            assert torch.equal(labels, self.training_labels[rows])
            self.rows.append(rows)
            if not self.training:
                torch.testing.assert_close(self.encoder[0](X), logits)
            return logits.square().mean()

    class WatchedLoss(SupervisedLoss):
        def objective(self, training):
            assert training.n_bits == 16 and training.n_classes == len(set(y))
            return Watched(training)

    encoder = small(
        loss=WatchedLoss(), max_epochs=2, batch_size=20, validation_fraction=0.2
    )
    objective = encoder.fit(X, y).net_.module_.objective
    assert objective.epochs == [0, 1]
    for epoch in range(2):
        # Two batches to train on, then one or more to validate on.
        seen = torch.cat(objective.rows[epoch * 3 : epoch * 3 + 3])
        assert seen.sort().values.tolist() == list(range(50))


def test_the_seed_draws_what_the_loss_draws(digits):
    def centers(seed):
        encoder = small(loss="csq", max_epochs=1, random_state=seed)
        encoder.fit(digits.train[:100], digits.train_labels[:100])
        return encoder.net_.module_.objective.centers

    assert torch.equal(centers(0), centers(0))
    assert not torch.equal(centers(0), centers(1))


def test_parameters_of_the_loss_change_the_codes(digits):
    X, y = digits.train[:300], digits.train_labels[:300]
    encoder = small(loss=OrthoHashLoss(), max_epochs=2)
    logits = encoder.fit(X, y).decision_function(X)
    other = clone(encoder).set_params(loss__margin_type="arc", loss__margin=0.5)
    assert encoder.loss.margin_type == "cos"
    assert np.abs(other.fit(X, y).decision_function(X) - logits).max() > 1e-3


def test_a_name_is_the_loss_with_its_defaults(digits):
    X, y = digits.train[:300], digits.train_labels[:300]
    for name, loss in (("dhn", DHNLoss()), ("mdshc", MDSHCLoss())):
        logits = [
            small(loss=given, max_epochs=2).fit(X, y).decision_function(X)
            for given in (name, loss)
        ]
        np.testing.assert_array_equal(*logits)


def test_grid_search_over_the_loss(digits):
    def score(encoder, X, y):
        packed = encoder.transform_packed(X)
        return mean_average_precision_score(
            packed, packed, y, y, packed=True, exclude_self=True
        )

    search = GridSearchCV(
        small(loss=DHNLoss(), max_epochs=3),
        # With a weight so large, all that counts is that outputs are signs.
        {"loss__quantization_weight": [0.1, 1e4]},
        scoring=score,
        cv=2,
    ).fit(digits.train[:400], digits.train_labels[:400])
    assert search.best_params_ == {"loss__quantization_weight": 0.1}
    assert search.best_estimator_.loss.quantization_weight == 0.1


def test_saved_with_its_loss(digits, tmp_path):
    loss = CSQLoss("distance", quantization_weight=0.25)
    encoder = small(loss=loss, max_epochs=1).fit(digits.train, digits.train_labels)
    encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert isinstance(loaded.loss, CSQLoss)
    assert loaded.loss.get_params() == loss.get_params()
    bits = encoder.transform(digits.query)
    np.testing.assert_array_equal(loaded.transform(digits.query), bits)
    refitted = clone(loaded).fit(digits.train, digits.train_labels)
    np.testing.assert_array_equal(refitted.transform(digits.query), bits)


@pytest.mark.parametrize("loss", ["mdshc", "dsdh"])
def test_losses_that_remember_rows_are_copied_whole(loss, digits):
    X, y = digits.train[:200], digits.train_labels[:200]
    encoder = small(loss=loss, max_epochs=2).fit(X, y)
    bits = encoder.transform(X)
    for copied in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(copied.transform(X), bits)
        np.testing.assert_array_equal(copied.fit(X, y).transform(X), bits)


def test_the_network_is_all_that_is_kept(digits):
    """Classifiers, banks and second encoders stay out of the fitted attributes."""
    X, y = digits.train[:200], digits.train_labels[:200]

    def factory(n_features, n_bits):
        return torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.Tanh(), torch.nn.Linear(8, n_bits)
        )

    for loss in ("mdshc", "cross_entropy"):
        encoder = small(loss=loss, module=factory, max_epochs=1).fit(X, y)
        names = [f"encoder.{i}.{name}" for i in (0, 2) for name in ("weight", "bias")]
        assert encoder.weight_names_ == names


@pytest.mark.parametrize("loss", ["softmax", "DHN"])
def test_unknown_losses_are_refused(loss, digits):
    with pytest.raises(ValueError, match=f"loss='{loss}' is not one of 'contrastive'"):
        small(loss=loss).fit(digits.train, digits.train_labels)
