"""Classification with deep stochastic binary networks."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash.base import check_magnitude
from skhash.classification._network import NetworkMixin
from skhash.classification._prediction import PredictionMixin
from skhash.classification._rows import Targets, positions, weighted_rows
from skhash.persistence import save_estimator
from skhash.training import TRAINING_CONSTRAINTS, draw_seeds
from skhash.utils._sklearn import (
    Interval,
    StrOptions,
    fit_context,
)
from skhash.utils.targets import encoded_targets


class SBNClassifier(PredictionMixin, NetworkMixin, BaseEstimator):
    r"""A classifier whose hidden units are random bits.

    Each unit of layer k is +1 where its logit exceeds noise, else -1:

    .. math::
        x^k = \operatorname{sign}(a^k - z^k), \quad
        a^k = \mathrm{BN}(W^k x^{k-1}), \quad
        p(y | x^0) = E_z \operatorname{softmax}(V x^L + c)_y.

    The expected cross-entropy :math:`E_z[-\log \operatorname{softmax}(V x^L + c)_y]` is
    minimised over all weights, with a gradient estimate in place of the derivative that
    bits do not have. Predictions are means over networks with noise drawn once, or
    those of the one network without noise.

    The bits of the last layer are a code of the row that follows its class;
    `transform` returns them.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(512, 512)
        Number of units of each fully connected layer; "allconv" has none.
    architecture : {"mlp", "allconv", "vgg"} or callable, default="mlp"
        "mlp" is fully connected. "allconv" has eight convolutions, for images of at
        least 27 x 27, and "vgg" pairs of convolutions with pooling, which PSA cannot
        pass: the networks of the two papers. Or a factory ``(n_features, n_classes) ->
        skhash.networks.StochasticBinaryNetwork``, which then decides on `noise`,
        `weights` and `batch_norm` too.
    input_shape : tuple of int or None, default=None
        (channels, height, width) of the images that rows are.
    channels : array-like of int or None, default=None
        Widths of "allconv", two numbers, and of each pair of "vgg". None takes those of
        the papers, (96, 192) and (128, 256, 512), which want a GPU.
    gradient : str or estimator of `skhash.gradients`, default="st"
        Estimates the gradient: "st", "zgr" and other layer-wise ones at the cost of
        backpropagation, "psa" with less bias, "adf", "local_reparam", "arm" and others.
    weights : {"real", "mirror", "pgd", "bayesbinn"}, default="real"
        Those between layers of units; the first layer and the head have real ones.
        "mirror" weights are -1 and +1, drawn once a step, with logits that are trained
        by mirror descent. "pgd" trains their probabilities by projected gradients.
        "bayesbinn" relaxes them and follows the Bayesian learning rule, with
        ``optimizer="sgd"``.
    prior_strength : float, default=0.0
        For "mirror" weights: 1 adds the divergence from fair coins that makes the
        objective that of variational Bayes, other values a multiple of it.
    noise : {"logistic", "normal", "triangular", "uniform"} or Noise, default="logistic"
        What the logits of units are compared with; see `skhash.noise`.
    batch_norm : bool, default=True
        Whether logits are normalised over the batch. Without, layers have intercepts.
    objective : {"expected", "multi_sample"}, default="expected"
        With M = `n_train_samples` draws of the noise, "expected" is the mean of their
        losses and "multi_sample" the bound :math:`-\log \frac1M \sum_m p(y | z_m)`,
        which tightens to the loss of the ensemble as M grows. They are equal at M = 1.
    n_train_samples : int, default=1
        How many times the noise of a row is drawn in a step.
    predict_mode : {"ensemble", "det"}, default="ensemble"
        Whether to average probabilities over `n_predict_samples` networks, or to take
        the network without noise. May be changed after `fit`.
    n_predict_samples : int, default=10
        Size of the ensemble. Each member has noise that is drawn once and shared by all
        rows, so that predictions do not depend on what else is predicted.
    init : {"whiten", "default"}, default="whiten"
        Whether layers without batch norm are scaled at the start so that logits have
        mean 0 and deviation 1 over a sample of rows.
    bn_recalibrate : bool, default=True
        Whether the statistics of batch norms are taken anew from all rows after
        training, once with noise and once without. Otherwise both modes have the
        running means of training.
    augment : {"flip_crop", "affine"} or None, default=None
        Random changes of the images of `input_shape` while training: mirrored and moved
        by up to an eighth, or turned by up to 10 degrees and moved by up to 5 %.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    lr : float or "auto", default=0.01
        Learning rate. "auto" searches between 1e-6 and 1 for the one with the least
        training loss after 5 epochs, in 10 trials.
    lr_schedule : {"cosine", "step"} or None, default=None
        How the rate falls during `fit`: along half a cosine to 0, or to a tenth after
        60 % and again after 80 % of the epochs.
    optimizer : str or type, default="adam"
        A class of ``torch.optim`` or its name.
    max_epochs : int, default=50
        Passes over the data.
    batch_size : int or "auto", default="auto"
        "auto" makes about 100 batches an epoch, of 32 to 512 rows.
    validation_fraction : float or None, default=None
        The share of rows that is held out, whose loss ``history_`` then records.
    callbacks : list or None, default=None
        skorch callbacks, such as early stopping.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", "mps"; "auto" takes what is there.
    random_state : int, RandomState instance or None, default=None
        Draws first weights, batches, the noise of training and that of the ensemble.
    verbose : bool or int, default=False
        Whether each epoch is printed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    mean_ : ndarray of shape (n_features,), float64
    scale_ : float
        Rows minus ``mean_``, divided by ``scale_``, enter the network.
    layers_ : list of dict
        What the layers are, the head last.
    weights_ : list of ndarray
        Their parameters, with the statistics of norms under noise.
    det_statistics_ : list of ndarray
        The statistics of norms without noise.
    predict_seed_ : int
        Draws the ensemble.
    history_ : list of dict
        ``train_loss``, and ``valid_loss`` with a validation fraction, of each epoch.
    lr_ : float
        The learning rate that was used, that of "auto" too.
    n_iter_ : int
        Number of epochs trained.
    n_features_in_ : int
    net_ : skorch net
        What `partial_fit` goes on from.

    Raises
    ------
    ValueError
        If `X` holds NaN or infinity, `y` is one class only, or training diverges.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021.

    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020.

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

    _parameter_constraints: dict = {
        "hidden_layer_sizes": ["array-like"],
        "architecture": [StrOptions({"mlp", "allconv", "vgg"}), callable],
        "input_shape": ["array-like", None],
        "channels": ["array-like", None],
        "gradient": "no_validation",
        "weights": [StrOptions({"real", "mirror", "pgd", "bayesbinn"})],
        "prior_strength": [Interval(Real, 0, None, closed="left")],
        "noise": "no_validation",
        "batch_norm": ["boolean"],
        "objective": [StrOptions({"expected", "multi_sample"})],
        "n_train_samples": [Interval(Integral, 1, None, closed="left")],
        "predict_mode": [StrOptions({"ensemble", "det"})],
        "n_predict_samples": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"whiten", "default"})],
        "bn_recalibrate": ["boolean"],
        "augment": [StrOptions({"flip_crop", "affine"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        **TRAINING_CONSTRAINTS,
        "lr": [*TRAINING_CONSTRAINTS["lr"], StrOptions({"auto"})],
        "batch_size": [
            Interval(Integral, 2, None, closed="left"),
            StrOptions({"auto"}),
        ],
    }

    def __init__(
        self,
        hidden_layer_sizes=(512, 512),
        *,
        architecture="mlp",
        input_shape=None,
        channels=None,
        gradient="st",
        weights="real",
        prior_strength=0.0,
        noise="logistic",
        batch_norm=True,
        objective="expected",
        n_train_samples=1,
        predict_mode="ensemble",
        n_predict_samples=10,
        init="whiten",
        bn_recalibrate=True,
        augment=None,
        class_weight=None,
        lr=0.01,
        lr_schedule=None,
        optimizer="adam",
        max_epochs=50,
        batch_size="auto",
        validation_fraction=None,
        callbacks=None,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.architecture = architecture
        self.input_shape = input_shape
        self.channels = channels
        self.gradient = gradient
        self.weights = weights
        self.prior_strength = prior_strength
        self.noise = noise
        self.batch_norm = batch_norm
        self.objective = objective
        self.n_train_samples = n_train_samples
        self.predict_mode = predict_mode
        self.n_predict_samples = n_predict_samples
        self.init = init
        self.bn_recalibrate = bn_recalibrate
        self.augment = augment
        self.class_weight = class_weight
        self.lr = lr
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Train the network.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes, of any type.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            The loss of each row is multiplied with its weight over the mean weight.
            Rows of weight 0 are left out.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        X, y, weights = self._validate(X, y, sample_weight, reset=True)
        classes, codes = encoded_targets(y, self)
        seeds = draw_seeds(check_random_state(self.random_state))
        targets = Targets(codes, weights, classes)
        net = self._make_net(X, targets, seeds, n_epochs=self.max_epochs)
        self._train(net, X, targets, self.max_epochs, history=[])
        self.classes_, self.predict_seed_ = classes, seeds[2]
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call builds the network, and takes mean and scale of its rows: let
        them be some hundreds, drawn at random. Later calls keep the optimizer's state;
        on a classifier that was loaded from a file the optimizer starts afresh. The
        statistics of batch norms are recalibrated from the rows of the last call. Of
        the parameters `lr` and `batch_size`, and those of prediction, may change from
        call to call; `max_epochs` is not used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,) or None, default=None
            All classes that will come; needed in the first call.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        self : object
            The classifier. If a later call raises, it is as it was before.

        Raises
        ------
        ValueError
            As `fit`, or if a parameter has changed that the first call built on.
        """
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("The first call of partial_fit needs classes=.")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once; give partial_fit the "
                "weights of the classes as a dict."
            )
        X, y, weights = self._validate(X, y, sample_weight, reset=first)
        known = None if first else self.classes_
        if classes is not None:
            given = encoded_targets(classes, self)[0]
            if known is not None and not np.array_equal(given, known):
                raise ValueError(
                    f"classes={given.tolist()} differ from those of the first call, "
                    f"{known.tolist()}."
                )
            known = given
        self._go_on(X, Targets(positions(y, known), weights, known))
        if first:
            self.classes_, self.predict_seed_ = known, self.net_.seeds[2]
        return self

    def score(self, X, y, sample_weight=None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return super().score(X, y, sample_weight)

    def save(self, path) -> None:
        """Write the fitted classifier to a directory of JSON and safetensors.

        Parameters
        ----------
        path : path-like
            A new directory, or one that `save` wrote before.

        See Also
        --------
        skhash.load : Reads the directory without running code.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    def _validate(self, X, y, sample_weight, *, reset):
        """Return rows, labels, and weights of mean 1 or None."""
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=[np.float32, np.float64],
            accept_sparse="csr",
            ensure_min_samples=2,
        )
        check_magnitude(X)
        check_classification_targets(y)
        return weighted_rows(X, y, sample_weight, self.class_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
