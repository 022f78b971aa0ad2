"""A stochastic autoencoder with a binary latent code, and its two posteriors."""

import math

import torch
from torch.nn.functional import logsigmoid, softplus

from skhash.losses._divergences import bernoulli_kl
from skhash.training._module import TrainedModule
from skhash.utils._torch_sparse import scale_rows
from skhash.utils.schedules import weight_at


class IndependentPosterior:
    """Bits that are independent given the row: ``q(s|x) = prod_k Ber(F(a_k))``."""

    @staticmethod
    def n_heads(n_bits: int) -> int:
        """Return how many outputs the encoder needs."""
        return n_bits

    def losses(self, heads, reconstruct, module):
        """Return reconstruction loss plus weighted KL of each row."""
        loss = module.estimate(reconstruct, heads)
        if module.kl_weight_now == 0:
            return loss
        log_odds = module.units.noise.log_odds(heads)
        return loss + module.kl_weight_now * bernoulli_kl(log_odds, module.prior_logit)

    def sample_bound(self, heads, reconstruct, module):
        """Return one sample of the evidence bound of each row."""
        log_odds = module.units.noise.log_odds(heads)
        bits = module.units.draw(heads, module.generator)
        return -reconstruct(bits) - bernoulli_kl(log_odds, module.prior_logit)


class CorrelatedPosterior:
    """Bits made dependent by a Gaussian r: ``q(s|x) = E_r prod_k Ber(F(r_k))``.

    With ``r = mu + std eps + V zeta``, eps and zeta standard normal, of covariance
    ``diag(std^2) + V V^T``. The entropy of the code is bounded by that of the mixture
    ``h_k(s) = 1/k sum_i q(s|r_i)`` of k draws of r.

    Parameters
    ----------
    rank : int
        Columns R of V.
    n_mixture : int
        The number k of draws.
    scale : float
        V is the tanh of the encoder's outputs times this.
    share_sample : bool
        Whether the code that is decoded is the one whose entropy is measured; else it
        is drawn from an r of its own.
    """

    def __init__(self, rank, n_mixture, scale, share_sample=True):
        self.rank, self.n_mixture, self.scale = rank, n_mixture, scale
        self.share_sample = share_sample

    def n_heads(self, n_bits: int) -> int:
        """Return how many outputs the encoder needs: mu, std and the columns of V."""
        return n_bits * (2 + self.rank)

    def split(self, heads):
        """Return mu and std, shape (n_rows, n_bits), and V, (n_rows, n_bits, rank)."""
        n_bits = heads.shape[-1] // (2 + self.rank)
        mu, std, factor = heads.split([n_bits, n_bits, self.rank * n_bits], dim=-1)
        factor = factor.unflatten(-1, (n_bits, self.rank))
        return mu, softplus(std), self.scale * factor.tanh()

    def draw(self, heads, n_draws, generator):
        """Draw r, shape (n_draws, n_rows, n_bits), differentiable in the heads."""
        mu, std, factor = self.split(heads)
        eps = _normal((n_draws, *mu.shape), heads, generator)
        zeta = _normal((n_draws, len(mu), self.rank), heads, generator)
        return mu + std * eps + torch.einsum("bjr,kbr->kbj", factor, zeta)

    def losses(self, heads, reconstruct, module):
        """Return reconstruction loss plus weighted divergence of each row."""
        # The draws are exchangeable: a random component of the mixture is the first.
        draws = self.draw(heads, self.n_mixture, module.generator)
        log_odds = module.units.noise.log_odds(draws)

        def divergence(bits):
            return module.kl_weight_now * (
                log_mixture(bits, log_odds) - module.log_prior(bits)
            )

        if self.share_sample:
            return module.estimate(
                lambda bits: reconstruct(bits) + divergence(bits), draws[0]
            )
        own = self.draw(heads, 1, module.generator)[0]
        return module.estimate(reconstruct, own) + module.estimate(divergence, draws[0])

    def sample_bound(self, heads, reconstruct, module):
        """Return one sample of L_k of each row."""
        draws = self.draw(heads, self.n_mixture, module.generator)
        bits = module.units.draw(draws[0], module.generator)
        log_odds = module.units.noise.log_odds(draws)
        divergence = log_mixture(bits, log_odds) - module.log_prior(bits)
        return -reconstruct(bits) - divergence


def make_posterior(kind, rank, n_mixture, covariance_scale, share_sample):
    """Return the posterior of the parameters of an estimator.

    Parameters
    ----------
    kind : {"independent", "correlated"}
    covariance_scale : {"rank", "sqrt_rank"} or float
        ``1 / rank``, ``1 / sqrt(rank)`` or a number.
    """
    if kind == "independent":
        return IndependentPosterior()
    scales = {"rank": 1 / rank, "sqrt_rank": rank**-0.5}
    scale = scales.get(covariance_scale, covariance_scale)
    return CorrelatedPosterior(rank, n_mixture, scale, share_sample)


def log_mixture(bits, log_odds):
    """Return ``log 1/k sum_i prod_j Ber(bits_j; sigmoid(log_odds_ij))``.

    Parameters
    ----------
    bits : Tensor of shape (..., n_rows, n_bits)
        0 and 1.
    log_odds : Tensor of shape (k, n_rows, n_bits)

    Returns
    -------
    log_probability : Tensor of shape (..., n_rows)
    """
    # Sum over bits inside, logsumexp over the mixture outside, log k once.
    on = torch.einsum("...bj,kbj->...kb", bits, log_odds)
    log_components = on - softplus(log_odds).sum(dim=-1)
    return log_components.logsumexp(dim=-2) - math.log(len(log_odds))


def _normal(shape, like, generator):
    return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)


class StochasticAutoencoder(TrainedModule):
    """Encoder, Bernoulli bits with an exchangeable gradient estimator, decoder.

    Parameters
    ----------
    encoder, decoder : nn.Module
        `MLP`; the encoder gives the heads of the posterior, the decoder what the
        likelihood takes.
    likelihood : nn.Module
        ``likelihood(outputs, X)`` is the reconstruction loss of each row.
    posterior : IndependentPosterior or CorrelatedPosterior
    gradient : GradientEstimator
    units : BernoulliUnits
        Of 0/1 coding.
    kl_weight, decoder_noise : float or callable
        A number, or what gives one for the number of steps done.
    prior_logit : float
        Log-odds of the prior of each bit.
    encoder_input : {"values", "unit", "frequency", "presence"}
    mean, scale
        What dense rows are standardised with before they are fed; None and 1 for
        counts.
    """

    rows: torch.Tensor | None = None

    def __init__(
        self,
        encoder,
        decoder,
        likelihood,
        posterior,
        *,
        gradient,
        units,
        kl_weight=0.0,
        decoder_noise=0.0,
        prior_logit=0.0,
        encoder_input="values",
        mean=None,
        scale=1.0,
    ):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.likelihood, self.posterior = likelihood, posterior
        self.gradient, self.units = gradient, units
        self.kl_weight, self.decoder_noise = kl_weight, decoder_noise
        prior_logit = torch.tensor(float(prior_logit))
        self.register_buffer("prior_logit", prior_logit, persistent=False)
        self.encoder_input = encoder_input
        self.mean, self.scale = mean, scale
        self.accepts_sparse = mean is None
        self.n_steps = 0
        self.check_gradient(gradient)
        if mean is not None and encoder_input != "values":
            raise ValueError(
                f"encoder_input={encoder_input!r} is for counts and weights, but "
                "decoder='gaussian' standardises its rows: take 'values'."
            )

    @property
    def kl_weight_now(self) -> float:
        """The weight of the divergence from the prior, at this step."""
        return weight_at(self.kl_weight, self.n_steps)

    def forward(self, X):
        return self.encoder(scale_rows(X, self.encoder_input), self.generator)

    def loss(self, heads, batch):
        """Return the mean loss of the rows."""
        self.rows = batch.rows
        losses = self.posterior.losses(heads, self.reconstruction(batch.X), self)
        if self.training:
            self.n_steps += 1
        return losses.mean()

    def reconstruction(self, X):
        """Return the function from bits to the reconstruction loss of each row of X."""
        noise = weight_at(self.decoder_noise, self.n_steps) if self.training else 0.0

        def reconstruct(bits):
            return self.likelihood(self.decoder(bits + disturbance), X)

        # One draw for all codes that are tried, so that they differ in bits alone.
        shape = (X.shape[0], self.decoder.coefs[0].shape[0])
        like = self.decoder.coefs[0]
        disturbance = noise * _normal(shape, like, self.generator) if noise else 0.0
        return reconstruct

    def estimate(self, function, logits):
        """Return losses of rows whose gradient in the logits is the estimator's."""
        curvature = self.curvature() if self.gradient.needs_curvature else None
        return self.gradient.surrogate(
            function,
            logits,
            self.generator,
            units=self.units,
            rows=self.rows,
            curvature=curvature,
        )

    def check_gradient(self, gradient, name="gradient") -> None:
        """Raise ValueError where an estimator, or None, cannot be told the curvature.

        Parameters
        ----------
        gradient : GradientEstimator or None
        name : str
            Of the parameter that it is.
        """
        quadratic = (
            self.likelihood.is_quadratic
            and len(self.decoder.coefs) == 1
            and isinstance(self.posterior, IndependentPosterior)
        )
        if gradient is not None and gradient.needs_curvature and not quadratic:
            raise ValueError(
                f"{name}={gradient!r} corrects the bias of losses that are quadratic "
                "in the code: it needs decoder='gaussian', "
                "decoder_hidden_layer_sizes=() and posterior='independent'."
            )

    def curvature(self):
        """Return half the second derivative of the Gaussian loss in each bit."""
        norms = self.decoder.coefs[0].detach().square().sum(dim=1)
        return 0.5 * torch.exp(-2 * self.likelihood.log_rho.detach()) * norms

    def log_prior(self, bits):
        """Return ``log p(bits)`` of each row, linear in every bit."""
        on, off = logsigmoid(self.prior_logit), logsigmoid(-self.prior_logit)
        return (bits * (on - off) + off).sum(dim=-1)

    def bound(self, X, n_samples):
        """Return the mean of `n_samples` samples of the evidence bound of each row."""
        heads, reconstruct = self(X), self.reconstruction(X)
        samples = (
            self.posterior.sample_bound(heads, reconstruct, self)
            for _ in range(n_samples)
        )
        return sum(samples) / n_samples
