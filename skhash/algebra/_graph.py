"""Near neighbours of every training row, as a table of their positions."""

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from skhash.algebra._projection import (
    centered_chunks,
    column_means,
    principal_axes,
    project,
)
from skhash.utils.chunks import row_chunks

# Distances of this many bytes are held at a time.
TABLE_BYTES = 2**25
GROUP = 64  # columns among which the smallest key is found at once


def neighbor_table(
    X, anchors, n_neighbors, metric, n_axes, device, generator
) -> np.ndarray:
    """Return the nearest other rows of some rows, the nearest first.

    Those are compared with all rows, a block at a time: ``n_anchors n d``
    multiplications and memory for the rows, one block and the table. Products are in
    float32, so rows that are equally near up to its rounding may change places.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features)
    anchors : ndarray of shape (n_anchors,), int64
        The rows whose neighbours are wanted.
    n_neighbors : int
        At most ``n_samples - 1`` of them are returned.
    metric : {"euclidean", "cosine", "inner_product"}
    n_axes : int or None
        Compare rows by so many principal components, where they have more columns:
        much cheaper for wide rows, and near the truth where these hold most of the
        variance. None compares the rows themselves.
    device : torch.device
    generator : torch.Generator
        On the CPU; draws the start of the principal axes of very wide rows.

    Returns
    -------
    table : ndarray of shape (n_anchors, min(n_neighbors, n_samples - 1)), int64
    """
    import torch

    X = normalize(X) if metric == "cosine" else X
    n_samples, n_neighbors = X.shape[0], min(n_neighbors, X.shape[0] - 1)
    rows, offset, times = _comparable(X, metric, n_axes, device, generator)
    is_sparse = sparse.issparse(rows)
    blocks = list(row_chunks(len(anchors), 4 * n_samples, TABLE_BYTES))
    if not is_sparse:
        # One product gives the keys: <(row, 1), (times row, offset)>. It is written to
        # the same place each time, since new memory costs more than the product.
        others = torch.cat([times * rows, offset[:, None]], dim=1).T
        others = torch.nn.functional.pad(others, (0, -n_samples % GROUP))
        others[-1, n_samples:] = torch.inf
        rows = torch.cat([rows, torch.ones_like(offset)[:, None]], dim=1)
        buffer = torch.empty(blocks[0].stop, others.shape[1], device=device)
    table = np.empty((len(anchors), n_neighbors), dtype=np.int64)
    for block in blocks:
        own = anchors[block]
        if is_sparse:
            products = torch.from_numpy((rows[own] @ rows.T).toarray())
            keys = products.to(offset).mul_(times).add_(offset)
        else:
            keys = torch.mm(rows[own], others, out=buffer[: len(own)])
        keys[np.arange(len(own)), own] = torch.inf
        table[block] = _smallest(keys, n_neighbors).cpu().numpy()
    return table


def _smallest(keys, k):
    """Return the positions of the k smallest keys of each row, the smallest first.

    These are in the k groups of columns whose smallest keys are smallest, and to find
    those groups first is several times faster.
    """
    import torch

    n = keys.shape[1]
    if n < 2 * k * GROUP or n % GROUP:
        return torch.topk(keys, k, dim=1, largest=False).indices
    minima = keys.unflatten(1, (-1, GROUP)).amin(dim=2)
    groups = torch.topk(minima, k, dim=1, largest=False).indices
    within = torch.arange(GROUP, device=keys.device)
    columns = (groups[:, :, None] * GROUP + within).flatten(1)
    nearest = torch.topk(keys.gather(1, columns), k, dim=1, largest=False).indices
    return columns.gather(1, nearest)


def _comparable(X, metric, n_axes, device, generator):
    """Return rows, offset and factor: ``offset_j + factor <row_i, row_j>`` sorts.

    Dense rows are centred, which changes no order once the offset has what the mean
    adds to a product, and spares float32 the large numbers of data far from the origin.
    """
    import torch

    mean = column_means(X)
    if n_axes is not None and n_axes < X.shape[1]:
        axes = principal_axes(X, mean, min(n_axes, X.shape[0]), device, generator)
        rows = project(X, mean, axes, device)
    elif sparse.issparse(X) and n_axes is None:
        rows = X.astype(np.float32)
    else:
        rows = torch.empty(X.shape, dtype=torch.float32, device=device)
        for block, chunk in centered_chunks(X, mean, device):
            rows[block] = chunk
    if metric == "inner_product":
        offset = np.zeros(X.shape[0]) if sparse.issparse(rows) else -(X @ mean)
    elif sparse.issparse(rows):
        offset = np.asarray(rows.power(2).sum(axis=1)).ravel()
    else:
        return rows, rows.square().sum(dim=1), -2.0
    times = -1.0 if metric == "inner_product" else -2.0
    return rows, torch.as_tensor(offset, dtype=torch.float32, device=device), times


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
