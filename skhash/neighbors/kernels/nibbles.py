"""Distances of 128 codes to a query, four bits at a time, as vector instructions.

The bytes of a block of codes stand side by side, the first of all codes, then the
second, so that one vector holds the same four bits (a *nibble*) of 32 or 64 codes. In
how many of these a code differs from the query depends on two numbers below 16: the
nibble of the query chooses one of 16 tables, each of 16 bytes, and one instruction
looks the codes up in it. A distance is the sum of what is found, and stays at 255 if
that is larger.

Unlike the planes of `bitslice`, nothing has to be made for a block but the nibbles
themselves, and half as many codes fill it, so this is what compares few codes with some
of the queries.

Where there is no such instruction (AVX2 has it), bits are counted, in plain LLVM code.
"""

from llvmlite import ir
from numba import boolean, int64, uint8, uint64, void
from numba.core import cgutils

from skhash.utils.llvm import BYTE, INT32, INT64, has_features, instruction

BLOCK = 128  # codes in a block
MOST = 255  # stands for all larger distances
WORD_NIBBLES = 16

# Bytes in a vector, and the instruction that looks up as many of them.
_IS_WIDE = has_features("avx512bw")
_WIDTH = 64 if _IS_WIDE else 32
_SHUFFLE = "llvm.x86.avx512.pshuf.b.512" if _IS_WIDE else "llvm.x86.avx2.pshuf.b"
_VECTOR, _HALF = ir.VectorType(BYTE, _WIDTH), ir.VectorType(BYTE, 64)
_PARTS, _NOTHING = range(BLOCK // _WIDTH), _VECTOR([0] * _WIDTH)


def has_shuffle():
    """Return whether numba compiles for a processor that looks bytes up in tables."""
    return has_features("avx2")


def _tables(code):
    """Return the address of the 16 tables: how many bits differ, for two nibbles."""
    counts = bytearray((a ^ b).bit_count() for a in range(16) for b in range(16))
    value = ir.Constant(ir.ArrayType(BYTE, len(counts)), counts)
    tables = cgutils.global_constant(code, "nibble_tables", value)
    return code.bitcast(tables, BYTE.as_pointer())


def _look_up(code, tables, choice, shuffle):
    """Return the function from nibbles of codes to how many bits differ."""
    if not shuffle:
        nibble = code.spread(code.lshr(choice, BYTE(4)), _WIDTH)
        count = f"llvm.ctpop.v{_WIDTH}i8"
        return lambda nibbles: code.use(count, code.xor(nibbles, nibble))
    table = ir.VectorType(BYTE, 16)
    table = code.read(table, tables, code.zext(choice, INT64))
    repeated = ir.VectorType(INT32, _WIDTH)([*range(16)] * (_WIDTH // 16))
    table = code.shuffle_vector(table, ir.Constant(table.type, ir.Undefined), repeated)
    return lambda nibbles: code.use(_SHUFFLE, table, nibbles)


@instruction(void)
def fetch(code, blocks: uint8[:, :, ::1], block: int64):
    """Bring a block of codes nearer to the processor, which does not wait for it."""
    n_lines = code.lshr(blocks.strides[0], INT64(6))
    with code.loop(n_lines) as loop:
        code.fetch(blocks.row(block), code.shl(loop.index, INT64(6)))


@instruction(void)
def unpack(code, blocks: uint8[:, :, ::1], block: int64, nibbles: uint8[:, ::1]):
    """Write the nibbles of a block of codes, those of a byte one after the other.

    blocks : uint8 (blocks, n_bytes, 128); nibbles : uint8 (2 * n_bytes, 128), the lower
    half of each byte.
    """
    source = blocks.row(block)
    with code.loop(blocks.shape[1]) as loop:
        place = code.mul(loop.index, INT64(BLOCK))
        codes = code.at(source, place)
        target = code.at(nibbles.start, code.mul(place, INT64(2)))
        for part in range(0, BLOCK, _WIDTH):
            values = code.read(_VECTOR, codes, part)
            low = code.and_(values, _VECTOR([15] * _WIDTH))
            code.write(low, target, part)
            high = code.lshr(values, _VECTOR([4] * _WIDTH))
            code.write(high, target, BLOCK + part)


def _word_distances(code, codes, chosen, shuffle):
    """Return the distances of 128 codes in 16 nibbles."""
    sums, tables = [_NOTHING for _ in _PARTS], _tables(code)
    for nibble in range(WORD_NIBBLES):
        look_up = _look_up(code, tables, code.read(BYTE, chosen, nibble), shuffle)
        for part in _PARTS:
            values = code.read(_VECTOR, codes, BLOCK * nibble + _WIDTH * part)
            sums[part] = code.add(sums[part], look_up(values))
    return sums


def make_near(shuffle):
    """Build the function that compares a block of codes with a query.

    It looks nibbles up, or, without `shuffle`, counts their bits.
    """

    @instruction(boolean)
    def near(
        code,
        nibbles: uint8[:, ::1],
        choices: uint8[:, ::1],
        query: int64,
        most: uint8,
        out: uint8[:, ::1],
        row: int64,
    ):
        """Write the distances to ``out[row]``; return whether one is at most `most`.

        nibbles : uint8 (nibbles, 128), one in the lower half of each byte; choices :
        uint8 (queries, nibbles), 16 times the nibble of the query; query : its row; out
        : uint8 (rows, 128). The number of nibbles is a multiple of 16.
        """
        places = [code.variable(_NOTHING) for _ in _PARTS]
        n_words = code.udiv(nibbles.shape[0], INT64(WORD_NIBBLES))
        with code.loop(n_words) as loop:
            first = code.mul(loop.index, INT64(WORD_NIBBLES))
            chosen = code.at(choices.row(query), first)
            sums = _word_distances(code, nibbles.row(first), chosen, shuffle)
            # A word has 64 bits, so that only sums over words need care.
            for place, total in zip(places, sums, strict=True):
                total = code.use(f"llvm.uadd.sat.v{_WIDTH}i8", code.load(place), total)
                code.store(total, place)
        least = code.spread(BYTE(MOST), _WIDTH)
        for part, place in zip(_PARTS, places, strict=True):
            total = code.load(place)
            code.write(total, out.row(row), _WIDTH * part)
            least = code.use(f"llvm.umin.v{_WIDTH}i8", least, total)
        most = code.spread(most, _WIDTH)
        return code.is_any(code.icmp_unsigned("<=", least, most))

    return near


near = make_near(has_shuffle())


@instruction(uint64)
def in_reach(
    code,
    values: uint8[::1],
    part: int64,
    reach: uint8[::1],
    places: uint8[::1],
    half: int64,
    more: uint8,
    place: uint8,
):
    """Return a bit for each of 64 bytes: whether it is ``reach + more`` or less.

    Equal does not suffice where `place` is larger than that of `places`. Sums stay at
    255.

    values, reach and places : uint8, in one piece; part : which 64 of the values; half
    : which of the others.
    """

    def bytes_of(array, which):
        return code.read(_HALF, array.start, code.mul(which, INT64(64)))

    more, place = (code.spread(value, 64) for value in (more, place))
    reach = code.use("llvm.uadd.sat.v64i8", bytes_of(reach, half), more)
    late = code.icmp_unsigned(">", place, bytes_of(places, half))
    late = code.zext(late, _HALF)
    values = code.use("llvm.uadd.sat.v64i8", bytes_of(values, part), late)
    return code.bitcast(code.icmp_unsigned("<=", values, reach), INT64)
