"""How step sizes fall, against their definitions."""

import numpy as np
import pytest
import torch

from skhash import SGHEncoder
from skhash.training import Cosine, InverseSqrt, LRSchedule, Steps
from skhash.training._schedules import resolve_schedule


class Watch(LRSchedule):
    """Keeps what it was told; the step size is 10 times its epoch's number."""

    seen: list = []

    def start_epoch(self, now, lr, epoch, n_epochs):
        self.seen.append((now, lr, epoch, n_epochs))
        return lr * (epoch + 1)


def test_steps_fall_as_the_root():
    size, sizes = 0.3, []
    for step in range(1, 51):
        sizes.append(size)
        size = InverseSqrt().end_step(size, step)
    np.testing.assert_allclose(sizes, 0.3 / np.sqrt(np.arange(1, 51)))


def test_epochs_fall_as_the_schedulers_of_torch():
    def sizes_of(make):
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.4)
        scheduler, sizes = make(optimizer), []
        for _ in range(10):
            sizes.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return sizes

    schedulers = torch.optim.lr_scheduler
    for schedule, make in [
        (Cosine(), lambda optimizer: schedulers.CosineAnnealingLR(optimizer, 10)),
        (Steps(), lambda optimizer: schedulers.MultiStepLR(optimizer, [6, 8], 0.1)),
        (
            Steps(shares=(0.5,), factor=0.3),
            lambda optimizer: schedulers.MultiStepLR(optimizer, [5], 0.3),
        ),
    ]:
        sizes = [schedule.start_epoch(0.4, 0.4, epoch, 10) for epoch in range(10)]
        np.testing.assert_allclose(sizes, sizes_of(make), rtol=1e-9)
    # Whoever trains on stays where the schedule ended.
    for schedule, end in [(Cosine(), 0.0), (Steps(), 0.004)]:
        assert schedule.start_epoch(0.4, 0.4, 13, 10) == pytest.approx(end)
        assert schedule.start_epoch(0.1, 0.4, 3, None) == 0.1  # a stream has no end
        assert schedule.end_step(0.1, 7) == 0.1


def test_names_none_and_schedules():
    assert isinstance(resolve_schedule("cosine"), Cosine)
    assert type(resolve_schedule(None)) is LRSchedule
    steps = Steps(factor=0.5)
    assert resolve_schedule(steps) is not steps
    assert resolve_schedule(steps).factor == 0.5


def test_a_schedule_of_your_own():
    X = np.random.default_rng(0).normal(size=(60, 5))
    Watch.seen.clear()
    encoder = SGHEncoder(4, lr=0.01, lr_schedule=Watch(), max_epochs=3).fit(X)
    assert Watch.seen == [
        (0.01, 0.01, 0, 3),
        (0.01, 0.01, 1, 3),
        (0.02, 0.01, 2, 3),
    ]
    assert encoder.net_.optimizer_.param_groups[0]["lr"] == pytest.approx(0.03)
    encoder.partial_fit(X)
    assert Watch.seen[3][1:] == (0.01, 3, None)


def test_a_stream_goes_on_with_the_last_step_size():
    """And not with that after the end of a cosine, which is 0."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    encoder = SGHEncoder(4, lr=0.1, lr_schedule="cosine", max_epochs=4, random_state=0)
    before = encoder.fit(X).components_
    last = Cosine().start_epoch(0.1, 0.1, 3, 4)
    assert (encoder.partial_fit(X).components_ != before).any()
    assert encoder.net_.optimizer_.param_groups[0]["lr"] == pytest.approx(last)
