"""Hamming search: `HammingNeighbors` beside the other engines, as a table.

    python examples/benchmarks/knn.py --large --output docs/results/knn.md
    python examples/benchmarks/knn.py --draw docs/results/knn.md \\
        --picture docs/images/knn.svg
    python examples/benchmarks/knn.py --quick
    python examples/benchmarks/knn.py --kinds random --bits 256 768 1024 3072 \\
        --queries 200 --output docs/results/long_codes.md

The default takes some 12 minutes on two cores: the code length, the number of codes, k
and a radius are varied around a million codes of 64 bits and k = 10. What would begin
after ``--minutes`` is left out and named, as are engines that are not installed.
``--large`` adds ten million codes. Run it on an idle machine; the searches of a setting
take turns in one process, so that a busy neighbour harms all of them.

Codes are random bits, or *real*: SGH codes of GloVe words, and where there are not
enough words, codes of sums of two random words. Queries are words that are held out.

Recall is the share of the k nearest that is found. Codes as near as the k-th nearest
count as found, whichever of them come. Exact engines are checked to find all. The
*popcount loop* is what the machine reaches when it counts differing bits word by word,
without looking at the counts: a baseline, and no bound, as ours works otherwise.
"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import product

import faiss
import joblib
import numpy as np
import tools
from numba import njit

from skhash.codes import hamming_distances
from skhash.neighbors import HammingNeighbors
from skhash.utils.kernels import popcount

# Turns of a search end when they have taken so long, but not before the second.
ENGINE_SECONDS = 6.0
# Seconds of building beyond which an engine is left out.
BUILD_SECONDS, SEED = 15.0, 0
# Single queries, and for how many seconds they are asked at most.
SINGLE, SINGLE_SECONDS = 100, 0.5
# The largest n of scikit-learn and of usearch's exact search: more takes minutes.
SMALL_N, MEDIUM_N = 10_000, 100_000
# Engines in the picture, and their colours.
DRAWN = {
    "ours": "#d62839",
    "popcount loop": "#888888",
    "faiss flat": "#3a86c8",
    "faiss knn_hamming": "#9b5de5",
    "faiss IVF, probes 64": "#2a9d5c",
    "faiss HNSW, ef 256": "#e08e0b",
}
FAISS = ("faiss flat", "faiss knn_hamming")
NAME = "{}, {} bits, n={}, {}"
SETTING = "codes | bits | n :, | asked | "
BESIDE = SETTING + (
    "ours, queries/s :,.0f | faiss, queries/s :,.0f | ratio :.1f | "
    "share of the popcount loop :.2f | one query, ms :.3f | faiss, ms :.3f"
)
ENGINES = SETTING + (
    "engine | queries/s :,.0f | times ours :.2f | best to best :.2f | "
    "one query, ms :.3f | recall :.3f | build, s :.2f | bytes a code :.1f"
)
CONSTANTS = (
    "bits | n :, | batches, ps a code and thread :.0f | one query, ps a code :.0f"
)


# Engines: each takes packed codes, k or None, a radius or None, and threads. It
# returns searches by name, which map queries to positions (-1 for none, or for a radius
# a list of arrays), and the bytes that the index takes, None where nobody can tell.

SLICE = 1024  # codes whose words stay in the first cache while queries pass
EXPECTED = 10**6  # queries, for which "auto" makes what pays


def bytes_of(part):
    """Return the bytes of all arrays that an object holds, each once."""

    def arrays(part):
        if isinstance(part, np.ndarray):
            return {part.ctypes.data: part.nbytes}
        part = getattr(part, "__dict__", part)
        part = list(part.values()) if isinstance(part, dict) else part
        inner = part if isinstance(part, tuple | list) else ()
        return {place: n for each in map(arrays, inner) for place, n in each.items()}

    return sum(arrays(part).values())


def ours(name, algorithm, codes, k, radius, threads):
    index = HammingNeighbors(k or 1, algorithm=algorithm, packed=True, n_jobs=threads)
    index.fit(codes).prepare(EXPECTED, radius=radius)

    def search(queries):
        if radius is None:
            return index.kneighbors(queries)[1]
        return index.radius_neighbors(queries, radius)[1]

    return {name: search}, bytes_of(index)


brute = partial(ours, "ours, brute", "brute")
auto = partial(ours, "ours", "auto")


def flat(codes, k, radius, threads):
    index = flat_index(codes)

    def search(queries):
        if radius is None:
            return index.search(queries, k)[1]
        return within(index, queries, radius)

    return {"faiss flat": search}, codes.nbytes


def flat_index(codes):
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    return index


def within(index, queries, radius):
    """Return the positions within a radius of each query."""
    starts, _, positions = index.range_search(queries, radius + 1)  # it is exclusive
    return np.split(positions, starts[1:-1].astype(np.int64))


def stateless(codes, k, radius, threads):
    search = {"faiss knn_hamming": lambda q: faiss.knn_hamming(q, codes, k)[1]}
    return search, codes.nbytes


def of_faiss(name, index, codes, k, settings, change):
    """Return searches by an index of faiss with each of some settings."""
    index.add(codes)

    def search(setting, queries):
        change(setting)
        return index.search(queries, k)[1]

    searches = {f"faiss {name} {it}": partial(search, it) for it in settings}
    return searches, faiss.serialize_index_binary(index).nbytes


def multi_hash(codes, k, radius, threads):
    n_bits, width = 8 * codes.shape[1], min(20, len(codes).bit_length() - 1)
    index = faiss.IndexBinaryMultiHash(n_bits, n_bits // width, width)
    change = partial(setattr, index, "nflip")
    return of_faiss("MultiHash, flips", index, codes, k, (0, 1), change)


def inverted(codes, k, radius, threads):
    n_bits, n_lists = 8 * codes.shape[1], 2 ** (len(codes).bit_length() // 2)
    quantizer = faiss.IndexBinaryFlat(n_bits)
    index = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
    index.train(codes[: 64 * n_lists])
    change = partial(setattr, index, "nprobe")
    return of_faiss("IVF, probes", index, codes, k, (8, 64), change)


def hnsw(codes, k, radius, threads):
    index = faiss.IndexBinaryHNSW(8 * codes.shape[1], 16)
    change = partial(setattr, index.hnsw, "efSearch")
    return of_faiss("HNSW, ef", index, codes, k, (64, 256), change)


def usearch_exact(codes, k, radius, threads):
    from usearch.index import MetricKind, ScalarKind, search

    def ask(queries):
        options = {"exact": True, "threads": threads, "dtype": ScalarKind.B1}
        found = search(codes, queries, k, MetricKind.Hamming, **options)
        return np.asarray(found.keys).reshape(len(queries), -1)

    return {"usearch exact": ask}, codes.nbytes


def usearch_graph(codes, k, radius, threads):
    from usearch.index import Index, MetricKind, ScalarKind

    options = {"metric": MetricKind.Hamming, "dtype": ScalarKind.B1}
    index = Index(ndim=8 * codes.shape[1], **options)
    index.add(np.arange(len(codes), dtype=np.uint64), codes, threads=threads)

    def search(ef, queries):
        index.expansion_search = ef
        found = index.search(queries, k, threads=threads)
        return np.asarray(found.keys).reshape(len(queries), -1)

    searches = {f"usearch graph, ef {ef}": partial(search, ef) for ef in (64, 256)}
    return searches, index.serialized_length


def pynear(codes, k, radius, threads):
    from pynear import MIHBinaryIndex

    index = MIHBinaryIndex(codes.shape[1] // 2)
    index.set(codes)

    def search(reach, queries):
        # It may find fewer than k.
        found = np.full((len(queries), k), -1)
        answers = index.searchKNN(queries, k, reach)[0]
        for row, positions in zip(found, answers, strict=True):
            row[: len(positions)] = positions
        return found

    searches = {f"PyNear multi-index, radius {r}": partial(search, r) for r in (8, 16)}
    return searches, None


def scikit_learn(codes, k, radius, threads):
    from sklearn.neighbors import NearestNeighbors

    bits = np.unpackbits(codes, axis=1)
    index = NearestNeighbors(algorithm="brute", metric="hamming", n_jobs=threads)
    index.fit(bits)

    def search(queries):
        queries = np.unpackbits(queries, axis=1)
        return index.kneighbors(queries, k, return_distance=False)

    return {"scikit-learn brute": search}, bits.nbytes


def popcount_loop(codes, k, radius, threads):
    """Count all differing bits, word by word, without looking at the counts."""
    words = np.ascontiguousarray(codes.view(np.uint64).T)
    pool = ThreadPoolExecutor(threads)

    def count(queries):
        chunks = np.array_split(queries.view(np.uint64), min(threads, len(queries)))
        list(pool.map(partial(count_all, words), chunks))

    return {"popcount loop": count}, None


@njit(nogil=True)
def count_all(words, queries):
    """Sum all distances; `words` has shape (n_words, n)."""
    total = np.uint64(0)
    n_words, n = words.shape
    for start in range(0, n, SLICE):
        stop = min(start + SLICE, n)
        for q in range(len(queries)):
            for w in range(n_words):
                query, row = queries[q, w], words[w, start:stop]
                for i in range(len(row)):
                    total += popcount(row[i] ^ query)
    return total


EXACT = [brute, auto, flat, stateless, popcount_loop]
RADIUS = [brute, auto, flat]
APPROXIMATE = [multi_hash, inverted, pynear]
# These take long to search, or to build.
SLOW, GRAPHS, SMALL = [usearch_exact], [hnsw, usearch_graph], [scikit_learn]

# Measures


@cache
def words(n_bits, n_queries, data_home):
    return tools.WordCodes(n_bits, SEED, n_queries, data_home)


def codes_of(kind, n_bits, n, arguments):
    """Return packed codes, random or real ones, and queries."""
    n_queries, rng = arguments.queries, np.random.default_rng(SEED)
    if kind == "random":
        rows = rng.integers(0, 256, (n + n_queries, n_bits // 8), np.uint8)
        return rows[n_queries:].copy(), rows[:n_queries].copy()
    real = words(n_bits, n_queries, arguments.data_home)
    return real.codes(n, rng), real.queries


def settings(arguments):
    """Yield (kind, n_bits, n, k, radius, engines), what matters most first."""
    center, kinds = arguments.n, arguments.kinds
    if arguments.bits:
        for n, n_bits in product((MEDIUM_N, center), arguments.bits):
            engines = EXACT + (SLOW if n <= MEDIUM_N else [])
            yield kinds[0], n_bits, n, 10, None, engines
        return
    sizes = [n for n in (10_000, 100_000, 1_000_000) if n < center]
    for n in [*sizes, center]:
        for kind in kinds:
            engines = EXACT + (SMALL if n <= SMALL_N else [])
            if kind == "real" and (n in sizes[-1:] or n == center):
                engines += APPROXIMATE + (SLOW if n <= MEDIUM_N else []) + GRAPHS
            yield kind, 64, n, 10, None, engines
    for kind in kinds:
        yield kind, 64, center, None, 2, RADIUS
    for n_bits in (128,) if arguments.quick else (128, 256, 512):
        for kind in kinds if n_bits < 512 else kinds[:1]:
            yield kind, n_bits, center, 10, None, EXACT
    for kind in kinds if arguments.large else ():
        yield kind, 64, 10 * center, 10, None, EXACT[:3] + EXACT[-1:]
        yield kind, 64, 10 * center, None, 2, RADIUS
    for k, kind in product((100,) if arguments.quick else (100, 1000, 1), kinds):
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
    index = flat_index(codes)
    if radius is None:
        return index.search(queries, k)[0]
    return within(index, queries, radius)


class Comparison:
    """Measures setting by setting, and keeps the tables."""

    def __init__(self, arguments):
        self.arguments, self.build_seconds = arguments, {}
        self.beside, self.engines = tools.Table(BESIDE), tools.Table(ENGINES)
        self.constants = tools.Table(CONSTANTS)
        self.left_out = tools.Table("left out | because")
        self.tables = {
            "Compared with the faster of faiss's exact searches": self.beside,
            "All engines": self.engines,
            "Cost of comparing one code": self.constants,
            "Left out": self.left_out,
        }

    def leave_out(self, what, why):
        self.left_out.rows.append([what, why])
        print(f"left out: {what}: {why}", file=sys.stderr)

    def build(self, makers, codes, k, radius, name):
        """Yield the engines that can be built in time, and the seconds of building."""
        for make in makers:
            what = getattr(make, "__name__", "ours")
            rate = self.build_seconds.get(make, 0.0)
            if rate * len(codes) > BUILD_SECONDS:
                self.leave_out(f"{what}, {name}", "takes long to build")
                continue
            try:
                task = codes, k, radius, self.arguments.threads
                seconds, made = tools.seconds_of(make, *task)
            except Exception as error:  # one engine must not end the whole run
                self.leave_out(f"{what}, {name}", f"{type(error).__name__}: {error}")
                continue
            self.build_seconds[make] = seconds / len(codes)
            yield make, *made, seconds

    def measure(self, codes, queries, setting, k, radius, makers):
        """Add the rows of one setting."""
        truth = find_truth(codes, queries, k, radius)
        rows, searches = {}, {}
        name = NAME.format(*setting)
        for make, own, size, seconds in self.build(makers, codes, k, radius, name):
            searches |= own
            for variant, search in own.items():
                answer, found = search(queries), None
                if answer is not None:
                    found = recall(codes, queries, answer, truth, radius)
                if make in EXACT and found not in (None, 1):
                    raise AssertionError(f"{variant}, {name}: recall is {found}.")
                rows[variant] = {"recall": found, "build": seconds, "bytes": size}
        calls = {it: partial(search, queries) for it, search in searches.items()}
        times = tools.turns(calls, self.arguments.repeats, ENGINE_SECONDS)
        for variant, row in rows.items():
            row["best"] = times[variant][0]
            row["median"] = statistics.median(times[variant])
            row["single"] = single_seconds(searches[variant], queries)
        self.add(setting, rows, len(queries))

    def add(self, setting, rows, n_queries):
        """Add measured engines to the tables."""
        ours, limit, n = rows["ours"], rows.get("popcount loop"), setting[2]
        peers = [rows[it] for it in FAISS if it in rows]
        peer = min(peers, key=lambda it: it["median"])
        rates = [n_queries / it["median"] for it in (ours, peer)]
        single = 1000 * ours["single"], 1000 * min(it["single"] for it in peers)
        ratios = [it and it["median"] / ours["median"] for it in (peer, limit)]
        self.beside.rows.append([*setting, *rates, *ratios, *single])
        for name, row in rows.items():
            cells = name, n_queries / row["median"], row["median"] / ours["median"]
            cells += row["best"] / ours["best"], 1000 * row["single"], row["recall"]
            size = row["bytes"] and row["bytes"] / n
            self.engines.rows.append([*setting, *cells, row["build"], size])
        if (setting[0], setting[3]) == ("random", "k = 10"):
            row, threads = rows["ours, brute"], self.arguments.threads
            batch = row["median"] * threads / n_queries
            picoseconds = (1e12 * it / n for it in (batch, row["single"]))
            self.constants.rows.append([setting[1], n, *picoseconds])


def single_seconds(search, queries):
    """Return the median of the seconds of single queries."""
    search(queries[:1])
    seconds, start = [], time.perf_counter()
    for query in queries[:SINGLE]:
        seconds.append(tools.seconds_of(search, query[None])[0])
        if time.perf_counter() - start > SINGLE_SECONDS:
            break
    return statistics.median(seconds)


def read_curves(path):
    """Return what `draw` needs of a file of results."""
    return [
        (row["codes"], int(row["bits"]), int(row["n"].replace(",", "")), row["asked"],
         row["engine"], float(row["queries/s"].replace(",", "")), row["recall"])
        for row in tools.read_table(path, "All engines")
    ]  # fmt: skip


def draw(curves, path):
    """Draw queries/s against n, for random and real codes side by side."""
    curves = [row for row in curves if row[1] == 64 and row[3] == "k = 10"]
    kinds = list(dict.fromkeys(row[0] for row in curves))
    titles = [f"{kind} codes, 64 bits, k = 10" for kind in kinds]
    figure, axes = tools.panels(titles, size=(4.5, 4.4), sharey=True)
    for ax, kind in zip(axes, kinds, strict=True):
        for engine, color in DRAWN.items():
            own = sorted(it[2:] for it in curves if (it[0], it[4]) == (kind, engine))
            if own:
                sizes, _, _, rates, recalls = zip(*own, strict=True)
                recall = float(recalls[-1] or 1)
                label = engine if recall == 1 else f"{engine} (recall {recall:.2f})"
                style = {"linewidth": 3.5 if engine == "ours" else 1.5, "color": color}
                ax.loglog(sizes, rates, "o-", label=label, **style)
        ax.set(xlabel="codes")
    axes[0].set_ylabel("queries a second")
    tools.finish(figure, path)


def parse():
    sizes = {"n": 1_000_000, "queries": 1000, "kinds": ["random", "real"]}
    spent = {"repeats": 7, "threads": joblib.cpu_count(), "minutes": 12.0}
    ways = {"data_home": None, "quick": False, "large": False, "picture": None}
    parser = tools.options(__doc__, **sizes, **spent, **ways, draw=None)
    parser.add_argument("--bits", type=int, nargs="+", help="these lengths alone")
    if parser.parse_args().quick:
        parser.set_defaults(n=10_000, queries=100, repeats=2)
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.draw:
        return draw(read_curves(arguments.draw), arguments.picture)
    faiss.omp_set_num_threads(arguments.threads)
    comparison, start = Comparison(arguments), time.perf_counter()
    for kind, n_bits, n, k, radius, makers in settings(arguments):
        setting = kind, n_bits, n, f"k = {k}" if radius is None else f"radius {radius}"
        minutes = (time.perf_counter() - start) / 60
        print(f"{minutes:5.1f} min ", *setting, file=sys.stderr, flush=True)
        if minutes > arguments.minutes:
            comparison.leave_out(NAME.format(*setting), "time is over")
            continue
        try:
            made, queries = codes_of(kind, n_bits, n, arguments)
        except FileNotFoundError as error:
            comparison.leave_out(NAME.format(*setting), str(error))
            continue
        comparison.measure(made, queries, setting, k, radius, makers)
    for table in comparison.tables.values():
        table.printed()
    options = faiss.get_compile_options().strip()
    data = f"{arguments.threads} threads, faiss built for {options}"
    tools.save(arguments.output, comparison.tables, seeds=[SEED], data=data)
    if arguments.picture:
        curves = [(*row[:6], row[9]) for row in comparison.engines.rows]
        draw(curves, arguments.picture)


if __name__ == "__main__":
    main()
