"""Codes refined for asymmetric search, beside the encoder's own and product quantizers.

Recall 10@100 of exact Euclidean neighbours in Fashion-MNIST, by Hamming distance of the
codes ("symmetric") and by the distance of the real query to the decoded codes
("asymmetric"), in expectation over ties::

    python examples/benchmarks/refined_codes.py --bits 32 64

`LinearDecoder` has a vector for each bit, 10 alternations and 32 restarts, chosen on
held-out training rows, and 128 for the codes. faiss's product quantizer has a byte for
each of ``bits / 8`` parts, and asymmetric search only. Fits and database are the first
rows of a random order of the training images, queries are test images. "s" is processor
time, to fit and to encode both.
"""

import argparse
import contextlib
import time

import numpy as np
from data_sets import load_fashion_mnist
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import ITQHash, SGHEncoder
from skhash.linear import LinearDecoder
from skhash.metrics import neighbor_recall_score, true_neighbors
from skhash.neighbors import asymmetric_scores

ENCODERS = {"SGH": SGHEncoder, "ITQ": ITQHash}
CUT = 100
COLUMNS = {
    "bits": "",
    "codes": "",
    "symmetric": ".3f",
    "asymmetric": ".3f",
    "error": ".2f",
    "s": ".1f",
}


def score_recall(scores, truth):
    """Share of the true neighbours among the first by score."""
    first = np.argpartition(scores, CUT, axis=1)[:, :CUT]
    found = [np.isin(*pair).mean() for pair in zip(truth, first, strict=True)]
    return np.mean(found)


def measure_codes(name, decoder, codes, query_codes, database, queries, truth, start):
    """Return one row of the table."""
    seconds = time.process_time() - start
    n_bits = codes.shape[1]
    symmetric = neighbor_recall_score(query_codes, codes, truth, n_retrieved=CUT)
    scores = asymmetric_scores(queries, codes, decoder)
    error = decoder.reconstruction_error(database, codes).mean()
    asymmetric = score_recall(scores, truth)
    return n_bits, name, symmetric, asymmetric, error, seconds


def measure_quantizer(n_bits, database, queries, truth):
    """Return the row of faiss's product quantizer."""
    import faiss

    start = time.process_time()
    index = faiss.IndexPQ(database.shape[1], n_bits // 8, 8)
    index.train(database)
    index.add(database)
    seconds = time.process_time() - start
    decoded = index.reconstruct_n(0, len(database))
    error = np.square(database - decoded).sum(axis=1).mean()
    found = index.search(queries, CUT)[1]
    recalls = [np.isin(*pair).mean() for pair in zip(truth, found, strict=True)]
    return n_bits, "faiss PQ", None, np.mean(recalls), error, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--encoders", nargs="+", default=["SGH"], choices=ENCODERS)
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    data = load_fashion_mnist(data_home=arguments.data_home)
    order = np.random.RandomState(0).permutation(len(data.train))[: arguments.rows]
    database = np.ascontiguousarray(data.train[order], dtype=np.float32)
    queries = np.ascontiguousarray(data.query[: arguments.queries], dtype=np.float32)
    truth = true_neighbors(queries, database, 10)
    print(describe(head()))
    table = Table(COLUMNS).printed()
    for n_bits in arguments.bits:
        for name in arguments.encoders:
            start = time.process_time()
            encoder = ENCODERS[name](n_bits, random_state=0).fit(database)
            codes = encoder.transform(database), encoder.transform(queries)
            rest = database, queries, truth, start
            decoder = LinearDecoder(block_bits=1, n_alternations=0).fit(
                database, codes[0]
            )
            table.add(*measure_codes(name, decoder, *codes, *rest))
            decoder = LinearDecoder(block_bits=1, n_alternations=10, n_restarts=32)
            decoder.fit(database, codes[0])
            decoder.set_params(n_restarts=128)
            codes = [
                decoder.refine(rows, bits)
                for rows, bits in zip((database, queries), codes, strict=True)
            ]
            row = measure_codes(f"{name}, refined", decoder, *codes, *rest)
            table.add(*row)
        with contextlib.suppress(ImportError):
            table.add(*measure_quantizer(n_bits, database, queries, truth))
    data = f"Fashion-MNIST, {len(database):,} rows, {len(queries):,} queries"
    save(arguments.output, {"recalls": table}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
