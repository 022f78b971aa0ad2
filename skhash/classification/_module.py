"""The torch module of a classifier of stochastic binary layers."""

import torch

from skhash.gradients import resolve_network_gradient
from skhash.training._module import Rows, TrainedModule


class ClassifierModule(TrainedModule):
    """A stochastic binary network, and the objective that its classes minimize.

    The labels of a batch are one column of classes.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        Its head has one output for each class.
    gradient : NetworkGradient
    mean : ndarray of shape (n_features,)
    scale : float
        Used to standardize rows.
    n_samples : int
        How many times the units of a row are drawn in a step.
    augment : callable or None
        Changes images while training, as ``augment(images, generator)``.
    shape : tuple of int or None
        (channels, height, width) of the images.
    """

    def __init__(
        self,
        network,
        gradient,
        mean=None,
        scale=1.0,
        *,
        n_samples=1,
        augment=None,
        shape=None,
    ):
        super().__init__()
        self.network, self.gradient = network, gradient
        self.mean, self.scale = mean, scale
        self.n_samples, self.augment, self.shape = n_samples, augment, shape

    def rows(self, X, targets, run):
        self.network.start_training(int(run.trains(X.shape[0]).sum()))
        return Rows(X, targets.codes, targets.weights, split=run.split)

    def forward(self, X):
        if self.augment is None or not self.training:
            return X
        # In the units of the data, where 0 is black.
        mean = torch.as_tensor(self.mean, dtype=X.dtype, device=X.device)
        images = (X * self.scale + mean).unflatten(1, self.shape)
        images = self.augment(images, self.generator)
        return (images.flatten(1) - mean) / self.scale

    def loss(self, outputs, batch):
        """Return the weighted mean over the rows of a batch."""
        # Backpropagation through drawn units has the loss itself as its value.
        gradient = self.gradient if self.training else resolve_network_gradient("st")
        losses = gradient.network_surrogate(
            lambda logits: cross_entropy(logits, batch.labels[:, 0]),
            self.network,
            outputs,
            self.generator,
            n_samples=self.n_samples,
            rows=batch.rows,
        )
        weights = batch.weights
        return (losses if weights is None else losses * weights).mean()

    def end_step(self, optimizer):
        self.network.end_step(optimizer.param_groups[0]["lr"])


def cross_entropy(logits, labels):
    """Return ``-log softmax(logits)`` at the labels, over the last axis.

    Parameters
    ----------
    logits : Tensor of shape (..., n_rows, n_classes)
    labels : Tensor of shape (n_rows,), int64

    Returns
    -------
    losses : Tensor of shape (..., n_rows)
    """
    index = labels[:, None].expand(*logits.shape[:-1], 1)
    return logits.logsumexp(-1) - logits.gather(-1, index)[..., 0]


@torch.no_grad()
def whiten(network, X, deviation=1.0, generator=None):
    """Rescale layers so that their logits have mean 0 and this deviation.

    Of those with a norm, which normalizes by itself, its scale is set. Binary weights
    without one stay as they are.

    One pass, layer by layer, over rows that pass units as their means. It is per
    channel of a convolution.

    Parameters
    ----------
    network : StochasticBinaryNetwork
    X : Tensor of shape (n_rows, n_inputs)
    deviation : float, default=1.0
    generator : torch.Generator or None
        Draws binary weights.
    """
    for layer in network.layers:
        if layer.norm is not None:
            layer.norm.weight.fill_(deviation)
        elif layer.weights.is_real:
            images = layer.realize()(X).unflatten(1, (len(layer.bias), -1))
            std, mean = torch.std_mean(images, dim=(0, 2), correction=0)
            std = torch.where(std > 0, std / deviation, 1)
            layer.bias.copy_((layer.bias - mean) / std)
            layer.weight.div_(std.reshape(-1, *[1] * (layer.weight.ndim - 1)))
        X = layer.units.mean(layer.realize(generator)(X))


@torch.no_grad()
def start_from(network, arrays, weights):
    """Give a network the weights of one that was trained before.

    Parameters
    ----------
    network : StochasticBinaryNetwork
    arrays : list of ndarray
        In the order of the ``state_dict`` of both.
    weights : WeightLaw
        Makes first parameters of real weights, where layers have others.
    """
    names = network.state_dict()
    network.load_state_dict(
        {name: torch.tensor(value) for name, value in zip(names, arrays, strict=True)}
    )
    for layer in network.layers:
        if not layer.weights.is_real:
            layer.weight.copy_(weights.of_real(layer.weight))


@torch.no_grad()
def refresh_statistics(network, batches, generator=None):
    """Set the running statistics of norms to means over batches, by their rows.

    Parameters
    ----------
    network : StochasticBinaryNetwork
    batches : BatchIterator
    generator : torch.Generator or None
        Draws the units and, for each batch, the weights; None uses the likeliest.
    """
    norms = [layer.norm for layer in network.layers if layer.norm is not None]
    before = [norm.momentum for norm in norms]
    network.train()
    n_rows = 0
    for batch, _ in batches:
        n_rows += len(batch.X)
        for norm in norms:
            norm.momentum = len(batch.X) / n_rows
        network(batch.X, generator, deterministic=generator is None)
    network.eval()
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
