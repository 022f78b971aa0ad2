"""The training of torch modules: the one place that knows skorch."""

from skhash.training._hasher import TRAINING_CONSTRAINTS, BaseNeuralHasher

__all__ = ["TRAINING_CONSTRAINTS", "BaseNeuralHasher"]
