"""Base classes of estimators that are trained by gradient descent."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from skhash.base import BaseHasher
from skhash.persistence.schema import Group, Plain, Records, wholes
from skhash.utils._sklearn import fit_context
from skhash.utils.arrays import check_magnitude
from skhash.utils.lazy import LateModule, torch
from skhash.utils.parameters import (
    Count,
    Positive,
    ProperShare,
    RandomState,
    Verbose,
    with_parameters,
)
from skhash.utils.torch import (
    random_state_of_call,
    resolve_device,
    torch_as_imported,
)

_loop = LateModule("skhash.training._net")


# Types of parameters whose defaults differ from encoder to encoder.
Schedule = Literal["cosine", "inverse_sqrt", "step"] | None
Optimizer = str | type | partial


@with_parameters(kw_only=True)
class TrainedMixin:
    """Base of estimators that train a `TrainedModule` in a skorch net.

    A subclass defines three methods:

    * ``_build(X, targets, run)`` returns the module with its initial weights;
    * ``_module(run)`` returns a module with the shapes of a fit, whose weights are then
      replaced; `run` is None if it is not trained further;
    * ``_read(module, X, run)`` returns further fitted attributes.

    Attributes
    ----------
    mean_, scale_
        Mean and scale by which rows are standardized.
    weights_, weight_names_ : list of ndarray, list of str
        State of the module, which `save` keeps.
    history_ : list of dict
    n_iter_ : int
    net_ : HashNet
        Trained net, with its optimizer. `save` leaves it out.
    """

    lr: Positive = 0.01
    lr_schedule: Schedule = None
    max_epochs: Count = 10
    batch_size: Count | Literal["auto"] = "auto"
    optimizer: Optimizer = "adam"
    callbacks: list | None = None
    validation_fraction: ProperShare | Callable | None = None
    device: str = "auto"
    random_state: RandomState = None
    verbose: Verbose = False

    _saved = {
        "weights_": Group(list),
        "weight_names_": Plain(list),
        "history_": Records(),
        "n_iter_": wholes(low=0),
    }
    # Parameters that may change between calls of `partial_fit`, since no net uses them.
    _untrained_parameters = ()
    # For batch_size="auto": about 100 steps an epoch train a small set well, and
    # large batches, within these bounds, a large one fast.
    _auto_steps = 100
    _auto_batch_sizes = (32, 512)

    def _learn(self, X, targets, run, net=None) -> None:
        """Train the given net, or a new one, and set the fitted attributes."""
        goes_on = run.phases is None and hasattr(self, "weights_")
        if net is None:
            build = self._restored if goes_on else self._build
            module, params = build(X, targets, run), self.get_params(deep=False)
            batch_size = self._resolve_batch_size(X.shape[0])
            optimizer = self._optimizer(module)
            net = _loop.HashNet(module, run, params, batch_size, optimizer)
        module = net.module_
        history = self.history_ if goes_on else []
        history = history + _loop.train(net, module.rows(X, targets, run))
        fitted = self._read(module, X, run)
        state = arrays_of(module)
        self.weights_, self.weight_names_ = [*state.values()], [*state]
        self.mean_, self.scale_ = module.mean, module.scale
        vars(self).update(fitted)
        self.net_, self.history_, self.n_iter_ = net, history, len(history)

    def _resume(self, X, targets) -> None:
        """Train for an epoch: the first one, or one more."""
        n_before, net = len(getattr(self, "history_", [])), getattr(self, "net_", None)
        random_state = random_state_of_call(self.random_state, n_before)
        params = self.get_params(deep=False)
        if net is not None:
            _loop.check_unchanged(net, params, self._untrained_parameters)
        if net is None or net.run.phases is not None:
            # The schedule and the optimizer of a fit have ended, loaded or not.
            net, run = None, self._run(X, random_state, n_before=n_before)
        else:
            run = net.run.go_on(X, random_state)
            net = _loop.resume(net, run, params)
            net.batch_size = self._resolve_batch_size(X.shape[0])
        self._learn(X, targets, run, net)

    def _run(self, X, random_state, phases=None, n_before=0):
        """Return the run of a call."""
        seeds = random_state.randint(np.iinfo(np.int32).max, size=3).tolist()
        return _loop.Run.start(
            X,
            resolve_device(self.device),
            seeds,
            self.validation_fraction,
            random_state=random_state_of_call(self.random_state, n_before),
            phases=phases,
            n_before=n_before,
        )

    def _state(self) -> dict[str, np.ndarray]:
        """Return the state of the trained module, arrays by their names."""
        names = self.weight_names_
        if {*map(type, names)} != {str}:
            raise ValueError(f"weight_names_ holds other things than names: {names}")
        return dict(zip(names, self.weights_, strict=True))

    @torch_as_imported()
    def _restored(self, X=None, targets=None, run=None):
        """Return the module with the weights of the fit."""
        state, module = self._state(), self._module(run)
        fresh = module.state_dict()
        try:
            module.load_state_dict(
                {
                    name: torch.tensor(value).reshape(fresh[name].shape)
                    for name, value in state.items()
                }
            )
        except (KeyError, RuntimeError) as error:
            raise ValueError(
                f"The parameters of this {type(self).__name__} do not match the "
                f"network that it was fitted with: {error}"
            ) from error
        return module

    def _optimizer(self, module, others=None) -> tuple:
        """Return the class of the optimizer, and parameters besides the step size."""
        decay = {n: v for n, v in vars(self).items() if n == "weight_decay"}
        return _loop.resolve_optimizer(self.optimizer, others, **decay)

    def _resolve_batch_size(self, n_samples: int) -> int:
        """Return the number of rows in a batch."""
        if self.batch_size != "auto":
            return int(self.batch_size)  # torch does not split by NumPy's integers
        smallest, largest = self._auto_batch_sizes
        return int(np.clip(n_samples // self._auto_steps, smallest, largest))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "history_")

    def __getstate__(self):
        state = super().__getstate__()
        if "net_" in state and state["net_"].device.type != "cpu":
            # It holds generators of that device, which no other machine can read.
            state = {name: value for name, value in state.items() if name != "net_"}
        return state


@with_parameters(kw_only=True)
class BaseNeuralHasher(TrainedMixin, BaseHasher):
    """Base of encoders that are trained by gradient descent.

    A subclass defines ``_build``, ``_module`` and ``_read``; see :doc:`/extending`.
    """

    # Whether there is a `partial_fit`.
    _goes_on = True

    @available_if(lambda self: self._goes_on)
    def partial_fit(self, X, y=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model from its rows, so pass it a few thousand
        rows drawn at random. Only the parameters `lr` and `batch_size` may change
        between calls; `max_epochs` is not used.

        Later calls keep the state of the optimizer. After `fit`, or if the encoder was
        loaded from a file or copied off an accelerator, it starts afresh with the step
        size `lr`; lower `lr` to change a fitted encoder only slightly. Schedules that
        need a number of epochs, "cosine" and "step", have no effect here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is left as it was.

        Raises
        ------
        ValueError
            As in `fit`, or if a parameter changed that was fixed by the first call.
        """
        return self._partial_fit(X, y)

    @fit_context(prefer_skip_nested_validation=True)
    def _partial_fit(self, X, y, **known):
        first = not self.__sklearn_is_fitted__()
        if not first and self.n_bits != self._n_features_out:
            raise ValueError(
                f"n_bits={self.n_bits}, but this encoder was fitted for codes of "
                f"{self._n_features_out} bits; set n_bits back, or fit again."
            )
        X = self._prepare(self._validate(X, reset=first))
        if first:
            self._check_rows(X)
        else:
            check_magnitude(X)
        self._resume(X, self._validate_targets(X, y, is_part=True, **known))
        return self

    def _fit_codes(self, X, y, random_state):
        run = self._run(X, random_state, phases=self._phases(X.shape[0]))
        self._learn(X, y, run)

    def _phases(self, n_samples: int) -> tuple[int, ...]:
        """Return the number of epochs of each phase of a fit."""
        return (self.max_epochs,)

    def _training_batch(self, X, y=None):
        """Return the module, and all rows as a batch that it is trained on."""
        X = self._prepare(self._validate_fitted(X))
        module = self.net_.module_ if hasattr(self, "net_") else self._restored()
        device = next(module.parameters()).device
        return module, _loop.whole_batch(module, X).to(device)


def arrays_of(module) -> dict[str, np.ndarray]:
    """Copy the learned state of a module to NumPy arrays.

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
    values = getattr(module, "learned", module.state_dict)()
    return {name: value.cpu().numpy().copy() for name, value in values.items()}


class LinearSchedule(BaseEstimator):
    """Weight that changes linearly from `start` to `end` over `n_steps` steps.

    Parameters
    ----------
    start, end : float
        Weight before the first step, and after step `n_steps`.
    n_steps : int
        Number of optimizer steps, that is batches, not epochs.

    Examples
    --------
    >>> from skhash.training import LinearSchedule
    >>> warm_up = LinearSchedule(0.0, 1.0, n_steps=4)
    >>> [warm_up(step) for step in (0, 1, 4, 100)]
    [0.0, 0.25, 1.0, 1.0]
    """

    def __init__(self, start, end, n_steps) -> None:
        self.start = start
        self.end = end
        self.n_steps = n_steps

    def __call__(self, step: int) -> float:
        if step >= self.n_steps:
            return self.end
        return self.start + step / self.n_steps * (self.end - self.start)
