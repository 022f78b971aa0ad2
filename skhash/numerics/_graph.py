"""Near neighbours of every training row, as a table of their positions."""

import numpy as np
from scipy import sparse

from skhash.numerics._nearest import beside, chunks_to_compare, smallest_products
from skhash.numerics._projection import column_means, principal_axes, project
from skhash.utils.arrays import unit_rows
from skhash.utils.chunks import RowView
from skhash.utils.lazy import torch
from skhash.utils.torch import seeded_generator

# Number of random rows that give the mean and the principal axes.
AXES_ROWS = 20_000


def neighbor_table(
    X, anchors, n_neighbors, metric, n_axes, device, generator
) -> np.ndarray:
    """Return the nearest other rows of each anchor, the nearest first.

    Those are compared with all rows, of which a chunk after the other is read, once:
    ``n_anchors n d`` multiplications, and memory for the anchors, a chunk, a block of
    distances and the table, whatever the number of rows. Keys are those of float32, so
    rows that are equally near up to its rounding may change places.

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
        Compare rows by this many principal components, if they have more columns:
        much cheaper for wide rows, and near the truth where these hold most of the
        variance. They are those of at most 20,000 rows, drawn at random. None compares
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
        X = unit_rows(X) if sparse.issparse(X) else RowView(X, prepare=unit_rows)
    comparison = _Comparison(X, metric, n_axes, device, generator)
    queries = comparison.queries(X, anchors)
    others = (comparison.others(X[rows]) for rows in chunks_to_compare(X))
    n_neighbors = min(n_neighbors, X.shape[0] - 1)
    return smallest_products(queries, others, n_neighbors, device, anchors)[1]


class _Comparison:
    """How rows are compared: ``<(x, 1), (times y, offset)>`` is the key of y for x.

    Dense rows are centred, which changes no order once the offset has what the mean
    adds to a product, and spares float32 the large numbers of data far from the origin.

    Parameters
    ----------
    X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        Rows, a sample of which has the mean and the axes. They stay sparse, and are not
        centred, where they are compared themselves.
    metric, n_axes, device, generator
        As in `neighbor_table`.
    """

    def __init__(self, X, metric, n_axes, device, generator):
        self.metric, self.device = metric, device
        self.mean = self.axes = None
        if sparse.issparse(X) and n_axes is None:
            return
        drawn = torch.randperm(X.shape[0], generator=generator)[:AXES_ROWS]
        sample = X[drawn.sort().values.numpy()] if X.shape[0] > AXES_ROWS else X[:]
        self.mean = column_means(sample)
        if n_axes is not None and n_axes < X.shape[1]:
            n_axes = min(n_axes, sample.shape[0])
            self.axes = principal_axes(sample, self.mean, n_axes, device, generator)

    def queries(self, X, rows):
        """Return these rows with a column of ones."""
        chosen = X[rows] if sparse.issparse(X) else RowView(X, rows)
        return beside(self._rows(chosen), 1)

    def others(self, X):
        """Return a chunk of rows, multiplied, with their offsets."""
        rows = self._rows(X)
        if self.metric == "inner_product":
            offset = 0 if self.mean is None else -(X @ self.mean)
            return beside(-rows, offset)
        squares = rows.power(2) if self.mean is None else rows.square()
        return beside(-2 * rows, squares.sum(axis=1))

    def _rows(self, X):
        if self.mean is None:
            return X.astype(np.float32)
        return project(X, self.mean, self.axes, self.device)


def table_of_graph(graph, n_neighbors, n_samples) -> np.ndarray:
    """Return the table of a graph in scikit-learn's form.

    Parameters
    ----------
    graph : sparse matrix of shape (n_samples, n_samples)
        As from `kneighbors_graph`: the entries of a row are its neighbours, at their
        distances or all at 1. A row is no neighbour of itself.
    n_neighbors : int
        How many of the nearest of each row are kept. A row with fewer repeats them.

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
    entries = graph.row, graph.col, graph.data
    rows, columns, values = (array[others] for array in entries)
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


def near_rows(X, anchors, n_neighbors, trains, rng, **search) -> np.ndarray:
    """Return the nearest other rows of each anchor, the nearest first.

    Parameters
    ----------
    X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
    anchors : ndarray of shape (n_anchors,), int64
        The rows whose neighbours are wanted.
    n_neighbors : int
    trains : ndarray of shape (n_samples,), bool
        Which rows are trained on. Their neighbours are among themselves; those of the
        others are among all rows.
    rng : RandomState
    **search
        Other arguments of `neighbor_table`.

    Returns
    -------
    table : ndarray of shape (n_anchors, n_near), int64
        As many as are wanted, or all other rows that are trained on.
    """
    search["generator"] = seeded_generator(rng)
    if trains.all():
        return neighbor_table(X, anchors, n_neighbors, **search)
    known = np.flatnonzero(trains)
    inside = trains[anchors]
    rows = X[known] if sparse.issparse(X) else RowView(X, known)
    places = np.searchsorted(known, anchors[inside])
    near = known[neighbor_table(rows, places, n_neighbors, **search)]
    table = np.empty((len(anchors), near.shape[1]), dtype=np.int64)
    table[inside] = near
    table[~inside] = neighbor_table(X, anchors[~inside], near.shape[1], **search)
    return table
