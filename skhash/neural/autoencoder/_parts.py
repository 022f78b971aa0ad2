"""Parts of a `StochasticAutoencoderHash`: distributions of bits, a second phase."""

import math
from typing import Annotated, Any

from sklearn.base import BaseEstimator

from skhash.utils._sklearn import HasMethods
from skhash.utils.lazy import torch
from skhash.utils.parameters import Count, NotNegative, resolved, with_parameters


class Posterior(BaseEstimator):
    """Base class: independent bits with logits r, ``q(s|x) = prod_j Ber(s_j; F(r_j))``.

    Subclasses are mixtures of these, ``q(s|x) = E_r q(s|r)``, where r is drawn from the
    heads that the encoder outputs.
    """

    _parameter_constraints: dict = {}
    # Whether the divergence is that of q itself, the same at every code.
    has_closed_form = True

    def n_heads(self, n_bits: int) -> int:
        """Return the number of encoder outputs needed; the first are the mean of r."""
        return n_bits

    def draw(self, heads, generator):
        """Draw r from the heads, differentiably.

        Parameters
        ----------
        heads : Tensor of shape (n_rows, n_heads)
        generator : torch.Generator

        Returns
        -------
        draws : sequence of Tensors of shape (n_rows, n_bits)
            Logits. Bits are drawn from the first; the divergence uses all of them.
        """
        return [heads]

    def divergence(self, draws, noise):
        """Return a function of bits whose mean is at least ``KL(q || p)``.

        The prior p is that of fair coins.

        Parameters
        ----------
        draws : sequence of Tensors of shape (n_rows, n_bits)
        noise : Noise
            Its distribution function is F.

        Returns
        -------
        divergence : callable
            Maps bits, shape (..., n_rows, n_bits), to a divergence of each row.
        """
        from skhash.losses._likelihoods import bernoulli_kl

        logits = draws[0]
        return lambda bits: bernoulli_kl(noise.log_odds(logits), logits.new_zeros(()))


@with_parameters()
class CorrelatedPosterior(Posterior):
    """Posterior with correlated bits, whose logits are a correlated Gaussian (CorrSH).

    The logits are ``r = mu + std eps + V zeta`` with eps and zeta standard normal, so
    their covariance ``diag(std^2) + V V^T`` is diagonal plus low-rank. The entropy of
    the code is bounded by that of the mixture ``h_k(s) = 1/k sum_i q(s|r_i)`` of k
    draws of r.

    Parameters
    ----------
    rank : int, default=10
        Number R of columns of V.
    n_mixture : int, default=10
        Number k of draws of r in the mixture. More draws give a tighter bound.
    scale : float or None, default=None
        Factor by which the entries of V, the outputs of a tanh, are multiplied. None is
        1/sqrt(R), which lets bits correlate; the authors use 1/R, which bounds each
        covariance by 1/R.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import StochasticAutoencoderHash
    >>> from skhash.neural import CorrelatedPosterior
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = StochasticAutoencoderHash(
    ...     16, posterior=CorrelatedPosterior(rank=4), max_epochs=2, random_state=0
    ... )
    >>> encoder.fit(X).covariance_coef_.shape  # sigma and V of each bit
    (512, 80)
    """

    rank: Count = 10
    n_mixture: Count = 10
    scale: NotNegative | None = None

    has_closed_form = False

    def n_heads(self, n_bits):
        return n_bits * (2 + self.rank)

    def parts(self, heads):
        """Return mu and std, shape (n_rows, n_bits), and V, (n_rows, n_bits, rank)."""
        n_bits = heads.shape[-1] // (2 + self.rank)
        mu, std, factor = heads.split([n_bits, n_bits, self.rank * n_bits], dim=-1)
        scale = self.rank**-0.5 if self.scale is None else self.scale
        factor = scale * factor.unflatten(-1, (n_bits, self.rank)).tanh()
        return mu, torch.nn.functional.softplus(std), factor

    def draw(self, heads, generator):
        mu, std, factor = self.parts(heads)
        eps = mu.new_empty(self.n_mixture, *mu.shape).normal_(generator=generator)
        zeta = eps.new_empty(*eps.shape[:2], self.rank).normal_(generator=generator)
        return mu + std * eps + torch.einsum("bjr,kbr->kbj", factor, zeta)

    def divergence(self, draws, noise):
        from skhash.losses._likelihoods import log_mixture

        log_odds = noise.log_odds(draws)
        # log p(bits) is the same for all bits.
        return lambda bits: (
            log_mixture(bits, log_odds) - (0 * bits - math.log(2)).sum(dim=-1)
        )


POSTERIORS = {"independent": Posterior, "correlated": CorrelatedPosterior}


def resolve_posterior(posterior) -> Posterior:
    """Return the posterior of a name, or a clone of the posterior itself."""
    return resolved(posterior, POSTERIORS, Posterior, "posterior")


@with_parameters()
class Correction(BaseEstimator):
    """Second training phase, with a gradient that corrects the bias of the first.

    The phase starts with a fresh optimizer, as in section 5 of Shekhovtsov and Yanush,
    because the moments collected so far belong to the other gradient. An `lr_schedule`
    also restarts, at `lr` and for these epochs; the paper uses a fixed step size in
    both phases. `partial_fit` trains with this gradient alone, also in its first call.

    Parameters
    ----------
    gradient : str or gradient estimator, default="arm"
        Gradient estimator, as in `StochasticAutoencoderHash`.
    n_samples : int, default=10
        Number of samples, if `gradient` is the name of an estimator that has this
        parameter.
    n_epochs : int, default=6
        Number of epochs. The default is half of the default of the first phase, as in
        the paper.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import StochasticAutoencoderHash
    >>> from skhash.neural import Correction
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = StochasticAutoencoderHash(
    ...     16, correction=Correction(n_epochs=1), max_epochs=2, random_state=0
    ... )
    >>> encoder.fit(X).n_iter_
    3
    """

    gradient: str | Annotated[Any, HasMethods(["surrogate"])] = "arm"
    n_samples: Count = 10
    n_epochs: Count = 6

    def make_gradient(self):
        """Return a fresh gradient estimator."""
        from skhash.gradients import resolve_gradient

        gradient = resolve_gradient(self.gradient, "correction")
        if isinstance(self.gradient, str) and "n_samples" in gradient.get_params():
            gradient.set_params(n_samples=self.n_samples)
        return gradient


def resolve_correction(correction) -> Correction | None:
    """Return the correction of a gradient's name, a clone of the object, or None."""
    if isinstance(correction, str):
        correction = Correction(correction)
    return correction and resolved(correction, {}, Correction, "correction")
