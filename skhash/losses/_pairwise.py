"""Losses of a batch alone: of its pairs and triplets, and of its classes."""

import math
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from skhash.losses._objective import (
    Objective,
    SupervisedLoss,
    jaccard,
    log_cosh,
    mean_where,
    pairwise_likelihood,
    signs_of,
    split_pairs,
)
from skhash.utils.parameters import Count, NotNegative, Positive, with_parameters

# Terms of triplets that are held at a time.
TRIPLET_TERMS = 2**22


@with_parameters()
class DHNLoss(SupervisedLoss):
    r"""Deep hashing network (DHN): likelihood of pairs, with outputs near -1 and +1.

    With outputs z = tanh(logits), and s_ij = 1 if rows i and j share a label, otherwise
    0, the loss is

    .. math::

        \operatorname*{mean}_{i \ne j} \big[ \log(1 + e^{\theta_{ij}})
        - s_{ij} \theta_{ij} \big]
        + \alpha \operatorname*{mean}_{i, k} \log \cosh(|z_{ik}| - 1), \qquad
        \theta_{ij} = \tfrac{a}{2} \langle z_i, z_j \rangle

    Parameters
    ----------
    quantization_weight : float, default=0.1
        Weight alpha.
    logit_scale : float or "auto", default="auto"
        Scale a of the products. The paper has 1; "auto" is ``5 / n_bits``, with which
        theta is at most 2.5 for any length.

    References
    ----------
    H. Zhu, M. Long, J. Wang and Y. Cao, "Deep hashing network for efficient similarity
    retrieval", AAAI 2016, eq. (7).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import DHNLoss
    >>> SupervisedHash(n_bits=16, loss=DHNLoss(quantization_weight=0.01))
    SupervisedHash(loss=DHNLoss(quantization_weight=0.01), n_bits=16)
    """

    quantization_weight: NotNegative = 0.1
    logit_scale: Positive | Literal["auto"] = "auto"

    def of_batch(self, logits, labels):
        outputs = logits.tanh()
        to_signs = log_cosh(outputs.abs() - 1).mean()
        likelihood = pairwise_likelihood(outputs, labels, self.logit_scale)
        return likelihood + self.quantization_weight * to_signs


@with_parameters()
class DSHLoss(SupervisedLoss):
    r"""Deep supervised hashing (DSH): contrastive loss with a margin.

    With outputs u (the logits themselves), and s_ij = 1 if rows share a label,
    otherwise 0, the loss is the mean over pairs i != j of

    .. math::

        \tfrac12 s_{ij} d_{ij} + \tfrac12 (1 - s_{ij}) \max(m - d_{ij}, 0)
        + \alpha \big( \| |u_i| - 1 \|_1 + \| |u_j| - 1 \|_1 \big), \qquad
        d_{ij} = \| u_i - u_j \|^2

    Codes of -1 and +1 have ``d_ij = 4 d_H``, so with the default margin, dissimilar
    rows repel each other up to a Hamming distance of half the bits.

    Parameters
    ----------
    margin : float or "auto", default="auto"
        Margin m. "auto" is ``2 n_bits``, as in the paper.
    quantization_weight : float, default=0.01
        Weight alpha.

    References
    ----------
    H. Liu, R. Wang, S. Shan and X. Chen, "Deep supervised hashing for fast image
    retrieval", CVPR 2016, eq. (5).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import DSHLoss
    >>> SupervisedHash(loss=DSHLoss(margin=40.0))
    SupervisedHash(loss=DSHLoss(margin=40.0))
    """

    margin: Positive | Literal["auto"] = "auto"
    quantization_weight: NotNegative = 0.01

    def of_batch(self, logits, labels):
        margin = 2 * logits.shape[1] if self.margin == "auto" else self.margin
        similar, different = split_pairs(labels)
        squares = logits.square().sum(dim=1)
        distances = squares[:, None] + squares - 2 * logits @ logits.T
        apart = (margin - distances).clamp(min=0)
        losses = 0.5 * torch.where(similar, distances, apart)
        to_signs = (logits.abs() - 1).abs().sum(dim=1)
        pairs = mean_where(losses, similar | different)
        return pairs + 2 * self.quantization_weight * to_signs.mean()


@with_parameters()
class DTSHLoss(SupervisedLoss):
    r"""Deep triplet supervised hashing (DTSH): likelihood of triplets.

    A row q should be nearer to a row p that shares a label with it than to a row n that
    shares none. With outputs u (the logits themselves), the loss is

    .. math::

        \operatorname*{mean}_q \operatorname*{mean}_{p, n}
        \log\big(1 + e^{- (\theta_{qp} - \theta_{qn} - m)} \big)
        + \lambda \operatorname*{mean}_{i, k} (u_{ik} - \operatorname{sign} u_{ik})^2,
        \qquad \theta_{ij} = \tfrac12 \langle u_i, u_j \rangle

    The first mean is over the rows q for which there are rows p (other than q) and n.

    Parameters
    ----------
    margin : float, default=8.0
        Margin m. Public programs use 5.
    quantization_weight : float, default=1.0
        Weight lambda.

    Notes
    -----
    A batch of B rows has up to B^3 triplets. At most 2^22 of them are in memory at a
    time; the backward pass computes them again.

    References
    ----------
    X. Wang, Y. Shi and K. M. Kitani, "Deep supervised hashing with triplet labels",
    ACCV 2016, eq. (5).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import DTSHLoss
    >>> SupervisedHash(loss=DTSHLoss(margin=5.0))
    SupervisedHash(loss=DTSHLoss(margin=5.0))
    """

    margin: NotNegative = 8.0
    quantization_weight: NotNegative = 1.0

    def of_batch(self, logits, labels):
        similar, different = split_pairs(labels)
        n_triplets = similar.sum(dim=1) * different.sum(dim=1)
        weights = 1 / n_triplets.to(logits) / (n_triplets > 0).sum()
        similar = similar & (n_triplets > 0)[:, None]
        theta = 0.5 * logits @ logits.T
        to_signs = (logits - signs_of(logits)).square().mean()
        loss = self.quantization_weight * to_signs
        for pairs in similar.nonzero().split(max(1, TRIPLET_TERMS // len(logits))):
            loss = loss + checkpoint(
                self._sum_of_triplets,
                *(theta, weights, different, pairs),
                use_reentrant=False,
                preserve_rng_state=False,
            )
        return loss

    def _sum_of_triplets(self, theta, weights, different, pairs):
        q, p = pairs.T
        gaps = theta[q, p][:, None] - theta[q] - self.margin
        terms = torch.where(different[q], softplus(-gaps), 0)
        return weights[q] @ terms.sum(dim=1)


@with_parameters()
class HashNetLoss(SupervisedLoss):
    r"""HashNet: weighted likelihood of pairs, with outputs that sharpen by epoch.

    With outputs h = tanh(beta logits), and s_ij = 1 if rows share a label, otherwise 0,
    the loss is

    .. math::

        \operatorname*{mean}_{i \ne j} w_{ij} \big[ \log(1 + e^{\theta_{ij}})
        - s_{ij} \theta_{ij} \big], \qquad
        \theta_{ij} = a \langle h_i, h_j \rangle

    For n pairs of the batch, of which n_1 are similar and n_0 are not, the weight of a
    similar pair is ``w = c n / n_1``, and that of any other ``n / n_0``: both kinds
    have equal influence, however rare they are. c is the share of the labels of either
    row that both have (1 if each row has one label).

    Parameters
    ----------
    logit_scale : float or "auto", default="auto"
        Scale a of the products. "auto" is ``10 / n_bits``, as in the authors' program.
    stage_epochs : int, default=20
        Number of epochs after which beta grows: it is
        ``sqrt(1 + epoch // stage_epochs)``.

    References
    ----------
    Z. Cao, M. Long, J. Wang and P. S. Yu, "HashNet: deep learning to hash by
    continuation", ICCV 2017, eq. (4).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import HashNetLoss
    >>> SupervisedHash(loss=HashNetLoss(stage_epochs=5))
    SupervisedHash(loss=HashNetLoss(stage_epochs=5))
    """

    logit_scale: Positive | Literal["auto"] = "auto"
    stage_epochs: Count = 20

    def objective(self, training):
        return _HashNetObjective(self)


class _HashNetObjective(Objective):
    def forward(self, logits, labels, rows, X):
        beta = math.sqrt(1 + self.epoch // self.loss.stage_epochs)
        outputs = (beta * logits).tanh()
        similar, different = split_pairs(labels)
        scale = self.loss.logit_scale
        scale = 10 / logits.shape[1] if scale == "auto" else scale
        theta = scale * outputs @ outputs.T
        losses = softplus(torch.where(similar, -theta, theta))
        losses = torch.where(similar, jaccard(labels).to(losses), 1) * losses
        return mean_where(losses, similar) + mean_where(losses, different)


class CrossEntropyLoss(SupervisedLoss):
    """Cross-entropy of a linear classifier on the tanh of the logits.

    The classifier is trained along with the encoder, and then discarded. For several
    labels per row, the loss is the mean of the binary cross-entropies of all labels.

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
            return nn.functional.cross_entropy(scores, labels[:, 0])
        return nn.functional.binary_cross_entropy_with_logits(scores, labels.to(scores))


@with_parameters()
class SupervisedContrastiveLoss(SupervisedLoss):
    r"""Supervised contrastive loss: codes of a class should agree more than others.

    With signs b of the logits, of l bits, the loss is

    .. math::

        - \operatorname*{mean}_i \operatorname*{mean}_{p : s_{ip} = 1} \log
        \frac{\exp(\langle b_i, b_p \rangle / (T l))}
        {\sum_{j \ne i} \exp(\langle b_i, b_j \rangle / (T l))}

    The first mean is over the rows that share a label with another row of the batch.
    Gradients pass straight through the signs, with the slope of tanh.

    Parameters
    ----------
    temperature : float, default=0.25
        Temperature T of the cosines of codes. For figures, see
        :doc:`/benchmarks/labels`.

    References
    ----------
    P. Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. (2).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import SupervisedContrastiveLoss
    >>> SupervisedHash(loss=SupervisedContrastiveLoss(temperature=0.5))
    SupervisedHash(loss=SupervisedContrastiveLoss(temperature=0.5))
    """

    temperature: Positive = 0.25

    def of_batch(self, logits, labels):
        outputs = logits.tanh()
        # Signs, with the slope of tanh.
        signs = outputs + (signs_of(logits) - outputs).detach()
        similar, different = split_pairs(labels)
        divisor = self.temperature * logits.shape[1]
        agreement = signs @ signs.T / divisor
        others = torch.where(similar | different, agreement, -torch.inf)
        surprise = others.logsumexp(dim=1, keepdim=True) - agreement
        n_similar = similar.sum(dim=1)
        losses = torch.where(similar, surprise, 0).sum(dim=1) / n_similar.clamp(min=1)
        return mean_where(losses, n_similar > 0)
