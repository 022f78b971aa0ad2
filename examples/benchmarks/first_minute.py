"""The first minute of a new user: import, first answer, first audit.

    python examples/benchmarks/first_minute.py
    python examples/benchmarks/first_minute.py --rounds 1 --parts import

Each program runs in its own process, from the start of Python to its end, and they take
turns. *Cold* means that the folder of compiled code is empty; files are in the cache of
the operating system. *Warm* is the second run with that folder. Medians of the rounds.
The first answers are those of 100 of scikit-learn's digits among the other 1697 (for
Hamming distance, of 5 among 10,000 random codes). Absent libraries are left out.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_digits
from tools import Table, columns, options, save, seconds_of

SECONDS = columns("program | cold, s :.2f | warm, s :.2f")
# What first answers have before them: rows, queries and codes.
READ = "import numpy as np; X, Q = np.split(np.load('X.npy'), [-100]); "
READ += "C = np.load('C.npy'); "
# By part: programs by their names. The package that one needs is its second word.
PARTS = {
    "import": {
        "numpy": "import numpy",
        "skhash": "import skhash",
        "skhash, HammingNeighbors": "from skhash import HammingNeighbors",
        "skhash, HashedNeighbors": "from skhash import HashedNeighbors",
        "scikit-learn, neighbors": "import sklearn.neighbors",
        "faiss": "import faiss",
        "usearch": "import usearch.index",
        "sentence-transformers": "import sentence_transformers",
    },
    "first answer": {
        "skhash, HashedNeighbors(8)": "from skhash import HashedNeighbors; "
        "HashedNeighbors(8).fit(X).kneighbors(Q, 10)",
        "skhash, HammingNeighbors": "from skhash import HammingNeighbors; "
        "HammingNeighbors(10, packed=True).fit(C).kneighbors(C[:5])",
        "scikit-learn, NearestNeighbors": "from sklearn.neighbors import "
        "NearestNeighbors; NearestNeighbors().fit(X).kneighbors(Q, 10)",
        "faiss, PQ of 8 bytes": "import faiss; index = faiss.IndexPQ(64, 8, 8); "
        "index.train(X); index.add(X); index.search(Q, 10)",
        "faiss, bits": "import faiss; index = faiss.IndexBinaryFlat(64); "
        "index.add(C); index.search(C[:5], 10)",
        "usearch": "from usearch.index import Index; index = Index(ndim=64); "
        "index.add(np.arange(len(X)), X); index.search(Q, 10)",
        "sentence-transformers, semantic_search": "from sentence_transformers.util "
        "import semantic_search; semantic_search(Q, X, top_k=10)",
    },
    "first audit": {
        "skhash audit": "from skhash.cli._main import main; main(['audit', '--quiet'])"
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


def measure(part, rounds):
    """Return a table of the programs whose package is there; they take turns."""
    programs, before = PARTS[part], READ if part == "first answer" else ""
    packages = {name: it.split()[1].split(".")[0] for name, it in programs.items()}
    seconds = {name: [] for name, package in packages.items() if find_spec(package)}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), load_digits().data.astype(np.float32))
        codes = np.random.default_rng(0).integers(0, 256, (10_000, 8), dtype=np.uint8)
        np.save(Path(folder, "C.npy"), codes)
        for _ in range(rounds):
            for name, times in seconds.items():
                times.append(cold_and_warm(before + programs[name], folder))
    table = Table(SECONDS).printed()
    for name, times in seconds.items():
        table.add(name, *map(median, zip(*times, strict=True)))
    return table


def main():
    arguments = options(__doc__, rounds=5, parts=PARTS).parse_args()
    tables = {part: measure(part, arguments.rounds) for part in arguments.parts}
    save(arguments.output, tables, data="scikit-learn's digits, random codes")


if __name__ == "__main__":
    main()
