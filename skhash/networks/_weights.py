"""Where the weights of stochastic binary networks come from, one draw a step."""

from abc import ABCMeta, abstractmethod

import torch

from skhash.gradients import BernoulliUnits


class Weights(metaclass=ABCMeta):
    """Makes the weights of one step of the parameters that are trained.

    Attributes
    ----------
    is_binary : bool
        Whether all weights are -1 or +1.
    """

    is_binary: bool

    @abstractmethod
    def start(self, shape, n_inputs, generator):
        """Return first parameters of weights that take `n_inputs` inputs."""

    @abstractmethod
    def draw(self, parameter, generator):
        """Return weights for a step, differentiable in the parameters."""

    @abstractmethod
    def likeliest(self, parameter):
        """Return the weights of greatest probability."""


class RealWeights(Weights):
    """The parameters are the weights."""

    is_binary = False

    def start(self, shape, n_inputs, generator):
        uniform = torch.rand(shape, generator=generator)
        return (2 * uniform - 1) / n_inputs**0.5

    def draw(self, parameter, generator):
        return parameter

    def likeliest(self, parameter):
        return parameter


class MirrorWeights(Weights):
    r"""Weights of -1 and +1, drawn; straight-through as mirror descent.

    A parameter :math:`\eta` is the logit of its weight, which is +1 with probability
    :math:`\theta = F(\eta)`. Its gradient is the estimate of that in theta, 2 dL/dw,
    with no factor F': a gradient step in eta is then a mirror descent step in theta.

    Parameters
    ----------
    noise : Noise or its name, default="logistic"

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, algorithm 2.
    """

    is_binary = True

    def __init__(self, noise="logistic"):
        self.units = BernoulliUnits(noise, "pm1")

    def start(self, shape, n_inputs, generator):
        # The middle of a cell of rand: neither 0 nor 1, which have infinite logits.
        p = torch.rand(shape, generator=generator, dtype=torch.float64) * (1 - 2**-20)
        return self.units.noise.icdf(p + 2**-21).to(torch.get_default_dtype())

    def draw(self, parameter, generator):
        drawn = self.units.draw(parameter, generator)
        return drawn + 2 * (parameter - parameter.detach())

    def likeliest(self, parameter):
        return self.units.values((parameter > 0).to(parameter.dtype))


WEIGHTS = {"mirror": MirrorWeights, "real": RealWeights}


def resolve_weights(weights) -> Weights:
    """Return the weights of a name, or the weights themselves."""
    if isinstance(weights, str) and weights in WEIGHTS:
        return WEIGHTS[weights]()
    if isinstance(weights, Weights):
        return weights
    raise ValueError(
        f"weights={weights!r} is not one of {', '.join(WEIGHTS)}, nor an instance of "
        "Weights."
    )
