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
import io
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import PCAHash
from skhash.cli import main as command

N_FEATURES, ROWS_DRAWN, BLOCK_BYTES = 384, 100_000, 2**23
COLUMNS = {
    "bits": "",
    "written as": "",
    "file": "",
    "s": ".2f",
    "million rows/s": ".2f",
    "GB/s of the file": ".2f",
}


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
    add_output(parser)
    settings = parser.parse_args()
    print(describe(head()))
    table = Table(COLUMNS).printed()
    with tempfile.TemporaryDirectory(dir=settings.folder) as folder:
        path = Path(folder) / "rows.npy"
        sample = write_rows(path, settings.rows, settings.seed)
        figures = {"read_before": read_rate(path) / 1e9}
        for n_bits in settings.bits:
            encoder = Path(folder) / f"encoder{n_bits}"
            PCAHash(n_bits, random_state=0).fit(sample).save(encoder)
            add_rows(table, n_bits, encoder, path, settings.rows)
        figures["read_after"] = read_rate(path) / 1e9
        figures["gigabytes"] = path.stat().st_size / 1e9
    print("\nPlain reads of the file, GB/s, and its size:", figures)
    data = f"{settings.rows:,} rows of {N_FEATURES} float16"
    save(settings.output, {"files": table}, figures, seeds=[settings.seed], data=data)


def add_rows(table, n_bits, encoder, path, n_rows):
    """Measure codes of one length, packed and not, from a file cached and cold."""
    words = ["encode", encoder, path, path.parent / "codes.npy"]
    size = path.stat().st_size
    for kind in ("packed", "bits"):
        own = [*words, "--packed"] if kind == "packed" else words
        for place in ("cached", "cold"):
            seconds = seconds_of(own, path, place == "cold")
            rates = n_rows / seconds / 1e6, size / seconds / 1e9
            table.add(n_bits, kind, place, seconds, *rates)


if __name__ == "__main__":
    main()
