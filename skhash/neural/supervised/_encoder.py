"""Codes learned from labels: by any loss of supervised hashing, and by DualHash."""

import copy
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from skhash.base import MLPLogitsMixin
from skhash.metrics import class_distances
from skhash.numerics._perceptron import check_layer_sizes
from skhash.numerics._projection import mean_and_scale
from skhash.persistence import schema
from skhash.training import BaseNeuralHasher
from skhash.training._estimator import Optimizer
from skhash.utils._sklearn import HasMethods
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule, torch
from skhash.utils.parameters import (
    ArrayLike,
    Count,
    CountFrom2,
    NotNegative,
    Positive,
    ShareBelow1,
    with_parameters,
)
from skhash.utils.targets import check_shared, encoded_targets
from skhash.utils.torch import inference_device, seeded_globals

_networks = LateModule("skhash.neural.supervised._module")

# Rows that a user's network encodes at once.
ENCODED_ROWS = 256


@with_parameters(kw_only=True)
class SupervisedHash(MLPLogitsMixin, BaseNeuralHasher):
    """Codes learned from labels, with any supervised hashing loss.

    Rows that share a label get codes with small Hamming distances. A network maps rows
    to logits, and training minimizes a loss of the logits and labels of each batch. The
    losses of `skhash.losses` are those of deep hashing.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    loss : str or SupervisedLoss, default="contrastive"
        Loss: an instance of a class of `skhash.losses`, or a name, which stands for the
        class with its default parameters: "contrastive", "cross_entropy", "csq", "dhn",
        "dsdh", "dsh", "dtsh", "dualhash", "hashnet", "mdshc" or "orthohash". Set
        parameters of an instance as ``loss__quantization_weight``.
    module : callable or None, default=None
        Factory ``(n_features, n_bits) -> torch.nn.Module`` of the network, such as a
        function or a class. None is a perceptron.
    hidden_layer_sizes : sequence of int, default=(512,)
        Number of units in each hidden layer of the perceptron; every layer has batch
        normalization and ReLU.
    dropout : float, default=0.0
        Dropout probability of the perceptron's hidden units.
    balanced : bool, default=True
        Whether to batch-normalize the perceptron's logits, so that bits are nearly
        balanced.
    input_shape : sequence of int or None, default=None
        Shape to which each row is reshaped for `module`, such as ``(1, 28, 28)``. None
        leaves rows as they are.
    weight_decay : float, default=5e-4
        Weight decay of the optimizer.
    normalize : bool, default=False
        Whether to scale vectors to unit length first. `transform` does the same.
    lr : float, default=1e-3
        Step size of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default=None
        Schedule by which the step size decreases. None keeps it constant.
    max_epochs : int, default=30
        Number of passes over the data.
    batch_size : int or "auto", default=128
        Number of rows per batch. Losses of pairs see only pairs within a batch. "auto"
        is a hundredth of all rows, but at least 32 and at most 512.
    optimizer : str, torch.optim.Optimizer class or partial of one, default="adamw"
        Optimizer: `skhash.training.Storm`, a class of `torch.optim`, or its name in any
        case. To set its parameters other than the step size, pass a `functools.partial`
        of the class.
    callbacks : list of skorch callbacks or None, default=None
        Callbacks, such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to hold out for ``valid_loss``, or a skorch splitter.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the order of rows, dropout and the draws of the
        loss.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes, or the column numbers of several labels.
    coefs_, intercepts_ : lists of ndarrays, float32, or None
        Weights and intercepts of the perceptron's layers, with batch normalization
        folded in, of shapes (n_inputs, n_outputs) and (n_outputs,). None with `module`.
    weights_, weight_names_ : list of ndarrays, list of str
        State of the trained torch network: its arrays and their names.
    mean_ : ndarray of shape (n_features,)
        Mean of the training data.
    scale_ : float
        Square root of the mean variance of the columns; training divides the data by
        it.
    quantization_error_ : float
        Mean of ``(|tanh(logit)| - 1)^2`` on all rows of `fit`.
    intra_distance_, inter_distance_ : float
        Mean Hamming distance of rows of `fit` that share a label, and of those that do
        not.
    separability_ : float
        ``inter_distance_ - intra_distance_``.
    n_bits_, input_shape_ : int, list of int or None
        Those of the fit.
    dual_active_fraction_ : float or None
        As in `DualHashEncoder`, for `skhash.losses.DualHashLoss`; None for others.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        The net as trained. ``net_.module_`` is the torch module, whose ``objective`` is
        that of the loss.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    DualHashEncoder : The same with the loss of DualHash, and batches that grow with X.
    NeighborHash : Codes learned from neighbours, optionally with labels.
    HammingNeighbors : Exact search of the codes.

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.datasets import load_digits_retrieval
    >>> from skhash.metrics import mean_average_precision_score
    >>> data = load_digits_retrieval()
    >>> encoder = SupervisedHash(n_bits=16, loss="csq", max_epochs=5, random_state=0)
    >>> encoder = encoder.fit(data.train, data.train_labels)
    >>> encoder.transform(data.query).shape
    (297, 16)
    """

    loss: str | Annotated[Any, HasMethods(["objective"])] = "contrastive"
    module: Callable | None = None
    hidden_layer_sizes: ArrayLike = (512,)
    dropout: ShareBelow1 = 0.0
    balanced: bool = True
    input_shape: ArrayLike | None = None
    weight_decay: NotNegative = 0.0005
    lr: Positive = 0.001
    max_epochs: Count = 30
    batch_size: CountFrom2 | Literal["auto"] = 128
    optimizer: Optimizer = "adamw"

    _saved = {
        "classes_": schema.labels("n_classes"),
        "input_shape_": schema.optional(schema.Plain(list)),
        "scale_": schema.reals(low=schema.TINY),
        "n_bits_": schema.wholes(low=1),
        "coefs_": schema.optional(schema.Group(list)),
        "intercepts_": schema.optional(schema.Group(list)),
        "quantization_error_": schema.Plain(float),
        "intra_distance_": schema.Plain(float),
        "inter_distance_": schema.Plain(float),
        "separability_": schema.Plain(float),
        "dual_active_fraction_": schema.optional(schema.Plain(float)),
    }
    _goes_on = False

    def fit(self, X, y=None) -> Self:
        """Learn the hash functions.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes of any type, or a 0/1 indicator matrix of several labels.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        TypeError
            If `module` is a torch module instead of a factory.
        ValueError
            If `X` holds NaN or infinity, if `y` does not label its rows or has only one
            class, or if the network of `module` does not return `n_bits` outputs.
        """
        return self._fit(X, y)

    def _validate_targets(self, X, y):
        """Return targets as columns of int64 and set ``classes_``."""
        self.classes_, codes = encoded_targets(y, self)
        check_shared(codes)
        check_consistent_length(X, codes)
        return codes

    def _build(self, X, targets, run):
        from skhash.losses import make_loss
        from skhash.losses._objective import Training

        self._set_input_shape()
        seed = int(torch.randint(2**31, (), generator=run.generator))
        mean, scale = mean_and_scale(run.trained(X))
        with seeded_globals(seed):
            encoder = self._new_encoder(self.n_bits)
            _networks.check_outputs(encoder, self.n_features_in_, self.n_bits)
            training = Training(
                n_bits=int(self.n_bits),
                labels=torch.from_numpy(targets),
                n_classes=len(self.classes_),
                encoder=encoder,
                generator=run.generator,
            )
            objective = make_loss(self.loss).objective(training)
        return _networks.SupervisedModule(encoder, mean, scale, objective)

    def _set_input_shape(self):
        shape = self.input_shape
        self.input_shape_ = None if shape is None else [int(size) for size in shape]
        if shape is not None and np.prod(shape) != self.n_features_in_:
            raise ValueError(
                f"input_shape={shape} has {np.prod(shape)} values, but X has "
                f"{self.n_features_in_} columns; the two numbers must be equal."
            )

    def _new_encoder(self, n_bits):
        n_features = int(self.n_features_in_)
        if self.module is None:
            hidden = check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes")
            sizes = [n_features, *hidden, int(n_bits)]
            return _networks.hashing_perceptron(sizes, self.dropout, self.balanced)
        if isinstance(self.module, torch.nn.Module):
            raise TypeError(
                f"module={type(self.module).__name__}(...) is a module; pass a factory "
                "(n_features, n_bits) -> torch.nn.Module, such as a function or a "
                "class, so that every fit starts from new weights."
            )
        encoder = self.module(n_features, int(n_bits))
        if self.input_shape_ is None:
            return encoder
        unflatten = torch.nn.Unflatten(1, tuple(self.input_shape_))
        return torch.nn.Sequential(unflatten, encoder)

    def _module(self, run):
        if self.coefs_ is None and self.module is None:
            raise ValueError(
                "The network was not saved. Set the parameter module to the factory "
                "that this encoder was fitted with."
            )
        with seeded_globals(0):
            encoder = self._new_encoder(self.n_bits_)
        return _networks.SupervisedModule(encoder, self.mean_, self.scale_)

    def _read(self, module, X, run):
        coefs = intercepts = None
        if self.module is None:
            coefs, intercepts = _networks.folded_layers(module.encoder)
            coefs[0] = coefs[0] / np.float32(module.scale)
        return {"n_bits_": int(self.n_bits), "coefs_": coefs, "intercepts_": intercepts}

    def _optimizer(self, module):
        from skhash.training import Storm

        kind, params = super()._optimizer(module, {"storm": Storm})
        return kind, params | ({"shadow": module.shadow} if kind is Storm else {})

    def _fit_codes(self, X, y, random_state):
        super()._fit_codes(X, y, random_state)
        self.dual_active_fraction_ = None  # of an earlier fit, perhaps
        vars(self).update(self.net_.module_.objective.results())
        bits = np.empty((X.shape[0], self.n_bits_), dtype=np.uint8)
        error = 0.0
        for rows in row_chunks(X.shape[0], 12 * X.shape[1] + 4 * self.n_bits_):
            logits = self._logits(X[rows])
            bits[rows] = logits > 0
            error += float(np.square(np.abs(np.tanh(logits)) - 1).sum())
        self.quantization_error_ = error / bits.size
        labels = y[:, 0] if y.shape[1] == 1 else y
        self.intra_distance_, self.inter_distance_ = class_distances(bits, labels)
        self.separability_ = self.inter_distance_ - self.intra_distance_

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return self.n_bits_

    def _check_saved(self):
        shape = self.input_shape_
        shape = [self.n_features_in_] if shape is None else shape
        if {*map(type, shape)} != {int} or math.prod(shape) != self.n_features_in_:
            raise ValueError(f"input_shape_ {shape} is not that of a row.")
        if self.coefs_ is None:  # the user's network, which may end in any way
            n_bits = min(self.n_bits_, sum(map(np.size, self.weights_)))
        else:
            super()._check_saved()
            n_bits = self.coefs_[-1].shape[1]
        if n_bits != self.n_bits_:
            raise ValueError(f"n_bits_={self.n_bits_} is not that of the weights.")

    @property
    def _rowwise(self):
        return self.coefs_ is not None

    def _logits(self, X):
        return super()._logits(X) if self._rowwise else self._run_module(X)

    def _run_module(self, X):
        """Return the logits of a user's network."""
        from skhash.training._net import whole_batch

        device = torch.device(inference_device(self.device))
        module = self.net_.module_ if hasattr(self, "net_") else self._restored()
        if next(module.parameters()).device.type != device.type:
            module = copy.deepcopy(module).to(device)
        module.eval()
        logits = []
        with torch.inference_mode():
            for i in range(0, X.shape[0], ENCODED_ROWS):
                chunk = whole_batch(module, X[i : i + ENCODED_ROWS]).X
                logits.append(module(chunk.to(device)).float().cpu().numpy())
        return np.concatenate(logits)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@with_parameters(kw_only=True)
class DualHashEncoder(SupervisedHash):
    """Codes learned from labels, with the loss of DualHash.

    The loss of DualHash (2025) makes codes of rows that share a label similar, and
    pulls the outputs of the network to -1 and +1. Batches grow with the data. See
    `skhash.losses.DualHashLoss` for the optimization problem and its solvers.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    loss : str or SupervisedLoss, default="dualhash"
        Loss. "dualhash" is `skhash.losses.DualHashLoss` with its defaults. Set
        parameters of an instance as ``loss__w_weight`` and ``loss__solver__u_step``.
    module : callable or None, default=None
        Factory ``(n_features, n_bits) -> torch.nn.Module`` of the network, such as a
        function or a class. None is a perceptron.
    hidden_layer_sizes : sequence of int, default=(512,)
        Number of units in each hidden layer of the perceptron; every layer has batch
        normalization and ReLU.
    dropout : float, default=0.0
        Dropout probability of the perceptron's hidden units.
    balanced : bool, default=True
        Whether to batch-normalize the perceptron's logits, so that bits are nearly
        balanced.
    input_shape : sequence of int or None, default=None
        Shape to which each row is reshaped for `module`, such as ``(1, 28, 28)``. None
        leaves rows as they are.
    weight_decay : float, default=5e-4
        Weight decay of the optimizer.
    normalize : bool, default=False
        Whether to scale vectors to unit length first. `transform` does the same.
    lr : float, default=1e-3
        Step size of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default=None
        Schedule by which the step size decreases. None keeps it constant.
    max_epochs : int, default=30
        Number of passes over the data.
    batch_size : int or "auto", default="auto"
        Number of rows per batch. Losses of pairs see only pairs within a batch. "auto"
        is a hundredth of all rows, but at least 32 and at most 512.
    optimizer : str, torch.optim.Optimizer class or partial of one, default="adamw"
        Optimizer: `skhash.training.Storm`, a class of `torch.optim`, or its name in any
        case. To set its parameters other than the step size, pass a `functools.partial`
        of the class.
    callbacks : list of skorch callbacks or None, default=None
        Callbacks, such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to hold out for ``valid_loss``, which is the likelihood alone,
        or a skorch splitter.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the order of rows, dropout and the draws of the
        loss.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes, or the column numbers of several labels.
    dual_active_fraction_ : float or None
        Share of the entries of v that were not 0 after an update, over all updates.
        None for solvers without v.
    quantization_error_ : float
        Mean of ``(|tanh(logit)| - 1)^2`` on all rows of `fit`.
    intra_distance_, inter_distance_ : float
        Mean Hamming distance of rows of `fit` that share a label, and of those that do
        not.
    separability_ : float
        ``inter_distance_ - intra_distance_``.
    coefs_, intercepts_ : lists of ndarrays, float32, or None
        Weights and intercepts of the perceptron's layers, with batch normalization
        folded in, of shapes (n_inputs, n_outputs) and (n_outputs,). None with `module`.
    weights_, weight_names_ : list of ndarrays, list of str
        State of the trained torch network: its arrays and their names.
    mean_ : ndarray of shape (n_features,)
        Mean of the training data.
    scale_ : float
        Square root of the mean variance of the columns; training divides the data by
        it.
    n_bits_, input_shape_ : int, list of int or None
        Those of the fit.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        The net as trained. ``net_.module_`` is the torch module, whose ``objective``
        holds u and v.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    SupervisedHash : The same with other losses of supervised hashing.
    HammingNeighbors : Exact search of the codes.

    References
    ----------
    "DualHash: A stochastic primal-dual algorithm with theoretical guarantee for deep
    hashing", arXiv:2510.18218, 2025.

    Examples
    --------
    >>> from skhash import DualHashEncoder
    >>> from skhash.datasets import load_digits_retrieval
    >>> data = load_digits_retrieval()
    >>> encoder = DualHashEncoder(n_bits=16, max_epochs=10, random_state=0)
    >>> encoder = encoder.fit(data.train, data.train_labels)
    >>> encoder.transform(data.query).shape
    (297, 16)
    >>> encoder.intra_distance_ < 2 < 6 < encoder.inter_distance_
    True
    """

    loss: str | Annotated[Any, HasMethods(["objective"])] = "dualhash"
    batch_size: CountFrom2 | Literal["auto"] = "auto"
