"""Exact search with torch, for accelerators; the answers are those of the CPU.

Distances come from a matrix product of -1/+1 vectors. Distance and position together
make one integer, ``distance * n + position``, and no two are alike, so that the
smallest k, in order, are the same on every device.
"""

import numpy as np
import torch

from skhash.utils.chunks import row_chunks

# Bytes of one block of products, keys and temporaries on the device.
BLOCK_BYTES = 2**28
MAX_QUERIES = 1024
# Whole numbers up to this are exact in half precision.
HALF_EXACT = 2048


def nearest(packed, queries, k, device, budget=BLOCK_BYTES):
    """Find the `k` nearest codes, ordered by (distance, position).

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), uint8
    queries : ndarray of shape (n_queries, n_bytes), uint8
    k : int
        From 1 to n.
    device : torch.device
    budget : int
        Bytes that one block of the search may take on the device, results apart.

    Returns
    -------
    distances : ndarray of shape (n_queries, k), int32
    positions : ndarray of shape (n_queries, k), int64
    """
    n = len(packed)
    distances = np.empty((len(queries), k), dtype=np.int32)
    positions = np.empty((len(queries), k), dtype=np.int64)
    # The best so far, those and a block's best side by side, and their order.
    for rows in _query_chunks(queries, 32 * k, budget):
        best = None
        for keys in _key_blocks(packed, queries[rows], device, budget):
            if best is not None:
                keys = torch.cat([best, keys], dim=1)
            best = keys.topk(min(k, keys.shape[1]), largest=False, sorted=True).values
        best = best.cpu().numpy()
        distances[rows], positions[rows] = np.divmod(best, n)
    return distances, positions


def within(packed, queries, radius, device, budget=BLOCK_BYTES):
    """Find all codes within `radius`, inclusive, ordered by (distance, position).

    Parameters
    ----------
    packed, queries, device, budget
        As in `nearest`.
    radius : int
        At least 0.

    Returns
    -------
    distances : list of n_queries ndarrays, int32
    positions : list of n_queries ndarrays, int64
    """
    n = len(packed)
    key_limit = (min(radius, 8 * packed.shape[1]) + 1) * n
    distances, positions = [], []
    for rows in _query_chunks(queries, 0, budget):
        found = []
        for keys in _key_blocks(packed, queries[rows], device, budget):
            query, column = torch.nonzero(keys < key_limit, as_tuple=True)
            found.append((query.cpu().numpy(), keys[query, column].cpu().numpy()))
        query, keys = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.lexsort((keys, query))
        stops = np.cumsum(np.bincount(query, minlength=rows.stop - rows.start))[:-1]
        distance, position = np.divmod(keys[order], n)
        distances += np.split(distance.astype(np.int32), stops)
        positions += np.split(position, stops)
    return distances, positions


def _query_chunks(queries, bytes_per_query, budget):
    least = -(-budget // MAX_QUERIES)
    return row_chunks(len(queries), max(bytes_per_query, least), budget)


def _key_blocks(packed, queries, device, budget):
    """Yield the keys of all queries against one block of codes after the other."""
    n, n_bits = len(packed), 8 * packed.shape[1]
    half = device.type == "cuda" and n_bits <= HALF_EXACT
    dtype = torch.float16 if half else torch.float32
    query_signs = _signs(queries, device, dtype)
    # Per code: bits and signs while unpacking; per pair: product, distance and key.
    bytes_per_code = n_bits * 16 + len(queries) * 32
    for rows in row_chunks(n, bytes_per_code, budget):
        products = query_signs @ _signs(packed[rows], device, dtype).T
        distances = (n_bits - products.to(torch.int64)) // 2
        yield distances * n + torch.arange(rows.start, rows.stop, device=device)


def _signs(packed, device, dtype):
    """Unpack bytes to -1/+1 on the device; padding is alike in all codes."""
    packed = torch.from_numpy(np.array(packed)).to(device)
    shifts = torch.arange(7, -1, -1, device=device, dtype=torch.uint8)
    bits = (packed[:, :, None] >> shifts) & 1
    return bits.flatten(1).to(dtype) * 2 - 1
