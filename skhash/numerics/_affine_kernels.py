"""The compiled part of `skhash.numerics._affine`: products of rows and weights.

A sum runs over the features in their order, whichever rows and outputs stand beside it,
so that it is the same to the last bit in every call.
"""

from functools import partial

import numpy as np
from llvmlite import ir
from numba import float32, float64, int64, uint8, void

from skhash.utils.kernels import kernel
from skhash.utils.llvm import DOUBLE, FLOAT, HALF, INT64, has_features, instruction

# The sums of a tile, `TILE_ROWS` by a panel of outputs, stay in registers: they fill 24
# of 32 vectors, or 12 of 16.
LANES, _N_VECTORS = (16, 4) if has_features("avx512f") else (8, 2)
TILE_ROWS, PANEL, HALF_PANEL = 6, LANES * _N_VECTORS, LANES * _N_VECTORS // 2
# Rows, and features of them, that are centred at a time. They fit into the second level
# of the cache beside the weights that they meet, and a tile's into the first, where the
# padding keeps rows from sharing places.
BLOCK_ROWS, DEPTH, PADDING = 8 * TILE_ROWS, 1024, 16
ROOM = BLOCK_ROWS, DEPTH + PADDING
# Whether the processor reads numbers of two bytes, as nearly all do.
READS_HALF = has_features("f16c") or has_features("neon")

MATRIX = float32[:, ::1]
_KINDS = {2: HALF, 4: FLOAT, 8: DOUBLE} if READS_HALF else {4: FLOAT, 8: DOUBLE}


def _center_values(code, kind, n, values, means, centered):
    """Write values less their means; n : how many, next to each other, as a vector."""
    single, double = ir.VectorType(FLOAT, n), ir.VectorType(DOUBLE, n)
    value, mean = code.read(ir.VectorType(kind, n), values), code.read(double, means)
    if kind is DOUBLE:
        difference = code.fptrunc(code.fsub(value, mean), single)
    else:
        value = code.fpext(value, single) if kind is HALF else value
        difference = code.fsub(value, code.fptrunc(mean, single))
    code.write(difference, centered)


@instruction(void)
def _center(code, rows: uint8[:, :], size: int64, mean: float64[::1], block: MATRIX):
    """Write rows less the mean as float32, in the precision that they have.

    rows : bytes (n, size * n_features); mean : float64 (n_features,)
    """
    n_features = mean.shape[0]
    n_whole = code.udiv(n_features, INT64(LANES))
    n_others = code.urem(n_features, INT64(LANES))

    def center(n_bytes):
        def write(n, feature):
            _center_values(
                code,
                _KINDS[n_bytes],
                n,
                code.at(line, code.mul(feature, INT64(n_bytes))),
                code.at(mean.start, code.mul(feature, INT64(8))),
                code.at(target, code.mul(feature, INT64(4))),
            )

        with code.loop(rows.shape[0]) as each:
            line, target = rows.row(each.index), block.row(each.index)
            with code.loop(n_whole) as whole:
                write(LANES, code.mul(whole.index, INT64(LANES)))
            with code.loop(n_others) as other:
                write(1, code.sub(n_features, code.add(other.index, INT64(1))))

    *others, last = _KINDS
    programs = [
        (code.icmp_unsigned("==", size, INT64(n)), partial(center, n)) for n in others
    ]
    code.choose([*programs, (None, partial(center, last))])


def _make_add_products(n_vectors):
    """Build the function that computes `n_vectors` vectors of outputs."""
    vector = ir.VectorType(FLOAT, LANES)
    name = f"llvm.fmuladd.v{LANES}f32"
    offsets = [4 * LANES * i for i in range(n_vectors)]

    @instruction(void)
    def add_products(
        code,
        block: MATRIX,
        tile: int64,
        weights: MATRIX,
        sums: MATRIX,
        row: int64,
        panel: int64,
    ):
        """Add the products of a tile and a panel to their sums.

        tile : its first row in `block`; row : that in `sums`
        weights : float32 (n_features, PANEL)
        """
        rows = [sums.row(code.add(row, INT64(i))) for i in range(TILE_ROWS)]
        lines = [code.at(start, code.mul(panel, INT64(4 * PANEL))) for start in rows]
        values = [
            [code.read(vector, line, offset) for offset in offsets] for line in lines
        ]
        places = [[code.variable(value) for value in totals] for totals in values]
        with code.loop(weights.shape[0]) as loop:
            line = code.at(weights.start, code.mul(loop.index, INT64(4 * PANEL)))
            factors = [code.read(vector, line, offset) for offset in offsets]
            values = code.at(block.row(tile), code.mul(loop.index, INT64(4)))
            for i, totals in enumerate(places):
                value = code.read(FLOAT, values, 4 * (DEPTH + PADDING) * i)
                value = code.spread(value, LANES)
                for place, factor in zip(totals, factors, strict=True):
                    total = code.use(name, value, factor, code.load(place))
                    code.store(total, place)
        for line, totals in zip(lines, places, strict=True):
            for place, offset in zip(totals, offsets, strict=True):
                code.write(code.load(place), line, offset)

    return add_products


_add_panel, _add_half, _add_vector = (
    _make_add_products(width // LANES) for width in (PANEL, HALF_PANEL, LANES)
)


@kernel
def multiply(rows, mean, panels, intercept, relu, block, sums):
    """Write (rows - mean) weights + intercept, or max(0, that) with `relu`.

    rows : bytes of float16, float32 or float64 (n, n_features)
    mean : float64 (n_features,)
    panels : float32 (n_panels, n_features, PANEL), the weights filled up with 0
    intercept : float32 (n_outputs,)
    block : float32 of shape ROOM, 0
    sums : float32 (n, n_outputs), 0; with rows for whole tiles, and columns for the
        last panel, a half of one, or one vector
    """
    size = rows.shape[1] // len(mean)
    for first in range(0, len(rows), BLOCK_ROWS):
        last = min(first + BLOCK_ROWS, len(rows))
        for start in range(0, len(mean), DEPTH):
            stop = min(start + DEPTH, len(mean))
            part = rows[first:last, size * start : size * stop]
            _center(part, size, mean[start:stop], block)
            for panel in range(len(panels)):
                weights = panels[panel, start:stop]
                width = sums.shape[1] - panel * PANEL
                for tile in range(0, last - first, TILE_ROWS):
                    row = first + tile
                    if width > HALF_PANEL:
                        _add_panel(block, tile, weights, sums, row, panel)
                    elif width > LANES:
                        _add_half(block, tile, weights, sums, row, panel)
                    else:
                        _add_vector(block, tile, weights, sums, row, panel)
        for row in range(first, last):
            for column in range(len(intercept)):
                value = sums[row, column] + intercept[column]
                if relu:  # NaN where the value is infinite, so that it shows
                    value = max(value, np.float32(0)) + np.float32(0) * value
                sums[row, column] = value
