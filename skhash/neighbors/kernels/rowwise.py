"""The inner loop of the search for few queries: 64 codes at a time, code by code.

Transposing codes, as `bitslice` does, costs as much as comparing them with
some queries. For fewer, the bits that differ are counted word by word, four or eight
words to a vector, and the counts of the words of a code are brought together.
"""

from functools import reduce

import numpy as np
from llvmlite import ir
from numba import int64, types, uint64

from skhash.neighbors.kernels.blocks import LINE
from skhash.utils.llvm import INT32, INT64, has_features, instruction

LANE = 64
# As wide as the widest instruction that counts bits; without one, LLVM looks them up.
VECTOR_WORDS = 8 if has_features("avx512f", "avx512vpopcntdq") else 4
_VECTOR = ir.VectorType(INT64, VECTOR_WORDS)
_VECTOR_BYTES = 8 * VECTOR_WORDS
# How far ahead lines are asked for from memory: far more than processors do by
# themselves, which was too late.
AHEAD = 8192


def _near_lane(code, lane, pattern, threshold, n_words):
    """Return a bit for each of 64 codes: whether it is nearer."""
    near = INT64(0)
    for start in range(0, LANE, VECTOR_WORDS):
        codes = code.at(lane, 8 * n_words * start)
        for line in range(0, _VECTOR_BYTES * n_words, LINE):
            code.fetch(codes, AHEAD + line)
        distances = _some_distances(code, codes, pattern, n_words)
        nearer = code.icmp_signed("<", distances, threshold)
        bits = code.zext(code.bitcast(nearer, ir.IntType(VECTOR_WORDS)), INT64)
        near = code.or_(near, code.shl(bits, INT64(start)))
    return near


def _some_distances(code, codes, pattern, n_words):
    """Return a vector of distances, of codes that stand one behind the other."""
    n_parts = max(1, n_words // VECTOR_WORDS)  # vectors of a code
    n_inside = max(1, VECTOR_WORDS // n_words)  # codes of a vector

    def count(i, part):
        words = code.read(_VECTOR, codes, _VECTOR_BYTES * (n_parts * i + part))
        query_words = code.read(_VECTOR, pattern, _VECTOR_BYTES * part)
        return code.use(f"llvm.ctpop.v{VECTOR_WORDS}i64", code.xor(words, query_words))

    def shuffle(a, b, order):
        return code.shuffle_vector(a, b, ir.VectorType(INT32, len(order))(order))

    sums, owners = [], []  # counts, and to which code each belongs
    for i in range(VECTOR_WORDS // n_inside):
        sums.append(reduce(code.add, [count(i, part) for part in range(n_parts)]))
        owner = np.repeat(i * n_inside + np.arange(n_inside), n_words)
        owners.append(owner[:VECTOR_WORDS])
    halves = _NEIGHBORS
    while len(sums) > 1:
        pairs = list(zip(sums[::2], sums[1::2], strict=True))
        sums = [code.add(*(shuffle(a, b, half) for half in halves)) for a, b in pairs]
        owners = list(np.reshape(owners, (len(sums), -1))[:, halves[0]])
        halves = _PAIRS
    return shuffle(sums[0], sums[0], np.argsort(owners[0]).tolist())


def _every_other(step):
    """Return places in two vectors: of even and of odd groups of words."""
    groups = np.arange(2 * VECTOR_WORDS).reshape(-1, 2, step)
    return groups[:, 0].ravel(), groups[:, 1].ravel()


# How neighbouring counts are added. The order of words is that of an instruction which
# moves none across 128 bits.
_PAIRS = [half.tolist() for half in _every_other(2)]
_NEIGHBORS = [half.reshape(2, -1).T.ravel().tolist() for half in _every_other(1)]


@instruction(types.UniTuple(int64, 2))
def next_near(
    code,
    words: uint64[:, ::1],
    first: int64,
    n_lanes: int64,
    patterns: uint64[:, ::1],
    query: int64,
    threshold: int64,
):
    """Find the first lane, of 64 codes, in which one is nearer than the threshold.

    words : uint64 (n, n_words); first : where to begin; n_lanes : how many to look at;
    patterns : uint64 (queries, words), the words of a query, over and over, to a
    vector at least; query : its row.

    Returns where the lane begins, and a bit for each of its codes: whether it is
    nearer. Where none is, that is the end, and 0. Of codes that have other than 1, 2, 4
    or 8 words, none is looked at.
    """
    end, hits = (code.variable(INT64(0)) for _ in range(2))
    thresholds = code.spread(threshold, VECTOR_WORDS)

    def look(n_words):
        code.store(n_lanes, end)
        with code.loop(n_lanes) as loop:
            lane_bytes = code.mul(loop.index, INT64(8 * n_words * LANE))
            lane = code.at(words.row(first), lane_bytes)
            near = _near_lane(code, lane, patterns.row(query), thresholds, n_words)
            is_near = code.icmp_unsigned("!=", near, INT64(0))
            with code.if_then(is_near, likely=False):
                code.store(loop.index, end)
                code.store(near, hits)
                loop.do_break()

    programs = [
        (code.icmp_signed("==", words.shape[1], INT64(n)), lambda n=n: look(n))
        for n in (1, 2, 4, 8)
    ]
    code.choose([*programs, (None, lambda: None)])
    skipped = code.mul(code.load(end), INT64(LANE))
    return code.add(first, skipped), code.load(hits)
