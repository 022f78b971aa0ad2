"""Which iterate of a training is its result."""

import torch


class KeptIterates:
    """A random iterate of a training, or the mean of all, as they come.

    Iterate i, the parameters before step i, where its gradient is, has a weight in
    proportion to the size of that step, ``gamma_i``. One pass is enough and the number
    of steps need not be known.

    Parameters
    ----------
    averaging : {"random", "mean"}
        "random" keeps one iterate, i with probability ``gamma_i / sum_j gamma_j``;
        "mean" keeps the mean under these probabilities.
    seed : int
        Draws the random one, apart from all other draws of the training.

    Attributes
    ----------
    values : dict of str to Tensor
        What is kept of each parameter.
    """

    def __init__(self, averaging, seed=0):
        self.averaging = averaging
        self.generator = torch.Generator().manual_seed(seed)
        self.total = 0.0
        self.values = {}

    def add(self, module, weight) -> None:
        """Take in the parameters of a module before a step of size `weight`."""
        self.total += weight
        share = weight / self.total
        iterate = {name: value.detach() for name, value in module.named_parameters()}
        if self.averaging == "random":
            # Reservoir sampling: the newest replaces the kept one with its share.
            if torch.rand((), generator=self.generator) < share:
                self.values = {name: value.clone() for name, value in iterate.items()}
        elif not self.values:
            self.values = {name: value.clone() for name, value in iterate.items()}
        else:
            for name, value in iterate.items():
                self.values[name].lerp_(value, share)
