"""DualHashEncoder: its parameters, its dual variable, its optimizers, its measures."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from cases import each
from sklearn.datasets import load_digits
from torch import nn

from skhash import DualHashEncoder, SupervisedHash
from skhash.losses import DualHashLoss, DualSolver
from skhash.training import Storm

X, Y = load_digits(return_X_y=True)
ROWS, LABELS = X[:300], Y[:300]


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
        encoder(**params).fit(ROWS, LABELS).decision_function(ROWS).tobytes()
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
        model.fit(ROWS, LABELS).decision_function(ROWS)
        for model in (own, other.set_params(loss=DualHashLoss(), batch_size=32))
    ]
    np.testing.assert_array_equal(*results)
    assert other.dual_active_fraction_ is None


# The dual variable


def test_an_inert_dual_is_warned_of():
    with pytest.warns(UserWarning, match=r"DualSolver\(\).*'prox'.*'dual_dc'"):
        fitted = encoder(DualSolver()).fit(ROWS, LABELS)
    assert fitted.dual_active_fraction_ == 0.0
    assert not fitted.net_.module_.objective.v.any()


@each("solver", ["dual_dc", DualSolver(u_step=1.5)])
def test_an_active_dual_is_measured(solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = encoder(solver).fit(ROWS, LABELS)
    assert 0 < fitted.dual_active_fraction_ < 1
    objective = fitted.net_.module_.objective
    assert 0 < objective.v.abs().max() <= 0.3 + 1e-6
    # Every row was updated once in each of the three epochs after the warm-up.
    assert objective.n_updates[0] == 3 * ROWS.shape[0] * 8


# Optimizers


def test_storm_without_memory_is_gradient_descent():
    """Dropout is replayed, and statistics, u and v are touched once a batch."""
    params = {"solver": "dual_dc", "dropout": 0.3, "lr": 0.1, "max_epochs": 3}
    storm, descent = (
        encoder(optimizer=optimizer, **params).fit(ROWS, LABELS)
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
    fitted = encoder(max_epochs=8).fit(ROWS, LABELS)
    outputs = np.tanh(fitted.decision_function(ROWS))
    error = np.mean((np.abs(outputs) - 1) ** 2)
    assert fitted.quantization_error_ == pytest.approx(error, rel=1e-5)
    bits = fitted.transform(ROWS)
    distances = (bits[:, None] != bits).sum(axis=2)
    same = LABELS[:, None] == LABELS
    intra = distances[same & ~np.eye(300, dtype=bool)].mean()
    assert fitted.intra_distance_ == pytest.approx(intra)
    assert fitted.inter_distance_ == pytest.approx(distances[~same].mean())
    assert fitted.separability_ == fitted.inter_distance_ - fitted.intra_distance_
