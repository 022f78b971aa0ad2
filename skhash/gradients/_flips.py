"""Local expectation, and BitFlip, which flip single units."""

import torch
from torch.nn.functional import one_hot

from skhash.gradients._base import (
    UNITS,
    GradientEstimator,
    attach_gradient,
    uniform_like,
)
from skhash.utils.parameters import Count, with_parameters

# How many flips of every row are evaluated at a time, which bounds the memory.
FLIPS_AT_ONCE = 16


def flip_differences(loss, values, losses, flips, units):
    """Return how far each loss is above that with one unit flipped.

    Parameters
    ----------
    loss, units
        As in `GradientEstimator.surrogate`.
    values : Tensor of shape (n_rows, n_bits)
    losses : Tensor of shape (n_rows,)
        The losses at `values`.
    flips : Tensor of shape (n_rows, n_flips), int64
        The units to flip, one at a time.

    Returns
    -------
    differences : Tensor of shape (n_rows, n_flips)
    """
    flipped = units.flip(values)
    differences = []
    with torch.no_grad():
        for chunk in flips.split(FLIPS_AT_ONCE, dim=-1):
            is_flipped = one_hot(chunk.movedim(-1, 0), values.shape[-1]).bool()
            differences.append(losses - loss(torch.where(is_flipped, flipped, values)))
    return torch.cat(differences).movedim(0, -1)


@with_parameters()
class LocalExpectation(GradientEstimator):
    r"""Local expectation: averages over each unit, given the others as drawn.

    .. math::
        \hat g_i = \pm F'(a_i) \, \big(f(x) - f(x \text{ with } i \text{ flipped})\big)

    with the sign of ``x_i``, plus if it is on. It is unbiased for every function, even
    if not differentiable, and exact for a single unit and for linear f. It needs
    ``n_bits + 1`` evaluations; its variance is usually far below that of estimators
    that need fewer.

    With m = `n_flips` of n units, drawn for each row without replacement, the estimate
    is n / m times this for the drawn units, and 0 for the others; m = 1 is BitFlip-1.
    It then needs ``m + 1`` evaluations.

    Parameters
    ----------
    n_flips : int or None, default=None
        Number m of units to flip, at most the number of units. None flips all.

    References
    ----------
    M. K. Titsias and M. Lazaro-Gredilla, "Local expectation gradients for black box
    variational inference", NIPS 2015.

    S. Tokui and I. Sato, "Evaluating the variance of likelihood-ratio gradient
    estimators", ICML 2017.

    R. Z. Kunes, M. Yin, M. Land, D. Haviv, D. Pe'er and S. Tavare, "Gradient estimation
    for binary latent variables via gradient variance clipping", AAAI 2023.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import LocalExpectation
    >>> logits = torch.zeros(1, 3, requires_grad=True)
    >>> gradient = LocalExpectation()
    >>> loss = gradient.surrogate(lambda x: x[..., 0] - 2 * x[..., 1], logits)
    >>> loss.backward()
    >>> logits.grad.tolist() == [[0.5, -1.0, 0.0]]
    True
    """

    n_flips: Count | None = None

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        a = logits.detach()
        values = units.draw(a, generator)
        losses = loss(values)
        flips = self._flips(a, generator)
        differences = flip_differences(loss, values, losses.detach(), flips, units)
        weight = a.shape[-1] / flips.shape[-1]
        differences = torch.zeros_like(a).scatter(-1, flips, weight * differences)
        gradient = units.signs(values) * units.noise.pdf(a) * differences
        return attach_gradient(losses, logits, gradient)

    def _flips(self, logits, generator):
        """Return the units to flip, shape (n_rows, n_flips)."""
        n_bits = logits.shape[-1]
        if self.n_flips is None:
            return torch.arange(n_bits, device=logits.device).expand(logits.shape)
        if self.n_flips > n_bits:
            raise ValueError(
                f"n_flips={self.n_flips} is more than the {n_bits} units; flip at most "
                f"{n_bits}, or set n_flips=None to flip all."
            )
        order = uniform_like(logits, generator).argsort(dim=-1)
        return order[..., : self.n_flips]
