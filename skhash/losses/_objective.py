"""The contract of losses of supervised encoders, and functions that they share.

A loss is a small object of parameters. Its `objective` makes, for one fit, a torch
module that maps the logits of a batch and their labels to a scalar. Its state (centres,
a table of codes, the weights of a classifier) is buffers and parameters of that module;
parameters are trained along with the encoder. A loss that remembers nothing writes
`of_batch` alone.
"""

import math
from dataclasses import dataclass

import torch
from sklearn.base import BaseEstimator
from torch import nn
from torch.nn.functional import softplus

# The logit of two rows with the same code is half of these, where it is not chosen.
AUTO_SCALES = {None: 5.0, "balanced": 15.0}


@dataclass(frozen=True)
class Training:
    """Facts about a fit that a loss gets to know.

    Attributes
    ----------
    n_bits : int
    labels : Tensor of shape (n_samples, 1) or (n_samples, n_classes), int64
        Labels of all training rows: one column of classes, from 0, or a 0/1 column for
        each of several labels.
    n_classes : int
    encoder : torch.nn.Module
        Maps a batch of rows to logits.
    generator : torch.Generator
        Generator on the CPU, for random initial state of the loss.
    """

    n_bits: int
    labels: torch.Tensor
    n_classes: int
    encoder: nn.Module
    generator: torch.Generator

    @property
    def n_samples(self) -> int:
        return len(self.labels)


class SupervisedLoss(BaseEstimator):
    """Base class of the losses of supervised hashing.

    A subclass overrides ``of_batch``, or ``objective`` if the loss keeps a state during
    a fit.
    """

    _parameter_constraints: dict = {}

    def of_batch(self, logits, labels) -> torch.Tensor:
        """Return the loss of a batch, a scalar, as `Objective.forward` does."""
        raise NotImplementedError(
            f"{type(self).__name__} must define of_batch(logits, labels), or "
            "objective(training) if it keeps a state during the fit."
        )

    def objective(self, training: Training) -> "Objective":
        """Return the torch module to minimize in this fit, on the CPU."""
        return Objective(self)


class Objective(nn.Module):
    """A loss in one fit. This base class keeps no state.

    Parameters
    ----------
    loss : SupervisedLoss or None

    Attributes
    ----------
    epoch : int
        Current epoch; the first one is 0.
    frozen : bool
        If True, a batch must not change the state, although it is trained on.
    """

    epoch, frozen = 0, False

    def __init__(self, loss=None):
        super().__init__()
        self.loss = loss

    @property
    def remembers(self) -> bool:
        """Whether a batch may change the state."""
        return self.training and not self.frozen

    def start_epoch(self, epoch: int) -> None:
        """Called when an epoch starts; the first one is 0."""
        self.epoch = epoch

    def results(self) -> dict:
        """Return attributes to set on the trained encoder."""
        return {}

    def forward(self, logits, labels, rows, X) -> torch.Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_bits)
        labels : Tensor of shape (n, 1) or (n, n_classes), int64
            One column of classes, from 0, or a 0/1 column for each of several labels.
        rows : Tensor of shape (n,), int64
            Positions of the batch's rows among the training rows.
        X : Tensor of shape (n, ...)
            Inputs of the encoder.

        Returns
        -------
        loss : Tensor, a scalar
        """
        return self.loss.of_batch(logits, labels)


def share_label(labels, others=None) -> torch.Tensor:
    """Return which pairs share a label.

    Parameters
    ----------
    labels, others : Tensors of shape (n, 1) or (n, n_classes), int64
        One column of classes, from 0, or a 0/1 column for each of several labels. By
        default the pairs are those of `labels`.

    Returns
    -------
    shared : Tensor of shape (n, n_others), bool
        A row without any label shares none, not even with itself.
    """
    others = labels if others is None else others
    if labels.shape[1] == 1:
        return labels == others.T
    return labels.float() @ others.T.float() > 0


def class_indicator(labels, n_classes: int) -> torch.Tensor:
    """Return labels as a 0/1 column a class, shape (n, n_classes), float32."""
    if labels.shape[1] == 1 < n_classes:
        return nn.functional.one_hot(labels[:, 0], n_classes).float()
    return labels.float()


def signs_of(logits) -> torch.Tensor:
    """Return +1 where a bit is on, as its logit is above 0, else -1."""
    return torch.where(logits > 0, 1.0, -1.0).to(logits)


def split_pairs(labels):
    """Return which pairs of two rows share a label, and which do not.

    Returns
    -------
    similar, different : Tensors of shape (n, n), bool
        Neither has a pair of a row with itself.
    """
    shared = share_label(labels)
    is_self = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return shared & ~is_self, ~shared & ~is_self


def mean_where(values, mask) -> torch.Tensor:
    """Return the mean of the values where `mask` is True, 0 if it nowhere is."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp(min=1)


def log_cosh(x) -> torch.Tensor:
    """Return log cosh(x), a smooth |x|."""
    return softplus(-2 * x.abs()) + x.abs() - math.log(2)


def pairwise_likelihood(codes, labels, logit_scale="auto", pair_weights=None):
    r"""Cross-entropy of whether two rows share a label, given their codes.

    With codes h in [-1, 1], s = 1 for rows that share a label, otherwise 0, and a scale
    a, it is

    .. math::

        \frac{1}{n (n - 1)} \sum_{i \ne j} w_{ij}
        \big[ s_{ij} \log(1 + e^{-\theta_{ij}})
        + (1 - s_{ij}) \log(1 + e^{\theta_{ij}}) \big], \qquad
        \theta_{ij} = \frac a2 \langle h_i, h_j \rangle

    where the bracket equals ``log(1 + exp theta) - s theta``. For signs,
    ``theta = a (m/2 - d)``, with the Hamming distance d of m bits. A row does not pair
    with itself. Memory grows with the square of the number of rows.

    Parameters
    ----------
    codes : Tensor of shape (n, n_bits)
    labels : Tensor of shape (n, 1) or (n, n_classes), int64
    logit_scale : float or "auto", default="auto"
        Scale a. "auto" is 5 / n_bits, with which theta is between -2.5 and 2.5, or 15 /
        n_bits for balanced pairs.
    pair_weights : {None, "balanced"}, default=None
        "balanced" gives similar and dissimilar pairs of a batch equal total weight (Cao
        et al., 2017).

    Returns
    -------
    loss : Tensor, a scalar
    """
    if logit_scale == "auto":
        logit_scale = AUTO_SCALES[pair_weights] / codes.shape[1]
    similar = share_label(labels)
    theta = logit_scale / 2 * (codes @ codes.T)
    losses = softplus(torch.where(similar, -theta, theta))
    weights = torch.ones_like(losses).fill_diagonal_(0)
    if pair_weights == "balanced":
        weights = _balanced(similar, weights)
    return (weights * losses).sum() / max(len(codes) * (len(codes) - 1), 1)


def jaccard(labels) -> torch.Tensor:
    """Return shared labels over all labels of each pair; 0 where there are none."""
    if labels.shape[1] == 1:
        return share_label(labels).float()
    labels = labels.float()
    shared, counts = labels @ labels.T, labels.sum(dim=1)
    return shared / (counts[:, None] + counts - shared).clamp(min=1)


def _balanced(similar, weights):
    """Weight pairs so that both kinds have half of the sum."""
    shares = [(weights * kind).sum() for kind in (similar, ~similar)]
    scales = [weights.sum() / (2 * share.clamp(min=1)) for share in shares]
    return weights * torch.where(similar, *scales)
