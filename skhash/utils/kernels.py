"""What the numba kernels of the library have in common."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

import llvmlite.binding as llvm
from numba import njit, types
from numba.core import cgutils, config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from skhash.utils.threads import fork_locks

with fork_locks[0]:  # as nobody forks now
    fork_locks.append(global_compiler_lock)


def kernel(function: Callable, **options) -> Callable:
    """Compile without the GIL at the first call, and keep the code on disk.

    Arrays must be in one piece, rows first. For any other layout no code is compiled,
    and a call raises ``TypeError``.

    Where no folder can be written to, each process compiles anew. `options` are those
    of ``numba.njit``. A kernel may call what stands in its own folder, here and in
    `skhash.utils.llvm`: when any of that changes, it is compiled again.
    """
    compiled = _compiled(function, **options)
    if hasattr(compiled, "compile"):  # there is none where numba is told not to
        compiled.compile = partial(_compile_contiguous, compiled.compile)
    return compiled


def inner_kernel(function: Callable, **options) -> Callable:
    """Compile what only kernels call, and Python must not.

    To compile what Python would call it by takes as long again.
    """
    return _compiled(function, no_cpython_wrapper=True, **options)


def _compiled(function, **options):
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


def _compile_contiguous(compile_any, signature):
    """Compile for a signature, or raise ``TypeError`` for arrays in another layout."""
    kinds, _ = normalize_signature(signature)
    for kind in kinds:
        for one in kind if isinstance(kind, types.BaseTuple) else [kind]:
            if isinstance(one, types.Array) and (one.layout != "C" or not one.aligned):
                raise TypeError(
                    f"Kernels are compiled for arrays in C order, not {one}."
                )
    return compile_any(signature)


def address_of(compiled: Callable, *kinds) -> int:
    """Compile a kernel for these types, and return where its code begins.

    A kernel that calls another one holds a copy of it, which is compiled again. By its
    address (see `by_address`), code is compiled once for all who call it.
    """
    compiled.compile(kinds)
    found = compiled.overloads[kinds]
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def by_address(returned, *kinds) -> Callable:
    """Make the function by which kernels call one of these types by its address.

    It takes the address, and a tuple of what the kernel takes.
    """

    @intrinsic
    def call(typing_context, address, arguments):
        def codegen(context, builder, signature, values):
            address, arguments = values
            arguments = cgutils.unpack_tuple(builder, arguments)
            convention = context.call_conv
            kind = convention.get_function_type(returned, kinds).as_pointer()
            function = builder.inttoptr(address, kind)
            _, found = convention.call_function(
                builder, function, returned, kinds, arguments
            )
            return found

        return returned(types.intp, types.Tuple(kinds)), codegen

    return call


def cache_folder(compiled: Callable) -> Path | None:
    """Return where the code of a kernel is kept, or None."""
    place = compiled._cache.cache_path
    return None if place is None else Path(place)


def machine() -> str:
    """Return the name of the kind of processor that kernels are compiled for."""
    return config.CPU_NAME or llvm.get_host_cpu_name()


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
