"""Training of torch modules with skorch."""

from typing import TYPE_CHECKING

from skhash.training._estimator import BaseNeuralHasher, LinearSchedule, arrays_of
from skhash.utils.lazy import late_names

__all__ = [
    "BaseNeuralHasher",
    "Batch",
    "LinearSchedule",
    "Rows",
    "Storm",
    "TrainedModule",
    "arrays_of",
]

# These derive from torch, which is imported when one is used.
if TYPE_CHECKING:
    from skhash.training._module import Batch, Rows, TrainedModule
    from skhash.training._storm import Storm
else:
    __getattr__, __dir__ = late_names(
        __name__, {"_module": ["Batch", "Rows", "TrainedModule"], "_storm": ["Storm"]}
    )
