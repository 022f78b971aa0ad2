"""The network and the contrastive loss of `skhash.neural.NeighborHash`."""

import math

import torch
from torch import nn

from skhash.gradients import BernoulliUnits
from skhash.training._module import TrainedModule

# +1 with probability sigmoid(2 a): their mean is tanh(a), of slope 1 at the threshold.
SIGNS = BernoulliUnits(coding="pm1")
TINY = 1e-35  # keeps the logarithm of a sum that vanished finite
# Codes of more bits have room to tell how far rows are, not only which are near.
LONGEST_SHORT_CODE = 64


class NeighborModule(TrainedModule):
    """Linear layers with ReLU between them, trained to tell partners from other rows.

    Every weight is divided by the root of its number of inputs where it is used, so
    that one step size suits all layers, whatever their width.

    Every row is fed with a partner. Labels are one column of classes, -1 where unknown,
    or a 0/1 column for each of several labels.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_features,), float
        What the data are standardised with.
    coefs, intercepts : lists of ndarrays of shapes (n_inputs, n_outputs), (n_outputs,)
        The layers, on standardised data.
    skip_coef : ndarray of shape (n_features, n_bits) or None
        A linear map beside the layers, added to their outputs.
    lengths : sequence of int
        The prefixes to train, the last of all bits.
    temperature : float
        That of a prefix of m bits is ``temperature / sqrt(m)``.
    gradient : LayerwiseGradient
    interpolate : bool
        Whether partners are moved towards their rows while training.
    distance_weight : float
        What `distance_loss` of each length above 64 counts.
    unit_rows : bool
        Whether its distances are those of raw rows of unit length.
    """

    def __init__(
        self,
        *,
        mean,
        scale,
        coefs,
        intercepts,
        skip_coef,
        lengths,
        temperature,
        gradient,
        interpolate,
        distance_weight,
        unit_rows,
    ):
        super().__init__()
        self.mean, self.scale = mean, scale
        self.coefs = nn.ParameterList(_stretched(coef) for coef in coefs)
        self.intercepts = nn.ParameterList(map(_parameter, intercepts))
        self.skip_coef = None if skip_coef is None else _stretched(skip_coef)
        self.lengths = lengths
        self.temperature = temperature
        self.gradient = gradient
        self.interpolate = interpolate
        self.distance_weight = distance_weight
        self.unit_rows = unit_rows
        self.register_buffer("origin", torch.tensor(mean / scale, dtype=torch.float32))

    def forward(self, X):
        if self.training and self.interpolate:
            X = self._interpolated(X)
        values = X
        for i, (coef, intercept) in enumerate(
            zip(self.coefs, self.intercepts, strict=True)
        ):
            values = (values.relu() if i else values) @ _shrunk(coef) + intercept
        if self.skip_coef is not None:
            values = values + X @ _shrunk(self.skip_coef)
        return values

    def loss(self, logits, batch):
        """Return the loss of a batch: the sum over lengths of what each one adds."""
        signs = self.gradient.sample(logits, self.generator, units=SIGNS)
        rows, partners = signs.chunk(2)
        known = _known(*batch.parts())
        temperatures = [self.temperature / math.sqrt(m) for m in self.lengths]
        losses = prefix_losses(rows, partners, self.lengths, temperatures, known)
        long = [m for m in self.lengths if m > LONGEST_SHORT_CODE]
        if not long or self.distance_weight == 0 or batch.labels is not None:
            return losses.sum()
        squares = self._squared_distances(*batch.X.chunk(2))
        off = sum(distance_loss(rows[:, :m], partners[:, :m], squares) for m in long)
        return losses.sum() + self.distance_weight * off

    def _squared_distances(self, rows, partners):
        if self.unit_rows:
            rows, partners = (
                nn.functional.normalize(values + self.origin)
                for values in (rows, partners)
            )
        squares = rows.square().sum(dim=1)[:, None] + partners.square().sum(dim=1)
        return (squares - 2 * rows @ partners.T).clamp(min=0)

    def _interpolated(self, X):
        """Move each partner to a random point on the way to its row."""
        rows, partners = X.chunk(2)
        share = torch.rand(
            (len(rows), 1), generator=self.generator, device=X.device, dtype=X.dtype
        )
        return torch.cat([rows, torch.lerp(rows, partners, share)])


def _known(own, theirs):
    """Say which partners of other rows are known to be near a row too, shape (n, n)."""
    # A table of the distinct partners by the rows that they are near to, its last row
    # for what is no partner here. To compare pair by pair takes longer.
    near = torch.cat([own.rows[:, None], own.partners[:, :, 0]], dim=1)
    distinct, places = theirs.rows.unique(return_inverse=True)
    slots = torch.searchsorted(distinct, near).clamp_(max=len(distinct) - 1)
    slots = torch.where(distinct[slots] == near, slots, len(distinct))
    known = slots.new_zeros(len(distinct) + 1, len(near), dtype=torch.bool)
    known = known.scatter_(0, slots.T, True)[places].T
    if own.labels is None:
        return known.fill_diagonal_(False)
    if own.labels.shape[1] == 1:
        known |= (own.labels == theirs.labels.T) & (own.labels >= 0)
    else:
        known |= own.labels.float() @ theirs.labels.T.float() > 0
    return known.fill_diagonal_(False)


def prefix_losses(rows, partners, lengths, temperatures, known=None):
    """Return the cross-entropy of finding partners, for each length of prefix.

    With ``l_ij = <row_i, partner_j> / (m T)`` over the first m signs, the loss is the
    mean over i of ``-l_ii + (log sum_j exp l_ij + log sum_j exp l_ji) / 2``.

    Parameters
    ----------
    rows, partners : Tensors of shape (n, n_bits)
        Signs; partner i belongs to row i.
    lengths : sequence of int, ascending
    temperatures : sequence of float
        T of each length.
    known : Tensor of shape (n, n), bool, or None
        Pairs that are left out of both sums.

    Returns
    -------
    losses : Tensor of shape (n_lengths,)
    """
    agreement, start, losses = 0.0, 0, []
    if known is not None:
        agreement = rows.new_zeros(known.shape).masked_fill_(known, -math.inf)
    for stop, temperature in zip(lengths, temperatures, strict=True):
        agreement = agreement + rows[:, start:stop] @ partners[:, start:stop].T
        start = stop
        # At most 0, since signs agree at most m times, so that no sum overflows.
        logits = agreement / (stop * temperature) - 1.0 / temperature
        weights = torch.exp(logits)
        normalizers = sum(torch.log(weights.sum(dim=i) + TINY) for i in (0, 1))
        losses.append((normalizers / 2 - logits.diagonal()).mean())
    return torch.stack(losses)


def distance_loss(rows, partners, squares):
    """Return how little Hamming distance follows distance: ``1 - r^2``.

    r is the correlation of agreement and distance over all pairs, where a pair at
    distance d counts ``exp(-d^2 / mean d^2)``: near pairs most.

    Parameters
    ----------
    rows, partners : Tensors of shape (n, n_bits)
        Signs.
    squares : Tensor of shape (n, n)
        The squared distances of rows and partners.

    Returns
    -------
    loss : Tensor, a scalar
    """
    weights = torch.softmax(-(squares / (squares.mean() + TINY)).flatten(), dim=0)

    def centred(values):
        return values - weights @ values

    distance = centred(squares.sqrt().flatten())
    agreement = centred((rows @ partners.T).flatten())
    covariance = weights @ (distance * agreement)
    variances = (weights @ distance.square()) * (weights @ agreement.square())
    return 1 - covariance.square() / (variances + TINY)


def _parameter(values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float32))


def _stretched(coef):
    return _parameter(coef * math.sqrt(len(coef)))


def _shrunk(coef):
    return coef / math.sqrt(len(coef))
