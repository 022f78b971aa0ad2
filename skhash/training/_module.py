"""Rows, batches of them on a device, and the modules that are trained on them."""

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch.utils.data import Dataset, Subset

from skhash.utils._torch_sparse import csr_tensor, take_rows
from skhash.utils.chunks import RowView, dense_rows, row_chunks

# Optional fields of rows, besides their values.
KNOWN = ("labels", "weights", "partners")
# Largest size of a view of rows, in float32, that is held in memory.
HELD_BYTES = 2**28


@dataclass
class Rows:
    """Training rows with their labels, weights and partners.

    Attributes
    ----------
    X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        float32 or float64.
    labels : ndarray of shape (n_samples, ...), int64, or None
    weights : ndarray of shape (n_samples,), float32, or None
    partners : ndarray of shape (n_samples, n_candidates, n_each), int64, or None
        Positions of partner rows. Each time a row is in a batch, one of its candidates
        is drawn, and its `n_each` rows are added to the batch.
    split : Split or None
        Which rows are for training and which for validation, such as ``run.split``.
        None trains on all rows.
    """

    X: object
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    partners: np.ndarray | None = None
    split: object | None = None


@dataclass(frozen=True)
class Batch:
    """Batch of standardized rows, on the device of a module.

    If rows have partners, all rows come first, then the first partner of each row in
    the same order, then the second partners; see `parts`.

    Attributes
    ----------
    X : Tensor of shape (n_rows, n_features)
        Standardized values: dense, or sparse CSR if the module accepts it.
    rows : Tensor of shape (n_rows,), int64
        Positions among all rows of the training.
    labels, weights, partners : Tensors or None
        As in `Rows`, for the rows of the batch.
    """

    X: torch.Tensor
    rows: torch.Tensor
    labels: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    partners: torch.Tensor | None = None

    @classmethod
    def of(cls, X, **known):
        """Return a batch of all rows."""
        return cls(X, torch.arange(len(X), device=X.device), **known)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_parts(self) -> int:
        """Number of parts: 1 plus the number of partners of each row."""
        return 1 if self.partners is None else 1 + self.partners.shape[2]

    def parts(self) -> list["Batch"]:
        """Split into the rows themselves, their first partners, and so on."""
        columns = [
            [None] * self.n_parts if value is None else value.chunk(self.n_parts)
            for value in vars(self).values()
        ]
        return [Batch(*values) for values in zip(*columns, strict=True)]

    def take(self, rows: slice) -> "Batch":
        """Return the given rows of the batch."""
        return self._changed(take_rows(self.X, rows), lambda value: value[rows])

    def to(self, *args) -> "Batch":
        """Move the batch to a device, with values in a dtype."""
        X = self.X.to(*args)
        return self._changed(X, lambda value: value.to(X.device))

    def _changed(self, X, change):
        known = (getattr(self, name) for name in ("rows", *KNOWN))
        return Batch(X, *(None if value is None else change(value) for value in known))


class TrainedModule(nn.Module, metaclass=ABCMeta):
    """Base class of torch modules that compute their own loss.

    ``forward(X)`` maps the values of a batch to outputs, and `loss` maps these to a
    scalar. The other methods do nothing unless you override them.

    Attributes
    ----------
    mean : ndarray of shape (n_features,) or None
    scale : float
        The module gets rows as ``(x - mean) / scale``.
    axes : ndarray of shape (n_axes, n_features) or None
        Axes along which the module gets the coordinates of rows. None gives it all
        columns.
    accepts_sparse : bool
        Whether the module gets sparse rows as sparse CSR tensors, which are not
        centred. Otherwise they are made dense.
    generator : torch.Generator or None
        Generator of the module's random numbers, on its device; see `seed`.
    """

    mean = None
    scale = 1.0
    axes = None
    accepts_sparse = False
    generator: torch.Generator | None = None

    @abstractmethod
    def loss(self, outputs, batch) -> torch.Tensor:
        """Return the loss of a batch, a scalar.

        Parameters
        ----------
        outputs : Tensor
            Result of ``forward(batch.X)``.
        batch : Batch
        """

    def rows(self, X, targets, run) -> Rows:
        """Return the rows to train on, with their labels, weights and partners.

        Parameters
        ----------
        X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
        targets : object
            Targets that the estimator made from ``y``.
        run : Run
            The run; its ``split`` says which rows are for training.
        """
        return Rows(X, split=run.split)

    def learned(self) -> dict[str, torch.Tensor]:
        """Return the learned state, by name."""
        return self.state_dict()

    def seed(self, seed, device) -> None:
        """Start a new random generator on the given device."""
        self.generator = torch.Generator(device).manual_seed(int(seed))

    def start_phase(self, phase: int) -> None:
        """Called when a phase starts, with a new optimizer; the first phase is 0."""

    def start_epoch(self, epoch: int) -> None:
        """Called when an epoch starts; the first epoch is 0."""

    def end_step(self, optimizer) -> None:
        """Called after a step of the optimizer."""


class FedRows(Dataset):
    """A dataset of rows prepared for a module.

    `skorch` and its splitters see an ordinary dataset; `BatchIterator` takes the arrays
    whole, because reading row by row costs several times the training of a small net.

    Parameters
    ----------
    rows : Rows
    module : TrainedModule or the class
        Decides how; the class leaves rows as they are.
    """

    def __init__(self, rows, module=TrainedModule):
        self.rows, self.X = rows, rows.X
        self.mean, self.scale, self.axes = module.mean, module.scale, module.axes
        self.n_columns = (rows.X if self.axes is None else self.axes.T).shape[1]
        self.keep_sparse = module.accepts_sparse and sparse.issparse(rows.X)

    def __len__(self):
        return self.X.shape[0]

    def __getitem__(self, index):
        return self.X[index], 0

    def standardized(self, rows) -> np.ndarray:
        """Return these rows, dense, standardized in the precision of the data."""
        chunk = self.X[rows]
        kind = chunk.dtype.type
        mean = None if self.mean is None else self.mean.astype(kind)
        axes = None if self.axes is None else self.axes.T.astype(kind)
        if sparse.issparse(chunk) and axes is not None:
            chunk = chunk @ axes - mean @ axes  # never dense at its full width
        else:
            chunk = dense_rows(chunk)
            chunk = chunk if mean is None else chunk - mean
            chunk = chunk if axes is None else chunk @ axes
        return (chunk / kind(self.scale)).astype(np.float32, copy=False)

    def values(self, rows=slice(None)) -> torch.Tensor:
        """Return these rows as a tensor on the CPU, sparse if the module takes that."""
        if self.keep_sparse:
            return sparse_tensor(self.X[rows])
        return torch.from_numpy(self.standardized(rows))


def sparse_tensor(X) -> torch.Tensor:
    """Return a CSR matrix as a sparse CSR tensor of float32."""
    return csr_tensor(
        torch.from_numpy(X.indptr.astype(np.int64)),
        torch.from_numpy(X.indices.astype(np.int64)),
        torch.from_numpy(X.data.astype(np.float32)),
        X.shape,
    )


class BatchIterator:
    """Batches of rows as float32 tensors on one device.

    Dense data are standardized and moved to the device once and sliced there. Sparse
    rows, and views of rows of more than 256 MiB in float32, are taken one batch at a
    time; of projected rows the size alone decides. A last row
    that would be alone joins the batch before: statistics of a batch need two.

    Parameters
    ----------
    dataset : FedRows or a torch Subset of one
    batch_size : int
    device : torch.device
    generator : torch.Generator or None
        On the CPU; shuffles the rows, else they come in order.

    Yields
    ------
    batch, None : Batch and the missing target
    """

    def __init__(self, dataset, batch_size, device, generator=None):
        self.data, self.rows = unwrap(dataset)
        self.batch_size, self.device, self.generator = batch_size, device, generator
        self.X = self._on_device() if _is_held(self.data) else None
        known = {name: getattr(self.data.rows, name) for name in KNOWN}
        self.known = {
            name: torch.as_tensor(value).to(device)
            for name, value in known.items()
            if value is not None
        }

    @property
    def _joins_last_row(self):
        n_rows, size = len(self.rows), self.batch_size
        return n_rows > size > 1 and n_rows % size == 1

    def __len__(self):
        return -(-len(self.rows) // self.batch_size) - self._joins_last_row

    def __iter__(self):
        order = self.rows
        if self.generator is not None:
            order = order[torch.randperm(len(order), generator=self.generator)]
        batches = list(order.split(self.batch_size))
        if self._joins_last_row:
            batches[-2:] = [torch.cat(batches[-2:])]
        if self.data.rows.partners is not None:
            batches = [torch.cat([rows, *self._partners(rows)]) for rows in batches]
        for rows in batches:
            X = None if self.X is not None else self.data.values(rows.numpy())
            rows = rows.to(self.device)
            X = self.X[rows] if X is None else X.to(self.device)
            known = {name: value[rows] for name, value in self.known.items()}
            yield Batch(X, rows, **known), None

    def _partners(self, rows):
        """Draw a candidate of each row; without a generator take the first."""
        partners = torch.from_numpy(self.data.rows.partners)
        drawn = torch.zeros(len(rows), dtype=torch.int64)
        if self.generator is not None:
            drawn.random_(0, partners.shape[1], generator=self.generator)
        return partners[rows, drawn].T

    def _on_device(self):
        shape = len(self.data), self.data.n_columns
        X = torch.empty(shape, dtype=torch.float32, device=self.device)
        for rows in row_chunks(len(X), 8 * self.data.X.shape[1]):
            X[rows] = torch.from_numpy(self.data.standardized(rows)).to(self.device)
        return X


def _is_held(data) -> bool:
    """Return whether all rows are on the device at once."""
    if isinstance(data.X, RowView) or data.axes is not None:
        return 4 * len(data) * data.n_columns <= HELD_BYTES
    return isinstance(data.X, np.ndarray)


def unwrap(dataset):
    """Return the `FedRows` behind nested subsets, and the positions of their rows."""
    if not isinstance(dataset, Subset):
        return dataset, torch.arange(len(dataset))
    data, rows = unwrap(dataset.dataset)
    return data, rows[torch.as_tensor(np.asarray(dataset.indices))]


def held(table, values):
    """Return which values each row of a table holds: (n, k), (m,) to (n, m), bool."""
    # A row of `holders` says which rows hold a distinct value; the last row is for
    # items that are none of the values. Comparing all pairs is slower.
    distinct, places = values.unique(return_inverse=True)
    slots = torch.searchsorted(distinct, table.contiguous())
    slots.clamp_(max=len(distinct) - 1)
    slots = torch.where(distinct[slots] == table, slots, len(distinct))
    holders = slots.new_zeros(len(distinct) + 1, len(table), dtype=torch.bool)
    return holders.scatter_(0, slots.T, True)[places].T
