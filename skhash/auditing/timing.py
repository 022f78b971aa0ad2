"""The seconds of a call; as a program, a search by faiss: ``python timing.py FOLDER``.

torch, scikit-learn and faiss each bring an OpenMP library along, and on macOS a process
that loads several of them may abort. So faiss runs in a separate process, and this
file imports nothing of skhash, which loads the others.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

# Shorter runs are repeated until this time has passed.
TIMED_SECONDS = 0.03


def seconds_of(call):
    """Return the result of a call and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def timed(call):
    """Return the result of a call and its seconds: the least of several short runs.

    It is called once before, which compiles its kernels. A single run of a millisecond
    says more about what else the machine does.
    """
    call()
    start = time.perf_counter()
    result, least = seconds_of(call)
    while time.perf_counter() - start < TIMED_SECONDS:
        least = min(least, seconds_of(call)[1])
    return result, least


def _search_by_faiss(folder):
    """Train, fill and search an index; write what it found, and its seconds."""
    import faiss

    train, database, queries = (
        np.load(folder / f"{name}.npy", mmap_mode="r")
        for name in ("train", "database", "queries")
    )
    task = json.loads((folder / "task.json").read_text())
    index = _make_index(faiss, train.shape[1], **task["index"])
    _, training = seconds_of(lambda: index.train(train))
    _, adding = seconds_of(lambda: index.add(database))
    _, searching = timed(lambda: index.search(queries, task["n_timed"]))
    np.save(folder / "found.npy", index.search(queries, task["n_found"])[1])
    seconds = {"training": training, "adding": adding, "searching": searching}
    (folder / "done.json").write_text(json.dumps([index.sa_code_size(), seconds]))


def _make_index(faiss, width, method, metric, n_parts, part_bits):
    """Return an index of product quantization, or of RaBitQ, which has no parts."""
    metric = getattr(faiss, metric)
    if method == "pq":
        index = faiss.IndexPQ(width, n_parts, part_bits, metric)
        index.pq.cp.min_points_per_centroid = 1  # prevents printed warnings
        return index
    if not hasattr(faiss, "IndexRaBitQ"):
        sys.exit(f"faiss {faiss.__version__} has none; update it")
    codes = faiss.IndexRaBitQ(width, metric)
    codes.qb = 8  # queries in eight bits a column, with no visible loss
    turn = faiss.RandomRotationMatrix(width, width)
    turn.init(0)
    return faiss.IndexPreTransform(turn, codes)


if __name__ == "__main__":
    _search_by_faiss(Path(sys.argv[1]))
