"""The inner loop of brute-force search, a vector of distances at a time.

Codes are turned on their side: a *plane* holds one bit of 256 or 512 codes, so that one
vector operation acts on all of them. The distance to a query is the sum of 0/1 planes,
which a tree of full adders (five logical operations each, or two where AVX-512 has any
function of three bits) computes as a binary number whose digits are planes again. Two
things make this cheaper than counting bits word by word:

* A *table* holds, for three planes at a time and each of the eight values that a query
  may have there, the two digits of their partial sum. It is made once per block of
  codes and serves all queries, which thus begin with ready sums of three bits.
* No distance is written and none is compared. Adding ``2**levels - threshold`` to the
  sum makes it overflow exactly where the distance reaches the threshold, and the carry
  that falls out at the top says which codes are near, one bit a code.
"""

from llvmlite import ir
from numba import int64, uint8, uint64, void

from skhash.utils.llvm import BYTE, INT32, INT64, has_features, instruction

# Whether one instruction computes any function of three bits, as with AVX-512: a full
# adder then needs two. And the words in a vector: one plane of a block fills it, so a
# block has 64 codes a lane.
_IS_TERNARY = has_features("avx512f")
LANES = 8 if _IS_TERNARY else 4
_VECTOR = ir.VectorType(INT64, LANES)
GROUP = 3  # planes whose sum the table holds: the most that two digits can count
# In the table, two sum planes come first, then eight carry planes.
SUMS, GROUP_PLANES = 2, 10
CHOICE = 32  # times the number of a plane in a group: what `choices` hold
# The common lengths have a program each, without a loop; all others share two, one with
# few digits and little padding, and one with digits for any length and large steps, as
# each step carries through all digits. They go by their length, or number of digits.
STRAIGHT = (64, 128, 256)
SHORT, LONG = 9, 24
STEPS = {SHORT: 8, LONG: 32}
# Sum of three bits, for each of their eight values: the digit, and the carry.
_TERNARY_SUM, _TERNARY_CARRY = 0b10010110, 0b11101000


def program_of(n_planes: int) -> int:
    """Return the program that sums `n_planes` planes."""
    if n_planes in STRAIGHT:
        return n_planes
    return SHORT if n_planes < 2**SHORT else LONG


def n_levels(program: int) -> int:
    """Return how many digits the sums of a program have."""
    return program if program in STEPS else program.bit_length()


def n_groups(n_planes: int) -> int:
    """Return how many groups of planes a program adds, those of padding included."""
    step = STEPS.get(program_of(n_planes), 1)
    return step * -(-n_planes // (GROUP * step))


class Adder:
    """A carry-save adder over vectors of one-bit numbers.

    Terms wait at their level (the power of two that they count for); three of them
    become one, and a carry one level up. What leaves the top level is the answer.
    """

    def __init__(self, code, digits=()):
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
        plane_bytes = 8 * LANES

        def chosen(which, first):
            byte = self.code.read(BYTE, choice, 2 * group + which)
            offset = self.code.mul(
                self.code.zext(byte, INT64), INT64(plane_bytes // CHOICE)
            )
            place = self.code.at(table, offset)
            first += GROUP_PLANES * group
            return self.code.read(_VECTOR, place, plane_bytes * first)

        if not single:
            self.add(1, chosen(0, SUMS))
        self.add(0, chosen(1, 0))

    def settle(self):
        """Bring every level down to one digit."""
        for level, waiting in enumerate(self.waiting):
            if len(waiting) == 2:
                self.waiting[level] = [self.code.xor(*waiting)]
                self.add(level + 1, self.code.and_(*waiting))

    def full_adder(self, a, b, c):
        code = self.code
        if _IS_TERNARY:
            name = f"llvm.x86.avx512.pternlog.q.{64 * LANES}"
            tables = INT32(_TERNARY_SUM), INT32(_TERNARY_CARRY)
            return tuple(code.use(name, a, b, c, table) for table in tables)
        differ = code.xor(a, b)
        carry = code.or_(code.and_(a, b), code.and_(differ, c))
        return code.xor(differ, c), carry


def _sum_straight(code, adder, n_planes, table, choice):
    """Sum a known number of planes without a loop; return what overflows."""
    n_groups = -(-n_planes // GROUP)
    for group in range(n_groups):
        single = group == n_groups - 1 and n_planes % GROUP == 1
        adder.add_group(table, choice, group, single)
    adder.settle()
    return adder.overflow


def _sum_in_loop(code, adder, step, table, choice, n_groups):
    """Sum as many groups as there are, some a turn; return what overflows."""
    digits = [digit for (digit,) in adder.waiting]
    places = [code.variable(digit) for digit in digits]
    overflow = code.variable(_VECTOR([0] * LANES))
    group_bytes = 8 * LANES * GROUP_PLANES
    with code.loop(code.udiv(n_groups, INT64(step))) as loop:

        def skip(address, n_bytes):
            return code.at(address, code.mul(loop.index, INT64(n_bytes)))

        adder = Adder(code, [code.load(place) for place in places])
        adder.overflow = code.load(overflow)
        rows = skip(table, step * group_bytes), skip(choice, step * 2)
        for group in range(step):
            adder.add_group(*rows, group)
        adder.settle()
        for place, (digit,) in zip(places, adder.waiting, strict=True):
            code.store(digit, place)
        code.store(adder.overflow, overflow)
    return code.load(overflow)


@instruction(int64)
def find_near(
    code,
    program: int,
    table: uint64[::1],
    choices: uint8[:, ::1],
    bias: uint64[:, ::1],
    hits: uint64[:, ::1],
    asked: int64[::1],
):
    """Write the queries that have hits in a block, and the hits; return how many.

    Of the queries in `asked`, those that have hits move to its front. Nothing branches
    on a hit: each query writes its answers, a bit a code, into the next slot, which
    moves on if there are any.

    table : uint64 (1-d); choices : uint8 (queries, 2 * groups); bias : uint64 (queries,
    levels); hits : uint64 (slots, lanes); asked : int64 (n,).
    """
    slots = code.variable(INT64(0))
    n_groups = code.udiv(table.shape[0], INT64(GROUP_PLANES * LANES))
    with code.loop(asked.shape[0]) as loop:
        query, slot = code.read(INT64, asked.row(loop.index)), code.load(slots)
        code.write(query, asked.row(slot))
        digits = [
            code.spread(code.read(INT64, bias.row(query), 8 * level), LANES)
            for level in range(n_levels(program))
        ]
        rows = table.start, choices.row(query)
        adder = Adder(code, digits)
        if program in STRAIGHT:
            far = _sum_straight(code, adder, program, *rows)
        else:
            far = _sum_in_loop(code, adder, STEPS[program], *rows, n_groups)
        hit = code.not_(far)
        code.write(hit, hits.row(slot))
        moved = code.zext(code.is_any(hit), INT64)
        code.store(code.add(slot, moved), slots)
    return code.load(slots)


@instruction(void)
def fill_rows(
    code, words: uint64[:, ::1], first: int64, word: int64, planes: uint64[:, ::1]
):
    """Write one word of the codes from `first` on to 64 rows, a row behind the other.

    Row i has those of the codes i, 64 + i and so on. In the place of missing ones there
    is the last one, whose hits mean nothing there.

    words : uint64 (codes, n_words); planes : uint64 (planes, lanes).
    """
    last = code.sub(words.shape[0], INT64(1))
    target = planes.row(code.mul(word, INT64(64)))
    with code.loop(INT64(64)) as loop:
        row = _VECTOR([0] * LANES)
        for lane in range(LANES):
            position = code.add(code.add(first, loop.index), INT64(64 * lane))
            is_there = code.icmp_signed("<", position, last)
            position = code.select(is_there, position, last)
            value = code.read(INT64, code.at_item(words, position, word))
            row = code.insert_element(row, value, INT32(lane))
        code.write(row, target, code.mul(loop.index, INT64(8 * LANES)))


@instruction(void)
def transpose(code, square: uint64[:, ::1], first: int64):
    """Transpose squares of 64 x 64 bits, side by side in 64 rows, in place.

    square : uint64 (rows, lanes), from `first` on.
    """
    start, row_bytes = square.row(first), 8 * LANES
    with code.loop(INT64(6)) as step:
        # Squares of this width change places with those as far to the right: 32 to 1.
        width = code.lshr(INT64(32), step.index)
        period = code.add(code.shl(INT64(1), width), INT64(1))
        ones = code.udiv(INT64(2**64 - 1), period)
        shift, mask = code.spread(width, LANES), code.spread(ones, LANES)
        distance = code.mul(width, INT64(row_bytes))
        with code.loop(INT64(32)) as pair:
            before = code.and_(pair.index, code.neg(width))
            row = code.mul(code.add(pair.index, before), INT64(row_bytes))
            places = code.at(start, row), code.at(start, code.add(row, distance))
            low, high = (code.read(_VECTOR, place) for place in places)
            differ = code.and_(code.xor(code.lshr(low, shift), high), mask)
            code.write(code.xor(low, code.shl(differ, shift)), places[0])
            code.write(code.xor(high, differ), places[1])


@instruction(void)
def fill_table(code, planes: uint64[:, ::1], table: uint64[::1]):
    """Write the digits of ``(a ^ qa) + (b ^ qb) + (c ^ qc)`` for all qa, qb, qc.

    planes : uint64 (planes, lanes), of which each three a, b, c make a group; table :
    uint64 (1-d).
    """
    plane_bytes = 8 * LANES
    n_groups = code.udiv(table.shape[0], INT64(GROUP_PLANES * LANES))
    adder = Adder(code)
    with code.loop(n_groups) as loop:
        source = code.at(planes.start, code.mul(loop.index, INT64(GROUP * plane_bytes)))
        target = code.at(
            table.start, code.mul(loop.index, INT64(GROUP_PLANES * plane_bytes))
        )
        a, b, c = (code.read(_VECTOR, source, plane_bytes * i) for i in range(GROUP))
        for flips in range(4):
            x = code.not_(a) if flips & 1 else a
            y = code.not_(b) if flips & 2 else b
            total, carry = adder.full_adder(x, y, c)
            code.write(carry, target, plane_bytes * (SUMS + flips))
            # All three flipped: each bit counts if it did not before.
            code.write(code.not_(carry), target, plane_bytes * (SUMS + 7 - flips))
            if flips < SUMS:
                code.write(total, target, plane_bytes * flips)
