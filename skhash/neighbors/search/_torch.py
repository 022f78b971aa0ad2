"""Exact search with torch, for accelerators; the answers are those of the CPU.

Signs -1/+1 of a query times those of a code are ``n_bits - 2 * distance``. Distance and
position together make one integer, ``distance * n + position``, and no two are alike,
so that the smallest k, in order, are the same on every device.

Few pairs get such a key. Codes that stand side by side make a group, and groups are
ordered by the first of their nearest codes. The k nearest codes of a block are in the
first k groups: each group before that of a code has a code that comes before it. So all
products are read once, for the nearest of each group, and then only those of k groups.

Bytes a pair, counted for CUDA, half precision and k = 10, not measured:

* each product is written and read: 4;
* signs of codes are read again for every chunk of queries: 0.8;
* keys of groups, and of the codes in 10 groups: 0.5 at 64 bits, 1.3 at 512.

Keys of all pairs, in int64, would take 156: a product is written, five operations make
the key, and a selection reads it ten times. Unpacking moves 27 bytes a byte of code,
once for all queries. Products in int8 would be exact too, and twice as fast, but four
bytes wide.

Products are exact, whatever torch may round. Up to 2048 bits, every partial sum, in any
order, is a whole number that half precision holds, so that it does not matter how
products are split, accumulated and reduced. Longer codes need float32. TF32 holds the
signs, and adds them in float32, so that it may be on or off.
"""

from math import isqrt

import numpy as np
import torch

from skhash.neighbors.search.base import Question, as_lists, by_query
from skhash.utils.chunks import row_chunks

# Bytes that a search uses on the device, kept codes apart: an eighth for queries and
# their best, a quarter for the signs of a block of codes, half for their products, and
# an eighth for pairs within the radius. Below 2^33, keys in a block fit in int32.
BLOCK_BYTES = 2**30
# Whole numbers up to this are exact in half precision.
HALF_EXACT = 2048
# Codes stay on the device if they fill at most this share of its free memory, or this
# many bytes where torch does not tell what is free.
KEPT_SHARE, KEPT_BYTES = 0.5, 2**30
# Groups are at least so large, which keeps rows of products aligned for the device.
MIN_GROUP = 8
# Expected groups of a block with codes within the radius of a query.
GROUPS_WITHIN = 64


def find(what, store, selected, queries, reach, device):
    """Search a store on the device; see `skhash.neighbors.search.choose.find`."""
    positions = selected.positions
    if selected.live is not None:
        positions = np.flatnonzero(selected.live)
    # "cuda" is the device that is current, but the codes stay on one.
    device = torch.empty(0, device=device).device
    search = DeviceSearch(_kept(store, device), device, positions)
    return as_lists(Question(what, reach).ask(search, queries), positions)


class DeviceSearch:
    """Searches packed codes on a device, as an `Algorithm` does words.

    Parameters
    ----------
    packed : ndarray of shape (n_codes, n_bytes), uint8, or tensor on the device
        An array is brought to the device block by block.
    device : torch.device
    positions : ndarray of shape (n,), int64, default=None
        Searches only these of the codes, and answers with indices of this array.
    budget : int
        Bytes that a search may use on the device.
    """

    def __init__(self, packed, device, positions=None, budget=BLOCK_BYTES):
        self.packed, self.device, self.positions = packed, device, positions
        self.budget, self.n_bits = budget, 8 * packed.shape[1]
        self.n = len(packed if positions is None else positions)

    def nearest(self, queries, question):
        """Find the nearest codes; see `Algorithm.nearest`. Queries are packed."""
        k = question.reach
        distances = np.empty((len(queries), k), dtype=np.int32)
        positions = np.empty((len(queries), k), dtype=np.int64)
        query_bytes = self.n_bits // 8 + 8 * k
        for part in row_chunks(len(queries), query_bytes, self.budget // 8):
            last = torch.iinfo(torch.int64).max
            best = torch.full((part.stop - part.start, k), last, device=self.device)
            for start, chunk, products in self._tiles(queries[part], k):
                n_columns = products[0].numel()
                keys = _nearest_in(products, k, self.n_bits).long()
                keys = keys // n_columns * self.n + keys % n_columns + start
                keys = torch.cat([best[chunk], keys], dim=1)
                best[chunk] = keys.sort(dim=1).values[:, :k]
                del products  # before the next are made
            distances[part], positions[part] = np.divmod(best.cpu().numpy(), self.n)
        return distances, positions

    def within(self, queries, question):
        """Find all codes within the radius; see `Algorithm.within`."""
        least = self.n_bits - 2 * min(question.reach, self.n_bits)
        hits = [np.empty((3, 0), dtype=np.int64)]
        for part in row_chunks(len(queries), self.n_bits // 8, self.budget // 8):
            for start, chunk, products in self._tiles(queries[part], GROUPS_WITHIN):
                first = np.array([[part.start + chunk.start], [0], [start]])
                for hit in self._near(products, least):
                    hits.append(hit.cpu().numpy())
                    hits[-1] += first
                del products  # before the next are made
        query, distance, position = np.concatenate(hits, axis=1)
        return by_query(query, position, distance.astype(np.int32), len(queries))

    def _near(self, products, least):
        """Yield query, distance and position of products of at least `least`."""
        size = products.shape[2]
        query, group = torch.nonzero(products.amax(2) >= least, as_tuple=True)
        for few in row_chunks(len(query), 128 * size, self.budget // 8):
            chosen = products[query[few], group[few]]
            row, offset = torch.nonzero(chosen >= least, as_tuple=True)
            distance = (self.n_bits - chosen[row, offset].long()) // 2
            position = group[few][row] * size + offset
            yield torch.stack([query[few][row], distance, position])

    def _tiles(self, queries, n_groups):
        """Yield products of queries and codes, tile by tile.

        Each block of codes is unpacked once. Its groups are of a size at which finding
        `n_groups` of them costs about as much as looking into them.

        Yields
        ------
        start : int
            The first code.
        chunk : slice
            The queries.
        products : tensor of shape (n_queries, n_groups, size)
            The last codes of the last block may be none; these are further away than
            any.
        """
        packed, positions, n_bits = self.packed, self.positions, self.n_bits
        dtype = _dtype(self.device, n_bits)
        signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        signs = torch.from_numpy(signs * 2.0 - 1.0).to(self.device, dtype)
        queries = _to_device(queries, self.device)
        # Its position, the code twice, its bytes as int32, and its signs; so for a
        # query.
        bytes_per_code = 8 + n_bits // 8 * (6 + 8 * dtype.itemsize)
        for rows in row_chunks(self.n, bytes_per_code, self.budget // 4):
            block = packed[rows] if positions is None else packed[positions[rows]]
            block = _to_device(block, self.device)
            size = isqrt(len(block) // n_groups) // MIN_GROUP * MIN_GROUP
            size = max(MIN_GROUP, size)
            missing = -len(block) % size
            block = torch.nn.functional.pad(block, (0, 0, 0, missing))
            code_signs = _unpack(block, signs).T
            # Products, keys of groups, keys of codes in the best groups, and the merge.
            n_columns, n_looked_into = len(block), min(n_groups * size, len(block))
            bytes_per_query = bytes_per_code + dtype.itemsize * n_columns
            bytes_per_query += 16 * (n_columns // size + n_looked_into) + 96 * n_groups
            for chunk in row_chunks(len(queries), bytes_per_query, self.budget // 2):
                # Automatic mixed precision would use bfloat16, which rounds sums.
                with torch.autocast(self.device.type, enabled=False):
                    products = _unpack(queries[chunk], signs) @ code_signs
                products[:, n_columns - missing :] = -n_bits - 2
                yield rows.start, chunk, products.unflatten(1, (-1, size))
                del products
            del code_signs


def _dtype(device, n_bits):
    half = device.type == "cuda" and n_bits <= HALF_EXACT
    return torch.float16 if half else torch.float32


def _nearest_in(products, k, n_bits):
    """Return distance * columns + column, in int32, of each query's `k` smallest."""
    n_groups, size = products.shape[1:]
    groups = torch.arange(n_groups, dtype=torch.int32, device=products.device)
    keys = _distances(products.amax(2), n_bits) * n_groups + groups
    best = (_smallest(keys, k) % n_groups)[:, :, None]
    near = products.gather(1, best.long().expand(-1, -1, size))
    columns = best * size + torch.arange(size, dtype=torch.int32, device=best.device)
    keys = _distances(near, n_bits) * (n_groups * size) + columns
    return _smallest(keys.flatten(1), k)


def _distances(products, n_bits):
    return (n_bits - products.int()) // 2


def _smallest(keys, k):
    k = min(k, keys.shape[1])
    return keys.topk(k, dim=1, largest=False, sorted=False).values


def _unpack(packed, signs):
    """Return the signs of packed codes; padding is alike in all codes."""
    return signs.index_select(0, packed.flatten().int()).view(len(packed), -1)


def _to_device(packed, device):
    if isinstance(packed, torch.Tensor):
        return packed
    # Torch accepts only writable arrays, though nobody writes to this one.
    return torch.from_numpy(np.require(packed, requirements="CW")).to(device)


def _kept(store, device):
    """Return packed codes on the device, or unmoved if they are too many."""

    def copy():
        if store.packed.size > _room(device):
            return None
        codes = torch.empty(store.packed.shape, dtype=torch.uint8, device=device)
        for rows in row_chunks(store.n, store.n_bytes):
            codes[rows] = _to_device(store.packed[rows], device)
        return codes

    # They stay there as long as a store of them exists.
    kept = store.codes_key.once(device, copy)
    return store.packed if kept is None else kept


def _room(device):
    """Return how many bytes of codes may stay on the device."""
    if device.type != "cuda":
        return KEPT_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    # Torch keeps unused memory, as of an index that is gone.
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return KEPT_SHARE * (free + held)
