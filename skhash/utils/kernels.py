"""What the numba kernels of the library have in common."""

from collections.abc import Callable

from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from skhash.utils.threads import fork_locks

with fork_locks[0]:  # as nobody forks now
    fork_locks.append(global_compiler_lock)


def kernel(function: Callable, **options) -> Callable:
    """Compile without the GIL at the first call, and keep the code on disk.

    Where no folder can be written to, each process compiles anew. `options` are those
    of ``numba.njit``.
    """
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return njit(nogil=True, **options)(function)


@intrinsic
def popcount(typing_context, word):
    """Count the bits that are set in one word, by the processor's own instruction."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen
