"""Classification with deep stochastic binary networks."""

import copy
import math
from collections.abc import Callable
from dataclasses import field, replace
from numbers import Integral
from typing import Annotated, Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skhash.classification._architectures import make_network, own_network
from skhash.classification._deterministic import DeterministicNetwork
from skhash.classification._rows import Targets, positions, weighted_rows
from skhash.codes import pack_bits
from skhash.numerics._projection import mean_and_scale
from skhash.persistence.estimators import SaveMixin
from skhash.persistence.schema import TINY, Group, Plain, labels, reals, wholes
from skhash.training._estimator import Schedule, TrainedMixin, arrays_of
from skhash.utils._sklearn import CodesOutMixin, Interval, fit_context
from skhash.utils.arrays import as_array, check_magnitude, validate_data, with_readable
from skhash.utils.lazy import LateModule, torch
from skhash.utils.parameters import (
    ArrayLike,
    Count,
    CountFrom2,
    Positive,
    with_parameters,
)
from skhash.utils.targets import encoded_targets
from skhash.utils.torch import inference_device, torch_as_imported

_modules = LateModule("skhash.classification._module")
_layers = LateModule("skhash.networks._layers")
_loop = LateModule("skhash.training._net")

# How rows are validated.
INPUT = {"dtype": [np.float32, np.float64], "accept_sparse": "csr"}
# Rows of a batch that statistics of norms are taken from after training.
STATISTICS_ROWS = 512
# Rows that first weights are whitened by.
WHITENED_ROWS = 1024
# The last ensemble of each classifier; an attribute would be pickled.
KEPT: WeakKeyDictionary = WeakKeyDictionary()


@with_parameters(kw_only=True)
class SBNClassifier(
    SaveMixin, CodesOutMixin, ClassifierMixin, TrainedMixin, BaseEstimator
):
    r"""Classifier with binary hidden units: a deep stochastic binary network.

    Hidden units are random bits, so training uses a gradient estimate. Predictions are
    averages over an ensemble of networks with noise drawn once, or those of the single
    network without noise. `transform` returns the bits of the last hidden layer, a code
    that is similar for rows of the same class. The model is defined in the notes.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(512, 512)
        Number of units in each fully connected layer.
    architecture : "mlp", list of dict or callable, default="mlp"
        Layers of the network.

        - "mlp": fully connected layers only.
        - A list with the arguments of each `skhash.networks.BinaryConv2d` that precedes
          the fully connected layers.
        - A function ``(n_features, n_classes) ->
          skhash.networks.StochasticBinaryNetwork`` that makes any network. The
          parameters `noise`, `weights` and `batch_norm` are then up to the function.
    input_shape : tuple of int or None, default=None
        Shape of the images in the rows: (channels, height, width). None if rows are not
        images.
    gradient : str or estimator of `skhash.gradients`, default="zgr"
        Gradient estimator. "zgr", "st" and other layer-wise estimators cost as much as
        backpropagation; "psa" has less bias than "st". "adf", "local_reparam", "arm"
        and others of `skhash.gradients` are available too.
    weights : str or WeightLaw of `skhash.networks`, default="real"
        Weights between hidden layers. The first layer and the head always have real
        weights.

        - "real": real weights.
        - "mirror": weights -1 and +1, drawn once per step, whose logits are trained by
          mirror descent. `skhash.networks.MirrorWeights` can give them a prior.
        - "pgd": the same, but their probabilities are trained by projected gradients.
        - "bayesbinn": relaxed binary weights that follow the Bayesian learning rule
          (`skhash.networks.BayesBiNNWeights`). It needs ``optimizer="sgd"``.
    noise : {"logistic", "normal", "triangular", "uniform"} or Noise, default="logistic"
        Noise that a logit must exceed for its unit to be +1; see `skhash.noise`.
    batch_norm : bool, default=True
        Whether to normalize logits over the batch. If False, layers have intercepts
        instead.
    n_draws : int, default=1
        Number of times M that the noise of each row is drawn per step. The loss is
        :math:`-\log \frac1M \sum_m p(y | z_m)`, a bound that approaches the loss of the
        ensemble as M grows.
    n_predict_samples : int, default=10
        Number of networks in the ensemble whose probabilities are averaged. 0 uses the
        network without noise. You can change it after `fit`. The noise of each member
        is drawn once and shared by all rows, so predictions do not depend on other
        rows. The draws of a unit form a Latin hypercube, so their mean usually varies
        less than that of independent draws.
    init : {"whiten", "default", "real"}, default="whiten"
        Initial weights.

        - "whiten" scales the layers so that logits have mean 0 and standard deviation
          `init_scale` over a sample of rows, or over the batch with `batch_norm`.
        - "default" leaves the weights as the layers initialize them.
        - "real" spends the first half of the epochs on training a network with real
          weights, whose units output their means, and starts the binary units from
          these weights. Binary weights take them as logits, divided by their root mean
          square, except in a custom `architecture`, which takes them unchanged. With
          ``max_epochs=1``, it is "default".
    init_scale : float, default=2.0
        Initial standard deviation of the logits, for noise of scale 1 (slope 1 at the
        threshold). At 1, as in the papers, units are about as random as they can be
        while still carrying a signal. Larger values make them less random.
    augment : callable or None, default=None
        Function that changes images at random during training. It gets a tensor of
        shape (n_images, channels, height, width) and a torch generator. It needs
        `input_shape`.
    lr : float, default=0.003
        Step size of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"} or None, default="cosine"
        Schedule by which the step size decreases during `fit`. None keeps it constant.

        - "cosine": along half a cosine to 0.
        - "inverse_sqrt": with one over the square root of the number of steps.
        - "step": to a tenth after 60 % of the epochs, and again after 80 %.
    optimizer : str, torch.optim.Optimizer class or partial of one, default="adam"
        Optimizer: a class of `torch.optim`, or its name in any case. To set its
        parameters other than the step size, pass a `functools.partial` of the class.
    max_epochs : int, default=50
        Number of passes over the data.
    batch_size : int or "auto", default="auto"
        Number of rows per batch. "auto" makes about 100 batches per epoch, of at least
        32 and at most 512 rows.
    validation_fraction : float, callable or None, default=None
        Share of the rows to hold out for ``valid_loss``, or a skorch splitter.
    callbacks : list of skorch callbacks or None, default=None
        Callbacks, such as `skorch.callbacks.EarlyStopping`.
    device : str, default="auto"
        Where to fit and predict: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the batches, and the noise of training and of the
        ensemble.
    verbose : bool or int, default=False
        Whether to print one line per epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data. The network sees rows as ``(x - mean_) / scale_``.
    scale_ : float
        Square root of the mean variance of the columns.
    layers_ : list of dict
        Description of each layer; the last one is the head, which outputs the classes.
    weights_, weight_names_ : list of ndarray, list of str
        Parameters of the layers, with the statistics of batch norms under noise, and
        their names.
    det_statistics_ : list of ndarray
        Statistics of batch norms without noise.
    predict_seed_ : int
        Seed from which the noise of the ensemble is drawn.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained with binary units.
    net_ : skorch net
        The net that `partial_fit` continues to train.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    Raises
    ------
    ValueError
        If `X` holds NaN or infinity, if `y` has only one class, or if training
        diverges.

    Notes
    -----
    Each unit of layer k is +1 if its logit exceeds noise, and -1 otherwise:

    .. math::
        x^k = \operatorname{sign}(a^k - z^k), \quad
        a^k = \mathrm{BN}(W^k x^{k-1}), \quad
        p(y | x^0) = E_z \operatorname{softmax}(V x^L + c)_y.

    Training minimizes the expected cross-entropy
    :math:`E_z[-\log \operatorname{softmax}(V x^L + c)_y]` over all weights.

    Columns are centred, and all divided by one number. If your columns have different
    units, put a `sklearn.preprocessing.StandardScaler` before the classifier.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021.

    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020.

    B. Martinez, J. Yang, A. Bulat and G. Tzimiropoulos, "Training binary neural
    networks with real-to-binary convolutions", ICLR 2020: real units before bits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skhash import SBNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SBNClassifier((16, 16), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.transform(X[:2]).shape
    (2, 16)
    """

    hidden_layer_sizes: ArrayLike = field(default=(512, 512), kw_only=False)
    architecture: Literal["mlp"] | list | Callable = "mlp"
    input_shape: ArrayLike | None = None
    gradient: Any = "zgr"
    weights: Any = "real"
    noise: Any = "logistic"
    batch_norm: bool = True
    n_draws: Count = 1
    n_predict_samples: Annotated[int, Interval(Integral, 0, 10_000, closed="both")] = 10
    init: Literal["whiten", "default", "real"] = "whiten"
    init_scale: Positive = 2.0
    augment: Callable | None = None
    lr: Positive = 0.003
    lr_schedule: Schedule = "cosine"
    max_epochs: Count = 50
    batch_size: CountFrom2 | Literal["auto"] = "auto"

    _saved = {
        "classes_": labels("n_classes"),
        "layers_": Plain(list),
        "det_statistics_": Group(list),
        "mean_": reals("n_features"),
        "scale_": reals(low=TINY),
        "predict_seed_": wholes(low=0, high=2**63 - 1),
    }

    # Training does not use it, so it may change between calls of `partial_fit`.
    _untrained_parameters = ("n_predict_samples",)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Train the network.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,)
            Classes of the rows, of any type.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows. The loss of each row is multiplied by its weight,
            divided by the mean weight; rows with weight 0 are left out. To weight
            classes instead, use `sklearn.utils.class_weight.compute_sample_weight`.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        X, y, weights = self._validate(X, y, sample_weight, reset=True)
        classes, codes = encoded_targets(y, self)
        targets, n_epochs = Targets(codes, weights, classes), self.max_epochs
        random_state = check_random_state(self.random_state)
        run = self._run(X, random_state, phases=(n_epochs,))
        n_real = n_epochs // 2 if self.init == "real" else 0
        if n_real:
            start = self._real_weights(X, targets, run, n_real)
            targets = replace(targets, first_weights=start)
            run = run.again(phases=(n_epochs - n_real,))
        self._learn(X, targets, run)
        self.classes_, self.predict_seed_ = classes, run.seeds[2]
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Train for one epoch on these rows, as one part of a stream.

        The first call builds the network, with the mean and scale of its rows, so pass
        it 200 or more rows drawn at random. The statistics of batch norms are
        recalibrated on the rows of each call. Only `lr`, `batch_size` and the
        parameters of prediction may change between calls; `max_epochs` is not used.

        Later calls keep the state of the optimizer. After `fit`, or if the classifier
        was loaded from a file or copied off an accelerator, it starts afresh with the
        step size `lr`; lower `lr` to change a fitted classifier only slightly.
        Schedules that need a number of epochs, "cosine" and "step", have no effect
        here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,)
            Classes of the rows.
        classes : array-like of shape (n_classes,) or None, default=None
            All classes that will occur. Required in the first call.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows, as in `fit`.

        Returns
        -------
        self : object
            The classifier. If a later call raises, the classifier is left as it was.

        Raises
        ------
        ValueError
            As in `fit`, or if a parameter changed that was fixed by the first call.
        """
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("Pass classes= in the first call of partial_fit.")
        if first and self.init == "real":
            raise ValueError(
                "init='real' first trains another network on all rows; call fit before "
                "partial_fit, or use init='whiten'."
            )
        X, y, weights = self._validate(X, y, sample_weight, reset=first)
        known = self.classes_ if classes is None else encoded_targets(classes, self)[0]
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(
                f"classes={known.tolist()} differ from those of the first call, "
                f"{self.classes_.tolist()}; pass the same or none."
            )
        self._resume(X, Targets(positions(y, known), weights, known))
        if first:
            self.classes_, self.predict_seed_ = known, self.net_.run.seeds[2]
        return self

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted classes.
        """
        best = self._log_probabilities(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes), float32
            One column per class, in the order of ``classes_``.
        """
        return np.exp(self._log_probabilities(X))

    def decision_function(self, X) -> np.ndarray:
        """Return log probabilities, or for two classes the log odds of the second one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,), float32
            One column per class, or for two classes one number per row.
        """
        scores = self._log_probabilities(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def transform(self, X) -> np.ndarray:
        """Return the bits of the last hidden layer, computed without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        bits : ndarray of shape (n_samples, n_bits), uint8
            Bits 0 and 1, which `skhash.HammingNeighbors` can search.
        """
        X = self._validate_fitted(X)
        return self._ensemble(0).bits(X)

    def transform_packed(self, X) -> np.ndarray:
        """Return the bits of `transform` as packed bytes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        packed : ndarray of shape (n_samples, ceil(n_bits / 8)), uint8
            The first bit is the highest of the first byte; padding bits are 0.
        """
        return pack_bits(np.asarray(self.transform(X)))

    def export_deterministic(self) -> DeterministicNetwork:
        """Export the network without noise as arrays, for predictions without torch.

        Batch norms are folded into a scale and a shift for each unit. Layers with
        weights -1 and +1 store them as packed bits, and compare the number of differing
        bits with a threshold for each unit.

        Returns
        -------
        network : DeterministicNetwork
            Network with `predict`, `predict_proba`, `transform` and `transform_packed`,
            which agree with those of this classifier with ``n_predict_samples=0``.
        """
        check_is_fitted(self)
        network = self._network(self.det_statistics_)
        return DeterministicNetwork.of(network, self.classes_, self.mean_, self.scale_)

    @with_readable
    def score(self, X, y, sample_weight=None) -> float:
        """Return the accuracy: the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors, one per row.
        y : array-like of shape (n_samples,)
            True classes of the rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            The accuracy, from 0 to 1.
        """
        return super().score(X, y, sample_weight)

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self.layers_[-1]["n_inputs"]

    def _check_saved(self):
        try:  # with a row: not all that has the shapes fits together
            self._network()
            outputs = self._ensemble(0).log_probabilities(self.mean_[None])
        except (ArithmeticError, RuntimeError) as error:
            raise ValueError(f"weights_ are not those of layers_: {error}") from error
        if outputs.shape[1] != len(self.classes_):
            raise ValueError(f"layers_ are not for {len(self.classes_)} classes.")

    def _validate(self, X, y, sample_weight, *, reset):
        """Return rows, labels, and weights of mean 1 or None."""
        X, y = validate_data(self, X, y, reset=reset, ensure_min_samples=2, **INPUT)
        check_magnitude(X)
        return weighted_rows(X, y, sample_weight)

    def _validate_fitted(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **INPUT)

    def _log_probabilities(self, X) -> np.ndarray:
        X = self._validate_fitted(X)
        return self._ensemble(self.n_predict_samples).log_probabilities(X)

    def _ensemble(self, n_members):
        """Return `n_members` networks with drawn noise; 0 is one network without noise.

        The last result is kept until a fit replaces the weights.
        """
        device = inference_device(self.device)
        key = n_members, str(device), self.noise, self.predict_seed_
        kept = KEPT.get(self)
        if kept is None or kept[0] is not self.weights_ or kept[1] != key:
            ensemble = self._new_ensemble(n_members, device)
            kept = KEPT[self] = self.weights_, key, ensemble
        return kept[2]

    def _new_ensemble(self, n_members, device):
        from skhash.classification._ensemble import Ensemble

        self._validate_params()  # which may have changed since `fit`
        if not n_members:
            network = self._network(self.det_statistics_).to(device)
            return Ensemble(network, self.mean_, self.scale_)
        generator = torch.Generator(device).manual_seed(self.predict_seed_)
        network = self._network().to(device)
        return Ensemble(network, self.mean_, self.scale_, n_members, generator)

    @torch_as_imported()
    def _network(self, statistics=()):
        """Return the network that was fitted; its norms are those under noise."""
        return _layers.rebuild(self.layers_, self.weights_, statistics, self.noise)

    def _build(self, X, targets, run):
        X = run.trained(X)
        network = self._new_network(X.shape[1], len(targets.classes), run.generator)
        module = self._module_of(network, *mean_and_scale(X))
        if self.init == "whiten":
            rows = torch.randperm(X.shape[0], generator=run.generator)[:WHITENED_ROWS]
            sample = _loop.whole_batch(module, X[rows.numpy()]).X
            _modules.whiten(network, sample, self.init_scale, run.generator)
        if targets.first_weights is not None:
            first = targets.first_weights
            _modules.start_from(network, first, self._resolve_weights())
        return module

    def _real_weights(self, X, targets, run, n_epochs):
        """Train a network of real weights and units, and return its weights."""
        twin = clone(self).set_params(gradient="tanh", weights="real", init="whiten")
        twin._learn(X, targets, run.again(phases=(n_epochs,)))
        return twin.weights_

    def _module(self, run):
        network = self._network()
        if run is not None:
            weights = self._resolve_weights()
            for layer in network.layers:
                if layer.weights.law == weights.law:  # trained as the parameter says
                    layer.weights = weights
        return self._module_of(network, self.mean_, self.scale_)

    def _module_of(self, network, mean, scale):
        from skhash.gradients import resolve_network_gradient

        return _modules.ClassifierModule(
            network,
            resolve_network_gradient(self.gradient),
            mean,
            scale,
            n_samples=self.n_draws,
            augment=self.augment,
            shape=self._image_shape("augment", len(mean)) if self.augment else None,
        )

    def _new_network(self, n_features, n_classes, generator):
        weights, n_features = self._resolve_weights(), int(n_features)
        if callable(self.architecture):
            network = own_network(self.architecture, n_features, n_classes, generator)
        else:
            is_mlp, shape = self.architecture == "mlp", (n_features,)
            convolutions = [] if is_mlp else self.architecture
            if convolutions:
                shape = self._image_shape("architecture", n_features)
            network = make_network(
                convolutions,
                shape,
                self.hidden_layer_sizes,
                n_classes,
                noise=self.noise,
                weights=weights,
                batch_norm=self.batch_norm,
                generator=generator,
            )
        if not weights.is_real and len(network.layers) == 1:
            raise ValueError(
                f"weights={self.weights!r} apply between hidden layers, but the "
                "network has only one; give hidden_layer_sizes at least two sizes."
            )
        return network

    def _image_shape(self, reader, n_features):
        """Return `input_shape`, for a parameter that has rows read as images."""
        shape = () if self.input_shape is None else tuple(map(int, self.input_shape))
        if len(shape) != 3 or math.prod(shape) != n_features:
            raise ValueError(
                f"{reader}={getattr(self, reader)!r} needs input_shape=(channels, "
                f"height, width) with {n_features} values in all, one for each column "
                f"of X, got {self.input_shape}."
            )
        return shape

    def _resolve_weights(self):
        """Return the weights of inner layers."""
        from skhash.networks._weights import resolve_weights

        weights = resolve_weights(self.weights)
        if not weights.is_real and not self.batch_norm:
            raise ValueError(
                f"weights={self.weights!r} cannot be scaled, so set batch_norm=True."
            )
        return weights

    def _optimizer(self, module):
        (kind, params), groups = super()._optimizer(module), []
        for i, layer in enumerate(module.network.layers):
            weights = layer.weights
            if weights.optimizer not in (None, kind.__name__.lower()):
                raise ValueError(
                    f"weights={weights!r} needs optimizer={weights.optimizer!r}, got "
                    f"{self.optimizer!r}."
                )
            if decay := weights.weight_decay:
                groups += [(f"network.layers.{i}.weight", {"weight_decay": decay})]
        return kind, params | ({"param_groups": groups} if groups else {})

    def _read(self, module, X, run):
        """Return the parameters, and the statistics of norms without noise."""
        from skhash.training._module import BatchIterator, FedRows, Rows

        fed = FedRows(Rows(run.trained(X)), module)
        network = copy.deepcopy(module.network)
        states = []
        order = run.again().generator  # batches of sorted rows would be of one class
        for generator in (module.generator, None):
            batches = BatchIterator(fed, STATISTICS_ROWS, run.device, order)
            _modules.refresh_statistics(network, batches, generator)
            states.append(arrays_of(network))
        noisy, certain = states
        return {
            "weights_": [*noisy.values()],
            "weight_names_": [f"network.{name}" for name in noisy],
            "det_statistics_": [
                certain[name] for name in _layers.statistics_of(certain)
            ],
            "layers_": module.network.description(),
        }

    def _training_batch(self, X, y):
        """Return a module with norms at rest, and all rows as a batch.

        The module is made anew of the fitted arrays and the present parameters.
        """
        if y is None:
            raise ValueError("The loss of a classifier needs classes; pass them as y=.")
        X = self._validate_fitted(X)
        module = self._restored()
        codes = positions(as_array(y), self.classes_)
        return module, _loop.whole_batch(module, X, labels=torch.from_numpy(codes))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
