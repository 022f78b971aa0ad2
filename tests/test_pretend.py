"""The device for tests refuses what CUDA refuses, and computes what the CPU does."""

import copy

import numpy as np
import pytest
import torch
from cases import each
from pretend import NAME, without_float64

from skhash.utils._torch_sparse import csr_tensor
from skhash.utils.torch import widest_float

pytestmark = pytest.mark.parametrize("device", [NAME], indirect=True)

HERE = torch.arange(1.0, 4)
PLACES = torch.tensor([2, 0])
SPARSE = csr_tensor(torch.arange(4), torch.arange(3), HERE, (3, 3))
MIXED = {
    "sum": lambda x: x + HERE,
    "one number there, more here": lambda x: x.sum() + HERE,
    "into the CPU's": lambda x: HERE.clone().add_(x),
    "a number that is written to": lambda x: torch.tensor(0.0).add_(x.sum()),
    "list": lambda x: torch.stack([x[0], torch.tensor(1.0)]),
    "positions there of a tensor here": lambda x: HERE[PLACES.to(x.device)],
    "sums by positions": lambda x: x.index_add(0, PLACES, x[:2]),
    "result here": lambda x: torch.add(x, x, out=torch.empty(3)),
    "sparse rows here": lambda x: SPARSE @ x[:, None],
    "row starts here": lambda x: csr_tensor(
        torch.arange(4), torch.arange(3).to(x.device), x, (3, 3)
    ),
    "numpy": lambda x: np.asarray(x),
    "generator here": lambda x: x.bernoulli_(0.5, generator=torch.Generator()),
    "generator there": lambda x: torch.rand(3, generator=torch.Generator(x.device)),
}


@each("how", MIXED)
def test_mixing_is_refused(how, device):
    with pytest.raises((RuntimeError, TypeError)):
        MIXED[how](HERE.to(device))


def step(device):
    """A step of Adam by a perceptron with dropout and norms."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)]
    network = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(network.parameters(), fused=False)
    network(torch.eye(3).to(device)).square().sum().backward()
    optimizer.step()
    return torch.cat(
        [p.detach().flatten() for p in copy.deepcopy(network).parameters()]
    )


def replaced(device):
    """Values of a parameter given anew, in another type."""
    parameter = torch.nn.Parameter(torch.ones(3).to(device))
    parameter.data = parameter.data.double() / 3
    return parameter + 0


ALLOWED = {
    "a number of the CPU": lambda device: HERE.to(device) * torch.tensor(2.0),
    "positions of the CPU": lambda device: HERE.to(device)[PLACES],
    "copy": lambda device: torch.zeros(3, device=device).copy_(HERE),
    "of a list": lambda device: torch.tensor([[1.0, 2.0]], device=device),
    "draws": lambda device: torch.randn(
        4, generator=torch.Generator(device).manual_seed(3), device=device
    ),
    "sparse": lambda device: SPARSE.to(device) @ torch.ones(3, 2, device=device),
    "squeezed in place": lambda device: HERE.to(device)[None].clone().squeeze_(0),
    "list": lambda device: torch.tensor(HERE.to(device).tolist()),
    "step": step,
    "replaced": replaced,
}


@each("how", ALLOWED)
def test_numbers_are_those_of_the_cpu(how, device):
    found, expected = ALLOWED[how](device), ALLOWED[how]("cpu")
    assert found.device.type == ("cpu" if how == "list" else NAME)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.equal(found.detach().cpu(), expected.detach())
    assert expected.device.type == "cpu"


def test_copies_share_no_memory(device):
    there = HERE.to(device)
    there.add_(1)
    there.cpu().add_(1)
    assert torch.equal(there.cpu(), HERE + 1)


def test_parameters_move_in_place(device):
    network = torch.nn.Linear(3, 2)
    weight = network.weight
    network.to(device)
    assert network.weight is weight and weight.device.type == NAME


@each(
    "wide",
    [
        lambda x: x.double(),
        lambda x: x.sum(dtype=torch.float64),
        lambda x: x.to("cpu", torch.float64),
    ],
)
def test_float64_can_be_missing(wide, device):
    x = HERE.to(device)
    assert widest_float(x.device) == torch.float64
    assert wide(x) is not None
    with without_float64():
        assert widest_float(x.device) == torch.float32
        with pytest.raises(TypeError, match="no float64"):
            wide(x)
        assert x.cpu().double().dtype == torch.float64
