"""SupervisedHash with each loss: learned codes, and the loss as a parameter."""

import numpy as np
import pytest
import torch
from cases import each

from skhash import ITQHash, SupervisedHash
from skhash.datasets import load_digits_retrieval
from skhash.losses import LOSSES, SupervisedLoss
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


@each("loss", LOSSES)
def test_every_loss_learns(loss, digits):
    """Against codes without labels."""
    unsupervised = precision_of(ITQHash(16, random_state=0).fit(digits.train), digits)
    encoder = small(loss=loss).fit(digits.train, digits.train_labels)
    assert precision_of(encoder, digits) > unsupervised
    losses = [record["train_loss"] for record in encoder.history_]
    assert losses[-1] < losses[0]


@each("loss", LOSSES)
def test_every_loss_takes_several_labels(loss, digits):
    """Digits by three questions: is it even, is it below 5, has it a closed loop."""
    X, y = digits.train[:300], digits.train_labels[:300]
    labels = np.stack([y % 2 == 0, y < 5, np.isin(y, [0, 6, 8, 9])], axis=1).astype(int)
    assert not labels.any(axis=1).all()
    encoder = small(loss=loss, max_epochs=3).fit(X, labels)
    assert encoder.separability_ > 0


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
