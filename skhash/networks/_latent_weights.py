"""Binary weights of -1 and +1 beyond mirror descent: projected, and with a prior."""

import torch

from skhash.networks._weights import MirrorWeights, RealWeights


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


class BayesBiNNWeights(MirrorWeights):
    r"""Weights relaxed to (-1, 1), with the natural gradient of a Bayesian fit.

    With logistic noise z the weight of a step is
    :math:`w = \tanh((\eta - z) / \tau)`, and the derivative of the parameter is

    .. math::
        s \, dL/dw, \quad
        s = \frac{n (1 - w^2 + \epsilon)}{\tau (1 - \tanh^2 \eta + \epsilon)}.

    The update is :math:`(1 - \alpha) \eta - \alpha s \, dL/dw` with the learning rate
    alpha of SGD and a weight decay of 1, that of the optimizer. At a tiny temperature
    and large logits s is n / tau and w the sign: the update is that of identity
    straight-through without noise, and depends on n and tau by the unit of eta only.

    Parameters
    ----------
    n_rows : int
        Rows of the training data.
    temperature : float, default=1.0
        Tau; from 0.1 to 1 the estimate is more than a sign.
    eps : float, default=1e-10

    References
    ----------
    X. Meng, R. Bachmann and M. E. Khan, "Training binary neural networks using the
    Bayesian learning rule", ICML 2020.
    """

    # Relaxed weights are no signs while training.
    is_binary = False
    # What the optimizer has to shrink parameters by, times the learning rate.
    weight_decay = 1.0

    def __init__(self, n_rows, temperature=1.0, eps=1e-10):
        super().__init__("logistic")
        self.n_rows, self.temperature, self.eps = n_rows, temperature, eps

    def draw(self, parameter, generator):
        eta = parameter.detach()
        noise = self.units.noise.sample(
            eta.shape, generator, device=eta.device, dtype=eta.dtype
        )
        w = torch.tanh((eta - noise) / self.temperature)
        slope = self.n_rows * (1 - w.square() + self.eps)
        slope = slope / (self.temperature * (1 - eta.tanh().square() + self.eps))
        return w + slope * (parameter - eta)


# What weights are called in a description: their law and not how they are trained.
LAWS = {"mirror": MirrorWeights, "pgd": ProjectedWeights, "real": RealWeights}


def make_weights(name, n_rows=1, prior_strength=0.0):
    """Return the weights of an estimator's parameters.

    Parameters
    ----------
    name : {"real", "mirror", "pgd", "bayesbinn"}
    n_rows : int
        Of the training data.
    prior_strength : float
        Of "mirror": what the divergence of variational Bayes is multiplied with.
    """
    if name == "bayesbinn":
        return BayesBiNNWeights(n_rows)
    return (
        VariationalWeights(prior_strength / n_rows) if prior_strength else LAWS[name]()
    )


def law_of(weights) -> str:
    """Return the name in `LAWS` of the law of weights."""
    if isinstance(weights, RealWeights):
        return "real"
    return "pgd" if isinstance(weights, ProjectedWeights) else "mirror"
