"""The likelihood of pairs: near codes for rows that share a label."""

import torch
from torch.nn.functional import softplus

from skhash.losses._objective import share_label

# The logit of two rows with the same code is half of these, where it is not chosen.
AUTO_SCALES = {None: 5.0, "balanced": 15.0}


def pairwise_likelihood(codes, labels, logit_scale="auto", pair_weights=None):
    r"""Cross-entropy of whether two rows share a label, by their agreement.

    With codes h in [-1, 1], s = 1 where rows share a label, else 0, and a scale a,

    .. math::

        \frac{1}{n (n - 1)} \sum_{i \ne j} w_{ij}
        \big[ s_{ij} \log(1 + e^{-\theta_{ij}})
        + (1 - s_{ij}) \log(1 + e^{\theta_{ij}}) \big], \qquad
        \theta_{ij} = \frac a2 \langle h_i, h_j \rangle

    which is ``log(1 + exp theta) - s theta``. For signs, ``theta = a (m/2 - d)`` with
    the Hamming distance d of m bits. A row is no pair with itself. Memory grows with
    the square of the rows.

    Parameters
    ----------
    codes : Tensor of shape (n, n_bits)
    labels : Tensor of shape (n, 1) or (n, n_classes), int64
    logit_scale : float or "auto", default="auto"
        a. "auto" is 5 / n_bits, so that theta is within -2.5 and 2.5, and 15 / n_bits
        for balanced pairs.
    pair_weights : {None, "balanced"}, default=None
        "balanced" weights the similar pairs of a batch, and the others, so that both
        kinds weigh the same (Cao et al., 2017).

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
