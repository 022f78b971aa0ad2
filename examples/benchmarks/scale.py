"""Ten million vectors through memory maps: fit, encode, index, search.

The vectors are synthetic, 1000 clusters of Gaussian rows; what is measured is time and
memory, not quality. The file of 10 million float32 rows of 128 numbers takes 5.1 GB in
the folder, and is made if it is not there::

    python examples/benchmarks/scale.py FOLDER
    python examples/benchmarks/scale.py FOLDER --rows 1000000

With ``--engines Ray Spark`` two workers of each then encode and search the same vectors
as Parquet files, by ``examples/integrations/parquet_codes.py``; it fails unless they
answer as the index does. What ten billion rows take follows from these rates::

    python examples/benchmarks/scale.py FOLDER --features 96 --engines Ray Spark

Each step runs in a separate process. Its memory is that which the process allocated
(RssAnon, read every 20 ms), without the pages of mapped files, which the system keeps
as long as nobody else needs the room. Linux only, for that reading.
"""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tools import ROOT, Table, options, save, seconds_of

from skhash import HammingNeighbors, SGHEncoder, load
from skhash.neighbors import merge_neighbors

BLOCK, N_TRAIN = 100_000, 1_000_000
LARGE = 10_000_000_000
WORKERS = "engine | s to encode :.1f | rows a second :,.0f | s of 100 queries :.1f"
WORKERS += " | MB :,.0f | bytes a vector :.0f | bytes a code :.1f"
RECKONED = "engine | TB of vectors :.1f | GB of codes :.0f"
RECKONED += " | hours to encode :.1f | minutes of 100 queries :.0f"


def make_vectors(path, n_rows, n_features):
    """Write the file, a block at a time."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((1000, n_features), dtype=np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_features))
    for start in range(0, n_rows, BLOCK):
        rows = X[start : start + BLOCK]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows += centers[rng.integers(0, 1000, len(rows))]


def fit(folder):
    """Fit on random blocks of the file, in one pass."""
    X = np.load(folder / "vectors.npy", mmap_mode="r")
    encoder = SGHEncoder(64, batch_size=512, random_state=0)
    starts = np.random.default_rng(0).permutation(range(0, len(X), BLOCK))
    for start in starts[: N_TRAIN // BLOCK]:
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
    opening, index = seconds_of(load, folder / "index")
    queries = np.array(index.packed_codes_[:1000])
    index.kneighbors(queries[:256], 10)
    searching, _ = seconds_of(index.kneighbors, queries, 10)
    figures = {"ms to open": 1000 * opening, "s of 1000 queries": searching}
    (folder / "search.json").write_text(json.dumps(figures))


STEPS = {"fit": fit, "encode": encode}
STEPS |= {"make and save the index": save_index, "open and search": search}


def write_parquet(folder):
    """Write the vectors as Parquet files, with their positions as ids."""
    import pyarrow as pa
    from pyarrow import parquet

    X = np.load(folder / "vectors.npy", mmap_mode="r")
    shutil.rmtree(folder / "parquet", ignore_errors=True)
    (folder / "parquet/vectors").mkdir(parents=True)
    for start in range(0, len(X), 5 * BLOCK):
        rows = X[start : start + 5 * BLOCK]
        ids = np.arange(start, start + len(rows))
        rows = pa.FixedSizeListArray.from_arrays(rows.ravel(), X.shape[1])
        path = folder / f"parquet/vectors/{start:011}.parquet"
        parquet.write_table(pa.table({"id": ids, "x": rows}), path)


def use_workers(folder, name):
    """Encode and search the files by two workers, and compare with the index."""
    sys.path.append(str(ROOT / "examples/integrations"))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # that of the workers
    import parquet_codes

    engine = getattr(parquet_codes, name)()
    vectors, codes = folder / "parquet/vectors", folder / "parquet" / name
    places = map(str, (vectors, folder / "encoder", codes))
    encoding, _ = seconds_of(engine.encode, *places)
    index = load(folder / "index")
    paths, queries = sorted(codes.glob("*.parquet")), index.packed_codes_[:100]
    asked = [*map(str, paths)], queries, 10
    searching, answers = seconds_of(engine.search, *asked)
    found = merge_neighbors(answers, n_neighbors=10)
    if not all(map(np.array_equal, found, index.kneighbors(queries, 10))):
        raise SystemExit(f"{name}: other answers than those of the index")
    sizes = [sum(it.stat().st_size for it in of) for of in (vectors.iterdir(), paths)]
    figures = encoding, searching, *sizes
    (folder / "workers.json").write_text(json.dumps(figures))


def with_workers(folder, n_rows, engines):
    """Return tables of what the workers took, and would take of many more rows."""
    measured(write_parquet, folder)
    workers, reckoned = Table(WORKERS).printed(), Table(RECKONED)
    for name in engines:
        _, most = measured(use_workers, folder, name)
        figures = json.loads((folder / "workers.json").read_text())
        encode, search, vectors, codes = np.divide(figures, n_rows)
        spent = n_rows * encode, 1 / encode, n_rows * search
        workers.add(name, *spent, most / 1e6, vectors, codes)
        sizes = LARGE * vectors / 1e12, LARGE * codes / 1e9
        reckoned.rows.append([name, *sizes, LARGE * encode / 3600, LARGE * search / 60])
    return {"Two workers": workers, "Ten billion rows, reckoned": reckoned.printed()}


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


def main():
    parser = options(__doc__, rows=10_000_000, features=128)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", nargs="*", choices=["Ray", "Spark"], default=[])
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    path, shape = folder / "vectors.npy", (arguments.rows, arguments.features)
    if not path.exists() or np.load(path, mmap_mode="r").shape != shape:
        make_vectors(path, *shape)
    figures = {"GB of vectors": path.stat().st_size / 1e9}
    table = Table("step | seconds :.1f | MB :.0f").printed()
    for what, step in STEPS.items():
        seconds, most = measured(step, folder)
        table.add(what, seconds, most / 1e6)
    figures |= json.loads((folder / "search.json").read_text())
    print("\nSize, opening, and 1000 queries after a first call:", figures)
    tables = {"Steps": table}
    if arguments.engines:
        tables |= with_workers(folder, arguments.rows, arguments.engines)
    data = f"{shape[0]:,} vectors of {shape[1]} float32, {N_TRAIN:,} to fit"
    save(arguments.output, tables, figures, seeds=[0], data=data)


if __name__ == "__main__":
    main()
