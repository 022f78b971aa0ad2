"""Near neighbours of every training row, as a table of their positions."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from skhash.numerics._projection import (
    centered_chunks,
    column_means,
    principal_axes,
    project,
)
from skhash.utils.chunks import RowView, row_chunks
from skhash.utils.late import LateModule
from skhash.utils.torch import multiplies_bfloat16

_nearest = LateModule("skhash.numerics._nearest")

# Distances of this many bytes are held at a time: they stay in a processor's cache.
TABLE_BYTES = 2**23
# So many rows are compared with at a time, if they are not wide.
CHUNK_ROWS = 8192
# Over three times the unit roundoff of bfloat16, by what it is itself rounded by.
OFF = 3.1 * 2.0**-8
# So many rows, drawn at random, say where the mean and the principal axes lie.
AXES_ROWS = 20_000


def neighbor_table(
    X, anchors, n_neighbors, metric, n_axes, device, generator
) -> np.ndarray:
    """Return the nearest other rows of some rows, the nearest first.

    Those are compared with all rows, of which a chunk after the other is read, once:
    ``n_anchors n d`` multiplications, and memory for the anchors, a chunk, a block of
    distances and the table, whatever the number of rows. Keys are those of float32, so
    rows that are equally near up to its rounding may change places. Where a processor
    multiplies in bfloat16, such products first say which rows may be among the nearest.

    Parameters
    ----------
    X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        float32 or float64.
    anchors : ndarray of shape (n_anchors,), int64
        The rows whose neighbours are wanted.
    n_neighbors : int
        At most ``n_samples - 1`` of them are returned.
    metric : {"euclidean", "cosine", "inner_product"}
    n_axes : int or None
        Compare rows by so many principal components, where they have more columns:
        much cheaper for wide rows, and near the truth where these hold most of the
        variance. They are those of at most 20 000 rows, drawn at random. None compares
        the rows themselves.
    device : torch.device
    generator : torch.Generator
        On the CPU; draws rows for the principal axes, and the start of those of very
        wide rows.

    Returns
    -------
    table : ndarray of shape (n_anchors, min(n_neighbors, n_samples - 1)), int64
    """
    if metric == "cosine":
        X = normalize(X) if sparse.issparse(X) else RowView(X, prepare=normalize)
    comparison = _comparison(X, metric, n_axes, device, generator)
    queries = comparison.queries(X, anchors)
    kind = _Search
    if not sparse.issparse(queries) and multiplies_bfloat16(device):
        kind = _CoarseSearch
    search = kind(queries, min(n_neighbors, X.shape[0] - 1), device)
    # A chunk of dense rows, prepared and centred; of sparse ones few are ever dense.
    bytes_per_row = 1 if sparse.issparse(X) else 12 * X.shape[1]
    step = min(CHUNK_ROWS, next(row_chunks(X.shape[0], bytes_per_row)).stop)
    for rows in row_chunks(X.shape[0], 1, step):
        search.turn_to(comparison.others(X[rows]), rows.start)
        for block in row_chunks(len(anchors), 4 * step, TABLE_BYTES):
            keys = search.keys(block)
            places = anchors[block] - rows.start
            itself = np.flatnonzero((places >= 0) & (places < keys.shape[1]))
            keys[itself, places[itself]] = np.inf
            search.add(block, keys)
    return search.rows.cpu().numpy()


class _Search:
    """The smallest keys of each query so far, which are products of rows.

    Parameters
    ----------
    queries : {Tensor, CSR array} of shape (n_queries, n_columns), float32
    n_neighbors : int
    device : torch.device

    Attributes
    ----------
    rows : Tensor of shape (n_queries, n_neighbors), int64
        Whose keys they are, the smallest first.
    """

    def __init__(self, queries, n_neighbors, device):
        import torch

        self.queries, self.device = queries, device
        shape = (queries.shape[0], n_neighbors)
        self.best = torch.full(shape, torch.inf, device=device)
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.memory = torch.empty(0, device=device)

    def turn_to(self, others, start):
        """Go on with a chunk of rows, from `start` on."""
        self.others, self.start = others, start

    def keys(self, block):
        """Return the keys of the chunk for a slice of queries.

        On a CPU they are a product of NumPy: on processors of AMD it takes a quarter
        less than torch's.
        """
        import torch

        queries = self.queries[block]
        if sparse.issparse(queries):
            products = (queries @ self.others.T).toarray()
            return torch.from_numpy(products).to(self.device)
        out = self._place(len(queries), len(self.others))
        if self.device.type == "cpu":
            np.matmul(queries.numpy(), self.others.numpy().T, out=out.numpy())
            return out
        return torch.mm(queries, self.others.T, out=out)

    def add(self, block, keys):
        """Take in keys of a slice of queries."""
        if keys.device.type != "cpu":
            return self._add_by_torch(block, keys)
        best = self.best[block].numpy(), self.rows[block].numpy()
        return _nearest.take_nearest(keys.numpy(), self.start, *best)

    def _add_by_torch(self, block, keys):
        import torch

        best, rows = self.best[block], self.rows[block]
        k = best.shape[1]
        new = torch.topk(keys, min(k, keys.shape[1]), dim=1, largest=False)
        both = torch.cat([best, new.values], dim=1)
        both_rows = torch.cat([rows, self.start + new.indices], dim=1)
        nearest = torch.topk(both, k, dim=1, largest=False)
        best[:], rows[:] = nearest.values, both_rows.gather(1, nearest.indices)

    def _place(self, *shape):
        """Return memory that was used before: new one costs more than a product."""
        n_keys = shape[0] * shape[1]
        if len(self.memory) < n_keys:
            self.memory = self.memory.new_empty(n_keys)
        return self.memory[:n_keys].view(shape)


class _CoarseSearch(_Search):
    """A search by products in bfloat16, whose result is that of float32 nevertheless.

    A key ``<(x, 1), (y, o)>`` of rounded factors, itself rounded, is off by at most
    ``(3 u + 3 u^2 + u^3) |x| |y| + (2 u + u^2) |o|``, u being the unit roundoff. Two
    more columns take somewhat more than that off, which makes it a lower bound. Where
    this leaves open whether a row is among the nearest, its key is made in float32.
    """

    def __init__(self, queries, n_neighbors, device):
        import torch

        super().__init__(queries, n_neighbors, device)
        norms = queries[:, :-1].norm(dim=1)
        self.coarse_queries = _beside(
            _beside(queries, norms), torch.ones_like(norms)
        ).bfloat16()

    def turn_to(self, others, start):
        super().turn_to(others, start)
        norms, offsets = others[:, :-1].norm(dim=1), others[:, -1].abs()
        coarse = _beside(_beside(others, -OFF * norms), -OFF * offsets)
        self.coarse_others = coarse.bfloat16().T

    def keys(self, block):
        bounds = self.coarse_queries[block] @ self.coarse_others
        return self._place(*bounds.shape).copy_(bounds)

    def add(self, block, keys):
        factors = self.queries[block].numpy(), self.others.numpy()
        best = self.best[block].numpy(), self.rows[block].numpy()
        _nearest.take_checked(keys.numpy(), *factors, self.start, *best)


@dataclass(frozen=True)
class _Comparison:
    """How rows are compared: ``<(x, 1), (times y, offset)>`` is the key of y for x.

    Dense rows are centred, which changes no order once the offset has what the mean
    adds to a product, and spares float32 the large numbers of data far from the origin.

    Attributes
    ----------
    metric : str
    mean : ndarray of shape (n_features,), float64, or None
        None leaves rows sparse, and not centred.
    axes : ndarray of shape (n_axes, n_features) or None
        None compares the rows themselves.
    device : torch.device
    """

    metric: str
    mean: np.ndarray | None
    axes: np.ndarray | None
    device: object

    def queries(self, X, rows):
        """Return some rows with a column of ones."""
        rows = self._rows(X[rows] if sparse.issparse(X) else RowView(X, rows))
        return _beside(rows, np.ones(rows.shape[0]))

    def others(self, X):
        """Return a chunk of rows, multiplied, with their offsets."""
        rows = self._rows(X)
        if self.metric == "inner_product":
            offset = np.zeros(X.shape[0]) if self.mean is None else -(X @ self.mean)
            return _beside(-rows, offset)
        squares = rows.power(2) if self.mean is None else rows.square()
        return _beside(-2 * rows, squares.sum(axis=1))

    def _rows(self, X):
        import torch

        if self.mean is None:
            return X.astype(np.float32)
        if self.axes is not None:
            return project(X, self.mean, self.axes, self.device)
        rows = torch.empty(X.shape, dtype=torch.float32, device=self.device)
        for block, chunk in centered_chunks(X, self.mean, self.device):
            rows[block] = chunk
        return rows


def _beside(rows, column):
    """Return rows with one more column."""
    import torch

    if sparse.issparse(rows):
        column = np.asarray(column, dtype=np.float32)[:, None]
        return sparse.hstack([rows, sparse.csr_array(column)], format="csr")
    column = torch.as_tensor(column, dtype=torch.float32, device=rows.device)
    return torch.cat([rows, column[:, None]], dim=1)


def _comparison(X, metric, n_axes, device, generator) -> _Comparison:
    """Return a comparison by at most so many axes of a sample of rows."""
    import torch

    n_samples, n_features = X.shape
    is_narrow = n_axes is None or n_axes >= n_features
    if sparse.issparse(X) and n_axes is None:
        return _Comparison(metric, None, None, device)
    drawn = torch.randperm(n_samples, generator=generator)[:AXES_ROWS]
    sample = X[drawn.sort().values.numpy()] if n_samples > AXES_ROWS else X[:]
    mean = column_means(sample)
    if is_narrow:
        return _Comparison(metric, mean, None, device)
    n_axes = min(n_axes, sample.shape[0])
    axes = principal_axes(sample, mean, n_axes, device, generator)
    return _Comparison(metric, mean, axes, device)


def table_of_graph(graph, n_neighbors, n_samples) -> np.ndarray:
    """Return the table of a graph in scikit-learn's form.

    Parameters
    ----------
    graph : sparse matrix of shape (n_samples, n_samples)
        As from `kneighbors_graph`: the entries of a row are its neighbours, at their
        distances or all at 1. A row is no neighbour of itself.
    n_neighbors : int
        The nearest so many of each row are kept. A row with fewer has some repeatedly.

    Raises
    ------
    ValueError
        If the graph is of other rows, or leaves a row without neighbours.
    """
    if graph.shape != (n_samples, n_samples):
        raise ValueError(
            f"graph has shape {graph.shape}, but X has {n_samples} rows: it must be "
            f"({n_samples}, {n_samples})."
        )
    graph = sparse.coo_array(graph)
    others = graph.row != graph.col
    rows, columns, values = (
        array[others] for array in (graph.row, graph.col, graph.data)
    )
    order = np.lexsort((values, rows))
    degrees = np.bincount(rows, minlength=n_samples)
    if not degrees.all():
        raise ValueError(
            f"Row {np.flatnonzero(degrees == 0)[0]} has no neighbour in graph."
        )
    starts = np.cumsum(degrees) - degrees
    width = min(n_neighbors, degrees.max())
    places = np.arange(width) % np.minimum(degrees, width)[:, None]
    return columns[order][starts[:, None] + places].astype(np.int64)


def label_partners(labels, table, rng) -> np.ndarray:
    """Return `table` with other rows of the same label in the place of neighbours.

    Rows without a label, or alone with theirs, keep their neighbours. Of several labels
    of a row each partner shares one that is drawn.

    Parameters
    ----------
    labels : ndarray of shape (n_samples, n_labels), int64
        As from `skhash.utils.targets.encoded_labels`.
    table : ndarray of shape (n_samples, n_neighbors), int64
    rng : RandomState
    """
    if labels.shape[1] == 1:
        rows = np.flatnonzero(labels[:, 0] >= 0)
        classes = labels[rows, 0]
    else:
        rows, classes = np.nonzero(labels)
    # Members of a class stand together in `members`, from `starts` on.
    order = np.argsort(classes, kind="stable")
    members = rows[order]
    counts = np.bincount(classes, minlength=1)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(rows), dtype=np.int64)  # of each pair within its class
    place[order] = np.arange(len(rows)) - starts[classes[order]]

    pairs = np.flatnonzero(counts[classes] > 1)
    first = np.searchsorted(rows[pairs], np.arange(len(labels)))
    n_pairs = np.searchsorted(rows[pairs], np.arange(len(labels)), "right") - first
    labelled = np.flatnonzero(n_pairs)
    shape = (len(labelled), table.shape[1])
    drawn = rng.randint(0, n_pairs[labelled, None], shape) + first[labelled, None]
    drawn = pairs[drawn]
    count = counts[classes[drawn]]
    other = (place[drawn] + rng.randint(1, count)) % count
    partners = table.copy()
    partners[labelled] = members[starts[classes[drawn]] + other]
    return partners
