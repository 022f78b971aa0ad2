"""Sums of table look-ups for 512 codes, as vector instructions.

The bytes of a block of codes stand side by side, the first of all codes, then the
second, so that one vector holds the same byte of many. Each value of it adds a byte
too, and a sum stays at 255 if it is larger.

Processors with AVX-512 VBMI look 64 bytes up at once in a table of 256, which fills
four registers. Those with AVX2 look 32 up in a table of 16. There, two values share an
entry, so that 128 of them take eight look-ups; or, where a byte holds some blocks of
bits, its halves have a table each, as what they add is known apart. Those of AArch64,
which all have NEON, look 16 up in a quarter of a table of 256, and then in the others.
Elsewhere, `ENTRIES` is 0, and there is no such function.
"""

from llvmlite import ir
from numba import boolean, float32, int64, uint8, uint64, void
from numba.core.types import UniTuple

from skhash.neighbors.kernels.blocks import BLOCK
from skhash.utils.llvm import BYTE, FLOAT, INT32, INT64, has_features, instruction

MOST = 255  # stands for all larger sums
_FLOATS = ir.VectorType(FLOAT, 16)

# Each way below adds to a few vectors of sums at a time, its `parts`: these, the tables
# and the codes fill the registers.


class _Bytes:
    """Look-ups of 64 bytes in tables of 256."""

    width, entries, parts = 64, 256, 8
    vector = ir.VectorType(BYTE, 64)

    def read_tables(self, code, address):
        return [code.read(self.vector, address, 64 * part) for part in range(4)]

    def look_up(self, code, tables, values):
        """Return the summands of a vector of values."""
        name = "llvm.x86.avx512.vpermi2var.qi.512"
        low, high = (
            code.use(name, tables[part], values, tables[part + 1]) for part in (0, 2)
        )
        is_high = code.icmp_signed("<", values, self.vector([0] * 64))
        return [code.select(is_high, high, low)]


class _Sixteens:
    """Look-ups of 32 bytes in tables of 16."""

    width = 32
    vector = ir.VectorType(BYTE, 32)

    def read_tables(self, code, address):
        kind = ir.VectorType(BYTE, 16)
        twice = ir.VectorType(INT32, 32)([*range(16)] * 2)
        places = range(0, self.entries, 16)
        tables = [code.read(kind, address, place) for place in places]
        nothing = ir.Constant(kind, ir.Undefined)
        return [code.shuffle_vector(table, nothing, twice) for table in tables]


class _Pairs(_Sixteens):
    """Look-ups of values that share their entry with the next one."""

    entries, parts = 128, 4

    def look_up(self, code, tables, values):
        pairs = code.and_(
            code.lshr(values, self.vector([1] * 32)), self.vector([127] * 32)
        )
        # The look-up reads the last four bits; the others choose a table.
        entries = [code.use("llvm.x86.avx2.pshuf.b", table, pairs) for table in tables]
        for shift in (2, 1, 0):
            bits = code.shl(values, self.vector([shift] * 32))
            is_second = code.icmp_signed("<", bits, self.vector([0] * 32))
            ways = zip(entries[1::2], entries[::2], strict=True)
            entries = [code.select(is_second, *pair) for pair in ways]
        return entries


class _Nibbles(_Sixteens):
    """Look-ups of the halves of 32 bytes, the higher half first."""

    entries, parts = 32, 8

    def look_up(self, code, tables, values):
        high = code.lshr(values, self.vector([4] * 32))
        low = code.and_(values, self.vector([15] * 32))
        return [
            code.use("llvm.x86.avx2.pshuf.b", table, half)
            for table, half in zip(tables, (high, low), strict=True)
        ]


class _Quarters:
    """Look-ups of 16 bytes in the quarters of tables of 256."""

    width, entries, parts = 16, 256, 4
    vector = ir.VectorType(BYTE, 16)

    def read_tables(self, code, address):
        return [code.read(self.vector, address, 16 * part) for part in range(16)]

    def look_up(self, code, tables, values):
        # Beyond a quarter, the first look-up finds 0, and the others change nothing.
        entries = code.use("llvm.aarch64.neon.tbl4.v16i8", *tables[:4], values)
        for first in (4, 8, 12):
            values = code.sub(values, self.vector([64] * 16))
            part = tables[first : first + 4]
            entries = code.use("llvm.aarch64.neon.tbx4.v16i8", entries, *part, values)
        return [entries]


def _write_part(code, way, source, tables, limit, out):
    """Sum up vectors of codes; return whether a sum is at most `limit`."""
    (source, n_rows), width = source, way.width
    zero = way.vector([0] * width)
    places = [code.variable(zero) for _ in range(way.parts)]
    with code.loop(n_rows) as loop:
        row = code.at(source, code.mul(loop.index, INT64(BLOCK)))
        address = code.at(tables, code.mul(loop.index, INT64(way.entries)))
        row_tables = way.read_tables(code, address)
        for part, place in enumerate(places):
            values = code.read(way.vector, row, width * part)
            total = code.load(place)
            for summand in way.look_up(code, row_tables, values):
                total = code.use(f"llvm.uadd.sat.v{width}i8", total, summand)
            code.store(total, place)
    limit, word = code.spread(limit, width), ir.IntType(width)
    any_low = word(0)
    for part, place in enumerate(places):
        low = code.icmp_unsigned("<=", code.load(place), limit)
        low = code.bitcast(low, word)
        code.write(low, out, part * width // 8)
        any_low = code.or_(any_low, low)
    return code.icmp_unsigned("!=", any_low, word(0))


@instruction(UniTuple(float32, 2))
def extremes(code, values: float32[:, ::1], first: int64, count: int64):
    """Return the least and the largest of `count` numbers.

    values : float32, contiguous, of which `count` from `first` on, as if it were flat,
    a multiple of 16; no NaN among them
    """
    address = code.at(values.start, code.shl(first, INT64(2)))
    places = [code.variable(code.read(_FLOATS, address)) for _ in range(2)]

    def update(place, order, others):
        extreme = code.load(place)
        is_beyond = code.fcmp_ordered(order, others, extreme)
        code.store(code.select(is_beyond, others, extreme), place)

    with code.loop(code.lshr(count, INT64(4))) as loop:
        numbers = code.read(_FLOATS, address, code.shl(loop.index, INT64(6)))
        for place, order in zip(places, "<>", strict=True):
            update(place, order, numbers)
    for span in (8, 4, 2, 1):
        turned = ir.VectorType(INT32, 16)([(i + span) % 16 for i in range(16)])
        for place, order in zip(places, "<>", strict=True):
            extreme = code.load(place)
            update(place, order, code.shuffle_vector(extreme, extreme, turned))
    return tuple(code.extract_element(code.load(place), INT32(0)) for place in places)


@instruction(void)
def write_steps(
    code,
    values: float32[:, ::1],
    first: int64,
    count: int64,
    lowest: float32,
    times: float32,
    tables: uint8[:, :, ::1],
    query: int64,
):
    """Write ``(value - lowest) * times``, cut to an integer up to 255, for some values.

    values : as in `extremes`; tables : uint8 (queries, n_rows, ENTRIES), where values
    have the same places in a query's row
    """
    source = code.at(values.start, code.shl(first, INT64(2)))
    target = code.at(tables.row(query), first)
    lowest, times = (code.spread(value, 16) for value in (lowest, times))
    most = _FLOATS([255.0] * 16)
    with code.loop(code.lshr(count, INT64(4))) as loop:
        numbers = code.read(_FLOATS, source, code.shl(loop.index, INT64(6)))
        steps = code.fmul(code.fsub(numbers, lowest), times)
        steps = code.select(code.fcmp_ordered("<", steps, most), steps, most)
        steps = code.fptosi(steps, ir.VectorType(INT32, 16))
        steps = code.trunc(steps, ir.VectorType(BYTE, 16))
        code.write(steps, target, code.shl(loop.index, INT64(4)))


def make_find_low(way):
    """Build the function that finds the low sums of a block of codes."""

    @instruction(boolean)
    def find_low(
        code,
        blocks: uint8[:, :, ::1],
        block: int64,
        tables: uint8[:, :, ::1],
        query: int64,
        limit: uint8,
        out: uint64[::1],
    ):
        """Write a bit for each code of a block: whether its sum is at most `limit`.

        Return whether one is.

        blocks : uint8 (n_blocks, n_rows or more, 512); tables : uint8 (queries, n_rows,
        ENTRIES), what the values of each row add; query : its row; out : uint64 (8,).
        """
        span, answer = way.parts * way.width, ir.IntType(1)(0)
        for first in range(0, BLOCK, span):
            source = code.at(blocks.row(block), first), tables.shape[1]
            place = code.at(out.start, first // 8)
            is_low = _write_part(code, way, source, tables.row(query), limit, place)
            answer = code.or_(answer, is_low)
        return answer

    return find_low


def choose_ways():
    """Return the look-ups of this processor, of whole bytes and of bits, or None."""
    if has_features("avx512f", "avx512bw", "avx512vbmi"):
        return [_Bytes()] * 2
    if has_features("avx2"):
        return _Pairs(), _Nibbles()
    return [_Quarters() if has_features("neon") else None] * 2


_of_bytes, _of_bits = choose_ways()
ENTRIES, ENTRIES_OF_BITS = (way.entries if way else 0 for way in (_of_bytes, _of_bits))
find_low = make_find_low(_of_bytes) if _of_bytes else None
find_low_of_bits = find_low if _of_bits is _of_bytes else make_find_low(_of_bits)
