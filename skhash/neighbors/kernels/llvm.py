"""Functions for kernels, written in the words of LLVM: what has no name in numba.

This is vectors, above all. Everything is plain LLVM code unless it says otherwise, so
that it runs wherever numba does, at the width that the machine has.
"""

from functools import wraps
from inspect import signature

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, INT32, INT64, FLOAT = (*map(ir.IntType, (8, 32, 64)), ir.FloatType())


class Array:
    """An array that code is written for."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value=value)
        self.builder = builder
        self.start = builder.bitcast(array.data, BYTE.as_pointer())
        self.shape = cgutils.unpack_tuple(builder, array.shape)
        self.strides = cgutils.unpack_tuple(builder, array.strides)

    def row(self, index):
        """Return the address of a row."""
        return step(self.builder, self.start, self.builder.mul(self.strides[0], index))


def instruction(returned):
    """Make a function that kernels can call of one that writes its code.

    That one takes a builder, an `Array` for each array, and a value for each number;
    annotations name the types of numbers. It returns a value of the type `returned`, or
    a tuple of values.
    """

    def decorate(write):
        _, *parameters = signature(write).parameters.values()

        @intrinsic
        @wraps(write)
        def typed(typing_context, *given):
            kinds = [
                kind
                if parameter.annotation is parameter.empty
                else parameter.annotation
                for parameter, kind in zip(parameters, given, strict=True)
            ]

            def codegen(context, builder, signature, args):
                values = [
                    Array(context, builder, kind, value)
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(kinds, args, strict=True)
                ]
                result = write(builder, *values)
                if isinstance(result, tuple):
                    return context.make_tuple(builder, returned, result)
                return context.get_dummy_value() if result is None else result

            return returned(*kinds), codegen

        return typed

    return decorate


def int64(number):
    """Return a constant."""
    return ir.Constant(INT64, number)


def vector_of(kind, values):
    """Return a constant vector."""
    return ir.Constant(ir.VectorType(kind, len(values)), values)


def step(builder, address, n_bytes):
    """Return an address so many bytes further on."""
    n_bytes = int64(n_bytes) if isinstance(n_bytes, int) else n_bytes
    return builder.gep(address, [n_bytes])


def load(builder, address, n_bytes, kind):
    """Return what stands so many bytes behind an address, aligned in any way."""
    pointer = step(builder, address, n_bytes)
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)


def store(builder, value, address, n_bytes=0):
    """Write a value so many bytes behind an address."""
    pointer = step(builder, address, n_bytes)
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=1)


def spread(builder, value, count):
    """Return the vector that holds `value` so many times."""
    nothing = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    single = builder.insert_element(nothing, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(single, nothing, vector_of(INT32, [0] * count))


def call(builder, name, *operands):
    """Call a function of LLVM that returns what it takes."""
    kind = ir.FunctionType(operands[0].type, [one.type for one in operands])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, operands)


def is_any(builder, bits):
    """Return whether a vector of bits, or of words, has one that is set."""
    word = ir.IntType(bits.type.count * bits.type.element.width)
    return builder.icmp_unsigned("!=", builder.bitcast(bits, word), word(0))


def choose_program(builder, programs):
    """Write the first program whose condition holds; the last one has none.

    programs : list of (value or None, callable)
    """
    (condition, write), *others = programs
    if condition is None:
        write()
        return
    with builder.if_else(condition) as (then, otherwise):
        with then:
            write()
        with otherwise:
            choose_program(builder, others)
