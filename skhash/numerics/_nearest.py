"""Nearest rows: the smallest keys, which are products in float32, and exact answers.

A *key* orders rows by distance from a query. Graphs of training rows use keys as they
come out in float32. `exact_neighbors` gives rows *lower bounds* of their keys instead:
a product errs by at most ``u d |x| |y|``, u being the unit roundoff and d the number of
features. The rows of smallest bound are measured again in float64. They hold the answer
if the k-th distance among them is below every bound outside; else more of them are
measured. So the answer is proven, not only likely.
"""

import numpy as np
from scipy import sparse

from skhash.utils.arrays import times_powers_of_two, with_safe_squares
from skhash.utils.chunks import dense_rows, row_chunks
from skhash.utils.lazy import LateModule, torch
from skhash.utils.torch import resolve_device

_kernels = LateModule("skhash.numerics._nearest_kernels")

# How many rows queries are compared with at a time, if these are not wide.
CHUNK_ROWS = 8192
# Keys of this many bytes are held at a time: they stay in a processor's cache.
TABLE_BYTES = 2**23
# The kernel moves entries of a list one by one; above this length torch selects.
LONGEST_LIST = 2**10
# Exact neighbours: candidates beyond k, so that few queries need a second look, by what
# their number grows in each look, and the bytes of candidates that are held at a time.
MARGIN, GROWTH, CANDIDATE_BYTES = 32, 4, 2**27
FLOAT32 = 2.0**-24
REDUCED = 2.0**-8  # where torch may multiply in TF32 or bfloat16
# Squares of magnitudes up to this power of two, and from its inverse on, and sums of
# them, are far from the ends of float64.
SAFE_EXPONENT = 300


def smallest_products(queries, others, n_smallest, device, omit=None):
    """Find the smallest products of each query with other rows.

    Parameters
    ----------
    queries : {Tensor, CSR array} of shape (n_queries, n_columns), float32
    others : iterable of {Tensor, CSR array} of shape (n_rows, n_columns), float32
        Chunks of the other rows, the first of which is the largest.
    n_smallest : int
        How many to find, at most as many as there are other rows.
    device : torch.device
    omit : ndarray of shape (n_queries,), int64, default=None
        The row that each query leaves out.

    Returns
    -------
    keys : ndarray of shape (n_queries, n_smallest), float32
        The products, in ascending order. Where fewer are finite, infinity follows.
    rows : ndarray of shape (n_queries, n_smallest), int64
        Whose they are.
    """
    search, start, blocks = _Search(queries, n_smallest, device), 0, []
    for chunk in others:
        blocks = blocks or list(
            row_chunks(queries.shape[0], 4 * chunk.shape[0], TABLE_BYTES)
        )
        for block in blocks:
            keys = search.keys(block, chunk)
            if omit is not None:
                places = omit[block] - start
                itself = np.flatnonzero((places >= 0) & (places < keys.shape[1]))
                keys[itself, places[itself]] = np.inf
            search.add(block, keys, start)
        start += chunk.shape[0]
    return search.best.cpu().numpy(), search.rows.cpu().numpy()


def chunks_to_compare(X) -> list[slice]:
    """Return slices of rows, each for a chunk of `smallest_products`."""
    # A chunk of dense rows, prepared and centred; of sparse ones few are ever dense.
    bytes_per_row = 1 if sparse.issparse(X) else 12 * X.shape[1]
    step = min(CHUNK_ROWS, next(row_chunks(X.shape[0], bytes_per_row)).stop)
    return list(row_chunks(X.shape[0], 1, step))


class _Search:
    """The smallest keys of each query so far, which are products of rows.

    Parameters
    ----------
    queries : {Tensor, CSR array} of shape (n_queries, n_columns), float32
    n_smallest : int
    device : torch.device

    Attributes
    ----------
    best : Tensor of shape (n_queries, n_smallest), float32
        The smallest keys, in ascending order.
    rows : Tensor of shape (n_queries, n_smallest), int64
        Whose keys they are.
    """

    def __init__(self, queries, n_smallest, device):
        self.queries, self.device = queries, device
        shape = (queries.shape[0], n_smallest)
        self.best = torch.full(shape, torch.inf, device=device)
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.memory = torch.empty(0, device=device)

    def keys(self, block, others):
        """Return the keys of a chunk of rows for a slice of queries.

        On a CPU NumPy multiplies: on processors of AMD in a quarter less time than
        torch.
        """
        queries = self.queries[block]
        if sparse.issparse(queries):
            products = (queries @ others.T).toarray()
            return torch.from_numpy(products).to(self.device)
        out = self._place(len(queries), len(others))
        if self.device.type == "cpu":
            np.matmul(queries.numpy(), others.numpy().T, out=out.numpy())
            return out
        return torch.mm(queries, others.T, out=out)

    def add(self, block, keys, start):
        """Add keys of a slice of queries and a chunk, the first row at `start`."""
        if keys.device.type != "cpu" or self.best.shape[1] > LONGEST_LIST:
            return self._add_by_torch(block, keys, start)
        best = self.best[block].numpy(), self.rows[block].numpy()
        return _kernels.take_nearest(keys.numpy(), start, *best)

    def _add_by_torch(self, block, keys, start):
        best, rows = self.best[block], self.rows[block]
        k = best.shape[1]
        new = torch.topk(keys, min(k, keys.shape[1]), dim=1, largest=False)
        both = torch.cat([best, new.values], dim=1)
        both_rows = torch.cat([rows, start + new.indices], dim=1)
        nearest = torch.topk(both, k, dim=1, largest=False)
        best[:], rows[:] = nearest.values, both_rows.gather(1, nearest.indices)

    def _place(self, *shape):
        """Return reused memory: new memory costs more than a product."""
        n_keys = shape[0] * shape[1]
        if len(self.memory) < n_keys:
            self.memory = self.memory.new_empty(n_keys)
        return self.memory[:n_keys].view(shape)


def beside(rows, column, device=None):
    """Return rows with one more column, float32; `device` is that of new tensors."""
    if sparse.issparse(rows):
        column = sparse.csr_array(np.broadcast_to(column, (rows.shape[0],))[:, None])
        return sparse.hstack([rows, column], format="csr", dtype=np.float32)
    rows = torch.as_tensor(rows, dtype=torch.float32, device=device)
    column = torch.as_tensor(column, dtype=torch.float32, device=rows.device)
    return torch.cat([rows, column.expand(len(rows))[:, None]], dim=1)


def smallest(scores, positions, k):
    """Return the `k` smallest (score, position) of each row, in this order."""
    order = np.lexsort((positions, scores))[:, :k]
    rows = np.arange(len(order))[:, None]
    return scores[rows, order], positions[rows, order]


def exact_neighbors(
    queries, database, n_neighbors, metric, device="cpu", exclude_self=False
) -> np.ndarray:
    """Return the nearest rows by distance in float64, equal ones by position.

    Parameters
    ----------
    queries : {ndarray, CSR array} of shape (n_queries, n_features)
        float32 or float64, sparse where `database` is.
    database : {ndarray, CSR array} of shape (n_rows, n_features)
    n_neighbors : int
    metric : {"euclidean", "cosine", "inner_product"}
    device : str, default="cpu"
        Where the products in float32 are computed.
    exclude_self : bool, default=False
        Leave row i out for query i.

    Returns
    -------
    rows : ndarray of shape (n_queries, n_neighbors), int64
    """
    queries, database = _of_safe_magnitude(queries, database, metric)
    search = _Exact(queries, database, metric, resolve_device(device), exclude_self)
    neighbors = np.empty((queries.shape[0], n_neighbors), dtype=np.int64)
    pending, width = np.arange(len(neighbors)), n_neighbors + MARGIN
    while len(pending):
        row_bytes = 24 * min(width, database.shape[0]) + 24 * database.shape[1]
        proven = np.empty(len(pending), dtype=bool)
        for part in row_chunks(len(pending), row_bytes, CANDIDATE_BYTES):
            rows = pending[part]
            neighbors[rows], proven[part] = search(rows, n_neighbors, width)
        pending, width = pending[~proven], GROWTH * width
    return neighbors


def _of_safe_magnitude(queries, database, metric):
    """Return rows times powers of two, which change no order, where they need it.

    Of distances that is one power for all rows.
    """
    both = queries, database
    largest = [max(X.max(), -X.min()) for X in both]
    if metric == "euclidean":
        largest = [max(largest)] * 2
    exponents = np.frexp(largest)[1]
    return [
        X
        if abs(e) <= SAFE_EXPONENT
        else times_powers_of_two(X, np.full(X.shape[0], -e))
        for X, e in zip(both, exponents, strict=True)
    ]


class _Exact:
    """Exact neighbours in float64, of candidates with small bounds in float32.

    Distances here are squared, or products times -1. Vectors are centred (dense,
    Euclidean) and scaled, which costs little and makes the products small beside the
    distances. With x and y such vectors and e the error ::

        |x|^2 (1 - e) + [|y|^2 (1 - e) - 2 xy]  <=  |x - y|^2
                                  -xy - e |y|   <=  -xy         for |x| = 1

    The bracket and the second left side are the products that are searched.
    """

    def __init__(self, queries, database, metric, device, exclude_self):
        self.queries, self.database, self.device = queries, database, device
        self.exclude_self, self.is_unit = exclude_self, metric == "cosine"
        self.euclidean = metric == "euclidean"
        # Twice, as the column of offsets is rounded with each of the others.
        self.error = 2 * (database.shape[1] + 16) * _unit_roundoff()
        self.center, self.scale = 0, 1.0
        if self.euclidean and not sparse.issparse(database):
            self.center = database.mean(axis=0, dtype=np.float64)
        self.chunks = chunks_to_compare(database)
        longest = [_lengths(self._scaled(database, rows)).max() for rows in self.chunks]
        self.scale = 1 / (max(longest) or 1.0)

    def __call__(self, rows, n_neighbors, width):
        """Return the neighbours of the queries `rows`, and whether each is proven."""
        n = self.database.shape[0]
        if width >= n:
            everything = np.broadcast_to(np.arange(n), (len(rows), n))
            return self._nearest(rows, everything, n_neighbors)[0], True
        x = self._scaled(self.queries, rows)
        lengths = _lengths(x)
        x = beside(x if self.euclidean else _divided(x, lengths), 1.0, self.device)
        others = map(self._factors, self.chunks)
        omit = rows if self.exclude_self else None
        with np.errstate(over="ignore", invalid="ignore"):  # seen to below
            bounds, candidates = smallest_products(x, others, width, self.device, omit)
        neighbors, keys = self._nearest(rows, candidates, n_neighbors)
        # None outside is nearer where its bound is larger than the largest one inside.
        # Overflow leaves NaN, or lists that are not full and end in infinity.
        keys *= self.scale**2
        if self.euclidean:
            keys -= lengths**2 * (1 - self.error)
        else:
            keys /= _positive(lengths)
        limits = keys + 1e-30  # products that underflow
        return neighbors, (limits < bounds[:, -1]) & (bounds[:, -1] < np.inf)

    def _nearest(self, rows, candidates, n_neighbors):
        """Return the best of each query's candidates, and the key of the last."""
        pairs = np.repeat(rows, candidates.shape[1]), candidates.ravel()
        keys = self._measure(*pairs).reshape(candidates.shape)
        keys, neighbors = smallest(keys, candidates, n_neighbors)
        return neighbors, keys[:, -1]

    def _measure(self, query_rows, rows):
        """Measure pairs in float64; equal rows get keys equal to the last bit."""
        keys = np.empty(len(rows))
        for pairs in row_chunks(len(keys), 24 * self.database.shape[1]):
            x = dense_rows(self._rows(self.queries, query_rows[pairs]))
            y = dense_rows(self._rows(self.database, rows[pairs]))
            terms = np.square(x - y) if self.euclidean else np.negative(x * y)
            keys[pairs] = terms.sum(axis=1)
        if self.exclude_self:
            keys[query_rows == rows] = np.inf
        return keys

    def _rows(self, X, rows):
        """Return rows in float64, of unit length for cosines."""
        chunk = X[rows].astype(np.float64, copy=False)
        if not self.is_unit:
            return chunk
        chunk = with_safe_squares(chunk)
        return _divided(chunk, _lengths(chunk))

    def _scaled(self, X, rows):
        return (self._rows(X, rows) - self.center) * self.scale

    def _factors(self, rows):
        """Return a chunk of the database for `smallest_products`."""
        y = self._scaled(self.database, rows)
        lengths = _lengths(y)
        if self.euclidean:
            return beside(-2 * y, lengths**2 * (1 - self.error), self.device)
        return beside(-y, -self.error * lengths, self.device)


def _lengths(rows):
    """Return the lengths of dense or sparse rows."""
    squares = rows.power(2) if sparse.issparse(rows) else np.square(rows)
    return np.sqrt(np.ravel(squares.sum(axis=1)))  # sparse matrices sum to matrices


def _positive(lengths):
    """Return lengths with 1 for 0: a zero vector divided by it stays zero."""
    return np.where(lengths > 0, lengths, 1.0)


def _divided(rows, lengths):
    divisors = _positive(lengths)[:, None]
    return rows.multiply(1 / divisors) if sparse.issparse(rows) else rows / divisors


def _unit_roundoff() -> float:
    """Return the unit roundoff of float32 products in torch, as the user allows."""
    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set through torch's older and newer switches at once
        exact = False
    return FLOAT32 if exact else REDUCED
