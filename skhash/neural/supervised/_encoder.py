"""Codes learned from labels, by any of the losses of supervised hashing."""

from skhash.neural.supervised._base import SUPERVISED_CONSTRAINTS, BaseSupervisedHash
from skhash.utils._sklearn import HasMethods


class SupervisedHash(BaseSupervisedHash):
    """Codes that are near for rows that share a label, by a loss of choice.

    A network maps rows to logits, and training minimises the loss of each batch of
    logits and labels. The losses are those of deep hashing; see `skhash.losses`.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    loss : str or SupervisedLoss, default="contrastive"
        An instance of a class of `skhash.losses`, or its name with the default
        parameters: "contrastive", "cross_entropy", "csq", "dhn", "dsdh", "dsh", "dtsh",
        "hashnet", "mdshc" or "orthohash". Parameters inside are set as
        ``loss__quantization_weight``.
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
    weight_decay : float, default=5e-4
        That of the optimizer.
    num_workers : int, default=0
        Processes that read a torch ``Dataset``.
    normalize : bool, default=False
        Whether rows are first scaled to unit length.
    lr : float, default=1e-3
        Step size of the optimizer.
    lr_schedule : {"cosine", "inverse_sqrt", "step"}, LRSchedule or None, default=None
        How the step size falls.
    max_epochs : int, default=30
        Number of passes over the data.
    batch_size : int or "auto", default=128
        Rows in a batch; losses of pairs see only those of the same batch.
    optimizer : str or torch.optim.Optimizer class, default="adamw"
        A class of `torch.optim` or its name in any case.
    callbacks : list of skorch callbacks or None, default=None
        Such as `skorch.callbacks.EarlyStopping`.
    validation_fraction : float, callable or None, default=None
        Share of the rows to compute ``valid_loss`` on, or a skorch splitter.
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
    coefs_, intercepts_ : lists of ndarrays, float32, or None
        The layers of the perceptron as it encodes, of shapes (n_inputs, n_outputs) and
        (n_outputs,).
    weights_ : list of ndarrays, or None
        The weights of a network of `module`, and ``weight_names_`` their names.
    mean_ : ndarray of shape (n_features,), or None for a data set
        The mean of the training data.
    scale_ : float
        Root of the mean variance of the columns, the unit inside.
    quantization_error_ : float
        The mean of ``(|tanh(logit)| - 1)^2`` on the training rows.
    intra_distance_, inter_distance_ : float
        The mean Hamming distance of training rows that share a label, and of others.
    separability_ : float
        ``inter_distance_ - intra_distance_``.
    history_ : list of dict
        ``epoch``, ``train_loss``, ``dur`` (seconds) and, with `validation_fraction`,
        ``valid_loss`` of each epoch.
    n_iter_ : int
        Number of epochs trained.
    net_ : skorch net
        ``net_.module_`` is the torch module, its ``objective`` that of the loss.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    DualHashEncoder : The likelihood of pairs with a penalty on a copy of the outputs.
    NeighborHash : Codes of near neighbours, which takes labels too.
    HammingNeighbors : Searches the codes.

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

    _parameter_constraints: dict = {
        **SUPERVISED_CONSTRAINTS,
        "loss": [str, HasMethods(["objective"])],
    }

    def __init__(
        self,
        n_bits=64,
        *,
        loss="contrastive",
        module=None,
        hidden_layer_sizes=(512,),
        dropout=0.0,
        balanced=True,
        input_shape=None,
        weight_decay=5e-4,
        num_workers=0,
        normalize=False,
        lr=1e-3,
        lr_schedule=None,
        max_epochs=30,
        batch_size=128,
        optimizer="adamw",
        callbacks=None,
        validation_fraction=None,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.n_bits = n_bits
        self.loss = loss
        self.module = module
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.balanced = balanced
        self.input_shape = input_shape
        self.weight_decay = weight_decay
        self.num_workers = num_workers
        self.normalize = normalize
        self.lr = lr
        self.lr_schedule = lr_schedule
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.callbacks = callbacks
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _make_objective(self, X, rows, training):
        from skhash.losses import make_loss

        return make_loss(self.loss).objective(training)
