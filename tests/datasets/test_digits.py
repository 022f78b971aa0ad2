import numpy as np

from skhash.datasets import load_digits_retrieval


def test_digits_are_split_once_and_for_all():
    data = load_digits_retrieval()
    assert data.database.shape == (1500, 64) and data.query.shape == (297, 64)
    assert data.database.dtype == np.float32 and data.train is data.database
    counts = np.bincount(data.query_labels)
    assert counts.min() >= 28 and counts.max() <= 31
    np.testing.assert_array_equal(load_digits_retrieval().query, data.query)
