"""Parameters of training: optimizers, falling step sizes, weights that change."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from cases import each
from sklearn.base import clone
from sklearn.datasets import load_digits
from skorch.callbacks import Callback
from torch.optim import lr_scheduler

import skhash
from skhash import SGHEncoder, SupervisedHash
from skhash.training import LinearSchedule, Storm
from skhash.training._net import resolve_optimizer

X, Y = load_digits(return_X_y=True)
X, Y = X[:200], Y[:200]


def supervised(**params):
    small = {"n_bits": 6, "hidden_layer_sizes": (8,), "max_epochs": 2}
    return SupervisedHash(random_state=0, **small | params)


# Optimizers


@each(
    "name, found",
    [
        ("adam", torch.optim.Adam),
        ("SGD", torch.optim.SGD),
        ("storm", Storm),
        (torch.optim.Adamax, torch.optim.Adamax),
    ],
)
def test_optimizers_by_name_and_class(name, found):
    others, own = {"storm": Storm}, {"weight_decay": 0.1}
    assert resolve_optimizer(name, others, **own) == (found, own)
    given = partial(found, momentum=0.9)
    params = own | {"momentum": 0.9}
    assert resolve_optimizer(given, others, **own) == (found, params)


UNKNOWN = ["adamm", "", "optimizer", "Tensor", "storm", Storm, partial(Storm), dict]


@each("given", [*UNKNOWN, partial(torch.optim.SGD, [])])
def test_unknown_optimizers_are_named(given):
    message = f"optimizer={re.escape(repr(given))}.*adam, .*sgd"
    with pytest.raises(ValueError, match=message):
        resolve_optimizer(given)


@each("name", ["lr", "weight_decay"])
def test_what_the_estimator_has_a_parameter_for_is_refused(name):
    encoder = supervised(optimizer=partial(torch.optim.SGD, **{name: 0.1}))
    with pytest.raises(ValueError, match=name):
        encoder.fit(X, Y)


def test_unknown_parameters_are_named():
    with pytest.raises(TypeError, match="momentun"):
        supervised(optimizer=partial(torch.optim.SGD, momentun=0.9)).fit(X, Y)


def test_it_steps_with_its_parameters():
    encoder = supervised(optimizer=partial(torch.optim.SGD, momentum=0.7)).fit(X, Y)
    (group,) = encoder.net_.optimizer_.param_groups
    assert type(encoder.net_.optimizer_) is torch.optim.SGD
    assert group["momentum"] == 0.7 and group["weight_decay"] == 5e-4
    other = clone(encoder).set_params(optimizer=partial(torch.optim.SGD, momentum=0.2))
    other.fit(X, Y)
    assert (encoder.decision_function(X) != other.decision_function(X)).any()


def test_a_loaded_encoder_has_the_default_optimizer(tmp_path):
    encoder = supervised(optimizer=partial(Storm, forgetting=0.4), lr=0.1).fit(X, Y)
    with pytest.warns(UserWarning, match="optimizer is not saved, .* partial"):
        encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert loaded.optimizer == "adamw"
    np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))


def test_streams_go_on_with_the_same_optimizer_only():
    encoder = SGHEncoder(4, optimizer=partial(torch.optim.SGD, momentum=0.5), lr=1e-3)
    encoder.partial_fit(X).partial_fit(X)
    same, other = (partial(torch.optim.SGD, momentum=m) for m in (0.5, 0.6))
    encoder.set_params(optimizer=same).partial_fit(X)
    encoder.set_params(optimizer=other)
    with pytest.raises(ValueError, match="optimizer was .*5. in .* is .*6. now"):
        encoder.partial_fit(X)


# Step sizes


class Sizes(Callback):
    """Notes the step size of each step."""

    seen: list = []

    def on_batch_begin(self, net, training=False, **kwargs):
        self.seen.append(net.optimizer_.param_groups[0]["lr"])


def sizes_of(schedule, n_epochs=10, batch_size=200):
    Sizes.seen.clear()
    encoder = SGHEncoder(4, init="pca", lr=0.4, lr_schedule=schedule, random_state=0)
    encoder.set_params(max_epochs=n_epochs, batch_size=batch_size, callbacks=[Sizes()])
    return encoder.fit(X), [*Sizes.seen]


@each(
    "schedule, scheduler",
    [
        (None, lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0)),
        ("cosine", lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10)),
        ("step", lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [6, 8], 0.1)),
    ],
)
def test_epochs_fall_as_the_schedulers_of_torch(schedule, scheduler):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.4)
    scheduler, expected = scheduler(optimizer), []
    for _ in range(10):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    encoder, found = sizes_of(schedule)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    # A stream has no end, so each of its calls has the whole step size.
    encoder.partial_fit(X).partial_fit(X)
    assert Sizes.seen == [*found, 0.4, 0.4]


def test_steps_fall_as_the_root():
    encoder, found = sizes_of("inverse_sqrt", n_epochs=3, batch_size=50)
    np.testing.assert_allclose(found, 0.4 / np.sqrt(np.arange(1, 13)))
    encoder.partial_fit(X).partial_fit(X)
    np.testing.assert_allclose(Sizes.seen[12:], 0.4 / np.sqrt(np.arange(1, 9)))


# Weights


@each("start, end", [(0.0, 1.0), (1.0, 0.05), (0.4, 0.4)])
@each("n_steps", [0, 1, 3, 1000])
def test_a_weight_starts_and_ends_where_it_says(start, end, n_steps):
    """Exactly, not up to rounding."""
    schedule = LinearSchedule(start, end, n_steps)
    assert schedule(0) == (start if n_steps else end)
    for step in (n_steps, n_steps + 1, 10 * n_steps):
        assert schedule(step) == end


def test_steps_of_a_weight_are_equal():
    schedule = LinearSchedule(2.0, -1.0, n_steps=6)
    assert [schedule(step) for step in range(8)] == pytest.approx(
        [2, 1.5, 1, 0.5, 0, -0.5, -1, -1]
    )
