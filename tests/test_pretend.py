"""The device for tests refuses what CUDA refuses, and computes what the CPU does."""

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


def test_copies_share_no_memory(device):
    there = HERE.to(device)
    there.add_(1)
    there.cpu().add_(1)
    assert torch.equal(there.cpu(), HERE + 1)


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
