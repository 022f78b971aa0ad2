"""Modules that are imported when something of them is first used."""

from importlib import import_module

from skhash.utils.threads import late_import


class LateModule:
    """Stand for a module that takes long to import, until something of it is used.

    Kernels stand in modules of their own, as numba takes longer to import than all of
    `skhash`, and many a program never needs it.

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
