"""Encoding and exact search on many machines, with Dask."""

from skhash.distributed._encode import encode_blocks
from skhash.distributed._neighbors import ShardedNeighbors

__all__ = ["ShardedNeighbors", "encode_blocks"]
