"""Codes learned from labels by a likelihood of pairs and a penalty on the outputs."""

import warnings
from numbers import Integral, Real

import numpy as np

from skhash.linear import ITQHash
from skhash.neural.supervised._base import SUPERVISED_CONSTRAINTS, BaseSupervisedHash
from skhash.utils._sklearn import Interval, StrOptions

# The automatic scale of the likelihood of balanced pairs, times the number of bits.
BALANCED_LOGITS = 15.0

# What `fit` says where the dual variable had no part in it.
INERT = (
    "The dual variable of split_solver={!r} stayed 0, so w_weight had no effect: with "
    "outputs in [-1, 1] it stays 0 if (1 + extrapolation) * u_step * penalty <= 1. "
    "Use split_solver='prox' or 'dual_dc', which apply the penalty, or a larger u_step."
)


class DualHashEncoder(BaseSupervisedHash):
    r"""Codes of labelled rows: near for rows that share a label, and pulled to signs.

    With outputs ``D = tanh(logits)`` of a network and the likelihood L of pairs (see
    Notes), the problem is to minimise ``L(D) + lambda mean | |D| - 1 |``, whose second
    term pulls outputs to -1 and +1. DualHash (2025) splits the outputs from a copy u of
    them, and writes the penalty of u by its conjugate:

    .. math::

        \min_{W, u} \max_{|v| \le \lambda} \; L(D) + \frac{1}{n m} \sum_{i, k}
        \Big[ \frac\rho2 (D_{ik} - u_{ik})^2 + u_{ik} v_{ik} - |v_{ik}| \Big]

    W are the weights of the network. Each row has its u and v, which are updated once
    an epoch, with the outputs of its batch.

    The printed algorithm, ``split_solver="dual"``, does not apply the penalty within
    [-1, 1]: maximising over v gives ``lambda max(|u| - 1, 0)``, which is zero there.
    And v stays 0 if ``(1 + extrapolation) u_step penalty <= 1``, which holds by default
    and for the steps that were published: u and the extrapolated point
    ``u + (1 + extrapolation) u_step penalty (D - u)`` are then averages of numbers
    in [-1, 1], and the soft threshold of a v-step from v = 0 makes those 0. The other
    solvers apply the penalty.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    module : callable or None, default=None
        A factory ``(n_features, n_bits) -> torch.nn.Module`` of the network, such as a
        function or a class. None is a perceptron.
    hidden_layer_sizes : sequence of int, default=(512,)
        Units in the hidden layers of the perceptron, each with batch normalisation and
        ReLU.
    dropout : float, default=0.0
        The probability that a hidden unit of the perceptron is left out in training.
    balanced : bool, default=True
        Whether the perceptron's logits are normalised over the batch, so that bits are
        near to balanced.
    input_shape : sequence of int or None, default=None
        The shape in which `module` gets each row, such as ``(1, 28, 28)``. None is that
        of the items of a data set, or one axis.
    split_solver : {"none", "subgradient", "dual", "dual_dc", "prox", "wcr"}
        How outputs are pulled to signs, by default "prox":

        * "none": not at all; the likelihood alone.
        * "subgradient": the penalty is part of the network's loss.
        * "dual": the printed algorithm, with u-steps along the gradient and v-steps by
          the proximal map of the conjugate.
        * "dual_dc": "dual" with the gradient of ``lambda max(1 - |u|, 0)``, the part of
          the penalty that the conjugate loses, in the u-step.
        * "prox": u-steps by the proximal map of the penalty, without v.
        * "wcr": the same for the weakly convex ``lambda |u^2 - 1|``.
    w_weight : float, default=0.01
        lambda. It has no effect with "none", nor with "dual" while v stays 0. With the
        automatic `u_step`, u becomes the signs of the outputs from
        ``w_weight = penalty`` on for "prox", and from ``penalty / 2`` on for "wcr": a
        larger one changes nothing more.
    penalty : float, default=0.03
        rho: how strongly outputs and their copies pull at each other.
    u_step : float or "auto", default="auto"
        Step of u. "auto" is ``1 / (4 penalty)`` for the dual solvers and
        ``1 / penalty`` for the others, where u becomes the proximal map of the outputs.
    dual_step : float, default=1.0
        Step of v.
    extrapolation : float, default=1.0
        How far beyond the new u the v-step looks.
    warmup_epochs : int, default=5
        Epochs of the likelihood alone before outputs are pulled. If `max_epochs` is no
        larger, there are no others.
    u_init : {"output", "itq"}, default="output"
        Where u starts: at the outputs after the warm-up, or at `ITQHash` codes of the
        rows.
    logit_scale : float or "auto", default="auto"
        How sure the likelihood is of a pair with the same code; see Notes. "auto" is
        ``15 / n_bits`` for balanced pairs, else ``5 / n_bits``.
    pair_weights : {None, "balanced"}, default="balanced"
        "balanced" gives the similar pairs of a batch as much weight as the others.
    similarity : {None, "jaccard"} or callable, default=None
        By default rows are similar that share a label. "jaccard" is the share of their
        labels that both have. A callable maps a tensor of labels, (n, 1) or (n,
        n_labels), to similarities (n, n) from 0 to 1.
    update : {"momentum", "storm", "adam"}, default="adam"
        The optimizer: gradient descent with Nesterov's momentum, STORM (variance
        reduction by a second gradient of each batch, at twice the cost), or AdamW.
    momentum : float, default=0.9
        That of "momentum".
    storm_c : float, default=0.1
        How fast "storm" forgets earlier gradients; at 1 it is gradient descent.
    normalize : bool, default=False
        Whether rows are first scaled to unit length.
    lr : float, default=1e-3
        Step size. "momentum" and "storm" want larger ones, such as 0.1 to 0.3.
    weight_decay : float, default=5e-4
        That of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"}, LRSchedule or None, default=None
        How the step size falls.
    max_epochs : int, default=30
        Number of passes over the data.
    batch_size : int or "auto", default="auto"
        Rows in a batch; pairs are those within a batch. "auto" is a hundredth of all
        rows, from 32 to 512.
    callbacks : list of skorch callbacks or None, default=None
        Such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to compute ``valid_loss`` on, the likelihood alone, or a
        skorch splitter.
    num_workers : int, default=0
        Processes that read a torch ``Dataset``.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Draws the first weights, the order of rows and dropout.
    verbose : bool or int, default=False
        Whether to print a line each epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, or the numbers of the labels.
    dual_active_fraction_ : float or None
        The share of entries of v that were not 0 after an update, over all updates;
        None for solvers without v.
    quantization_error_ : float
        The mean of ``(|tanh(logit)| - 1)^2`` on the training rows.
    intra_distance_, inter_distance_ : float
        The mean Hamming distance of training rows that share a label, and of others.
    separability_ : float
        ``inter_distance_ - intra_distance_``.
    coefs_, intercepts_ : lists of ndarrays, float32, or None
        The layers of the perceptron as it encodes, of shapes (n_inputs, n_outputs) and
        (n_outputs,).
    weights_ : list of ndarrays, or None
        The weights of a network of `module`, and ``weight_names_`` their names.
    mean_ : ndarray of shape (n_features,), or None for a data set
        The mean of the training data.
    scale_ : float
        Root of the mean variance of the columns, the unit inside.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        ``net_.module_`` is the torch module; its ``objective`` holds u and v.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    SupervisedHash : The other losses of supervised hashing.
    HammingNeighbors : Searches the codes.

    Notes
    -----
    The likelihood is the mean over pairs of a batch of ``log(1 + exp t) - s t`` with
    ``t = logit_scale <D_i, D_j> / 2`` and s = 1 for similar rows, else 0.

    The paper's penalties are sums over bits; here they are means, so that `w_weight`
    and `penalty` mean the same for any number of bits and rows. Its u-step takes the
    outputs after the step of the network, here those before it. u and v take
    ``8 n_samples n_bits`` bytes.

    References
    ----------
    "DualHash: A stochastic primal-dual algorithm with theoretical guarantee for deep
    hashing", arXiv:2510.18218, 2025, equations (I.1), (P), (IV.1) to (IV.8).

    A. Cutkosky and F. Orabona, "Momentum-based variance reduction in non-convex SGD",
    NeurIPS 2019.

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

    _parameter_constraints: dict = {
        **SUPERVISED_CONSTRAINTS,
        "split_solver": [
            StrOptions({"dual", "dual_dc", "none", "prox", "subgradient", "wcr"})
        ],
        "w_weight": [Interval(Real, 0, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "u_step": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "dual_step": [Interval(Real, 0, None, closed="neither")],
        "extrapolation": [Interval(Real, 0, 1, closed="both")],
        "warmup_epochs": [Interval(Integral, 0, None, closed="left")],
        "u_init": [StrOptions({"itq", "output"})],
        "logit_scale": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
        ],
        "pair_weights": [StrOptions({"balanced"}), None],
        "similarity": [StrOptions({"jaccard"}), callable, None],
        "update": [StrOptions({"adam", "momentum", "storm"})],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "storm_c": [Interval(Real, 0, 1, closed="both")],
    }
    del _parameter_constraints["optimizer"]

    def __init__(
        self,
        n_bits=64,
        *,
        module=None,
        hidden_layer_sizes=(512,),
        dropout=0.0,
        balanced=True,
        input_shape=None,
        split_solver="prox",
        w_weight=0.01,
        penalty=0.03,
        u_step="auto",
        dual_step=1.0,
        extrapolation=1.0,
        warmup_epochs=5,
        u_init="output",
        logit_scale="auto",
        pair_weights="balanced",
        similarity=None,
        update="adam",
        momentum=0.9,
        storm_c=0.1,
        normalize=False,
        lr=1e-3,
        lr_schedule=None,
        weight_decay=5e-4,
        max_epochs=30,
        batch_size="auto",
        callbacks=None,
        validation_fraction=None,
        num_workers=0,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.n_bits = n_bits
        self.module = module
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.balanced = balanced
        self.input_shape = input_shape
        self.split_solver = split_solver
        self.w_weight = w_weight
        self.penalty = penalty
        self.u_step = u_step
        self.dual_step = dual_step
        self.extrapolation = extrapolation
        self.warmup_epochs = warmup_epochs
        self.u_init = u_init
        self.logit_scale = logit_scale
        self.pair_weights = pair_weights
        self.similarity = similarity
        self.update = update
        self.momentum = momentum
        self.storm_c = storm_c
        self.normalize = normalize
        self.lr = lr
        self.lr_schedule = lr_schedule
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.callbacks = callbacks
        self.validation_fraction = validation_fraction
        self.num_workers = num_workers
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _optimizer(self, module):
        params = {"weight_decay": self.weight_decay}
        if self.update == "storm":
            from skhash.losses._storm import Storm

            return Storm, params | {"c": self.storm_c, "shadow": module.shadow}
        if self.update == "momentum":
            nesterov = self.momentum > 0
            return "sgd", params | {"momentum": self.momentum, "nesterov": nesterov}
        return "adamw", params

    def _make_objective(self, X, rows, training):
        from skhash.losses._likelihood_of_pairs import PairwiseLikelihood
        from skhash.losses._splitting import SplitObjective, SplitSteps

        logit_scale = self.logit_scale
        if logit_scale == "auto" and self.pair_weights == "balanced":
            logit_scale = BALANCED_LOGITS / training.n_bits
        likelihood = PairwiseLikelihood(
            training.n_bits,
            logit_scale=logit_scale,
            pair_weights=self.pair_weights,
            similarity=self.similarity,
        )
        u_step = self.u_step
        if u_step == "auto":
            share = 0.25 if self.split_solver.startswith("dual") else 1.0
            u_step = share / self.penalty
        steps = SplitSteps(
            solver=self.split_solver,
            w_weight=self.w_weight,
            penalty=self.penalty,
            u_step=u_step,
            dual_step=self.dual_step,
            extrapolation=self.extrapolation,
        )
        start = self._itq_codes(X, rows, training) if self.u_init == "itq" else None
        shape = (training.n_samples, training.n_bits)
        return SplitObjective(likelihood, steps, shape, self.warmup_epochs, start)

    def _itq_codes(self, X, rows, training):
        import torch

        seed = int(torch.randint(2**31, (), generator=training.generator))
        itq = ITQHash(n_bits=self.n_bits, device=self.device, random_state=seed)
        itq.fit(X if rows is None else X[rows])
        bits = itq.transform(X)
        return torch.from_numpy(2 * bits.astype(np.float32) - 1)

    def _fit_codes(self, X, y, random_state):
        super()._fit_codes(X, y, random_state)
        objective = self.net_.module_.objective
        self.dual_active_fraction_ = None
        if self.split_solver.startswith("dual"):
            n_updated, n_active = objective.n_updates.tolist()
            self.dual_active_fraction_ = n_active / max(n_updated, 1)
            if n_updated and not n_active:
                warnings.warn(INERT.format(self.split_solver), stacklevel=5)
