"""DualHashEncoder: its parameters, its dual variable, its optimizers, its measures."""

import warnings
from functools import cache, partial

import numpy as np
import pytest
import torch
from cases import each
from sklearn.datasets import load_digits
from torch import nn

from skhash import DualHashEncoder, ITQHash, SupervisedHash
from skhash.losses import DualHashLoss, ProxSolver
from skhash.losses._dual import SOLVERS
from skhash.metrics import mean_average_precision_score
from skhash.training import Storm

X, Y = load_digits(return_X_y=True)
ROWS, LABELS = X[:300], Y[:300]


def encoder(solver="prox", **params):
    """Return an encoder with its own parameters, and those of solver and loss."""
    solver = SOLVERS[solver]() if solver in SOLVERS else solver
    own = {name: params.pop(name) for name in solver.get_params() if name in params}
    defaults = {"warmup_epochs": 1, "penalty": 1.0, "w_weight": 0.3, "logit_scale": 2.5}
    of_loss = {
        name: params.pop(name) for name in DualHashLoss().get_params() if name in params
    }
    loss = DualHashLoss(solver.set_params(**own), **defaults | of_loss)
    defaults = {
        "n_bits": 8,
        "hidden_layer_sizes": (16,),
        "max_epochs": 4,
        "batch_size": 50,
        "random_state": 0,
    }
    return DualHashEncoder(loss=loss, **defaults | params)


def logits(X=ROWS, y=LABELS, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return encoder(**params).fit(X, y).decision_function(X)


@cache
def base_logits(solver):
    return logits(solver=solver)


def changes(solver="prox", **params):
    return bool((logits(solver=solver, **params) != base_logits(solver)).any())


# Effects of the parameters


@each(
    "params",
    [
        {"n_bits": 9},
        {"hidden_layer_sizes": (17,)},
        {"dropout": 0.2},
        {"balanced": False},
        {"penalty": 1.1},
        {"w_weight": 0.31},
        {"u_step": 0.9},
        {"warmup_epochs": 2},
        {"logit_scale": 1.0},
        {"pair_weights": None},
        {"optimizer": partial(torch.optim.SGD, momentum=0.9, nesterov=True)},
        {"optimizer": "storm"},
        {"normalize": True},
        {"lr": 2e-3},
        {"lr_schedule": "cosine"},
        {"weight_decay": 0.1},
        {"max_epochs": 5},
        {"batch_size": 60},
        {"validation_fraction": 0.2},
        {"random_state": 1},
    ],
)
def test_parameters_matter(params):
    result, base = logits(solver="prox", **params), base_logits("prox")
    assert result.shape != base.shape or (result != base).any()


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


def test_parameters_inside_the_loss_are_set_from_outside():
    model = encoder(ProxSolver(u_step=0.5)).set_params(
        loss__w_weight=0.1, loss__solver__u_step=0.7
    )
    assert model.loss.w_weight == 0.1 and model.loss.solver.u_step == 0.7
    found = model.fit(ROWS, LABELS).decision_function(ROWS)
    np.testing.assert_array_equal(found, logits(solver=ProxSolver(0.7), w_weight=0.1))


def test_weight_matters_where_the_penalty_is_applied():
    for solver in ("subgradient", "dual_dc", "prox", "wcr"):
        assert changes(solver, w_weight=0.1), solver
    # In the inert region of "dual", lambda and the step of v have no effect.
    assert not changes("dual", w_weight=7.0)
    assert not changes("dual", dual_step=9.0)
    assert not changes(None, w_weight=7.0)
    assert not changes(None, penalty=7.0)
    # The copy is the sign of the output from some weight on.
    for solver, least in (("prox", 1.0), ("wcr", 0.5)):
        below, at, beyond = (
            logits(solver=solver, penalty=0.2, w_weight=0.2 * least * share)
            for share in (0.9, 1.01, 30.0)
        )
        np.testing.assert_array_equal(at, beyond)
        assert (below != at).any(), solver
    # Beyond its inert region "dual" has an effect.
    active = {"solver": "dual", "u_step": 1.5, "max_epochs": 8}
    assert (logits(**active) != logits(**active, w_weight=1e-3)).any()
    assert (logits(**active) != logits(**active, dual_step=0.1)).any()
    assert (logits(**active) != logits(**active, extrapolation=0.5)).any()


def test_no_penalty_within_the_warm_up():
    for solver in SOLVERS:
        alone = logits(solver=solver, warmup_epochs=4)
        np.testing.assert_array_equal(alone, base_logits(None))


# The dual variable


def test_an_inert_dual_is_warned_of():
    with pytest.warns(UserWarning, match=r"DualSolver\(\).*'prox'.*'dual_dc'"):
        fitted = encoder(solver="dual").fit(ROWS, LABELS)
    assert fitted.dual_active_fraction_ == 0.0
    assert not fitted.net_.module_.objective.v.any()


@each("params", [{"solver": "dual_dc"}, {"solver": "dual", "u_step": 1.5}])
def test_an_active_dual_is_measured(params):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = encoder(**params).fit(ROWS, LABELS)
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


def test_codes_find_rows_of_the_class():
    train, query = slice(0, 900), slice(900, 1797)
    fitted = DualHashEncoder(n_bits=16, max_epochs=15, random_state=0)
    fitted.fit(X[train], Y[train])
    itq = ITQHash(n_bits=16, random_state=0).fit(X[train])
    precision, of_itq = (
        mean_average_precision_score(
            e.transform(X[query]), e.transform(X[train]), Y[query], Y[train]
        )
        for e in (fitted, itq)
    )
    assert precision > of_itq + 0.15


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


@pytest.mark.parametrize(
    ("solver", "weight", "epochs"),  # a dual variable starts at 0 and takes its time
    [
        ("prox", 0.3, 20),
        ("subgradient", 0.3, 20),
        ("wcr", 0.1, 20),
        pytest.param("dual_dc", 0.1, 160, marks=pytest.mark.long),
    ],
)
def test_the_penalty_lowers_the_quantization_error(solver, weight, epochs):
    params = {"max_epochs": epochs, "lr": 0.01, "w_weight": weight, "penalty": 0.25}
    errors = [
        encoder(solver=name, **params).fit(ROWS, LABELS).quantization_error_
        for name in (None, solver)
    ]
    assert errors[1] < errors[0]


def test_validation_measures_the_likelihood_alone():
    """A weight that dwarfs it is seen in the training loss only."""
    fitted = encoder(solver="subgradient", w_weight=1e3, validation_fraction=0.3)
    last = fitted.fit(ROWS, LABELS).history_[-1]
    assert last["train_loss"] > 20 > last["valid_loss"] > 0
