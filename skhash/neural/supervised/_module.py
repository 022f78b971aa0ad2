"""Module of supervised encoders: a network and an objective on its logits."""

from contextlib import contextmanager

import torch
from torch import nn

from skhash.training._module import Rows, TrainedModule


class SupervisedModule(TrainedModule):
    """A network that maps rows to logits, and the objective that they minimize.

    All that the network draws follows the seed of its ``generator``.

    Parameters
    ----------
    encoder : torch.nn.Module
    mean : ndarray of shape (n_features,) or None
    scale : float
        Used to standardize rows before the encoder sees them.
    objective : Objective or None
        None where it is not trained.
    """

    def __init__(self, encoder, mean=None, scale=1.0, objective=None):
        super().__init__()
        self.encoder, self.mean, self.scale = encoder, mean, scale
        self.objective = objective

    def forward(self, X):
        return self.encoder(X)

    def loss(self, logits, batch):
        """Return the objective of a batch."""
        return self.objective(logits, batch.labels, batch.rows, batch.X)

    def rows(self, X, targets, run):
        return Rows(X, labels=targets, split=run.split)

    def learned(self):
        """Return the state of the network alone."""
        state = self.state_dict()
        return {name: state[name] for name in state if name.startswith("encoder.")}

    def start_epoch(self, epoch):
        self.objective.start_epoch(epoch)

    @contextmanager
    def shadow(self):
        """Let batches in the block leave no trace but gradients.

        Batch normalization then uses the statistics of the batch, as always in
        training, without adding them to those it keeps.
        """
        norms = [
            layer
            for layer in self.modules()
            if getattr(layer, "track_running_stats", False)
        ]
        self._set_traceless(norms, True)
        try:
            yield
        finally:
            self._set_traceless(norms, False)

    def _set_traceless(self, norms, is_traceless):
        self.objective.frozen = is_traceless
        for norm in norms:
            norm.track_running_stats = not is_traceless


def hashing_perceptron(sizes, dropout=0.0, balanced=True) -> nn.Sequential:
    """Return linear layers with batch normalization, ReLU and dropout between them.

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units in each hidden layer, and of outputs.
    dropout : float, default=0.0
        The probability that a hidden unit is left out while training.
    balanced : bool, default=True
        Whether the outputs are normalized over the batch too, so that each has mean 0
        and spread 1 before its own gain and offset.
    """
    layers: list[nn.Module] = []
    for n_inputs, n_outputs in zip(sizes[:-1], sizes[1:], strict=True):
        if layers:
            layers += [nn.BatchNorm1d(n_inputs), nn.ReLU(), nn.Dropout(dropout)]
        layers.append(nn.Linear(n_inputs, n_outputs))
    if balanced:
        layers.append(nn.BatchNorm1d(sizes[-1]))
    return nn.Sequential(*layers)


@torch.no_grad()
def folded_layers(encoder: nn.Sequential):
    """Return linear layers equal to a `hashing_perceptron` in evaluation.

    Batch normalization then is a scale and a shift of each output, which go into the
    linear layer before it.

    Returns
    -------
    coefs : list of ndarrays of shape (n_inputs, n_outputs), float32
    intercepts : list of ndarrays of shape (n_outputs,), float32
    """
    coefs, intercepts = [], []
    for layer in encoder:
        if isinstance(layer, nn.Linear):
            coefs.append(_wide(layer.weight.T))
            intercepts.append(_wide(layer.bias))
        elif isinstance(layer, nn.BatchNorm1d):
            gain = _wide(layer.weight) / (_wide(layer.running_var) + layer.eps).sqrt()
            coefs[-1] = coefs[-1] * gain
            shift = intercepts[-1] - _wide(layer.running_mean)
            intercepts[-1] = shift * gain + _wide(layer.bias)
    return [
        [tensor.float().contiguous().numpy() for tensor in tensors]
        for tensors in (coefs, intercepts)
    ]


def _wide(tensor):
    return tensor.cpu().double()  # not every device has float64


def check_outputs(encoder, n_features, n_bits):
    """Raise an error unless a network makes one logit for each bit."""
    with torch.no_grad():
        outputs = encoder.eval()(torch.zeros(2, n_features))
    encoder.train()
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(
            f"The network of module= returns a {type(outputs).__name__}; it must "
            "return one tensor, the logits."
        )
    if outputs.shape != (2, n_bits) or outputs.dtype != torch.float32:
        raise ValueError(
            f"The network of module= maps 2 rows to {outputs.dtype} of shape "
            f"{tuple(outputs.shape)}; it must return torch.float32 of shape "
            f"(2, {n_bits}), for n_bits={n_bits}."
        )
