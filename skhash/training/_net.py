"""The training loop: skorch, held by composition and fed whole batches.

Nothing else in skhash imports skorch. A module to train has ``forward(X)``, which
returns its outputs for a batch, and ``loss(outputs, X, y)``, which returns the loss to
minimise, a scalar tensor. If it has attributes ``mean`` and ``scale``, it is fed
standardised rows. If its ``accepts_sparse`` is true, it is fed sparse rows as sparse
CSR tensors, else dense batch by batch. If its ``n_partners`` is k > 0, it is fed by
pairs: columns 1 to k of ``y`` are positions of rows, of which each row of a batch gets
one as its partner, drawn anew each time; the partners follow all rows of the batch.
If its ``partners_each`` is 2, the next k columns go with these, and a row gets both of
a drawn pair of columns; the second ones come last.
If it has ``start_epoch``, that is called with the number of each epoch, from 0. If it
has ``end_step``, that is called with the optimizer after each step.
"""

import copy
import inspect
import reprlib
from numbers import Real

import numpy as np
import torch
from scipy import sparse
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import LRScheduler
from skorch.dataset import ValidSplit
from torch.utils.data import Dataset, Subset

from skhash.training._dataset_rows import DatasetRows
from skhash.utils._torch_sparse import csr_tensor
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import threads_that_pay

# Parameters that may change while a net is trained: what it takes over, or `fit` reads.
FREE = ("lr", "batch_size", "verbose", "max_epochs", "random_state")
# The abstract one; one that wants the same loss several times, where bits are drawn
# anew; and one for sparse gradients.
NO_OPTIMIZERS = ("optimizer", "lbfgs", "sparseadam")
# What the record of an epoch keeps of skorch's.
MEASURED = ("train_loss", "valid_loss", "dur")


class ArrayDataset(Dataset):
    """Rows of an array, a CSR matrix or a torch Dataset, with or without targets.

    `skorch` and its splitters see an ordinary dataset; `BatchIterator` takes the arrays
    whole, because reading row by row costs several times the training of a small net.

    Parameters
    ----------
    X : {ndarray, CSR array, DatasetRows} of shape (n_samples, n_features)
        float32 or float64.
    y : ndarray of shape (n_samples, ...) or None
    mean : ndarray of shape (n_features,) or None
    scale : float
        Rows are fed as float32 ``(x - mean) / scale``.
    keep_sparse : bool
        Whether rows of a CSR matrix are fed as sparse tensors; they are not centred.
    n_partners, partners_each : int
        How many columns of `y`, from the second on, are rows to pair each row with; and
        how many times so many, of which each row gets one of each.
    """

    def __init__(
        self,
        X,
        y=None,
        mean=None,
        scale=1.0,
        keep_sparse=False,
        n_partners=0,
        partners_each=1,
    ):
        self.X, self.y = X, y
        self.mean, self.scale = mean, scale
        self.n_partners, self.partners_each = n_partners, partners_each
        self.keep_sparse = keep_sparse and sparse.issparse(X)

    def __len__(self):
        return self.X.shape[0]

    def __getitem__(self, index):
        return self.X[index], 0 if self.y is None else self.y[index]

    def standardized(self, rows) -> np.ndarray:
        """Return these rows, dense, standardised in the precision of the data."""
        chunk = self.X[rows]
        if sparse.issparse(chunk):
            chunk = chunk.toarray()
        if self.mean is not None:
            chunk = chunk - self.mean.astype(chunk.dtype)
        return (chunk / chunk.dtype.type(self.scale)).astype(np.float32, copy=False)

    def batch(self, rows) -> torch.Tensor:
        """Return these rows as a tensor on the CPU, sparse where they are kept so."""
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

    Dense data are standardised and moved to the device once and sliced there. Sparse
    rows, and those of a torch Dataset, are taken one batch at a time. A last row that
    would be alone joins the batch before: statistics of a batch need two.

    Parameters
    ----------
    dataset : ArrayDataset or a torch Subset of one
    batch_size : int
    device : torch.device
    generator : torch.Generator or None
        On the CPU; shuffles the rows, else they come in order.
    """

    def __init__(self, dataset, batch_size, device, generator=None):
        self.data, rows = _unwrap(dataset)
        self.rows = torch.arange(len(self.data)) if rows is None else rows
        self.batch_size, self.device, self.generator = batch_size, device, generator
        in_memory = isinstance(self.data.X, np.ndarray)
        self.X = self._on_device() if in_memory else None
        y = self.data.y
        self.y = None if y is None else torch.as_tensor(y).to(device)

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
        if self.data.n_partners:
            batches = [torch.cat([rows, self._partners(rows)]) for rows in batches]
        for rows, batch in zip(batches, self._read(batches), strict=True):
            yield batch, None if self.y is None else self.y[rows.to(self.device)]

    def _read(self, batches):
        """Yield the rows of each batch, on the device."""
        if isinstance(self.data.X, DatasetRows):
            for batch in self.data.X.batches(batches):
                yield batch.to(self.device)
            return
        for rows in batches:
            if self.X is None:
                yield self.data.batch(rows.numpy()).to(self.device)
            else:
                yield self.X[rows.to(self.device)]

    def _partners(self, rows):
        """Draw the partners of each row; without a generator take the first."""
        column = torch.ones(len(rows), dtype=torch.int64)
        if self.generator is not None:
            column.random_(1, self.data.n_partners + 1, generator=self.generator)
        y, n = torch.from_numpy(self.data.y), self.data.n_partners
        return torch.cat(
            [y[rows, column + i * n] for i in range(self.data.partners_each)]
        )

    def _on_device(self):
        X = torch.empty(self.data.X.shape, dtype=torch.float32, device=self.device)
        for rows in row_chunks(len(X), 8 * X.shape[1]):
            X[rows] = torch.from_numpy(self.data.standardized(rows)).to(self.device)
        return X


class HashNet(NeuralNet):
    """A skorch net whose module computes its own loss."""

    def get_loss(self, y_pred, y_true, X=None, training=False):
        return self.module_.loss(y_pred, X, y_true)

    def on_epoch_begin(self, net, **kwargs):
        super().on_epoch_begin(net, **kwargs)
        if hasattr(self.module_, "start_epoch"):
            self.module_.start_epoch(len(self.history) - 1)

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        super().on_batch_end(net, batch, training, **kwargs)
        if training and hasattr(self.module_, "end_step"):
            self.module_.end_step(self.optimizer_)

    def get_train_step_accumulator(self):
        return LastStep()


class LastStep:
    """Keeps the last evaluation of an optimizer that makes several in a step."""

    def store_step(self, step):
        self.step = step

    def get_step(self):
        return self.step


def make_net(
    module,
    *,
    lr,
    batch_size,
    optimizer,
    callbacks,
    train_split,
    device,
    generator,
    verbose,
    optimizer_params=None,
    lr_factor=None,
) -> HashNet:
    """Build a net around `module`, ready for `train`.

    Parameters
    ----------
    module : torch.nn.Module
        Initialised, with ``forward`` and ``loss`` as this file's docstring says.
    optimizer : str or type
        A class of `torch.optim`, or its name: "adam", "sgd", ....
    callbacks : list of skorch callbacks or None
        Cloned, so that what the caller gave stays as it is.
    train_split : float, callable or None
        As `resolve_splitter` takes it.
    generator : torch.Generator
        On the CPU; shuffles the batches.
    optimizer_params : dict or None
        What the optimizer takes besides the learning rate, such as ``weight_decay``.
    lr_factor : callable or None
        Maps the number of an epoch, from 0, to what `lr` is multiplied with.
    """
    splitter = resolve_splitter(train_split, generator)
    optimizer = resolve_optimizer(optimizer)
    callbacks = None if callbacks is None else clone(callbacks, safe=False)
    if splitter is None:
        _check_no_validation(callbacks or [])
    if lr_factor is not None:
        schedule = LRScheduler(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lr_factor)
        callbacks = [*(callbacks or []), ("schedule", schedule)]
    net = HashNet(
        module,
        criterion=torch.nn.Identity,
        optimizer=optimizer,
        lr=lr,
        batch_size=batch_size,
        iterator_train=BatchIterator,
        iterator_train__device=device,
        iterator_train__generator=generator,
        iterator_valid=BatchIterator,
        iterator_valid__device=device,
        callbacks=callbacks,
        train_split=None,
        device=device,
        verbose=int(verbose),
    )
    for name, value in (optimizer_params or {}).items():
        net.set_params(**{f"optimizer__{name}": value})
    if _has_fused_step(optimizer, device):
        net.set_params(optimizer__fused=True)
    net.splitter = splitter
    return net.initialize()


def _check_no_validation(callbacks):
    """Raise ``ValueError`` where a callback watches rows that are not held out."""
    for callback in callbacks:
        callback = callback[1] if isinstance(callback, tuple) else callback
        watched = getattr(callback, "monitor", None)
        if isinstance(watched, str) and watched.startswith("valid"):
            raise ValueError(
                f"The callback {type(callback).__name__} watches {watched!r}, and no "
                "rows are held out to validate on. Hold out a share of them, by "
                "train_split=0.1 (of a classifier validation_fraction), or give "
                "monitor='train_loss'."
            )


def _has_fused_step(optimizer, device) -> bool:
    """Say whether one kernel can make the whole step: several times faster."""
    known = "fused" in inspect.signature(optimizer).parameters
    return known and torch.device(device).type in ("cpu", "cuda")


def train(net: HashNet, X, y, epochs: int, split=None) -> list[dict]:
    """Train for `epochs` and return the record of each as plain numbers.

    The rows of a `Split` make up the batches, by default of the net's own splitter;
    others may be partners.

    A record has ``epoch``, ``train_loss``, ``valid_loss`` with a split, and ``dur``, in
    seconds.
    """
    n_before = len(net.history)
    data = feed(net.module_, X, y)
    net.train_split = split_rows(net.splitter, X) if split is None else split
    # Each parameter takes part in about one multiplication a row.
    n_parameters = sum(parameter.numel() for parameter in net.module_.parameters())
    with threads_that_pay(net.batch_size * n_parameters):
        net.partial_fit(data, epochs=epochs)
    for record in net.history:
        record.pop("batches", None)  # one entry a batch would dominate a pickled net
    return [
        {"epoch": record["epoch"]}
        | {name: float(record[name]) for name in MEASURED if name in record}
        for record in net.history[n_before:]
    ]


class Split:
    """Which rows are trained on, and which validate, as skorch takes it.

    Parameters
    ----------
    train : ndarray of int
    valid : ndarray of int or None
    """

    def __init__(self, train, valid=None):
        self.train, self.valid = train, valid

    def __call__(self, dataset, y=None):
        train = Subset(dataset, self.train)
        return train, None if self.valid is None else Subset(dataset, self.valid)


def resolve_splitter(train_split, generator):
    """Return what splits a dataset, as skorch takes it, or None.

    Parameters
    ----------
    train_split : float, callable or None
        The share of rows to validate on, or what skorch takes.
    generator : torch.Generator
        On the CPU; draws the rows of a share.
    """
    if not isinstance(train_split, Real):
        return train_split
    seed = int(torch.randint(2**31, (), generator=generator))
    return ValidSplit(cv=float(train_split), random_state=seed)


def split_rows(splitter, X) -> Split | None:
    """Return how a splitter parts these rows; None where there is none."""
    if splitter is None:
        return None
    train, valid = splitter(ArrayDataset(X), None)
    return Split(_positions(train), None if valid is None else _positions(valid))


def resume(net: HashNet, params, lr, batch_size, free=()) -> HashNet:
    """Return a copy of a net to train on, with these step and batch sizes.

    Parameters
    ----------
    net : HashNet
        With `params`, the parameters of its estimator when it was made.
    params : dict
        Those of now.
    lr : float
    batch_size : int or "auto"
        "auto" stays what it was.
    free : sequence of str
        Names of parameters that the net does not depend on.

    Raises
    ------
    ValueError
        If a parameter has changed, other than `FREE` and those.
    """
    for name in params.keys() - {*FREE, *free}:
        before, now = net.params[name], params[name]
        if not _are_same(before, now):
            raise ValueError(
                f"partial_fit goes on with the parameters of the calls before, and "
                f"{name} was {reprlib.repr(before)} then, and is {reprlib.repr(now)} "
                "now. Set it back, or fit anew; lr and batch_size may change."
            )
    net = copy.deepcopy(net)
    net.params = snapshot(params)
    net.verbose = int(params["verbose"])
    for group in net.optimizer_.param_groups:
        group["lr"] *= lr / net.lr  # which a schedule may have changed
    net.lr = lr
    if batch_size != "auto":
        net.batch_size = batch_size
    return net


def snapshot(params) -> dict:
    """Return parameters as they are now, whatever becomes of objects among them."""
    return {
        name: clone(value, safe=False) if hasattr(value, "get_params") else value
        for name, value in params.items()
    }


def _are_same(first, second) -> bool:
    """Say whether two values of a parameter are equal."""
    if first is second:
        return True
    if type(first) is not type(second):
        return np.isscalar(first) and np.isscalar(second) and first == second
    if hasattr(first, "get_params"):
        first, second = (one.get_params(deep=False) for one in (first, second))
    if isinstance(first, dict):
        names = first.keys() | second.keys()
        return all(_are_same(first.get(name), second.get(name)) for name in names)
    if isinstance(first, list | tuple):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(_are_same(*pair) for pair in pairs)
    if sparse.issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    return np.array_equal(first, second)


def feed(module, X, y=None) -> ArrayDataset:
    """Return rows as `module` wants to be fed them."""
    mean, scale = getattr(module, "mean", None), getattr(module, "scale", 1.0)
    keep_sparse = getattr(module, "accepts_sparse", False)
    n_partners = 0 if y is None else getattr(module, "n_partners", 0)
    partners_each = getattr(module, "partners_each", 1)
    return ArrayDataset(X, y, mean, scale, keep_sparse, n_partners, partners_each)


def fed_batch(module, X) -> torch.Tensor:
    """Return all these rows as one batch on the CPU."""
    return feed(module, X).batch(slice(None))


def resolve_optimizer(optimizer):
    """Return the `torch.optim` class of a name, or the class itself."""
    classes = {
        name.lower(): value
        for name, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    }
    for name in NO_OPTIMIZERS:
        classes.pop(name)
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        name, found = optimizer.__name__.lower(), optimizer
    else:
        name = optimizer.lower() if isinstance(optimizer, str) else None
        found = classes.get(name)
    if found is None or name in NO_OPTIMIZERS:
        known = ", ".join(sorted(classes))
        raise ValueError(
            f"optimizer={optimizer!r} is not one of {known}, nor another class of "
            "torch.optim that takes one step a batch with dense gradients."
        )
    return found


def _positions(dataset) -> np.ndarray:
    """Return which rows of the `ArrayDataset` behind it a dataset has."""
    data, rows = _unwrap(dataset)
    return np.arange(len(data)) if rows is None else rows.numpy()


def _unwrap(dataset):
    """Return the `ArrayDataset` behind nested subsets, and the rows that are meant."""
    rows = None
    while isinstance(dataset, Subset):
        indices = torch.as_tensor(np.asarray(dataset.indices))
        rows = indices if rows is None else indices[rows]
        dataset = dataset.dataset
    return dataset, rows
