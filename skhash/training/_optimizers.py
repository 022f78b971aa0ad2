"""Optimizers: their names, and parameters of their own."""

import inspect

from sklearn.base import BaseEstimator

# The abstract one; one that wants the same loss several times, where bits are drawn
# anew; and one for sparse gradients.
NO_OPTIMIZERS = ("optimizer", "lbfgs", "sparseadam")


class Optimizer(BaseEstimator):
    """An optimizer, with what it takes besides the step size.

    Parameters
    ----------
    name : str or torch.optim.Optimizer class, default="adam"
        A class of `torch.optim`, or its name in any case; or "storm".
    **params
        Its parameters, such as ``momentum``. The step size is the `lr` of the
        estimator; what else that has a parameter for, as `weight_decay`, stays there.

    Notes
    -----
    "storm" is STORM [1]_, which takes the noise out of the gradient of a batch with a
    second gradient, of the same batch at the weights before the last step, at twice the
    cost. Its parameter ``forgetting`` (c in the paper), by default 0.7, says how fast
    earlier gradients are forgotten; at 1 it is gradient descent.

    References
    ----------
    .. [1] A. Cutkosky and F. Orabona, "Momentum-based variance reduction in non-convex
       SGD", NeurIPS 2019.

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.training import Optimizer
    >>> nesterov = Optimizer("sgd", momentum=0.9, nesterov=True)
    >>> encoder = SupervisedHash(lr=0.1, optimizer=nesterov)
    >>> encoder.set_params(optimizer__momentum=0.5).optimizer
    Optimizer(momentum=0.5, name='sgd', nesterov=True)
    """

    def __init__(self, name="adam", **params):
        self.name = name
        self.params = params

    def get_params(self, deep=True):
        """Return the name and the parameters."""
        return {"name": self.name, **self.params}

    def set_params(self, **params):
        """Set the name, or parameters, which may be new ones."""
        self.__init__(**self.get_params() | params)
        return self


def resolve_optimizer(optimizer, **given):
    """Return a class of optimizers, and what it takes besides the step size.

    Parameters
    ----------
    optimizer : str, torch.optim.Optimizer class or Optimizer
    **given
        What it takes that the estimator has parameters for.
    """
    if not isinstance(optimizer, Optimizer):
        return optimizer_class(optimizer), given
    twice = [name for name in ("lr", *given) if name in optimizer.params]
    if twice:
        raise ValueError(
            f"optimizer={optimizer!r} has {twice[0]}, which the estimator has a "
            "parameter for; set that."
        )
    return optimizer_class(optimizer.name), given | optimizer.params


def optimizer_class(name):
    """Return the class of a name, or the class itself."""
    import torch

    from skhash.training._storm import Storm

    classes = {
        name.lower(): value
        for name, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    } | {"storm": Storm}
    known = {key: classes[key] for key in classes.keys() - {*NO_OPTIMIZERS}}
    if isinstance(name, str) and name.lower() in known:
        return known[name.lower()]
    is_class = isinstance(name, type) and issubclass(name, torch.optim.Optimizer)
    if not is_class or name.__name__.lower() in NO_OPTIMIZERS:
        raise ValueError(
            f"optimizer={name!r} is not one of {', '.join(sorted(known))}, nor another "
            "class of torch.optim that takes one step a batch with dense gradients."
        )
    return name


def extra_arguments(kind, module, device) -> dict:
    """Return what some classes take besides: a fused step, or a module's shadow.

    One kernel for the whole step is several times faster.
    """
    known = inspect.signature(kind).parameters
    found = (
        {"fused": True} if "fused" in known and device.type in ("cpu", "cuda") else {}
    )
    return found | ({"shadow": module.shadow} if "shadow" in known else {})
