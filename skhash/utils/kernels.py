"""Decorators that compile the numba kernels of the library."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

from numba import config, njit, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from skhash.utils.lazy import fork_locks

if config.DISABLE_JIT:
    raise ImportError("skhash needs numba's compiler; unset NUMBA_DISABLE_JIT.")

_warned: set[tuple] = set()

with fork_locks[0]:  # no fork meanwhile
    fork_locks.append(global_compiler_lock)


def kernel(function: Callable, **options) -> Callable:
    """Compile without the GIL at the first call, and keep the code on disk.

    Arrays must be in one piece, rows first. For any other layout no code is compiled,
    and a call raises ``TypeError``.

    Without a writable folder, each process compiles them again. `options` are those of
    ``numba.njit``. A kernel may call code of its folder, of this file and of
    `skhash.utils.llvm`: when any of that changes, it is compiled again.
    """
    compiled = _compiled(function, **options)
    compiled.compile = partial(_compile_contiguous, compiled.compile)
    return compiled


def inner_kernel(function: Callable, **options) -> Callable:
    """Compile a function that only kernels may call.

    Compiling an entry for Python would double the time.
    """
    return _compiled(function, no_cpython_wrapper=True, **options)


def inlined_kernel(function: Callable) -> Callable:
    """Inline a function with many arrays into its callers, to save slow calls."""
    return inner_kernel(function, forceinline=True)


def _compiled(function, **options):
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return njit(**options)(function)
    _watch_sources(compiled, Path(function.__code__.co_filename).parent)
    _survive_its_disk(compiled)
    return compiled


def _survive_its_disk(compiled):
    """Compile a kernel again if its file is damaged, and go on if none can be written.

    numba would raise its error from the first call, in each process from then on.
    """
    kept = compiled._cache
    load, save = kept.load_overload, kept.save_overload

    def load_if_whole(*arguments):
        try:
            return load(*arguments)
        except Exception as error:  # of pickle, it may be any
            _warn_once("read", kept.cache_path, repr(error))
        try:
            kept._cache_file._load_index()
        except Exception:
            with suppress(OSError):
                kept.flush()  # else nothing can be added to it
        return None

    def save_if_possible(*arguments):
        try:
            save(*arguments)
        except OSError as error:
            _warn_once("written", kept.cache_path, repr(error))

    kept.load_overload, kept.save_overload = load_if_whole, save_if_possible


def _warn_once(done, folder, error):
    """Warn of the first file of a folder that cannot be read or written."""
    if (done, folder) not in _warned:
        _warned.add((done, folder))
        warnings.warn(
            f"A compiled kernel in {folder} cannot be {done} ({error}). It is compiled "
            "again, which takes seconds. If this recurs, remove the .nbi and .nbc "
            "files there, free disk space, or set NUMBA_CACHE_DIR to another folder.",
            stacklevel=2,
        )


def _watch_sources(compiled, folder):
    """Have a kernel compiled again when a file that it may call has changed.

    numba would look at the file of the function alone, and run old code where another
    one has changed. It has no public way to be told of more, so the stamp that its
    cache compares is overwritten: here alone, and tests/utils/test_kernels.py sees
    whether that still works. Without compilation there is no cache.
    """
    with suppress(AttributeError):
        compiled._cache._cache_file._source_stamp = _stamp(folder)


def _compile_contiguous(compile_any, signature):
    """Compile for a signature, or raise ``TypeError`` for other array layouts."""
    kinds, _ = normalize_signature(signature)
    for kind in kinds:
        for t in kind if isinstance(kind, types.BaseTuple) else [kind]:
            if isinstance(t, types.Array) and (t.layout != "C" or not t.aligned):
                raise TypeError(f"Kernels are compiled for arrays in C order, not {t}.")
    return compile_any(signature)


def address_of(compiled: Callable, *kinds) -> int:
    """Compile a kernel for these types, and return the address of its code.

    A kernel that calls another one holds a copy of it, which is compiled again. By its
    address (see `by_address`), code is compiled once for all who call it.
    """
    compiled.compile(kinds)
    program = compiled.overloads[kinds]
    return program.library.get_pointer_to_function(program.fndesc.llvm_func_name)


def by_address(returned, *kinds) -> Callable:
    """Make a function by which kernels call others of these types by address.

    Its arguments are the address and a tuple of the kernel's arguments.
    """

    @intrinsic
    def call(typing_context, address, arguments):
        def codegen(context, builder, signature, values):
            address, arguments = values
            arguments = cgutils.unpack_tuple(builder, arguments)
            convention = context.call_conv
            kind = convention.get_function_type(returned, kinds).as_pointer()
            function = builder.inttoptr(address, kind)
            _, result = convention.call_function(
                builder, function, returned, kinds, arguments
            )
            return result

        return returned(types.intp, types.Tuple(kinds)), codegen

    return call


@cache
def _stamp(folder):
    """Return a hash of all files that kernels in a folder may call."""
    here = Path(__file__)
    files = [here, here.with_name("llvm.py"), *sorted(folder.glob("*.py"))]
    sources = blake2b(digest_size=16)
    for file in files:
        sources.update(file.read_bytes())
    return sources.hexdigest()


@intrinsic
def popcount(typing_context, word):
    """Count the set bits of a word, by the processor's instruction."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen
