"""Settings of the whole test run.

``pytest tests --seed-shift 1000`` adds a number to all seeds: no test may hang on the
luck of its own. Documentation prints what its seeds give, and is left out.
"""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption(
        "--seed-shift", type=int, default=0, help="a number to add to all seeds"
    )


def pytest_configure(config):
    shift = config.getoption("--seed-shift")
    if shift:
        from shifted_seeds import shift_seeds

        shift_seeds(shift)


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread():
    """On tiny tensors beside a busy neighbour, a second thread costs 100 times."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
