"""Devices, generators and threads of torch."""

import numpy as np
import pytest
import torch
from cases import each

from skhash.linear import RandomHyperplaneHash
from skhash.utils import torch as utils
from skhash.utils.torch import (
    MIN_TORCH_WORK,
    inference_device,
    resolve_device,
    threads_that_pay,
)


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setattr(utils, "granted_cores", lambda: 4)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "work, threads", [(MIN_TORCH_WORK - 1, 1), (MIN_TORCH_WORK, 3)]
)
def test_small_work_is_not_shared_and_the_setting_is_restored(
    work, threads, three_threads
):
    with pytest.raises(KeyError), threads_that_pay(work):
        assert torch.get_num_threads() == threads
        raise KeyError
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("granted, threads", [(1, 1), (2, 2), (3, 3), (64, 3)])
def test_threads_are_as_many_as_cores_are_granted(
    granted, threads, three_threads, monkeypatch
):
    monkeypatch.setattr(utils, "granted_cores", lambda: granted)
    with threads_that_pay():
        assert torch.get_num_threads() == threads
        with threads_that_pay(0):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


def test_a_fit_takes_the_granted_cores(three_threads, monkeypatch):
    monkeypatch.setattr(utils, "granted_cores", lambda: 2)
    seen = []

    class Encoder(RandomHyperplaneHash):
        def _fit_codes(self, *args):
            seen.append(torch.get_num_threads())
            super()._fit_codes(*args)

    Encoder(2).fit(np.eye(5))
    assert seen == [2]
    assert torch.get_num_threads() == 3


def test_devices():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ValueError, match="device='gpu'.*not a device name"):
        resolve_device("gpu")
    with pytest.raises(ValueError, match=r"device='cuda:99'.*finds \d+ cuda device"):
        resolve_device("cuda:99")
    assert inference_device("cuda:99") == "cpu"


@each("device", ["meta", "meta:2", "vulkan", "ipu:1"])
def test_devices_that_give_no_numbers_back(device):
    kind = device.partition(":")[0]
    message = f"device='{device}' was asked for, but torch finds 0 {kind} device"
    with pytest.raises(ValueError, match=message):
        resolve_device(device)
    assert inference_device(device) == "cpu"
