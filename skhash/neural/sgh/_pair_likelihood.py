"""The likelihood of pairs of rows: similar or not, told from their bits."""

import math

import torch
from torch import nn
from torch.nn.functional import softplus

from skhash.gradients._base import BernoulliUnits, attach_gradient
from skhash.noise import Logistic

# On with probability sigmoid(logit), as the model has it.
SIGNS = BernoulliUnits(Logistic(scale=2.0), "pm1")
# Rows that are no neighbours count together so many times what neighbours do.
STRANGERS = 30


class PairLikelihood(nn.Module):
    """Rows are similar with probability ``sigmoid(scale * agreement + offset)``.

    The agreement of two codes is the inner product of their bits as -1/+1, which is
    ``n_bits`` less twice their Hamming distance. Scale and offset are learned; they
    start where an even chance is halfway between codes that are strangers, whose
    agreement is 0, and equal ones.

    Parameters
    ----------
    scale, offset : float or None
        None is where they start.
    """

    def __init__(self, n_bits, scale=None, offset=None):
        super().__init__()
        scale = 3 / math.sqrt(n_bits) if scale is None else scale
        offset = -scale * n_bits / 2 if offset is None else offset
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.offset = nn.Parameter(torch.tensor(float(offset)))

    def loss(self, rows, others, similar, weight, generator=None):
        """Return minus the weighted sum of the log likelihoods, at sampled bits.

        All pairs of a row and another are taken. Its gradient in the logits is the
        distributional derivative with exact finite differences, so its mean over the
        draws is that of the expectation. For ``f(t)`` of agreement t, switching on a
        bit of sign b whose counterpart has the sign v changes it by::

            v [f(t + 2) - f(t - 2)] / 2 - b [f(t + 2) - 2 f(t) + f(t - 2)] / 2

        so that all bits of all pairs cost one product more than the agreements.

        Parameters
        ----------
        rows, others : Tensors of shape (..., n, n_bits) and (..., m, n_bits)
            Logits a of the bits, which are on with probability ``sigmoid(a)``.
        similar, weight : Tensors of shape (..., n, m)
            1 for similar pairs and 0 for others; and what each counts.
        generator : torch.Generator or None
            Draws the bits.

        Returns
        -------
        loss : Tensor, a scalar
        """
        signs, other_signs = (SIGNS.draw(x, generator) for x in (rows, others))
        agreement = signs @ other_signs.mT
        logit = self.scale * agreement + self.offset
        normalizer = softplus(logit)
        losses = weight * (normalizer - similar * logit)
        with torch.no_grad():
            more, less = (
                softplus(logit + 2 * self.scale),
                softplus(logit - 2 * self.scale),
            )
            slope = weight * ((more - less) / 2 - 2 * self.scale * similar)
            bend = weight * ((more + less) / 2 - normalizer)
            steps = slope @ other_signs - signs * bend.sum(-1)[..., None]
            other_steps = slope.mT @ signs - other_signs * bend.sum(-2)[..., None]
        no_losses = losses.new_zeros(other_signs.shape[:-1])
        return (
            attach_gradient(losses.sum(-1), torch.sigmoid(rows), steps).sum()
            + attach_gradient(no_losses, torch.sigmoid(others), other_steps).sum()
        )


def neighbor_pairs(logits, batch):
    """Return the pairs of a batch of rows and one near neighbour of each.

    Every row is paired with every neighbour. Pairs are similar where either is among
    the neighbours of the other; those that are not count together 30 times as much as
    those that are.

    Parameters
    ----------
    logits : Tensor of shape (2 n, n_bits)
    batch : Batch of n rows and a partner of each
        The candidates of a row are its neighbours.

    Returns
    -------
    rows, others, similar, weight : Tensors
        As `PairLikelihood.loss` takes them; the weights sum to 1, here and below.
    """
    rows, others = logits.chunk(2)
    own, theirs = batch.parts()
    similar = _held(own.partners[:, :, 0], theirs.rows)
    similar = similar | _held(theirs.partners[:, :, 0], own.rows).T
    is_same = own.rows[:, None] == theirs.rows
    near = (similar & ~is_same).to(logits.dtype)
    n_near = near.sum()
    n_far = near.numel() - n_near - is_same.sum()
    far_weight = STRANGERS / n_far.clamp(min=1)
    weight = torch.lerp(far_weight, 1 / n_near.clamp(min=1), near) / (1 + STRANGERS)
    return rows, others, near, weight.masked_fill_(is_same, 0)


def labeled_pairs(logits, batch):
    """Return all pairs among the partners of a batch, whose classes are known."""
    _, rows = logits.chunk(2)
    _, own = batch.parts()
    similar = (own.labels[:, None] == own.labels).to(logits.dtype)
    weight = _share((own.rows[:, None] != own.rows).to(logits.dtype))
    return rows, rows, similar, weight


def listed_pairs(logits, batch):
    """Return the pairs that the first and the second partners of a batch make up.

    The labels of a row say which of its candidates are similar pairs.
    """
    _, rows, others = logits.chunk(3)
    own, first, second = batch.parts()
    firsts, seconds = own.partners.unbind(dim=2)
    drawn = (firsts == first.rows[:, None]) & (seconds == second.rows[:, None])
    # Where a pair is listed several times, with different labels: their mean.
    similar = (drawn * own.labels).sum(dim=1) / drawn.sum(dim=1)
    similar = similar.to(logits.dtype)
    weight = _share(torch.ones_like(similar))
    return rows[:, None], others[:, None], similar[:, None, None], weight[:, None, None]


def _held(table, values):
    """Say which of the values each row of the table holds: (n, k), (m,) to (n, m)."""
    distinct, place = values.unique(return_inverse=True)
    near = torch.searchsorted(distinct, table.contiguous()).clamp(max=len(distinct) - 1)
    rows, columns = (distinct[near] == table).nonzero(as_tuple=True)
    held = torch.zeros(len(table), len(distinct), dtype=torch.bool, device=table.device)
    held[rows, near[rows, columns]] = True
    return held[:, place]


def _share(weight):
    return weight / weight.sum().clamp(min=1)
