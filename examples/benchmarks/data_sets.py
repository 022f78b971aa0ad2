"""The data sets of the benchmarks: those of `examples/data`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from data import load_20newsgroups, load_fashion_mnist, load_glove, read_cifar_binary  # noqa: E402

__all__ = ["load_20newsgroups", "load_fashion_mnist", "load_glove", "read_cifar_binary"]
