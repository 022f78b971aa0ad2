"""Vector instructions against plain code, and kernels with their bounds checked.

Kernels are compiled for other processors than this one, in other processes, where each
index is looked at before it is used.
"""

import os
import subprocess
import sys

import calls
import numpy as np
import pytest

from skhash.utils.llvm import has_features

AVX2 = "avx2 avx fma bmi bmi2 popcnt f16c sse4.2 sse4.1 ssse3 sse3 lzcnt".split()
HASWELL = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in AVX2),
}
# Compiled code is always allowed NEON on aarch64; kernels use it if it is named.
ARM, GENERIC = has_features("neon"), {"NUMBA_CPU_NAME": "generic"}
PLAIN = GENERIC | ({"NUMBA_CPU_FEATURES": "+fp-armv8"} if ARM else {})
NEON = GENERIC | {"NUMBA_CPU_FEATURES": "+fp-armv8,+neon"}
# Without vector instructions all kernels are called; those that have some, with them.
ALL = {
    "plain": (PLAIN, [*calls.PARTS]),
    "vectors": (
        NEON if ARM else HASWELL,
        ["brute", "jaccard", "asymmetric", "encoding"],
    ),
}
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1"}


@pytest.mark.skipif(
    not (has_features("avx2") or ARM), reason="Needs AVX2 or NEON that numba knows of."
)
@pytest.mark.long
def test_other_processors(tmp_path):
    unreached = []
    for name, (processor, parts) in ALL.items():
        file, cache = tmp_path / f"{name}.npz", tmp_path / name
        environment = {**os.environ, **processor, **CHECKED}
        environment |= {"NUMBA_CACHE_DIR": str(cache)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, calls.__file__, file, *parts],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr
        unreached.append(set(done.stdout.split()))
        found, expected = np.load(file).values(), calls.answers(parts)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert not set.intersection(*unreached)
