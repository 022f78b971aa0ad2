"""Seconds of a fit on an idle machine, and where other processes want the same cores.

    python examples/benchmarks/busy_neighbours.py

Five thousand rows of 512 features, drawn by the seed, to 64 bits: by `ITQHash`, by
`DualHashEncoder`, and by one with 1024 hidden units and batches of 512 rows. "loops"
are as many processes as there are cores, each an endless loop of Python; "fit" is one
process that trains on all cores, its threads waiting for each other as OpenMP has it.
Settings:

* *one thread* of torch;
* *all, OpenMP's wait*: all operations are shared among all cores, and threads wait for
  each other in the loop of some milliseconds that is GNU OpenMP's default;
* *all, short wait*: the same with ``GOMP_SPINCOUNT=1000``, which importing the library
  sets where nothing else is set;
* *the library's*: a short wait, and threads only where operations are large.

Each setting is a process of its own, which fits once without the clock. Times are the
median of three fits.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

from growing_results import describe, head
from result_files import Table, add_output, save

# OpenMP's own default, and what the library sets where it is imported before torch.
OPENMP, SHORT = {"GOMP_SPINCOUNT": "300000"}, {"GOMP_SPINCOUNT": "1000"}
SETTINGS = {
    "one thread": (1, False, {}),
    "all, OpenMP's wait": (None, True, OPENMP),
    "all, short wait": (None, True, SHORT),
    "the library's": (None, False, SHORT),
}
LOOP = [sys.executable, "-S", "-c", "while True: pass"]
SITUATIONS = ("idle", "loops", "fit")
SETTLING_SECONDS = 5
LARGE = "1024 hidden units"


def fits(seed):
    """Return functions that fit, by the name of the estimator."""
    import numpy as np

    from skhash import DualHashEncoder, ITQHash

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5_000, 32)) @ rng.normal(size=(32, 512))
    X = (X + 0.3 * rng.normal(size=X.shape)).astype(np.float32)
    y = rng.integers(0, 10, len(X))
    small = DualHashEncoder(max_epochs=2, random_state=0)
    large = DualHashEncoder(
        hidden_layer_sizes=(1024,), batch_size=512, max_epochs=2, random_state=0
    )
    return {
        "ITQHash": lambda: ITQHash(random_state=0).fit(X),
        "DualHashEncoder": lambda: small.fit(X, y),
        LARGE: lambda: large.fit(X, y),
    }


def work(threads, shares_all, seed, forever):
    """Fit in this process, and print the seconds of each estimator."""
    import torch

    from skhash.utils import torch as utils

    warnings.simplefilter("ignore")
    if threads is not None:
        torch.set_num_threads(threads)
    if shares_all:
        utils.MIN_TORCH_WORK = 0
    while forever:
        fits(seed)[LARGE]()
    seconds = {}
    for name, fit in fits(seed).items():
        fit()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            fit()
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times)
    print(json.dumps(seconds))


def command(threads, shares_all, seed, forever=False):
    given = json.dumps([threads, shares_all, seed, forever])
    return [sys.executable, __file__, "--work", given]


@contextlib.contextmanager
def neighbours(situation, seed):
    busy = {
        "idle": [],
        "loops": [LOOP] * os.cpu_count(),
        "fit": [command(None, True, seed, forever=True)],
    }[situation]
    running = [subprocess.Popen(one, env={**os.environ, **OPENMP}) for one in busy]
    try:
        if situation == "fit":
            time.sleep(SETTLING_SECONDS)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", nargs="+", choices=SITUATIONS, default=SITUATIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    add_output(parser)
    settings = parser.parse_args()
    if settings.work:
        work(*json.loads(settings.work))
        return
    print(describe(head()))
    times = dict.fromkeys(["ITQHash", "DualHashEncoder", LARGE], ".2f")
    table = Table({"seconds of a fit": "", "beside": "", **times}).printed()
    for situation in settings.beside:
        for name, (threads, shares_all, variables) in SETTINGS.items():
            with neighbours(situation, settings.seed):
                done = subprocess.run(
                    command(threads, shares_all, settings.seed),
                    env={**os.environ, **variables},
                    check=True,
                    capture_output=True,
                    text=True,
                )
            table.add(name, situation, *json.loads(done.stdout).values())
    figures = {"most_times": most_times(table)}
    print("\nA fit of a setting beside others, in times of the idle one:", figures)
    save(settings.output, {"fits": table}, figures, seeds=[settings.seed])


def most_times(table):
    """Return how many times as long as on the idle machine a fit takes at most."""
    idle = {row[0]: row[2:] for row in table.rows if row[1] == "idle"}
    return max(
        seconds / alone
        for name, _, *times in table.rows
        for seconds, alone in zip(times, idle.get(name, []), strict=False)
    )


if __name__ == "__main__":
    main()
