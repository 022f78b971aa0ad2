"""Exact float neighbours at the price of float32 products.

Each database row gets a *lower bound* of its distance from one float32 product: the
product errs by at most ``u d |x| |y|``, u being the unit roundoff and d the number of
features. The rows of smallest bound are measured again in float64. They hold the answer
if the k-th distance among them is below every bound outside; else all rows whose bound
does not exceed that distance are measured. So the answer is proven, not only likely.

Distances here are *keys*: squared Euclidean distances, or products times -1.
"""

import numpy as np
from scipy import sparse

from skhash.utils.chunks import row_chunks
from skhash.utils.torch import resolve_device

MARGIN = 32  # candidates beyond k, so that few queries need the second look
TABLE_BYTES = 2**27
FLOAT64 = 2.0**-53
FLOAT32 = 2.0**-24
REDUCED = 2.0**-8  # where torch may multiply in TF32 or bfloat16


class Rows:
    """Rows of a matrix on demand: dense, float64, and of unit length if `unit`."""

    def __init__(self, X, unit: bool):
        self.X, self.shape = X, X.shape
        self.norms = np.ones(self.shape[0])
        if unit:
            norms = [_row_norms(chunk) for _, chunk in self.chunks()]
            self.norms = _positive(np.concatenate(norms))

    def __getitem__(self, rows) -> np.ndarray:
        chunk = self.X[rows]
        chunk = chunk.toarray() if sparse.issparse(chunk) else chunk
        return chunk.astype(np.float64, copy=False) / self.norms[rows, None]

    def chunks(self):
        for rows in row_chunks(self.shape[0], 24 * self.shape[1]):
            yield rows, self[rows]


class Keys:
    """Measures pairs of rows in float64; equal rows get keys equal to the last bit."""

    def __init__(self, queries, database, metric: str, exclude_self: bool):
        self.queries = Rows(queries, metric == "cosine")
        self.database = Rows(database, metric == "cosine")
        self.euclidean = metric == "euclidean"
        self.exclude_self = exclude_self

    def __call__(self, query_rows, database_rows) -> np.ndarray:
        keys = np.empty(len(query_rows))
        for pairs in row_chunks(len(keys), 24 * self.database.shape[1]):
            x, y = self.queries[query_rows[pairs]], self.database[database_rows[pairs]]
            terms = np.square(x - y) if self.euclidean else np.negative(x * y)
            keys[pairs] = terms.sum(axis=1)
        if self.exclude_self:
            keys[query_rows == database_rows] = np.inf
        return keys


class Bounds:
    """Lower bounds of keys, for chunks of queries against the whole database.

    Vectors are centred (dense, Euclidean) and scaled, which costs little and makes the
    products small beside the distances. With x and y such vectors and e the error ::

        |x|^2 (1 - e) + [|y|^2 (1 - e) - 2 xy]  <=  |x - y|^2
                                  -xy - e |y|   <=  -xy         for |x| = 1

    The bracket and the second left side are what the table holds.
    """

    def __init__(self, keys: Keys, device: str):
        import torch

        self.keys, self.device = keys, resolve_device(device)
        X, (n, d) = keys.database.X, keys.database.shape
        self.sparse = sparse.issparse(X)
        # Beside float64 products the keys' own rounding counts too.
        self.error = (d + 16) * (4 * FLOAT64 if self.sparse else _unit_roundoff())
        self.center = np.zeros(d)
        if keys.euclidean and not self.sparse:
            self.center = X.mean(axis=0, dtype=np.float64)
        norms = [_row_norms(rows - self.center) for _, rows in keys.database.chunks()]
        norms = np.concatenate(norms)
        self.scale = 1.0 / (norms.max() or 1.0)
        norms *= self.scale
        bias = norms**2 * (1 - self.error) if keys.euclidean else -self.error * norms
        if self.sparse:
            self.bias = torch.from_numpy(bias)
            scales = sparse.diags_array(self.scale / keys.database.norms)
            self.database = scales @ X.astype(np.float64)
            return
        scaled = np.empty((n, d), dtype=np.float32)
        for rows, chunk in keys.database.chunks():
            scaled[rows] = (chunk - self.center) * self.scale
        self.database = torch.from_numpy(scaled).to(self.device)
        self.bias = torch.from_numpy(bias.astype(np.float32)).to(self.device)

    def table(self, rows: slice):
        """Return the table of a chunk of queries and what turns keys into its scale.

        Returns
        -------
        table : tensor of shape (n_rows, n_database)
        factor, shift : floats or ndarrays of shape (n_rows,), float64
            A row whose key is `key` has a bound of at most ``factor * key + shift``.
        """
        import torch

        x = (self.keys.queries[rows] - self.center) * self.scale
        norms = _row_norms(x)
        if self.keys.euclidean:
            times, factor = -2.0, self.scale**2
            shift = -(norms**2) * (1 - self.error)
        else:
            times, factor, shift = -1.0, self.scale**2 / _positive(norms), 0.0
            x /= _positive(norms)[:, None]
        if self.sparse:
            table = torch.from_numpy((self.database @ x.T).T).mul_(times)
            table += self.bias
        else:
            x = torch.from_numpy(x.astype(np.float32)).to(self.device)
            table = torch.addmm(self.bias, x, self.database.T, alpha=times)
        return table, factor, shift + 1e-30  # products that underflow


def exact_neighbors(queries, database, k, metric, device, exclude_self) -> np.ndarray:
    """Return the k nearest rows by (key, position), int64 of shape (n_queries, k)."""
    keys = Keys(queries, database, metric, exclude_self)
    bounds = Bounds(keys, device)
    result = np.empty((queries.shape[0], k), dtype=np.int64)
    for rows in row_chunks(len(result), 8 * max(database.shape), TABLE_BYTES):
        result[rows] = _search_rows(keys, bounds, rows, k)
    return result


def _search_rows(keys, bounds, rows, k):
    import torch

    table, factor, shift = bounds.table(rows)
    n_rows, n = table.shape
    if keys.exclude_self:
        own = torch.arange(n_rows, device=table.device)
        table[own, own + rows.start] = torch.inf
    n_candidates = min(k + MARGIN, n)
    edges, candidates = torch.topk(table, n_candidates, dim=1, largest=False)
    edges = edges[:, -1].cpu().numpy().astype(np.float64)
    if n_candidates == n:
        edges[:] = np.inf  # nothing is outside
    candidates = candidates.cpu().numpy()
    queries = np.repeat(np.arange(rows.start, rows.stop), n_candidates)
    result, furthest = _nearest(keys, queries, candidates, k)
    limits = factor * furthest + shift
    for i in np.flatnonzero(~(limits < edges)):  # an overflow, NaN, comes here too
        near = ~(table[i] > float(limits[i]))
        candidates = near.nonzero()[:, 0].cpu().numpy()
        queries = np.full(len(candidates), rows.start + i)
        result[i], _ = _nearest(keys, queries, candidates[None], k)
    return result


def _nearest(keys, queries, candidates, k):
    """Return the k best of each row of candidates, and the key of the last of them."""
    candidates = np.sort(candidates, axis=1)  # so that the stable sort ends in position
    measured = keys(queries, candidates.ravel()).reshape(candidates.shape)
    order = np.argsort(measured, axis=1, kind="stable")[:, :k]
    furthest = np.take_along_axis(measured, order[:, -1:], axis=1)[:, 0]
    return np.take_along_axis(candidates, order, axis=1), furthest


def _row_norms(chunk: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(chunk).sum(axis=1))


def _positive(norms: np.ndarray) -> np.ndarray:
    """Put 1 for 0: a zero vector divided by it stays zero."""
    return np.where(norms > 0, norms, 1.0)


def _unit_roundoff() -> float:
    """Return that of a float32 product in torch, by the precision the user allows."""
    import torch

    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set through torch's older and newer switches at once
        exact = False
    return FLOAT32 if exact else REDUCED
