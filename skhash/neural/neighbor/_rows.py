"""Training rows with near rows as partners, also for streams."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from skhash.numerics._graph import label_partners, near_rows, table_of_graph
from skhash.training._module import Rows
from skhash.training._net import Split
from skhash.utils.chunks import RowView
from skhash.utils.targets import encoded_labels

# Principal components that graph="projected" compares rows by.
GRAPH_AXES = 128
# Rows of the past that `partial_fit` keeps.
BANK_ROWS = 10_000


@dataclass(frozen=True)
class NearRows:
    """Finds near rows as partners; attributes as in `NeighborHash`."""

    n_neighbors: int
    metric: str
    graph: object
    max_train_samples: int | None

    def rows(self, X, y, run, bank):
        """Return the `Rows` of a call, and those to keep for the next one of a stream.

        Parameters
        ----------
        X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        y : ndarray of shape (n_samples, ...) or None
            Labels.
        run : Run
        bank : tuple of rows and labels, or None
            Kept by the call before.
        """
        if y is not None:
            check_consistent_length(X, y)
        trains, rng = run.trains(X.shape[0]), run.random_state
        if bank is not None:
            X, y = joined(bank, (X, y))
            trains = np.r_[np.ones(bank[0].shape[0], dtype=bool), trains]
        known = np.flatnonzero(trains)
        is_given = sparse.issparse(self.graph)
        bank = None if is_given else drawn(X, y, known, BANK_ROWS, rng)
        anchors = np.arange(X.shape[0])
        if self.max_train_samples is not None:
            anchors = np.sort(rng.permutation(anchors)[: self.max_train_samples])
        if len(known) < 2 or not trains[anchors].any():
            raise ValueError(
                f"Found {len(known)} row(s) to train on, of which max_train_samples="
                f"{self.max_train_samples} left {trains[anchors].sum()}, but "
                "NeighborHash trains on pairs of rows; give 2 or more."
            )
        near = self._table(X, anchors, trains, run.device, rng)
        return paired(X, y, anchors, near, trains, rng), bank

    def _table(self, X, anchors, trains, device, rng):
        if sparse.issparse(self.graph):
            table = table_of_graph(self.graph, self.n_neighbors, X.shape[0])[anchors]
            return _without_held_out(table, anchors, trains)
        n_axes = GRAPH_AXES if self.graph == "projected" else None
        search = {"metric": self.metric, "n_axes": n_axes, "device": device}
        return near_rows(X, anchors, self.n_neighbors, trains, rng, **search)


def paired(X, y, anchors, near, trains, rng) -> Rows:
    """Return rows to train on, with near rows as partners."""
    # Rows that are neither trained on nor near one of those are of no use.
    used, places = np.unique(np.c_[anchors, near], return_inverse=True)
    places = places.reshape(len(anchors), -1)
    table = np.repeat(np.arange(len(used))[:, None], near.shape[1], axis=1)
    table[places[:, 0]] = places[:, 1:]
    labels = None
    if y is not None:
        labels = encoded_labels(y[used])
        table = _label_partners(labels, table, trains[used], rng)
    # Dense rows are read when they are fed; no second copy of them is held.
    rows = X[used] if sparse.issparse(X) else RowView(X, used)
    inside, places = trains[anchors], places[:, 0]
    valid = None if inside.all() else places[~inside]
    return Rows(rows, labels, None, table[:, :, None], Split(places[inside], valid))


def drawn(X, y, rows, n_rows, rng):
    """Return at most `n_rows` of these rows, drawn at random, and their labels."""
    if len(rows) > n_rows:
        rows = np.sort(rng.permutation(rows)[:n_rows])
    return X[rows], None if y is None else y[rows]


def joined(first, second):
    """Return rows and labels of two parts of a stream together."""
    (X, y), (other_X, other_y) = first, second
    if (y is None) != (other_y is None):
        raise ValueError(
            "Give y in all calls of partial_fit or in none; mark unknown classes with "
            "-1."
        )
    if y is not None and (y.ndim, y.shape[1:]) != (other_y.ndim, other_y.shape[1:]):
        raise ValueError(
            f"y had shape (n, *{y.shape[1:]}) in earlier calls of partial_fit, and has "
            f"(n, *{other_y.shape[1:]}) now; give labels of one kind."
        )
    if y is not None and (y.dtype.kind == "U") != (other_y.dtype.kind == "U"):
        raise ValueError(
            "y has strings in some calls of partial_fit and numbers in others; give "
            "labels of one kind."
        )
    return _stacked(X, other_X), None if y is None else _stacked(y, other_y)


def _stacked(first, second):
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack(
            [sparse.csr_array(first), sparse.csr_array(second)], format="csr"
        )
    return np.concatenate([first, second])


def _without_held_out(table, anchors, trains):
    """Return a table in which rows to train on have only such neighbours.

    The first that they have takes the place of others; the row itself if there is none.
    """
    usable = trains[table] | ~trains[anchors, None]
    nearest = table[np.arange(len(table)), usable.argmax(axis=1)]
    nearest = np.where(usable.any(axis=1), nearest, anchors)
    return np.where(usable, table, nearest[:, None])


def _label_partners(labels, table, trains, rng):
    """Return `label_partners`; rows to train on have only such partners."""
    unknown = -1 if labels.shape[1] == 1 else 0
    partners = label_partners(np.where(trains[:, None], labels, unknown), table, rng)
    if trains.all():
        return partners
    return np.where(trains[:, None], partners, label_partners(labels, table, rng))
