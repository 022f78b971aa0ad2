"""A billion codes of 64 bits on one machine: built from parts, saved, mapped, searched.

    python examples/benchmarks/billion.py FOLDER --codes 100_000_000
    python examples/benchmarks/billion.py FOLDER --codes 1_000_000_000

The codes are those of sums of two word vectors of GloVe by an SGH encoder, in files
``part-000.npy`` of 50 million codes each, which are made if they are not there (about
half an hour for a billion). Queries are words that are held out. There are two ways
to search on one machine:

* *whole*: an index takes in one part after the other by ``partial_fit`` and is saved;
  another process opens it by memory map, and compares queries with all codes.
* *parts*: each part is a separate index, with clusters, saved; another process opens
  them by memory map, asks one after the other, and merges the answers.

A last step spreads the parts over two Dask workers of this machine, kills one of them
while it searches, and checks that the answers stay the same.

Each step runs in a separate process, whose memory is what it allocated (RssAnon),
without the pages of mapped files. A billion codes take 8 GB of the folder for the parts
and 8 GB for the whole index, which takes 16 GB of memory for some seconds while it
grows; the indexes of the parts take 21 GB. Searches are as fast as here if the files
they read, 8 and 13 GB, stay in the memory that is free.

The *limit* of a single query that is compared with all codes is the time in which one
thread reads them once, measured by the sum of the words.
"""

import json
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from scale import measured
from tools import Table, WordCodes, columns, options, save, seconds_of

from skhash import HammingNeighbors, load
from skhash.neighbors import merge_neighbors

PART, N_BITS = 50_000_000, 64
BATCHES = 100, 1000
COLUMNS = columns("codes :, | way | step | seconds :.3g | MB :,.0f | bytes a code :.2f")


def note(folder, step, seconds, **more):
    """Keep a row of the table, for the process that prints it."""
    with open(folder / "rows.jsonl", "a", encoding="utf-8") as file:
        json.dump({"step": step, "seconds": seconds, **more}, file)
        file.write("\n")


def noted(folder):
    """Return the rows that were kept, and keep them no longer."""
    path = folder / "rows.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [json.loads(line) for line in lines]


def make_parts(folder, n_parts, data_home):
    """Write the parts that are missing, and queries."""
    words = WordCodes(N_BITS, 0, 10_000, data_home)
    np.save(folder / "queries.npy", words.queries)
    for part in range(n_parts):
        path = folder / f"part-{part:03}.npy"
        if path.exists():
            continue
        rng = np.random.default_rng(part)
        shape = PART, N_BITS // 8
        codes = np.lib.format.open_memmap(f"{path}.tmp", "w+", np.uint8, shape)
        start = 0
        for block in words.sums(PART, rng):
            codes[start : start + len(block)] = block
            start += len(block)
        codes.flush()
        os.replace(f"{path}.tmp", path)


def build(folder, n_codes):
    """Take in the parts, and save the index."""
    start = time.perf_counter()
    index = HammingNeighbors(packed=True)
    for first in range(0, n_codes, PART):
        part = np.load(folder / f"part-{first // PART:03}.npy", mmap_mode="r")
        index.partial_fit(part[: n_codes - first])
    note(folder, "parts taken in", time.perf_counter() - start)
    note(folder, "saved", seconds(index.save, folder / f"index-{n_codes}"))


def build_parts(folder, n_codes):
    """Make an index of each part that has none, with clusters, and save it."""
    for part in range(n_codes // PART):
        if (folder / f"clusters-{part:03}").exists():
            continue
        codes = np.load(folder / f"part-{part:03}.npy", mmap_mode="r")
        index = HammingNeighbors(packed=True).fit(codes)
        index.prepare(10**7).save(folder / f"clusters-{part:03}")


def search(folder, paths, n_codes, algorithm="auto"):
    """Open indexes by memory map, and search them one after the other."""
    queries = np.load(folder / "queries.npy")
    files = [file for path in paths for file in path.iterdir()]
    size = sum(file.stat().st_size for file in files)
    opening = partial(load, mmap=True, verify=False)
    opened, indexes = seconds_of(list, map(opening, paths))
    note(folder, "opened", opened, **{"bytes a code": size / n_codes})
    for index in indexes:
        index.set_params(algorithm=algorithm)
    starts = range(0, n_codes, n_codes // len(indexes))

    def nearest(some):
        found = [index.kneighbors(some, 10) for index in indexes]
        pairs = zip(found, starts, strict=True)
        return merge_neighbors([(away, at + start) for (away, at), start in pairs])

    def within(some):
        for index in indexes:
            index.radius_neighbors(some, 2)

    for name, ask in (("10 nearest", nearest), ("radius 2", within)):
        note(folder, f"first query, {name}", seconds(ask, queries[:1]))
        single = [seconds(ask, one[None]) for one in queries[1:20]]
        note(folder, f"one query, {name}", median(single))
        for n in BATCHES:
            note(folder, f"{n} queries, {name}", seconds(ask, queries[:n]))
    words = [index.packed_codes_.ravel().view(np.uint64) for index in indexes]
    read = median(seconds(lambda: [one.sum() for one in words]) for _ in range(3))
    note(folder, "limit: all codes read once", read)


def shards(folder, n_codes, n_queries):
    """Spread the parts over two workers, and kill one of them while it searches."""
    from distributed import Client, LocalCluster

    from skhash.distributed import ShardedNeighbors

    queries = np.load(folder / "queries.npy")[:n_queries]
    paths = [str(folder / f"part-{part:03}.npy") for part in range(n_codes // PART)]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        index = ShardedNeighbors(n_neighbors=10).fit(paths)
        note(folder, "first query", seconds(index.kneighbors, queries[:1]))
        single = [seconds(index.kneighbors, queries[i : i + 1]) for i in range(9)]
        note(folder, "one query, 10 nearest", median(single))
        spent, expected = seconds_of(index.kneighbors, queries)
        note(folder, f"{n_queries} queries, 10 nearest", spent)
        pid = min(client.run(os.getpid).values())
        threading.Timer(spent / 2, os.kill, [pid, signal.SIGKILL]).start()
        spent, found = seconds_of(index.kneighbors, queries)
        same = all(map(np.array_equal, found, expected))
        note(folder, f"{n_queries} queries, a worker killed", spent)
        if not same or pid in client.run(os.getpid).values():
            raise SystemExit("answers differ, or no worker was killed")


def seconds(function, *arguments):
    """Return how long a call takes."""
    return seconds_of(function, *arguments)[0]


def main():
    parser = options(__doc__, codes=1e8, data_home=None)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    folder, n_codes = arguments.folder, int(arguments.codes)
    folder.mkdir(parents=True, exist_ok=True)
    clusters = [folder / f"clusters-{part:03}" for part in range(n_codes // PART)]
    parts = f"{n_codes // PART} parts"
    steps = {
        "make": ("codes made", make_parts, [-(-n_codes // PART), arguments.data_home]),
        "build": ("whole", build, [n_codes]),
        "search": ("whole", search, [[folder / f"index-{n_codes}"], n_codes]),
        "build_parts": (parts, build_parts, [n_codes]),
        "search_parts": (parts, search, [clusters, n_codes, "pruned"]),
        "shards": ("2 Dask workers", shards, [n_codes, BATCHES[-1]]),
    }
    noted(folder)
    table = Table(COLUMNS).printed()
    for name, (way, step, given) in steps.items():
        spent, most = measured(step, folder, *given)
        whole = {"step": f"all of {name}", "seconds": spent, "MB": most / 1e6}
        for row in [*noted(folder), whole]:
            row |= {"codes": n_codes, "way": way}
            table.add(*(row.get(column) for column in COLUMNS))
    data = "codes of 64 bits, of sums of two GloVe word vectors"
    save(arguments.output, {"Steps": table}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
