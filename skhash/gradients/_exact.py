"""The exact gradient, by enumeration of all states."""

import torch
from torch.utils.checkpoint import checkpoint

from skhash.gradients._base import UNITS, GradientEstimator

# Every unit more doubles the time; of these, a batch takes seconds.
MAX_BITS = 16
# How many states of every row are evaluated at a time, which bounds the memory.
STATES_AT_ONCE = 256


class Exact(GradientEstimator):
    r"""Exact gradient: the expected loss over all ``2^n`` states of n units.

    .. math:: \sum_x f(x) \prod_i P(x_i)

    Value and gradient are exact, also in the parameters of the function: there is
    neither bias nor variance. The function does not have to be differentiable in the
    values. It needs ``2^n`` evaluations, and as many again to backpropagate, because
    losses are recomputed chunk by chunk to save memory. It raises for more than 16
    units.

    The states are the same for all rows and are expanded over the rows, with a stride
    of 0. A function can therefore compute once what depends on the states alone, as the
    decoder of `skhash.StochasticAutoencoderHash` does.

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

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        n_bits = logits.shape[-1]
        if n_bits > MAX_BITS:
            raise ValueError(
                f"Exact would enumerate 2**{n_bits} states of {n_bits} units, but it "
                f"is limited to {MAX_BITS} units; use LocalExpectation or DisARM, "
                "which are unbiased too."
            )
        powers = 2 ** torch.arange(n_bits, device=logits.device)

        def weighted_losses(states, logits):
            on = (states[:, None, None] & powers).bool()
            p = torch.where(on, units.noise.cdf(logits), units.noise.cdf(-logits))
            # Expanded: a loss may see that all rows have the same values.
            values = units.values(on.to(logits.dtype)).expand(-1, *logits.shape)
            losses = loss(values)
            return (p.prod(dim=-1) * losses).sum(dim=0)

        states = torch.arange(2**n_bits, device=logits.device)
        options = {"use_reentrant": False, "preserve_rng_state": False}
        return sum(
            checkpoint(weighted_losses, chunk, logits, **options)
            for chunk in states.split(STATES_AT_ONCE)
        )
