"""How recall falls as a database grows, and what smaller sizes say of larger ones.

    python examples/benchmarks/growth.py --output growth.json --data-home DATA_HOME
    python examples/benchmarks/growth.py --show growth.json --results FILE --draw

`AdditiveQuantizer` is fitted once to 100,000 vectors that the database does not hold,
but for the last size of MiniLM. Recall 10@N is the share of the ten nearest that are
among the first N of all codes, compared with uncompressed queries.

"Expected" is what the sizes up to 100,000 lead to expect of larger ones.
"""

import argparse
from collections import defaultdict
from functools import partial

import numpy as np
from scipy.special import expit, logit
from sklearn.frozen import FrozenEstimator
from tools import (
    LOADERS,
    ROOT,
    TITLES,
    Results,
    Table,
    add_files,
    finish,
    merged,
    panels,
    print_and_save,
)

from skhash import AdditiveQuantizer, HashedNeighbors
from skhash.metrics import true_neighbors

PICTURE = ROOT / "docs/images/growth.svg"
MOST_SEEN = 100_000  # vectors from which larger databases are foretold
SIZES = (10_000, 30_000, MOST_SEEN, 300_000, 1_000_000)
COLUMNS = (
    "data | bytes a code | vectors :,d | 10@10 :.3f | 10@100 :.3f | "
    "expected 10@10 :.3f | expected 10@100 :.3f"
)
CUTS = {"10@10": 10, "10@100": 100}


def measure(data, n_bytes, sizes, n_queries):
    """Return recalls by cut, a list of one for each size."""
    queries = data.query[:n_queries]
    quantizer = AdditiveQuantizer(n_bytes).fit(data.train)
    search = HashedNeighbors(FrozenEstimator(quantizer), metric=data.metric)
    recalls, start = {cut: [] for cut in CUTS}, 0
    for size in sizes:
        search.partial_fit(data.database[start:size])
        start = size
        found = search.kneighbors(queries, max(CUTS.values()), return_distance=False)
        rows = data.database[:size]
        truth = true_neighbors(queries, rows, 10, metric=data.metric)
        is_true = (found[:, :, None] == truth[:, None, :]).any(axis=2)
        for cut, n in CUTS.items():
            recalls[cut].append(float(is_true[:, :n].sum() / truth.size))
        print(f"{n_bytes} bytes, {size:,}: {recalls['10@10'][-1]:.3f}", flush=True)
    return {"sizes": sizes, "recalls": recalls}


def sizes_of(data):
    """Return the sizes to measure: the last is all there is."""
    n = len(data.database)
    return [size for size in SIZES if size < 0.9 * n] + [n]


def expected(sizes, recalls, n):
    """Return the recall among n vectors: its logit is linear in the logarithm of n."""
    slope, start = np.polyfit(np.log(sizes), logit(recalls), 1)
    return float(expit(start + slope * np.log(n)))
