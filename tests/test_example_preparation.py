"""Making of data sets by `examples/data/prepare.py`, on tiny texts, nets and pictures."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.special import erf, softmax

from examples.data import prepare

INSTALL = "is not installed: pip install --no-deps"


def test_passages_are_distinct_runs_of_12_words():
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(words), " ".join(words[:16]), " ".join(words[:17]), "too few"]
    first, second, last = (" ".join(words[a:b]) for a, b in [(0, 12), (12, 24), (24, 30)])
    five = " ".join(words[12:17])
    assert prepare.passages_of(texts) == [first, second, last, five]
    assert prepare.passages_of(texts, without=[second, five]) == [first, last]
