"""Settings of the whole test run.

``pytest tests --seed-shift 1000`` adds a number to all seeds, and ``--torch-threads 4``
lets torch use more threads: no test may hang on the luck of its seed or its machine.
Documentation prints what its seeds give, and is left out. ``--minutes 10`` lets
hypothesis draw other cases for so long, all of its tests in turn. ``pytest -m long``
runs the tests that are left out otherwise, and lets hypothesis draw for four minutes.

Tests run in as many processes as there are cores; those of a file or two that are named
run in this one.
"""

import gc
import os
import time

import pytest
from hypothesis import settings

# Libraries read it when they are loaded, here and in processes that tests start. On
# tiny arrays beside a busy neighbour, a second thread costs 100 times.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import browser as browsers  # noqa: E402

# Of each test of hypothesis, with `--minutes`.
SECONDS = pytest.StashKey[float]()
# Their changes of NumPy and torch cannot be made twice.
collect_ignore = ["pretend.py", "shifted_seeds.py"]


def pytest_addoption(parser):
    parser.addoption(
        "--seed-shift", type=int, default=0, help="a number to add to all seeds"
    )
    parser.addoption("--torch-threads", type=int, help="by default OMP_NUM_THREADS")
    parser.addoption("--minutes", type=float, help="how long hypothesis draws, in all")
    parser.addoption(
        "--device", help="run the tests of this device alone, and fail if none runs"
    )


def is_long(config):
    return config.option.markexpr == "long"


def pytest_configure(config):
    if config.option.minutes is None:
        config.option.minutes = 4 if is_long(config) else 0
    # However slow a machine is, its answers are right.
    minutes = {"derandomize": False} if config.getoption("--minutes") else {}
    settings.register_profile("here", deadline=None, **minutes)
    settings.load_profile("here")
    shift = config.getoption("--seed-shift")
    if shift:
        from shifted_seeds import shift_seeds

        shift_seeds(shift)
    threads = config.getoption("--torch-threads")
    if threads:
        import torch

        torch.set_num_threads(threads)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests in four fifths of the time: what is imported is no garbage."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def pytest_collection_finish(session):
    """Share the minutes out among the tests of hypothesis."""
    n_tests = sum(map(draws, session.items))
    n_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    seconds = 60 * session.config.getoption("--minutes") * n_workers
    session.stash[SECONDS] = seconds / max(1, n_tests)


@pytest.hookimpl(tryfirst=True)  # before others are left out
def pytest_collection_modifyitems(config, items):
    for item in items if is_long(config) else ():
        if getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("long")
    device = config.getoption("--device")
    if device:
        others = [item for item in items if device_of(item) != device]
        items[:] = [item for item in items if device_of(item) == device]
        config.hook.pytest_deselected(items=others)


def device_of(item):
    """Return the device that a test asks for, see `device`, or None."""
    return item.callspec.params.get("device") if hasattr(item, "callspec") else None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fail where tests of a device were all skipped, as that is missing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    is_asked = session.config.getoption("--device") and reporter is not None
    if is_asked and not (reporter.stats.keys() & {"passed", "failed", "error"}):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def draws(item):
    return item.get_closest_marker("hypothesis") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Run a test of hypothesis again, with other cases, until its time is over."""
    end = time.monotonic() + item.session.stash[SECONDS]
    result = yield
    while draws(item) and time.monotonic() < end:
        item.runtest()
    return result


@pytest.fixture(params=["pretend", "cuda"])
def device(request):
    """The name of a device that is not the CPU: one for tests, see `pretend`, and CUDA.

    With ``indirect=True`` a test names its devices.
    """
    from pretend import use  # it imports torch

    with use(request.param) as name:
        yield name


@pytest.fixture
def browser():
    """A real browser, see `browser.Browser`; its pages may not complain."""
    with browsers.started() as started:
        yield started
        assert not started.complaints


def pytest_xdist_auto_num_workers(config):
    """Return 0 where only files are named; None leaves it to xdist."""
    named = [name.partition("::")[0] for name in config.option.file_or_dir]
    return 0 if named and all(map(os.path.isfile, named)) else None
