"""Codes in blocks of 512, whose bytes stand side by side: the first of all, and so on.

The levels of the codes stand behind them in the same way, so that a scan reads a block
from its begin to its end.
"""

from skhash.utils.kernels import inlined_kernel, kernel

BLOCK = 512  # codes in a block
LINE = 64  # bytes in a line of the cache


@kernel
def fill(rows, first, place, blocks):
    """Write bytes of codes, the first at position `first`, behind `place` others.

    rows : uint8 (n, n_bytes); blocks : uint8 (n_blocks, n_rows, 512)
    """
    for i in range(len(rows)):
        block, column = divmod(first + i, BLOCK)
        for byte in range(rows.shape[1]):
            blocks[block, place + byte, column] = rows[i, byte]


@kernel
def gather(blocks, positions, target):
    """Write the codes at `positions`, (n,) : int64, into the blocks `target`."""
    for i in range(len(positions)):
        block, column = divmod(positions[i], BLOCK)
        for byte in range(blocks.shape[1]):
            target[i // BLOCK, byte, i % BLOCK] = blocks[block, byte, column]


@inlined_kernel
def level_at(blocks, n_bytes, position):
    """Return the level of a code, whose bytes stand behind `n_bytes` others."""
    level, column = 0, position % BLOCK
    for byte in range(n_bytes, blocks.shape[1]):
        level = 256 * level + blocks[position // BLOCK, byte, column]
    return level
