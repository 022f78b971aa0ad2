"""The contract of losses of supervised encoders, and relevance by labels.

A loss is a small object of parameters. Its `objective` makes, for one fit, a torch
module that maps the logits of a batch and their labels to a scalar. What a fit
remembers (centres, a table of codes, the weights of a classifier) are buffers and
parameters of that module; parameters are trained along with the encoder. A loss that
remembers nothing writes `of_batch` alone.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.base import BaseEstimator
from torch import nn


@dataclass(frozen=True)
class Training:
    """Facts of a fit that a loss may start from.

    Attributes
    ----------
    n_bits : int
    labels : Tensor of shape (n_samples, 1) or (n_samples, n_classes), int64
        Of all training rows: one column of classes, from 0, or a 0/1 column for each
        of several labels.
    n_classes : int
    encoder : torch.nn.Module
        Maps a batch of rows to logits.
    generator : torch.Generator
        On the CPU; draws whatever the loss starts from.
    itq_codes : callable or None
        Returns the codes of `skhash.ITQHash` for all training rows, of -1 and +1, a
        tensor of shape (n_samples, n_bits).
    """

    n_bits: int
    labels: torch.Tensor
    n_classes: int
    encoder: nn.Module
    generator: torch.Generator
    itq_codes: Callable[[], torch.Tensor] | None = None

    @property
    def n_samples(self) -> int:
        return len(self.labels)


class SupervisedLoss(BaseEstimator):
    """Base of the losses of supervised hashing: one of these methods is to write."""

    _parameter_constraints: dict = {}

    def of_batch(self, logits, labels) -> torch.Tensor:
        """Return the loss of a batch, a scalar, as `Objective.forward` does."""
        raise NotImplementedError(
            f"{type(self).__name__} has to have a method of_batch(logits, labels), or "
            "objective(training) where a fit remembers something."
        )

    def objective(self, training: Training) -> "Objective":
        """Return the module to minimise in this fit, on the CPU."""
        return BatchObjective(self)


class Objective(nn.Module, metaclass=ABCMeta):
    """A loss in one fit.

    Parameters
    ----------
    loss : SupervisedLoss or None

    Attributes
    ----------
    frozen : bool
        While true, a batch is to leave no trace, although it is trained on.
    """

    frozen = False

    def __init__(self, loss=None):
        super().__init__()
        self.loss = loss

    @property
    def remembers(self) -> bool:
        """Whether a batch is one to keep something of."""
        return self.training and not self.frozen

    def start_epoch(self, epoch: int) -> None:
        """Take note that an epoch starts; the first one is 0."""

    def results(self) -> dict:
        """Return what the encoder is to have as attributes, when training is over."""
        return {}

    @abstractmethod
    def forward(self, logits, labels, rows, X) -> torch.Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_bits)
        labels : Tensor of shape (n, 1) or (n, n_classes), int64
            As those of `Training`.
        rows : Tensor of shape (n,), int64
            Positions of the batch among the training rows.
        X : Tensor of shape (n, ...)
            What the encoder was fed.

        Returns
        -------
        loss : Tensor, a scalar
        """


class BatchObjective(Objective):
    """A loss that remembers nothing."""

    def forward(self, logits, labels, rows, X):
        return self.loss.of_batch(logits, labels)


def share_label(labels, others=None) -> torch.Tensor:
    """Say which pairs share a label.

    Parameters
    ----------
    labels, others : Tensors of shape (n, 1) or (n, n_classes), int64
        As those of `Training`; by default the pairs are those of `labels`.

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
