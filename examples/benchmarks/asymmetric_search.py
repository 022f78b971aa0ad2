"""Search with uncompressed queries among codes, beside faiss, at equal bytes.

All scores are compared, and ours are exact: those of float32 tables. The fast scan of
faiss rounds its own to 8 bits. Every search is of the same vectors, mixtures of two
embeddings of 20 Newsgroups each, with the test messages as queries::

    python examples/benchmarks/asymmetric_search.py --data-home FOLDER
    python examples/benchmarks/asymmetric_search.py --data-home FOLDER --n 100000
    python examples/benchmarks/asymmetric_search.py --memory
    python examples/benchmarks/asymmetric_search.py --shares FOLDER --n 10000000

Engines take turns in one process, and medians are printed: milliseconds a query, of
1000 queries at once and of single ones; and behind ours how often they answer in the
time of faiss, and how many bytes of codes a thread compares a second.
With ``NUMBA_CPU_NAME=haswell`` and ``NUMBA_CPU_FEATURES=+avx2,+avx,+fma,+popcnt`` set,
ours is compiled for AVX2 alone.
``--memory`` saves 10 million random codes of 32 bytes, opens them as a memory map and
searches them, and prints the largest resident memory beside the size of the files.

``--shares FOLDER`` is of mixtures of two GloVe vectors each, ten million by ``--n``,
coded in 16 bytes, with held-out vectors as queries. Recall is the share of the ten
nearest of all codes, by score, that a search of a share of the codes finds. Searches
take turns, and the least times are printed. The index is read from FOLDER, or made and
kept there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import faiss
import numpy as np
from sklearn.preprocessing import normalize
from tools import LOADERS, Table, medians, options, save, seconds_of, turns

from skhash import AdditiveQuantizer, ITQHash, load
from skhash.metrics import search_recall_score
from skhash.neighbors import AsymmetricNeighbors
from skhash.quantization import LinearDecoder

N_TRAIN, N_QUERIES, CHUNK, TURNS = 20_000, 1000, 50_000, 5
SEARCHES = (
    "bytes | k | search | ms of 1000 at once :.4f | ms of one :.3f | "
    "faiss / skhash of 1000 :.2f | faiss / skhash of one :.2f | "
    "GB/s a thread of 1000 :.0f | GB/s of one :.0f"
)
MEMORY = (
    "MB of files :.0f | nbytes_, MB :.0f | MB without :.0f | MB opened :.0f | "
    "MB at most :.0f | ms to open :.0f | 100 queries, s :.1f | then, s :.2f"
)


def mixtures(rows, n, rng):
    """Return unit vectors, each near a mixture of two rows."""
    vectors = np.empty((n, rows.shape[1]), dtype=np.float32)
    for start in range(0, n, CHUNK):
        some = vectors[start : start + CHUNK]
        first, second = rng.integers(0, len(rows), (2, len(some)))
        share = rng.uniform(0.5, 1, (len(some), 1))
        some[:] = share * rows[first] + (1 - share) * rows[second]
        some += 0.02 * rng.normal(size=some.shape)
        some /= np.linalg.norm(some, axis=1, keepdims=True)
    return vectors


def by_chunks(function, vectors):
    chunks = range(0, len(vectors), CHUNK)
    return np.concatenate([function(vectors[i : i + CHUNK]) for i in chunks])


def ours(vectors, n_bytes, block_bits, n_jobs):
    """Return an index of codes that are made quickly: they search the same.

    Blocks of 8 bits are those of a quantizer, others are bits of ITQ.
    """
    index = AsymmetricNeighbors(packed=True, n_jobs=n_jobs)
    if block_bits == 8:
        quantizer = AdditiveQuantizer(n_bytes, n_alternations=0, beam_width=1)
        quantizer.fit(vectors[:N_TRAIN])
        return index.fit(by_chunks(quantizer.transform, vectors), decoder=quantizer)
    encoder = ITQHash(8 * n_bytes, random_state=0).fit(vectors[:N_TRAIN])
    bits = encoder.transform(vectors[:N_TRAIN])
    decoder = LinearDecoder(block_bits=block_bits)
    decoder.fit(vectors[:N_TRAIN], bits)
    codes = by_chunks(encoder.transform_packed, vectors)
    return index.fit(codes, decoder=decoder)


def fast_scan(vectors, n_bytes):
    """Return an exhaustive index of faiss with codes of so many bytes."""
    index = faiss.IndexPQFastScan(vectors.shape[1], 2 * n_bytes, 4)
    index.train(vectors[:N_TRAIN])
    index.add(vectors)
    return index


def compare(args, n_bytes, vectors, queries, table):
    """Add the rows of so many bytes."""
    indexes = {
        f"blocks of {bits}": ours(vectors, n_bytes, bits, args.threads)
        for bits in args.block_bits
    }
    searches = {name: index.kneighbors for name, index in indexes.items()}
    faiss.omp_set_num_threads(args.threads)
    searches["IndexPQFastScan"] = fast_scan(vectors, n_bytes).search
    rounds = (queries, TURNS), (queries[:1], 10 * TURNS)
    for k in (10, 100):
        batch, single = (
            medians({it: partial(own, some, k) for it, own in searches.items()}, turns)
            for some, turns in rounds
        )
        for name in searches:
            each, one = batch[name] / len(queries), single[name]
            beside = [None] * 4
            if name in indexes:
                read = len(vectors) * (n_bytes + 1) / 1e9
                beside = [it["IndexPQFastScan"] / it[name] for it in (batch, single)]
                beside += [read / each / args.threads, read / one]
            table.add(n_bytes, k, name, 1e3 * each, 1e3 * one, *beside)


def most_resident():
    """Return the largest resident memory of this process so far, in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def report_memory(output, n=10_000_000, n_bytes=32):
    rng = np.random.default_rng(0)
    codebook = rng.normal(size=(n_bytes, 256, 64)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        codes = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
        index = AsymmetricNeighbors(packed=True)
        index.fit(codes, decoder=(codebook, np.zeros(64))).save(folder)
        # In a separate process: memory that was used so far does not count.
        command = [sys.executable, __file__, "--opened", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    table = Table(MEMORY, [json.loads(done.stdout)]).printed()
    data = f"{n:,} random codes of {n_bytes} bytes, decoded to 64 columns"
    save(output, {"Memory": table}, seeds=[0], data=data)


def search_opened(folder):
    own = most_resident()
    opened, index = seconds_of(load, folder, mmap=True, verify=False)
    queries = np.random.default_rng(1).normal(size=(100, 64))
    base = most_resident()
    first, again = (seconds_of(index.kneighbors, queries, 10)[0] for _ in range(2))
    most = most_resident()
    size = sum(os.path.getsize(entry) for entry in os.scandir(folder))
    megabytes = (1e-6 * it for it in (size, index.nbytes_, own, base, most))
    print(json.dumps([*megabytes, 1e3 * opened, first, again]))


SHARES = "threads | search_fraction | recall :.4f | ms of one :.3f"
SHARES += " | ms of 1000 at once :.3f"


def index_of_mixtures(rows, n, n_bytes):
    """Return an index of codes of mixtures, by a quick fit and search for codes."""
    rng = np.random.default_rng(0)
    train = mixtures(rows, min(n, 2 * CHUNK), rng)
    options = {"beam_width": 2, "max_train_samples": CHUNK}
    quantizer = AdditiveQuantizer(n_bytes, **options).fit(train)
    index = AsymmetricNeighbors(10, packed=True)
    codes = by_chunks(quantizer.transform, mixtures(rows, n, rng))
    return index.fit(codes, decoder=quantizer)


def report_shares(folder, data, args):
    rows, queries = (normalize(some) for some in (data.database, data.query))
    queries, ones = queries[:N_QUERIES], queries[:50, None]
    if not os.path.exists(folder):
        index_of_mixtures(rows, args.n, 16).save(folder)
    index, table = load(folder), Table(SHARES).printed()
    truth = index.kneighbors(queries, return_distance=False)

    def ask(share, queries):
        index.search_fraction = share
        return [index.kneighbors(some, return_distance=False) for some in queries]

    for index.n_jobs in sorted({1, args.threads}):
        ways = {it: partial(ask, it) for it in (1.0, 0.2, 0.1, 0.05, 0.02, 0.01)}
        one, batch = (
            turns({it: partial(way, some) for it, way in ways.items()}, n)
            for some, n in ((ones, 5 * TURNS), ([queries], TURNS))
        )
        for share, way in ways.items():
            recall = search_recall_score(*way([queries]), truth)
            least = min(one[share]) / len(ones), min(batch[share]) / len(queries)
            table.add(index.n_jobs, share, recall, *(1e3 * s for s in least))
    about = f"{index.n_samples_fit_:,} mixtures of two GloVe vectors each, 16 bytes"
    save(args.output, {"Shares": table}, seeds=[0], data=about)


def main():
    sizes = {"n": 1_000_000, "bytes": [8, 16, 32], "block_bits": [8, 4, 1]}
    sizes["threads"] = len(os.sched_getaffinity(0))
    parser = options(__doc__, **sizes, data_home=None, memory=False, shares=None)
    parser.add_argument("--opened", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.opened:
        return search_opened(args.opened)
    if args.memory:
        return report_memory(args.output)
    if args.shares:
        data = LOADERS["glove"](data_home=args.data_home)
        return report_shares(args.shares, data, args)
    data = LOADERS["minilm"](data_home=args.data_home)
    vectors = mixtures(np.asarray(data.train), args.n, np.random.default_rng(0))
    queries = np.asarray(data.query)[:N_QUERIES]
    table = Table(SEARCHES).printed()
    for n_bytes in args.bytes:
        compare(args, n_bytes, vectors, queries, table)
    about = f"{len(vectors):,} vectors of {vectors.shape[1]} columns, mixtures of two "
    about += f"MiniLM embeddings each, threads: {args.threads}"
    return save(args.output, {"Searches": table}, seeds=[0], data=about)


if __name__ == "__main__":
    main()
