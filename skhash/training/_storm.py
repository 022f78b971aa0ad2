"""STORM: stochastic gradients with reduced noise."""

from contextlib import nullcontext

import torch
from torch.optim import Optimizer


class Storm(Optimizer):
    r"""STORM optimizer: recursive momentum, which reduces the noise of batch gradients.

    Each step uses a second gradient g, of the same batch at the weights before the last
    step [1]_:

    .. math::

        d_k = g(W_k; B_k) + (1 - c) (d_{k-1} - g(W_{k-1}; B_k)), \qquad
        W_{k+1} = W_k - \eta d_k

    A step therefore costs two gradients. Both use the same random numbers, for example
    for dropout. With c = 1 it is gradient descent.

    Parameters
    ----------
    params : iterable of Tensors
        Parameters to optimize.
    lr : float
        eta.
    forgetting : float, default=0.7
        Rate c at which old gradients are forgotten, from 0 to 1.
    weight_decay : float, default=0.0
        Weight decay: adds ``weight_decay W`` to both gradients.
    shadow : callable, default=nullcontext
        Function that returns a context manager for the gradient at the earlier weights,
        within which the batch must not change any state. `SupervisedHash` and
        `DualHashEncoder` set it.

    References
    ----------
    .. [1] A. Cutkosky and F. Orabona, "Momentum-based variance reduction in non-convex
       SGD", NeurIPS 2019.

    Examples
    --------
    >>> from functools import partial
    >>> from skhash import SupervisedHash
    >>> from skhash.training import Storm
    >>> encoder = SupervisedHash(lr=0.1, optimizer=partial(Storm, forgetting=0.3))
    """

    def __init__(
        self, params, lr, forgetting=0.7, weight_decay=0.0, shadow=nullcontext
    ) -> None:
        defaults = {"lr": lr, "forgetting": forgetting, "weight_decay": weight_decay}
        super().__init__(params, defaults)
        self.shadow = shadow

    def __getstate__(self):
        return super().__getstate__() | {"shadow": self.shadow}

    @torch.no_grad()
    def step(self, closure):
        """Perform one optimization step.

        Parameters
        ----------
        closure : callable
            Function that computes the gradients of the batch at the current weights and
            returns the loss. It is called twice per step, except in the first step.
        """
        earlier = self._earlier_gradients(closure) if self.state else {}
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for parameter, estimate in _gradients(group):
                state = self.state[parameter]
                if parameter in earlier:
                    error = state["estimate"] - earlier[parameter]
                    estimate += (1 - group["forgetting"]) * error
                state["estimate"], state["previous"] = estimate, parameter.clone()
                parameter.add_(estimate, alpha=-group["lr"])
        return loss

    def _earlier_gradients(self, closure):
        """Return the gradients of this batch at the weights before the last step."""
        devices = {p.device for group in self.param_groups for p in group["params"]}
        devices = [device for device in devices if device.type == "cuda"]
        with torch.random.fork_rng(devices):
            self._swap()
            with self.shadow(), torch.enable_grad():
                closure()
            gradients = dict(
                pair for group in self.param_groups for pair in _gradients(group)
            )
            self._swap()
        return gradients

    def _swap(self):
        """Exchange the weights for those before the last step."""
        for parameter, state in self.state.items():
            state["previous"], parameter.data = parameter.data, state["previous"]


def _gradients(group):
    """Yield each weight of a group that has a gradient, with that and the decay."""
    for parameter in group["params"]:
        if parameter.grad is not None:
            decay = group["weight_decay"]
            yield parameter, parameter.grad.add(parameter, alpha=decay)
