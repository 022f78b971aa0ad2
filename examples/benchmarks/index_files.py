"""Files of an index: how long saving, opening, checking and searching take.

The codes are random bits with integer ids, which is no matter to files. Processor time
of one thread and, in brackets, time by the clock; the files are in the cache of the
operating system::

    python examples/benchmarks/index_files.py --folder FOLDER
"""

import argparse
import datetime
import os
import platform
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import skhash
from skhash import HammingNeighbors


@contextmanager
def timed(what):
    """Print how long the block takes."""
    clock, processor = time.perf_counter(), time.process_time()
    yield
    processor, clock = time.process_time() - processor, time.perf_counter() - clock
    print(f"{what}: {1000 * processor:,.1f} ms ({1000 * clock:,.1f} ms)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=100_000_000)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--folder", help="where there is room for the files")
    arguments = parser.parse_args()
    shape = arguments.codes, arguments.bytes
    codes = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    print(
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy "
        f"{np.__version__}, skhash {skhash.__version__}, seed 0\n"
        f"{len(codes):,} codes of {8 * arguments.bytes} bits with ids\n"
    )
    index = HammingNeighbors(10, algorithm="brute", packed=True, n_jobs=1)
    with timed("fit, which looks for equal ids"):
        index.fit(codes, ids=np.arange(len(codes)))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        with timed("save"):
            index.save(folder)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(f"bytes: {size:,}")
        del index
        for _ in range(3):
            with timed("open, mapped"):
                index = HammingNeighbors.load(folder, mmap=True)
        with timed("check the content"):
            index.packed_codes_  # noqa: B018
        for _ in range(2):
            with timed("one query"):
                index.kneighbors(codes[:1])
        with timed("remove one id, the first time"):
            index.remove([7])
        with timed("remove one id"):
            index.remove([8])
        with timed("one query"):
            index.kneighbors(codes[:1])
        with timed("load into memory, checked"):
            HammingNeighbors.load(folder)


if __name__ == "__main__":
    main()
