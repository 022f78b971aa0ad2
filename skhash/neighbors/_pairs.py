"""Pairs of near codes, and the groups that they form."""

from numbers import Integral
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from skhash.codes import (
    check_packed,
    from_hex,
    pack_bits,
    packed_to_words,
    packed_width,
)
from skhash.neighbors._params import check_count
from skhash.neighbors.search.base import Question
from skhash.neighbors.search.equal_codes import EqualCodes
from skhash.neighbors.store.planes import Planes
from skhash.utils.arrays import as_array
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.parameters import AnyInt, ArrayLike, NotNegative, checked

_searcher = LateModule("skhash.neighbors.search.choose")
_planes = LateModule("skhash.neighbors.search.planes")

# Codes whose pairs are searched for at a time: few at first, and then as many as
# probably have that many pairs.
FIRST_ROWS, BLOCK_ROWS, BLOCK_PAIRS = 2**4, 2**14, 2**22

_TYPES = {"hamming": np.int32, "jaccard": np.float64}
Metric = Literal["hamming", "jaccard"]


@checked
def radius_pairs(
    codes: ArrayLike,
    radius: NotNegative,
    *,
    metric: Metric = "hamming",
    packed: bool = False,
    n_jobs: AnyInt | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find all pairs of codes within a distance of each other.

    Parameters
    ----------
    codes : array-like of shape (n, n_bits), (n, n_bytes) or (n,)
        Codes in one of these forms:

        - bits 0/1;
        - packed bytes (``uint8``), with ``packed=True``;
        - hashes: hex strings of one length, or integers with any number of bits.
    radius : int or float
        Largest distance, inclusive: a number of bits, or a Jaccard distance.
    metric : {"hamming", "jaccard"}, default="hamming"
        Distance between codes, as in `HammingNeighbors` or `JaccardNeighbors`.
    packed : bool, default=False
        Whether `codes` are packed bytes.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.

    Returns
    -------
    distances : ndarray of shape (n_pairs,), int32 or float64
        Bits that differ, or the Jaccard distance.
    pairs : ndarray of shape (n_pairs, 2), int64
        Positions i < j of each pair, ordered by i, then distance, then j.

    Raises
    ------
    ValueError
        If unpacked codes hold anything other than 0 and 1, or if packed codes are not
        ``uint8``;
        if hashes are neither hex strings of one length nor integers of at least 0; if
        `radius` is impossible.

    See Also
    --------
    duplicate_groups : Groups of codes connected by such pairs.
    HammingNeighbors.radius_neighbors : Pairs of queries and codes.
    JaccardNeighbors.radius_neighbors : The same, by Jaccard distance.

    Notes
    -----
    For a radius of 0, codes are sorted. For a small radius, they are looked up in
    tables, as with ``HammingNeighbors(algorithm="multi_index")``. If that would be
    slower, and for the Jaccard distance, all pairs are compared. Memory is that of the
    codes, the tables and the answer. Note that m equal codes form m (m - 1) / 2 pairs;
    `duplicate_groups` does not list them.

    Examples
    --------
    >>> from skhash.neighbors import radius_pairs
    >>> radius_pairs([[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1]], radius=1)
    (array([0, 1], dtype=int32), array([[0, 2],
           [1, 3]]))
    """
    blocks = list(_pair_blocks(*_words(codes, packed), radius, metric, n_jobs))
    empty = np.empty(0, dtype=_TYPES[metric]), np.empty((0, 2), dtype=np.int64)
    distances, pairs = zip(empty, *blocks, strict=True)
    return np.concatenate(distances), np.concatenate(pairs)


@checked
def duplicate_groups(
    codes: ArrayLike,
    radius: NotNegative,
    *,
    metric: Metric = "hamming",
    packed: bool = False,
    priority: ArrayLike | None = None,
    return_distance: bool = False,
    n_jobs: AnyInt | None = None,
) -> tuple[np.ndarray, ...]:
    """Group near-duplicate codes: those connected by chains of near pairs.

    Two codes are in the same group if they are connected by a chain of codes, each at
    most `radius` from the next: the groups are the connected components of
    the graph of `radius_pairs`. The ends of a long chain may be far apart.

    Parameters
    ----------
    codes : array-like of shape (n, n_bits), (n, n_bytes) or (n,)
        Codes in one of these forms:

        - bits 0/1;
        - packed bytes (``uint8``), with ``packed=True``;
        - hashes: hex strings of one length, or integers with any number of bits.
    radius : int or float
        Largest distance between neighbours in a chain, inclusive.
    metric : {"hamming", "jaccard"}, default="hamming"
        Distance between codes, as in `HammingNeighbors` or `JaccardNeighbors`.
    packed : bool, default=False
        Whether `codes` are packed bytes.
    priority : array-like of shape (n,), default=None
        Numbers, dates or strings that decide which code of each group to keep: the one
        with the largest value, or the first of several. None keeps the first code.
    return_distance : bool, default=False
        Whether to return the distances too.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.

    Returns
    -------
    distances : ndarray of shape (n,), int32 or float64
        Distance of each code from the code that its group keeps. Only if
        `return_distance` is True.
    groups : ndarray of shape (n,), int64
        Group number of each code. Groups are numbered from 0, in the order of their
        first codes. A code without neighbours forms a group alone.
    kept : ndarray of shape (n_groups,), int64
        Position of the code that each group keeps.

    Raises
    ------
    ValueError
        If unpacked codes hold anything other than 0 and 1, or if packed codes are not
        ``uint8``; if hashes are neither hex strings of one length nor integers of at
        least 0; if `radius` is impossible; if `priority` has another length than the
        codes, or holds NaN or values that have no order.

    See Also
    --------
    radius_pairs : The pairs of near codes.

    Notes
    -----
    Pairs are found as in `radius_pairs`, but only between different codes, and are
    discarded as soon as their groups are merged. Memory is a small multiple of that of
    the codes.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors import duplicate_groups
    >>> codes = [[0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1]]
    >>> groups, kept = duplicate_groups(codes, 1)
    >>> groups, kept
    (array([0, 1, 0, 1]), array([0, 1]))

    Keep the largest of each group; the second array lists the duplicates to drop:

    >>> sizes = [10, 20, 30, 20]
    >>> groups, kept = duplicate_groups(codes, 1, priority=sizes)
    >>> kept, np.delete(np.arange(4), kept)
    (array([2, 1]), array([0, 3]))

    Perceptual hashes of images:

    >>> duplicate_groups(["ffd8", "03a1", "ffd9"], radius=2, return_distance=True)
    (array([0, 0, 1], dtype=int32), array([0, 1, 0]), array([0, 1]))
    """
    words, n_planes = _words(codes, packed)
    equal = EqualCodes(words)
    groups = np.arange(len(equal))
    blocks = _pair_blocks(words[equal.firsts], n_planes, radius, metric, n_jobs)
    for pairs in _batches((pairs for _, pairs in blocks), size=len(groups)):
        ends = groups[pairs]
        ends = ends[ends[:, 0] != ends[:, 1]]
        ones = np.ones(len(ends), dtype=bool)
        joins = sparse.coo_array((ones, ends.T), shape=(len(groups), len(groups)))
        groups = connected_components(joins, directed=False)[1][groups]
    # Numbers by first appearance.
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    groups = np.argsort(np.argsort(first))[groups][equal.numbers()]
    kept = _best(groups, priority)
    if not return_distance:
        return groups, kept
    firsts = words[kept]
    distances = np.empty(len(words), dtype=_TYPES[metric])
    for rows in row_chunks(len(words), 2 * words.shape[1] * words.itemsize):
        part, first = words[rows], firsts[groups[rows]]
        distances[rows] = np.bitwise_count(part ^ first).sum(axis=1)
        if metric == "jaccard":
            distances[rows] /= np.maximum(np.bitwise_count(part | first).sum(axis=1), 1)
    return distances, groups, kept


def _best(groups, priority):
    """Return the first code of largest priority in each group."""
    if priority is None:
        return np.unique(groups, return_index=True)[1]
    priority = as_array(priority)
    try:
        if priority.shape != groups.shape or (priority != priority).any():
            raise ValueError(
                f"priority must hold one value per code, {len(groups)} in all, and no "
                f"NaN; got shape {priority.shape}."
            )
        ranks = np.unique(priority, return_inverse=True)[1]
    except TypeError as error:  # None among strings, for example
        raise ValueError(f"priority must hold values of one kind: {error}.") from None
    order = np.lexsort((-ranks, groups))
    return order[np.unique(groups[order], return_index=True)[1]]


def _batches(blocks, size):
    """Yield batches of at least `size` pairs; the last may be smaller."""
    batch = []
    for pairs in blocks:
        batch.append(pairs)
        if sum(map(len, batch)) >= size:
            yield np.concatenate(batch)
            batch = []
    if batch:
        yield np.concatenate(batch)


def _words(codes, packed):
    if np.ndim(codes) == 1:
        packed_codes = _read_hashes(as_array(codes, dtype=object).tolist())
    else:
        packed_codes = check_packed(codes) if packed else pack_bits(codes)
    return packed_to_words(packed_codes), 8 * packed_codes.shape[1]


def _read_hashes(hashes):
    """Return packed codes of hex strings of one length, or of integers."""
    if hashes and all(_is_whole(value) and value >= 0 for value in hashes):
        integers = list(map(int, hashes))  # those of NumPy too
        n_bytes = packed_width(max(1, *map(int.bit_length, integers)))
        hashes = [f"{value:0{2 * n_bytes}x}" for value in integers]
    elif not all(isinstance(value, str) for value in hashes):
        raise ValueError(
            "Hashes must be hex strings of one length, or integers of at least 0, got "
            f"{hashes[:2]}...; view signed 64-bit integers as hashes.view(np.uint64)."
        )
    return from_hex(hashes)


def _is_whole(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


def _pair_blocks(words, n_planes, radius, metric, n_jobs):
    """Yield distances and pairs, block by block of codes."""
    if metric == "hamming":
        check_count("radius", radius)
        radius = min(int(radius), n_planes)
    elif radius > 1:
        raise ValueError(
            f"radius={radius!r} is above 1, the largest Jaccard distance; for a "
            "similarity of at least s, pass radius=1 - s."
        )
    if radius == 0:
        for pairs in EqualCodes(words).pair_blocks(BLOCK_ROWS):
            yield np.zeros(len(pairs), dtype=_TYPES[metric]), pairs
        return
    question = Question("within", radius, n_jobs)
    if metric == "jaccard":
        search = _planes.PlaneSearch(Planes.of(words.view(np.uint8)))

        def find(rows):
            distances, second, counts = search.within(words[rows], question)
            pairs = np.stack([np.repeat(np.arange(len(words))[rows], counts), second])
            behind = pairs[1] > pairs[0]
            return distances[behind], pairs.T[behind]

    else:
        searcher = _searcher.Searcher(words, n_planes)
        # Codes are compared with those behind them, or looked up among these.
        best = searcher.best(question, len(words) / 2, ["brute", "multi_index"])

        def find(rows):
            return best.pairs_behind(rows, radius, n_jobs)

    start, size = 0, FIRST_ROWS
    while start < len(words):
        rows = slice(start, min(start + size, len(words)))
        distances, pairs = find(rows)
        yield distances, pairs
        start, expected = rows.stop, size * BLOCK_PAIRS // (len(pairs) + 1)
        size = max(1, min(expected, 8 * size, BLOCK_ROWS))
