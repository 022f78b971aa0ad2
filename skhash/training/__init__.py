"""The training of torch modules: the one place that knows skorch."""

from skhash.training._estimator import (
    TRAINING_CONSTRAINTS,
    TrainedMixin,
    arrays_of,
    draw_seeds,
)
from skhash.training._hasher import BaseNeuralHasher
from skhash.training._optimizers import Optimizer
from skhash.training._schedules import Cosine, InverseSqrt, LRSchedule, Steps
from skhash.training._weights import LinearSchedule

__all__ = [
    "TRAINING_CONSTRAINTS",
    "BaseNeuralHasher",
    "Cosine",
    "InverseSqrt",
    "LRSchedule",
    "LinearSchedule",
    "Optimizer",
    "Steps",
    "TrainedMixin",
    "arrays_of",
    "draw_seeds",
]
