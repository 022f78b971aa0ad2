"""All seeds of the test run moved by one number: see `conftest.py`."""

import numpy as np
import torch

Random, Generator, make_generator = (
    np.random.RandomState,
    torch.Generator,
    np.random.default_rng,
)
SHIFT = 0


def shifted(seed):
    return seed + SHIFT if isinstance(seed, int | np.integer) else seed


class IsRandom(type):
    """NumPy's own global generator, made before, is an instance too."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Random)


class ShiftedRandom(Random, metaclass=IsRandom):
    def __init__(self, seed=None):
        super().__init__(shifted(seed))


class ShiftedGenerator(Generator):
    def manual_seed(self, seed):
        return super().manual_seed(shifted(seed) % 2**63)


def shift_seeds(shift):
    """Let all who draw random numbers from an integer start from another one."""
    global SHIFT
    SHIFT = shift
    np.random.default_rng = lambda seed=None: make_generator(shifted(seed))
    np.random.RandomState, torch.Generator = ShiftedRandom, ShiftedGenerator
