"""Distances of 128 codes to a query, four bits at a time, as vector instructions.

The bytes of a block of codes stand side by side, the first of all codes, then the
second, so that one vector holds the same four bits (a *nibble*) of 32 codes. In how
many of these a code differs from the query depends on two numbers below 16: the nibble
of the query chooses one of 16 tables, each of 16 bytes, and one instruction looks 32
codes up in it. A distance is the sum of what is found; it stays at 255 if it is larger.

Unlike the planes of `bitslice`, nothing has to be made for a block but the nibbles
themselves, and half as many codes fill it, so this is what compares few codes with some
of the queries.

Where there is no such instruction (AVX2 has it), bits are counted, in plain LLVM code.
"""

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

from skhash.neighbors.kernels.llvm import (
    BYTE,
    INT32,
    INT64,
    call,
    instruction,
    int64,
    is_any,
    load,
    spread,
    step,
    store,
    vector_of,
)

BLOCK = 128  # codes in a block
MOST = 255  # the distance that stands for all larger ones
WORD_NIBBLES = 16

_WIDTH = 32  # bytes in a vector
_VECTOR, _HALF = ir.VectorType(BYTE, _WIDTH), ir.VectorType(BYTE, 64)


def has_shuffle():
    """Return whether numba compiles for a processor that looks 32 bytes up at once."""
    if config.CPU_FEATURES is not None:
        return "+avx2" in config.CPU_FEATURES
    own = config.CPU_NAME in (None, "", "host")
    return own and bool(llvm.get_host_cpu_features().get("avx2"))


def _tables(builder):
    """Return where the 16 tables stand: how many bits differ, for two nibbles."""
    counts = bytearray((a ^ b).bit_count() for a in range(16) for b in range(16))
    value = ir.Constant(ir.ArrayType(BYTE, len(counts)), counts)
    tables = cgutils.global_constant(builder, "nibble_tables", value)
    return builder.bitcast(tables, BYTE.as_pointer())


def _look_up(builder, tables, choice, shuffle):
    """Return the function from nibbles of codes to how many bits differ."""
    if not shuffle:
        own = spread(builder, builder.lshr(choice, BYTE(4)), _WIDTH)
        return lambda nibbles: call(
            builder, "llvm.ctpop.v32i8", builder.xor(nibbles, own)
        )
    table = ir.VectorType(BYTE, 16)
    table = load(builder, tables, builder.zext(choice, INT64), table)
    twice = vector_of(INT32, [*range(16)] * 2)
    table = builder.shuffle_vector(table, ir.Constant(table.type, ir.Undefined), twice)
    return lambda nibbles: call(builder, "llvm.x86.avx2.pshuf.b", table, nibbles)


@instruction(types.void)
def fetch(builder, blocks, block: types.int64):
    """Bring a block of codes nearer to the processor, which does not wait for it."""
    kind = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), INT32, INT32, INT32])
    name = "llvm.prefetch.p0i8"
    prefetch = cgutils.get_or_insert_function(builder.module, kind, name)
    options = [INT32(option) for option in (0, 3, 1)]
    n_lines = builder.lshr(blocks.strides[0], int64(6))
    with cgutils.for_range(builder, n_lines) as loop:
        line = step(builder, blocks.row(block), builder.shl(loop.index, int64(6)))
        builder.call(prefetch, [line, *options])


@instruction(types.void)
def unpack(builder, blocks, block: types.int64, nibbles):
    """Write the nibbles of a block of codes, those of a byte one after the other.

    blocks : uint8 (blocks, n_bytes, 128); nibbles : uint8 (2 * n_bytes, 128), the lower
    half of each byte.
    """
    source = blocks.row(block)
    with cgutils.for_range(builder, blocks.shape[1]) as loop:
        place = builder.mul(loop.index, int64(BLOCK))
        codes = step(builder, source, place)
        target = step(builder, nibbles.start, builder.mul(place, int64(2)))
        for part in range(0, BLOCK, _WIDTH):
            some = load(builder, codes, part, _VECTOR)
            low = builder.and_(some, vector_of(BYTE, [15] * _WIDTH))
            store(builder, low, target, part)
            high = builder.lshr(some, vector_of(BYTE, [4] * _WIDTH))
            store(builder, high, target, BLOCK + part)


def make_near(shuffle):
    """Build the function that compares a block of codes with a query.

    It looks nibbles up, or, without `shuffle`, counts their bits.
    """
    parts, nothing = range(BLOCK // _WIDTH), vector_of(BYTE, [0] * _WIDTH)

    def word_sums(builder, codes, chosen, tables):
        """Return the distances of 128 codes in 16 nibbles."""
        sums = [nothing for _ in parts]
        for nibble in range(WORD_NIBBLES):
            choice = load(builder, chosen, nibble, BYTE)
            look_up = _look_up(builder, tables, choice, shuffle)
            for part in parts:
                place = BLOCK * nibble + _WIDTH * part
                found = look_up(load(builder, codes, place, _VECTOR))
                sums[part] = builder.add(sums[part], found)
        return sums

    @instruction(types.boolean)
    def near(
        builder,
        nibbles,
        choices,
        query: types.int64,
        most: types.uint8,
        out,
        row: types.int64,
    ):
        """Write the distances to ``out[row]``; return whether one is at most `most`.

        nibbles : uint8 (nibbles, 128), one in the lower half of each byte; choices :
        uint8 (queries, nibbles), 16 times the nibble of the query; query : its row; out
        : uint8 (rows, 128). The number of nibbles is a multiple of 16.
        """
        tables = _tables(builder)
        places = [cgutils.alloca_once_value(builder, nothing) for _ in parts]
        n_words = builder.udiv(nibbles.shape[0], int64(WORD_NIBBLES))
        with cgutils.for_range(builder, n_words) as loop:
            first = builder.mul(loop.index, int64(WORD_NIBBLES))
            chosen = step(builder, choices.row(query), first)
            sums = word_sums(builder, nibbles.row(first), chosen, tables)
            # A word has 64 bits, so that only sums over words need care.
            for place, total in zip(places, sums, strict=True):
                total = call(builder, "llvm.uadd.sat.v32i8", builder.load(place), total)
                builder.store(total, place)
        least = spread(builder, BYTE(MOST), _WIDTH)
        for part, place in zip(parts, places, strict=True):
            total = builder.load(place)
            store(builder, total, out.row(row), _WIDTH * part)
            least = call(builder, "llvm.umin.v32i8", least, total)
        most = spread(builder, most, _WIDTH)
        return is_any(builder, builder.icmp_unsigned("<=", least, most))

    return near


near = make_near(has_shuffle())


@instruction(types.uint64)
def in_reach(
    builder,
    values,
    part: types.int64,
    reach,
    places,
    half: types.int64,
    more: types.uint8,
    place: types.uint8,
):
    """Return a bit for each of 64 bytes: whether it is ``reach + more`` or less.

    Equal does not suffice where `place` is larger than that of `places`. Sums stay at
    255.

    values, reach and places : uint8, in one piece; part : which 64 of the values; half
    : which of the others.
    """

    def bytes_of(array, which):
        return load(builder, array.start, builder.mul(which, int64(64)), _HALF)

    more, place = (spread(builder, value, 64) for value in (more, place))
    reach = call(builder, "llvm.uadd.sat.v64i8", bytes_of(reach, half), more)
    late = builder.icmp_unsigned(">", place, bytes_of(places, half))
    late = builder.zext(late, _HALF)
    values = call(builder, "llvm.uadd.sat.v64i8", bytes_of(values, part), late)
    return builder.bitcast(builder.icmp_unsigned("<=", values, reach), INT64)
