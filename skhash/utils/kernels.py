"""What the numba kernels of the library have in common."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from skhash.utils.threads import fork_locks

with fork_locks[0]:  # as nobody forks now
    fork_locks.append(global_compiler_lock)


def kernel(function: Callable, **options) -> Callable:
    """Compile without the GIL at the first call, and keep the code on disk.

    Where no folder can be written to, each process compiles anew. `options` are those
    of ``numba.njit``. A kernel may call what stands in its own folder, here and in
    `skhash.utils.llvm`: when any of that changes, it is compiled again.
    """
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return njit(**options)(function)
    # numba itself would look at the file of the function alone, and run old code where
    # another file that it calls has changed. Without compilation there is no cache.
    with suppress(AttributeError):
        folder = Path(function.__code__.co_filename).parent
        compiled._cache._cache_file._source_stamp = _stamp(folder)
    return compiled


def inner_kernel(function: Callable, **options) -> Callable:
    """Compile what only kernels call, and Python must not.

    To compile what Python would call it by takes as long again.
    """
    return kernel(function, no_cpython_wrapper=True, **options)


@cache
def _stamp(folder):
    """Return a number for all that kernels in a folder may call."""
    here = Path(__file__)
    files = [here, here.with_name("llvm.py"), *sorted(folder.glob("*.py"))]
    sources = blake2b(digest_size=16)
    for file in files:
        sources.update(file.read_bytes())
    return sources.hexdigest()


@intrinsic
def popcount(typing_context, word):
    """Count the bits that are set in one word, by the processor's own instruction."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen
