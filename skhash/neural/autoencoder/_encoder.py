"""Stochastic autoencoders with a binary code: semantic hashing."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash.base import MLPLogitsMixin
from skhash.codes import check_codes_of
from skhash.neural.autoencoder._parts import (
    Correction,
    Posterior,
    resolve_correction,
    resolve_posterior,
)
from skhash.numerics import _perceptron as mlp
from skhash.numerics._projection import mean_and_scale
from skhash.persistence.schema import TINY, Group, optional, reals, wholes
from skhash.training import BaseNeuralHasher, arrays_of
from skhash.utils._sklearn import HasMethods, StrOptions
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import torch
from skhash.utils.parameters import (
    ArrayLike,
    Count,
    NotNegative,
    Positive,
    ShareBelow1,
    with_parameters,
)
from skhash.utils.torch import seeded_generator, torch_as_imported


@with_parameters(kw_only=True)
class StochasticAutoencoderHash(MLPLogitsMixin, BaseNeuralHasher):
    r"""Semantic hashing: a stochastic autoencoder whose code is binary.

    An encoder network maps rows to bits, and a decoder network reconstructs the rows
    from them; both are trained with one of the gradient estimators of
    `skhash.gradients`. The default decoder is for counts or tf-idf weights of texts.
    The model is defined in the notes.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    hidden_layer_sizes : sequence of int, default=(512,)
        Number of units in each hidden layer of the encoder, with ReLU. ``()`` is a
        linear encoder.
    decoder : {"multinomial", "gaussian", "bernoulli"}, default="multinomial"
        Likelihood of the data given the bits.

        - "multinomial", for counts or tf-idf weights: words drawn from the softmax of
          the decoder's outputs.
        - "gaussian", for real vectors, with a learned spread. The vectors are
          standardized internally by their mean and one common scale.
        - "bernoulli", for values from 0 to 1.
    decoder_hidden_layer_sizes : sequence of int or None, default=()
        Number of units in each hidden layer of the decoder. ``()`` is a linear decoder,
        None mirrors the encoder.
    encoder_input : {"auto", "unit", "values", "frequency", "presence"}, default="auto"
        Form in which the encoder gets each row.

        - "unit": scaled to unit length.
        - "values": as it is.
        - "frequency": divided by its sum.
        - "presence": 1 where a value is above 0.
        - "auto": "values" for ``decoder="gaussian"``, otherwise "unit".
    posterior : {"independent", "correlated"} or posterior, default="independent"
        Whether bits are independent given the row, or correlated as in
        `CorrelatedPosterior`.
    gradient : str or gradient estimator, default="st"
        Gradient estimator: a name ("st", "zgr", "arm", "disarm", ...) or an instance of
        a class of `skhash.gradients`, such as ``ARM(n_samples=10)``.
    noise : {"logistic", "uniform", "triangular", "normal"} or noise, default="logistic"
        Noise that a logit must exceed for its bit to be 1; see `skhash.noise`.
    kl_weight : float or callable, default=0.03
        Weight lambda of the divergence, or a function of the number of steps done, such
        as ``LinearSchedule(0, 1, n_steps=1000)`` of `skhash.training`.
    dropout : float, default=0.5
        Dropout probability of the encoder's hidden units, and of the entries of its
        input. The decoder's loss sees all entries.
    correction : str, Correction or None, default=None
        A second training phase whose gradient estimator corrects the bias of the first:
        a `Correction`, or the name of its estimator. None: no second phase.
    normalize : bool, default=False
        Whether to scale vectors to unit length first. `transform` does the same.
    lr : float, default=3e-3
        Step size.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default=None
        Schedule by which the step size decreases. None keeps it constant. A correction
        restarts the schedule.
    max_epochs : int, default=12
        Number of passes over the data, not counting the correction. Codes of 16 bits or
        fewer need twice as many.
    batch_size : int or "auto", default="auto"
        Number of rows per batch. "auto" is a hundredth of all rows, but at least 32 and
        at most 512.
    optimizer : str, torch.optim.Optimizer class or partial of one, default="adam"
        Optimizer: a class of `torch.optim`, or its name in any case. To set its
        parameters other than the step size, pass a `functools.partial` of the class.
    callbacks : list of skorch callbacks or None, default=None
        Callbacks, such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to hold out for ``valid_loss``, or a skorch splitter. These
        rows take part in nothing else.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the order of rows, the bits and the dropout. The
        same seed on the same machine gives the same codes.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    coefs_, decoder_coefs_ : lists of ndarrays of shape (n_inputs, n_outputs), float32
        Weights of the encoder's and the decoder's layers. The encoder's last layer
        computes the logits, which are mu for the correlated posterior.
    intercepts_, decoder_intercepts_ : lists of ndarrays of shape (n_outputs,), float32
        Intercepts of the encoder's and the decoder's layers.
    covariance_coef_ : ndarray of shape (n_inputs, n_bits * (1 + rank)), float32
    covariance_intercept_ : ndarray of shape (n_bits * (1 + rank),), float32
        Weights and intercepts of the layer that computes sigma and V. None without
        `CorrelatedPosterior`.
    mean_ : ndarray of shape (n_features,), float64, or None
        Mean of the training data ("gaussian" only).
    scale_ : float
        Square root of the mean variance of the columns, by which training divides the
        data; 1 unless "gaussian".
    rho_ : float or None
        Learned spread of the likelihood, in units of the data. None unless "gaussian".
    n_steps_ : int
        Number of optimizer steps that schedules have counted.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch. Losses are in nats per row.
    n_iter_ : int
        Number of epochs trained.
    weights_, weight_names_ : list of ndarray, list of str
        State of the trained torch module: its arrays and their names.
    net_ : skorch net
        The net that `partial_fit` continues to train; ``net_.module_`` is the torch
        module.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    SGHEncoder : A linear Gaussian model, with the expectation in closed form.
    skhash.gradients.gradient_report : Compares gradient estimators on a fitted model.

    Notes
    -----
    Bits s are drawn from a posterior q(s|x), which the encoder network computes, and
    the decoder network models the row x given the bits. Training minimizes the mean
    over rows of

    .. math::

        E_{q(s|x)}[-\log p(x|s)] + \lambda \, KL(q(s|x) \,\|\, p(s))

    with the prior p(s) of fair coins, and `kl_weight` for lambda: at 0 this is the
    autoencoder of Shekhovtsov and Yanush (2021, equation 60), at 1 the evidence bound.
    `gradient` differentiates the expectation over bits. The code is the most likely
    one: a bit is 1 if its logit is above 0.

    With ``posterior="independent"``, bits are independent given the row, and the
    divergence is exact (as in NASH; Shen et al., 2018). With `CorrelatedPosterior`
    (CorrSH; Zheng et al., 2020), a Gaussian r of low-rank covariance makes them
    dependent,

    .. math::

        q(s|x) = E_r \prod_j Ber(s_j; F(r_j)), \quad
        r = \mu + \sigma \circ \epsilon + V \zeta, \quad
        \epsilon, \zeta \sim N(0, I),

    and the divergence is bounded from above by that of a mixture of k draws of r:
    ``E[log h_k(s) - log p(s)]`` with ``h_k(s) = 1/k sum_i q(s|r_i)``. This posterior is
    *inspired* by a Boltzmann machine of couplings ``diag(sigma^2) + V V^T``, but is not
    one, because r is drawn from the Gaussian itself.

    In the mixture bound, the sum over bits is inside the logsumexp over the draws, and
    log k is subtracted once, as in equations 9 and 10 of Zheng et al. The authors
    anneal the weight of the divergence so slowly that it ends far below 1; the
    schedules of skhash count optimizer steps, and do reach their final value.

    Sparse rows stay sparse in the encoder and in the likelihood of words. Only batches
    become dense: of the decoder's outputs and, with "gaussian", which centres the data,
    of rows.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021.

    L. Zheng, Q. Su, D. Shen and C. Chen, "Generative semantic hashing enhanced via
    Boltzmann machines", ACL 2020.

    D. Shen et al., "NASH: Toward end-to-end neural architecture for generative semantic
    hashing", ACL 2018.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from skhash import StochasticAutoencoderHash
    >>> messages = [
    ...     "the cat sat on the mat",
    ...     "a cat and a kitten on a mat",
    ...     "stocks fell on the market",
    ...     "the market for stocks and bonds",
    ... ]
    >>> X = TfidfVectorizer().fit_transform(messages)
    >>> encoder = StochasticAutoencoderHash(n_bits=16, random_state=0).fit(X)
    >>> encoder.transform(X).shape
    (4, 16)
    >>> encoder.inverse_transform(encoder.transform(X)).sum(axis=1).round(4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    hidden_layer_sizes: ArrayLike = (512,)
    decoder: Literal["multinomial", "gaussian", "bernoulli"] = "multinomial"
    decoder_hidden_layer_sizes: ArrayLike | None = ()
    encoder_input: Annotated[str, StrOptions({"auto", *mlp.ENCODER_INPUTS})] = "auto"
    posterior: Literal["independent", "correlated"] | Posterior = "independent"
    gradient: str | Annotated[Any, HasMethods(["surrogate"])] = "st"
    noise: str | Annotated[Any, HasMethods(["cdf"])] = "logistic"
    kl_weight: NotNegative | Callable = 0.03
    dropout: ShareBelow1 = 0.5
    correction: str | Correction | None = None
    lr: Positive = 0.003
    max_epochs: Count = 12

    _saved = {
        "scale_": reals(low=TINY),
        "rho_": optional(reals(low=TINY)),
        "n_steps_": wholes(low=0),
        "decoder_coefs_": Group(list),
        "decoder_intercepts_": Group(list),
        "covariance_coef_": optional(reals("n_hidden", "n_heads")),
        "covariance_intercept_": optional(reals("n_heads")),
    }

    def inverse_transform(self, X) -> np.ndarray:
        """Decode bits into the expected data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float32
            Probabilities of the words, which sum to 1 ("multinomial"), probabilities of
            the features ("bernoulli"), or means ("gaussian").
        """
        from skhash.losses._likelihoods import LIKELIHOODS

        bits = check_codes_of(self, X, self._n_features_out)
        layers = self.decoder_coefs_, self.decoder_intercepts_
        likelihood = LIKELIHOODS[self.decoder]
        decoded = np.empty((len(bits), self.n_features_in_), dtype=np.float32)
        for rows in row_chunks(len(bits), 8 * self.n_features_in_):
            outputs = torch.from_numpy(mlp.mlp_forward(bits[rows], *layers))
            decoded[rows] = likelihood.mean(outputs).numpy()
        return decoded

    @torch_as_imported()
    def bound(self, X, *, n_samples=100, random_state=None) -> np.ndarray:
        """Estimate the evidence bound of each row, a lower bound of log p(x).

        With `CorrelatedPosterior`, it is the bound of a mixture of ``n_mixture`` draws.
        You can change that number after `fit`; more draws give a tighter bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        n_samples : int, default=100
            Number of draws to average over. The standard error decreases with its
            square root.
        random_state : int, RandomState instance or None, default=None
            Seed for the draws. None uses that of the estimator.

        Returns
        -------
        bound : ndarray of shape (n_samples,), float64
            Bounds in nats, with the full divergence from the prior, whatever
            `kl_weight` is.
        """
        from skhash.training._net import whole_batch

        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples} must be at least 1.")
        check_is_fitted(self)
        module = self._restored().double().eval()
        seed = self.random_state if random_state is None else random_state
        module.seed(check_random_state(seed).randint(np.iinfo(np.int32).max), "cpu")

        @torch.inference_mode()
        def bound(chunk):
            values = whole_batch(module, chunk).X.double()
            return module.bound(values, n_samples).numpy()

        return self._by_chunks(X, bound) - self.n_features_in_ * np.log(self.scale_)

    def _check_saved(self):
        super()._check_saved()
        coefs, n_bits = self.decoder_coefs_, self._n_features_out
        mlp.check_layers(n_bits, coefs, self.decoder_intercepts_, None)
        if coefs[-1].shape[1] != self.n_features_in_:
            raise ValueError(f"decoder_coefs_ do not end with {self.n_features_in_}.")
        heads = getattr(self, "covariance_coef_", None)
        shape = (0, 0) if heads is None else heads.shape
        n_heads = resolve_posterior(self.posterior).n_heads(n_bits) - n_bits
        if (heads is None) != (getattr(self, "covariance_intercept_", None) is None):
            raise ValueError("covariance_coef_ needs covariance_intercept_.")
        if shape != ((self.coefs_[-1].shape[0], n_heads) if n_heads else (0, 0)):
            raise ValueError(f"covariance_coef_ has shape {shape}.")
        of_values = getattr(self, "rho_", None) is not None and self.mean_ is not None
        if self.decoder == "gaussian" and not of_values:
            raise ValueError("mean_ or rho_ of a gaussian decoder is missing.")

    def _logits(self, X):
        return super()._logits(mlp.scaled_rows(X, self._encoder_input))

    @property
    def _encoder_input(self) -> str:
        automatic = "values" if self.decoder == "gaussian" else "unit"
        return automatic if self.encoder_input == "auto" else self.encoder_input

    @property
    def _rowwise(self):
        return self.decoder == "gaussian" and self._encoder_input == "values"

    def _validate(self, X, *, reset, all_finite=True):
        X = super()._validate(X, reset=reset, all_finite=all_finite)
        if self.decoder != "gaussian" and X.min() < 0:
            raise ValueError(
                f"Negative values in data: decoder={self.decoder!r} is for counts and "
                f"weights, but X holds {X.min():.3g}; use decoder='gaussian'."
            )
        if self.decoder == "bernoulli" and X.max() > 1:
            raise ValueError(
                "decoder='bernoulli' is for values from 0 to 1, but X holds "
                f"{X.max():.3g}; scale X or use another decoder."
            )
        return X

    def _phases(self, n_samples):
        correction = resolve_correction(self.correction)
        return (self.max_epochs, *([correction.n_epochs] if correction else []))

    def _build(self, X, targets, run):
        X = run.trained(X)
        unit = mean_and_scale(X) if self.decoder == "gaussian" else (None, 1.0)
        module = self._module_of(X.shape[1], self.n_bits, run.generator, *unit)
        if run.phases is None:  # a stream has the last phase alone, loaded or not
            module.start_phase(len(self._phases(0)) - 1)
        return module

    def _module(self, run):
        n_features, n_bits = self.n_features_in_, self._n_features_out
        unused = seeded_generator(np.random.RandomState(0))
        module = self._module_of(n_features, n_bits, unused, self.mean_, self.scale_)
        module.go_on(self.n_steps_, len(self._phases(0)) - 1)
        return module

    def _module_of(self, n_features, n_bits, generator, mean, scale):
        """Return a module for these parameters, with random weights."""
        from skhash.gradients import BernoulliUnits, resolve_gradient
        from skhash.losses._likelihoods import LIKELIHOODS
        from skhash.networks._mlp import MLP
        from skhash.neural.autoencoder._module import StochasticAutoencoder

        posterior = resolve_posterior(self.posterior)
        gradients = [resolve_gradient(self.gradient)]
        if correction := resolve_correction(self.correction):
            gradients.append(correction.make_gradient())
        hidden = mlp.check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes")
        sizes = self.decoder_hidden_layer_sizes
        sizes = hidden[::-1] if sizes is None else sizes
        decoder_hidden = mlp.check_layer_sizes(sizes, "decoder_hidden_layer_sizes")
        sizes = [n_features, *hidden, posterior.n_heads(n_bits)]
        return StochasticAutoencoder(
            MLP(sizes, generator, self.dropout),
            MLP([n_bits, *decoder_hidden, n_features], generator),
            LIKELIHOODS[self.decoder](),
            posterior,
            gradients=gradients,
            units=BernoulliUnits(self.noise),
            kl_weight=self.kl_weight,
            encoder_input=self._encoder_input,
            mean=mean,
            scale=scale,
        )

    def _read(self, module, X, run):
        # None replaces what an earlier fit had.
        fitted = dict.fromkeys(("covariance_coef_", "covariance_intercept_", "rho_"))
        fitted["n_steps_"], unit = module.n_steps, np.float32(module.scale)
        values = arrays_of(module)
        coefs = mlp.layers_of(values, "encoder.coefs")
        intercepts = mlp.layers_of(values, "encoder.intercepts")
        coefs[0] = coefs[0] / unit
        if module.posterior.n_heads(1) > 1:
            n_bits = len(module.decoder.coefs[0])
            coefs[-1], fitted["covariance_coef_"] = mlp.split_columns(coefs[-1], n_bits)
            parts = mlp.split_columns(intercepts[-1], n_bits)
            intercepts[-1], fitted["covariance_intercept_"] = parts
        fitted |= {"coefs_": coefs, "intercepts_": intercepts}
        coefs = mlp.layers_of(values, "decoder.coefs")
        intercepts = mlp.layers_of(values, "decoder.intercepts")
        coefs[-1] = coefs[-1] * unit
        if self.decoder == "gaussian":
            intercepts[-1] = np.float32(intercepts[-1] * module.scale + module.mean)
            fitted["rho_"] = float(np.exp(values["likelihood.log_rho"]) * module.scale)
        return fitted | {"decoder_coefs_": coefs, "decoder_intercepts_": intercepts}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.decoder != "gaussian"
        return tags
