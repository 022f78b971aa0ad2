"""Files of an index: how long saving, opening, checking and searching take.

The codes are random bits with integer ids, which is no matter to files. Processor time
of one thread, and time by the clock; the files are in the cache of the
operating system::

    python examples/benchmarks/index_files.py --folder FOLDER
"""

import argparse
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import HammingNeighbors


@contextmanager
def timed(table, what):
    """Add a row of how long the block takes."""
    clock, processor = time.perf_counter(), time.process_time()
    yield
    processor, clock = time.process_time() - processor, time.perf_counter() - clock
    table.add(what, 1000 * processor, 1000 * clock)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=100_000_000)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--folder", help="where there is room for the files")
    add_output(parser)
    arguments = parser.parse_args()
    shape = arguments.codes, arguments.bytes
    codes = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    print(describe(head()))
    table = Table({"step": "", "ms": ",.1f", "ms by the clock": ",.1f"}).printed()
    index = HammingNeighbors(10, algorithm="brute", packed=True, n_jobs=1)
    with timed(table, "fit, which looks for equal ids"):
        index.fit(codes, ids=np.arange(len(codes)))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        with timed(table, "save"):
            index.save(folder)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        del index
        for _ in range(3):
            with timed(table, "open, mapped"):
                index = HammingNeighbors.load(folder, mmap=True)
        with timed(table, "check the content"):
            index.packed_codes_  # noqa: B018
        for _ in range(2):
            with timed(table, "one query"):
                index.kneighbors(codes[:1])
        with timed(table, "remove one id, the first time"):
            index.remove([7])
        with timed(table, "remove one id"):
            index.remove([8])
        with timed(table, "one query"):
            index.kneighbors(codes[:1])
        with timed(table, "load into memory, checked"):
            HammingNeighbors.load(folder)
    data = f"{len(codes):,} codes of {8 * arguments.bytes} bits with ids, one thread"
    save(arguments.output, {"steps": table}, {"bytes": size}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
