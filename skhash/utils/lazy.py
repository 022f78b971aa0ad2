"""Modules and names that are imported at their first use.

This file is all that `import skhash` runs, so it imports nothing but small modules of
Python.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from threading import RLock

# Forks acquire these locks before, in this order: one that another thread held would
# stay locked in the child. The first is held during late imports; `kernels` adds the
# lock of numba's compiler.
fork_locks = [RLock()]
late_import = fork_locks[0]

# torch's threads (GNU OpenMP) wait for each other in a loop, some milliseconds long
# unless this says else. Where other processes want the cores, the thread that is waited
# for gets none meanwhile, and a fit is up to a hundred times slower. A loop of 10,000
# rounds costs an idle machine next to nothing; one of 1000 doubles the time of steps of
# many small operations. It is read when torch is imported, by GNU OpenMP alone: torch's
# libraries on macOS and Windows have no such number.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def import_extra(module, action, package):
    """Import an optional library, or raise ``ImportError`` with what installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(
            f"{action} needs {library}, which is not installed: pip install {package}"
        ) from error


class LateModule:
    """A stand-in for a slow module, which is imported at its first use.

    Kernels are in separate modules, as numba imports more slowly than all of `skhash`,
    and many programs never need it.

    Parameters
    ----------
    name : str
        The whole name of the module.
    """

    def __init__(self, name):
        self._name, self._module = name, None

    def __getattr__(self, name):
        if self._module is None:
            with late_import:
                self._module = import_module(self._name)
        return getattr(self._module, name)


torch = LateModule("torch")  # most of the time that importing skhash would take


def late_names(
    package: str, names: dict[str, list[str]], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports its names late.

    Parameters
    ----------
    package : str
        The whole name of the package.
    names : dict
        The names that each module of the package gives it. The modules are names of the
        package, too.
    modules : tuple of str
        More modules, which give it no names.
    """
    module_of = {name: module for module, given in names.items() for name in given}
    modules = (*names, *modules)

    def __getattr__(name):
        if name not in module_of and name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with late_import:
            value = import_module(f"{package}.{module_of.get(name, name)}")
        if name in module_of:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__():
        return sorted({*vars(sys.modules[package]), *module_of, *modules})

    return __getattr__, __dir__
