"""A billion codes of 64 bits on one machine: built from parts, saved, mapped, searched.

    python examples/benchmarks/billion.py FOLDER --codes 100_000_000
    python examples/benchmarks/billion.py FOLDER --codes 1_000_000_000

The codes are those of sums of two word vectors of GloVe by an SGH encoder, in files
``part-000.npy`` of 50 million codes each, which are made if they are not there (about
half an hour for a billion). Queries are words that are held out. An index takes in one
part after the other by ``partial_fit`` and is saved; another process opens it by memory
map and searches it. Each step runs in a process of its own, whose memory is what it
allocated (RssAnon), without the pages of mapped files. A billion codes take 16 GB of
the folder, parts and index, and 16 GB of memory for some seconds while the index grows;
searches want 8 GB that is free for the system to keep the file in.

The *limit* beside a single query is the time in which one thread reads all codes from
memory once, measured beside it by the sum of the words.
"""

import argparse
import datetime
import os
import platform
import time
from pathlib import Path
from statistics import median

import numpy as np
from scale import measured

import skhash
from skhash import HammingNeighbors, SGHEncoder
from skhash.datasets import load_glove

PART, BLOCK, N_BITS = 50_000_000, 250_000, 64


def make_parts(folder, n_parts, data_home):
    """Write the parts that are missing, and queries."""
    words = load_glove(n_queries=10_000, data_home=data_home)
    encoder = SGHEncoder(N_BITS, random_state=0).fit(words.train[:20_000])
    np.save(folder / "queries.npy", encoder.transform_packed(words.query))
    for part in range(n_parts):
        path = folder / f"part-{part:03}.npy"
        if path.exists():
            continue
        rng = np.random.default_rng(part)
        shape = PART, N_BITS // 8
        codes = np.lib.format.open_memmap(f"{path}.tmp", "w+", np.uint8, shape)
        for start in range(0, PART, BLOCK):
            pairs = rng.integers(0, len(words.database), (2, BLOCK))
            sums = words.database[pairs[0]] + words.database[pairs[1]]
            sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
            codes[start : start + BLOCK] = encoder.transform_packed(sums)
        codes.flush()
        os.replace(f"{path}.tmp", path)


def build(folder, n_codes):
    """Take in the parts, and save the index."""
    start = time.perf_counter()
    index = HammingNeighbors(packed=True)
    for first in range(0, n_codes, PART):
        part = np.load(folder / f"part-{first // PART:03}.npy", mmap_mode="r")
        index.partial_fit(part[: n_codes - first])
    print(f"  taken in: {time.perf_counter() - start:.1f} s", flush=True)
    start = time.perf_counter()
    index.save(folder / f"index-{n_codes}")
    print(f"  saved: {time.perf_counter() - start:.1f} s", flush=True)


def search(folder, n_codes, batches):
    """Open the index by memory map and search it."""
    path = folder / f"index-{n_codes}"
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"  {size / n_codes:.2f} bytes a code on the disk")
    queries, start = np.load(folder / "queries.npy"), time.perf_counter()
    index = HammingNeighbors.load(path, mmap=True, verify=False)
    print(f"  opened: {1000 * (time.perf_counter() - start):.1f} ms", flush=True)
    words = index.packed_codes_.ravel().view(np.uint64)
    start = time.perf_counter()
    index.kneighbors(queries[:1], 10)
    print(f"  first query, cold: {time.perf_counter() - start:.2f} s", flush=True)
    for name, ask in (
        ("10 nearest", lambda some: index.kneighbors(some, 10)),
        ("radius 2", lambda some: index.radius_neighbors(some, 2)),
    ):
        single, limit = [], []
        for i in range(7):
            single.append(seconds(ask, queries[i : i + 1]))
            limit.append(seconds(np.add.reduce, words))
        print(
            f"  {name}: one query {1000 * median(single):.0f} ms, reading all codes "
            f"{1000 * median(limit):.0f} ms",
            flush=True,
        )
        for n_queries in batches:
            spent = seconds(ask, queries[:n_queries])
            print(f"  {name}: {n_queries} queries {spent:.1f} s", flush=True)


def seconds(function, *arguments):
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--codes", type=lambda text: int(float(text)), default=10**8)
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--only", choices=["make", "build", "search"])
    parser.add_argument("--data-home")
    arguments = parser.parse_args()
    folder, n_codes = arguments.folder, arguments.codes
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy "
        f"{np.__version__}, skhash {skhash.__version__}; {n_codes:,} codes"
    )
    steps = {
        "make": (make_parts, [-(-n_codes // PART), arguments.data_home]),
        "build": (build, [n_codes]),
        "search": (search, [n_codes, arguments.batches]),
    }
    for name, (step, what) in steps.items():
        if arguments.only in (None, name):
            spent, most = measured(step, folder, *what)
            print(f"{name}: {spent:.1f} s, {most / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
