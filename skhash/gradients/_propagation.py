"""Networks of binary units by the moments of their values: ADF and LocalReparam."""

import math
from abc import abstractmethod

import torch

from skhash.gradients._network import NetworkGradient
from skhash.gradients._psa import flip_losses, zeros_with_slope


class _Propagation(NetworkGradient):
    """Passes means and variances of units on, and draws those of the last layer.

    A leaf writes `_probability`.
    """

    @abstractmethod
    def _probability(self, units, mean, variance, generator):
        """Return the probability that units are on.

        Parameters
        ----------
        units : BernoulliUnits
        mean, variance : Tensors of shape (n_samples, n_rows, n_units)
            Those of the logits.
        generator : torch.Generator or None
        """

    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        first, *layers, head = network.realize(generator)
        units = first.units
        p = units.noise.cdf(first(X)).expand(n_samples, -1, -1)
        for layer in layers:
            logits = layer.moments(2 * p - 1, 4 * p * (1 - p))
            units = layer.units
            p = self._probability(units, *logits, generator)
        x = units.draw_with(p, generator)
        return flip_losses(loss, head, x, zeros_with_slope(p, x))


class ADF(_Propagation):
    r"""Assumed density filtering: moments of units, propagated layer by layer.

    The units of a layer are taken as independent, with means m and variances v. A logit
    then has mean :math:`\mu = Wm + b` and variance :math:`\nu = W^2 v`, and with the
    noise's variance V a unit is on with probability

    .. math:: p = \sigma\Big(\frac{\pi}{\sqrt 3} \frac{\mu}{\sqrt{\nu + V}}\Big),

    m = 2p - 1 and v = 4p(1 - p). In the first layer p = F(a), which is exact. Only the
    last layer is drawn; its flips are averaged as in `PSA`. The variance is close to 0,
    but there is a bias that training does not remove, because the loss of the moments
    is minimized. It costs about twice the matrix products of backpropagation.

    References
    ----------
    A. Shekhovtsov and B. Flach, "Feed-forward propagation in probabilistic neural
    networks with categorical and max layers", ICLR 2019.

    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020.

    Examples
    --------
    >>> from skhash.gradients import resolve_network_gradient
    >>> resolve_network_gradient("adf")
    ADF()
    """

    def _probability(self, units, mean, variance, generator):
        total = variance + units.noise.variance
        return torch.sigmoid(math.pi / math.sqrt(3) * mean * total.rsqrt())


class LocalReparam(_Propagation):
    r"""Local reparametrization: logits drawn from a normal distribution.

    Like `ADF`, but the logits of a layer are drawn: :math:`a = \mu + \sqrt{\nu}
    \epsilon` with standard normal :math:`\epsilon`, and p = F(a). The first layer has
    :math:`\nu = 0` and draws nothing. Gradients go through a to the moments below.

    References
    ----------
    O. Shayer, D. Levi and E. Fetaya, "Learning discrete weights using the local
    reparameterization trick", ICLR 2018.

    J. W. T. Peters and M. Welling, "Probabilistic binary neural networks", 2018.

    Examples
    --------
    >>> from skhash.gradients import resolve_network_gradient
    >>> resolve_network_gradient("local_reparam")
    LocalReparam()
    """

    def _probability(self, units, mean, variance, generator):
        kind = {"device": mean.device, "dtype": mean.dtype}
        normal = torch.randn(mean.shape, generator=generator, **kind)
        # The square root has no finite derivative at 0.
        return units.noise.cdf(mean + (variance + 1e-10).sqrt() * normal)
