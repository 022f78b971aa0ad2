"""Modules that are imported at their first use."""

from importlib import import_module

from skhash.utils.threads import late_import


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
