"""Labels, custom networks and files of supervised encoders."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse
from sklearn.datasets import load_digits
from torch import nn

import skhash
from skhash import DualHashEncoder
from skhash.losses import DualHashLoss
from skhash.metrics import class_distances

X, Y = (part[:300] for part in load_digits(return_X_y=True))


def encoder(**params):
    defaults = {
        "n_bits": 8,
        "hidden_layer_sizes": (16,),
        "loss": DualHashLoss(warmup_epochs=1),
        "max_epochs": 3,
        "batch_size": 50,
        "random_state": 0,
    }
    return DualHashEncoder(**defaults | params)


def small_cnn(n_features, n_bits):
    side = int(n_features**0.5)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(3 * side * side, n_bits),
    )


class TwoLayers(nn.Module):
    def __init__(self, n_features, n_bits):
        super().__init__()
        self.first, self.second = nn.Linear(n_features, 9), nn.Linear(9, n_bits)

    def forward(self, X):
        return self.second(self.first(X).tanh())


# Labels


def test_codes_do_not_depend_on_the_names_of_classes(tmp_path):
    """Which are kept, and saved."""
    bits = encoder().fit(X, Y).transform(X)
    names = np.array([f"class {label}" for label in Y])
    for labels in (names, names.astype(object), Y.astype(float) * 10 - 3, Y.tolist()):
        fitted = encoder().fit(X, labels)
        np.testing.assert_array_equal(fitted.transform(X), bits)
        assert fitted.classes_.tolist() == np.unique(labels).tolist()
        fitted.save(tmp_path / "encoder")
        classes = skhash.load(tmp_path / "encoder").classes_
        np.testing.assert_array_equal(classes, fitted.classes_)
        assert classes.dtype == fitted.classes_.dtype


def test_an_indicator_of_one_label_a_row_is_the_classes():
    indicator = np.eye(10, dtype=int)[Y]
    expected = encoder().fit(X, Y)
    for labels in (indicator, indicator.astype(bool), sparse.csr_array(indicator)):
        fitted = encoder().fit(X, labels)
        np.testing.assert_array_equal(fitted.transform(X), expected.transform(X))
    assert fitted.separability_ == pytest.approx(expected.separability_)


def test_several_labels_a_row():
    """Rows that share one of two labels come nearer than others."""
    indicator = np.stack([Y % 2, Y < 4], axis=1)
    fitted = encoder(max_epochs=10).fit(X, indicator)
    intra, inter = class_distances(fitted.transform(X), indicator)
    assert (fitted.intra_distance_, fitted.inter_distance_) == (intra, inter)
    assert intra < inter - 1


def test_wrong_labels_are_named():
    for labels, message in [
        (None, "y is None"),
        (np.zeros(300), "0.0"),
        (Y[:-1], "299"),
        (Y + 0.5 * X[:, 20], "continuous"),
        (np.zeros((300, 3), dtype=int), "no label"),
        (np.arange(300), "no two"),
        (2 * np.eye(10, dtype=int)[Y] - 1, "-1"),
    ]:
        with pytest.raises(ValueError, match=message):
            encoder().fit(X, labels)


def test_there_is_no_stream():
    assert not hasattr(encoder(), "partial_fit")
    assert not hasattr(encoder().fit(X, Y), "partial_fit")


# Networks


@each(
    "params", [{"module": small_cnn, "input_shape": (1, 8, 8)}, {"module": TwoLayers}]
)
def test_a_network_of_ones_own(params):
    before = torch.get_rng_state()
    fitted = encoder(max_epochs=10, lr=0.01, **params).fit(X, Y)
    again = encoder(max_epochs=10, lr=0.01, **params)
    np.testing.assert_array_equal(again.fit(X, Y).transform(X), fitted.transform(X))
    assert torch.equal(torch.get_rng_state(), before)
    assert fitted.separability_ > 1
    # Encoding is the network in use, on standardized rows, one by one or together.
    network = fitted.net_.module_.encoder.eval()
    rows = torch.from_numpy((X - fitted.mean_) / fitted.scale_).float()
    expected = network(rows).detach().numpy()
    np.testing.assert_allclose(fitted.decision_function(X), expected, atol=1e-5)
    one = fitted.decision_function(X[:1])
    np.testing.assert_allclose(one, expected[:1], atol=1e-5)


def test_wrong_networks_are_named():
    with pytest.raises(TypeError, match=r"module=Linear"):
        encoder(module=nn.Linear(64, 8)).fit(X, Y)
    with pytest.raises(ValueError, match=r"\(2, 9\).*n_bits=8"):
        encoder(module=lambda d, b: nn.Linear(d, b + 1)).fit(X, Y)
    with pytest.raises(ValueError, match=r"input_shape=\(1, 9, 9\).* 81 .* 64 "):
        encoder(module=small_cnn, input_shape=(1, 9, 9)).fit(X, Y)


class OtherOutputs(nn.Linear):
    """A layer whose outputs are made into something else."""

    def __init__(self, n_features, n_bits, change):
        super().__init__(n_features, n_bits)
        self.change = change

    def forward(self, X):
        return self.change(super().forward(X))


@each(
    "change, error, message",
    [
        (lambda h: (h, h), TypeError, "tuple"),
        (lambda h: h.double(), ValueError, "float64.*float32"),
    ],
)
def test_outputs_that_are_no_logits_are_named(change, error, message):
    with pytest.raises(error, match=message):
        encoder(module=partial(OtherOutputs, change=change)).fit(X, Y)


def test_saved_networks_want_their_factory(tmp_path):
    params = {"module": small_cnn, "input_shape": (1, 8, 8)}
    fitted = encoder(**params).fit(X, Y)
    bits = fitted.transform(X)
    with pytest.warns(UserWarning, match="module is not saved, because a function"):
        fitted.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    with pytest.raises(ValueError, match="parameter module"):
        loaded.transform(X)
    with pytest.raises(ValueError, match="DualHashEncoder"):
        loaded.set_params(module=TwoLayers).transform(X)
    loaded.set_params(module=small_cnn, n_bits=3, input_shape=None)
    before = torch.get_rng_state()
    np.testing.assert_array_equal(loaded.transform(X), bits)
    assert torch.equal(torch.get_rng_state(), before)
    for copied in (loaded, fitted):
        unpickled = pickle.loads(pickle.dumps(copied))
        np.testing.assert_array_equal(unpickled.transform(X), bits)
