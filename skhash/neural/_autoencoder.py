"""Stochastic autoencoders with a binary code: semantic hashing."""

from numbers import Integral, Real

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash.base import BaseNeuralHasher
from skhash.codes import check_bits
from skhash.linear._projection import column_means
from skhash.neural._mlp import MLPLogitsMixin, mlp_forward
from skhash.neural._start import total_scale
from skhash.utils._sklearn import HasMethods, Interval, StrOptions
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import seeded_generator


class StochasticAutoencoderHash(MLPLogitsMixin, BaseNeuralHasher):
    # DOC
    _parameter_constraints: dict = {
        "n_bits": [Interval(Integral, 1, None, closed="left")],
        "hidden_layer_sizes": ["array-like"],
        "decoder": [StrOptions({"multinomial", "gaussian", "bernoulli"})],
        "decoder_hidden_layer_sizes": ["array-like", None],
        "target": [StrOptions({"values", "presence"})],
        "encoder_input": [StrOptions({"values", "frequency", "presence"})],
        "posterior": [StrOptions({"independent", "correlated"})],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "n_mixture": [Interval(Integral, 1, None, closed="left")],
        "covariance_scale": [
            StrOptions({"rank", "sqrt_rank"}),
            Interval(Real, 0, None, closed="left"),
        ],
        "share_sample": ["boolean"],
        "gradient": [str, HasMethods(["surrogate"])],
        "noise": [str, HasMethods(["cdf"])],
        "kl_weight": [Interval(Real, 0, None, closed="left"), callable],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "decoder_noise": [Interval(Real, 0, None, closed="left"), callable],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "correction": [str, HasMethods(["surrogate"]), None],
        "correction_samples": [Interval(Integral, 1, None, closed="left")],
        "correction_epochs": [Interval(Integral, 0, None, closed="left")],
        "reset_optimizer": ["boolean"],
        "normalize": ["boolean"],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "optimizer": [str, type],
        "callbacks": [list, None],
        "train_split": [Interval(Real, 0, 1, closed="neither"), callable, None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_bits=32,
        *,
        hidden_layer_sizes=(512,),
        decoder="multinomial",
        decoder_hidden_layer_sizes=(),
        target="values",
        encoder_input="values",
        posterior="independent",
        rank=10,
        n_mixture=10,
        covariance_scale="sqrt_rank",
        share_sample=True,
        gradient="st",
        noise="logistic",
        kl_weight=0.0,
        prior=0.5,
        decoder_noise=0.0,
        dropout=0.2,
        correction="arm",
        correction_samples=10,
        correction_epochs=0,
        reset_optimizer=True,
        normalize=False,
        lr=1e-3,
        max_epochs=30,
        batch_size="auto",
        optimizer="adam",
        callbacks=None,
        train_split=None,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.n_bits = n_bits
        self.hidden_layer_sizes = hidden_layer_sizes
        self.decoder = decoder
        self.decoder_hidden_layer_sizes = decoder_hidden_layer_sizes
        self.target = target
        self.encoder_input = encoder_input
        self.posterior = posterior
        self.rank = rank
        self.n_mixture = n_mixture
        self.covariance_scale = covariance_scale
        self.share_sample = share_sample
        self.gradient = gradient
        self.noise = noise
        self.kl_weight = kl_weight
        self.prior = prior
        self.decoder_noise = decoder_noise
        self.dropout = dropout
        self.correction = correction
        self.correction_samples = correction_samples
        self.correction_epochs = correction_epochs
        self.reset_optimizer = reset_optimizer
        self.normalize = normalize
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.callbacks = callbacks
        self.train_split = train_split
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def inverse_transform(self, X) -> np.ndarray:
        """Decode bits into what the decoder expects.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float32
            Probabilities of the words, which sum to 1 ("multinomial"), of each feature
            ("bernoulli"), or the mean ("gaussian").
        """
        import torch

        check_is_fitted(self)
        bits = check_bits(X)
        n_bits = len(self.decoder_coefs_[0])
        if bits.shape[1] != n_bits:
            raise ValueError(
                f"Codes have {bits.shape[1]} bits, but this {type(self).__name__} was "
                f"fitted for {n_bits}."
            )
        likelihood = self._likelihood()
        decoded = np.empty((len(bits), self.n_features_in_), dtype=np.float32)
        for rows in row_chunks(len(bits), 8 * self.n_features_in_):
            outputs = mlp_forward(
                bits[rows], self.decoder_coefs_, self.decoder_intercepts_
            )
            decoded[rows] = likelihood.mean(torch.from_numpy(outputs)).numpy()
        return decoded

    def bound(
        self, X, *, n_mixture=None, n_samples=100, random_state=None
    ) -> np.ndarray:
        """Estimate the evidence bound of each row, a lower bound of log p(x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_mixture : int, default=None
            The k of L_k, with the correlated posterior; None takes that of the
            estimator. L_k grows with k towards the bound of the posterior itself.
        n_samples : int, default=100
            Draws to average over; the standard error falls with their root.
        random_state : int, RandomState instance or None, default=None
            Draws the samples; None takes that of the estimator.

        Returns
        -------
        bound : ndarray of shape (n_samples,), float64
            In nats, with the full divergence from the prior whatever `kl_weight`.
        """
        import torch

        from skhash._net import fed_batch

        X = self._validate_fitted(X)
        module = self._restore_module().double().eval()
        if n_mixture is not None and self.posterior == "correlated":
            module.posterior.n_mixture = n_mixture
        seed = self.random_state if random_state is None else random_state
        module.generator = seeded_generator(check_random_state(seed))
        bound = np.empty(X.shape[0])
        with torch.inference_mode():
            for rows, chunk in self._chunks(X):
                batch = fed_batch(module, chunk).double()
                bound[rows] = module.bound(batch, n_samples).numpy()
        return bound - self.n_features_in_ * np.log(self.scale_)

    def _logits(self, X):
        if self.encoder_input == "frequency":
            X = normalize(X, norm="l1")
        elif self.encoder_input == "presence":
            X = (X > 0).astype(np.float32)
        return super()._logits(X)

    def _validate(self, X, *, reset):
        X = super()._validate(X, reset=reset)
        if self.decoder == "gaussian":
            return X
        smallest, largest = X.min(), X.max()
        if smallest < 0:
            raise ValueError(
                f"Negative values in data: decoder={self.decoder!r} is for counts and "
                f"weights, but X holds {smallest:.3g}; use decoder='gaussian'."
            )
        if self.decoder == "bernoulli" and largest > 1:
            raise ValueError(
                "decoder='bernoulli' is for values from 0 to 1, but X holds "
                f"{largest:.3g}; scale X or use another decoder."
            )
        return X

    def _fit_codes(self, X, y, random_state):
        super()._fit_codes(X, y, random_state)
        if self.correction is None or not self.correction_epochs:
            return
        net = self.net_
        net.module_.gradient = self._correction()
        if self.reset_optimizer:
            net.initialize_optimizer()
        self._train(net, X, y, self.correction_epochs, self.history_)

    def _correction(self):
        from skhash.gradients import resolve_gradient

        gradient = resolve_gradient(self.correction)
        if isinstance(self.correction, str) and "n_samples" in gradient.get_params():
            gradient.set_params(n_samples=self.correction_samples)
        return gradient

    def _train(self, net, X, y, epochs, history):
        # An estimator that remembers something of each row is told which they are.
        super()._train(net, X, np.arange(X.shape[0]), epochs, history)

    def _make_module(self, X, y, device, generator):
        if self.decoder == "gaussian":
            mean = column_means(X)
            return self._module(X.shape[1], generator, mean, total_scale(X, mean))
        return self._module(X.shape[1], generator, None, 1.0)

    def _module(self, n_features, generator, mean, scale):
        from skhash.gradients import BernoulliUnits, resolve_gradient
        from skhash.modules._autoencoder import StochasticAutoencoder
        from skhash.modules._mlp import MLP
        from skhash.noise import resolve_noise

        gradient = resolve_gradient(self.gradient)
        posterior = self._posterior()
        hidden = [int(size) for size in self.hidden_layer_sizes]
        decoder_hidden = self.decoder_hidden_layer_sizes
        if decoder_hidden is None:
            decoder_hidden = hidden[::-1]
        decoder_hidden = [int(size) for size in decoder_hidden]
        if gradient.needs_curvature and (
            self.decoder != "gaussian"
            or decoder_hidden
            or self.posterior != "independent"
        ):
            raise ValueError(
                f"gradient={self.gradient!r} corrects the bias of losses that are "
                "quadratic in the code: it needs decoder='gaussian', "
                "decoder_hidden_layer_sizes=() and posterior='independent'."
            )
        heads = posterior.n_heads(self.n_bits)
        return StochasticAutoencoder(
            MLP([n_features, *hidden, heads], generator, self.dropout),
            MLP([self.n_bits, *decoder_hidden, n_features], generator),
            self._likelihood(),
            posterior,
            gradient=gradient,
            units=BernoulliUnits(resolve_noise(self.noise)),
            kl_weight=self.kl_weight,
            decoder_noise=self.decoder_noise,
            prior_logit=np.log(self.prior / (1 - self.prior)),
            encoder_input=self.encoder_input,
            mean=mean,
            scale=scale,
        )

    def _likelihood(self):
        from skhash import losses

        if self.decoder == "multinomial":
            return losses.MultinomialLikelihood(self.target)
        if self.decoder == "bernoulli":
            return losses.BernoulliLikelihood()
        return losses.GaussianLikelihood()

    def _posterior(self):
        from skhash.modules._autoencoder import (
            CorrelatedPosterior,
            IndependentPosterior,
        )

        if self.posterior == "independent":
            return IndependentPosterior()
        scales = {"rank": 1 / self.rank, "sqrt_rank": self.rank**-0.5}
        scale = scales.get(self.covariance_scale, self.covariance_scale)
        return CorrelatedPosterior(self.rank, self.n_mixture, scale, self.share_sample)

    def _restore_module(self):
        unused = seeded_generator(np.random.RandomState(0))
        module = self._module(self.n_features_in_, unused, self.mean_, self.scale_)
        module.n_steps = self.n_steps_
        scale = np.float32(self.scale_)
        coefs, intercepts = list(self.coefs_), list(self.intercepts_)
        if self.posterior == "correlated":
            coefs[-1] = np.hstack([coefs[-1], self.covariance_coef_])
            intercepts[-1] = np.hstack([intercepts[-1], self.covariance_intercept_])
        coefs[0] = coefs[0] * scale
        _fill(module.encoder, coefs, intercepts)
        coefs, intercepts = list(self.decoder_coefs_), list(self.decoder_intercepts_)
        coefs[-1] = coefs[-1] / scale
        if self.mean_ is not None:
            offset = (intercepts[-1] - self.mean_) / self.scale_
            intercepts[-1] = offset.astype(np.float32)
        _fill(module.decoder, coefs, intercepts)
        if self.decoder == "gaussian":
            module.likelihood.log_rho.data.fill_(np.log(self.rho_ / self.scale_))
        return module

    def _read_out(self, module, values):
        self.mean_, self.scale_ = module.mean, module.scale
        self.n_steps_ = module.n_steps
        scale = np.float32(self.scale_)
        self.coefs_ = _items(values, "encoder.coefs")
        self.intercepts_ = _items(values, "encoder.intercepts")
        self.coefs_[0] = self.coefs_[0] / scale
        if self.posterior == "correlated":
            coef, intercept = self.coefs_[-1], self.intercepts_[-1]
            self.coefs_[-1], self.covariance_coef_ = _split(coef, self.n_bits)
            self.intercepts_[-1], self.covariance_intercept_ = _split(
                intercept, self.n_bits
            )
        self.decoder_coefs_ = _items(values, "decoder.coefs")
        self.decoder_intercepts_ = _items(values, "decoder.intercepts")
        self.decoder_coefs_[-1] = self.decoder_coefs_[-1] * scale
        if self.mean_ is not None:
            offset = self.decoder_intercepts_[-1] * self.scale_ + self.mean_
            self.decoder_intercepts_[-1] = offset.astype(np.float32)
        if self.decoder == "gaussian":
            self.rho_ = float(np.exp(values["likelihood.log_rho"]) * self.scale_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.decoder != "gaussian"
        return tags


def _items(values, name) -> list[np.ndarray]:
    """Return the arrays of a parameter list, in order."""
    n_items = sum(key.startswith(f"{name}.") for key in values)
    return [values[f"{name}.{i}"] for i in range(n_items)]


def _split(array, n_columns):
    """Return the first columns and the rest, each contiguous."""
    parts = array[..., :n_columns], array[..., n_columns:]
    return tuple(np.ascontiguousarray(part) for part in parts)


def _fill(mlp, coefs, intercepts) -> None:
    """Copy arrays into the parameters of an MLP."""
    import torch

    with torch.no_grad():
        for parameter, array in zip(mlp.coefs, coefs, strict=True):
            parameter.copy_(torch.from_numpy(array))
        for parameter, array in zip(mlp.intercepts, intercepts, strict=True):
            parameter.copy_(torch.from_numpy(array))
