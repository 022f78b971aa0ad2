"""Kernels that are compiled before anything is timed."""

from functools import cache

import numpy as np

from skhash._audit._data import Split
from skhash._audit._measure import Task, measure_encoder
from skhash.linear import RandomHyperplaneHash
from skhash.metrics import true_neighbors

# Enough for every kernel that a measurement calls.
N_ROWS, N_COLUMNS, N_QUERIES, N_BITS = 256, 8, 64, 16


@cache
def compile_kernels(metric, dtype) -> None:
    """Measure a few random rows, so that kernels are compiled for this metric.

    Parameters
    ----------
    metric : str
    dtype : str
        The name of that of the vectors.
    """
    random = np.random.RandomState(0)
    rows = random.standard_normal((N_ROWS, N_COLUMNS)).astype(dtype)
    queries, places = rows[:N_QUERIES], np.arange(N_ROWS)
    data = Split(
        queries=queries,
        database=rows,
        train=rows,
        query_labels=None,
        database_labels=None,
        query_rows=places[:N_QUERIES],
        database_rows=places,
        n_rows=N_ROWS,
        float_bytes=4 * N_COLUMNS,
    )
    truth = true_neighbors(queries, rows, 1, metric=metric)
    encoder = RandomHyperplaneHash(N_BITS, random_state=0).fit(rows)
    measure_encoder(encoder, "lsh", None, Task(data, truth, 2, metric))
