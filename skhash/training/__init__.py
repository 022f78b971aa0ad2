"""The training of torch modules: the one place that knows skorch."""

from importlib import import_module

from skhash.training._estimator import BaseNeuralHasher, arrays_of
from skhash.training._params import LinearSchedule

__all__ = [
    "BaseNeuralHasher",
    "Batch",
    "LinearSchedule",
    "Rows",
    "Storm",
    "TrainedModule",
    "arrays_of",
]


def __getattr__(name):
    # The other names derive from torch, which is imported when one is used.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "_storm" if name == "Storm" else "_module"
    return getattr(import_module(f"skhash.training.{module}"), name)
