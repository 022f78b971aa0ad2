"""Functions for kernels written in LLVM, for vector operations that numba lacks.

Everything is plain LLVM code unless noted, so that it runs wherever numba does, at the
vector width of the machine.
"""

from functools import wraps
from inspect import signature

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.errors import TypingError
from numba.extending import intrinsic

BYTE, INT32, INT64 = map(ir.IntType, (8, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_ARCHITECTURE = llvm.get_process_triple().split("-")[0]
# Features of all of these processors, though LLVM does not name them on macOS.
_EVERYWHERE = {"neon"} if _ARCHITECTURE in ("aarch64", "arm64") else set()


def has_features(*names):
    """Return whether numba compiles for a processor with these features."""
    if config.CPU_FEATURES is not None:
        return all(f"+{name}" in config.CPU_FEATURES for name in names)
    is_here = config.CPU_NAME in (None, "", "host")
    features = llvm.get_host_cpu_features() if is_here else {}
    return all(features.get(name, name in _EVERYWHERE) for name in names)


class Code:
    """Writer of LLVM code: an ``IRBuilder`` with more operations.

    Addresses are those of bytes, and may be aligned in any way.
    """

    def __init__(self, builder):
        self.builder = builder

    def __getattr__(self, name):
        return getattr(self.builder, name)

    def at(self, address, n_bytes):
        """Return the address `n_bytes` further on."""
        n_bytes = INT64(n_bytes) if isinstance(n_bytes, int) else n_bytes
        return self.gep(address, [n_bytes])

    def read(self, kind, address, n_bytes=0):
        """Return the value `n_bytes` behind an address."""
        pointer = self.bitcast(self.at(address, n_bytes), kind.as_pointer())
        return self.load(pointer, align=1)

    def write(self, value, address, n_bytes=0):
        """Write a value `n_bytes` behind an address."""
        pointer = self.bitcast(self.at(address, n_bytes), value.type.as_pointer())
        self.store(value, pointer, align=1)

    def fetch(self, address, n_bytes=0):
        """Bring a line of memory nearer to the processor, which does not wait for it.

        Nothing happens where there is no such memory.
        """
        options = [INT32(option) for option in (0, 3, 1)]  # to read, all levels, data
        line = self.at(address, n_bytes)
        self.use("llvm.prefetch.p0i8", line, *options, returned=ir.VoidType())

    def variable(self, value):
        """Return the address of a variable that starts with `value`."""
        return cgutils.alloca_once_value(self.builder, value)

    def loop(self, n):
        """Return a context whose code is repeated `n` times."""
        return cgutils.for_range(self.builder, n)

    def spread(self, value, count):
        """Return a vector of `count` times `value`."""
        nothing = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
        single = self.insert_element(nothing, value, INT32(0))
        places = ir.VectorType(INT32, count)([0] * count)
        return self.shuffle_vector(single, nothing, places)

    def at_item(self, array, row, column):
        """Return the address of an item of a two-dimensional `Array`."""
        return self.at(array.row(row), self.mul(array.strides[1], column))

    def use(self, name, *operands, returned=None):
        """Call a function of LLVM that returns this type, or its first operand's."""
        returned = returned or operands[0].type
        kind = ir.FunctionType(returned, [operand.type for operand in operands])
        function = cgutils.get_or_insert_function(self.module, kind, name)
        return self.call(function, operands)

    def is_any(self, vector):
        """Return whether a bit of a vector of integers is set."""
        word = ir.IntType(vector.type.count * vector.type.element.width)
        return self.icmp_unsigned("!=", self.bitcast(vector, word), word(0))

    def choose(self, programs):
        """Write the first program whose condition holds; the last one has none.

        programs : list of (value or None, callable)
        """
        (condition, write), *others = programs
        if condition is None:
            write()
            return
        with self.if_else(condition) as (then, otherwise):
            with then:
                write()
            with otherwise:
                self.choose(others)


class Array:
    """An array in LLVM code; `item` is the type of its numbers."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value=value)
        self.builder, self.item = builder, kind.dtype
        self.start = builder.bitcast(array.data, BYTE.as_pointer())
        self.shape = cgutils.unpack_tuple(builder, array.shape)
        self.strides = cgutils.unpack_tuple(builder, array.strides)

    def row(self, index):
        """Return the address of a row."""
        offset = self.builder.mul(self.strides[0], index)
        return self.builder.gep(self.start, [offset])


def instruction(returned):
    """Turn a function that writes LLVM code into one that kernels can call.

    Its arguments are `Code`, an `Array` for each array, and a value for each number.
    All are annotated with their types, or a tuple of those that an array may have;
    ``int`` means a number that is known when the kernel is compiled. As code reads
    memory by these types, an array of another type or layout does not compile.
    ``[::1]`` stands for any shape in one piece, ``[:, :]`` for rows that may be apart,
    and bytes may be booleans. It
    returns a value of the type `returned`, or a tuple of values.
    """

    def decorate(write):
        _, *parameters = signature(write).parameters.values()

        @intrinsic(prefer_literal=True)
        @wraps(write)
        def typed(typing_context, *given):
            kinds = [
                _checked(parameter, kind)
                for parameter, kind in zip(parameters, given, strict=True)
            ]

            def codegen(context, builder, signature, args):
                def value_of(kind, value):
                    if isinstance(kind, types.Array):
                        return Array(context, builder, kind, value)
                    known = isinstance(kind, types.IntegerLiteral)
                    return kind.literal_value if known else value

                result = write(Code(builder), *map(value_of, kinds, args))
                if isinstance(result, tuple):
                    return context.make_tuple(builder, returned, result)
                return context.get_dummy_value() if result is None else result

            return returned(*kinds), codegen

        return typed

    return decorate


def _checked(parameter, kind):
    """Return the type of an argument, or raise ``TypingError``."""
    wanted = parameter.annotation
    if isinstance(wanted, tuple):
        others = [t for t in wanted if t.dtype == getattr(kind, "dtype", None)]
        wanted = (others or wanted)[0]
    if wanted is int:
        return kind
    if not (isinstance(wanted, types.Array) and isinstance(kind, types.Array)):
        return wanted
    item = types.uint8 if kind.dtype == types.boolean else kind.dtype
    fits = kind.aligned and item == wanted.dtype and wanted.ndim in (1, kind.ndim)
    if not fits or wanted.layout == "C" != kind.layout:
        raise TypingError(f"{parameter.name} must be {wanted}, got {kind}.")
    return kind
