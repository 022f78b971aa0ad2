"""Encoders that are trained by gradient descent."""

from abc import abstractmethod
from numbers import Integral, Real

import numpy as np
from sklearn.utils.metaestimators import available_if

from skhash.base import BaseHasher, check_magnitude
from skhash.utils._sklearn import Interval, StrOptions, fit_context
from skhash.utils.torch import random_state_of_call, resolve_device, seeded_generator

# What the parameters of the training may be, for every trained encoder.
TRAINING_CONSTRAINTS: dict = {
    "normalize": ["boolean"],
    "lr": [Interval(Real, 0, None, closed="neither")],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "optimizer": [str, type],
    "callbacks": [list, None],
    "train_split": [Interval(Real, 0, 1, closed="neither"), callable, None],
    "device": [str],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class BaseNeuralHasher(BaseHasher):
    """Base of the encoders that are trained by gradient descent, in a skorch net.

    A leaf writes three methods. `_make_module(X, y, device, generator, rows)` returns a
    torch module with its first weights and a ``loss`` (see `skhash.training._net`);
    `_restore_module` returns it from the fitted attributes instead;
    `_read_out(module, values)` turns its parameters, as NumPy arrays, into the fitted
    attributes.

    The net is held as ``net_`` and not inherited from. It is what `partial_fit` goes on
    from; encoding does not need it, and `save` leaves it out.
    """

    _unsaved_attributes = ("net_",)
    # What batch_size="auto" means: about so many steps an epoch train a small set well,
    # and large batches, within these bounds, a large one fast.
    _auto_steps = 100
    _auto_batch_sizes = (32, 512)

    @abstractmethod
    def _make_module(self, X, y, device, generator, rows):
        """Return the module to train, with its first weights, on the CPU.

        rows : the positions of the rows that are trained on, or None for all
        """

    @abstractmethod
    def _restore_module(self):
        """Return the module with the weights of the fitted attributes, on the CPU."""

    @abstractmethod
    def _read_out(self, module, values: dict[str, np.ndarray]) -> None:
        """Set the fitted attributes from a trained module and its parameters."""

    # Whether there is a `partial_fit`.
    _goes_on = True

    @available_if(lambda self: self._goes_on)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model, from its rows alone: let them be some
        thousands, drawn at random. Later calls keep the optimizer's state; on an
        encoder that was loaded from a file, or copied off an accelerator, the optimizer
        starts afresh. Of the parameters `lr` and `batch_size` may change from call to
        call, and `max_epochs` is not used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is as it was before.

        Raises
        ------
        ValueError
            As `fit`, or if a parameter has changed that the first call built on.
        """
        first = not self.__sklearn_is_fitted__()
        if not first and self.n_bits != self._n_features_out:
            raise ValueError(
                f"n_bits={self.n_bits}, but the codes that were learned have "
                f"{self._n_features_out} bits; set it back, or fit anew."
            )
        X = self._prepare(self._validate(X, reset=first))
        if first:
            self._check_rows(X)
        else:
            check_magnitude(X)
        y = self._validate_targets(y, is_part=True)
        history = [] if first else self.history_
        if hasattr(self, "net_"):
            net = self._resumed_net(X)
        else:
            random_state = random_state_of_call(self.random_state, len(history))
            net = self._make_net(X, y, random_state, restore=not first)
        self._train(net, X, y, 1, history)
        return self

    def _resumed_net(self, X):
        """Return a copy of the net to go on with, on other rows."""
        from skhash.training._net import resume, split_rows

        params = self.get_params(deep=False)
        net = resume(self.net_, params, self.lr, self.batch_size)
        net.split = split_rows(net.splitter, X)
        return net

    def _training_inputs(self, X, y=None):
        """Return the module, a batch of all rows as training feeds it, and `y`."""
        from skhash.training._net import fed_batch

        X = self._prepare(self._validate_fitted(X))
        if hasattr(self, "net_"):
            module = self.net_.module_
        else:
            module = self._restore_module()
        device = next(module.parameters()).device
        return module, fed_batch(module, X).to(device), y

    def __sklearn_is_fitted__(self):
        return hasattr(self, "history_")

    def __getstate__(self):
        state = super().__getstate__()
        if "net_" in state and state["net_"].device.type != "cpu":
            # It holds generators of that device, which no other machine can read.
            state = {name: value for name, value in state.items() if name != "net_"}
        return state

    def _fit_codes(self, X, y, random_state):
        net = self._make_net(X, y, random_state)
        self._train(net, X, y, self.max_epochs, history=[])

    def _make_net(self, X, y, random_state, restore=False):
        from skhash.training._net import (
            make_net,
            resolve_splitter,
            snapshot,
            split_rows,
        )

        device = resolve_device(self.device)
        generator = seeded_generator(random_state)
        splitter = resolve_splitter(self.train_split, generator)
        split = split_rows(splitter, X)
        if restore:
            module = self._restore_module()
        else:
            rows = None if split is None else split.train
            module = self._make_module(X, y, device, generator, rows)
        module.generator = seeded_generator(random_state, device)
        optimizer, optimizer_params = self._optimizer(module)
        net = make_net(
            module,
            lr=self.lr,
            batch_size=self._resolve_batch_size(X.shape[0]),
            optimizer=optimizer,
            optimizer_params=optimizer_params,
            callbacks=self.callbacks,
            train_split=splitter,
            device=device,
            generator=generator,
            verbose=self.verbose,
        )
        net.split = split
        net.params = snapshot(self.get_params(deep=False))
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

    def _train(self, net, X, y, epochs, history, split=None):
        from skhash.training._net import train

        records = train(net, X, y, epochs, net.split if split is None else split)
        if not np.isfinite(records[-1]["train_loss"]):
            raise ValueError(
                f"Training diverged: the loss is {records[-1]['train_loss']} after "
                f"{len(records)} epoch(s) with lr={self.lr}. Lower lr."
            )
        self.net_ = net
        self.history_ = history + records
        self.n_iter_ = len(self.history_)
        parameters = net.module_.state_dict()
        self._read_out(
            net.module_,
            {name: value.cpu().numpy().copy() for name, value in parameters.items()},
        )
