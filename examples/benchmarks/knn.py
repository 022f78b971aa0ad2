"""Hamming search: `HammingNeighbors` beside the other engines, as a table.

    python examples/benchmarks/knn.py --output knn.json
    python examples/benchmarks/knn.py --show knn.json --picture knn.png \\
        --output docs/results/knn.json
    python examples/benchmarks/knn.py --quick

The default takes some 12 minutes on two cores: the code length, the number of codes, k
and a radius are varied around a million codes of 64 bits and k = 10. What would begin
after ``--minutes`` is left out and named, as are engines that are not installed.
``--large`` adds ten million codes. Run it on an idle machine; the searches of a setting
take turns in one process, so that a busy neighbour harms all of them.

Codes are random bits, or *real*: SGH codes of GloVe words, and where there are not
enough words, codes of sums of two random words. Queries are words that are held out.

Recall is the share of the k nearest that is found. Codes as near as the k-th nearest
count as found, whichever of them come. Exact engines are checked to find all. The
*popcount limit* is what the machine reaches when it counts differing bits word by word,
without looking at the counts: a search that works that way cannot be faster. Ours does
not work that way.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import faiss
import joblib
import knn_engines
import numpy as np
from data_sets import load_glove
from growing_results import command, head
from knn_engines import APPROXIMATE, EXACT, GRAPHS, RADIUS, SLOW, SMALL, seconds_of
from knn_report import draw, save_tables, show

from skhash import SGHEncoder
from skhash.codes import hamming_distances
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.multi_index import MultiIndex

N_TRAIN = 20_000
# Turns of a search end when they have taken so long, but not before the second.
ENGINE_SECONDS = 6.0
# How long searches are asked at most before time is taken, and how long for each code:
# "auto" makes clusters once they would have saved what they cost, which grows with n.
WARM_UP_SECONDS, WARM_UP_PER_CODE = 6.0, 4e-6
# Single queries, and for how many seconds they are asked at most.
SINGLE, SINGLE_SECONDS = 100, 0.5
# The largest n of scikit-learn and of usearch's exact search: more takes minutes.
SMALL_N, MEDIUM_N = 10_000, 100_000

FIRST_QUERIES = {
    "ours": (
        "from skhash.neighbors import HammingNeighbors",
        "index = HammingNeighbors(packed=True).fit(codes)",
        "index.kneighbors(queries)",
    ),
    "faiss flat": (
        "import faiss",
        "index = faiss.IndexBinaryFlat(64); index.add(codes)",
        "index.search(queries, 5)",
    ),
    "scikit-learn brute": (
        "from sklearn.neighbors import NearestNeighbors",
        "index = NearestNeighbors(algorithm='brute', metric='hamming').fit(codes)",
        "index.kneighbors(queries)",
    ),
}


class Codes:
    """Random and real codes, and queries, of any length and number."""

    def __init__(self, n_queries, seed, data_home):
        self.n_queries, self.seed = n_queries, seed
        try:
            self.words = load_glove(n_queries=n_queries, data_home=data_home)
        except FileNotFoundError as error:
            print(f"Real codes are left out. {error}", file=sys.stderr)
            self.words = None
        self._encoders, self._made = {}, {}

    def get(self, *which):
        """Return packed codes and queries, by kind, length and number."""
        if which not in self._made:
            self._made[which] = self._make(*which)
        return self._made[which]

    def _make(self, kind, n_bits, n):
        rng = np.random.default_rng(self.seed)
        if kind == "random":
            rows = rng.integers(0, 256, (n + self.n_queries, n_bits // 8), np.uint8)
            return rows[self.n_queries :].copy(), rows[: self.n_queries].copy()
        if n_bits not in self._encoders:
            encoder = SGHEncoder(n_bits, random_state=self.seed)
            self._encoders[n_bits] = encoder.fit(self.words.train[:N_TRAIN])
        encoder, words = self._encoders[n_bits], self.words.database
        blocks = [encoder.transform_packed(words[:n])]
        for start in range(len(words), n, 100_000):
            pairs = rng.integers(0, len(words), (min(100_000, n - start), 2))
            sums = words[pairs[:, 0]] + words[pairs[:, 1]]
            sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
            blocks.append(encoder.transform_packed(sums))
        return np.concatenate(blocks), encoder.transform_packed(self.words.query)


def settings(arguments):
    """Yield (kind, n_bits, n, k, radius, engines), what matters most first."""
    center, kinds = arguments.n, arguments.kinds
    sizes = [n for n in (10_000, 100_000, 1_000_000) if n < center]
    for n in [*sizes, center]:
        for kind in kinds:
            engines = EXACT + (SMALL if n <= SMALL_N else [])
            if kind == "real" and (n in sizes[-1:] or n == center):
                slow = [] if n > MEDIUM_N else SLOW
                engines = engines + APPROXIMATE + slow + GRAPHS
            yield kind, 64, n, 10, None, engines
    for kind in kinds:
        yield kind, 64, center, None, 2, RADIUS
    for n_bits in (128,) if arguments.quick else (128, 256, 512):
        yield "random", n_bits, center, 10, None, EXACT
    if "real" in kinds and not arguments.quick:
        for n_bits in (128, 256):
            yield "real", n_bits, center, 10, None, EXACT
    if arguments.large:
        for kind in kinds:
            yield kind, 64, 10 * center, 10, None, EXACT[:3] + EXACT[-1:]
            yield kind, 64, 10 * center, None, 2, RADIUS
    for k in (100,) if arguments.quick else (100, 1000, 1):
        for kind in kinds:
            yield kind, 64, center, k, None, EXACT[:-1]


def recall(codes, queries, positions, truth, radius):
    """Return the share of the neighbours that is found.

    truth : (n_queries, k) distances of the nearest, or a list of positions within the
    radius.
    """
    if radius is not None:
        found = sum(map(len, map(np.intersect1d, positions, truth)))
        most = max(sum(map(len, positions)), sum(map(len, truth)))
        return found / most if most else 1.0
    positions = np.asarray(positions, dtype=np.int64)
    found = 0
    for query, row, nearest in zip(queries, positions, truth, strict=True):
        row = np.unique(row[(row >= 0) & (row < len(codes))])
        distances = hamming_distances(query[None], codes[row])[0]
        found += min(len(nearest), np.count_nonzero(distances <= nearest[-1]))
    return found / truth.size


def find_truth(codes, queries, k, radius):
    """Return what is to be found, by faiss."""
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    if radius is None:
        return index.search(queries, k)[0]
    starts, _, positions = index.range_search(queries, radius + 1)
    return np.split(positions, starts[1:-1].astype(np.int64))


class Comparison:
    """Measures setting by setting, and keeps the results."""

    def __init__(self, arguments):
        self.arguments, self.start = arguments, time.perf_counter()
        self.build_seconds = {}
        self.results = {"rows": [], "left_out": []}

    def minutes(self):
        return (time.perf_counter() - self.start) / 60

    def leave_out(self, what, why):
        self.results["left_out"].append(f"{what}: {why}")
        print(f"left out: {what}: {why}", file=sys.stderr)

    def build(self, makers, codes, k, radius, name):
        """Yield the engines that can be built in time, and the seconds of building."""
        for make in makers:
            rate = self.build_seconds.get(make.__name__, 0.0)
            if rate * len(codes) > self.arguments.build_seconds:
                self.leave_out(f"{make.__name__}, {name}", "takes long to build")
                continue
            try:
                task = codes, k, radius, self.arguments.threads
                seconds, engine = seconds_of(make, *task)
            except Exception as error:  # one engine must not end the whole run
                why = f"{type(error).__name__}: {error}"
                self.leave_out(f"{make.__name__}, {name}", why)
                continue
            self.build_seconds[make.__name__] = seconds / len(codes)
            yield make, engine, seconds

    def measure(self, codes, queries, n_bits, kind, k, radius, makers):
        asked = f"k={k}" if radius is None else f"radius={radius}"
        name = f"{kind}, {n_bits} bits, n={len(codes)}, {asked}"
        truth = find_truth(codes, queries, k, radius)
        rows, searches, times = [], {}, {}
        for make, engine, seconds in self.build(makers, codes, k, radius, name):
            for variant, search in engine.searches.items():
                try:
                    most = max(WARM_UP_SECONDS, WARM_UP_PER_CODE * len(codes))
                    answer = warm_up(search, queries, engine.warm_up, most)
                    found = None
                    if answer is not None:
                        found = recall(codes, queries, answer, truth, radius)
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"
                    self.leave_out(f"{variant}, {name}", why)
                    continue
                if make in EXACT and found is not None and found != 1:
                    raise AssertionError(f"{variant}, {name}: recall is {found}.")
                searches[variant], times[variant] = search, []
                n_bytes = engine.n_bytes()
                row = {
                    "kind": kind,
                    "bits": n_bits,
                    "n": len(codes),
                    "k": k,
                    "radius": radius,
                    "engine": variant,
                    "recall": found,
                    "build": seconds + engine.extra_seconds(),
                    "bytes": None if n_bytes is None else n_bytes / len(codes),
                }
                rows.append(row)
        for turn in range(self.arguments.repeats):
            for variant, search in searches.items():
                if turn < 2 or sum(times[variant]) < ENGINE_SECONDS:
                    # Threads of the turn before may spin on for a while.
                    time.sleep(0.05)
                    times[variant].append(seconds_of(search, queries)[0])
        for row in rows:
            row["seconds"] = sorted(times[row["engine"]])
            row["queries"] = len(queries)
            row["single"] = single_seconds(searches[row["engine"]], queries)
        self.results["rows"] += rows
        print(f"{self.minutes():5.1f} min  {name}", file=sys.stderr, flush=True)


def warm_up(search, queries, calls, most_seconds):
    """Search so many times, as long as that takes little time; return the answer."""
    start = time.perf_counter()
    for _ in range(calls):
        answer = search(queries)
        if time.perf_counter() - start > most_seconds:
            break
    return answer


def single_seconds(search, queries):
    """Return the median of the seconds of single queries."""
    search(queries[:1])
    seconds, start = [], time.perf_counter()
    for query in queries[:SINGLE]:
        seconds.append(seconds_of(search, query[None])[0])
        if time.perf_counter() - start > SINGLE_SECONDS:
            break
    return statistics.median(seconds)


def first_queries():
    """Yield name, cache, and seconds of imports, fit and first query in new processes.

    Ours runs twice: when nothing is compiled yet, and when it is kept on disk.
    """
    for name, (imports, fit, ask) in FIRST_QUERIES.items():
        program = (
            "import time; start = time.perf_counter(); import numpy as np;"
            f"{imports}; codes = np.zeros((1000, 8), np.uint8); queries = codes[:5];"
            f"imported = time.perf_counter(); {fit}; {ask};"
            "print(imported - start, time.perf_counter() - imported)"
        )
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            for cache in ("empty", "filled") if name == "ours" else ("none",):
                done = subprocess.run(
                    [sys.executable, "-c", program],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                )
                yield name, cache, *map(float, done.stdout.split())


def compile_kernels(threads):
    """Let numba compile everything, so that no time below holds that of compiling."""
    codes = np.random.default_rng(0).integers(0, 256, (2**16, 8), np.uint8)
    (algorithms,) = HammingNeighbors._parameter_constraints["algorithm"]
    for algorithm in algorithms.options:
        index = HammingNeighbors(10, algorithm=algorithm, packed=True, n_jobs=threads)
        index.fit(codes)
        for queries in (codes[:1], codes[:1000]):
            index.kneighbors(queries), index.radius_neighbors(queries)
    words = codes.view(np.uint64)
    tables, question = MultiIndex(words, 64), Question("within", 2)
    tables.make(question)
    tables.within(words[:10], question)
    for search in knn_engines.popcount_limit(codes, 10, None, 1).searches.values():
        search(codes[:10])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="codes at the centre")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", default=["random", "real"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=joblib.cpu_count())
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--build-seconds", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-home")
    parser.add_argument("--quick", action="store_true", help="a try, in seconds")
    parser.add_argument("--large", action="store_true", help="ten times as many, too")
    parser.add_argument(
        "--output", type=Path, help="a JSON file; with --show, of the documentation"
    )
    parser.add_argument("--show", type=Path, help="print the tables of such a file")
    parser.add_argument("--picture", type=Path, help="draw queries/s against n")
    arguments = parser.parse_args()
    if arguments.show:
        results = json.loads(arguments.show.read_text())
        save_tables(results, arguments.output)
    else:
        if arguments.quick:
            arguments.n, arguments.queries, arguments.repeats = 10_000, 100, 2
        results = run(arguments)
    show(results)
    if arguments.picture:
        draw(results, arguments.picture)


def run(arguments):
    faiss.omp_set_num_threads(arguments.threads)
    codes = Codes(arguments.queries, arguments.seed, arguments.data_home)
    comparison = Comparison(arguments)
    results = comparison.results
    results["head"] = {
        **head(),
        "commands": [command()],
        "threads": arguments.threads,
        "seed": arguments.seed,
        "faiss options": faiss.get_compile_options().strip(),
    }
    compile_kernels(arguments.threads)
    results["first"] = [] if arguments.quick else list(first_queries())
    for kind, n_bits, n, k, radius, makers in settings(arguments):
        if kind == "real" and codes.words is None:
            continue
        if comparison.minutes() > arguments.minutes:
            asked = f"k={k}, radius={radius}"
            comparison.leave_out(
                f"{kind}, {n_bits} bits, n={n}, {asked}", "time is over"
            )
            continue
        made, queries = codes.get(kind, n_bits, n)
        comparison.measure(made, queries, n_bits, kind, k, radius, makers)
        if arguments.output:
            arguments.output.write_text(json.dumps(results, indent=1))
    return results


if __name__ == "__main__":
    main()
