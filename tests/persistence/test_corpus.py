"""Files of released versions are loaded, and answer as they did."""

import numpy as np
import pytest
from savable import MAKERS, answers
from saved_corpus import kept, kept_answers

import skhash


@pytest.mark.parametrize("path", kept(), ids=lambda path: "/".join(path.parts[-2:]))
def test_old_files_answer_as_they_did(path):
    found, expected = answers(skhash.load(path)), kept_answers(path)
    for one, other in zip(found, expected, strict=True):
        if other.dtype.kind == "f":  # sums in another order, on another machine
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


def test_the_files_are_small_and_of_every_class():
    names = {path.name.replace("-", " ") for path in kept()}
    assert names == {*MAKERS}
    files = [file for path in kept() for file in path.iterdir()]
    assert sum(file.stat().st_size for file in files) < 200_000
