"""Distances of 128 codes to a query, four bits at a time, as vector instructions.

The bytes of a block of codes stand side by side, the first of all codes, then the
second, so that one vector holds the same four bits (a *nibble*) of 32 codes. In how
many of these a code differs from the query depends on two numbers below 16: the nibble
of the query chooses one of 16 tables, each of 16 bytes, and one instruction looks 32
codes up in it. A distance is the sum of what is found; it stays at 255 if it is larger.

Unlike the planes of `bitslice`, nothing has to be made for a block but the nibbles
themselves, and half as many codes fill it, so this is what compares few codes with some
of the queries.

Where there is no such instruction (AVX2 has it), bits are counted, in plain LLVM vector
code.
"""

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

BLOCK = 128  # codes in a block
MOST = 255  # the distance that stands for all larger ones
WORD_NIBBLES = 16

_BYTE, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_WIDTH = 32  # bytes in a vector
_VECTOR, _TABLE = ir.VectorType(_BYTE, _WIDTH), ir.VectorType(_BYTE, 16)
_HALF = ir.VectorType(_BYTE, 64)


def has_shuffle():
    """Return whether numba compiles for a processor that looks 32 bytes up at once."""
    if config.CPU_FEATURES is not None:
        return "+avx2" in config.CPU_FEATURES
    own = config.CPU_NAME in (None, "", "host")
    return own and bool(llvm.get_host_cpu_features().get("avx2"))


def _row(context, builder, kind, array, *indices):
    """Return the address of a part of an array of bytes as a byte pointer."""
    struct = context.make_array(kind)(context, builder, value=array)
    strides = cgutils.unpack_tuple(builder, struct.strides)
    address = builder.bitcast(struct.data, _BYTE.as_pointer())
    for stride, index in zip(strides, indices):  # noqa: B905
        address = builder.gep(address, [builder.mul(stride, index)])
    return address


def _load(builder, address, byte, kind):
    pointer = builder.bitcast(builder.gep(address, [byte]), kind.as_pointer())
    return builder.load(pointer, align=1)


def _store(builder, address, byte, value):
    pointer = builder.bitcast(builder.gep(address, [byte]), value.type.as_pointer())
    builder.store(value, pointer, align=1)


def _length(context, builder, kind, array):
    shape = context.make_array(kind)(context, builder, value=array).shape
    return cgutils.unpack_tuple(builder, shape)[0]


def _int(number):
    return ir.Constant(_INT64, number)


def _spread(builder, byte, kind):
    """Return the vector that holds `byte` everywhere."""
    nothing = ir.Constant(kind, ir.Undefined)
    single = builder.insert_element(nothing, byte, ir.Constant(_INT32, 0))
    places = ir.Constant(ir.VectorType(_INT32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(single, nothing, places)


def _call(builder, name, *operands):
    kind = ir.FunctionType(operands[0].type, [one.type for one in operands])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, operands)


def _tables(builder):
    """Return where the 16 tables stand: how many bits differ, for two nibbles."""
    counts = bytearray((a ^ b).bit_count() for a in range(16) for b in range(16))
    value = ir.Constant(ir.ArrayType(_BYTE, len(counts)), counts)
    tables = cgutils.global_constant(builder, "nibble_tables", value)
    return builder.bitcast(tables, _BYTE.as_pointer())


def _look_up(builder, tables, choice, shuffle):
    """Return the function from nibbles of codes to how many bits differ."""
    if not shuffle:
        own = builder.lshr(choice, ir.Constant(_BYTE, 4))
        own = _spread(builder, own, _VECTOR)
        return lambda nibbles: _call(
            builder, "llvm.ctpop.v32i8", builder.xor(nibbles, own)
        )
    table = _load(builder, tables, builder.zext(choice, _INT64), _TABLE)
    twice = ir.Constant(ir.VectorType(_INT32, _WIDTH), [*range(16)] * 2)
    table = builder.shuffle_vector(table, ir.Constant(_TABLE, ir.Undefined), twice)
    return lambda nibbles: _call(builder, "llvm.x86.avx2.pshuf.b", table, nibbles)


@intrinsic
def fetch(typing_context, blocks, block):
    """Bring a block of codes nearer to the processor, which does not wait for it."""
    signature = types.void(blocks, types.int64)

    def codegen(context, builder, signature, args):
        source = _row(context, builder, signature.args[0], args[0], args[1])
        struct = context.make_array(signature.args[0])(context, builder, value=args[0])
        n_bytes = cgutils.unpack_tuple(builder, struct.strides)[0]
        byte_pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, _INT32, _INT32, _INT32])
        name = "llvm.prefetch.p0i8"
        prefetch = cgutils.get_or_insert_function(builder.module, kind, name)
        options = [ir.Constant(_INT32, option) for option in (0, 3, 1)]
        n_lines = builder.lshr(n_bytes, _int(6))
        with cgutils.for_range(builder, n_lines) as loop:
            line = builder.gep(source, [builder.mul(loop.index, _int(64))])
            builder.call(prefetch, [line, *options])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def unpack(typing_context, blocks, block, nibbles):
    """Write the nibbles of a block of codes, those of a byte one after the other.

    blocks : uint8 (blocks, n_bytes, 128); block : int64; nibbles : uint8
    (2 * n_bytes, 128), the lower half of each byte.
    """
    signature = types.void(blocks, types.int64, nibbles)

    def codegen(context, builder, signature, args):
        kinds = signature.args
        source = _row(context, builder, kinds[0], args[0], args[1])
        target = _row(context, builder, kinds[2], args[2])
        n_nibbles = _length(context, builder, kinds[2], args[2])
        with cgutils.for_range(builder, builder.lshr(n_nibbles, _int(1))) as loop:
            start = builder.mul(loop.index, _int(BLOCK))
            for part in range(0, BLOCK, _WIDTH):
                codes = _load(builder, source, builder.add(start, _int(part)), _VECTOR)
                place = builder.add(builder.mul(start, _int(2)), _int(part))
                low = builder.and_(codes, ir.Constant(_VECTOR, [15] * _WIDTH))
                _store(builder, target, place, low)
                high = builder.lshr(codes, ir.Constant(_VECTOR, [4] * _WIDTH))
                _store(builder, target, builder.add(place, _int(BLOCK)), high)
        return context.get_dummy_value()

    return signature, codegen


def make_near(shuffle):
    """Build the function that compares a block of codes with a query.

    It looks nibbles up, or, without `shuffle`, counts their bits.
    """

    @intrinsic
    def near(typing_context, nibbles, choices, query, most, out, row):
        """Write the distances to ``out[row]``; return whether one is at most `most`.

        nibbles : uint8 (nibbles, 128), one in the lower half of each byte; choices :
        uint8 (queries, nibbles), 16 times the nibble of the query; query : int64, its
        row; most : uint8; out : uint8 (rows, 128); row : int64. The number of nibbles
        is a multiple of 16.
        """
        signature = types.boolean(
            nibbles, choices, types.int64, types.uint8, out, types.int64
        )

        def codegen(context, builder, signature, args):
            kinds = signature.args
            codes = _row(context, builder, kinds[0], args[0])
            chosen = _row(context, builder, kinds[1], args[1], args[2])
            n_nibbles = _length(context, builder, kinds[0], args[0])
            tables = _tables(builder)
            parts = range(BLOCK // _WIDTH)
            zero = ir.Constant(_VECTOR, [0] * _WIDTH)
            places = [cgutils.alloca_once_value(builder, zero) for _ in parts]
            n_words = builder.udiv(n_nibbles, _int(WORD_NIBBLES))
            with cgutils.for_range(builder, n_words) as loop:
                first = builder.mul(loop.index, _int(WORD_NIBBLES))
                sums = [zero for _ in parts]
                for nibble in range(WORD_NIBBLES):
                    nibble = builder.add(first, _int(nibble))
                    choice = _load(builder, chosen, nibble, _BYTE)
                    look_up = _look_up(builder, tables, choice, shuffle)
                    start = builder.mul(nibble, _int(BLOCK))
                    for part in parts:
                        place = builder.add(start, _int(_WIDTH * part))
                        found = look_up(_load(builder, codes, place, _VECTOR))
                        sums[part] = builder.add(sums[part], found)
                # A word has 64 bits, so that only sums over words need care.
                for place, total in zip(places, sums, strict=True):
                    before = builder.load(place)
                    total = _call(builder, "llvm.uadd.sat.v32i8", before, total)
                    builder.store(total, place)
            target = _row(context, builder, kinds[4], args[4], args[5])
            totals = [builder.load(place) for place in places]
            least = totals[0]
            for part, total in zip(parts, totals, strict=True):
                _store(builder, target, _int(_WIDTH * part), total)
                least = _call(builder, "llvm.umin.v32i8", least, total)
            most = _spread(builder, args[3], _VECTOR)
            bits = builder.icmp_unsigned("<=", least, most)
            bits = builder.bitcast(bits, _INT32)
            return builder.icmp_unsigned("!=", bits, ir.Constant(_INT32, 0))

        return signature, codegen

    return near


near = make_near(has_shuffle())


@intrinsic
def at_most(typing_context, values, row, half, most):
    """Return a bit for each of 64 bytes: whether it is `most` or less.

    values : uint8 (rows, 128); row, half : int64; most : uint8.
    """
    signature = types.uint64(values, types.int64, types.int64, types.uint8)

    def codegen(context, builder, signature, args):
        values = _half(context, builder, signature.args[0], args[0], args[1], args[2])
        most = _spread(builder, args[3], _HALF)
        return builder.bitcast(builder.icmp_unsigned("<=", values, most), _INT64)

    return signature, codegen


@intrinsic
def in_reach(typing_context, values, row, reach, places, group, more, place, half):
    """Return a bit for each of 64 bytes: whether it is ``reach + more`` or less.

    Equal does not suffice where `place` is larger than that of `places`. Sums stay at
    255.

    values : uint8 (rows, 128); row : int64; reach, places : uint8 (groups, 128); group
    : int64; more, place : uint8; half : int64.
    """
    signature = types.uint64(
        values,
        types.int64,
        reach,
        places,
        types.int64,
        types.uint8,
        types.uint8,
        types.int64,
    )

    def codegen(context, builder, signature, args):
        values, row, reach, places, group, more, place, half = args
        kinds = signature.args
        values = _half(context, builder, kinds[0], values, row, half)
        reach = _half(context, builder, kinds[2], reach, group, half)
        places = _half(context, builder, kinds[3], places, group, half)
        more, place = _spread(builder, more, _HALF), _spread(builder, place, _HALF)
        reach = _call(builder, "llvm.uadd.sat.v64i8", reach, more)
        late = builder.zext(builder.icmp_unsigned(">", place, places), _HALF)
        values = _call(builder, "llvm.uadd.sat.v64i8", values, late)
        return builder.bitcast(builder.icmp_unsigned("<=", values, reach), _INT64)

    return signature, codegen


def _half(context, builder, kind, array, row, half):
    """Load 64 of the 128 bytes in a row."""
    address = _row(context, builder, kind, array, row)
    return _load(builder, address, builder.mul(half, _int(64)), _HALF)
