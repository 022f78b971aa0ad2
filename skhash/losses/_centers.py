"""Losses that draw rows to the centres of their classes."""

import copy
import math
from typing import Annotated, Literal

import numpy as np
import torch
from scipy.linalg import hadamard
from torch.nn.functional import normalize, softplus

from skhash.losses._objective import (
    Objective,
    SupervisedLoss,
    class_indicator,
    log_cosh,
    mean_where,
    share_label,
)
from skhash.utils._sklearn import StrOptions
from skhash.utils.parameters import (
    CountFrom0,
    NotNegative,
    Positive,
    Share,
    with_parameters,
)

# Cosines are kept so far from 1, where the slope of the angle is infinite.
COSINE_GAP = 1e-6
# Random codes among which a centre is chosen.
CANDIDATES = 1024


def hash_centers(n_classes, n_bits, method, generator) -> torch.Tensor:
    """Return a centre for each class, a code of -1 and +1.

    Parameters
    ----------
    n_classes, n_bits : int
        Number of classes, and of bits per centre.
    method : {"hadamard", "bernoulli", "distance"}
        "hadamard" takes rows of Hadamard matrices, in random order and with random
        signs. Up to `n_bits` centres differ pairwise in half of the bits, and up to
        ``2 n_bits`` in half of them or in all. Lengths that are not powers of two are
        composed of blocks that are, such as 48 = 32 + 16. Each block then has these
        distances for as many classes as it has bits, or twice as many; classes beyond
        that share its rows. Classes beyond twice the largest block get random signs,
        which may be close to each other; use "distance" instead.

        "bernoulli" draws random signs.

        "distance" starts from "hadamard" and replaces centres until any two differ in
        at least one bit more than the Gilbert-Varshamov bound guarantees, or for four
        rounds per class. Each round replaces the centre that is nearest to another by
        the random code that is farthest from all others. (Wang et al., 2023, instead
        optimize real vectors and round them.)
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    centers : Tensor of shape (n_classes, n_bits), float32
        The centres, of -1 and +1.

    Raises
    ------
    ValueError
        If `method` is not one of these.

    References
    ----------
    L. Yuan et al., "Central similarity quantization for efficient image and video
    retrieval", CVPR 2020, algorithm 1.

    L. Wang, Y. Pan, C. Liu, H. Lai, J. Yin and Y. Liu, "Deep hashing with
    minimal-distance-separated hash centers", CVPR 2023.

    Examples
    --------
    >>> import torch
    >>> from skhash.losses import hash_centers
    >>> centers = hash_centers(3, 8, "hadamard", torch.Generator().manual_seed(0))
    >>> (8 - centers @ centers.T) / 2
    tensor([[0., 4., 4.],
            [4., 0., 4.],
            [4., 4., 0.]])
    """
    if method not in CENTERS:
        names = ", ".join(map(repr, CENTERS))
        raise ValueError(f"centers={method!r} is not one of {names}.")
    return CENTERS[method](n_classes, n_bits, generator)


def gilbert_varshamov_distance(n_classes, n_bits) -> int:
    """Return the pairwise distance that `n_classes` codes can almost always have.

    It is the smallest d for which the Hamming balls of radius d - 1 around all centres
    together hold at least as many codes as exist. For d - 1, the Gilbert-Varshamov
    bound guarantees that such centres exist (Wang et al., 2023, eq. 4).

    Examples
    --------
    >>> from skhash.losses._centers import gilbert_varshamov_distance
    >>> [gilbert_varshamov_distance(10, n_bits) for n_bits in (16, 32, 48, 64)]
    [6, 13, 21, 28]
    """
    radius, ball = 0, 1
    while n_classes * ball < 2**n_bits:
        radius += 1
        ball += math.comb(n_bits, radius)
    return radius + 1


def multilabel_centers(indicator, centers, ties) -> torch.Tensor:
    """Return the sign of the sum of each row's centres.

    Parameters
    ----------
    indicator : Tensor of shape (n, n_classes), float
        1 where a row has a label. With one label a row has that centre.
    centers : Tensor of shape (n_classes, n_bits)
    ties : Tensor of shape (n_bits,)
        The signs that sums of zero take.
    """
    sums = indicator @ centers
    return torch.where(sums == 0, ties, sums.sign())


def _random_signs(n_rows, n_bits, generator):
    return torch.randint(0, 2, (n_rows, n_bits), generator=generator) * 2.0 - 1


def _hadamard_centers(n_classes, n_bits, generator):
    blocks = [1 << i for i in range(n_bits.bit_length()) if n_bits >> i & 1]
    largest = blocks[-1]
    n_rows = min(n_classes, 2 * largest)
    centers = []
    for size in blocks:
        order = torch.randperm(size, generator=generator)
        signs = _random_signs(size, 1, generator)
        rows = signs * torch.from_numpy(hadamard(size, np.float32))[order]
        both = torch.cat([rows, -rows])
        centers.append(both[torch.arange(n_rows) % len(both)])
    rest = _random_signs(n_classes - n_rows, n_bits, generator)
    return torch.cat([torch.cat(centers, dim=1), rest])


def _distant_centers(n_classes, n_bits, generator):
    centers = _hadamard_centers(n_classes, n_bits, generator)
    # Two codes that differ in d bits have the inner product n_bits - 2 d.
    largest = n_bits - 2 * gilbert_varshamov_distance(n_classes, n_bits)
    products = (centers @ centers.T).fill_diagonal_(-n_bits)
    for _ in range(4 * n_classes):
        nearest, worst = products.amax(dim=1).max(dim=0)
        if nearest <= largest:
            break
        candidates = _random_signs(CANDIDATES, n_bits, generator)
        others = candidates @ centers.T
        others[:, worst] = -n_bits
        least, best = others.amax(dim=1).min(dim=0)
        if least < nearest:
            centers[worst] = candidates[best]
            products[worst] = products[:, worst] = others[best]
    return centers


CENTERS = {
    "bernoulli": _random_signs,
    "distance": _distant_centers,
    "hadamard": _hadamard_centers,
}


@with_parameters()
class OrthoHashLoss(SupervisedLoss):
    r"""OrthoHash: cross-entropy of cosines to fixed class centres, with a margin.

    With outputs h (the logits themselves), class centres c_k, and labels y_ik that are
    1 / (number of labels of row i) or 0, the loss is

    .. math::

        - \operatorname*{mean}_i \sum_k y_{ik} \log \frac{\exp(s \, q_{ik})}
        {\sum_{k'} \exp(s \, q_{ik'})}

    where q_ik is the cosine of h_i and c_k. For classes of the row, the margin is
    subtracted from the cosine ("cos"), or added to the angle, up to pi ("arc").

    Parameters
    ----------
    centers : {"hadamard", "bernoulli", "distance"}, default="hadamard"
        Kind of centres; see `hash_centers`. The authors use "bernoulli".
    margin : float, default=0.2
        Margin for the classes of a row.
    margin_type : {"cos", "arc"}, default="cos"
        Whether the margin applies to the cosine or to the angle.
    scale : float, default=2.0
        Factor s of the cosines. The authors use 8.

    References
    ----------
    J. T. Hoe et al., "One loss for all: deep hashing with a single cosine similarity
    based learning objective", NeurIPS 2021, eq. (5).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import OrthoHashLoss
    >>> SupervisedHash(loss=OrthoHashLoss(margin_type="arc"))
    SupervisedHash(loss=OrthoHashLoss(margin_type='arc'))
    """

    centers: Annotated[str, StrOptions({*CENTERS})] = "hadamard"
    margin: NotNegative = 0.2
    margin_type: Literal["arc", "cos"] = "cos"
    scale: Positive = 2.0

    def objective(self, training):
        return _OrthoHashObjective(self, training)


class CenterObjective(Objective):
    """A loss of the centres of a fit's classes, drawn from its generator."""

    def __init__(self, loss, training):
        super().__init__(loss)
        centers = hash_centers(
            training.n_classes, training.n_bits, loss.centers, training.generator
        )
        self.register_buffer("centers", centers)


class _OrthoHashObjective(CenterObjective):
    def forward(self, logits, labels, rows, X):
        indicator = class_indicator(labels, len(self.centers)).to(logits)
        cosines = cosines_to(logits, self.centers)
        if self.loss.margin_type == "arc":
            angles = cosines.clamp(COSINE_GAP - 1, 1 - COSINE_GAP).arccos()
            raised = (angles + self.loss.margin).clamp(max=math.pi).cos()
        else:
            raised = cosines - self.loss.margin
        cosines = torch.where(indicator > 0, raised, cosines)
        surprises = -(self.loss.scale * cosines).log_softmax(dim=1)
        n_labels = indicator.sum(dim=1)
        losses = (indicator * surprises).sum(dim=1) / n_labels.clamp(min=1)
        return mean_where(losses, n_labels > 0)


@with_parameters()
class CSQLoss(SupervisedLoss):
    r"""Central similarity quantization (CSQ): binary cross-entropy to class centres.

    With probabilities p = sigmoid(2 logits), and the centre c_i of row i, of zeros and
    ones, the loss is

    .. math::

        - \operatorname*{mean}_{i, k} \big[ c_{ik} \log p_{ik}
        + (1 - c_{ik}) \log(1 - p_{ik}) \big]
        + \lambda \operatorname*{mean}_{i, k} \log \cosh(|2 p_{ik} - 1| - 1)

    The centre of a row with several labels is the sign of the sum of their centres,
    with ties decided by a fixed random code. Means are over the rows that have a label.

    Parameters
    ----------
    centers : {"hadamard", "bernoulli", "distance"}, default="hadamard"
        Kind of centres; see `hash_centers`.
    quantization_weight : float, default=1e-4
        Weight lambda.

    References
    ----------
    L. Yuan et al., "Central similarity quantization for efficient image and video
    retrieval", CVPR 2020, eq. (5) and (7). Public programs have the square of
    ``|2p - 1| - 1`` in place of the logarithm.

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import CSQLoss
    >>> SupervisedHash(loss=CSQLoss(quantization_weight=0.1))
    SupervisedHash(loss=CSQLoss(quantization_weight=0.1))
    """

    centers: Annotated[str, StrOptions({*CENTERS})] = "hadamard"
    quantization_weight: NotNegative = 1e-4

    def objective(self, training):
        return _CSQObjective(self, training)


class _CSQObjective(CenterObjective):
    def __init__(self, loss, training):
        super().__init__(loss, training)
        ties = hash_centers(1, training.n_bits, "bernoulli", training.generator)[0]
        self.register_buffer("ties", ties)

    def forward(self, logits, labels, rows, X):
        indicator = class_indicator(labels, len(self.centers)).to(logits)
        centers = multilabel_centers(indicator, self.centers, self.ties)
        entropies = softplus(-2 * centers * logits)
        to_signs = log_cosh(logits.tanh().abs() - 1)
        losses = (entropies + self.loss.quantization_weight * to_signs).mean(dim=1)
        return mean_where(losses, indicator.any(dim=1))


@with_parameters()
class MDSHCLoss(SupervisedLoss):
    r"""MDSHC: cross-entropy to well-separated class centres, and a loss of pairs.

    With outputs u = tanh(logits) of l bits, class centres c_k, and p_ik the softmax
    over k of sqrt(l) cos(u_i, c_k), the loss is

    .. math::

        - \operatorname*{mean}_{i, k} \big[ s_{ik} \log p_{ik}
        + (1 - s_{ik}) \log(1 - p_{ik}) \big]
        + \beta \operatorname*{mean}_{i, j : s_{ij} = 1}
        \log\big(1 + e^{(1 - \cos(u_i, m_j)) / 2} \big)
        + \lambda \operatorname*{mean}_{i, k} (|u_{ik}| - 1)^2

    s_ik says whether row i has label k, and s_ij whether rows i and j share one. m_j is
    the last output for training row j of a second encoder, whose weights are an
    exponential average of those of the first, and which runs without dropout.

    Parameters
    ----------
    centers : {"distance", "hadamard", "bernoulli"}, default="distance"
        Kind of centres; see `hash_centers`.
    pair_weight : float, default=1.0
        Weight beta.
    pair_epoch : int, default=9
        First epoch with the second term; epochs count from 0.
    momentum : float, default=0.9
        Share of the average that is kept with each batch.
    quantization_weight : float, default=0.1
        Weight lambda. The authors use 1e-4.

    Notes
    -----
    The second term needs memory for ``batch_size * n_samples`` cosines.

    References
    ----------
    L. Wang, Y. Pan, C. Liu, H. Lai, J. Yin and Y. Liu, "Deep hashing with
    minimal-distance-separated hash centers", CVPR 2023, eq. (9) to (12).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import MDSHCLoss
    >>> SupervisedHash(loss=MDSHCLoss(pair_epoch=2))
    SupervisedHash(loss=MDSHCLoss(pair_epoch=2))
    """

    centers: Annotated[str, StrOptions({*CENTERS})] = "distance"
    pair_weight: NotNegative = 1.0
    pair_epoch: CountFrom0 = 9
    momentum: Share = 0.9
    quantization_weight: NotNegative = 0.1

    def objective(self, training):
        return _MDSHCObjective(self, training)


class _MDSHCObjective(CenterObjective):
    def __init__(self, loss, training):
        super().__init__(loss, training)
        self.register_buffer("labels", training.labels)
        self.register_buffer("bank", torch.zeros(training.n_samples, training.n_bits))
        # In a tuple, as the encoder is no part of the objective.
        self.encoder = (training.encoder,)
        self.follower = copy.deepcopy(training.encoder).requires_grad_(False)

    def forward(self, logits, labels, rows, X):
        outputs = logits.tanh()
        to_signs = (outputs.abs() - 1).square().mean()
        loss = self._center_loss(outputs, labels)
        loss = loss + self.loss.quantization_weight * to_signs
        if self.remembers:
            self._follow()
        if self.epoch >= self.loss.pair_epoch:
            pair_loss = self._pair_loss(outputs, labels, rows, X)
            loss = loss + self.loss.pair_weight * pair_loss
        return loss

    def _center_loss(self, outputs, labels):
        cosines = cosines_to(outputs, self.centers)
        log_p = (math.sqrt(outputs.shape[1]) * cosines).log_softmax(dim=1)
        has_label = class_indicator(labels, len(self.centers)).to(log_p) > 0
        return -torch.where(has_label, log_p, log_complement(log_p)).mean()

    @torch.no_grad()
    def _follow(self):
        (encoder,) = self.encoder
        follower, step = self.follower, 1 - self.loss.momentum
        pairs = zip(follower.parameters(), encoder.parameters(), strict=True)
        for old, new in pairs:
            old.lerp_(new, step)
        for old, new in zip(follower.buffers(), encoder.buffers(), strict=True):
            old.copy_(new)

    def _pair_loss(self, outputs, labels, rows, X):
        if self.remembers:
            with torch.no_grad():
                self.bank[rows] = self.follower.eval()(X).tanh()
        is_known = (self.bank != 0).any(dim=1)
        similar = share_label(labels, self.labels) & is_known
        cosines = cosines_to(outputs, self.bank)
        return mean_where(softplus((1 - cosines) / 2), similar)


def cosines_to(outputs, codes) -> torch.Tensor:
    """Return the cosine of each row of `outputs` with each row of `codes`."""
    return normalize(outputs) @ normalize(codes).T


def log_complement(log_p) -> torch.Tensor:
    """Return ``log(1 - p)`` for rows of log probabilities, also where p is nearly 1."""
    top = log_p.argmax(dim=1, keepdim=True)
    rest = log_p.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True)
    others = torch.log1p(-log_p.exp().scatter(1, top, 0))
    return others.scatter(1, top, rest)
