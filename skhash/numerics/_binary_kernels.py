"""The compiled part of `skhash.numerics._binary`: bits that differ, by tiles."""

from llvmlite import ir
from numba import int64, uint8, uint64, void

from skhash.utils.kernels import kernel
from skhash.utils.llvm import BYTE, INT64, instruction

# A vector counts for the units of one byte. The counts of a tile, a few rows by a few
# bytes of units, stay in registers; other tiles are no faster, with AVX-512 or without.
BYTE_UNITS = 8
TILE_ROWS, TILE_BYTES = 4, 4
_VECTOR = ir.VectorType(INT64, BYTE_UNITS)
_WORD_BYTES = 8


@instruction(void)
def _compare_tile(
    code,
    rows: uint64[:, ::1],
    row: int64,
    panels: uint64[:, :, ::1],
    byte: int64,
    limits: int64[:, ::1],
    on: uint8[:, ::1],
):
    """Write the answers of a tile from this row and this byte of units on."""
    tile_rows = [code.add(row, INT64(i)) for i in range(TILE_ROWS)]
    tile_bytes = [code.add(byte, INT64(i)) for i in range(TILE_BYTES)]
    zeros = _VECTOR([0] * BYTE_UNITS)
    counts = [[code.variable(zeros) for _ in tile_bytes] for _ in tile_rows]
    with code.loop(rows.shape[1]) as loop:
        offset = code.mul(loop.index, INT64(_WORD_BYTES))
        of_units = code.mul(loop.index, INT64(_WORD_BYTES * BYTE_UNITS))
        weights = [code.read(_VECTOR, panels.row(i), of_units) for i in tile_bytes]
        for line, places in zip(tile_rows, counts, strict=True):
            word = code.spread(code.read(INT64, rows.row(line), offset), BYTE_UNITS)
            for place, other in zip(places, weights, strict=True):
                differ = code.use(f"llvm.ctpop.v{BYTE_UNITS}i64", code.xor(word, other))
                code.store(code.add(code.load(place), differ), place)
    for i, tile_byte in enumerate(tile_bytes):
        most = code.read(_VECTOR, limits.row(tile_byte))
        for line, places in zip(tile_rows, counts, strict=True):
            near = code.icmp_signed("<=", code.load(places[i]), most)
            code.write(code.bitcast(near, BYTE), on.row(line), tile_byte)


@kernel
def compare(rows, panels, limits, on):
    """Write whether rows differ from the weights of units in so few bits.

    rows : uint64 (n, n_words), n a multiple of TILE_ROWS
    panels : uint64 (n_bytes, n_words, 8), the words of eight units beside each other,
        the last unit of a byte first; n_bytes a multiple of TILE_BYTES
    limits : int64 (n_bytes, 8), in the same order
    on : uint8 (n, n_bytes), the first unit of a byte in its highest bit
    """
    for byte in range(0, len(panels), TILE_BYTES):
        for row in range(0, len(rows), TILE_ROWS):
            _compare_tile(rows, row, panels, byte, limits, on)
