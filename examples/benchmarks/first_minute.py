"""The first minute of a new user: import, first answer, first audit.

    python examples/benchmarks/first_minute.py
    python examples/benchmarks/first_minute.py --rounds 1 --parts import

Each program runs in its own process, from the start of Python to its end, and they take
turns. *Cold* means that the folder of compiled code is empty; files are in the cache of
the operating system. *Warm* is the second run with that folder. Medians of the rounds.
The first answers are those of 100 of scikit-learn's digits among the other 1697 (for
Hamming distance, of 5 among 10,000 random codes). Absent libraries are left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_digits
from tools import Table, add_output, columns, save, seconds_of

SECONDS = columns("program | cold, s :.2f | warm, s :.2f")
READ = "import numpy as np; X = np.load('X.npy'); X, Q = X[:-100], X[-100:]; "
CODES = "import numpy as np; C = np.load('C.npy'); "
# By part: programs by their names, with the package that each needs.
PARTS = {
    "import": {
        "numpy": ("numpy", "import numpy"),
        "skhash": ("skhash", "import skhash"),
        "skhash, HammingNeighbors": ("skhash", "from skhash import HammingNeighbors"),
        "skhash, HashedNeighbors": ("skhash", "from skhash import HashedNeighbors"),
        "scikit-learn, neighbors": ("sklearn", "import sklearn.neighbors"),
        "faiss": ("faiss", "import faiss"),
        "usearch": ("usearch", "import usearch.index"),
        "sentence-transformers": (
            "sentence_transformers",
            "import sentence_transformers",
        ),
    },
    "first answer": {
        "skhash, HashedNeighbors(8)": (
            "skhash",
            f"{READ}from skhash import HashedNeighbors; "
            "HashedNeighbors(8).fit(X).kneighbors(Q, 10)",
        ),
        "skhash, HammingNeighbors": (
            "skhash",
            f"{CODES}from skhash import HammingNeighbors; "
            "HammingNeighbors(10, packed=True).fit(C).kneighbors(C[:5])",
        ),
        "scikit-learn, NearestNeighbors": (
            "sklearn",
            f"{READ}from sklearn.neighbors import NearestNeighbors; "
            "NearestNeighbors().fit(X).kneighbors(Q, 10)",
        ),
        "faiss, PQ of 8 bytes": (
            "faiss",
            f"{READ}import faiss; index = faiss.IndexPQ(64, 8, 8); "
            "index.train(X); index.add(X); index.search(Q, 10)",
        ),
        "faiss, bits": (
            "faiss",
            f"{CODES}import faiss; index = faiss.IndexBinaryFlat(64); "
            "index.add(C); index.search(C[:5], 10)",
        ),
        "usearch": (
            "usearch",
            f"{READ}from usearch.index import Index; index = Index(ndim=64); "
            "index.add(np.arange(len(X)), X); index.search(Q, 10)",
        ),
        "sentence-transformers, semantic_search": (
            "sentence_transformers",
            f"{READ}from sentence_transformers.util import semantic_search; "
            "semantic_search(Q, X, top_k=10)",
        ),
    },
    "first audit": {
        "skhash audit": (
            "skhash",
            "from skhash.cli._main import main; main(['audit', '--quiet'])",
        ),
    },
}


def cold_and_warm(program, folder):
    """Return the seconds of the first and of the second run of a program."""
    with tempfile.TemporaryDirectory() as compiled:
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        given = {**os.environ, "NUMBA_CACHE_DIR": compiled, "PYTHONPATH": path}
        task = {"cwd": folder, "env": given, "check": True, "capture_output": True}
        command = [sys.executable, "-c", program]
        return [seconds_of(subprocess.run, command, **task)[0] for _ in range(2)]


def measure(programs, rounds):
    """Return a table of the programs, which take turns."""
    programs = {
        name: program
        for name, (package, program) in programs.items()
        if find_spec(package)
    }
    seconds = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), load_digits().data.astype(np.float32))
        codes = np.random.default_rng(0).integers(0, 256, (10_000, 8), dtype=np.uint8)
        np.save(Path(folder, "C.npy"), codes)
        for _ in range(rounds):
            for name, program in programs.items():
                seconds[name].append(cold_and_warm(program, folder))
    table = Table(SECONDS).printed()
    for name, times in seconds.items():
        table.add(name, *map(median, zip(*times, strict=True)))
    return table


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", default=[*PARTS], choices=PARTS)
    add_output(parser)
    arguments = parser.parse_args(arguments)
    tables = {part: measure(PARTS[part], arguments.rounds) for part in arguments.parts}
    save(arguments.output, tables, data="scikit-learn's digits, random codes")


if __name__ == "__main__":
    main()
