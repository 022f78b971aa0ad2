"""How long a newcomer waits: imports, and first answers where nothing is compiled.

Each answer is the first of a process of its own, with an empty folder for compiled
kernels, and again in a second process, which finds them there. Codes are random, 10,000
of 64 bits.

    python examples/benchmarks/cold_start.py [--package FOLDER]

The limit of an import is that of scikit-learn, whose time is left out; that of a first
answer is the second process. Other work on the machine makes all of it longer.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from growing_results import describe, head
from result_files import Table, add_output, save

SKLEARN = "import sklearn.base, sklearn.model_selection, sklearn.preprocessing"
IMPORTS = (
    "import numba",
    "import skhash",
    "from skhash import HammingNeighbors",
    "from skhash.neighbors import HammingNeighbors",
    "from skhash import metrics",
)
IMPORT = """
from time import perf_counter
{}
start = perf_counter()
{}
print(perf_counter() - start)
"""
ANSWERS = {
    "nearest of 5 queries": "index.kneighbors(queries[:5])",
    "nearest of 500 queries": "index.kneighbors(queries)",
    "within a radius of 5 queries": "index.radius_neighbors(queries[:5], radius=10)",
    "within a radius of 500 queries": "index.radius_neighbors(queries, radius=10)",
    "pairs within a radius": "radius_pairs(codes, 3, packed=True)",
    "groups of duplicates": "duplicate_groups(codes, 3, packed=True)",
    "first row of an audit": "first_row()",
}
ANSWER = """
from time import perf_counter
import numpy as np
from sklearn.datasets import load_digits
import skhash
from skhash.neighbors import HammingNeighbors, duplicate_groups, radius_pairs

def first_row():
    skhash.audit(*load_digits(return_X_y=True), n_bits=[16], methods=["sgh"])

random = np.random.default_rng(0)
codes = random.integers(256, size=(10_500, 8), dtype=np.uint8)
codes, queries = np.split(codes, [10_000])
index = HammingNeighbors(10, packed=True).fit(codes)
start = perf_counter()
{}
print(perf_counter() - start)
"""


def seconds(program, package, cache):
    """Run a program in a process of its own; return the seconds that it prints."""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)},
        cwd=cache,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(answer.stdout.split()[-1])


def measure_imports(package):
    """Return the seconds of scikit-learn's import, and a table of ours beyond them."""
    with tempfile.TemporaryDirectory() as cache:

        def import_seconds(before, line):
            program = IMPORT.format(before, line)
            return median(seconds(program, package, cache) for _ in range(5))

        base = import_seconds("", SKLEARN)
        print(f"The import of scikit-learn takes {base:.2f} s.")
        table = Table({"import": "", "s beyond scikit-learn's": ".2f"}).printed()
        for line in IMPORTS:
            table.add(f"`{line}`", import_seconds(SKLEARN, line))
    return base, table


def measure_answers(package):
    columns = {"first answer": "", "nothing compiled, s": ".2f", "compiled, s": ".2f"}
    table = Table(columns).printed()
    for name, call in ANSWERS.items():
        with tempfile.TemporaryDirectory() as cache:
            program = ANSWER.format(call)
            table.add(name, *(seconds(program, package, cache) for _ in range(2)))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--package", type=Path, default=here, help="a checkout")
    add_output(parser)
    arguments = parser.parse_args()
    package = arguments.package.resolve()
    print(describe(head()))
    base, imports = measure_imports(package)
    tables = {"imports": imports, "answers": measure_answers(package)}
    save(arguments.output, tables, {"sklearn_import": base}, seeds=[0])


if __name__ == "__main__":
    main()
