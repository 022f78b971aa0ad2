"""The smallest products, where many are equal."""

import numpy as np
import torch
from cases import each

from skhash.numerics._nearest import smallest_products


@each("chunk", [7, 64, 300])
def test_of_equal_products_those_of_the_first_rows_are_found(chunk):
    rng = np.random.default_rng(0)
    queries, rows = (
        torch.from_numpy(rng.integers(-1, 2, (n, 3)).astype(np.float32))
        for n in (20, 300)
    )
    every = (queries @ rows.T).numpy()
    for k in (1, 50, 300):
        keys, found = smallest_products(
            queries, rows.split(chunk), k, torch.device("cpu")
        )
        expected = np.argsort(every, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(keys, np.take_along_axis(every, expected, 1))
