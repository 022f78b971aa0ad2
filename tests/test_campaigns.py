"""The option ``--long``, and in how many processes tests run."""

import subprocess
import sys
from types import SimpleNamespace

import campaigns
import conftest
import pytest
from hypothesis import settings


@pytest.mark.parametrize("case", range(campaigns.length(2, times=3)))
def test_a_campaign(case, pytestconfig):
    is_long = pytestconfig.getoption("--long")
    assert campaigns.is_long == is_long
    assert campaigns.length(40) == (400 if is_long else 40)
    assert settings().max_examples == (1000 if is_long else 100)


def test_the_option_makes_campaigns_longer():
    command = ["-m", "pytest", "--long", "-q", "--no-header", "-k", "test_a_campaign"]
    done = subprocess.run(
        [sys.executable, *command, __file__], capture_output=True, text=True
    )
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_files_that_are_named_run_in_one_process(tmp_path):
    files = [tmp_path / "test_one.py", tmp_path / "test_other.py"]
    for file in files:
        file.touch()

    def n_workers(*named):
        option = SimpleNamespace(file_or_dir=list(map(str, named)))
        return conftest.pytest_xdist_auto_num_workers(SimpleNamespace(option=option))

    assert n_workers(*files) == 0
    assert n_workers(f"{files[0]}::TestThis::test_that[a::b]") == 0
    # As many as there are cores.
    assert n_workers() is None
    assert n_workers(tmp_path) is None
    assert n_workers(files[0], tmp_path) is None
