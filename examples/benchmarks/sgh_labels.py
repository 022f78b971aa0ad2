"""What a few labels add to SGHEncoder: retrieval by label, with partial labels.

Of the training rows a share, drawn at random, keeps its label; the others have -1.
Printed is the mean average precision of the held-out queries by label, over the whole
database, in expectation over the order of tied codes::

    python examples/benchmarks/sgh_labels.py digits fashion_mnist --seeds 0 1 2

Share 0 is SGHEncoder without labels.
"""

import argparse

import numpy as np
from data_sets import load_fashion_mnist
from growing_results import describe, head
from result_files import Table, add_output, save

from skhash import SGHEncoder
from skhash.datasets import load_digits_retrieval
from skhash.metrics import mean_average_precision_score
from skhash.neural import LabelPairs

LOADERS = {
    "digits": lambda data_home=None: load_digits_retrieval(),
    "fashion_mnist": load_fashion_mnist,
}


def precision(data, n_bits, share, seed, pair_weight):
    """Return the mean average precision of one fit."""
    encoder = SGHEncoder(n_bits, random_state=seed)
    if share > 0:
        encoder.set_params(pairs=LabelPairs(pair_weight))
    known = np.random.RandomState(seed).permutation(len(data.train))
    known = known < share * len(data.train)
    encoder.fit(data.train, np.where(known, data.train_labels, -1))
    return mean_average_precision_score(
        encoder.transform(data.query),
        encoder.transform(data.database),
        data.query_labels,
        data.database_labels,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", choices=LOADERS)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32])
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[0, 0.01, 0.05, 0.1, 1]
    )
    parser.add_argument("--pair-weight", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    print(describe(head()))
    formats = {"data": "", "bits": "", "labelled": ".0%", "mAP": ".3f"}
    table = Table(formats).printed()
    for name in arguments.data:
        data = LOADERS[name](data_home=arguments.data_home)
        for n_bits in arguments.bits:
            for share in arguments.shares:
                values = [
                    precision(data, n_bits, share, seed, arguments.pair_weight)
                    for seed in arguments.seeds
                ]
                spread = float(np.ptp(values)) / 2
                table.add(name, n_bits, share, [float(np.mean(values)), spread])
    save(arguments.output, {"found": table}, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
