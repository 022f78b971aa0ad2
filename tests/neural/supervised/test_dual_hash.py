"""DualHashEncoder: parameters, dual variable, optimizers, labels, networks, files."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from cases import each
from sklearn.datasets import load_digits
from torch import nn

import skhash
from skhash import DualHashEncoder, SupervisedHash
from skhash.losses import DualHashLoss, DualSolver
from skhash.metrics import class_distances
from skhash.training import Storm

X, Y = (part[:300] for part in load_digits(return_X_y=True))


def encoder(solver="prox", **params):
    """Return an encoder that is fitted in a moment, with a strong penalty."""
    defaults = {
        "n_bits": 8,
        "loss": DualHashLoss(
            solver, warmup_epochs=1, penalty=1.0, w_weight=0.3, logit_scale=2.5
        ),
        "hidden_layer_sizes": (16,),
        "max_epochs": 4,
        "batch_size": 50,
        "random_state": 0,
    }
    return DualHashEncoder(**defaults | params)


# Those of the loss are in the contract of losses.
OPTIONS = [
    *({"n_bits": 9}, {"hidden_layer_sizes": (17,)}, {"dropout": 0.2}),
    *({"balanced": False}, {"normalize": True}, {"loss": "dhn"}),
    *({"optimizer": partial(torch.optim.SGD, momentum=0.9)}, {"optimizer": "storm"}),
    *({"lr": 2e-3}, {"lr_schedule": "cosine"}, {"weight_decay": 0.1}),
    *({"max_epochs": 5}, {"batch_size": 60}),
    *({"validation_fraction": 0.2}, {"random_state": 1}),
]


def test_parameters_matter():
    results = [
        encoder(**params).fit(X, Y).decision_function(X).tobytes()
        for params in [{}, *OPTIONS]
    ]
    assert len(set(results)) == len(results)


def test_it_is_the_supervised_encoder_with_this_loss():
    """By default, where 300 rows have batches of 32 rows."""
    own = DualHashEncoder(8, max_epochs=7, random_state=0)
    other = SupervisedHash(8, max_epochs=7, random_state=0)
    params = own.get_params(), other.get_params()
    changed = {name for name in params[0] if params[0][name] != params[1][name]}
    assert changed == {"loss", "batch_size"}
    results = [
        model.fit(X, Y).decision_function(X)
        for model in (own, other.set_params(loss=DualHashLoss(), batch_size=32))
    ]
    np.testing.assert_array_equal(*results)
    assert other.dual_active_fraction_ is None


# The dual variable


def test_an_inert_dual_is_warned_of():
    with pytest.warns(UserWarning, match=r"DualSolver\(\).*'prox'.*'dual_dc'"):
        fitted = encoder(DualSolver()).fit(X, Y)
    assert fitted.dual_active_fraction_ == 0.0
    assert not fitted.net_.module_.objective.v.any()
    assert fitted.set_params(loss="csq").fit(X, Y).dual_active_fraction_ is None


@pytest.mark.filterwarnings("error")
def test_an_inert_dual_beside_the_whole_penalty_is_not():
    fitted = encoder(DualSolver(u_step=1e-3, whole=True)).fit(X, Y)
    assert fitted.dual_active_fraction_ == 0.0


@each("solver", ["dual_dc", DualSolver(u_step=1.5)])
def test_an_active_dual_is_measured(solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = encoder(solver).fit(X, Y)
    assert 0 < fitted.dual_active_fraction_ < 1
    objective = fitted.net_.module_.objective
    assert 0 < objective.v.abs().max() <= 0.3 + 1e-6
    # Every row was updated once in each of the three epochs after the warm-up.
    assert objective.n_updates[0] == 3 * X.shape[0] * 8


# Optimizers


def test_storm_without_memory_is_gradient_descent():
    """Dropout is replayed, and statistics, u and v are touched once a batch."""
    params = {"solver": "dual_dc", "dropout": 0.3, "lr": 0.1, "max_epochs": 3}
    storm, descent = (
        encoder(optimizer=optimizer, **params).fit(X, Y)
        for optimizer in (partial(Storm, forgetting=1.0), "sgd")
    )
    state, expected = (e.net_.module_ for e in (storm, descent))
    torch.testing.assert_close(state.state_dict(), expected.state_dict())
    torch.testing.assert_close(state.objective.u, expected.objective.u)
    torch.testing.assert_close(state.objective.v, expected.objective.v)
    steps = [
        m.num_batches_tracked for m in state.modules() if isinstance(m, nn.BatchNorm1d)
    ]
    assert steps == [3 * 6] * len(steps)
    losses = [[e["train_loss"] for e in m.history_] for m in (storm, descent)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


# Learned codes and measures


def test_measures_are_those_of_the_codes():
    fitted = encoder(max_epochs=8).fit(X, Y)
    outputs = np.tanh(fitted.decision_function(X))
    error = np.mean((np.abs(outputs) - 1) ** 2)
    assert fitted.quantization_error_ == pytest.approx(error, rel=1e-5)
    bits = fitted.transform(X)
    distances = (bits[:, None] != bits).sum(axis=2)
    same = Y[:, None] == Y
    intra = distances[same & ~np.eye(300, dtype=bool)].mean()
    assert fitted.intra_distance_ == pytest.approx(intra)
    assert fitted.inter_distance_ == pytest.approx(distances[~same].mean())
    assert fitted.separability_ == fitted.inter_distance_ - fitted.intra_distance_


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
        (np.arange(300), "no two"),
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
