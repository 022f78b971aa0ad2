"""Fingerprints by Tanimoto similarity: beside FPSim2, RDKit, faiss and scikit-learn.

    python examples/benchmarks/jaccard.py --data synthetic --codes 20_000
    python examples/benchmarks/jaccard.py --data moses --codes 100_000 1_900_000

The molecules are those of MOSES (``pip install molsets --no-deps``), as Morgan
fingerprints of radius 2 and 2048 bits, which RDKit makes once and a file in
``--data-home`` keeps. Queries are molecules that are held out. FPSim2 is asked by the
function that its engine calls, within the bounds that the engine computes, so that its
times have no parsing of molecules. All take turns in one process on one thread:
microseconds a query are medians of three turns, of a batch and of single queries.
skhash and FPSim2 find the same, or the script stops. Of the codes RDKit searches at
most ``--sample``.
"""

import gzip
import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.neighbors import NearestNeighbors
from tools import Table, medians, options, save, seconds_of

from skhash import JaccardNeighbors
from skhash.metrics import search_recall_score

N_BITS, SEED, TURNS = 2048, 0, 3
THRESHOLDS, NEIGHBORS = (0.4, 0.6, 0.7, 0.8), (10, 1000)
FILES = "train", "test", "test_scaffolds"
HEAD = "codes :, | search | found :.1f | FPSim2, batch :.1f | skhash, batch :.1f | "
HEAD += "times :.1f | FPSim2, one :.0f | skhash, one :.0f | times, one :.1f"
LEFT = "codes :, | similarity | codes left, % :.1f | counts of ones left :.1f"


def molecules(n, data_home):
    """Return `n` Morgan fingerprints of MOSES, packed, in a random order."""
    path = Path(data_home or ".") / f"moses_morgan2_{N_BITS}.npy"
    if not path.exists():
        from rdkit import Chem, RDLogger
        from rdkit.Chem import rdFingerprintGenerator

        RDLogger.DisableLog("rdApp.*")
        (folder,) = importlib.util.find_spec("moses").submodule_search_locations
        smiles = []
        for name in FILES:
            file = Path(folder, "dataset", "data", f"{name}.csv.gz")
            lines = gzip.decompress(file.read_bytes()).decode().splitlines()
            smiles += [line.split(",")[0] for line in lines[1:]]
        made = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=N_BITS)
        order = np.random.default_rng(SEED).permutation(len(smiles))
        packed = np.empty((len(smiles), N_BITS // 8), dtype=np.uint8)
        for row, place in zip(packed, order, strict=True):
            molecule = Chem.MolFromSmiles(smiles[place])
            row[:] = np.packbits(made.GetFingerprintAsNumPy(molecule))
        np.save(path, packed)
    packed = np.load(path, mmap_mode="r")
    if n > len(packed):
        raise ValueError(f"There are {len(packed):,} molecules; ask for fewer.")
    return np.array(packed[:n])


def synthetic(n, data_home):
    """Return `n` made-up fingerprints: series of likes, few bits frequent in all."""
    rng = np.random.default_rng(SEED)
    frequency = 1 / np.arange(2, N_BITS + 2)
    frequency *= 45 / frequency.sum()
    series = rng.random((max(1, n // 200), N_BITS)) < np.minimum(frequency, 0.9)
    packed = np.empty((n, N_BITS // 8), dtype=np.uint8)
    for row, own in zip(packed, rng.integers(0, len(series), n), strict=True):
        kept = series[own] & (rng.random(N_BITS) < 0.7)
        row[:] = np.packbits(kept | (rng.random(N_BITS) < frequency / 3))
    return packed


DATA = {"moses": molecules, "synthetic": synthetic}


class FPSim2:
    """Codes in the order of their ones, in the array that FPSim2 searches."""

    def __init__(self, packed):
        from FPSim2.FPSim2lib import GenericSearch

        ones = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
        order = np.argsort(ones, kind="stable")
        self.rows = self.rows_of(packed[order], order)
        self.starts = np.searchsorted(ones[order], np.arange(N_BITS + 2))
        self.search = GenericSearch

    @staticmethod
    def rows_of(packed, numbers):
        ones = np.bitwise_count(packed).sum(axis=1, dtype=np.uint64)
        return np.column_stack([numbers.astype(np.uint64), packed.view("u8"), ones])

    def find(self, query, threshold=0.0, k=0):
        """Return numbers and similarities of what is found, the best ones first."""
        ones, span = int(query[-1]), (0, len(self.rows))
        if threshold:
            least = int(np.ceil(ones * threshold))
            most = min(int(ones / threshold), N_BITS)
            span = int(self.starts[least]), int(self.starts[most + 1])
        found = self.search(query, self.rows, threshold, k, 0, *span)
        return found[:k] if k else found


def searches(codes):
    """Yield the name of each search, and how skhash and FPSim2 do it."""
    index = JaccardNeighbors(packed=True, n_jobs=1).fit(codes)
    other = FPSim2(codes) if importlib.util.find_spec("FPSim2") else None
    for threshold in THRESHOLDS:
        ours = partial(index.radius_neighbors, radius=round(1 - threshold, 9))
        theirs = other and partial(other.find, threshold=threshold)
        yield f"{threshold} and more", ours, theirs
    for k in NEIGHBORS:
        ours = partial(index.kneighbors, n_neighbors=min(k, len(codes)))
        yield f"{k} nearest", ours, other and partial(other.find, k=k)


def compare(ours, theirs, queries):
    """Return how much is found, and the times of FPSim2, if it is there, and ours."""
    rows, times = FPSim2.rows_of(queries, np.arange(len(queries))), []
    distances, _ = ours(queries)
    if theirs:
        for own, row in zip(distances, rows, strict=True):
            np.testing.assert_allclose(own, 1 - theirs(row)["coeff"], atol=1e-6)
    for call in (lambda: ours(queries), lambda: [ours(one[None]) for one in queries]):
        calls = {"ours": call}
        if theirs:
            calls["theirs"] = lambda: list(map(theirs, rows))
        seconds = medians(calls, TURNS)
        mine, *other = (1e6 * one / len(queries) for one in seconds.values())
        times += [*other, mine, other[0] / mine] if other else [None, mine, None]
    return sum(map(len, distances)) / len(queries), *times


def bounds(codes):
    """Yield the share of codes, and of counts of ones, within the bound, by threshold.

    Queries are like the codes.
    """
    ones = np.bitwise_count(codes).sum(axis=1, dtype=np.int64)
    share, counts = np.bincount(ones) / len(ones), np.arange(ones.max() + 1)
    best = np.minimum.outer(counts, counts) / np.maximum.outer(counts, counts).clip(1)
    for threshold in THRESHOLDS:
        near = (best >= threshold) & (share > 0)
        yield threshold, 100 * share @ near @ share, share @ near.sum(axis=1)


def others(codes, queries, n_sample):
    """Yield other engines, how many codes they searched for 10, and their times."""
    exact = JaccardNeighbors(10, packed=True, n_jobs=1).fit(codes)
    _, truth = exact.kneighbors(queries)
    yield from faiss_candidates(codes, queries, truth)
    if importlib.util.find_spec("rdkit"):
        from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText

        as_rdkit = [CreateFromBinaryText(row.tobytes()) for row in codes[:n_sample]]
        some = [CreateFromBinaryText(row.tobytes()) for row in queries[:20]]

        def bulk():
            for query in some:
                scores = np.array(BulkTanimotoSimilarity(query, as_rdkit))
                np.argpartition(-scores, 10)[:10]

        seconds = medians({"": bulk}, TURNS)[""]
        yield "RDKit BulkTanimotoSimilarity", len(as_rdkit), 1e6 * seconds / 20, None
    bits = np.unpackbits(codes[: n_sample // 20], axis=1).astype(bool)
    asked = np.unpackbits(queries[:20], axis=1).astype(bool)
    plain = NearestNeighbors(n_neighbors=10, metric="jaccard", n_jobs=1).fit(bits)
    seconds = seconds_of(plain.kneighbors, asked)[0]
    yield "scikit-learn, metric='jaccard'", len(bits), 1e6 * seconds / 20, None


def faiss_candidates(codes, queries, truth):
    """Yield faiss's nearest by Hamming distance: how many of the 10 are among them."""
    import faiss

    faiss.omp_set_num_threads(1)
    flat = faiss.IndexBinaryFlat(N_BITS)
    flat.add(codes)
    for k in (10, 100):
        seconds, (_, found) = seconds_of(flat.search, queries, k)
        spent, recall = 1e6 * seconds / len(queries), search_recall_score(found, truth)
        yield f"faiss IndexBinaryFlat, {k} candidates", len(codes), spent, recall


def main():
    sizes = {"codes": [100_000, 1_900_000], "queries": 500, "sample": 100_000}
    parser = options(__doc__, data="moses", **sizes, data_home=None)
    arguments = parser.parse_args()
    JaccardNeighbors(packed=True).fit(np.zeros((1, 8), dtype=np.uint8))  # compiles
    found = Table(HEAD).printed()
    made = Table("codes :, | ones :.1f | made, s :.2f | bytes a code :.2f")
    left = Table(LEFT)
    beside = Table("engine | codes :, | microseconds :.0f | recall of the 10 :.3f")
    for n in arguments.codes:
        packed = DATA[arguments.data](n + arguments.queries, arguments.data_home)
        codes, queries = packed[:n].copy(), packed[n:].copy()
        index = JaccardNeighbors(packed=True, n_jobs=1)
        seconds, _ = seconds_of(index.fit, codes)
        ones = np.bitwise_count(codes).sum() / n
        made.rows.append([n, float(ones), seconds, index._store.nbytes / n])
        left.rows += [[n, f"{at} and more", *own] for at, *own in bounds(codes)]
        for name, ours, theirs in searches(codes):
            found.add(n, name, *compare(ours, theirs, queries))
        beside.rows += others(codes, queries, arguments.sample)
    data = f"{arguments.data}, {N_BITS} bits, 1 thread(s)"
    tables = {"Found": found, "Made": made.printed(), "Left_by_the_bound": left}
    tables["Other_engines"] = beside.printed()
    save(arguments.output, tables, seeds=[SEED], data=data)


if __name__ == "__main__":
    main()
