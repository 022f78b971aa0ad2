"""The training of torch modules: the one place that knows skorch."""

from importlib import import_module

from skhash.training._estimator import BaseNeuralHasher, arrays_of
from skhash.training._params import LinearSchedule, Optimizer

__all__ = [
    "BaseNeuralHasher",
    "Batch",
    "LinearSchedule",
    "Optimizer",
    "Rows",
    "TrainedModule",
    "arrays_of",
]

# Names that derive from torch, imported on first use.
_OF_TORCH = ("Batch", "Rows", "TrainedModule")


def __getattr__(name):
    if name not in _OF_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("skhash.training._module"), name)
