"""Seconds of `skhash encode` on a file of float16 rows, beside the disk's own rate.

    python examples/benchmarks/encode_file.py --rows 2000000

Rows are normal, drawn by the seed, 384 columns. "cold" runs begin with none of the file
in the operating system's cache, where the system can be asked for that; "disk" is then
the rate of plain reads, measured before and after. Times are those of the whole
command, the encoder's loading and the writing of the codes included, but not of the
imports: the medians of three runs.
"""

import argparse
import contextlib
import datetime
import io
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import skhash
from skhash import PCAHash
from skhash.cli import main as command

N_FEATURES, ROWS_DRAWN, BLOCK_BYTES = 384, 100_000, 2**23


def write_rows(path, n, seed):
    """Write rows to a file, and return some of them."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(ROWS_DRAWN, N_FEATURES)).astype(np.float16)
    shape = n, N_FEATURES
    rows = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    for i, first in enumerate(range(0, n, ROWS_DRAWN)):
        part = rows[first : first + ROWS_DRAWN]
        part[:] = np.roll(drawn, i, axis=1)[: len(part)]
    rows.flush()
    return drawn[:20_000]


def forget(path):
    """Ask the system to drop the file from its cache."""
    os.sync()
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(path) -> float:
    """Return the bytes a second of plain reads."""
    forget(path)
    buffer = bytearray(BLOCK_BYTES)
    start = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return path.stat().st_size / (time.perf_counter() - start)


def seconds_of(words, path, cold) -> float:
    times = []
    for _ in range(3):
        if cold:
            forget(path)
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            command([*map(str, words), "--quiet"])
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where to write; by default a temporary one")
    settings = parser.parse_args()
    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, scikit-hash {skhash.__version__}, numpy "
        f"{np.__version__}, {vars(settings)}"
    )
    with tempfile.TemporaryDirectory(dir=settings.folder) as folder:
        path = Path(folder) / "rows.npy"
        sample = write_rows(path, settings.rows, settings.seed)
        rates = [read_rate(path)]
        lines = []
        for n_bits in settings.bits:
            encoder = Path(folder) / f"encoder{n_bits}"
            PCAHash(n_bits, random_state=0).fit(sample).save(encoder)
            words = ["encode", encoder, path, Path(folder) / "codes.npy"]
            for kind in ("packed", "bits"):
                own = [*words, "--packed"] if kind == "packed" else words
                for cold in (False, True):
                    seconds = seconds_of(own, path, cold)
                    lines.append((n_bits, kind, cold, seconds))
        rates.append(read_rate(path))
        size = path.stat().st_size
    print(f"disk: {rates[0] / 1e9:.2f} and {rates[1] / 1e9:.2f} GB/s\n")
    print("| bits | written as | file | s | million rows/s | GB/s of the file |")
    print("|---|---|---|---|---|---|")
    for n_bits, kind, cold, seconds in lines:
        rate, place = settings.rows / seconds / 1e6, "cold" if cold else "cached"
        print(
            f"| {n_bits} | {kind} | {place} | {seconds:.2f} | {rate:.2f} | "
            f"{size / seconds / 1e9:.2f} |"
        )


if __name__ == "__main__":
    main()
