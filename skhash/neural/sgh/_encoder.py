"""Stochastic Generative Hashing."""

from typing import Literal, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skhash.base import LinearLogitsMixin
from skhash.codes import CODINGS, check_codes_of
from skhash.neural.sgh._parts import (
    LatentScale,
    PairSource,
    resolve_latent_scale,
    resolve_pairs,
)
from skhash.neural.sgh._start import closed_form_decoder, sgh_start, starting_directions
from skhash.numerics._decoder import sum_of_entries
from skhash.numerics._projection import mean_and_scale, sample_rows
from skhash.persistence.schema import TINY, optional, reals
from skhash.quantization._codebook import LinearDecoderMixin
from skhash.training import BaseNeuralHasher, arrays_of
from skhash.utils.arrays import check_array
from skhash.utils.chunks import dense_rows
from skhash.utils.lazy import torch
from skhash.utils.parameters import Count, NotNegative, Positive, with_parameters
from skhash.utils.torch import torch_as_imported


@with_parameters(kw_only=True)
class SGHEncoder(LinearDecoderMixin, LinearLogitsMixin, BaseNeuralHasher):
    r"""Stochastic Generative Hashing: codes from which the data can be reconstructed.

    The encoder is linear, and training fits a linear decoder with it, so that the codes
    also suit asymmetric search. Pairs of similar and dissimilar rows, labels or
    neighbours can guide the training. The model is defined in the notes.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code. It may exceed the number of features.
    coding : {"01", "pm1"}, default="01"
        Whether the decoder sees bits as 0/1 or as -1/+1. `transform` returns 0/1 either
        way.
    gradient : {"analytic", "exact", "linear"}, default="analytic"
        Gradient of the expectation over bits.

        - "analytic" has a closed form, without noise or bias.
        - "exact" samples bits and uses the distributional derivative (equation 8) with
          exact finite differences. It is unbiased.
        - "linear" is the paper's approximation of "exact" (equation 14 of its
          supplement). It is biased, because it ignores the variance of the bits, costs
          the same as "exact", and is there only for comparison.
    init : {"auto", "itq", "pca", "random"}, default="auto"
        Initial hash directions. The codebook starts at its least-squares fit.

        - "itq": rotated principal components, as in `ITQHash`.
        - "pca": the principal components.
        - "random": random directions.
        - "auto": "itq" or "pca", whichever keeps more near neighbours on a sample of
          the training rows.
    latent_scale : LatentScale or None, default=None
        Latent scale of each bit and row, which multiplies the codewords, such as
        ``LatentScale()``. None: no latent scale.
    kl_weight : float, default=0.1
        Weight lambda of the divergence from the prior. At 1 the objective is the free
        energy, a bound on the log likelihood; on data without structure its posterior
        then collapses, which makes some bits constant.
    weight_penalty : float, default=0.0
        Weight mu of the squared norms of the codewords, in units of ``scale_``.
    pairs : {"given", "labels", "neighbors"} or PairSource, default="given"
        Pairs of rows to learn from.

        - "given": pairs passed to `fit`, if any; see `GivenPairs`.
        - "labels": rows with known classes; see `LabelPairs`.
        - "neighbors": near neighbours; see `NeighborPairs`.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    lr : float, default=0.01
        Step size. It does not depend on the scale of the data, which are standardized
        internally by their mean and one common scale.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default=None
        Schedule by which the step size decreases; "inverse_sqrt" is that of Theorem 5
        of the paper. None keeps it constant. Schedule and optimizer restart after
        loading from a file.
    max_epochs : int, default=10
        Number of passes over the data.
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
        rows are not used for training, not even in pairs.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial parameters, the order of rows, and the sampled bits and
        scales. The same seed on the same machine gives the same codes.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        Hash directions, one per row: W transposed.
    intercept_ : ndarray of shape (n_bits,), float32
        Intercepts b of the logits.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    scale_ : float
        Square root of the mean variance of the columns; training divides the data by
        it.
    codebook_ : ndarray of shape (n_bits, n_features), float32
        Vector that each bit of value 1 adds, in units of the data: U, or 2 U for "pm1".
        Latent scales are taken as 1.
    offset_ : ndarray of shape (n_features,), float64
        Decoded vector of the code of all zeros, in units of the data: alpha, or for
        "pm1" alpha minus the sum of the codewords.
    prior_logits_ : ndarray of shape (n_bits,), float32
        Log odds of the prior of each bit.
    rho_ : float
        Learned spread of the model, in units of the data.
    latent_scale_components_ : ndarray of shape (n_bits, n_features), float32
    latent_scale_intercept_ : ndarray of shape (n_bits,), float32
        Weights of the latent scales: the mean of q(z|x) is ``1 +
        latent_scale_components_ (x - mean_) + latent_scale_intercept_``. None without
        `LatentScale`.
    pair_scale_, pair_offset_ : float or None
        Learned s and c of the pair model; None without pairs.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch. Losses are per row of standardized data, computed
        during the epoch.
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
    StochasticAutoencoderHash : Autoencoders with hidden layers and other decoders.
    ITQHash : A rotation of principal components, which is much faster to fit.
    HammingNeighbors : Exact search of the codes.

    Notes
    -----
    Bits h are drawn from q(h|x) with ``P(h_k = 1) = sigmoid(a_k)`` and logits
    ``a = (x - mean) W + b``. A row x is modelled as Gaussian around ``alpha + h U``
    (Dai et al., 2017, equation 2), with a learned codebook U, mean alpha, spread rho
    and prior of the bits. With d features, training minimizes the mean over rows of the
    Helmholtz free energy, with its second part weighted, plus a penalty on the norms of
    the codewords:

    .. math::

        E_{q(h|x)} \frac{|x - \alpha - hU|^2}{2\rho^2} + \frac d2 \log 2\pi\rho^2
        + \lambda \, KL(q(h|x) \,\|\, p(h)) + \frac{\mu}{2} |U|_F^2

    The normalizer of the model is kept; for this decoder it is tractable. The code of a
    vector is the most likely one: a bit is 1 if its logit is above 0. Without a latent
    scale, `fit` finally sets codebook, alpha, rho and prior to their optimum for the
    learned W and b, in closed form; `partial_fit` does not. The result is the last
    iterate: the random iterate of Theorems 5 and 9 of the paper, and the mean of the
    iterates, gained nothing in our measurements.

    With `LatentScale` (section E.1 of the supplement), each bit of each row has a scale
    z. The energy is then averaged over z too, and ``KL(q(z|x) || p(z))`` is added,
    unweighted.

    Pairs of rows can be known to be similar (y = 1) or dissimilar (section E.2). The
    model then is that rows are similar with probability ``sigmoid(s t + c)``. The
    agreement t of two codes is the inner product of their bits as -1/+1, whatever
    `coding`, so that it follows the Hamming distance; s and c, which the paper leaves
    out, are learned. Then

    .. math::

        - \nu \, d \; E_{q(h_i|x_i) \, q(h_j|x_j)}
        \big[ \log p(y_{ij} \,|\, h_i, h_j) \big]

    is added, as a mean over pairs. d is the number of features, to which the free
    energy is proportional. In the mean of `NeighborPairs`, all dissimilar pairs
    together have 30 times the weight of all similar ones.

    Scaling or shifting the data changes the codes only through rounding. Sparse rows
    are made dense one batch at a time.

    References
    ----------
    B. Dai, R. Guo, S. Kumar, N. He and L. Song, "Stochastic generative hashing",
    ICML 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = SGHEncoder(n_bits=32, random_state=0).fit(X)
    >>> bits = encoder.transform(X)
    >>> bits.shape, bits.dtype
    ((1797, 32), dtype('uint8'))
    >>> encoder.inverse_transform(bits).shape
    (1797, 64)
    """

    coding: Literal["01", "pm1"] = "01"
    gradient: Literal["analytic", "exact", "linear"] = "analytic"
    init: Literal["auto", "itq", "pca", "random"] = "auto"
    latent_scale: LatentScale | None = None
    kl_weight: NotNegative = 0.1
    weight_penalty: NotNegative = 0.0
    pairs: Literal["given", "labels", "neighbors"] | PairSource = "given"
    lr: Positive = 0.01
    max_epochs: Count = 10

    _saved = {
        "scale_": reals(low=TINY),
        "prior_logits_": reals("n_bits"),
        "rho_": reals(low=TINY),
        "pair_scale_": optional(reals()),
        "pair_offset_": optional(reals()),
        "latent_scale_components_": optional(reals("n_bits", "n_features")),
        "latent_scale_intercept_": optional(reals("n_bits")),
    }

    def fit(self, X, y=None, *, pairs=None, pair_labels=None, ids=None) -> Self:
        """Learn the hash functions.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,), default=None
            Classes for `LabelPairs`, otherwise not used. Mark unknown classes with -1,
            or among strings with None or "-1".
        pairs : array-like of shape (n_pairs, 2), int or str, default=None
            Ids of rows that are known to be similar or dissimilar, for `GivenPairs`.
            Pairs with a row that is not in `X`, as in a fold of cross-validation, are
            left out.
        pair_labels : array-like of shape (n_pairs,), default=None
            For each pair, 1 if its rows are similar and 0 if not.
        ids : array-like of shape (n_samples,), int or str, default=None
            Unique ids of the rows, to which `pairs` refer.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity; if `y`, `pairs`, `pair_labels` and `ids` do
            not fit `X` or each other; or if no pair is left, or no rows or all rows
            share a label.
        """
        return self._fit(X, y, pairs=pairs, pair_labels=pair_labels, ids=ids)

    def partial_fit(self, X, y=None, *, pairs=None, pair_labels=None, ids=None) -> Self:
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model from its rows, so pass it a few thousand
        rows drawn at random. Only the parameters `lr` and `batch_size` may change
        between calls; `max_epochs` is not used. Each call draws new pairs.

        Later calls keep the state of the optimizer. After `fit`, or if the encoder was
        loaded from a file or copied off an accelerator, it starts afresh with the step
        size `lr`; lower `lr` to change a fitted encoder only slightly. Schedules that
        need a number of epochs, "cosine" and "step", have no effect here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,), default=None
            Classes as in `fit`; a call may have only unknown classes.
        pairs : array-like of shape (n_pairs, 2), int or str, default=None
            Pairs as in `fit`, among the rows of this call, as are the neighbours of
            `NeighborPairs`. If any call has pairs, the first call must have some too.
        pair_labels : array-like of shape (n_pairs,), default=None
            As in `fit`.
        ids : array-like of shape (n_samples,), int or str, default=None
            As in `fit`.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is left as it was.

        Raises
        ------
        ValueError
            As in `fit`, or if a parameter changed that was fixed by the first call.
        """
        known = {"pairs": pairs, "pair_labels": pair_labels, "ids": ids}
        return self._partial_fit(X, y, **known)

    def inverse_transform(self, X, scales=None) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.
        scales : array-like of shape (n_samples, n_bits) or None, default=None
            Latent scales to decode with, such as those of `latent_scales`. None uses
            their prior mean, 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
            Mean of the decoder's distribution.
        """
        if scales is None:
            return super().inverse_transform(X)
        bits = check_codes_of(self, X, self._n_features_out)
        scales = check_array(scales, dtype=np.float32, input_name="scales")
        if scales.shape != bits.shape:
            raise ValueError(
                f"scales has shape {scales.shape}, but the bits have {bits.shape}; "
                "give one scale for each bit."
            )
        low, step = CODINGS[self.coding]
        values = ((low + step * bits) * scales - low) / step
        return sum_of_entries(values, self.codebook_, self.offset_)

    @available_if(lambda self: self.latent_scale is not None)
    def latent_scales(self, X) -> np.ndarray:
        """Return the posterior mean of each bit's latent scale, with `LatentScale`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        scales : ndarray of shape (n_samples, n_bits), float32
            Posterior means; the prior mean is 1.
        """

        def slopes(chunk):
            centered = dense_rows(chunk) - self.mean_
            return (centered @ self.latent_scale_components_.T).astype(np.float32)

        return self._by_chunks(X, slopes) + (1 + self.latent_scale_intercept_)

    @torch_as_imported()
    def free_energy(self, X) -> np.ndarray:
        """Return the Helmholtz free energy of each row, an upper bound of -log p(x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        energy : ndarray of shape (n_samples,), float64
            Free energies in nats, in closed form, with the full KL term whatever
            `kl_weight` is.
        """
        check_is_fitted(self)
        module = self._restored().double()

        @torch.inference_mode()
        def energy(chunk):
            rows = torch.from_numpy((dense_rows(chunk) - self.mean_) / self.scale_)
            return module.free_energy(module(rows), rows).numpy()

        return self._by_chunks(X, energy) + self.n_features_in_ * np.log(self.scale_)

    def _check_saved(self):
        needed = ["pair_scale_", "pair_offset_"]
        if self.pair_scale_ is self.pair_offset_ is None:
            needed = []
        if self.latent_scale is not None:
            needed += ["latent_scale_components_", "latent_scale_intercept_"]
        missing = [name for name in needed if getattr(self, name, None) is None]
        if missing:
            raise ValueError(f"The fitted attributes {missing} are missing.")

    def _validate_targets(self, X, y, *, pairs, pair_labels, ids, is_part=False):
        if (pairs is None) != (pair_labels is None):
            raise ValueError("pairs and pair_labels go together; pass both or neither.")
        source = resolve_pairs(self.pairs)
        return source, source.read(y, pairs, pair_labels, ids, is_part)

    def _build(self, X, targets, run):
        X = run.trained(X)
        mean, scale = mean_and_scale(X)
        sample = sample_rows(X, run.generator)
        directions = starting_directions(
            sample, mean, self.n_bits, self.init, run.device, run.generator
        )
        start = sgh_start(X, mean, scale, directions, self.coding, run.device)
        source, known = targets
        has_pairs = known is not None or source.is_always_learned
        return self._module_of(start, mean, scale, has_pairs, run)

    def _module(self, run):
        n_bits, n_features = self.components_.shape
        shapes = {
            "weight": (n_features, n_bits),
            "bias": n_bits,
            "codebook": (n_bits, n_features),
            "offset": n_features,
            "prior_logits": n_bits,
            "log_rho": (),
        }
        start = {name: np.zeros(shape) for name, shape in shapes.items()}
        has_pairs = self.pair_scale_ is not None
        return self._module_of(start, self.mean_, self.scale_, has_pairs, run)

    def _module_of(self, start, mean, scale, has_pairs, run):
        from skhash.neural.sgh._module import PairLikelihood, SGHModule

        latent = resolve_latent_scale(self.latent_scale)
        return SGHModule(
            start,
            mean=mean,
            scale=scale,
            scale_std=latent and latent.std,
            pairs=PairLikelihood(len(start["bias"])) if has_pairs else None,
            coding=self.coding,
            gradient=self.gradient,
            kl_weight=self.kl_weight,
            weight_penalty=self.weight_penalty,
        )

    def _refit_decoder(self, module, X, device):
        """Set decoder and prior to their optimum for the learned encoder."""
        result = module.learned()
        penalty = self.weight_penalty * float(torch.exp(2 * result["log_rho"]))
        unit = module.mean, module.scale
        encoder = (result[name].cpu().numpy() for name in ("weight", "bias"))
        decoder = closed_form_decoder(X, *unit, *encoder, self.coding, device, penalty)
        for name, value in decoder.items():
            result[name].copy_(torch.from_numpy(np.asarray(value, dtype=np.float32)))

    def _read(self, module, X, run):
        if self.latent_scale is None and run.phases is not None:
            self._refit_decoder(module, run.trained(X), run.device)
        values, mean, unit = arrays_of(module), module.mean, np.float32(module.scale)
        low, step = CODINGS[self.coding]
        # None replaces what an earlier fit had.
        fitted = dict.fromkeys(("latent_scale_components_", "latent_scale_intercept_"))
        codebook = values["codebook"]
        offset = values["offset"] + low * codebook.sum(axis=0)
        if module.scale_std is not None:
            std = np.float32(module.scale_std)
            weight = np.ascontiguousarray(values["scale_weight"].T)
            fitted["latent_scale_components_"] = weight * (std / unit)
            fitted["latent_scale_intercept_"] = values["scale_bias"] * std
        return fitted | {
            "components_": np.ascontiguousarray(values["weight"].T) / unit,
            "intercept_": values["bias"],
            "codebook_": codebook * np.float32(step * module.scale),
            "offset_": mean + module.scale * offset,
            "prior_logits_": values["prior_logits"],
            "rho_": float(np.exp(values["log_rho"]) * module.scale),
            "pair_scale_": _number(values, "pairs.scale"),
            "pair_offset_": _number(values, "pairs.offset"),
        }


def _number(values, name) -> float | None:
    return float(values[name]) if name in values else None
