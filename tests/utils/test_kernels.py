"""Compiled kernels are kept, until something that they call changes."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each

from skhash.utils import kernels

CALLED = """
from skhash.utils.kernels import kernel

@kernel
def term():
    return 1
"""
CALLER = """
from .called import term
from skhash.utils.kernels import kernel

@kernel
def total():
    return 10 + term()
"""
PROGRAM = """
import sys
from types import ModuleType

# The package without what `import skhash` takes seconds to import.
skhash = sys.modules["skhash"] = ModuleType("skhash")
skhash.__path__ = [sys.argv[1]]

from package.caller import total
print(total(), sum(total.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "called.py").write_text(CALLED)
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(package, warns=0, limited=None, **environment):
    """Return what the caller returns in a new process, and whether it was compiled."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, Path(kernels.__file__).parents[1]],
        cwd=package.parent,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path]),
            "NUMBA_CACHE_DIR": str(package.parent / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limited,
    )
    assert done.stderr.count("Warning: A compiled kernel in") == warns, done.stderr
    value, from_cache = map(int, done.stdout.split())
    return value, not from_cache


def test_a_change_of_what_a_kernel_calls_is_seen(package):
    assert run(package) == (11, True)
    assert run(package) == (11, False)
    called = package / "called.py"
    times = called.stat().st_atime_ns, called.stat().st_mtime_ns
    called.write_text(CALLED.replace("return 1", "return 2"))
    # Of the same size, and, as files of an installation may be, of the same time.
    os.utime(called, ns=times)
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    assert run(package) == (12, True)
    assert run(package) == (12, False)


@pytest.mark.long
def test_without_a_folder_to_write_to(package):
    """Then the process compiles what it needs."""
    (package / "__pycache__").touch()
    nowhere = str(package / "__pycache__" / "cache")
    found = run(package, NUMBA_CACHE_DIR=nowhere, XDG_CACHE_HOME=nowhere)
    assert found == (11, True)


@pytest.mark.long
@each("suffix, size", [("*.nbi", 0), ("*.nbc", 100)])
def test_a_damaged_file_is_written_anew(package, suffix, size):
    """As a machine that loses its power may leave it."""
    if not (package.parent / "cache").exists():
        run(package)
    files = [*(package.parent / "cache").rglob(suffix)]
    assert len(files) == 2
    for file in files:
        os.truncate(file, size)
    assert run(package, warns=1) == (11, True)
    assert run(package) == (11, False)


@pytest.mark.long
def test_a_full_disk(package):
    resource = pytest.importorskip("resource")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    assert run(package, warns=1, limited=limited) == (11, True)
    assert run(package) == (11, True)


def test_kernels_call_nothing_else():
    """The stamp of a kernel covers its folder, `skhash.utils.kernels` and `llvm`."""
    folder = Path(kernels.__file__).parents[1] / "neighbors" / "kernels"
    covered = "skhash.neighbors.kernels.", kernels.__name__, "skhash.utils.llvm"
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("skhash"):
                assert node.module.startswith(covered), file
