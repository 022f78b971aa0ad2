"""Codes learned from labels by a likelihood of pairs and a penalty on the outputs."""

from functools import partialmethod

from skhash.neural.supervised._encoder import SupervisedHash
from skhash.persistence.schema import Plain, optional


class DualHashEncoder(SupervisedHash):
    """Codes of labelled rows: near for rows that share a label, and pulled to signs.

    This is `SupervisedHash` with the loss of DualHash (2025), which pulls the outputs
    of the network to -1 and +1, and batches that grow with the data. See
    `skhash.losses.DualHashLoss` for the problem and its solvers.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    loss : str or SupervisedLoss, default="dualhash"
        "dualhash" is `skhash.losses.DualHashLoss` with its defaults. Those of an
        instance are set as ``loss__w_weight`` and ``loss__solver__u_step``.
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
        The shape in which `module` gets each row, such as ``(1, 28, 28)``. None is
        one axis.
    weight_decay : float, default=5e-4
        That of the optimizer.
    normalize : bool, default=False
        Whether rows are first scaled to unit length.
    lr : float, default=1e-3
        Step size of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"}, LRSchedule or None, default=None
        How the step size falls.
    max_epochs : int, default=30
        Number of passes over the data.
    batch_size : int or "auto", default="auto"
        Rows in a batch; losses of pairs see only those of the same batch. "auto" is a
        hundredth of all rows, from 32 to 512.
    optimizer : str, torch.optim.Optimizer class or Optimizer, default="adamw"
        A class of `torch.optim` or its name in any case, "storm", or these with
        parameters of their own; see `skhash.training.Optimizer`.
    callbacks : list of skorch callbacks or None, default=None
        Such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to compute ``valid_loss`` on, the likelihood alone, or a
        skorch splitter.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Draws the first weights, the order of rows, dropout and what the loss draws.
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
    weights_, weight_names_ : list of ndarrays, list of str
        The state of the trained network.
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

    _saved = {"dual_active_fraction_": optional(Plain(float))}
    # Its parameters are those of `SupervisedHash`; two have other defaults.
    __init__ = partialmethod(
        SupervisedHash.__init__, loss="dualhash", batch_size="auto"
    )
