"""Search by the first bits of nested codes: what it saves, and what it misses.

`PrefixNeighbors` beside `HammingNeighbors`, by the codes of one `NeighborHash` of GloVe
word vectors, one thread each::

    python examples/benchmarks/prefix_search.py
    python examples/benchmarks/prefix_search.py --bits 512 256 128 --prefixes 64 128

"of exact" is the share of the 10 nearest codes that is found, "10@10" that of the 10
nearest float vectors among these 10. "blocks" is about an exact search by prefixes. It
could pass over codes that differ from a query in as many of the first bits as its tenth
neighbour does in all: of the blocks of 256 codes that `HammingNeighbors` scans, the
share with a code that it must not pass over, even if that distance were known before.
"""

import argparse
import time

import numpy as np
from data_sets import load_glove
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import HammingNeighbors, NeighborHash
from skhash.codes import hamming_distances
from skhash.metrics import true_neighbors
from skhash.neighbors import PrefixNeighbors

K, BLOCK = 10, 256
N_TRAIN = 10_000
COLUMNS = {
    "bits": "",
    "prefix": "",
    "candidates": "",
    "seconds": ".3f",
    "times faster": ".1f",
    "of exact": ".3f",
    "10@10": ".3f",
    "blocks": ".3f",
}


def found_share(positions, truth):
    """Return the share of `truth` that is in `positions`."""
    return (positions[:, :, None] == truth[:, None, :]).any(axis=1).mean()


def timed(index, queries, repeats):
    """Return the answers, and the median of the seconds that they took."""
    index.kneighbors(queries[:1])
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        positions = index.kneighbors(queries, return_distance=False)
        seconds.append(time.perf_counter() - start)
    return positions, np.median(seconds)


def share_of_blocks(queries, codes, prefix_bits, reach):
    """Return the share of blocks with a code nearer than `reach` by the prefix."""
    n_bytes = prefix_bits // 8
    n_whole = len(codes) // BLOCK * BLOCK
    distances = hamming_distances(queries[:, :n_bytes], codes[:n_whole, :n_bytes])
    near = distances < reach[:, None]
    return near.reshape(len(queries), -1, BLOCK).any(axis=2).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[512])
    parser.add_argument("--prefixes", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--candidates", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    if any(m % 8 for m in arguments.prefixes):
        parser.error("prefixes are whole bytes")
    data = load_glove(data_home=arguments.data_home)
    vectors = data.query[: arguments.queries]
    print(describe(head()))
    table = Table(COLUMNS).printed()
    for n_bits in arguments.bits:
        measure(n_bits, vectors, data.database, arguments, table)
    about = (
        f"{len(data.database):,} codes, {len(vectors)} queries, one thread, medians "
    )
    about += f"of {arguments.repeats} searches"
    save(arguments.output, {"searches": table}, seeds=[0], data=about)


def measure(n_bits, vectors, database, arguments, table):
    """Add the rows of codes of one length."""
    rows = np.random.default_rng(0).permutation(len(database))[:N_TRAIN]
    encoder = NeighborHash(n_bits, random_state=0).fit(database[rows])
    queries, codes = (encoder.transform_packed(X) for X in (vectors, database))
    truth = true_neighbors(vectors, database, K)
    whole = HammingNeighbors(K, packed=True, n_jobs=1).fit(codes)
    reach = whole.kneighbors(queries)[0][:, -1]
    nearest, seconds = timed(whole, queries, arguments.repeats)
    recall = found_share(nearest, truth)
    table.add(n_bits, "all", None, seconds, 1.0, 1.0, recall, None)
    for m in (m for m in arguments.prefixes if m < n_bits):
        blocks = share_of_blocks(queries, codes, m, reach)
        for n_candidates in arguments.candidates:
            index = PrefixNeighbors(
                K, prefix_bits=m, n_candidates=n_candidates, packed=True, n_jobs=1
            )
            positions, taken = timed(index.fit(codes), queries, arguments.repeats)
            recalls = (found_share(positions, found) for found in (nearest, truth))
            cells = m, n_candidates, taken, seconds / taken, *recalls, blocks
            table.add(n_bits, *cells)


if __name__ == "__main__":
    main()
