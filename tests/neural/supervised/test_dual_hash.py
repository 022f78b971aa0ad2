"""DualHashEncoder: its parameters, its dual variable, its updates, its measures."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from skhash import DualHashEncoder, ITQHash
from skhash.metrics import mean_average_precision_score

X, Y = load_digits(return_X_y=True)
ROWS, LABELS = X[:300], Y[:300]
SOLVERS = ["none", "subgradient", "dual", "dual_dc", "prox", "wcr"]


def encoder(**params):
    defaults = {
        "n_bits": 8,
        "hidden_layer_sizes": (16,),
        "max_epochs": 4,
        "warmup_epochs": 1,
        "penalty": 1.0,
        "w_weight": 0.3,
        "logit_scale": 2.5,
        "batch_size": 50,
        "random_state": 0,
    }
    return DualHashEncoder(**defaults | params)


def logits(X=ROWS, y=LABELS, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return encoder(**params).fit(X, y).decision_function(X)


@cache
def base_logits(solver):
    return logits(split_solver=solver)


def changes(solver="prox", **params):
    return bool((logits(split_solver=solver, **params) != base_logits(solver)).any())


# What the parameters do


@pytest.mark.parametrize(
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
        {"u_init": "itq"},
        {"logit_scale": 1.0},
        {"pair_weights": None},
        {"similarity": lambda labels: (labels == labels.T).float() / 2},
        {"update": "momentum"},
        {"update": "storm"},
        {"normalize": True},
        {"lr": 2e-3},
        {"weight_decay": 0.1},
        {"max_epochs": 5},
        {"batch_size": 60},
        {"validation_fraction": 0.2},
        {"random_state": 1},
    ],
    ids=lambda params: next(iter(params)),
)
def test_parameters_matter(params):
    result, base = logits(split_solver="prox", **params), base_logits("prox")
    assert result.shape != base.shape or (result != base).any()


def test_parameters_of_the_updates_matter():
    for update, name, values in [
        ("momentum", "momentum", (0.5, 0.9)),
        ("storm", "storm_c", (0.2, 0.7)),
    ]:
        one, other = (logits(update=update, lr=0.1, **{name: v}) for v in values)
        assert (one != other).any()


def test_solvers_differ():
    for i, solver in enumerate(SOLVERS):
        for other in SOLVERS[:i]:
            assert (base_logits(solver) != base_logits(other)).any(), (solver, other)


def test_weight_matters_where_the_penalty_is_applied():
    for solver in ("subgradient", "dual_dc", "prox", "wcr"):
        assert changes(solver, w_weight=0.1), solver
    # In the inert region of "dual", lambda and the step of v have no effect.
    assert not changes("dual", w_weight=7.0)
    assert not changes("dual", dual_step=9.0)
    assert not changes("none", w_weight=7.0)
    assert not changes("none", penalty=7.0)
    # The copy is the sign of the output from some weight on.
    for solver, least in (("prox", 1.0), ("wcr", 0.5)):
        below, at, beyond = (
            logits(split_solver=solver, penalty=0.2, w_weight=0.2 * least * share)
            for share in (0.9, 1.01, 30.0)
        )
        np.testing.assert_array_equal(at, beyond)
        assert (below != at).any(), solver
    # Beyond its inert region "dual" has an effect.
    active = {"split_solver": "dual", "u_step": 1.5, "max_epochs": 8}
    assert (logits(**active) != logits(**active, w_weight=1e-3)).any()
    assert (logits(**active) != logits(**active, dual_step=0.1)).any()
    assert (logits(**active) != logits(**active, extrapolation=0.5)).any()


def test_no_penalty_within_the_warm_up():
    for solver in SOLVERS:
        alone = logits(split_solver=solver, warmup_epochs=4)
        np.testing.assert_array_equal(alone, base_logits("none"))


def test_jaccard_is_for_several_labels():
    sets = np.stack([LABELS % 2, LABELS < 4, LABELS > 2], axis=1)
    assert (logits(y=sets) != logits(y=sets, similarity="jaccard")).any()
    assert not changes(similarity="jaccard")


# The dual variable


def test_an_inert_dual_is_warned_of():
    with pytest.warns(UserWarning, match=r"'dual' stayed 0.*'prox' or 'dual_dc'"):
        fitted = encoder(split_solver="dual").fit(ROWS, LABELS)
    assert fitted.dual_active_fraction_ == 0.0
    assert not fitted.net_.module_.objective.v.any()


@pytest.mark.parametrize(
    "params", [{"split_solver": "dual_dc"}, {"split_solver": "dual", "u_step": 1.5}]
)
def test_an_active_dual_is_measured(params):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = encoder(**params).fit(ROWS, LABELS)
    assert 0 < fitted.dual_active_fraction_ < 1
    objective = fitted.net_.module_.objective
    assert 0 < objective.v.abs().max() <= 0.3 + 1e-6
    # Every row was updated once in each of the three epochs after the warm-up.
    assert objective.n_updates[0] == 3 * ROWS.shape[0] * 8


def test_without_a_dual_there_is_no_fraction():
    assert encoder(split_solver="prox").fit(ROWS, LABELS).dual_active_fraction_ is None


def test_u_may_start_at_itq_codes():
    """The copy moves a little from there with small steps."""
    params = {"u_init": "itq", "u_step": 1e-3, "w_weight": 0.0, "warmup_epochs": 3}
    fitted = encoder(**params).fit(ROWS, LABELS)
    u = fitted.net_.module_.objective.u
    assert ((u.abs() - 1).abs() < 0.01).all()
    assert set(torch.unique(u.sign()).tolist()) == {-1.0, 1.0}


# Updates


def test_storm_without_memory_is_gradient_descent():
    """Dropout is replayed, and statistics, u and v are touched once a batch."""
    params = {"split_solver": "dual_dc", "dropout": 0.3, "lr": 0.1, "max_epochs": 3}
    storm = encoder(update="storm", storm_c=1.0, **params).fit(ROWS, LABELS)
    descent = encoder(update="momentum", momentum=0.0, **params).fit(ROWS, LABELS)
    state, expected = (e.net_.module_ for e in (storm, descent))
    for (name, value), other in zip(
        state.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, other, msg=name)
    torch.testing.assert_close(state.objective.u, expected.objective.u)
    torch.testing.assert_close(state.objective.v, expected.objective.v)
    steps = [
        m.num_batches_tracked for m in state.modules() if isinstance(m, nn.BatchNorm1d)
    ]
    assert steps == [3 * 6] * len(steps)
    losses = [[e["train_loss"] for e in m.history_] for m in (storm, descent)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


# What is learned and measured


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
        ("dual_dc", 0.1, 160),
    ],
)
def test_the_penalty_lowers_the_quantization_error(solver, weight, epochs):
    params = {"max_epochs": epochs, "lr": 0.01, "w_weight": weight, "penalty": 0.25}
    errors = [
        encoder(split_solver=name, **params).fit(ROWS, LABELS).quantization_error_
        for name in ("none", solver)
    ]
    assert errors[1] < errors[0]


def test_validation_measures_the_likelihood_alone():
    """A weight that dwarfs it is seen in the training loss only."""
    fitted = encoder(split_solver="subgradient", w_weight=1e3, validation_fraction=0.3)
    last = fitted.fit(ROWS, LABELS).history_[-1]
    assert last["train_loss"] > 20 > last["valid_loss"] > 0


def test_more_bits_than_features_have_no_itq_codes():
    with pytest.raises(ValueError, match="n_bits=65 .*n_features=64"):
        encoder(n_bits=65, u_init="itq").fit(ROWS, LABELS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "params",
    [
        {"split_solver": "dual_dc"},
        {"update": "storm", "lr": 0.1},
        {"module": lambda d, b: nn.Sequential(nn.Linear(d, b), nn.BatchNorm1d(b))},
    ],
)
def test_cuda_fit_agrees_with_cpu(params):
    cpu, gpu = (
        encoder(device=device, max_epochs=3, **params).fit(ROWS, LABELS)
        for device in ("cpu", "cuda")
    )
    on_gpu = gpu.transform(ROWS)
    assert (cpu.transform(ROWS) == on_gpu).mean() > 0.98
    assert (gpu.set_params(device="cpu").transform(ROWS) == on_gpu).mean() > 0.999
