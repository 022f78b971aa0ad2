"""The digits that come with scikit-learn, split for retrieval."""

import numpy as np

from skhash.datasets._bundle import RetrievalData

N_QUERIES = 297


def load_digits_retrieval() -> RetrievalData:
    """Load scikit-learn's digits, split into 1500 database rows and 297 queries.

    There are 1797 images of 8 x 8 grey values from 0 to 16. The split is stratified and
    always the same. The data set is small and easy: use it to try things out, not to
    compare methods.

    Returns
    -------
    data : RetrievalData
        Float32 rows of 64 values, with the digits as labels. `train` is the `database`.

    Examples
    --------
    >>> from skhash.datasets import load_digits_retrieval
    >>> data = load_digits_retrieval()
    >>> data.database.shape, data.query.shape
    ((1500, 64), (297, 64))
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    database, query, database_labels, query_labels = train_test_split(
        X.astype(np.float32), y, test_size=N_QUERIES, stratify=y, random_state=0
    )
    return RetrievalData(
        name="digits",
        metric="euclidean",
        train=database,
        database=database,
        query=query,
        train_labels=database_labels,
        database_labels=database_labels,
        query_labels=query_labels,
    )
