"""Settings of the whole test run.

``pytest tests --seed-shift 1000`` adds a number to all seeds, and ``--torch-threads 4``
lets torch use more threads: no test may hang on the luck of its seed or its machine.
Documentation prints what its seeds give, and is left out.
"""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption(
        "--seed-shift", type=int, default=0, help="a number to add to all seeds"
    )
    parser.addoption("--torch-threads", type=int, default=1)


def pytest_configure(config):
    shift = config.getoption("--seed-shift")
    if shift:
        from shifted_seeds import shift_seeds

        shift_seeds(shift)


@pytest.fixture(scope="session", autouse=True)
def torch_threads(request):
    """On tiny tensors beside a busy neighbour, a second thread costs 100 times."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(request.config.getoption("--torch-threads"))
    yield
    torch.set_num_threads(n_threads)
