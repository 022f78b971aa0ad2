"""What all trained estimators share: a net that is made, trained and gone on from."""

from numbers import Integral, Real

import numpy as np

from skhash.persistence.schema import Records, wholes
from skhash.training._optimizers import Optimizer
from skhash.utils._sklearn import HasMethods, Interval, StrOptions
from skhash.utils.torch import random_state_of_call, resolve_device

# What the parameters of the training may be, for every trained estimator.
TRAINING_CONSTRAINTS: dict = {
    "lr": [Interval(Real, 0, None, closed="neither")],
    "lr_schedule": [
        StrOptions({"cosine", "inverse_sqrt", "step"}),
        HasMethods(["start_epoch", "end_step"]),
        None,
    ],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "optimizer": [str, type, Optimizer],
    "callbacks": [list, None],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither"), callable, None],
    "device": [str],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class TrainedMixin:
    """An estimator that trains a `TrainedModule`, in a skorch net.

    It has the parameters of `TRAINING_CONSTRAINTS` and writes three methods:
    `_make_module(X, y, rows, device, generator)` returns the module with its first
    weights; `_restore_module(n_rows)` returns it from the fitted attributes instead, to
    be trained on so many rows; and
    `_read_out(net, X)` turns its parameters into the fitted attributes. It may write
    `_rows`, which says what is known of rows, and `_optimizer`.

    The net is held as ``net_`` and not inherited from. It is what `partial_fit` goes on
    from; use of the estimator does not need it, and `save` leaves it out.
    """

    _saved = {"history_": Records(), "n_iter_": wholes(low=0)}
    _unsaved_attributes = ("net_",)
    # Parameters that a net in training does not depend on.
    _untrained_parameters: tuple[str, ...] = ()
    # What batch_size="auto" means: about so many steps an epoch train a small set well,
    # and large batches, within these bounds, a large one fast.
    _auto_steps = 100
    _auto_batch_sizes = (32, 512)

    def _make_net(self, X, y, seeds, *, restore=False, n_epochs=None, lr=None):
        """Return a net to train.

        Parameters
        ----------
        seeds : sequence of int
            Of first weights and batches, of what the module draws, and one to spare.
        restore : bool
            Whether its first parameters are those of the last fit.
        n_epochs : int or None
            None for a stream of unknown end.
        lr : float or None
            None is as the parameter says.
        """
        import torch

        from skhash.training._net import (
            make_net,
            resolve_splitter,
            snapshot,
            split_rows,
        )

        device = resolve_device(self.device)
        generator = torch.Generator().manual_seed(int(seeds[0]))
        splitter = resolve_splitter(self.validation_fraction, generator)
        split = split_rows(splitter, X)
        rows = None if split is None else split.train
        if restore:
            module = self._restore_module(X.shape[0] if rows is None else len(rows))
        else:
            module = self._make_module(X, y, rows, device, generator)
        if lr is None:
            lr = self._step_size(X, y, seeds, restore)
        module.generator = torch.Generator(device).manual_seed(int(seeds[1]))
        net = make_net(
            module,
            self._optimization(module, X, lr, n_epochs),
            callbacks=self.callbacks,
            splitter=splitter,
            device=device,
            generator=generator,
            verbose=self.verbose,
        )
        net.split, net.seeds = split, seeds
        net.params = snapshot(self.get_params(deep=False))
        return net

    def _optimization(self, module, X, lr, n_epochs):
        from skhash.training._net import Optimization

        optimizer, params = self._optimizer(module)
        return Optimization(
            lr=lr,
            batch_size=self._resolve_batch_size(X.shape[0]),
            optimizer=optimizer,
            params=params,
            schedule=self.lr_schedule,
            n_epochs=n_epochs,
        )

    def _step_size(self, X, y, seeds, goes_on) -> float:
        """Return the step size of a net, or of one that was trained before."""
        return self.lr

    def _resumed_net(self, X):
        """Return a copy of the net to go on with, on other rows."""
        from skhash.training._net import resume, split_rows

        net = resume(
            self.net_,
            self.get_params(deep=False),
            self._step_size(X, None, None, goes_on=True),
            self.batch_size,
            self._untrained_parameters,
        )
        net.split = split_rows(net.splitter, X)
        return net

    def _optimizer(self, module) -> tuple:
        """Return the optimizer, and what it takes besides the learning rate."""
        return self.optimizer, {}

    def _resolve_batch_size(self, n_samples: int) -> int:
        """Return the number of rows in a batch."""
        if self.batch_size != "auto":
            return self.batch_size
        smallest, largest = self._auto_batch_sizes
        return int(np.clip(n_samples // self._auto_steps, smallest, largest))

    def _rows(self, X, y, net, n_before):
        """Return the `Rows` to train on, `n_before` epochs after the first."""
        from skhash.training._batches import Rows

        return Rows(X, split=net.split)

    def _train(self, net, X, y, epochs, history) -> None:
        """Train a net and set the fitted attributes."""
        self._fit_rows(net, self._rows(X, y, net, len(history)), epochs, history)

    def _fit_rows(self, net, rows, epochs, history) -> None:
        from skhash.training._net import train

        records = train(net, rows, epochs)
        if not np.isfinite(records[-1]["train_loss"]):
            raise ValueError(
                f"Training diverged: the loss is {records[-1]['train_loss']} after "
                f"{len(records)} epoch(s) with lr={net.lr:.3g}. Lower lr."
            )
        self._read_out(net, rows.X)
        self.net_ = net
        self.history_ = history + records
        self.n_iter_ = len(self.history_)

    def _go_on(self, X, y) -> None:
        """Train for an epoch: the first one, or one more."""
        first = not self.__sklearn_is_fitted__()
        history = [] if first else self.history_
        if hasattr(self, "net_"):
            net = self._resumed_net(X)
        else:
            random_state = random_state_of_call(self.random_state, len(history))
            net = self._make_net(X, y, draw_seeds(random_state), restore=not first)
        self._train(net, X, y, 1, history)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "history_")

    def __getstate__(self):
        state = super().__getstate__()
        if "net_" in state and state["net_"].device.type != "cpu":
            # It holds generators of that device, which no other machine can read.
            state = {name: value for name, value in state.items() if name != "net_"}
        return state


def draw_seeds(random_state) -> list[int]:
    """Draw the seeds of a training.

    Parameters
    ----------
    random_state : RandomState instance

    Returns
    -------
    seeds : list of int
        Three: of first weights and batches, of what the module draws, and one to spare.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.training import draw_seeds
    >>> len(draw_seeds(np.random.RandomState(0)))
    3
    """
    return random_state.randint(np.iinfo(np.int32).max, size=3).tolist()


def arrays_of(module) -> dict[str, np.ndarray]:
    """Return what a module has learned as arrays of their own, on the CPU.

    Parameters
    ----------
    module : torch.nn.Module

    Returns
    -------
    arrays : dict of ndarray
        Parameters and buffers, by name.

    Examples
    --------
    >>> import torch
    >>> from skhash.training import arrays_of
    >>> {name: array.shape for name, array in arrays_of(torch.nn.Linear(3, 2)).items()}
    {'weight': (2, 3), 'bias': (2,)}
    """
    return {
        name: value.cpu().numpy().copy() for name, value in module.state_dict().items()
    }
