"""What `skhash.neural.NeighborHash` minimises: losses of pairs, at several lengths."""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch

TINY = 1e-35  # keeps what may vanish away from divisions and logarithms
# How fast pairs that are further from each other than others weigh less.
DECAY = 3.0


def product(left, right, in_bfloat16):
    """Return the product of two matrices, of factors that are rounded to bfloat16."""
    if not in_bfloat16:
        return left @ right
    return (left.bfloat16() @ right.bfloat16()).to(left.dtype)


def agreements(rows, partners, lengths):
    """Return the agreement of rows and partners over the first bits.

    Parameters
    ----------
    rows, partners : Tensors of shape (n, n_bits)
        Signs, or what stands for them, from -1 to 1.
    lengths : sequence of int, ascending

    Returns
    -------
    agreement : Tensor of shape (n_lengths, n, n)
        ``<row_i, partner_j>`` over the first m bits, for each length m.
    """
    blocks = [slice(*bounds) for bounds in pairwise([0, *lengths])]
    products = [rows[:, block] @ partners[:, block].T for block in blocks]
    return torch.stack(products).cumsum(dim=0)


@dataclass(frozen=True)
class Distances:
    """Distances of pairs, and how much each pair counts.

    Attributes
    ----------
    weights : Tensor of shape (n, n)
        ``exp(-3 d^2 / mean d^2)`` of a pair at distance d, divided by the sum.
    centred : Tensor of shape (n, n)
        Distances less their weighted mean.
    variance : Tensor, a scalar
        Their weighted variance.
    """

    weights: torch.Tensor
    centred: torch.Tensor
    variance: torch.Tensor

    @classmethod
    def of(cls, rows, partners):
        """Return those of two Tensors of shape (n, n_features)."""
        squares = rows.square().sum(dim=1)[:, None] + partners.square().sum(dim=1)
        squares = squares.addmm_(rows, partners.T, alpha=-2).clamp_(min=0)
        weights = torch.exp(squares * (-DECAY / (squares.mean() + TINY)))
        weights /= weights.sum()
        centred = squares.sqrt_()
        centred -= (weights * centred).sum()
        return cls(weights, centred, (weights * centred.square()).sum())


class PairLoss(torch.autograd.Function):
    r"""Sum over lengths m of a contrastive loss, and of one of distances.

    With ``l_ij = <row_i, partner_j> / (m T_m)``, ``T_m = T / sqrt(m)``, the first is
    the mean over i of ``-l_ii + (log sum_j exp l_ij + log sum_j exp l_ji) / 2``. The
    second counts `weight` m times: ``1 - r^2``, r being the weighted correlation of
    agreement and distance over all pairs.

    Its gradient comes from the formula, together with the value: what is kept for a
    backward pass otherwise, and that pass itself, take most of the time of a step.

    Parameters
    ----------
    agreement : Tensor of shape (n_lengths, n, n)
        As from `agreements`.
    lengths : sequence of int
    temperature : float
        T.
    known : Tensor of shape (n, n), bool, or None
        Pairs that are left out of both sums.
    distances : Distances or None
        None leaves the second loss out.
    weight : float
    """

    @staticmethod
    def forward(ctx, agreement, lengths, temperature, known, distances, weight):
        sizes = agreement.new_tensor(lengths)[:, None, None]
        loss, gradient = _contrastive(agreement, sizes, temperature, known)
        if distances is not None:
            off, gradient_of_off = _off_distance(agreement, distances, weight * sizes)
            loss, gradient = loss + off, gradient.add_(gradient_of_off)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, of_loss):
        (gradient,) = ctx.saved_tensors
        return of_loss * gradient, None, None, None, None, None


def _contrastive(agreement, sizes, temperature, known):
    n = agreement.shape[1]
    # At most 0, since m signs agree at most m times, so that no sum overflows.
    slope = 1 / (temperature * sizes.sqrt())
    logits = (agreement - sizes) * slope
    terms = torch.exp(logits)
    if known is not None:
        terms.masked_fill_(known, 0.0)
    of_rows = terms.sum(dim=2, keepdim=True) + TINY
    of_partners = terms.sum(dim=1, keepdim=True) + TINY
    own = logits.diagonal(dim1=1, dim2=2).sum()
    loss = ((of_rows.log().sum() + of_partners.log().sum()) / 2 - own) / n
    gradient = terms.mul_(0.5 / of_rows + 0.5 / of_partners)
    gradient.diagonal(dim1=1, dim2=2).sub_(1)
    return loss, gradient.mul_(slope / n)


def _off_distance(agreement, distances, weights):
    mean = (distances.weights * agreement).sum(dim=(1, 2), keepdim=True)
    # A mean of squares less the square of the mean may be all rounding, or below zero.
    centred = agreement - mean
    weighted = distances.weights * centred
    covariance, variance = (
        (weighted * values).sum(dim=(1, 2), keepdim=True)
        for values in (distances.centred, centred)
    )
    variances = distances.variance * variance + TINY
    share = covariance.square() / variances
    ahead = (covariance / variances) * distances.centred
    spread = (share * distances.variance / variances) * centred
    gradient = (2 * weights * distances.weights) * (spread - ahead)
    return (weights * (1 - share)).sum(), gradient


class ReconstructionLoss(torch.autograd.Function):
    """How much of rows their codes do not tell, summed over lengths m.

    It is the mean squared error of an entry, ``sqrt(m)`` times, of a linear decoder of
    the first m bits. Its gradient comes from the formula, as that of `PairLoss`.

    Parameters
    ----------
    signs : Tensor of shape (n, n_bits)
    target : Tensor of shape (n, n_features)
        The rows.
    in_bfloat16 : bool
        See `product`.
    decoders : Tensors of shape (length, n_features)
        A decoder for each length, ``sqrt(m)`` times as large as it is used, so that one
        step size suits them all.
    """

    @staticmethod
    def forward(ctx, signs, target, in_bfloat16, *decoders):
        loss, of_signs, of_decoders = 0.0, torch.zeros_like(signs), []
        for decoder in decoders:
            root = math.sqrt(len(decoder))
            own = signs[:, : len(decoder)]
            error = product(own, decoder / root, in_bfloat16) - target
            loss = loss + root * error.square().mean()
            slope = error.mul_(2 / error.numel())
            of_signs[:, : len(decoder)] += product(slope, decoder.T, in_bfloat16)
            of_decoders.append(product(own.T, slope, in_bfloat16))
        ctx.save_for_backward(of_signs, *of_decoders)
        return loss

    @staticmethod
    def backward(ctx, of_loss):
        of_signs, *of_decoders = (of_loss * saved for saved in ctx.saved_tensors)
        return of_signs, None, None, *of_decoders
