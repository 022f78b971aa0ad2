"""Deep supervised discrete hashing: codes that are solved for, beside a network."""

from typing import Literal

import torch

from skhash.losses._objective import (
    Objective,
    SupervisedLoss,
    class_indicator,
    pairwise_likelihood,
    signs_of,
)
from skhash.utils.parameters import Count, NotNegative, Positive, with_parameters


@with_parameters()
class DSDHLoss(SupervisedLoss):
    r"""DSDH: likelihood of pairs, and distance from codes that are easy to classify.

    With outputs u (the logits themselves), codes b of -1 and +1 for the training rows,
    classes y as indicators and a linear classifier W, it minimizes over all of them

    .. math::

        \operatorname*{mean}_{i \ne j} \big[ \log(1 + e^{\theta_{ij}})
        - s_{ij} \theta_{ij} \big]
        + \eta \operatorname*{mean}_{i, k} (b_{ik} - u_{ik})^2
        + \mu \operatorname*{mean}_i \| y_i - W^T b_i \|^2 + \nu \| W \|^2, \qquad
        \theta_{ij} = \tfrac{a}{2} \langle u_i, u_j \rangle

    The network is trained on the first two terms. Every epoch except the first begins
    by minimizing the last three terms over W and B, at the last outputs for each row,
    with ridge regression for W and bit by bit for B. In the first epoch, b is the sign
    of u. Labels influence the network through the likelihood and through b. (Some
    public programs lack the second term, so their networks have the likelihood alone.)

    Parameters
    ----------
    quantization_weight : float, default=0.1
        Weight eta.
    classification_weight : float, default=1.0
        Weight mu. The codes depend only on the ratios of eta, mu and nu.
    ridge : float, default=1.0
        Weight nu, above 0.
    n_sweeps : int, default=10
        Number of times that W and all bits of B are solved for at the start of an
        epoch.
    logit_scale : float or "auto", default="auto"
        Scale a of the products. The paper has 1; "auto" is ``5 / n_bits``.

    Notes
    -----
    Terms are means here and sums in the paper, so weights differ from published ones.
    The outputs and codes of all training rows need ``8 n_samples n_bits`` bytes.

    References
    ----------
    Q. Li, Z. Sun, R. He and T. Tan, "Deep supervised discrete hashing", NeurIPS 2017,
    eq. (9) to (15).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import DSDHLoss
    >>> SupervisedHash(loss=DSDHLoss(n_sweeps=3))
    SupervisedHash(loss=DSDHLoss(n_sweeps=3))
    """

    quantization_weight: NotNegative = 0.1
    classification_weight: NotNegative = 1.0
    ridge: Positive = 1.0
    n_sweeps: Count = 10
    logit_scale: Positive | Literal["auto"] = "auto"

    def objective(self, training):
        return _DSDHObjective(self, training)


class _DSDHObjective(Objective):
    def __init__(self, loss, training):
        super().__init__(loss)
        classes = class_indicator(training.labels, training.n_classes)
        self.register_buffer("classes", classes)
        # Rows of zeros are those that were not met yet.
        outputs = classes.new_zeros(len(classes), training.n_bits)
        self.register_buffer("outputs", outputs)
        self.register_buffer("codes", torch.zeros_like(self.outputs))

    def start_epoch(self, epoch):
        met = self.outputs.any(dim=1)
        if not met.any():
            return
        outputs, codes = self.outputs[met], self.codes[met]
        # The terms times n, which turns means over rows into sums.
        self.codes[met] = discrete_codes(
            torch.where(codes == 0, signs_of(outputs), codes),
            self.loss.quantization_weight / outputs.shape[1] * outputs,
            self.classes[met],
            self.loss.classification_weight,
            self.loss.ridge * len(outputs),
            self.loss.n_sweeps,
        )

    def forward(self, logits, labels, rows, X):
        if self.remembers:
            self.outputs[rows] = logits.detach()
        codes = self.codes[rows]
        codes = torch.where(codes == 0, signs_of(logits), codes)
        to_codes = (codes - logits).square().mean()
        likelihood = pairwise_likelihood(logits, labels, self.loss.logit_scale)
        return likelihood + self.loss.quantization_weight * to_codes


def discrete_codes(codes, pull, classes, weight, ridge, n_sweeps) -> torch.Tensor:
    r"""Minimize ``weight |Y - B W|^2 + ridge |W|^2 - 2 <B, pull>`` over W and signs B.

    In each sweep W is solved for, and then every bit of B in turn, all rows at once;
    each step is exact, so the objective never grows. Bits that may be either stay.

    Parameters
    ----------
    codes : Tensor of shape (n, n_bits), float
        Where B starts.
    pull : Tensor of shape (n, n_bits)
    classes : Tensor of shape (n, n_classes)
        Y.
    weight, ridge : float
    n_sweeps : int

    Returns
    -------
    codes : Tensor of shape (n, n_bits), float
        Of -1 and +1.
    """
    codes = codes.clone()
    for _ in range(n_sweeps):
        classifier = ridge_classifier(codes, classes, weight, ridge)
        wanted = pull + weight * classes @ classifier.T
        gram = weight * classifier @ classifier.T
        for k in range(codes.shape[1]):
            others = codes @ gram[k] - codes[:, k] * gram[k, k]
            force = wanted[:, k] - others
            codes[:, k] = torch.where(force == 0, codes[:, k], force.sign())
    return codes


def ridge_classifier(codes, classes, weight, ridge) -> torch.Tensor:
    """Return the W of `discrete_codes` for these codes, (n_bits, n_classes)."""
    identity = torch.eye(codes.shape[1], dtype=codes.dtype, device=codes.device)
    gram = weight * codes.T @ codes + ridge * identity
    return torch.linalg.solve(gram, weight * codes.T @ classes)
