"""How the fit of `NeighborHash` grows with the rows that it finds neighbours among.

Rows are float16 in a memory map, mixtures of two base rows each with noise, of unit
length: of synthetic ones, or of embeddings of 20 Newsgroups with ``--data-home``::

    python examples/benchmarks/neighbor_growth.py
    python examples/benchmarks/neighbor_growth.py --data-home FOLDER --rows 10000 100000

Each fit runs in a new process, after a small one that compiles what is compiled.
Printed are the seconds of the whole fit; of its epochs, by ``history_``; of what comes
before (checks, start and graph); and of the product of the graph alone, made of random
blocks: 20 000 anchors by the rows and 128 columns, in float32. Memory is what
the fit allocates at most beyond what the process had before (RssAnon, read every 10
ms), without pages of the mapped file, which the system keeps as long as nobody else
needs the room. Linux only, for that reading.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from asymmetric_search import CHUNK, mixtures
from data_sets import load_20newsgroups
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import NeighborHash

N_BASE, N_COLUMNS, RANK = 10_000, 384, 64
ANCHORS, AXES, BLOCK = 20_000, 128, (256, 8192)
COLUMNS = {
    "rows": ",",
    "MB of the file": ".0f",
    "s of fit": ".1f",
    "epochs": ".1f",
    "before them": ".1f",
    "product alone": ".1f",
    "MB allocated at most": ".0f",
    "MB before": ".0f",
}


def base_rows(data_home, rng):
    if data_home is not None:
        return np.asarray(load_20newsgroups("minilm", data_home=data_home).train)
    rows = rng.normal(size=(N_BASE, RANK)) / np.sqrt(1 + np.arange(RANK))
    rows = rows @ rng.normal(size=(RANK, N_COLUMNS))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_rows(path, n_rows, data_home):
    rng = np.random.default_rng(0)
    base = base_rows(data_home, rng)
    shape = (n_rows, base.shape[1])
    X = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    for start in range(0, n_rows, CHUNK):
        X[start : start + CHUNK] = mixtures(base, min(CHUNK, n_rows - start), rng)


def allocated():
    """Return the bytes that this process has allocated."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


class Watch(threading.Thread):
    """Reads in turns how much is allocated, and keeps the most."""

    def __init__(self):
        super().__init__()
        self.most, self.ended = allocated(), threading.Event()

    def run(self):
        while not self.ended.wait(0.01):
            self.most = max(self.most, allocated())


def product_seconds(n_rows):
    """Return how long the products of the graph take by themselves."""
    rng = np.random.default_rng(0)
    queries, rows = (rng.normal(size=(n, AXES + 1)).astype(np.float32) for n in BLOCK)
    out = np.empty(BLOCK, dtype=np.float32)
    n_turns = 50
    start = time.perf_counter()
    for _ in range(n_turns):
        np.matmul(queries, rows.T, out=out)
    seconds = (time.perf_counter() - start) / n_turns
    return seconds * min(ANCHORS, n_rows) * n_rows / out.size


def measure(path, params):
    X = np.load(path, mmap_mode="r")
    NeighborHash(64, random_state=0).fit(X[:2000])
    watch, before = Watch(), allocated()
    watch.start()
    start = time.perf_counter()
    encoder = NeighborHash(64, random_state=0, **params).fit(X)
    seconds = time.perf_counter() - start
    watch.ended.set()
    watch.join()
    trained = sum(record["dur"] for record in encoder.history_)
    megabytes = path.stat().st_size, watch.most - before, before
    size, most, before = (1e-6 * it for it in megabytes)
    times = seconds, trained, seconds - trained, product_seconds(len(X))
    print(json.dumps([len(X), size, *times, most, before]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", help="folder of the embeddings")
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--params", type=json.loads, default={}, help="of NeighborHash")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    add_output(parser)
    args = parser.parse_args()
    if args.file is not None:
        return measure(args.file, args.params)
    print(describe(head()))
    table = Table(COLUMNS).printed()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        for n_rows in args.rows:
            write_rows(path, n_rows, args.data_home)
            # In a process of its own: memory that was used so far does not count.
            command = [sys.executable, __file__, "--file", str(path)]
            command += ["--params", json.dumps(args.params)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            table.add(*json.loads(done.stdout))
    data = "float16 rows of 384 columns, mixtures of two rows"
    return save(args.output, {"fits": table}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
