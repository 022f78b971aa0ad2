"""Products of queries and the entries of a codebook, in float32.

Entries of whole numbers become floats in registers: they are read in a quarter or half
of the bytes. As their scales are powers of two, the products are those of the decoded
floats to the last bit.

A sum runs over the features in their order, whichever queries and entries stand beside
it, so that a table is the same to the last bit in every call.
"""

import math
from collections import namedtuple

import numpy as np
from llvmlite import ir
from numba import float32, int8, int16, int64, void

from skhash.neighbors.kernels.byte_tables import extremes
from skhash.utils.kernels import inner_kernel, kernel
from skhash.utils.llvm import FLOAT, INT32, INT64, has_features, instruction

# A decoder of bytes: offset (n_features,) : float64; by_angle, from_offset : bool, see
# `prepare`; features (n_blocks, n_features, 256) : int8, int16 or float32, the entries;
# scales : float32, the factor of each block, (n_blocks,), or (0,) where entries are
# floats; times : float32, a factor of all sums.
Source = namedtuple("Source", "offset by_angle from_offset features scales times")

ENTRIES = 256
# Of rows whose largest magnitude is up to this power of two, and from the power of its
# negative on, no sum of squares overflows or vanishes.
_ORDINARY = 500
LARGEST = float(np.finfo(np.float32).max)
_WIDTH = 16
_VECTOR = ir.VectorType(FLOAT, _WIDTH)


def _read_entries(code, kind, line, place):
    """Return a vector of the entries of a line from a place on, as floats."""
    if kind == float32:
        return code.read(_VECTOR, line, 4 * place)
    whole = ir.VectorType(ir.IntType(kind.bitwidth), _WIDTH)
    numbers = code.read(whole, line, kind.bitwidth // 8 * place)
    return code.sitofp(code.sext(numbers, ir.VectorType(INT32, _WIDTH)), _VECTOR)


def _make_multiply(n_queries, n_vectors):
    """Build the function that multiplies queries by the entries of a block.

    n_vectors : how many vectors of entries to multiply at a time
    """
    span = n_vectors * _WIDTH

    @instruction(void)
    def multiply_some(
        code,
        queries: float32[:, ::1],
        first: int64,
        features: (int8[:, :, ::1], int16[:, :, ::1], float32[:, :, ::1]),
        scales: float32[::1],
        block: int64,
        products: float32[:, :, ::1],
    ):
        """Write the products of the queries from `first` on; see `multiply`."""
        name = f"llvm.fmuladd.v{_WIDTH}f32"
        rows = [code.add(first, INT64(i)) for i in range(n_queries)]
        nothing = _VECTOR([0.0] * _WIDTH)
        scale = code.spread(code.read(FLOAT, scales.row(block)), _WIDTH)
        for start in range(0, ENTRIES, span):
            places = [[code.variable(nothing) for _ in range(n_vectors)] for _ in rows]
            with code.loop(features.shape[1]) as loop:
                place = code.mul(loop.index, features.strides[1])
                line = code.at(features.row(block), place)
                offset = code.shl(loop.index, INT64(2))
                vectors = [
                    _read_entries(code, features.item, line, start + _WIDTH * i)
                    for i in range(n_vectors)
                ]
                for row, sums in zip(rows, places, strict=True):
                    value = code.read(FLOAT, queries.row(row), offset)
                    value = code.spread(value, _WIDTH)
                    for place, entries in zip(sums, vectors, strict=True):
                        total = code.use(name, value, entries, code.load(place))
                        code.store(total, place)
            for row, sums in zip(rows, places, strict=True):
                line = code.at(products.row(row), code.mul(products.strides[1], block))
                for i, place in enumerate(sums):
                    total = code.fmul(code.load(place), scale)
                    code.write(total, line, 4 * (start + _WIDTH * i))

    return multiply_some


# Four queries read an entry once, with sums that fit the registers, and one query reads
# all entries of a feature in a row.
_multiply_four = _make_multiply(4, 4 if has_features("avx512f") else 1)
_multiply_one = _make_multiply(1, 16)


@kernel
def prepare(X, offset, by_angle, from_offset, starts):
    """Scale rows to unit length, or subtract the offset; write what all scores share.

    With `from_offset` that is the squared length, and else the negated product with
    the offset.

    X : float64 (n, n_features), written; starts : float64 (n,)
    """
    for q in range(len(X)):
        largest, squares, start = 0.0, 0.0, 0.0
        for i in range(len(offset) if by_angle else 0):
            largest = max(largest, abs(X[q, i]))
        if largest > 0:
            exponent = math.frexp(largest)[1]
            if abs(exponent) > _ORDINARY:
                for i in range(len(offset)):
                    X[q, i] = math.ldexp(X[q, i], -exponent)
            for i in range(len(offset)):
                squares += X[q, i] * X[q, i]
            length = math.sqrt(squares)
            for i in range(len(offset)):
                X[q, i] /= length
        for i in range(len(offset)):
            if from_offset:
                X[q, i] -= offset[i]
                start += X[q, i] * X[q, i]
            else:
                start -= X[q, i] * offset[i]
        starts[q] = start


@kernel
def write_tables(X, source, tables):
    """Write what each entry adds to the sums of codes, in the first block all else too.

    Return whether no sum of them is beyond float32, nor one with the float of a code.

    X : float64 (n, n_features), written; source : `Source`; tables : float32 (n,
    n_blocks, 256)
    """
    starts = np.empty(len(X))
    prepare(X, source.offset, source.by_angle, source.from_offset, starts)
    queries = np.empty(X.shape, dtype=np.float32)
    for q in range(len(X)):
        for i in range(X.shape[1]):
            queries[q, i] = X[q, i]
    scales = np.empty(len(source.features), dtype=np.float32)
    for block in range(len(scales)):
        scale = source.scales[block] if len(source.scales) else np.float32(1)
        scales[block] = source.times * scale
    _multiply(queries, source.features, scales, tables)
    for q in range(len(X)):
        most, start = abs(starts[q]), np.float32(starts[q])
        for block in range(tables.shape[1]):
            lowest, highest = extremes(tables[q], ENTRIES * block, ENTRIES)
            most += max(abs(lowest), abs(highest))
        if not 2 * most < LARGEST:
            return False
        for entry in range(ENTRIES):
            tables[q, 0, entry] += start
    return True


@inner_kernel
def _multiply(queries, features, scales, products):
    """Write the products of queries and scaled entries."""
    n_whole = len(queries) // 4 * 4
    for block in range(len(features)):
        for first in range(0, n_whole, 4):
            _multiply_four(queries, first, features, scales, block, products)
        for first in range(n_whole, len(queries)):
            _multiply_one(queries, first, features, scales, block, products)
