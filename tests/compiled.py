"""Calls of what only compiled code can call."""

from functools import cache

from numba import njit


def call(intrinsic, *arguments):
    """Call an intrinsic, which only compiled code can."""
    return compiled_caller(intrinsic, len(arguments))(*arguments)


@cache
def compiled_caller(intrinsic, n_arguments):
    names = ", ".join(f"a{i}" for i in range(n_arguments))
    scope = {"intrinsic": intrinsic}
    exec(f"def caller({names}):\n    return intrinsic({names})", scope)
    return njit(scope["caller"])
