"""Losses of classification and of contrast between classes."""

import math

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from skhash.losses._objective import Objective, SupervisedLoss, signs_of
from skhash.losses._pairwise import mean_where, split_pairs
from skhash.losses._ranges import POSITIVE


class CrossEntropyLoss(SupervisedLoss):
    """Cross-entropy of a linear classifier on tanh of the logits.

    The classifier is trained along with the encoder and is then dropped. With several
    labels a row the mean of the binary cross-entropies of all labels is taken.

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import CrossEntropyLoss
    >>> SupervisedHash(loss=CrossEntropyLoss())
    SupervisedHash(loss=CrossEntropyLoss())
    """

    def objective(self, training):
        bound = 1 / math.sqrt(training.n_bits)
        weight = torch.empty(training.n_classes, training.n_bits)
        weight.uniform_(-bound, bound, generator=training.generator)
        return _CrossEntropyObjective(self, weight)


class _CrossEntropyObjective(Objective):
    def __init__(self, loss, weight):
        super().__init__(loss)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight)))

    def forward(self, logits, labels, rows, X):
        scores = nn.functional.linear(logits.tanh(), self.weight, self.bias)
        if labels.shape[1] == 1 < len(self.weight):
            return cross_entropy(scores, labels[:, 0])
        return binary_cross_entropy_with_logits(scores, labels.to(scores))


class SupervisedContrastiveLoss(SupervisedLoss):
    r"""Contrast of codes: rows of a class agree more than others.

    With signs b of the logits, of l bits:

    .. math::

        - \operatorname*{mean}_i \operatorname*{mean}_{p : s_{ip} = 1} \log
        \frac{\exp(\langle b_i, b_p \rangle / (T \sqrt l))}
        {\sum_{j \ne i} \exp(\langle b_i, b_j \rangle / (T \sqrt l))}

    The first mean is over the rows that share a label with another row of the batch.
    Gradients pass the signs straight through, with the slope of tanh. The scale makes
    the agreement of random codes spread alike for any length.

    Parameters
    ----------
    temperature : float, default=1.0
        T.

    References
    ----------
    P. Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. (2).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import SupervisedContrastiveLoss
    >>> SupervisedHash(loss=SupervisedContrastiveLoss(temperature=2.0))
    SupervisedHash(loss=SupervisedContrastiveLoss(temperature=2.0))
    """

    _parameter_constraints: dict = {"temperature": POSITIVE}

    def __init__(self, temperature=1.0):
        self.temperature = temperature

    def of_batch(self, logits, labels):
        outputs = logits.tanh()
        # Signs, with the slope of tanh.
        signs = outputs + (signs_of(logits) - outputs).detach()
        similar, different = split_pairs(labels)
        divisor = self.temperature * math.sqrt(logits.shape[1])
        agreement = signs @ signs.T / divisor
        others = torch.where(similar | different, agreement, -torch.inf)
        surprise = others.logsumexp(dim=1, keepdim=True) - agreement
        n_similar = similar.sum(dim=1)
        losses = torch.where(similar, surprise, 0).sum(dim=1) / n_similar.clamp(min=1)
        return mean_where(losses, n_similar > 0)
