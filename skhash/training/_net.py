"""The training loop: a skorch net fed with whole batches."""

import copy
import inspect
import math
import reprlib
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np
import torch
from scipy import sparse
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import ValidSplit
from torch.utils.data import Subset

from skhash.training._module import Batch, BatchIterator, FedRows, Rows, unwrap
from skhash.utils.torch import seeded_globals, threads_that_pay

# Parameters that may change while a net is trained: `resume` sets them, or `fit` reads.
FREE = ("lr", "batch_size", "verbose", "max_epochs", "random_state")
# Fields of skorch's history that the record of an epoch keeps.
MEASURED = ("train_loss", "valid_loss", "dur")
# Callbacks that every net has, none of which stops it.
OWN_CALLBACKS = (EpochTimer, PassthroughScoring, PrintLog)
# The share of the step size that an epoch has, the first one being 0, of n epochs.
SCHEDULES = {
    "cosine": lambda epoch, n: 0.5 * (1 + math.cos(math.pi * min(epoch / n, 1))),
    "step": lambda epoch, n: 0.1 ** sum(epoch >= share * n for share in (0.6, 0.8)),
}
# Optimizers that are refused: the abstract class; L-BFGS, which evaluates the same loss
# several times, although bits are drawn each time; those for sparse gradients or for
# matrices only; Rprop, which needs gradients of all rows and takes no weight decay; and
# STORM, which only some modules support.
NO_OPTIMIZERS = ("optimizer", "lbfgs", "sparseadam", "muon", "rprop", "storm")


class Stopped(Exception):
    """Raised where a callback ends the training."""


@dataclass(frozen=True)
class Split:
    """Training and validation rows, called as a splitter of skorch.

    Attributes
    ----------
    train : ndarray of int
    valid : ndarray of int or None
    """

    train: np.ndarray
    valid: np.ndarray | None = None

    def __call__(self, dataset, y=None):
        train = Subset(dataset, self.train)
        return train, None if self.valid is None else Subset(dataset, self.valid)


@dataclass(frozen=True)
class Run:
    """A training: its rows, its draws and its length.

    Attributes
    ----------
    device : torch.device
    seeds : list of int
        Three: for the first weights and batches, for the draws of the module, and for
        whatever else an estimator draws.
    generator : torch.Generator
        On the CPU, of the first seed.
    random_state : RandomState
        Draws what belongs to the rows, such as partners.
    splitter : callable or None
        Splits rows; made by `resolve_splitter`.
    split : Split or None
        The split of the rows of this call.
    phases : tuple of int or None
        The epochs of each phase; each has a fresh optimizer. None is an epoch of a
        stream.
    n_before : int
        The epochs of the calls before the net was made.
    """

    device: torch.device
    seeds: list
    generator: torch.Generator
    random_state: np.random.RandomState
    splitter: object = None
    split: Split | None = None
    phases: tuple | None = None
    n_before: int = 0

    @classmethod
    def start(cls, X, device, seeds, validation_fraction=None, **known) -> "Run":
        """Return a run on these rows; `known` are its other attributes."""
        generator = torch.Generator().manual_seed(int(seeds[0]))
        splitter = resolve_splitter(validation_fraction, generator)
        return cls(device, seeds, generator, splitter=splitter, **known)._on(X)

    def again(self, **changes) -> "Run":
        """Return a run with the same draws, and these changes."""
        return replace(self, generator=self.generator.clone_state(), **changes)

    def go_on(self, X, random_state) -> "Run":
        """Return the run of one more epoch, on other rows."""
        return replace(self, random_state=random_state)._on(X)

    def _on(self, X):
        return replace(self, split=split_rows(self.splitter, X))

    def trained(self, X):
        """Return the rows that are trained on."""
        return X if self.split is None else X[self.split.train]

    def trains(self, n_samples) -> np.ndarray:
        """Return which rows are trained on, a mask."""
        if self.split is None:
            return np.ones(n_samples, dtype=bool)
        return np.isin(np.arange(n_samples), self.split.train)


class HashNet(NeuralNet):
    """A skorch net of a `TrainedModule`, ready for `train`.

    Parameters
    ----------
    module : TrainedModule
        With its first weights.
    run : Run
    params : dict
        The parameters of the estimator, which `resume` compares with later ones.
        Callbacks are cloned, so that those of the caller stay as they are.
    batch_size : int
    optimizer : tuple
        Its class, and parameters besides the step size; see `resolve_optimizer`.
    """

    def __init__(self, module, run, params, batch_size, optimizer):
        kind, others = optimizer
        callbacks = clone(params.get("callbacks"), safe=False)
        if run.splitter is None:
            _check_no_validation(callbacks or [])
        self.run, self.params = run, snapshot(params)
        self.n_epochs, self.n_steps, self.first_epoch = None, 0, 0
        module.seed(run.seeds[1], run.device)
        others = fused_if_known(kind, run.device) | others
        super().__init__(
            module,
            criterion=torch.nn.Identity,
            optimizer=kind,
            lr=params["lr"],
            batch_size=batch_size,
            iterator_train=BatchIterator,
            iterator_train__device=run.device,
            iterator_train__generator=run.generator,
            iterator_valid=BatchIterator,
            iterator_valid__device=run.device,
            callbacks=callbacks,
            train_split=None,
            device=run.device,
            verbose=int(params.get("verbose", 0)),
            **{f"optimizer__{name}": value for name, value in others.items()},
        )
        self.initialize()

    def __deepcopy__(self, memo):
        """Copy without skorch's pickle, which moves states of generators to CUDA.

        Records of past epochs are shared: a stream has many, and they do not change.
        """
        memo[id(self)] = other = object.__new__(type(self))
        memo[id(self.history)] = copy.copy(self.history)
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other

    def start_phase(self, phase, n_epochs):
        """Start optimizer and schedule afresh, for `n_epochs` epochs."""
        if phase:
            self.initialize_optimizer()
            for group in self.optimizer_.param_groups:  # as schedulers of torch go on
                group["initial_lr"] = self.lr
        self.module_.start_phase(phase)
        self.n_epochs, self.n_steps, self.first_epoch = n_epochs, 0, len(self.history)

    def notify(self, method_name, **kwargs):
        """Notify callbacks; raise `Stopped` if one of the user ends the training.

        A callback of the user stops training as those of skorch do, by
        ``KeyboardInterrupt``. If it comes from elsewhere, the user interrupts.
        """
        getattr(self, method_name)(self, **kwargs)
        for _, callback in self.callbacks_:
            try:
                getattr(callback, method_name)(self, **kwargs)
            except KeyboardInterrupt:
                if isinstance(callback, OWN_CALLBACKS):
                    raise
                raise Stopped from None

    def infer(self, batch, **fit_params):
        return self.module_(batch.X)

    def get_loss(self, outputs, y_true, X=None, training=False):
        return self.module_.loss(outputs, X)

    def on_epoch_begin(self, net, **kwargs):
        super().on_epoch_begin(net, **kwargs)
        epoch = len(self.history) - 1
        self.module_.start_epoch(self.run.n_before + epoch)
        share = SCHEDULES.get(self.params["lr_schedule"])
        if share is not None and self.n_epochs is not None:
            for group in self.optimizer_.param_groups:
                group["lr"] = self.lr * share(epoch - self.first_epoch, self.n_epochs)

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        super().on_batch_end(net, batch, training, **kwargs)
        if training:
            self.n_steps += 1
            self.module_.end_step(self.optimizer_)
            if self.params["lr_schedule"] == "inverse_sqrt":
                # Scales the current step size, so changes made by callbacks persist.
                for group in self.optimizer_.param_groups:
                    group["lr"] *= (self.n_steps / (self.n_steps + 1)) ** 0.5

    def get_train_step_accumulator(self):
        return LastStep()


class LastStep:
    """Keeps the last evaluation of an optimizer that makes several in a step."""

    def store_step(self, step):
        self.step = step

    def get_step(self):
        return self.step


def resolve_optimizer(optimizer, others=None, **given):
    """Return a class of optimizers, and its parameters besides the step size.

    Parameters
    ----------
    optimizer : str, torch.optim.Optimizer class or partial of one
    others : dict or None
        Optimizers besides those of torch, by their names.
    **given
        Parameters of the optimizer that the estimator has.
    """
    kind, params = optimizer, {}
    if isinstance(optimizer, partial) and not optimizer.args:
        kind, params = optimizer.func, optimizer.keywords
    twice = [name for name in ("lr", *given) if name in params]
    if twice:
        raise ValueError(
            f"optimizer={optimizer!r} sets {twice[0]}, for which the estimator has a "
            "parameter; set that instead."
        )
    others, kinds = others or {}, vars(torch.optim).items()
    known = others | {key.lower(): cls for key, cls in kinds if _takes_steps(cls)}
    if isinstance(kind, str):
        kind = known.get(kind.lower())
    if kind not in others.values() and not _takes_steps(kind):
        raise ValueError(
            f"optimizer={optimizer!r} is not one of {', '.join(sorted(known))}, nor "
            "another class of torch.optim that takes one step per batch with dense "
            "gradients."
        )
    return kind, given | params


def _takes_steps(kind) -> bool:
    is_class = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    return is_class and kind.__name__.lower() not in NO_OPTIMIZERS


def fused_if_known(kind, device) -> dict:
    """Ask for one kernel for the whole step, which is several times faster."""
    is_known = "fused" in inspect.signature(kind).parameters
    return {"fused": True} if is_known and device.type in ("cpu", "cuda") else {}


def _check_no_validation(callbacks):
    """Raise ``ValueError`` where a callback watches rows that are not held out."""
    for callback in callbacks:
        callback = callback[1] if isinstance(callback, tuple) else callback
        watched = getattr(callback, "monitor", None)
        if isinstance(watched, str) and watched.startswith("valid"):
            raise ValueError(
                f"The callback {type(callback).__name__} monitors {watched!r}, but no "
                "rows are held out for validation. Set validation_fraction=0.1, or set "
                "monitor='train_loss' on the callback."
            )


def train(net: HashNet, rows: Rows) -> list[dict]:
    """Train a net, as its run says, and return a record of each epoch.

    A record has ``epoch``, ``train_loss``, ``valid_loss`` with a split, and ``dur``, in
    seconds: plain numbers. An epoch within which a callback ended training has none.

    Raises
    ------
    ValueError
        If the loss is not finite at the end of a phase.
    """
    net.train_split = rows.split
    # Each parameter takes part in about one multiplication a row.
    n_parameters = sum(parameter.numel() for parameter in net.module_.parameters())
    work = net.batch_size * n_parameters
    data, run, first = FedRows(rows, net.module_), net.run, len(net.history)
    for phase, epochs in enumerate(run.phases or [1]):
        if run.phases is not None:
            net.start_phase(phase, epochs)
        n_before = len(net.history)
        # skorch's `partial_fit` would take an interrupt of the user for an early end.
        net.notify("on_train_begin", X=data, y=None)
        # A user's network draws from torch's global generators: each time differently,
        # and differently from the module's own generator.
        seed = run.seeds[1] + 1 + n_before
        with threads_that_pay(work), seeded_globals(seed, run.device):
            with suppress(Stopped):
                net.fit_loop(data, epochs=epochs)
        if "train_loss" not in net.history[-1]:
            net.history.pop()  # a callback ended the training within this epoch
        net.notify("on_train_end", X=data, y=None)
        losses = [float(record["train_loss"]) for record in net.history[n_before:]]
        if not np.isfinite(losses[-1:]).all():
            raise ValueError(
                f"Training diverged: the loss is {losses[-1]} after {len(losses)} "
                f"epoch(s) with lr={net.lr:.3g}. Lower lr."
            )
    records = net.history[first:]
    for record in records:
        record.pop("batches", None)  # one entry a batch would dominate a pickled net
    return [
        {"epoch": run.n_before + record["epoch"]}
        | {name: float(record[name]) for name in MEASURED if name in record}
        for record in records
    ]


def resolve_splitter(validation_fraction, generator):
    """Return a splitter of datasets for skorch, or None.

    Parameters
    ----------
    validation_fraction : float, callable or None
        The share of rows to validate on, or a skorch splitter.
    generator : torch.Generator
        On the CPU; draws the rows of a share.
    """
    if not isinstance(validation_fraction, Real):
        return validation_fraction
    seed = int(torch.randint(2**31, (), generator=generator))
    return ValidSplit(cv=float(validation_fraction), random_state=seed)


def split_rows(splitter, X) -> Split | None:
    """Return the split of these rows, or None without a splitter."""
    if splitter is None:
        return None
    data = FedRows(Rows(X))
    parts = [unwrap(part) for part in splitter(data, None) if part is not None]
    if any(found is not data for found, _ in parts):
        raise ValueError(
            "The splitter of validation_fraction returned other rows than those of X, "
            "but rows to validate on are held out of X; return subsets of the dataset "
            "that the splitter is given."
        )
    return Split(*(rows.numpy() for _, rows in parts))


def check_unchanged(net: HashNet, params, free=()) -> None:
    """Raise ``ValueError`` if a parameter has changed, other than `FREE` and `free`.

    Parameters
    ----------
    net : HashNet
    params : dict
        The parameters of its estimator now.
    free : sequence of str
        Names of parameters that the net does not depend on.
    """
    for name in params.keys() - {*FREE, *free}:
        before, now = net.params[name], params[name]
        if not _are_same(before, now):
            raise ValueError(
                f"{name} was {reprlib.repr(before)} in earlier calls of partial_fit "
                f"and is {reprlib.repr(now)} now. Set it back, or fit again; only lr "
                "and batch_size may change."
            )


def resume(net: HashNet, run, params) -> HashNet:
    """Return a copy of a net of a stream to resume, with the current step size.

    Parameters
    ----------
    net : HashNet
    run : Run
        That of the rows to train on.
    params : dict
        The parameters of its estimator now.
    """
    net = copy.deepcopy(net)
    net.run = run
    net.params = snapshot(params)
    net.verbose = int(params["verbose"])
    for group in net.optimizer_.param_groups:
        group["lr"] *= params["lr"] / net.lr  # which a schedule may have changed
    net.lr = params["lr"]
    return net


def snapshot(params) -> dict:
    """Copy parameters, so that later changes of objects among them have no effect."""
    return {
        name: clone(value, safe=False) if hasattr(value, "get_params") else value
        for name, value in params.items()
    }


def _are_same(first, second) -> bool:
    """Return whether two values of a parameter are equal."""
    if first is second:
        return True
    if type(first) is not type(second):
        return np.isscalar(first) and np.isscalar(second) and first == second
    if hasattr(first, "get_params"):
        first, second = (value.get_params(deep=False) for value in (first, second))
    if isinstance(first, partial):
        first, second = ([value.func, value.keywords] for value in (first, second))
    if isinstance(first, dict):
        names = first.keys() | second.keys()
        return all(_are_same(first.get(name), second.get(name)) for name in names)
    if isinstance(first, list | tuple):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(_are_same(*pair) for pair in pairs)
    if sparse.issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    return np.array_equal(first, second)


def whole_batch(module, X, **known) -> Batch:
    """Return all these rows as one batch on the CPU."""
    return Batch.of(FedRows(Rows(X), module).values(), **known)
