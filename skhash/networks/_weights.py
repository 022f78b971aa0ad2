"""Kinds of weights of stochastic binary networks, drawn once per step."""

from abc import ABCMeta, abstractmethod

import torch
from sklearn.base import BaseEstimator

from skhash.gradients import BernoulliUnits
from skhash.utils.parameters import NotNegative, Positive, resolved, with_parameters


class WeightLaw(BaseEstimator, metaclass=ABCMeta):
    """Base class of kinds of weights: how the weights of a step follow from parameters.

    Attributes
    ----------
    law : {"real", "mirror", "pgd"}
        How weights follow from the trained parameters, regardless of how these were
        trained. This is the kind of weights that a fitted network stores.
    is_real : bool
        Whether the parameters are themselves the weights, and may be scaled.
    is_binary : bool
        Whether the weights of a step are all -1 or +1.
    weight_decay : float
        Weight decay of the parameters in the optimizer, times the learning rate.
    optimizer : str or None
        The only optimizer whose steps suit the parameters. None if any does.
    n_rows : int
        Number of training rows.
    """

    _parameter_constraints: dict = {}
    law: str
    is_real = False
    is_binary = False
    weight_decay = 0.0
    optimizer: str | None = None
    n_rows = 1

    @abstractmethod
    def start(self, shape, n_inputs, generator):
        """Return initial parameters of the weights of `n_inputs` inputs."""

    @abstractmethod
    def of_real(self, weight):
        """Return initial parameters that follow given real weights.

        Parameters
        ----------
        weight : Tensor
            Real weights that were trained before.

        Returns
        -------
        parameter : Tensor of the same shape
        """

    @abstractmethod
    def draw(self, parameter, generator):
        """Return weights for a step, differentiable in the parameters."""

    @abstractmethod
    def likeliest(self, parameter):
        """Return the most likely weights."""

    def start_training(self, n_rows) -> None:
        """Called when a training on `n_rows` rows starts."""
        self.n_rows = n_rows

    def end_step(self, parameter, lr) -> None:
        """Change parameters after a step of the optimizer."""


class RealWeights(WeightLaw):
    """Real weights: the parameters themselves.

    Examples
    --------
    >>> from skhash.networks import BinaryLinear
    >>> layer = BinaryLinear(4, 3, weights="real")
    >>> layer.realize().weight is layer.weight
    True
    """

    law = "real"
    is_real = True

    def start(self, shape, n_inputs, generator):
        uniform = torch.rand(shape, generator=generator)
        return (2 * uniform - 1) / n_inputs**0.5

    def of_real(self, weight):
        return weight

    def draw(self, parameter, generator):
        return parameter

    def likeliest(self, parameter):
        return parameter


class BinaryWeights(WeightLaw):
    r"""Base of weights that are +1 with probability :math:`F(\eta)`, otherwise -1.

    The weights are values of `units`, whose logits are the parameters :math:`\eta`; F
    is the distribution function of their noise.
    """

    is_binary = True
    units = BernoulliUnits("logistic", "pm1")

    def start(self, shape, n_inputs, generator):
        # The middle of a cell of rand: neither 0 nor 1, which have infinite logits.
        p = torch.rand(shape, generator=generator, dtype=torch.float64) * (1 - 2**-20)
        return self.units.noise.icdf(p + 2**-21).to(torch.get_default_dtype())

    def of_real(self, weight):
        # The size of real weights does not matter in front of a norm.
        return weight / weight.square().mean().sqrt()

    def likeliest(self, parameter):
        return self.units.values((parameter > 0).to(parameter.dtype))


@with_parameters()
class MirrorWeights(BinaryWeights):
    r"""Random weights of -1 and +1, trained by mirror descent.

    A parameter :math:`\eta` is the logit of its weight, which is +1 with probability
    :math:`\theta = F(\eta)`, with logistic noise. Its gradient is the straight-through
    estimate of the gradient in theta, 2 dL/dw, without the factor F': a gradient step
    in eta is then a mirror descent step in theta.

    A prior adds :math:`\lambda KL(\theta \| 1/2)` to the mean loss, the divergence from
    fair coins, where :math:`\lambda` is `prior_strength` divided by the number of rows.
    The composite step is the mirror step followed by shrinkage,

    .. math:: \eta' = (\eta - \epsilon g) / (1 + 2 \epsilon \lambda).

    With Adam, the shrinkage is decoupled weight decay.

    Parameters
    ----------
    prior_strength : float, default=0.0
        Strength of the prior. 1 makes the objective that of variational Bayes.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, algorithm 2.

    Examples
    --------
    >>> from skhash import SBNClassifier
    >>> from skhash.networks import MirrorWeights
    >>> SBNClassifier(weights=MirrorWeights(prior_strength=1.0))
    SBNClassifier(weights=MirrorWeights(prior_strength=1.0))
    """

    prior_strength: NotNegative = 0.0

    law = "mirror"

    def draw(self, parameter, generator):
        drawn = self.units.draw(parameter, generator)
        return drawn + 2 * (parameter - parameter.detach())

    @torch.no_grad()
    def end_step(self, parameter, lr):
        parameter.div_(1 + 2 * lr * (self.prior_strength / self.n_rows))


class ProjectedWeights(BinaryWeights):
    r"""Random weights of -1 and +1, trained by projected gradients.

    A weight is +1 with probability :math:`\theta = (\eta + 1) / 2`. The gradient of its
    parameter :math:`\eta` is the straight-through estimate dL/dw, because the density
    of uniform noise is 1/2. After a step, the parameter is projected to [-1, 1]. A step
    of length :math:`4 \epsilon` in eta is one of length :math:`\epsilon` in theta.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, equation 11.

    Examples
    --------
    >>> import torch
    >>> from skhash.networks._weights import ProjectedWeights
    >>> parameter = torch.tensor([-3.0, 0.5])
    >>> ProjectedWeights().end_step(parameter, lr=0.1)
    >>> parameter
    tensor([-1.0000,  0.5000])
    """

    law = "pgd"
    units = BernoulliUnits("uniform", "pm1")

    def of_real(self, weight):
        return super().of_real(weight).clamp(-1, 1)

    def draw(self, parameter, generator):
        drawn = self.units.draw(parameter, generator)
        return drawn + parameter - parameter.detach()

    @torch.no_grad()
    def end_step(self, parameter, lr):
        parameter.clamp_(-1, 1)


@with_parameters()
class BayesBiNNWeights(BinaryWeights):
    r"""Weights relaxed to (-1, 1), trained by the Bayesian learning rule (BayesBiNN).

    With logistic noise z, the weight of a step is :math:`w = \tanh((\eta - z) / \tau)`,
    and the gradient with respect to the parameter is

    .. math::
        s \, dL/dw, \quad
        s = \frac{n (1 - w^2 + \epsilon)}{\tau (1 - \tanh^2 \eta + \epsilon)},

    where n is the number of rows and :math:`\epsilon` 1e-10. The update is
    :math:`(1 - \alpha) \eta - \alpha s \, dL/dw`, where alpha is the learning rate of
    SGD. Its first term is the effect of a weight decay of 1 in the optimizer, which
    `skhash.SBNClassifier` sets for these weights. At a tiny temperature and large
    logits s is n / tau and w the sign: the update is that of identity straight-through
    without noise, and n and tau only set the unit in which eta is measured.

    Parameters
    ----------
    temperature : float, default=1.0
        Temperature tau. At 0.1 to 1, the gradient estimate still depends on the size of
        the logits; far below, it is that of identity straight-through.

    References
    ----------
    X. Meng, R. Bachmann and M. E. Khan, "Training binary neural networks using the
    Bayesian learning rule", ICML 2020.

    Examples
    --------
    >>> from skhash import SBNClassifier
    >>> from skhash.networks import BayesBiNNWeights
    >>> SBNClassifier(weights=BayesBiNNWeights(temperature=0.5), optimizer="sgd")
    SBNClassifier(optimizer='sgd', weights=BayesBiNNWeights(temperature=0.5))
    """

    temperature: Positive = 1.0

    law = "mirror"
    # Relaxed weights are no signs while training.
    is_binary = False
    weight_decay = 1.0
    optimizer = "sgd"
    eps = 1e-10

    def draw(self, parameter, generator):
        eta = parameter.detach()
        noise = self.units.noise.sample(
            eta.shape, generator, device=eta.device, dtype=eta.dtype
        )
        w = torch.tanh((eta - noise) / self.temperature)
        slope = self.n_rows * (1 - w.square() + self.eps)
        slope = slope / (self.temperature * (1 - eta.tanh().square() + self.eps))
        return w + slope * (parameter - eta)


WEIGHTS = {
    "bayesbinn": BayesBiNNWeights,
    "mirror": MirrorWeights,
    "pgd": ProjectedWeights,
    "real": RealWeights,
}


def resolve_weights(weights) -> WeightLaw:
    """Return the kind of weights by its name, or a clone of the given one."""
    return resolved(weights, WEIGHTS, WeightLaw, "weights")
