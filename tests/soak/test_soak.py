"""Some problems of the soak, and that it finds what is wrong."""

import os
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from campaigns import length

from skhash.neighbors import _prefix
from skhash.neighbors.search import multi_index
from skhash.neighbors.search.brute import Brute
from skhash.persistence import estimators
from skhash.persistence.tensors import Arrays
from skhash.soak import Problem, campaign
from skhash.soak.__main__ import main
from skhash.soak.case import Case
from skhash.soak.problem import ATTACKS
from skhash.utils import files

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("seed", range(length(2)))
def test_problems(attack, seed):
    counts = Problem.drawn(seed, (attack,)).run()
    assert counts.total() > 0


def problems(attack, n=60):
    """Problems of one attack, none of them tiny."""
    return [
        Problem(attack, seed, n=200, n_bits=12, n_queries=20, n_steps=6)
        for seed in range(n)
    ]


def swapped(self, queries, question, find=Brute.nearest):
    """Of two answers that are equally near, the wrong one comes first."""
    distances, positions = find(self, queries, question)
    if question.reach > 1:
        tied = distances[:, 0] == distances[:, 1]
        positions[tied, :2] = positions[tied, 1::-1]
    return distances, positions


def too_small(n_parts, radius):
    """The radius of one part is too small."""
    most, rest = divmod(radius, n_parts)
    return [most if part < rest else most - 1 for part in range(n_parts)]


def unmasked(packed, n_bits):
    """Bits behind the first ones count, too."""
    return packed[:, : -(-n_bits // 8)].copy()


def remove_and_write(path, replacing=estimators.replacing):
    """For a moment there is nothing."""
    path.unlink(missing_ok=True)
    return replacing(path)


BUGS = [
    ("hamming", Brute, "nearest", swapped, "positions"),
    ("hamming", multi_index, "_radii", too_small, "not equal"),
    ("prefix", _prefix, "_prefix", unmasked, "not equal"),
    ("kills", estimators, "replacing", remove_and_write, "saved is gone"),
    ("damage", Arrays, "check", lambda *_: None, "Damage was|does not name"),
]


@pytest.mark.parametrize(("attack", "owner", "name", "bad", "message"), BUGS)
def test_bugs_that_are_put_in_are_found(attack, owner, name, bad, message, monkeypatch):
    monkeypatch.setattr(owner, name, bad)
    with pytest.raises(AssertionError, match=message):
        for problem in problems(attack):
            problem.run()


def test_savers_that_write_one_file_are_found(monkeypatch):
    monkeypatch.setattr(files, "token_hex", lambda n: "0" * 16)
    with pytest.raises((AssertionError, ValueError, OSError)):
        for problem in problems("savers"):
            problem.run()


class FailsFrom:
    """Stands for a worker: problems of 13 codes and 5 bits or more fail.

    Some that are too small fail otherwise.
    """

    def try_(self, problem):
        if problem.n < 5:
            return Counter(), "IndexError: 5"
        fails = problem.n >= 13 and problem.n_bits >= 5
        return Counter(), "ValueError: 13" if fails else None


def test_failures_are_shrunk_and_written_as_tests(tmp_path):
    problem = problems("merge")[7]
    smallest, error = campaign.shrunk(problem, "ValueError: first", FailsFrom())
    assert smallest == Problem("merge", 7, n=13, n_bits=5, n_queries=1, n_steps=1)
    file = campaign.write_test(smallest, error, tmp_path)
    assert "ValueError: 13" in file.read_text()
    found: dict = {}
    exec(file.read_text(), found)
    found["test_merge_7"]()


def test_failures_are_told_with_what_repeats_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(campaign, "Worker", lambda folder: Stopping())
    assert main(["--seed", "3", "--problems", "9", "--failures", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "--seed 3" in told and "ValueError: 13" in told
    first = next(i for i in range(3, 12) if Problem.drawn(i).n >= 13)
    assert f"--seed {first} --problems 1" in told
    assert len(list(tmp_path.glob("test_soak_*.py"))) >= 1


class Stopping(FailsFrom):
    def stop(self):
        pass


def test_crashes_and_hangs_are_answers(tmp_path, monkeypatch):
    worker = campaign.Worker(str(tmp_path))
    try:
        assert "ended with -6" in worker.try_(SimpleNamespace(run=os.abort))[1]
        counts, error = worker.try_(SimpleNamespace(run=partial(Counter, {"a": 1})))
        assert counts == {"a": 1} and error is None
        _, error = worker.try_(SimpleNamespace(run=partial(int, "x")))
        assert "invalid literal" in error
        monkeypatch.setattr(campaign, "PATIENCE", 0.1)
        _, error = worker.try_(SimpleNamespace(run=partial(time.sleep, 1000)))
        assert "hangs" in error
    finally:
        worker.stop()


def test_the_command(tmp_path, capsys):
    """Problems are those of their seeds, and a seed has one."""
    assert main(["--seed", "5", "--problems", "3", "--only", "merge", "prefix"]) == 0
    told = capsys.readouterr().out
    own = [Problem.drawn(seed, ("merge", "prefix")) for seed in (5, 6, 7)]
    n_queries = sum(problem.n_queries * problem.n_steps for problem in own)
    assert f"3 problems, {n_queries:,} queries: 0 failed" in told


def test_smaller_problems_are_parts_of_larger_ones(tmp_path):
    """So that what fails goes on to fail."""
    large, small = (
        Case(Problem("merge", 0, n, 8, 3, 2), tmp_path).bits("codes", n)
        for n in (50, 20)
    )
    np.testing.assert_array_equal(large[:20], small)
