"""Parameters of training that are objects: optimizers, and weights that change."""

from sklearn.base import BaseEstimator


class Optimizer(BaseEstimator):
    """An optimizer with parameters, besides the step size.

    Parameters
    ----------
    name : str or torch.optim.Optimizer class, default="adam"
        A class of `torch.optim`, or its name in any case; "storm" of `SupervisedHash`
        and `DualHashEncoder`.
    **params
        Its parameters, such as ``momentum``. The step size is the `lr` of the
        estimator, and where that has a `weight_decay` it is set there too.

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


class LinearSchedule(BaseEstimator):
    """A weight that goes from `start` to `end` in `n_steps` steps and stays there.

    Parameters
    ----------
    start, end : float
        The weight before the first step, and from step `n_steps` on.
    n_steps : int
        Steps of the optimizer, that is batches, not epochs.

    Examples
    --------
    >>> from skhash.training import LinearSchedule
    >>> warm_up = LinearSchedule(0.0, 1.0, n_steps=4)
    >>> [warm_up(step) for step in (0, 1, 4, 100)]
    [0.0, 0.25, 1.0, 1.0]
    """

    def __init__(self, start, end, n_steps):
        self.start = start
        self.end = end
        self.n_steps = n_steps

    def __call__(self, step: int) -> float:
        if step >= self.n_steps:
            return self.end
        return self.start + step / self.n_steps * (self.end - self.start)
