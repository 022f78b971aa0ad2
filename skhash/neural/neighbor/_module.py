"""The network of `skhash.neural.NeighborHash`, and the losses of pairs and lengths."""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from skhash.gradients import BernoulliUnits
from skhash.training._module import TrainedModule, held
from skhash.utils.torch import multiplies_bfloat16

# +1 with probability sigmoid(2 a): their mean is tanh(a), of slope 1 at the threshold.
SIGNS = BernoulliUnits(coding="pm1")
# Final slope of the curves that stand for signs, relative to the first one.
STEEPEST = 5.0
TINY = 1e-30  # keeps divisors and arguments of logarithms above 0
ROUNDING = 1e-6  # of sums, relative to what is added up
# How fast the weight of a pair falls with its distance.
DECAY = 3.0
# The longer a code, the finer it tells rows apart: T_m = T / m^0.3.
COOLING = 0.3
# The more rows there are, the nearer are those that a search is for.
SHARPNESS = 0.35  # the power of the number of rows


@dataclass(frozen=True)
class Contrast:
    """The losses that a `NeighborModule` is trained for.

    Attributes
    ----------
    lengths : sequence of int
        The prefixes to train, the last of all bits.
    temperature : float
        That of a prefix of m bits is ``temperature / m^0.3``.
    n_samples : int
        The rows of the data, for `sharpness`.
    by_distance : bool
        Whether partners are wanted by their distance; see `wanted_by_distance`. With
        labels, or if it is False, all that are known to be near are wanted alike.
    n_epochs : int
        b is 1 in the first of these epochs, 5 in the last, and stays 5.
    distance_weight, reconstruction_weight : float
        Weights of the losses of distances and of reconstruction; see `PairLoss` and
        `ReconstructionLoss`. They are left out with labels, and unless `by_distance`.
    unit_rows : bool
        Whether these are those of raw rows of unit length.
    """

    lengths: list
    temperature: float
    n_samples: int
    by_distance: bool
    distance_weight: float
    reconstruction_weight: float
    unit_rows: bool
    n_epochs: int

    @property
    def sharpness(self) -> float:
        """How much likelier the nearest partner of a batch is wanted than a usual one.

        One at a mean distance is wanted ``exp(sharpness)`` times less.
        """
        return self.n_samples**SHARPNESS


class NeighborModule(TrainedModule):
    """Linear layers with ReLU between them, trained to tell partners from other rows.

    Every weight is divided by the root of its number of inputs where it is used, so
    that one step size suits all layers, whatever their width.

    Every row is fed with a partner. Labels are one column of classes, -1 where unknown,
    or a 0/1 column for each of several labels.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_features,), float
        Used to standardise the data.
    axes : ndarray of shape (n_inputs, n_features)
        Standardised rows are projected on these before they are fed.
    coefs, intercepts : lists of ndarrays of shapes (n_inputs, n_outputs), (n_outputs,)
        The layers, for projected rows.
    skip_coef : ndarray of shape (n_inputs, n_bits) or None
        A linear map beside the layers, added to their outputs.
    contrast : Contrast
        The losses.
    gradient : LayerwiseGradient or None
        None puts ``tanh(b a)`` in the place of signs of logits a, with b from 1 to 5.
    source : NearRows or None
        Finds the partners of rows.
    """

    def __init__(
        self,
        coefs,
        intercepts,
        skip_coef,
        *,
        mean,
        scale,
        axes,
        contrast,
        gradient=None,
        source=None,
    ):
        super().__init__()
        self.mean, self.scale, self.axes = mean, scale, axes
        self.coefs = nn.ParameterList(_stretched(coef) for coef in coefs)
        self.intercepts = nn.ParameterList(map(_parameter, intercepts))
        self.skip_coef = None if skip_coef is None else _stretched(skip_coef)
        self.decoders = nn.ParameterList(
            nn.Parameter(torch.zeros(length, len(coefs[0])))
            for length in (contrast.lengths if contrast.reconstruction_weight else ())
        )
        self.contrast, self.gradient = contrast, gradient
        self.steepness, self.is_coarse = 1.0, False
        self.source, self.bank = source, None
        origin = torch.tensor(axes @ mean / scale, dtype=torch.float32)
        self.register_buffer("origin", origin)

    def forward(self, X):
        values = X
        for i, (coef, intercept) in enumerate(
            zip(self.coefs, self.intercepts, strict=True)
        ):
            values = values.relu() if i else values
            values = product(values, _shrunk(coef), self._is_coarse()) + intercept
        if self.skip_coef is not None:
            values = values + product(X, _shrunk(self.skip_coef), self._is_coarse())
        return values

    def rows(self, X, targets, run):
        rows, bank = self.source.rows(X, targets, run, self.bank)
        # Rows of the past belong to streams.
        self.bank = bank if run.phases is None else None
        return rows

    def start_epoch(self, epoch):
        last = max(self.contrast.n_epochs - 1, 1)
        self.steepness = STEEPEST ** min(epoch / last, 1.0)
        # Curves bear rough products. Hard signs flip by them.
        smooth = self.gradient is None
        self.is_coarse = smooth and multiplies_bfloat16(self.origin.device)

    def loss(self, logits, batch):
        """Return the loss of a batch, a sum over lengths."""
        signs = self._signs(logits)
        rows, partners = signs.chunk(2)
        contrast = self.contrast
        pair_loss = partial(
            PairLoss.apply, rows, partners, contrast.lengths, contrast.temperature
        )
        if batch.labels is not None or not contrast.by_distance:
            near = _known(*batch.parts()).to(signs.dtype)
            return pair_loss(wanted_alike(near), None, 0.0)
        X = self._compared(batch.X)
        squares = squared_distances(*X.chunk(2))
        wanted, distances = wanted_by_distance(squares, contrast.sharpness), None
        if contrast.distance_weight:
            distances = Distances.of(squares)
        loss = pair_loss(wanted, distances, contrast.distance_weight)
        if contrast.reconstruction_weight:
            target = _standardized(X).chunk(2)[0]
            unexplained = ReconstructionLoss.apply(
                rows, target, self._is_coarse(), *self.decoders
            )
            loss = loss + contrast.reconstruction_weight * unexplained
        return loss

    def _is_coarse(self):
        # In training products may be rough, where the processor has faster ones for it.
        return self.training and self.is_coarse

    def _signs(self, logits):
        if self.gradient is None:
            return torch.tanh(self.steepness * logits)
        return self.gradient.sample(logits, self.generator, units=SIGNS)

    def _compared(self, X):
        """Return rows to measure distances of, of unit length if the raw ones are."""
        return (
            nn.functional.normalize(X + self.origin) if self.contrast.unit_rows else X
        )


def _known(first, second):
    """Return which of the second rows are near a first one: a mask (n, n)."""
    near = torch.cat([first.rows[:, None], first.partners[:, :, 0]], dim=1)
    known = held(near, second.rows)
    if first.labels is None:
        return known.fill_diagonal_(True)
    if first.labels.shape[1] == 1:
        known |= (first.labels == second.labels.T) & (first.labels >= 0)
    else:
        known |= first.labels.float() @ second.labels.T.float() > 0
    return known.fill_diagonal_(True)


def _standardized(rows):
    """Return centred rows in units of their spread."""
    rows = rows - rows.mean(dim=0)
    return rows / (rows.square().mean().sqrt() + TINY)


def _parameter(values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float32))


def _stretched(coef):
    return _parameter(coef * math.sqrt(len(coef)))


def _shrunk(coef):
    return coef / math.sqrt(len(coef))


def product(left, right, in_bfloat16):
    """Return the product of two matrices, rounded to bfloat16 first if wanted."""
    if not in_bfloat16:
        return left @ right
    return (left.bfloat16() @ right.bfloat16()).to(left.dtype)


def squared_distances(rows, partners):
    """Return those of two Tensors of shape (n, n_features), of shape (n, n)."""
    squares = rows.square().sum(dim=1)[:, None] + partners.square().sum(dim=1)
    return squares.addmm_(rows, partners.T, alpha=-2).clamp_(min=0)


def wanted_by_distance(squares, sharpness):
    r"""Return how much partners are wanted, from both sides, by their distance.

    A row i wants partner j with probability ``softmax_j(-c (d_ij^2 - min) / (mean -
    min))``, minimum and mean being over j: in units of how far the nearest partner is
    from a usual one, whatever the data. A partner wants rows likewise.

    Parameters
    ----------
    squares : Tensor of shape (n, n)
        Squared distances of rows and partners.
    sharpness : float
        c.

    Returns
    -------
    wanted : Tensor of shape (n, n)
        The sum of both probabilities.
    """
    wanted = 0.0
    for dim in (0, 1):
        least = squares.min(dim=dim, keepdim=True).values
        unit = squares.mean(dim=dim, keepdim=True) - least + TINY
        wanted = wanted + torch.softmax((least - squares) * (sharpness / unit), dim)
    return wanted


def wanted_alike(near):
    """Return how much partners are wanted if those near (n, n), 0 or 1, are equal."""
    return sum(near / near.sum(dim=dim, keepdim=True) for dim in (0, 1))


@dataclass(frozen=True)
class Distances:
    """Distances of pairs, and how much each pair counts.

    Attributes
    ----------
    weights : Tensor of shape (n, n)
        ``exp(-3 d^2 / mean d^2)`` of a pair at distance d, divided by the sum.
    aligned : Tensor of shape (n, n)
        Weights times distances less their weighted mean.
    variance : Tensor, a scalar
        Their weighted variance.
    """

    weights: torch.Tensor
    aligned: torch.Tensor
    variance: torch.Tensor

    @classmethod
    def of(cls, squares):
        """Return the distances of which these are the squares; they are overwritten."""
        weights = torch.exp(squares * (-DECAY / (squares.mean() + TINY)))
        weights /= weights.sum()
        centred = squares.sqrt_()
        mean = weights.flatten() @ centred.flatten()
        centred -= mean
        centred -= weights.flatten() @ centred.flatten()  # what rounding left
        aligned = weights * centred
        variance = aligned.flatten() @ centred.flatten()
        # Of equal distances, it may be all rounding.
        variance = torch.maximum(variance, ROUNDING * mean.square())
        return cls(weights, aligned, variance)


class PairLoss(torch.autograd.Function):
    r"""Sum over lengths m of a contrastive loss and a loss of distances.

    With ``l_ij = <row_i, partner_j> / (m T_m)`` over the first m signs, ``T_m = T /
    m^0.3``, the first is half the mean over i of ``log sum_j exp l_ij + log sum_j exp
    l_ji - sum_j w_ij l_ij``. The second counts `weight` m times: ``1 - r^2``, r being
    the weighted correlation of agreement and distance over all pairs.

    Its gradient comes from the formula, together with the value: a backward pass, and
    the values kept for it, would be most of the time of a step.

    Parameters
    ----------
    rows, partners : Tensors of shape (n, n_bits)
        Signs, or relaxed ones, from -1 to 1.
    lengths : sequence of int, ascending
    temperature : float
        T.
    wanted : Tensor of shape (n, n)
        w: how much rows want partners and partners rows, a distribution each.
    distances : Distances or None
        None leaves the second loss out.
    weight : float
    """

    @staticmethod
    def forward(ctx, rows, partners, lengths, temperature, wanted, distances, weight):
        blocks = [slice(*bounds) for bounds in pairwise([0, *lengths])]
        agreement, loss, slopes = torch.zeros_like(wanted), 0.0, []
        # A length after the other, so that matrices of pairs stay in the cache.
        for block, m in zip(blocks, lengths, strict=True):
            agreement.addmm_(rows[:, block], partners[:, block].T)
            contrast, slope = _contrastive(agreement, m, temperature, wanted)
            loss = loss + contrast
            if distances is not None:
                loss = loss + _off_distance(agreement, distances, weight * m, slope)
            slopes.append(slope)
        of_rows, of_partners = torch.empty_like(rows), torch.empty_like(partners)
        slope = torch.zeros_like(wanted)
        # The first bits belong to all lengths, the last to the longest alone.
        for block, of_length in zip(reversed(blocks), reversed(slopes), strict=True):
            slope += of_length
            torch.mm(slope, partners[:, block], out=of_rows[:, block])
            torch.mm(slope.T, rows[:, block], out=of_partners[:, block])
        ctx.save_for_backward(of_rows, of_partners)
        return loss

    @staticmethod
    def backward(ctx, of_loss):
        of_rows, of_partners = ctx.saved_tensors
        return of_loss * of_rows, of_loss * of_partners, None, None, None, None, None


# Passes over matrices of pairs are most of the time of a step: these make few.
def _contrastive(agreement, m, temperature, wanted):
    n = len(agreement)
    slope = 1 / (temperature * m ** (1 - COOLING))
    # At most 0, since m signs agree at most m times, so that no sum overflows.
    terms = agreement.new_tensor(-slope * m).add(agreement, alpha=slope).exp_()
    attained = slope * (agreement.flatten() @ wanted.flatten() - m * wanted.sum())
    of_rows = terms.sum(dim=1, keepdim=True) + TINY
    of_partners = terms.sum(dim=0, keepdim=True) + TINY
    loss = of_rows.log().sum() + of_partners.log().sum() - attained
    slope /= 2 * n
    terms.mul_(slope / of_rows + slope / of_partners).sub_(wanted, alpha=slope)
    return loss / (2 * n), terms


def _off_distance(agreement, distances, weight, slope):
    """Return the loss, whose slope is added to `slope`."""
    weighted = distances.weights * agreement
    mean, square = weighted.sum(), weighted.flatten() @ agreement.flatten()
    # The difference may be all rounding, or below zero.
    variance = torch.maximum(square - mean.square(), ROUNDING * square) + TINY
    covariance = distances.aligned.flatten() @ agreement.flatten()
    unit = 2 * weight * covariance / (distances.variance * variance + TINY)
    steepness = unit * covariance / variance
    slope.addcmul_(weighted, steepness).addcmul_(distances.weights, -steepness * mean)
    slope.addcmul_(distances.aligned, -unit)
    return weight - unit * covariance / 2


class ReconstructionLoss(torch.autograd.Function):
    """Error of rows decoded from their codes, summed over lengths m.

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
        kind = torch.bfloat16 if in_bfloat16 else signs.dtype
        loss, of_signs, of_decoders = 0.0, torch.zeros_like(signs), []
        rounded = signs.to(kind)
        for decoder in decoders:
            m, root = len(decoder), math.sqrt(len(decoder))
            prefix = rounded[:, :m]
            error = (prefix @ (decoder / root).to(kind)).to(signs.dtype) - target
            loss = loss + root * error.square().mean()
            slope = error.mul_(2 / error.numel()).to(kind)
            of_signs[:, :m] += slope @ decoder.T.to(kind)
            of_decoders.append((prefix.T @ slope).to(signs.dtype))
        ctx.save_for_backward(of_signs, *of_decoders)
        return loss

    @staticmethod
    def backward(ctx, of_loss):
        of_signs, *of_decoders = (of_loss * saved for saved in ctx.saved_tensors)
        return of_signs, None, None, *of_decoders
