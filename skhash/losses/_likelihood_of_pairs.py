"""The likelihood of pairs: near codes for rows that share a label."""

import torch
from torch.nn.functional import softplus

from skhash.losses._objective import share_label

# The logit of two rows with the same code, where it is not chosen.
AUTO_LOGIT = 2.5


class PairwiseLikelihood:
    r"""Cross-entropy of whether two rows share a label, by their agreement.

    With codes h in [-1, 1], similarities s in [0, 1] and a scale a,

    .. math::

        \frac{1}{n (n - 1)} \sum_{i \ne j} w_{ij}
        \big[ s_{ij} \log(1 + e^{-\theta_{ij}})
        + (1 - s_{ij}) \log(1 + e^{\theta_{ij}}) \big], \qquad
        \theta_{ij} = \frac a2 \langle h_i, h_j \rangle

    which is ``log(1 + exp theta) - s theta``. For signs, ``theta = a (m/2 - d)`` with
    the Hamming distance d of m bits. A row is no pair with itself.

    Parameters
    ----------
    n_bits : int
    logit_scale : float or "auto", default="auto"
        a. "auto" is 5 / n_bits, so that theta is within -2.5 and 2.5.
    pair_weights : {None, "balanced"}, default=None
        "balanced" weights the similar pairs of a batch, and the others, so that both
        kinds weigh the same (Cao et al., 2017).
    similarity : {None, "jaccard"} or callable, default=None
        None is 1 for rows that share a label, and 0 for others. "jaccard" is the number
        of labels that both have over that of labels that one has. A callable maps
        labels of shape (n, 1) or (n, n_classes), int64, to similarities (n, n).
    """

    def __init__(
        self, n_bits, *, logit_scale="auto", pair_weights=None, similarity=None
    ):
        if logit_scale == "auto":
            logit_scale = 2 * AUTO_LOGIT / n_bits
        self.logit_scale, self.pair_weights = logit_scale, pair_weights
        self.similarity = similarity

    def __call__(self, codes, labels) -> torch.Tensor:
        """Return the loss of a batch; memory grows with the square of its rows.

        Parameters
        ----------
        codes : Tensor of shape (n, n_bits)
        labels : Tensor of shape (n, 1) or (n, n_classes), int64
        """
        similar = self._similarities(labels).to(codes.dtype)
        theta = self.logit_scale / 2 * (codes @ codes.T)
        losses = similar * softplus(-theta) + (1 - similar) * softplus(theta)
        weights = torch.ones_like(losses).fill_diagonal_(0)
        if self.pair_weights == "balanced":
            weights = _balanced(similar > 0, weights)
        return (weights * losses).sum() / max(len(codes) * (len(codes) - 1), 1)

    def _similarities(self, labels):
        if self.similarity is None:
            return share_label(labels)
        if self.similarity == "jaccard":
            return jaccard(labels)
        return self.similarity(labels)


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
