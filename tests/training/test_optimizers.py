"""Optimizers: their names, their parameters, and STORM for every trained estimator."""

import copy

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import skhash
from skhash import (
    NeighborHash,
    SBNClassifier,
    SGHEncoder,
    StochasticAutoencoderHash,
    SupervisedHash,
)
from skhash.training import LinearSchedule, Optimizer
from skhash.training._optimizers import resolve_optimizer
from skhash.training._storm import Storm

X, Y = load_digits(return_X_y=True)
X, Y = X[:200], Y[:200]


def supervised(**params):
    small = {"n_bits": 6, "hidden_layer_sizes": (8,), "max_epochs": 2}
    return SupervisedHash(random_state=0, **small | params)


@pytest.mark.parametrize("name", ["adam", "Adam", "SGD", "adamw", "rmsprop", "storm"])
def test_optimizers_by_name(name):
    found, params = resolve_optimizer(name, weight_decay=0.1)
    assert found.__name__.lower() == name.lower()
    assert issubclass(found, torch.optim.Optimizer)
    assert params == {"weight_decay": 0.1}


@pytest.mark.parametrize("given", [torch.optim.Adamax, Storm])
def test_optimizer_classes_are_taken_as_they_are(given):
    assert resolve_optimizer(given) == (given, {})
    assert resolve_optimizer(Optimizer(given)) == (given, {})


@pytest.mark.parametrize("name", ["adamm", "", "optimizer", "lr_scheduler", "Tensor"])
def test_unknown_optimizers_are_named(name):
    message = f"optimizer='{name}' is not one of .*adam, .*sgd, .*storm"
    for given in (name, Optimizer(name)):
        with pytest.raises(ValueError, match=message):
            resolve_optimizer(given)


def test_parameters_go_with_those_of_the_estimator():
    given = Optimizer("sgd", momentum=0.9, nesterov=True)
    found, params = resolve_optimizer(given, weight_decay=0.1)
    assert found is torch.optim.SGD
    assert params == {"weight_decay": 0.1, "momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize("name", ["lr", "weight_decay"])
def test_what_the_estimator_has_a_parameter_for_is_refused(name):
    encoder = supervised(optimizer=Optimizer("sgd", **{name: 0.1}))
    with pytest.raises(ValueError, match=f"has {name}, which the estimator has"):
        encoder.fit(X, Y)


def test_unknown_parameters_are_named():
    with pytest.raises(TypeError, match="momentun"):
        supervised(optimizer=Optimizer("sgd", momentun=0.9)).fit(X, Y)


def test_an_optimizer_is_cloned_set_and_shown():
    optimizer = Optimizer("sgd", momentum=0.9)
    copied = clone(optimizer)
    assert copied is not optimizer
    assert copied.get_params() == {"name": "sgd", "momentum": 0.9}
    copied.set_params(momentum=0.5, nesterov=True)
    assert copied.get_params() == {"name": "sgd", "momentum": 0.5, "nesterov": True}
    assert optimizer.get_params() == {"name": "sgd", "momentum": 0.9}
    assert repr(optimizer) == "Optimizer(momentum=0.9, name='sgd')"
    assert copied.set_params(name="adam").name == "adam"


def test_it_steps_with_its_parameters():
    encoder = supervised(optimizer=Optimizer("sgd", momentum=0.7)).fit(X, Y)
    (group,) = encoder.net_.optimizer_.param_groups
    assert type(encoder.net_.optimizer_) is torch.optim.SGD
    assert group["momentum"] == 0.7 and group["weight_decay"] == 5e-4
    other = supervised(optimizer=Optimizer("sgd", momentum=0.2)).fit(X, Y)
    assert (encoder.decision_function(X) != other.decision_function(X)).any()
    plain, named = (
        supervised(optimizer=given).fit(X, Y).decision_function(X)
        for given in ("adamw", Optimizer("adamw"))
    )
    np.testing.assert_array_equal(plain, named)


def test_grid_search_reaches_its_parameters():
    search = GridSearchCV(
        supervised(optimizer=Optimizer("sgd")),
        {"optimizer__momentum": [0.1, 0.8]},
        scoring=lambda encoder, X, y: encoder.optimizer.params["momentum"],
        cv=2,
    ).fit(X, Y)
    assert search.best_params_ == {"optimizer__momentum": 0.8}
    assert search.best_estimator_.optimizer.params == {"momentum": 0.8}


def test_it_is_saved(tmp_path):
    encoder = supervised(optimizer=Optimizer("storm", forgetting=0.4), lr=0.1)
    encoder.fit(X, Y).save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert loaded.optimizer.get_params() == {"name": "storm", "forgetting": 0.4}
    bits = encoder.transform(X)
    np.testing.assert_array_equal(clone(loaded).fit(X, Y).transform(X), bits)


def test_streams_go_on_with_the_same_optimizer_only():
    encoder = SGHEncoder(4, optimizer=Optimizer("sgd", momentum=0.5), lr=1e-3)
    encoder.partial_fit(X).partial_fit(X)
    encoder.set_params(optimizer=Optimizer("sgd", momentum=0.5)).partial_fit(X)
    encoder.set_params(optimizer__momentum=0.6)
    with pytest.raises(ValueError, match="optimizer was .*5, name.* and is .*6, name"):
        encoder.partial_fit(X)


def test_storm_goes_on_in_a_stream():
    """Copies of a net keep what surrounds the second gradient."""
    encoder = SGHEncoder(4, optimizer="storm", lr=1e-3, random_state=0).partial_fit(X)
    copied = copy.deepcopy(encoder).partial_fit(X)
    optimizer = copied.net_.optimizer_
    assert optimizer.shadow.__self__ is copied.net_.module_
    assert optimizer.shadow.__self__ is not encoder.net_.module_
    bits = encoder.partial_fit(X).transform(X)
    np.testing.assert_array_equal(copied.transform(X), bits)


@pytest.mark.parametrize(
    "estimator",
    [
        NeighborHash(8, max_epochs=2, lr=0.01, random_state=0),
        SBNClassifier((8,), max_epochs=2, lr=0.01, random_state=0),
        SGHEncoder(8, max_epochs=3, lr=0.01, random_state=0),
        StochasticAutoencoderHash(
            8, kl_weight=LinearSchedule(0.0, 1.0, 9), max_epochs=3, random_state=0
        ),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_storm_without_memory_is_gradient_descent(estimator):
    """The second gradient of a step draws the same bits, and nothing anew."""
    storm, descent = (
        clone(estimator).set_params(optimizer=optimizer).fit(X, Y)
        for optimizer in (Optimizer("storm", forgetting=1.0), "sgd")
    )
    states = (fitted.net_.module_.state_dict().values() for fitted in (storm, descent))
    for found, expected in zip(*states, strict=True):
        torch.testing.assert_close(found, expected)
    losses = [[e["train_loss"] for e in m.history_] for m in (storm, descent)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
