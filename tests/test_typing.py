"""A user's script passes mypy --strict."""

import importlib
import inspect
import subprocess
import sys

import pytest

from skhash.persistence.state import MODULES

SCRIPT = """
import numpy as np
from skhash.utils.parameters import with_parameters

X = np.random.default_rng(0).standard_normal((100, 8))
y = np.arange(100) % 3
search = skhash.HashedNeighbors(8, metric="cosine")
search.fit(X)
distances, positions = search.kneighbors(X, 3)
search.partial_fit(X).remove([3]).compact().save("search")
loaded = skhash.load("search", mmap=True)
loaded.kneighbors_graph(X)
skhash.load("search").kneighbors(X)
quantizer = skhash.AdditiveQuantizer(4)
codes: np.ndarray = quantizer.fit(X).transform(X)
decoded: np.ndarray = quantizer.inverse_transform(codes)
error: float = quantizer.reconstruction_error(X).mean()
index = skhash.AsymmetricNeighbors(3, packed=True)
index.fit(codes, y, decoder=quantizer).radius_neighbors(X, 1.0)
index.packed_codes_.sum() + index.nbytes_
encoder = skhash.ITQHash(8)
bits: np.ndarray = encoder.fit(X).transform(X)
encoder.save("encoder")
hamming = skhash.HammingNeighbors(radius=2)
hamming.fit(bits, y, ids=np.arange(100)).prepare()
hamming.radius_neighbors(bits, return_distance=False)
for supervised in (skhash.SupervisedHash(8), skhash.DualHashEncoder(8)):
    supervised.fit(X, y).transform_packed(X)
classifier = skhash.SBNClassifier()
classifier.fit(X, y).predict_proba(X)
result = skhash.audit(X, y, n_neighbors=3)
result.to_frame(), result.to_html(), result.encoder
scores: np.ndarray = skhash.neighbors.asymmetric_scores(X, codes, quantizer)
skhash.metrics.recall_at_k_score(X, X, 3)

@with_parameters(kw_only=True)
class Shifted(skhash.ITQHash):
    shift: float = 0.0

Shifted(8, shift=1.0, random_state=0)
"""


def constructors():
    """Return a line for each public class that needs no arguments."""
    for name in ("skhash", *MODULES):
        module = importlib.import_module(name)
        for public in module.__all__:
            cls = getattr(module, public)
            if inspect.isclass(cls) and not inspect.isabstract(cls):
                parameters = inspect.signature(cls).parameters.values()
                if all(p.default is not p.empty for p in parameters):
                    yield f"{name}.{public}()"


@pytest.mark.long
def test_a_script_with_every_public_class_is_strictly_typed(tmp_path):
    pytest.importorskip("mypy", reason="no mypy: pip install mypy")
    imports = [f"import {name}" for name in ("skhash", "skhash.metrics", *MODULES)]
    script = tmp_path / "script.py"
    script.write_text("\n".join([*imports, SCRIPT, *constructors()]))
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    found = subprocess.run([*words, script], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
