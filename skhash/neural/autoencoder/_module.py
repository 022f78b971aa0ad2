"""A stochastic autoencoder with a binary latent code."""

import torch

from skhash.training._module import TrainedModule
from skhash.utils._torch_sparse import scale_rows


class StochasticAutoencoder(TrainedModule):
    """Encoder, Bernoulli bits with an exchangeable gradient estimator, decoder.

    Parameters
    ----------
    encoder, decoder : nn.Module
        `MLP`; the encoder gives the heads of the posterior, the decoder the outputs for
        the likelihood.
    likelihood : nn.Module
        ``likelihood(outputs, X)`` is the reconstruction loss of each row.
    posterior : Posterior
    gradients : list of GradientEstimator
        The estimator of each phase.
    units : BernoulliUnits
        Of 0/1 coding.
    kl_weight : float or callable
        A number, or a function of the number of steps done.
    encoder_input : {"values", "unit", "frequency", "presence"}
    mean, scale
        Used to standardize the data.
    """

    def __init__(
        self,
        encoder,
        decoder,
        likelihood,
        posterior,
        *,
        gradients,
        units,
        kl_weight=0.0,
        encoder_input="values",
        mean=None,
        scale=1.0,
    ):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.likelihood, self.posterior = likelihood, posterior
        self.gradients, self.gradient, self.units = gradients, gradients[0], units
        self.kl_weight, self.encoder_input = kl_weight, encoder_input
        self.mean, self.scale, self.n_steps = mean, scale, 0
        gaussian = likelihood.is_quadratic
        self.accepts_sparse = not gaussian
        if gaussian and encoder_input != "values":
            raise ValueError(
                f"encoder_input={encoder_input!r} is for counts and weights, but "
                "decoder='gaussian' standardizes rows; use encoder_input='values'."
            )
        quadratic = gaussian and len(decoder.coefs) == 1 and posterior.has_closed_form
        for name, estimator in zip(("gradient", "correction"), gradients, strict=False):
            if estimator.needs_curvature and not quadratic:
                raise ValueError(
                    f"{name}={estimator!r} corrects the bias only of losses that are "
                    "quadratic in the code; it needs decoder='gaussian', "
                    "decoder_hidden_layer_sizes=() and posterior='independent'."
                )

    def forward(self, X):
        return self.encoder(scale_rows(X, self.encoder_input), self.generator)

    def loss(self, heads, batch):
        """Return the mean loss of the rows."""
        return self.losses(heads, self.reconstruction(batch.X), batch.rows).mean()

    def go_on(self, n_steps, phase):
        """Continue after `n_steps` steps of the optimizer, in this phase."""
        self.n_steps = n_steps
        self.start_phase(phase)

    def start_phase(self, phase):
        self.gradient = self.gradients[phase]

    def end_step(self, optimizer):
        self.n_steps += 1

    def losses(self, heads, reconstruct, rows=None):
        """Return the weighted bound of each row, with the estimator's gradient.

        Parameters
        ----------
        heads : Tensor of shape (n_rows, n_heads)
        reconstruct : callable
            Maps bits to the reconstruction loss of each row.
        rows : Tensor of shape (n_rows,), int64, or None
            Which rows of the data these are.
        """
        draws = self.posterior.draw(heads, self.generator)
        kl = self.posterior.divergence(draws, self.units.noise)
        weight = self.kl_weight
        weight = weight(self.n_steps) if callable(weight) else weight

        def loss(bits):
            return reconstruct(bits) + weight * kl(bits)

        has_known_kl = self.posterior.has_closed_form
        losses = self.gradient.surrogate(
            reconstruct if has_known_kl else loss,
            draws[0],
            self.generator,
            units=self.units,
            rows=rows,
            curvature=self.curvature() if self.gradient.needs_curvature else None,
        )
        return losses + weight * kl(None) if has_known_kl else losses

    def reconstruction(self, X):
        """Return the function from bits to the reconstruction loss of each row of X."""

        def reconstruct(bits):
            # Codes that all rows share, as `Exact` has them, are decoded once.
            if bits.stride(-2) == 0:
                bits = bits[..., :1, :]
            return self.likelihood(self.decoder(bits), X)

        return reconstruct

    def curvature(self):
        """Return half the second derivative of the Gaussian loss in each bit."""
        norms = self.decoder.coefs[0].detach().square().sum(dim=1)
        return 0.5 * torch.exp(-2 * self.likelihood.log_rho.detach()) * norms

    def bound(self, X, n_samples):
        """Return the mean of `n_samples` samples of the evidence bound of each row."""
        heads, reconstruct = self(X), self.reconstruction(X)
        samples = (self.sample_bound(heads, reconstruct) for _ in range(n_samples))
        return sum(samples) / n_samples

    def sample_bound(self, heads, reconstruct):
        """Return one sample of the evidence bound of each row; see `losses`."""
        draws = self.posterior.draw(heads, self.generator)
        bits = self.units.draw(draws[0], self.generator)
        kl = self.posterior.divergence(draws, self.units.noise)
        return -reconstruct(bits) - kl(bits)
