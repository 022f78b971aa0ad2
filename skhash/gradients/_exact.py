"""The exact gradient, by enumeration of all states."""

from numbers import Integral

import torch
from torch.utils.checkpoint import checkpoint

from skhash.gradients._base import UNITS, GradientEstimator
from skhash.utils._sklearn import Interval

# How many states of every row are evaluated at a time, which bounds the memory.
STATES_AT_ONCE = 256


class Exact(GradientEstimator):
    r"""The expected loss itself, from all ``2^n`` states of n units.

    .. math:: \sum_x f(x) \prod_i P(x_i)

    Value and gradient are exact, also in the parameters of the function: there is
    neither bias nor variance. The function need not be differentiable in the values.
    ``2^n`` evaluations, and as many again to backpropagate: the memory is that of
    one chunk, whose losses are computed anew.

    Parameters
    ----------
    max_bits : int, default=16
        The number of units above which `surrogate` refuses.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import Exact
    >>> logits = torch.zeros(1, 2, requires_grad=True)
    >>> loss = Exact().surrogate(lambda x: x.prod(dim=-1), logits)
    >>> loss.backward()
    >>> loss.detach(), logits.grad
    (tensor([0.2500]), tensor([[0.2500, 0.2500]]))
    """

    _parameter_constraints: dict = {
        "max_bits": [Interval(Integral, 1, 62, closed="both")],
    }

    def __init__(self, max_bits=16):
        self.max_bits = max_bits

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        n_bits = logits.shape[-1]
        if n_bits > self.max_bits:
            raise ValueError(
                f"Exact enumerates 2**{n_bits} states of {n_bits} units, above "
                f"max_bits={self.max_bits}; take LocalExpectation or DisARM, which are "
                "unbiased, or raise max_bits."
            )
        powers = 2 ** torch.arange(n_bits, device=logits.device)

        def weighted_losses(states, logits):
            on = (states[:, None, None] & powers).bool()
            on = on.expand(-1, *logits.shape)
            p = torch.where(on, units.noise.cdf(logits), units.noise.cdf(-logits))
            losses = loss(units.values(on.to(logits.dtype)))
            return (p.prod(dim=-1) * losses).sum(dim=0)

        states = torch.arange(2**n_bits, device=logits.device)
        return sum(
            checkpoint(
                weighted_losses,
                chunk,
                logits,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for chunk in states.split(STATES_AT_ONCE)
        )
