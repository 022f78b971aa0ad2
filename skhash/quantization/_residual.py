"""A codebook to start from: k-means of what the blocks before leave of the rows."""

import numpy as np
from scipy import sparse

from skhash.numerics._affine import affine, in_panels
from skhash.numerics._projection import are_few, axes_of_few, column_means
from skhash.utils.chunks import dense_rows
from skhash.utils.threads import map_chunks, threads_for

# Rows that the codebook is made of, at most; in how many steps columns are added, and
# how often all centres move for each.
MAX_ROWS, N_STEPS, MAX_ITER = 2**16, 10, 3
# Rows that a thread compares with all centres at a time, at most.
CHUNK_ROWS = 1024
# Multiplications below which a thread does not pay.
MIN_THREAD_WORK = 2**22


def residual_codebook(
    X, n_blocks, block_bits, seed=0, n_jobs=None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a codebook that quantizes residuals, block by block.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    n_blocks : int
    block_bits : int
    seed : int
        Of the drawn rows and the first centres.
    n_jobs : int, default=None
        Threads; see `count_threads`.

    Returns
    -------
    codebook : ndarray of shape (n_blocks, 2**block_bits, n_features), float32
    offset : ndarray of shape (n_features,), float64
        The mean.
    """
    random_state = np.random.RandomState(seed)
    order = random_state.permutation(X.shape[0])[:MAX_ROWS]
    offset = column_means(X)
    rest = (dense_rows(X[np.sort(order)]) - offset).astype(np.float32)
    codebook = []
    for _ in range(n_blocks):
        entries, owners = kmeans(rest, 2**block_bits, random_state, n_jobs)
        codebook.append(entries.astype(np.float32))
        rest -= codebook[-1][owners]
    return np.stack(codebook), offset


def kmeans(rows, n_centers, random_state, n_jobs=None) -> tuple[np.ndarray, np.ndarray]:
    """Return centres, (n_centers, n_features), and the nearest one of each row.

    The rows are clustered by their first principal axis, from there by more and more of
    them, and by all in the end: a much better minimum than that of all from the start
    (progressive k-means). Centres without rows stay where they are. Of fewer rows than
    centres, each is one.
    """
    if len(rows) <= n_centers:
        return rows[np.arange(n_centers) % len(rows)], np.arange(len(rows))
    if are_few(rows):
        axes = axes_of_few(rows)
    else:
        axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    rows = rows @ axes
    n, n_axes = rows.shape
    centers = rows[random_state.choice(n, n_centers, replace=n < n_centers)]
    for n_used in np.unique((n_axes ** np.linspace(0, 1, N_STEPS)).astype(int)):
        for _ in range(MAX_ITER):
            owners = nearest(rows[:, :n_used], centers[:, :n_used], n_jobs)
            belongs = sparse.csr_array(
                (np.ones(n, np.float32), owners, np.arange(n + 1)), shape=(n, n_centers)
            )
            sizes = np.bincount(owners, minlength=n_centers)[:, None]
            means = (belongs.T @ rows) / np.maximum(sizes, 1)
            centers = np.where(sizes, means, centers)
    return centers @ axes.T, nearest(rows, centers, n_jobs)


def nearest(rows, centers, n_jobs=None) -> np.ndarray:
    centers = centers.astype(np.float32)
    panels, halves = in_panels(centers.T), np.square(centers).sum(axis=1) / 2
    threads = threads_for(rows.size * len(centers), MIN_THREAD_WORK, n_jobs)

    def work(chunk):
        return affine(rows[chunk], panels, -halves).argmax(axis=1)

    return np.concatenate(map_chunks(work, len(rows), CHUNK_ROWS, threads))
