"""The inner loop of the search, 256 distances at a time, as vector instructions.

Codes are turned on their side: a *plane* holds one bit of 256 codes, so that one vector
operation acts on all of them. The distance to a query is the sum of 0/1 planes, which a
tree of full adders (five logical operations each) computes as a binary number whose
digits are planes again. Two things make this cheaper than counting bits word by word:

* A *table* holds, for three planes at a time and each of the eight values that a query
  may have there, the two digits of their partial sum. It is made once per block of
  codes and serves all queries, which thus begin with ready sums of three bits.
* No distance is written and none is compared. Adding ``2**levels - threshold`` to the
  sum makes it overflow exactly where the distance reaches the threshold, and the carry
  that falls out at the top says which codes are near, one bit a code.

Everything here is plain LLVM vector code (and, or, xor), so it runs wherever numba
does, at the width that the machine has.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 4
BLOCK = 64 * LANES  # codes in a block: one plane of them fills one vector
GROUP = 3  # planes whose sum the table holds: the most that two digits can count
PLANE_BYTES = 8 * LANES
CARRY_OFFSET = 2 * PLANE_BYTES  # in the table: two sum planes come first,
GROUP_BYTES = 10 * PLANE_BYTES  # then eight carry planes

_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_INT64, LANES)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)
# NumPy promises eight bytes, not the 32 that LLVM would take for granted.
_ALIGN = 8


class _Adder:
    """A carry-save adder over vectors of one-bit numbers.

    Terms wait at their level (the power of two that they count for); three of them
    become one, and a carry one level up. What leaves the top level is the answer.
    """

    def __init__(self, builder, digits):
        self.builder = builder
        self.waiting = [[digit] for digit in digits]
        self.overflow = None

    def add(self, level, term):
        if level == len(self.waiting):
            known = self.overflow
            self.overflow = term if known is None else self.builder.or_(known, term)
            return
        self.waiting[level].append(term)
        if len(self.waiting[level]) == 3:
            total, carry = self.full_adder(*self.waiting[level])
            self.waiting[level] = [total]
            self.add(level + 1, carry)

    def settle(self):
        """Bring every level down to one digit."""
        for level, waiting in enumerate(self.waiting):
            if len(waiting) == 2:
                self.waiting[level] = [self.builder.xor(*waiting)]
                self.add(level + 1, self.builder.and_(*waiting))

    def full_adder(self, a, b, c):
        builder = self.builder
        differ = builder.xor(a, b)
        carry = builder.or_(builder.and_(a, b), builder.and_(differ, c))
        return builder.xor(differ, c), carry


def bytes_of(context, builder, array_type, array, row=None):
    """Return the address of an array, or of one of its rows, as a byte pointer."""
    struct = context.make_array(array_type)(context, builder, value=array)
    address = builder.bitcast(struct.data, ir.IntType(8).as_pointer())
    if row is None:
        return address
    stride = cgutils.unpack_tuple(builder, struct.strides)[0]
    return builder.gep(address, [builder.mul(stride, row)])


def load(builder, address, byte, type_):
    pointer = builder.bitcast(builder.gep(address, [byte]), type_.as_pointer())
    return builder.load(pointer, align=1 if type_ == ir.IntType(8) else _ALIGN)


def spread(builder, word):
    """Return the vector that holds `word` in every lane."""
    single = builder.insert_element(_UNDEFINED, word, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(single, _UNDEFINED, lanes)


def _add_group(builder, adder, table, choice, group, single=False):
    """Add the query's partial sum over three planes (or over a last, `single` one)."""

    def chosen(which, offset):
        choice_byte = ir.Constant(_INT64, 2 * group + which)
        byte = builder.zext(load(builder, choice, choice_byte, ir.IntType(8)), _INT64)
        place = ir.Constant(_INT64, GROUP_BYTES * group + offset)
        return load(builder, table, builder.add(byte, place), _VECTOR)

    if not single:
        adder.add(1, chosen(0, CARRY_OFFSET))
    adder.add(0, chosen(1, 0))


def _straight_program(builder, digits, table, choice, n_planes):
    """Sum a known number of planes without a loop; return the overflow."""
    adder = _Adder(builder, digits)
    n_groups = -(-n_planes // GROUP)
    for group in range(n_groups):
        single = group == n_groups - 1 and n_planes % GROUP == 1
        _add_group(builder, adder, table, choice, group, single)
    adder.settle()
    return adder.overflow


def _looped_program(builder, digits, table, choice, n_steps, step):
    """Sum ``n_steps * step`` groups; return the overflow."""
    places = [cgutils.alloca_once_value(builder, digit) for digit in digits]
    overflow = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0] * LANES))
    with cgutils.for_range(builder, n_steps) as loop:

        def skip(address, step_bytes):
            distance = builder.mul(loop.index, ir.Constant(_INT64, step_bytes))
            return builder.gep(address, [distance])

        adder = _Adder(builder, [builder.load(place) for place in places])
        adder.overflow = builder.load(overflow)
        step_table = skip(table, step * GROUP_BYTES)
        step_choice = skip(choice, step * 2)
        for group in range(step):
            _add_group(builder, adder, step_table, step_choice, group)
        adder.settle()
        for place, (digit,) in zip(places, adder.waiting, strict=True):
            builder.store(digit, place)
        builder.store(adder.overflow, overflow)
    return builder.load(overflow)


def _make_near(levels: int, *, n_planes: int | None = None, step: int | None = None):
    """Build the function that finds the codes of one block that are near a query.

    It sums either `n_planes`, or `step` groups a turn of a loop.
    """

    @intrinsic
    def near(typing_context, table, choices, bias, query, n_steps, hits, slot):
        """Write the 256 answers to ``hits[slot]``; return whether there is a hit.

        table : uint64 (1-d); choices : uint8 (queries, 2 * groups); bias : uint64
        (queries, levels); query : int64, the row of both; n_steps : int64, turns of
        the loop; hits : uint64 (slots, LANES); slot : int64.
        """
        signature = types.boolean(
            table, choices, bias, types.int64, types.int64, hits, types.int64
        )

        def codegen(context, builder, signature, args):
            kinds = signature.args
            table = bytes_of(context, builder, kinds[0], args[0])
            choice = bytes_of(context, builder, kinds[1], args[1], args[3])
            bias = bytes_of(context, builder, kinds[2], args[2], args[3])
            digits = [
                spread(
                    builder,
                    load(builder, bias, ir.Constant(_INT64, 8 * level), _INT64),
                )
                for level in range(levels)
            ]
            if n_planes is None:
                far = _looped_program(builder, digits, table, choice, args[4], step)
            else:
                far = _straight_program(builder, digits, table, choice, n_planes)
            hit = builder.not_(far)
            hits = bytes_of(context, builder, kinds[5], args[5], args[6])
            builder.store(
                hit, builder.bitcast(hits, _VECTOR.as_pointer()), align=_ALIGN
            )
            whole = ir.IntType(BLOCK)
            return builder.icmp_unsigned(
                "!=", builder.bitcast(hit, whole), ir.Constant(whole, 0)
            )

        return signature, codegen

    return near


# The common lengths have a program each, without a loop; all others share two, one with
# few digits and little padding, and one with digits for any length and large steps, as
# each step carries through all digits.
SHORT_LEVELS, SHORT_STEP = 9, 8
LONG_LEVELS, LONG_STEP = 24, 32
near_64, near_128, near_256 = (
    _make_near(n.bit_length(), n_planes=n) for n in (64, 128, 256)
)
near_short = _make_near(SHORT_LEVELS, step=SHORT_STEP)
near_long = _make_near(LONG_LEVELS, step=LONG_STEP)


def n_levels(n_planes: int) -> int:
    """Return how many digits the sums of the program for `n_planes` have."""
    if n_planes in (64, 128, 256):
        return n_planes.bit_length()
    return SHORT_LEVELS if n_planes < 2**SHORT_LEVELS else LONG_LEVELS


def group_step(n_planes: int) -> int:
    """Return of what the number of groups must be a multiple."""
    return SHORT_STEP if n_planes < 2**SHORT_LEVELS else LONG_STEP


@intrinsic
def swap_bits(typing_context, square, row, width, mask):
    """Swap squares of bits between rows `row` and ``row + width`` of all lanes.

    square : uint64 (64, LANES); row, width : int64; mask : uint64, the bits of a row
    that go to the other one, `width` places up.
    """

    def codegen(context, builder, signature, args):
        square, row, width, mask = args
        places = []
        for index in (row, builder.add(row, width)):
            address = bytes_of(context, builder, signature.args[0], square, index)
            places.append(builder.bitcast(address, _VECTOR.as_pointer()))
        low, high = (builder.load(place, align=_ALIGN) for place in places)
        shift = spread(builder, width)
        differ = builder.xor(builder.lshr(low, shift), high)
        differ = builder.and_(differ, spread(builder, mask))
        builder.store(builder.xor(high, differ), places[1], align=_ALIGN)
        differ = builder.shl(differ, shift)
        builder.store(builder.xor(low, differ), places[0], align=_ALIGN)
        return context.get_dummy_value()

    return types.void(square, types.int64, types.int64, types.uint64), codegen


@intrinsic
def fill_group(typing_context, planes, table, group):
    """Write the digits of a ^ qa + b ^ qb + c ^ qc for all values of qa, qb, qc.

    planes : uint64 (planes, LANES), of which a, b, c are those of the group; table :
    uint64 (1-d); group : int64.
    """

    def codegen(context, builder, signature, args):
        planes, table, group = args
        first = builder.mul(group, ir.Constant(_INT64, GROUP))
        source = bytes_of(context, builder, signature.args[0], planes, first)
        a, b, c = (
            load(builder, source, ir.Constant(_INT64, PLANE_BYTES * i), _VECTOR)
            for i in range(GROUP)
        )
        target = builder.gep(
            bytes_of(context, builder, signature.args[1], table),
            [builder.mul(group, ir.Constant(_INT64, GROUP_BYTES))],
        )

        def write(byte, plane):
            address = builder.gep(target, [ir.Constant(_INT64, byte)])
            place = builder.bitcast(address, _VECTOR.as_pointer())
            builder.store(plane, place, align=_ALIGN)

        adder = _Adder(builder, [])
        for flips in range(4):
            x = builder.not_(a) if flips & 1 else a
            y = builder.not_(b) if flips & 2 else b
            total, carry = adder.full_adder(x, y, c)
            write(CARRY_OFFSET + PLANE_BYTES * flips, carry)
            # All three flipped: what counted does not, and the other way round.
            write(CARRY_OFFSET + PLANE_BYTES * (7 - flips), builder.not_(carry))
            if flips < 2:
                write(PLANE_BYTES * flips, total)
        return context.get_dummy_value()

    return types.void(planes, table, types.int64), codegen


@intrinsic
def trailing_zeros(typing_context, word):
    """Return the position of the lowest bit that is set in a word that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen
