"""The data sets of the benchmarks: those of `examples/data`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from data import (  # noqa: E402
    load_20newsgroups,
    load_fashion_mnist,
    load_glove,
    read_cifar_binary,
)

__all__ = ["load_20newsgroups", "load_fashion_mnist", "load_glove", "read_cifar_binary"]
