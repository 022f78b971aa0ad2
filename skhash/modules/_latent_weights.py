"""Binary weights of -1 and +1 beyond mirror descent: projected, and with a prior."""

import torch

from skhash.modules._sbn_weights import MirrorWeights, RealWeights


class ProjectedWeights(MirrorWeights):
    r"""Weights that are +1 with probability :math:`\theta = (\eta + 1) / 2`, drawn.

    The gradient of a parameter is that of the expectation by straight-through,
    dL/dw, as the density of uniform noise is 1/2; after a step the parameter is
    projected to [-1, 1]. A step of length :math:`4 \epsilon` in eta is one of length
    :math:`\epsilon` in theta: projected gradient descent.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, equation 11.
    """

    def __init__(self):
        super().__init__("uniform")

    def draw(self, parameter, generator):
        drawn = self.units.draw(parameter, generator)
        return drawn + parameter - parameter.detach()

    def end_step(self, parameter, lr):
        """Project parameters after a step of the optimizer."""
        with torch.no_grad():
            parameter.clamp_(-1, 1)


class VariationalWeights(MirrorWeights):
    r"""Mirror descent on the mean loss plus a divergence from fair coins.

    With weight :math:`\lambda` of :math:`KL(\theta \| 1/2)` the composite step is the
    mirror step followed by a shrinkage of the logits, for logistic noise exactly

    .. math:: \eta' = (\eta - \epsilon g) / (1 + 2 \epsilon \lambda).

    With :math:`\lambda = 1 / n` for n rows this is variational Bayes. After a step of
    Adam the shrinkage is decoupled weight decay.

    Parameters
    ----------
    weight : float
        Lambda.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021.
    """

    def __init__(self, weight):
        super().__init__("logistic")
        self.weight = weight

    def end_step(self, parameter, lr):
        """Shrink parameters after a step of the optimizer."""
        with torch.no_grad():
            parameter.div_(1 + 2 * lr * self.weight)


# What weights are called in a description: their law and not how they are trained.
LAWS = {"mirror": MirrorWeights, "pgd": ProjectedWeights, "real": RealWeights}


def make_weights(name, divergence_weight=0.0):
    """Return the weights of an estimator's parameters.

    Parameters
    ----------
    name : {"real", "mirror", "pgd"}
    divergence_weight : float
        That of the prior; "mirror" only.
    """
    if divergence_weight:
        return VariationalWeights(divergence_weight)
    return LAWS[name]()


def law_of(weights) -> str:
    """Return the name in `LAWS` of the law of weights."""
    if isinstance(weights, RealWeights):
        return "real"
    return "pgd" if isinstance(weights, ProjectedWeights) else "mirror"
