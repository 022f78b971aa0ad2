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
"""

from llvmlite import ir
from numba import int64, uint64, void

from skhash.utils.llvm import BYTE, INT64, instruction

LANES = 4
BLOCK = 64 * LANES  # codes in a block: one plane of them fills one vector
GROUP = 3  # planes whose sum the table holds: the most that two digits can count
PLANE_BYTES = 8 * LANES
CARRY_OFFSET = 2 * PLANE_BYTES  # in the table: two sum planes come first,
GROUP_BYTES = 10 * PLANE_BYTES  # then eight carry planes
# The common lengths have a program each, without a loop; all others share two, one with
# few digits and little padding, and one with digits for any length and large steps, as
# each step carries through all digits.
STRAIGHT = (64, 128, 256)
SHORT_LEVELS, SHORT_STEP = 9, 8
LONG_LEVELS, LONG_STEP = 24, 32

_VECTOR = ir.VectorType(INT64, LANES)


def n_levels(n_planes: int) -> int:
    """Return how many digits the sums of the program for `n_planes` have."""
    if n_planes in STRAIGHT:
        return n_planes.bit_length()
    return SHORT_LEVELS if n_planes < 2**SHORT_LEVELS else LONG_LEVELS


def group_step(n_planes: int) -> int:
    """Return of what the number of groups must be a multiple."""
    return SHORT_STEP if n_planes < 2**SHORT_LEVELS else LONG_STEP


class _Adder:
    """A carry-save adder over vectors of one-bit numbers.

    Terms wait at their level (the power of two that they count for); three of them
    become one, and a carry one level up. What leaves the top level is the answer.
    """

    def __init__(self, code, digits):
        self.code = code
        self.waiting = [[digit] for digit in digits]
        self.overflow = None

    def add(self, level, term):
        if level == len(self.waiting):
            known = self.overflow
            self.overflow = term if known is None else self.code.or_(known, term)
            return
        self.waiting[level].append(term)
        if len(self.waiting[level]) == 3:
            total, carry = self.full_adder(*self.waiting[level])
            self.waiting[level] = [total]
            self.add(level + 1, carry)

    def add_group(self, table, choice, group, single=False):
        """Add a query's sum over three planes (or over a last, `single` one)."""

        def chosen(which, offset):
            byte = self.code.read(BYTE, choice, 2 * group + which)
            place = self.code.at(table, self.code.zext(byte, INT64))
            return self.code.read(_VECTOR, place, GROUP_BYTES * group + offset)

        if not single:
            self.add(1, chosen(0, CARRY_OFFSET))
        self.add(0, chosen(1, 0))

    def settle(self):
        """Bring every level down to one digit."""
        for level, waiting in enumerate(self.waiting):
            if len(waiting) == 2:
                self.waiting[level] = [self.code.xor(*waiting)]
                self.add(level + 1, self.code.and_(*waiting))

    def full_adder(self, a, b, c):
        code = self.code
        differ = code.xor(a, b)
        carry = code.or_(code.and_(a, b), code.and_(differ, c))
        return code.xor(differ, c), carry


def _straight_program(n_planes):
    """Sum a known number of planes without a loop."""
    n_groups = -(-n_planes // GROUP)

    def far(code, digits, table, choice):
        adder = _Adder(code, digits)
        for group in range(n_groups):
            single = group == n_groups - 1 and n_planes % GROUP == 1
            adder.add_group(table, choice, group, single)
        adder.settle()
        return adder.overflow

    return n_levels(n_planes), far


def _looped_program(n_planes, n_groups):
    """Sum as many groups as there are, some a turn."""
    stride = group_step(n_planes)

    def far(code, digits, table, choice):
        places = [code.variable(digit) for digit in digits]
        nothing = _VECTOR([0] * LANES)
        overflow = code.variable(nothing)
        with code.loop(code.udiv(n_groups, INT64(stride))) as loop:

            def skip(address, n_bytes):
                return code.at(address, code.mul(loop.index, INT64(n_bytes)))

            adder = _Adder(code, [code.load(place) for place in places])
            adder.overflow = code.load(overflow)
            rows = skip(table, stride * GROUP_BYTES), skip(choice, stride * 2)
            for group in range(stride):
                adder.add_group(*rows, group)
            adder.settle()
            for place, (digit,) in zip(places, adder.waiting, strict=True):
                code.store(digit, place)
            code.store(adder.overflow, overflow)
        return code.load(overflow)

    return n_levels(n_planes), far


@instruction(int64)
def find_near(code, n_planes: int64, table, choices, bias, hits, asked, n: int64):
    """Write the queries that have hits in a block, and the hits; return how many.

    The first `n` of `asked` are the queries to compare. Those that have hits move to
    its front. Nothing branches on a hit: each query writes its 256 answers into the
    next slot, which moves on if there are any. The loop stands here once a program, as
    a call costs as much as a turn.

    table : uint64 (1-d); choices : uint8 (queries, 2 * groups); bias : uint64 (queries,
    levels); hits : uint64 (slots, LANES); asked : int64 (slots,).
    """
    slots = code.variable(INT64(0))

    def loop_of(levels, far):
        with code.loop(n) as loop:
            query, slot = code.read(INT64, asked.row(loop.index)), code.load(slots)
            code.write(query, asked.row(slot))
            digits = [
                code.spread(code.read(INT64, bias.row(query), 8 * level), LANES)
                for level in range(levels)
            ]
            hit = code.not_(far(code, digits, table.start, choices.row(query)))
            code.write(hit, hits.row(slot))
            moved = code.zext(code.is_any(hit), INT64)
            code.store(code.add(slot, moved), slots)

    def is_length(sign, number):
        return code.icmp_signed(sign, n_planes, INT64(number))

    n_groups = code.udiv(table.shape[0], INT64(GROUP_BYTES // 8))
    short, long = (_looped_program(some, n_groups) for some in (1, 2**SHORT_LEVELS))
    programs = [(is_length("==", some), _straight_program(some)) for some in STRAIGHT]
    programs += [(is_length("<", 2**SHORT_LEVELS), short), (None, long)]
    code.choose([(is_for, lambda p=some: loop_of(*p)) for is_for, some in programs])
    return code.load(slots)


@instruction(void)
def swap_bits(code, square, row: int64, width: int64, mask: uint64):
    """Swap squares of bits between rows `row` and ``row + width`` of all lanes.

    square : uint64 (64, LANES); mask : the bits of a row that go to the other one,
    `width` places up.
    """
    places = square.row(row), square.row(code.add(row, width))
    low, high = (code.read(_VECTOR, place) for place in places)
    shift = code.spread(width, LANES)
    differ = code.xor(code.lshr(low, shift), high)
    differ = code.and_(differ, code.spread(mask, LANES))
    code.write(code.xor(high, differ), places[1])
    code.write(code.xor(low, code.shl(differ, shift)), places[0])


@instruction(void)
def fill_group(code, planes, table, group: int64):
    """Write the digits of a ^ qa + b ^ qb + c ^ qc for all values of qa, qb, qc.

    planes : uint64 (planes, LANES), of which a, b, c are those of the group; table :
    uint64 (1-d).
    """
    source = planes.row(code.mul(group, INT64(GROUP)))
    a, b, c = (code.read(_VECTOR, source, PLANE_BYTES * i) for i in range(GROUP))
    target = code.at(table.start, code.mul(group, INT64(GROUP_BYTES)))
    adder = _Adder(code, [])
    for flips in range(4):
        x = code.not_(a) if flips & 1 else a
        y = code.not_(b) if flips & 2 else b
        total, carry = adder.full_adder(x, y, c)
        code.write(carry, target, CARRY_OFFSET + PLANE_BYTES * flips)
        # All three flipped: what counted does not, and the other way round.
        flipped = CARRY_OFFSET + PLANE_BYTES * (7 - flips)
        code.write(code.not_(carry), target, flipped)
        if flips < 2:
            code.write(total, target, PLANE_BYTES * flips)
