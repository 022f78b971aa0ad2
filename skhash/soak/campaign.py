"""Many problems, one after the other, in processes that may crash."""

import faulthandler
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from datetime import date
from multiprocessing import get_context
from pathlib import Path

from skhash.soak.problem import Problem

# Seconds after which a problem hangs: the first ones wait for compilers.
PATIENCE = 1800
# How long smaller problems are tried that fail too, and after how many failures nobody
# needs more of them.
SHRINKING, ENOUGH_FAILURES = 60, 5


class Worker:
    """A process that tries problems, so that a crash is an answer."""

    def __init__(self, folder):
        self._folder, self._process = folder, None

    def try_(self, problem):
        """Return what was counted, and how it failed, or None."""
        if self._process is None:
            self._start()
        self._connection.send(problem)
        if not self._connection.poll(PATIENCE):
            self.stop()
            return Counter(), f"It hangs: it took more than {PATIENCE} s."
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            code, self._process = self._process.exitcode, None
            return Counter(), f"The interpreter ended with {code}."

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self):
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._folder))
        self._process.start()
        other.close()


def _serve(connection, folder):
    """Try what comes; what killed problems leave goes with the folder."""
    faulthandler.enable()
    warnings.simplefilter("ignore")  # of NumPy, about what was forged
    tempfile.tempdir = folder
    while True:
        try:
            problem = connection.recv()
        except EOFError:
            return
        try:
            connection.send((problem.run(), None))
        except Exception:
            connection.send((Counter(), traceback.format_exc()))


class Campaign:
    """Problems of one seed after the other, until the time is over.

    Parameters
    ----------
    seed : int
        That of the first problem; the next has the next one.
    attacks : tuple of str
    failures : Path
        A directory for tests of what fails.

    Attributes
    ----------
    counts : dict of Counter
        By attack: problems, seconds and what they counted.
    failed : list of Problem
    """

    def __init__(self, seed, attacks, failures):
        self.seed, self.attacks, self.failures = seed, attacks, failures
        self.counts, self.failed = defaultdict(Counter), []

    def run(self, seconds, n_problems):
        """Try problems until one of these is reached, telling how it goes."""
        begun = told = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="skhash-soak-") as folder:
            worker = Worker(folder)
            try:
                for i in range(n_problems):
                    self._try(worker, Problem.drawn(self.seed + i, self.attacks))
                    now = time.monotonic()
                    if now - told > 60:
                        print(self.line(now - begun), flush=True)
                        told = now
                    if now - begun > seconds or len(self.failed) >= ENOUGH_FAILURES:
                        break
            except KeyboardInterrupt:
                print()
            finally:
                worker.stop()
        print(self.table(time.monotonic() - begun))

    def _try(self, worker, problem):
        begun = time.monotonic()
        counts, error = worker.try_(problem)
        seconds = time.monotonic() - begun
        self.counts[problem.attack] += counts + Counter(problems=1)
        self.counts[problem.attack]["seconds"] += seconds
        if error is not None:
            print(f"\n{problem} failed:\n{error}\nA smaller one is looked for.")
            self._report(problem, *shrunk(problem, error, worker))

    def _report(self, problem, smallest, error):
        """Say how to repeat a failure, and write a test of it."""
        self.failed.append(smallest)
        file = write_test(smallest, error, self.failures)
        only = "" if len(self.attacks) > 1 else f" --only {problem.attack}"
        print(
            f"The smallest found: {smallest}\n{error}\n"
            "To repeat it as it was first met:\n"
            f"    python -m skhash.soak --seed {problem.seed} --problems 1{only}\n"
            f"To repeat the smallest:\n    pytest {file}\n",
            flush=True,
        )

    def line(self, seconds):
        """Return one line of all counts."""
        total = sum(self.counts.values(), Counter())
        total.pop("seconds", None)
        n_problems = total.pop("problems", 0)
        counts = ", ".join(f"{total[name]:,} {name}" for name in main_counts(total))
        return (
            f"{seconds / 60:.1f} minutes, {n_problems:,} problems, {counts}: "
            f"{len(self.failed)} failed"
        )

    def table(self, seconds):
        """Return all counts by attack, and who answered queries."""
        rows = [f"\n{'attack':<12}{'problems':>9}{'seconds':>9}  counts"]
        for attack, counts in sorted(self.counts.items()):
            own = ", ".join(f"{counts[name]:,} {name}" for name in main_counts(counts))
            problems, spent = counts["problems"], counts["seconds"]
            rows.append(f"{attack:<12}{problems:>9,}{spent:>9.0f}  {own}")
        total = sum(self.counts.values(), Counter())
        answers = [name for name in sorted(total) if name.startswith("answers by ")]
        rows += [f"{total[name]:>12,} {name}" for name in answers]
        return "\n".join([*rows, self.line(seconds)])


def main_counts(counts):
    """Return the names of what is counted, but for problems and single algorithms."""
    others = ("problems", "seconds")
    return [
        name
        for name in sorted(counts)
        if name not in others and not name.startswith("answers by ")
    ]


def shrunk(problem, error, worker):
    """Return the smallest problem found that fails alike, and how it fails."""
    deadline = time.monotonic() + SHRINKING
    kind, found = kind_of(error), True
    while found:
        found = False
        for smaller in problem.smaller():
            if time.monotonic() > deadline:
                break
            _, failure = worker.try_(smaller)
            if failure is not None and kind_of(failure) == kind:
                problem, error, found = smaller, failure, True
                break
    return problem, error


def kind_of(error):
    """Return the class of the exception that a traceback ends with."""
    return error.strip().splitlines()[-1].partition(":")[0]


def write_test(problem, error, folder):
    """Write a test of a problem that failed; return its file."""
    name = f"{problem.attack}_{problem.seed}"
    file = Path(folder) / f"test_soak_{name}.py"
    last = error.strip().splitlines()[-1][:200].replace("\\", "/").replace('"', "'")
    lines = [
        f'"""Found by `python -m skhash.soak` on {date.today()}.\n\n{last}\n"""\n',
        "from skhash.soak import Problem\n\n",
        f"def test_{name}():\n    {problem}.run()\n",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
