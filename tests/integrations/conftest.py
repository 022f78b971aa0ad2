"""Scripts of `examples/integrations/`, run against the libraries that they are for.

`pip install ".[integrations]"` brings these; a test of what is absent is skipped.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

FOLDER = Path(__file__).parents[2] / "examples/integrations"


@pytest.fixture(scope="session")
def load():
    """A function that loads a script, or skips the test without its libraries."""

    def load(name, *libraries):
        for library in libraries:
            hint = f"pip install '.[integrations]' brings {library}"
            pytest.importorskip(library, reason=hint)
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        script, paths = importlib.util.module_from_spec(spec), [*sys.path]
        spec.loader.exec_module(script)
        sys.path[:] = paths
        return script

    return load


@pytest.fixture(scope="session")
def vectors():
    return load_digits().data[:400].astype(np.float32)


@pytest.fixture(scope="session")
def queries():
    return load_digits().data[400:420].astype(np.float32)
