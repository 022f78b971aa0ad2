"""Codes learned from the data's own near neighbours."""

import copy
from functools import partial
from numbers import Integral
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy import sparse

from skhash.base import MLPLogitsMixin
from skhash.numerics import _perceptron as mlp
from skhash.numerics._projection import (
    mean_and_scale,
    principal_axes,
    project,
    sample_rows,
)
from skhash.numerics._rotation import gaussian, rotated_axes
from skhash.persistence.schema import TINY, Plain, optional, reals, wholes
from skhash.training import BaseNeuralHasher, arrays_of
from skhash.training._estimator import Optimizer, Schedule
from skhash.utils._sklearn import HasMethods
from skhash.utils.chunks import RowView
from skhash.utils.parameters import (
    ArrayLike,
    Count,
    CountFrom2,
    Metric,
    NotNegative,
    Positive,
    with_parameters,
)
from skhash.utils.targets import partial_labels

# Lengths that nested=True trains, as far as codes are longer.
PREFIXES = [2**i for i in range(3, 64)]
# Steps that max_epochs="auto" aims at, within these numbers of epochs.
AUTO_STEPS, AUTO_EPOCHS = 1500, (20, 100)
# The more rows there are, the less the distances of rows drawn at random tell of those
# that a search is for.
MANY_ROWS = 10_000
# Of more rows a sample is trained on. Reconstruction keeps codes from fitting it alone.
MANY_MORE_ROWS = 60_000
# Units of hidden_layer_sizes="auto", where there are as many rows.
AUTO_UNITS = 512
# Fewest principal axes whose coordinates rows are trained on by.
FEWEST_AXES = 256
# A direction along which data spread less than this share of the most is constant.
SMALLEST_SPREAD = 1e-6


@with_parameters(kw_only=True)
class NeighborHash(MLPLogitsMixin, BaseNeuralHasher):
    r"""Codes learned from nearest neighbours; prefixes of a code are usable codes.

    Training is contrastive: it pairs each vector with one of its nearest neighbours, or
    with labels, with one of its class, and gives the two similar codes. By default it
    also trains shorter lengths, so that you can truncate the codes. The encoder is a
    perceptron with a linear skip connection. The loss is defined in the notes.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code. It may exceed the number of features.
    n_neighbors : int, default=20
        Number of nearest neighbours from which a partner is drawn. Use fewer to search
        for the very nearest, more to retrieve long lists.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        Metric by which neighbours are found. To encode vectors by direction only, set
        `normalize`.
    hidden_layer_sizes : "auto" or sequence of int, default="auto"
        Number of units in each hidden layer. The output of the last layer is added to
        that of a linear encoder. "auto" is one layer with 512 units, or as many as
        there are rows if these are fewer. With ``()`` the encoder is linear: recall is
        lower, but encoding is several times as fast.
    nested : bool or sequence of int, default=True
        Lengths to train in addition to `n_bits`, to which codes can be truncated. True
        is 8, 16, 32, ...; False is none. Lengths in a sequence that are not below
        `n_bits` are ignored.
    temperature : float, default=0.24
        Temperature T in the notes. The lower it is, the more the loss depends on the
        nearest rows of a batch alone.
    gradient : "annealed_tanh", str or LayerwiseGradient, default="annealed_tanh"
        Gradient through the signs: "annealed_tanh" as in the notes, or a layer-wise
        estimator of `skhash.gradients`, as an instance or by name.
    distance_weight, reconstruction_weight : float, default=0.02 and 0.2
        Weights :math:`\delta` and :math:`\rho` in the notes. They matter more for long
        codes. If `X` has more than 10,000 rows, the first is multiplied by ``10,000 /
        n_X``; if it has more than 60,000, the second is multiplied by ``sqrt(n_X /
        60,000)``. Both are 0 with labels, with a given `graph`, and for inner products.
    graph : {"projected", "exact"} or sparse matrix, default="projected"
        Source of the neighbours.

        - "projected" compares all pairs of rows by at most 128 principal components,
          which is much faster for wide rows.
        - "exact" compares all pairs of rows.
        - A sparse matrix is a graph of neighbours, as returned by `kneighbors_graph`.
    max_train_samples : int or None, default=50_000
        Maximum number of rows to train on, drawn at random. Their neighbours are found
        among all rows. None uses all rows, in time that grows with the square of their
        number.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    lr : float, default=0.1
        Step size, in units of the spread of a logit. It depends neither on the scale of
        the data, which are standardised internally, nor on the width of the layers.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default="cosine"
        Schedule by which the step size decreases. None keeps it constant.
    max_epochs : int or "auto", default="auto"
        Number of passes over the training rows. "auto" chooses 20 to 100, aiming at
        about 1500 steps.
    batch_size : int or "auto", default="auto"
        Number of rows per batch, each with its partner. The partners of the other rows
        serve as negatives. "auto" is a sixteenth of all rows, but at least 64 and at
        most 512.
    optimizer : str, torch.optim.Optimizer class or partial of one, default="adamw"
        Optimizer: a class of `torch.optim`, or its name in any case. To set its
        parameters other than the step size, pass a `functools.partial` of the class.
    weight_decay : float, default=0.03
        Weight decay of the optimizer, which helps generalization. Set it to 0 for
        "adam" and other optimizers that add it to the gradient, where the default is
        far too large.
    callbacks : list of skorch callbacks or None, default=None
        Callbacks, such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to hold out for ``valid_loss``, or a skorch splitter. These
        rows are not used for training, not even as partners.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the order of rows and their partners. The same
        seed on the same machine gives the same codes.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    coefs_, intercepts_ : lists of ndarrays, float32
        Weights and intercepts of the layers, of shapes (n_inputs, n_outputs) and
        (n_outputs,).
    skip_coef_ : ndarray of shape (n_features, n_bits), float32, or None
        Weights of the linear skip connection. None if there are no hidden layers.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    scale_ : float
        Square root of the mean variance of the columns; training divides the data by
        it.
    lengths_ : list of int
        Trained lengths in ascending order; `n_bits` is the last.
    axes_ : ndarray of shape (n_axes, n_features), float64
        Principal axes along which training takes the coordinates of rows.
    n_samples_fit_, n_epochs_ : int
        Number of rows of `fit`, or of the first `partial_fit`, and of epochs over which
        the relaxation of the signs becomes steep. Later calls of `partial_fit` use
        both.
    weights_, weight_names_ : list of ndarray, list of str
        State of the trained torch module: its arrays and their names.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        The net that `partial_fit` continues to train; ``net_.module_`` is the torch
        module.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    SGHEncoder : Codes that reconstruct the data, without neighbours.
    HammingNeighbors : Exact search of the codes.

    Notes
    -----
    Each row x_i of a batch has a partner x_i', one of its nearest rows (or, with
    labels, a row of its class). Let s in {-1, +1} be the signs of a row, modelled as
    random in training, and ``<s_i, s_j'> / m`` the agreement of two rows over m bits.
    Training minimizes

    .. math::

        \sum_m - \frac1{2n} \sum_{ij} \Big[ p_{ij} \log q^m_{ij}
        + p'_{ij} \log q'^m_{ij} \Big]
        + \delta m \, (1 - r_m^2)
        + \rho \sqrt m \; \overline{(x - D_m s)^2},

        q^m_{ij} \propto \exp \frac{\langle s_i, s_{j'} \rangle_m}{m \, T_m}, \quad
        T_m = \frac{T}{m^{0.3}}, \qquad
        p_{ij} \propto \exp \Big( - n_X^{0.35} \,
        \frac{d_{ij'}^2}{\overline{d_i^2} - \min d_i^2} \Big)

    The outer sum is over the trained lengths, so that the first m bits are a code for
    each length m (Kusupati et al., 2022). Its three terms are:

    - The cross-entropy between agreement q and nearness p. q and p sum to 1 over the
      partners of a row, q' and p' over the rows of a partner. d is the distance, and
      :math:`n_X` the number of rows of `X`: the more rows there are, the nearer are
      those that a search should find. The sum over i is over the n rows of a batch, and
      the mean and the minimum of d_i^2 are over its partners. With labels, with a given
      `graph` and for inner products, p is instead equal for all known partners. This
      term is stochastic neighbour embedding (Hinton and Roweis, 2002) within a batch. A
      row and its partner are a similar pair of `SGHEncoder`.
    - A penalty that is small if agreement follows distance. r_m is the correlation of
      agreement and distance over the pairs of a batch; a pair at distance d has the
      weight ``exp(-3 d^2 / mean d^2)``.
    - The error of reconstructing rows from codes. D_m is a linear decoder, and the bar
      is the mean over entries of rows, in units of their spread.

    A random sign is +1 with probability ``sigmoid(2 a)`` of its logit a, so that its
    mean is ``tanh(a)``; the code itself takes the sign of a. By default, training
    replaces s by ``tanh(b a)``, with b growing from 1 to 5 over the epochs (Cao et al.,
    2017). Gradients are exact for this relaxation, not for signs. An estimator passed
    as `gradient` works on the signs instead.

    Finding the neighbours takes ``max_train_samples n_samples min(n_features, 128)``
    multiplications, once: two minutes on one core for 50,000 of a million rows.

    `X` may be a memory map, and float16. It is read in chunks: once for checks, once
    for its range, and once for the graph. The mean, the scale, the start and the axes
    of the graph are computed from 20,000 rows. Training uses at most
    ``max_train_samples (n_neighbors + 1)`` rows. Up to 256 MiB of them in float32 are
    kept in memory; more are read batch by batch. Memory therefore grows with the number
    of rows only by some integers per row.

    Training uses the coordinates of rows along at most ``max(256, n_bits)`` principal
    axes, but the encoder uses all columns. It starts from ITQ rotations of the leading
    axes. Scaling or shifting the data changes the codes only through rounding, which
    training amplifies to a few per cent of the bits (for inner products, a shift
    changes more). Sparse rows are never made dense at their full width.

    References
    ----------
    B. Dai, R. Guo, S. Kumar, N. He and L. Song, "Stochastic generative hashing",
    ICML 2017, section E.2.

    Z. Cao, M. Long, J. Wang and P. S. Yu, "HashNet: deep learning to hash by
    continuation", ICCV 2017.

    G. Hinton and S. Roweis, "Stochastic neighbor embedding", NIPS 2002.

    A. Kusupati et al., "Matryoshka representation learning", NeurIPS 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import NeighborHash
    >>> X, y = load_digits(return_X_y=True)
    >>> encoder = NeighborHash(n_bits=32, max_epochs=5, random_state=0).fit(X)
    >>> encoder.transform(X).shape
    (1797, 32)
    >>> short = encoder.truncate(16)
    >>> bool((short.transform(X) == encoder.transform(X)[:, :16]).all())
    True
    """

    n_neighbors: Count = 20
    metric: Metric = "euclidean"
    hidden_layer_sizes: Literal["auto"] | ArrayLike = "auto"
    nested: bool | ArrayLike = True
    temperature: Positive = 0.24
    gradient: str | Annotated[Any, HasMethods(["surrogate"])] = "annealed_tanh"
    distance_weight: NotNegative = 0.02
    reconstruction_weight: NotNegative = 0.2
    graph: Literal["projected", "exact"] | Annotated[Any, "sparse matrix"] = "projected"
    max_train_samples: CountFrom2 | None = 50_000
    lr: Positive = 0.1
    lr_schedule: Schedule = "cosine"
    max_epochs: Count | Literal["auto"] = "auto"
    batch_size: CountFrom2 | Literal["auto"] = "auto"
    optimizer: Optimizer = "adamw"
    weight_decay: NotNegative = 0.03

    _auto_steps, _auto_batch_sizes = 16, (64, 512)

    _saved = {
        "mean_": reals("n_features"),
        "scale_": reals(low=TINY),
        "axes_": reals("n_axes", "n_features"),
        "skip_coef_": optional(reals("n_features", "n_bits")),
        "n_samples_fit_": wholes(low=1),
        "n_epochs_": wholes(low=1),
        "lengths_": Plain(list),
    }

    def fit(self, X, y=None) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row. Memory maps and float16 arrays are read in chunks and
            not copied.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Classes, or a 0/1 indicator matrix of several labels. With labels, partners
            share a label; a row without a label, or the only one with its label, is
            paired with a neighbour instead. Mark unknown classes with -1, or among
            strings with None or "-1".

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, if `y` does not label its rows, if no rows or
            all rows share a label, or if `graph` is for other rows.
        """
        return super().fit(X, y)

    def partial_fit(self, X, y=None) -> Self:
        """Train for one epoch on these rows and a sample of the rows of earlier calls.

        The first call also builds the model from its rows, so pass it a few thousand
        rows drawn at random. Neighbours are found among the given rows and the sample.
        Only the parameters `lr` and `batch_size` may change between calls. `max_epochs`
        is the number of calls over which the relaxation of the signs becomes steep.

        Later calls keep the sample and the state of the optimizer. After `fit`, or if
        the encoder was loaded from a file or copied off an accelerator, both start
        afresh, with the step size `lr`; lower `lr` to change a fitted encoder only
        slightly. Schedules that need a number of epochs, "cosine" and "step", have no
        effect here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels as in `fit`, for all calls or for none. A call may have only unknown
            classes.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is left as it was.

        Raises
        ------
        ValueError
            As in `fit`, or if a parameter changed that was fixed by the first call.
        """
        return super().partial_fit(X, y)

    def truncate(self, n_bits: int):
        """Return an encoder for the first `n_bits` bits of the codes.

        Parameters
        ----------
        n_bits : int
            Length to truncate to, preferably one of ``lengths_``.

        Returns
        -------
        encoder : NeighborHash
            A fitted copy, whose codes are prefixes of this encoder's codes.
        """
        length = self._n_features_out
        if not isinstance(n_bits, Integral):
            raise ValueError(f"n_bits={n_bits!r} must be an integer.")
        if not 1 <= n_bits <= length:
            raise ValueError(f"n_bits={n_bits} must be from 1 to {length}, the length.")
        encoder = copy.copy(self).set_params(n_bits=n_bits)
        vars(encoder).pop("net_", None)
        for name in ("coefs_", "intercepts_"):
            *layers, last = getattr(self, name)
            setattr(encoder, name, [*layers, mlp.split_columns(last, n_bits)[0]])
        if self.skip_coef_ is not None:
            encoder.skip_coef_ = mlp.split_columns(self.skip_coef_, n_bits)[0]
        encoder.lengths_ = [m for m in self.lengths_ if m < n_bits] + [int(n_bits)]
        state = _truncated(self._state(), encoder.lengths_)
        encoder.weights_, encoder.weight_names_ = [*state.values()], [*state]
        return encoder

    def _check_saved(self):
        super()._check_saved()
        n_bits, lengths = self._n_features_out, self.lengths_
        if self.skip_coef_ is not None and self.skip_coef_.shape[1] != n_bits:
            raise ValueError(f"skip_coef_ is not for codes of {n_bits} bits.")
        are_whole = all(type(m) is int and 1 <= m <= n_bits for m in lengths)
        if not are_whole or lengths != sorted({*lengths, n_bits}):
            raise ValueError(f"lengths_ {lengths} do not end with {n_bits} bits.")

    def _logits(self, X):
        logits = super()._logits(X)
        if self.skip_coef_ is None:
            return logits
        none = np.zeros(self.skip_coef_.shape[-1:], dtype=np.float32)
        return logits + mlp.mlp_forward(
            X, [self.skip_coef_], [none], self.mean_, self.device
        )

    def _validate_targets(self, X, y, *, is_part=False):
        return None if y is None else partial_labels(y, is_part=is_part)

    def _prepare_all(self, X):
        # Most rows are only compared with: they are read in chunks where they lie.
        if sparse.issparse(X) or not (self.normalize or X.dtype == np.float16):
            return super()._prepare_all(X)
        return RowView(X, prepare=self._prepare)

    def _build(self, X, targets, run):
        rows = run.trained(np.arange(X.shape[0]))
        n_samples = X.shape[0]
        X = X[np.sort(sample_rows(rows, run.generator))]
        mean, scale = mean_and_scale(X)
        n_axes = min(max(self.n_bits, FEWEST_AXES), *X.shape)
        axes = principal_axes(X, mean, n_axes, run.device, run.generator)
        projected = (project(X, mean, axes, run.device) / scale).cpu()
        lengths = self._lengths()
        start = rotated_axes(projected, lengths, run.generator)
        spread = (projected.numpy() @ start).std(axis=0)
        spread[spread <= SMALLEST_SPREAD * spread.max()] = np.inf
        start = start / spread
        hidden = self.hidden_layer_sizes
        if isinstance(hidden, str):
            hidden = [min(AUTO_UNITS, n_samples)]
        hidden = mlp.check_layer_sizes(hidden, "hidden_layer_sizes")
        sizes = [n_axes, *hidden, self.n_bits]
        coefs, skip = [start], None
        if hidden:
            shapes = zip(sizes[:-1], sizes[1:], strict=True)
            drawn = (gaussian(*shape, run.generator).numpy() for shape in shapes)
            coefs = [values * np.sqrt(2 / len(values)) for values in drawn]
            coefs[-1][:], skip = 0.0, start
        module_of = self._module_of(n_samples, self._n_epochs(n_samples), lengths)
        intercepts = [np.zeros(size) for size in sizes[1:]]
        return module_of(coefs, intercepts, skip, mean=mean, scale=scale, axes=axes)

    def _module(self, run):
        first, *others = self.coefs_
        n_axes, n_bits = len(self.axes_), self._n_features_out
        coefs = [np.zeros((n_axes, first.shape[1])), *others]
        skip = None if self.skip_coef_ is None else np.zeros((n_axes, n_bits))
        sizes = self.n_samples_fit_, self.n_epochs_, self.lengths_
        module_of = self._module_of(*sizes)
        fitted = {"mean": self.mean_, "scale": self.scale_, "axes": self.axes_}
        return module_of(coefs, self.intercepts_, skip, **fitted)

    def _module_of(self, n_samples, n_epochs, lengths):
        """Return a function that makes the module of given weights."""
        from skhash.gradients import require_layerwise, resolve_gradient
        from skhash.neural.neighbor._module import Contrast, NeighborModule
        from skhash.neural.neighbor._rows import NearRows

        gradient = None
        if self.gradient != "annealed_tanh":
            gradient = resolve_gradient(self.gradient)
            gradient = require_layerwise(gradient, type(self).__name__)
        # Rows near by a graph or an inner product need not be near by distance.
        by_distance = isinstance(self.graph, str) and self.metric != "inner_product"
        few = min(1.0, MANY_ROWS / n_samples)
        many = max(1.0, n_samples / MANY_MORE_ROWS) ** 0.5
        contrast = Contrast(
            lengths=lengths,
            temperature=self.temperature,
            n_samples=n_samples,
            by_distance=by_distance,
            distance_weight=self.distance_weight * by_distance * few,
            reconstruction_weight=self.reconstruction_weight * by_distance * many,
            unit_rows=self.metric == "cosine",
            n_epochs=n_epochs,
        )
        source = NearRows(
            self.n_neighbors, self.metric, self.graph, self.max_train_samples
        )
        return partial(
            NeighborModule, contrast=contrast, gradient=gradient, source=source
        )

    def _read(self, module, X, run):
        values = arrays_of(module)
        first, *others = (_as_used(coef) for coef in mlp.layers_of(values, "coefs"))
        skip = values.get("skip_coef")
        return {
            "coefs_": [_of_columns(first, module), *others],
            "intercepts_": mlp.layers_of(values, "intercepts"),
            "skip_coef_": None if skip is None else _of_columns(_as_used(skip), module),
            "n_samples_fit_": module.contrast.n_samples,
            "n_epochs_": module.contrast.n_epochs,
            "lengths_": module.contrast.lengths,
            "axes_": module.axes,
        }

    def _phases(self, n_samples):
        return (self._n_epochs(n_samples),)

    def _n_epochs(self, n_samples) -> int:
        if self.max_epochs != "auto":
            return self.max_epochs
        n_trained = min(n_samples, self.max_train_samples or n_samples)
        n_steps = -(-n_trained // self._resolve_batch_size(n_samples))
        return int(np.clip(round(AUTO_STEPS / n_steps), *AUTO_EPOCHS))

    def _training_batch(self, X, y=None):
        raise TypeError(
            f"The loss of {type(self).__name__} is of rows with partners, so the "
            "gradient of its loss on single rows cannot be measured."
        )

    def _lengths(self):
        nested = self.nested
        if isinstance(nested, bool | np.bool_):
            nested = PREFIXES if nested else []
        if not all(isinstance(m, Integral) for m in nested):
            raise ValueError(f"nested={self.nested!r} must hold integers.")
        lengths = sorted({int(m) for m in nested if m < self.n_bits})
        if lengths and lengths[0] < 1:
            raise ValueError(f"nested={self.nested!r} must hold lengths of at least 1.")
        return [*lengths, int(self.n_bits)]


def _truncated(state, lengths) -> dict:
    """Return the state of a module of the first of its lengths, the last one cut."""
    n_bits, last = lengths[-1], len(mlp.layers_of(state, "coefs")) - 1
    cut = f"coefs.{last}", f"intercepts.{last}", "skip_coef"
    state = {
        name: mlp.split_columns(value, n_bits)[0] if name in cut else value
        for name, value in state.items()
        if name.partition(".")[0] != "decoders"
        or int(name.partition(".")[2]) < len(lengths)
    }
    decoder = f"decoders.{len(lengths) - 1}"
    if decoder in state:
        # Stored larger than used, by the root of the length.
        root = np.float32(np.sqrt(n_bits / len(state[decoder])))
        state[decoder] = state[decoder][:n_bits] * root
    return state


def _of_columns(coef, module):
    """Return weights of the columns of raw rows from those of the projected ones."""
    return (module.axes.T @ coef / module.scale).astype(np.float32)


def _as_used(coef):
    """Return the matrix that the module multiplies by for this parameter."""
    return coef / np.float32(np.sqrt(len(coef)))
