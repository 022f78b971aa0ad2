"""Settings of the whole test run."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread():
    """On tiny tensors beside a busy neighbour, a second thread costs 100 times."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
