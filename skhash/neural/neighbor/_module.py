"""The network of `skhash.neural.NeighborHash`."""

import math

import torch
from torch import nn

from skhash.gradients import BernoulliUnits
from skhash.neural.neighbor._losses import (
    TINY,
    Distances,
    PairLoss,
    ReconstructionLoss,
    agreements,
    product,
)
from skhash.training._module import TrainedModule
from skhash.utils.torch import multiplies_bfloat16

# +1 with probability sigmoid(2 a): their mean is tanh(a), of slope 1 at the threshold.
SIGNS = BernoulliUnits(coding="pm1")
# How much steeper than at first the curves are, at last, that stand for signs.
STEEPEST = 5.0


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
    axes : ndarray of shape (n_inputs, n_features) or None
        What standardised rows are projected on before they are fed.
    coefs, intercepts : lists of ndarrays of shapes (n_inputs, n_outputs), (n_outputs,)
        The layers, on what is fed.
    skip_coef : ndarray of shape (n_inputs, n_bits) or None
        A linear map beside the layers, added to their outputs.
    lengths : sequence of int
        The prefixes to train, the last of all bits.
    temperature : float
        That of a prefix of m bits is ``temperature / sqrt(m)``.
    gradient : LayerwiseGradient or None
        None puts ``tanh(b a)`` in the place of signs of logits a, with b from 1 to 5.
    n_epochs : int
        b is 1 in the first of so many epochs, 5 in the last, and stays so.
    distance_weight, reconstruction_weight : float
        What the losses of distances and of reconstruction count; see `PairLoss` and
        `ReconstructionLoss`. They are left out with labels.
    unit_rows : bool
        Whether these are those of raw rows of unit length.
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
        lengths,
        temperature,
        gradient,
        n_epochs,
        distance_weight,
        reconstruction_weight,
        unit_rows,
        source=None,
    ):
        super().__init__()
        self.mean, self.scale, self.axes = mean, scale, axes
        self.coefs = nn.ParameterList(_stretched(coef) for coef in coefs)
        self.intercepts = nn.ParameterList(map(_parameter, intercepts))
        self.skip_coef = None if skip_coef is None else _stretched(skip_coef)
        n_inputs = len(coefs[0])
        self.decoders = nn.ParameterList(
            nn.Parameter(torch.zeros(length, n_inputs))
            for length in (lengths if reconstruction_weight else ())
        )
        self.lengths = lengths
        self.temperature = temperature
        self.gradient = gradient
        self.n_epochs, self.steepness, self.is_coarse = n_epochs, 1.0, False
        self.distance_weight = distance_weight
        self.reconstruction_weight = reconstruction_weight
        self.unit_rows = unit_rows
        self.source, self.bank = source, None
        origin = mean / scale if axes is None else axes @ mean / scale
        self.register_buffer("origin", torch.tensor(origin, dtype=torch.float32))

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
        last = max(self.n_epochs - 1, 1)
        self.steepness = STEEPEST ** min(epoch / last, 1.0)
        # Curves bear rough products. Hard signs flip by them.
        smooth = self.gradient is None
        self.is_coarse = smooth and multiplies_bfloat16(self.origin.device)

    def loss(self, logits, batch):
        """Return the loss of a batch: the sum over lengths of what each one adds."""
        signs = self._signs(logits)
        agreement = agreements(*signs.chunk(2), self.lengths)
        known, distances = _known(*batch.parts()), None
        knows_rows = batch.labels is None
        if knows_rows and (self.distance_weight or self.reconstruction_weight):
            rows = self._compared(batch.X)
        if knows_rows and self.distance_weight:
            distances = Distances.of(*rows.chunk(2))
        loss = PairLoss.apply(
            agreement,
            self.lengths,
            self.temperature,
            known,
            distances,
            self.distance_weight,
        )
        if knows_rows and self.reconstruction_weight:
            unexplained = ReconstructionLoss.apply(
                signs.chunk(2)[0],
                _standardized(rows).chunk(2)[0],
                self._is_coarse(),
                *self.decoders,
            )
            loss = loss + self.reconstruction_weight * unexplained
        return loss

    def _is_coarse(self):
        # In training products may be rough, where the processor has faster ones for it.
        return self.training and self.is_coarse

    def _signs(self, logits):
        if self.gradient is None:
            return torch.tanh(self.steepness * logits)
        return self.gradient.sample(logits, self.generator, units=SIGNS)

    def _compared(self, X):
        """Return rows as distances are those of, of unit length if the raw ones are."""
        return nn.functional.normalize(X + self.origin) if self.unit_rows else X


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


def _standardized(rows):
    """Return rows about their mean, in units of their spread."""
    rows = rows - rows.mean(dim=0)
    return rows / (rows.square().mean().sqrt() + TINY)


def _parameter(values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float32))


def _stretched(coef):
    return _parameter(coef * math.sqrt(len(coef)))


def _shrunk(coef):
    return coef / math.sqrt(len(coef))
