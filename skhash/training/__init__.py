"""The training of torch modules: the one place that knows skorch."""

from importlib import import_module

from skhash.training._estimator import (
    TRAINING_CONSTRAINTS,
    BaseNeuralHasher,
    TrainedMixin,
    arrays_of,
)
from skhash.training._optimizers import Optimizer
from skhash.training._schedules import Cosine, InverseSqrt, LRSchedule, Steps
from skhash.training._weights import LinearSchedule

__all__ = [
    "TRAINING_CONSTRAINTS",
    "BaseNeuralHasher",
    "Batch",
    "Cosine",
    "InverseSqrt",
    "LRSchedule",
    "LinearSchedule",
    "Optimizer",
    "Rows",
    "Steps",
    "TrainedMixin",
    "TrainedModule",
    "arrays_of",
]

# What derives from torch, imported when it is asked for.
_OF_TORCH = {
    "Batch": "skhash.training._batches",
    "Rows": "skhash.training._batches",
    "TrainedModule": "skhash.training._module",
}


def __getattr__(name):
    if name not in _OF_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_OF_TORCH[name]), name)
