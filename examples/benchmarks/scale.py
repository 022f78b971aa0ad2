"""Ten million vectors through memory maps: fit, encode, index, search.

The vectors are synthetic, 1000 clusters of Gaussian rows; what is measured is time and
memory, not quality. The file of 10 million float32 rows of 128 numbers takes 5.1 GB in
the folder, and is made if it is not there::

    python examples/benchmarks/scale.py FOLDER
    python examples/benchmarks/scale.py FOLDER --rows 1000000

Each step runs in a separate process. Its memory is that which the process allocated
(RssAnon, read every 20 ms), without the pages of mapped files, which the system keeps
as long as nobody else needs the room. Linux only, for that reading.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tools import Table, add_output, save

from skhash import HammingNeighbors, SGHEncoder

BLOCK = 100_000


def make_vectors(path, n_rows, n_features):
    """Write the file, a block at a time."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((1000, n_features), dtype=np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_features))
    for start in range(0, n_rows, BLOCK):
        rows = X[start : start + BLOCK]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows += centers[rng.integers(0, 1000, len(rows))]


def fit(folder, n_train):
    """Fit on random blocks of the file, in one pass."""
    X = np.load(folder / "vectors.npy", mmap_mode="r")
    encoder = SGHEncoder(64, batch_size=512, random_state=0)
    starts = np.random.default_rng(0).permutation(range(0, len(X), BLOCK))
    for start in starts[: -(-n_train // BLOCK)]:
        encoder.partial_fit(X[start : start + BLOCK])
    encoder.save(folder / "encoder")


def encode(folder):
    """Encode by the command line."""
    command = [sys.executable, "-m", "skhash", "encode", "--packed"]
    files = ["encoder", "vectors.npy", "codes.npy"]
    subprocess.run(command + [str(folder / name) for name in files], check=True)


def save_index(folder):
    """Make an index of the mapped codes and save it."""
    codes = np.load(folder / "codes.npy", mmap_mode="r")
    HammingNeighbors(packed=True).fit(codes).save(folder / "index")


def search(folder):
    """Open the index and search it."""
    start = time.perf_counter()
    index = HammingNeighbors.load(folder / "index")
    figures = {"ms to open": 1000 * (time.perf_counter() - start)}
    queries = np.array(index.packed_codes_[:1000])
    index.kneighbors(queries[:256], 10)
    start = time.perf_counter()
    index.kneighbors(queries, 10)
    figures["s of 1000 queries"] = time.perf_counter() - start
    (folder / "search.json").write_text(json.dumps(figures))


def allocated(pid):
    """Return the bytes that a process and its children have allocated."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += allocated(child)
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return total + 1024 * int(line.split()[1])
    return total


def measured(step, *arguments):
    """Run a step in a new process; return its seconds and its most memory."""
    process = multiprocessing.get_context("spawn").Process(target=step, args=arguments)
    start, most = time.perf_counter(), 0
    process.start()
    while process.is_alive():
        try:
            most = max(most, allocated(process.pid))
        except OSError:  # a process or thread has just ended
            pass
        process.join(0.02)
    if process.exitcode:
        raise SystemExit(f"{step.__name__} failed")
    return time.perf_counter() - start, most


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--train", type=int, default=1_000_000)
    add_output(parser)
    arguments = parser.parse_args(arguments)
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    path, shape = folder / "vectors.npy", (arguments.rows, arguments.features)
    if not path.exists() or np.load(path, mmap_mode="r").shape != shape:
        make_vectors(path, *shape)
    figures = {"GB of vectors": path.stat().st_size / 1e9}
    table = Table({"step": "", "seconds": ".1f", "MB": ".0f"}).printed()
    for what, step, given in (
        ("fit", fit, [arguments.train]),
        ("encode", encode, []),
        ("make and save the index", save_index, []),
        ("open and search", search, []),
    ):
        seconds, most = measured(step, folder, *given)
        table.add(what, seconds, most / 1e6)
    figures |= json.loads((folder / "search.json").read_text())
    print("\nSize, opening, and 1000 queries after a first call:", figures)
    data = f"{shape[0]:,} vectors of {shape[1]} float32, {arguments.train:,} to fit"
    save(arguments.output, {"Steps": table}, figures, seeds=[0], data=data)


if __name__ == "__main__":
    main()
