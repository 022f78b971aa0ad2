"""Stochastic Generative Hashing."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from skhash.base import LinearLogitsMixin
from skhash.codes import check_bits
from skhash.linear._decoder import LinearDecoderMixin, decode
from skhash.neural.sgh._pairs import PairsMixin
from skhash.neural.sgh._training import SGHTraining
from skhash.training import TRAINING_CONSTRAINTS
from skhash.utils._sklearn import Interval, StrOptions
from skhash.utils.chunks import dense_rows


class SGHEncoder(PairsMixin, LinearDecoderMixin, LinearLogitsMixin, SGHTraining):
    r"""Stochastic Generative Hashing: the binary code that best regenerates the data.

    Bits h are drawn from q(h|x) with ``P(h_k = 1) = sigmoid(a_k)`` and logits
    ``a = (x - mean) W + b``, and x is modelled as Gaussian around ``alpha + h U`` (Dai
    et al., 2017, equation 2) with a learned codebook U, mean alpha, spread rho and
    prior of the bits. Training minimises the mean over rows of the Helmholtz free
    energy, its second part weighted, plus a penalty on the norms of the codewords:

    .. math::

        E_{q(h|x)} \frac{|x - \alpha - hU|^2}{2\rho^2} + \frac d2 \log 2\pi\rho^2
        + \lambda \, KL(q(h|x) \,\|\, p(h)) + \frac{\mu}{2} |U|_F^2

    with the normaliser of the model kept, which for this decoder is tractable. The code
    of a vector is the likeliest one: bit = 1 where the logit is above 0.

    With ``scale="latent"`` (section E.1 of the supplement) each bit of each row has a
    scale z of its own: x is Gaussian around ``alpha + (h o z) U``. It has the prior
    ``N(1, s^2)``, which the paper leaves out, and the posterior ``q(z|x) = N(m, v)``
    with m linear in x and the best v. The energy is then averaged over z too, and
    ``KL(q(z|x) || p(z))`` is added, unweighted.

    With pairs of rows that are known to be similar (y = 1) or not (section E.2), rows
    are similar with probability ``sigmoid(s t + c)``. The agreement t of two codes is
    the inner product of their bits as -1/+1, whatever `coding`, so that it follows the
    Hamming distance; s and c, which the paper leaves out, are learned. Then

    .. math::

        - \nu \, d \; E_{q(h_i|x_i) \, q(h_j|x_j)}
        \big[ \log p(y_{ij} \,|\, h_i, h_j) \big]

    is added, its mean over pairs, with d the number of features, which the free energy
    grows with.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes; it may be larger than the number of features.
    coding : {"01", "pm1"}, default="01"
        Whether a bit enters the decoder as 0/1 or as -1/+1. The codes that `transform`
        returns are 0/1 either way.
    gradient : {"analytic", "exact", "linear"}, default="analytic"
        How the expectation over bits is differentiated. "analytic" has it in closed
        form: no noise, no bias. "exact" samples bits and takes the distributional
        derivative (equation 8) with exact finite differences: unbiased. "linear" is the
        paper's approximation of that (equation 14 of its supplement): biased, since it
        does not see the variance of the bits. It costs the same as "exact" and is there
        for comparison.
    init : {"auto", "itq", "pca", "random"}, default="auto"
        Where the hash directions start: at rotated principal components (as `ITQHash`),
        at the components, or at random. "auto" tries the first two on a sample of the
        training rows and keeps the one whose codes keep more near neighbours. The
        codebook starts at its least-squares fit.
    scale : {"none", "latent", "feature"}, default="none"
        What the codewords are multiplied by: nothing; a latent scale of each bit and
        row; or one learned positive scale of each column, as in the authors' code,
        which starts at the column's standard deviation. The last is the same model as
        "none" and only changes the way that training takes. With "latent" the codebook
        decodes a code at the prior mean of its scales, 1; see `inverse_transform`.
    scale_std : float, default=0.3
        The prior standard deviation s, with ``scale="latent"``; towards 0 the model is
        that of "none".
    kl_weight : float, default=0.1
        The weight lambda. At 1 the objective is the free energy itself, a bound of the
        log likelihood, whose posterior collapses on data without structure: bits die.
    weight_penalty : float, default=0.0
        The weight mu, on the squared norms of the codewords in units of the data's root
        mean variance.
    refit_decoder : bool, default=True
        Whether `fit` ends with codebook, alpha, rho and prior at their optimum for the
        encoder that was learned, which has a closed form. The codes stay the same. Not
        done with a `scale` or ``fit_mean=False``, nor by `partial_fit`.
    pair_source : {"given", "labels", "neighbors"}, default="given"
        Which pairs to learn from. "given": those that `fit` is given as `pairs`, if
        any. "labels": rows whose class is known from `y`, similar where it is the same.
        "neighbors": each row with its near neighbours, which are similar, and with
        other rows, which are not; this needs no labels.
    n_neighbors : int, default=10
        How many nearest rows are similar, with ``pair_source="neighbors"``. They are
        found for at most 20 000 rows, among all, by at most 128 principal components.
    pair_weight : float, default=10.0
        The weight nu of pairs.
    fit_scale : bool, default=True
        Whether rho is learned; else it stays at its first estimate.
    fit_mean : bool, default=True
        Whether alpha is learned; else it stays at its first estimate.
    fit_prior : bool, default=True
        Whether the prior is learned; else each bit is 1 with probability one half.
    normalize : bool, default=False
        Whether rows are first scaled to unit length, so that the codes follow the
        cosine similarity. It is part of the encoder: raw rows are encoded rightly.
    lr : float, default=0.01
        Step size. It needs no tuning to the unit of the data, which are standardised
        inside by their mean and one common scale.
    lr_schedule : {"inverse_sqrt"} or None, default=None
        How the step size falls: step t is ``lr / sqrt(t)``, as in Theorem 5 of the
        paper, shorter in sum than with None. The count goes on in `partial_fit`; on an
        encoder that was loaded from a file it starts afresh, with the optimizer.
    averaging : {"last", "random", "mean"}, default="last"
        Which of the iterates, the parameters after each step, is the result: the last;
        a random one, each with probability in proportion to its step size, as in
        Theorems 5 and 9 (in 5 for small steps); or the mean under these probabilities.
        `partial_fit` trains on from the last iterate and takes new ones in beside the
        old; on a loaded encoder it starts from the result and takes in new ones only.
    max_epochs : int, default=10
        Number of passes over the data.
    batch_size : int or "auto", default="auto"
        Rows in a batch; "auto" is a hundredth of all, but 32 to 512.
    optimizer : str or torch.optim.Optimizer class, default="adam"
        A class of `torch.optim` or its name in any case.
    callbacks : list of skorch callbacks or None, default=None
        Such as `skorch.callbacks.EarlyStopping`.
    train_split : float, callable or None, default=None
        Share of the rows to compute ``valid_loss`` on, or a skorch splitter. These rows
        take part in nothing else.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Draws the start, the order of rows, the sampled bits and scales and the random
        iterate. The same seed on the same machine gives the same codes.
    verbose : bool or int, default=False
        Whether to print a line each epoch.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        W transposed: one hash direction a row.
    intercept_ : ndarray of shape (n_bits,), float32
        b.
    mean_ : ndarray of shape (n_features,), float64
        The mean of the training data.
    scale_ : float
        Root of the mean variance of the columns, the unit inside.
    codebook_ : ndarray of shape (n_bits, n_features), float32
        What each bit adds to the decoded vector when it is 1: U in the data's unit, or
        2 U for "pm1". The scales of columns are in it; latent ones are taken as 1.
    offset_ : ndarray of shape (n_features,), float32
        What a code of zeros decodes to: alpha in the data's unit, or alpha less the sum
        of the codewords for "pm1".
    prior_logits_ : ndarray of shape (n_bits,), float32
        Log-odds of the prior of each bit.
    rho_ : float
        The learned spread, in the data's unit.
    feature_scale_ : ndarray of shape (n_features,), float32
        The learned scale of each column, in the data's unit (``scale="feature"`` only).
    scale_components_ : ndarray of shape (n_bits, n_features), float32
    scale_intercept_ : ndarray of shape (n_bits,), float32
        The mean of q(z|x) is ``1 + scale_components_ (x - mean_) + scale_intercept_``
        (``scale="latent"`` only).
    pair_scale_, pair_offset_ : float or None
        The learned s and c; None without pairs.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `train_split`,
        ``valid_loss`` of each epoch. Losses are per row of standardised data, at the
        iterates that they were met at.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        What `partial_fit` goes on from; ``net_.module_`` is the torch module.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    StochasticAutoencoderHash : The same with other decoders, where it has no hidden
        layers.
    ITQHash : A rotation of principal components, without training.
    HammingNeighbors : Searches the codes.

    Notes
    -----
    Multiplying or shifting the data changes the codes only by rounding. Sparse rows are
    made dense one batch at a time.

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

    _parameter_constraints: dict = {
        "n_bits": [Interval(Integral, 1, None, closed="left")],
        "coding": [StrOptions({"01", "pm1"})],
        "gradient": [StrOptions({"analytic", "exact", "linear"})],
        "init": [StrOptions({"auto", "itq", "pca", "random"})],
        "scale": [StrOptions({"none", "latent", "feature"})],
        "scale_std": [Interval(Real, 0, None, closed="neither")],
        "kl_weight": [Interval(Real, 0, None, closed="left")],
        "weight_penalty": [Interval(Real, 0, None, closed="left")],
        "refit_decoder": ["boolean"],
        "pair_source": [StrOptions({"given", "labels", "neighbors"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "pair_weight": [Interval(Real, 0, None, closed="left")],
        "fit_scale": ["boolean"],
        "fit_mean": ["boolean"],
        "fit_prior": ["boolean"],
        "lr_schedule": [StrOptions({"inverse_sqrt"}), None],
        "averaging": [StrOptions({"last", "random", "mean"})],
        **TRAINING_CONSTRAINTS,
    }

    def __init__(
        self,
        n_bits=64,
        *,
        coding="01",
        gradient="analytic",
        init="auto",
        scale="none",
        scale_std=0.3,
        kl_weight=0.1,
        weight_penalty=0.0,
        refit_decoder=True,
        pair_source="given",
        n_neighbors=10,
        pair_weight=10.0,
        fit_scale=True,
        fit_mean=True,
        fit_prior=True,
        normalize=False,
        lr=0.01,
        lr_schedule=None,
        averaging="last",
        max_epochs=10,
        batch_size="auto",
        optimizer="adam",
        callbacks=None,
        train_split=None,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.n_bits = n_bits
        self.coding = coding
        self.gradient = gradient
        self.init = init
        self.scale = scale
        self.scale_std = scale_std
        self.kl_weight = kl_weight
        self.weight_penalty = weight_penalty
        self.refit_decoder = refit_decoder
        self.pair_source = pair_source
        self.n_neighbors = n_neighbors
        self.pair_weight = pair_weight
        self.fit_scale = fit_scale
        self.fit_mean = fit_mean
        self.fit_prior = fit_prior
        self.normalize = normalize
        self.lr = lr
        self.lr_schedule = lr_schedule
        self.averaging = averaging
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.callbacks = callbacks
        self.train_split = train_split
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def inverse_transform(self, X, scales=None) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.
        scales : array-like of shape (n_samples, n_bits) or None, default=None
            Latent scales to decode with, such as those of `latent_scales`; None is
            their prior mean, 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float32
            The mean of the decoder.
        """
        if scales is None:
            return super().inverse_transform(X)
        check_is_fitted(self)
        bits = check_bits(X)
        self._check_code_length(bits)
        scales = check_array(scales, dtype=np.float32, input_name="scales")
        if scales.shape != bits.shape:
            raise ValueError(
                f"scales has shape {scales.shape}, but the bits have {bits.shape}; "
                "give one scale for each bit."
            )
        low, step = self._code_values()
        values = ((low + step * bits) * scales - low) / step
        return decode(values, self.codebook_, self.offset_)

    @available_if(lambda self: self.scale == "latent")
    def latent_scales(self, X) -> np.ndarray:
        """Return the posterior mean of the scale of each bit, with ``scale="latent"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scales : ndarray of shape (n_samples, n_bits), float32
            The prior mean is 1.
        """
        X = self._validate_fitted(X)
        scales = np.empty((X.shape[0], self._n_features_out), dtype=np.float32)
        for rows, chunk in self._chunks(X):
            centered = dense_rows(chunk) - self.mean_
            scales[rows] = centered @ self.scale_components_.T
        return scales + (1 + self.scale_intercept_)

    def free_energy(self, X) -> np.ndarray:
        """Return the Helmholtz free energy of each row, an upper bound of -log p(x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        energy : ndarray of shape (n_samples,), float64
            In nats, with the full KL term whatever `kl_weight`, in closed form.
        """
        import torch

        X = self._validate_fitted(X)
        module = self._restore_module().double()
        module.gradient, module.kl_weight = "analytic", 1.0
        energy = np.empty(X.shape[0])
        with torch.inference_mode():
            for rows, chunk in self._chunks(X):
                standard = (dense_rows(chunk) - self.mean_) / self.scale_
                standard = torch.from_numpy(standard)
                energy[rows] = module.free_energy(module(standard), standard).numpy()
        return energy + self.n_features_in_ * np.log(self.scale_)
