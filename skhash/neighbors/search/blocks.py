"""What many queries are compared with blocks of codes in, and the way that is done."""

import os
from contextlib import suppress
from functools import cache
from tempfile import NamedTemporaryFile
from time import perf_counter

import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.kernels.bits import ALL
from skhash.neighbors.kernels.bitslice import (
    CHOICE,
    GROUP,
    GROUP_PLANES,
    LONG,
    SHORT,
    STRAIGHT,
    WAYS,
    n_groups,
    n_levels,
    possible_ways,
    program_of,
)
from skhash.neighbors.search.chunks import read_only
from skhash.utils.kernels import cache_folder, machine

CACHE_LINE = 64  # bytes
NOT_MEASURED = "not measured"
# Bits of codes for programs that sum any number of them.
SAMPLE_PLANES = {SHORT: 192, LONG: 768}
# Codes and queries by which ways are compared, and how often: milliseconds.
SAMPLE_CODES, SAMPLE_QUERIES, SAMPLES = 2**12, 256, 5


def block_workspace(n_planes, queries, threshold, way=None):
    """Make what kernels work in, for codes nearer than `threshold`.

    way : int, the number of one of `WAYS`; by default the fastest one
    """
    n_queries, n_words = queries.shape
    program, groups = program_of(n_planes), n_groups(n_planes)
    way = fastest_way(program) if way is None else way
    lanes = WAYS[way].lanes
    levels = n_levels(program)
    bias = np.empty((n_queries, levels), dtype=np.uint64)
    # Sums shall overflow from the threshold on.
    start = 2**levels - threshold
    bias[:] = [ALL if start >> level & 1 else 0 for level in range(levels)]
    n_rows = max(GROUP * groups, 64 * n_words)
    return kernels.Work(
        find=kernels.block_finder(program, way),
        program=program,
        way=way,
        # Planes past the last bit stay 0, in codes and queries alike.
        planes=_zero_words(n_rows, lanes),
        table=_zero_words(GROUP_PLANES * groups, lanes).ravel(),
        choices=_choices(queries, groups),
        bias=bias,
        hits=_zero_words(n_queries + 1, lanes),
        hit_queries=np.empty(n_queries + 1, dtype=np.int64),
        asked=np.arange(n_queries),
    )


@cache
def fastest_way(program):
    """Return the number of the fastest one of `WAYS` for a program on this machine.

    It is what ``SKHASH_VECTOR_BITS`` asks for, or what was measured once on a machine
    like this one and stands beside the compiled kernels. The first process to come
    waits for kernels to be compiled: it takes the widest vectors, and the second
    measures.
    """
    ways = possible_ways()
    asked = os.environ.get("SKHASH_VECTOR_BITS")
    if asked:
        bits = {str(64 * WAYS[way].lanes): way for way in ways}
        if asked not in bits:
            raise ValueError(
                f"SKHASH_VECTOR_BITS={asked!r}, but searches on this machine take "
                f"vectors of {' or '.join(bits)} bits; set it to one of these, or to "
                "nothing."
            )
        return bits[asked]
    if len(ways) == 1:
        return ways[0]
    with global_compiler_lock:  # threads that wait would only disturb
        known = _remembered(program)
        if known in map(str, ways):
            return int(known)
        best = ways[-1] if known is None else measured_way(program, ways)
        _remember(program, NOT_MEASURED if known is None else best)
    return best


def measure_ways():
    """Measure the ways for all programs now, and remember the fastest ones."""
    ways = possible_ways()
    for program in (*STRAIGHT, SHORT, LONG) if len(ways) > 1 else ():
        with global_compiler_lock:
            _remember(program, measured_way(program, ways))


def measured_way(program, ways):
    """Return the one of some ways that is the fastest now."""
    random, n_planes = np.random.default_rng(0), SAMPLE_PLANES.get(program, program)
    shape = SAMPLE_CODES + SAMPLE_QUERIES, -(-n_planes // 64)
    words = random.integers(2**63, size=shape, dtype=np.uint64)
    queries, words = np.split(read_only(words), [SAMPLE_QUERIES])
    works = {way: block_workspace(n_planes, queries, 1, way) for way in ways}
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(SAMPLES):
        for way, work in works.items():
            start = perf_counter()
            kernels.count_hits(words, work)
            seconds[way] = min(seconds[way], perf_counter() - start)
    return min(seconds, key=seconds.get)


def _place(program):
    """Return the file that tells the fastest way, or None."""
    folder = cache_folder(kernels.count_hits)
    return folder and folder / f"skhash-vectors-{machine()}-{program}.txt"


def _remembered(program):
    """Return what a process before this one wrote, or None."""
    place = _place(program)
    if place is not None:
        with suppress(OSError, ValueError):
            return place.read_text()
    return None


def _remember(program, way):
    """Write which way is the fastest, whole, or not at all where that is forbidden."""
    place = _place(program)
    if place is not None:
        with suppress(OSError):
            with NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
                file.write(str(way))
            os.replace(file.name, place)


def _zero_words(n, lanes):
    """Return words, so many lanes in a row, in rows that no cache line cuts.

    A vector that lies in two of them takes twice as long to read.
    """
    line = CACHE_LINE // 8
    words = np.zeros(n * lanes + line, dtype=np.uint64)
    first = -words.ctypes.data // 8 % line
    return words[first : first + n * lanes].reshape(n, lanes)


def _choices(queries, n_groups):
    """Return where in a group of the table each query finds its digits."""
    bits = np.zeros((len(queries), GROUP * n_groups), dtype=np.uint8)
    flips = np.unpackbits(queries.view(np.uint8), axis=1, bitorder="little")
    width = min(bits.shape[1], flips.shape[1])
    bits[:, :width] = flips[:, :width]
    a, b, c = (bits[:, i::GROUP] for i in range(GROUP))
    choices = np.stack([a + 2 * b + 4 * c, a ^ b ^ c], axis=2) * np.uint8(CHOICE)
    return choices.reshape(len(queries), 2 * n_groups)
