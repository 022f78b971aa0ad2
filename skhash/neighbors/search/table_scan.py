"""Nearest codes by bounds of their scores, summed up as bytes."""

from collections import namedtuple
from functools import lru_cache, partial
from math import ceil

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from skhash.neighbors.kernels import byte_tables
from skhash.neighbors.kernels import table_scan as kernels
from skhash.neighbors.kernels.blocks import BLOCK
from skhash.neighbors.search.base import by_query
from skhash.neighbors.search.chunks import live_codes, read_only
from skhash.numerics._decoder import bits_of_block
from skhash.numerics._levels import numbers_of
from skhash.numerics._nearest import smallest
from skhash.utils.chunks import dense_rows, even_chunks
from skhash.utils.threads import map_chunks, map_in_threads, threads_for

_NONE = read_only(np.empty(0, dtype=np.int32))
# The least number of blocks that a search of lists looks at: fewer save no time.
MIN_BLOCKS = 64
# About how many blocks are sampled.
SAMPLED_BLOCKS = 8
# Queries that share a block of codes: their tables stay in the second-level cache.
CHUNK_BYTES = 2**20
# The share of the variance of entries, at most, that sums of halves do not explain. In
# codes of ITQ it is .05 to .13, in those of a quantizer .9.
MAX_REST = 0.2
# Codes times bytes, over all pairs, below which a thread does not pay.
MIN_THREAD_WORK = 2**22


# The blocks of a thread: in one piece, span : the first, and the one behind the last;
# or every : slice, of those of a list.
Part = namedtuple("Part", "span every")


def is_fast():
    """Return whether this processor can look bytes up in registers."""
    return byte_tables.find_low is not None


def nearest(scorer, queries, k, live):
    """Return the k smallest (score, position) of each query, in this order.

    scorer : CodeScorer; live : ndarray of bool or None
    """
    scores, positions = _nearest(scorer, queries, k, live, guesses=True)
    missed = (scores[:, -1] == np.inf).nonzero()[0]
    if len(missed):
        answer = _nearest(scorer, queries[missed], k, live, guesses=False)
        scores[missed], positions[missed] = answer
    return scores, positions


def _nearest(scorer, queries, k, live, guesses):
    """Search below a limit from a sample, which k codes reach.

    With `guesses`, they do so most likely: the limit is tighter, and scores of infinity
    tell where it is too tight. Or lists are searched, and it tells of too few codes.
    """
    layout = _layout(scorer)
    search = partial(_by_sample, k, guesses)
    if guesses and layout[-1] is not None:
        search = partial(_by_lists, k, scorer, layout[-1])
    parts, shares_codes = _run(search, scorer, layout, queries, live)
    if len(parts) == 1:
        return parts[0]
    axis = 1 if shares_codes else 0
    answers = (np.concatenate(part, axis=axis) for part in zip(*parts, strict=True))
    return smallest(*answers, k)


def _by_lists(k, scorer, lists, codes, order, live, tables, part, n_entries):
    """Return the nearest codes of each query in its nearest blocks."""
    scores, positions = _answers(len(tables), k)
    for q in range(len(tables)):
        row = slice(q, q + 1)
        layout = _nearest_blocks(scorer, lists, tables[q], part.every), order
        best = scores[row], positions[row]
        kernels.nearest(codes, live, tables[row], layout, (1, 0), n_entries, *best)
    return scores, positions


def _by_sample(k, guesses, codes, order, live, tables, part, n_entries):
    """Return the nearest codes of each query, below the limit of a sample."""
    answers = _answers(len(tables), k)
    step = max(1, len(codes.blocks) // SAMPLED_BLOCKS)
    # How many of the nearest are expected in the sample; it hardly ever has `few`.
    share = k * kernels.SAMPLED_CODES / (BLOCK * step)
    few = min(k, int(share + 3 * share**0.5 + 2)) if guesses else k
    layout = np.arange(*part.span), order
    kernels.nearest(codes, live, tables, layout, (step, few), n_entries, *answers)
    return answers


def _answers(n_queries, k):
    """Return room for scores and positions."""
    shape = n_queries, k
    return np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int64)


def _nearest_blocks(scorer, lists, tables, every):
    """Return the nearest blocks of a query that a thread searches, in order."""
    scores = np.empty(len(lists.starts) - 1, dtype=np.float32)
    kernels.least_by_block(lists, tables, scores)
    last = _n_searched(scorer) - 1
    blocks = np.flatnonzero(scores <= np.partition(scores, last)[last])
    return blocks[np.argsort(scores[blocks])[every]]


def within(scorer, queries, radius, live):
    """Return scores and positions of all codes within a radius, and counts."""

    def search(codes, order, live, tables, part, n_entries):
        near = kernels.within(codes, live, tables, part.span, radius, n_entries)
        owners, places, scores = near
        positions = order[places].astype(np.int64) if len(order) else places
        return by_query(owners, positions, scores, len(tables))

    parts, shares_codes = _run(search, scorer, _layout(scorer), queries, live)
    if not shares_codes:
        return tuple(map(np.concatenate, zip(*parts, strict=True)))
    owners = [np.repeat(np.arange(len(counts)), counts) for _, _, counts in parts]
    scores, positions, _ = map(np.concatenate, zip(*parts, strict=True))
    return by_query(np.concatenate(owners), positions, scores, queries.shape[0])


def _run(search, scorer, layout, queries, live):
    """Call `search` in threads; return answers, and whether each has all queries.

    Threads share the queries, or the blocks of codes where queries are few.
    """
    (codes, order, _), n_queries = layout, queries.shape[0]
    live = live_codes(live[order] if live is not None and len(order) else live)
    n_bytes, n_blocks = scorer.n_bytes, len(codes.blocks)
    work = n_queries * len(scorer) * n_bytes
    threads = threads_for(work, MIN_THREAD_WORK, scorer.n_jobs)
    shares_codes = 1 < threads and n_queries < 2 * threads
    n_entries = _n_entries(scorer)

    def tables_of(rows):
        return scorer.decoder.tables(dense_rows(queries[rows]), n_bytes)

    def call(tables, part):
        return search(codes, order, live, tables, part, n_entries)

    if shares_codes:
        spans = enumerate(even_chunks(n_blocks, threads))
        parts = [Part((s.start, s.stop), slice(i, None, threads)) for i, s in spans]
        call = partial(call, tables_of(slice(0, n_queries)))
        return map_in_threads(call, parts, threads), True
    everything = Part((0, n_blocks), slice(None))
    chunk = max(4, CHUNK_BYTES // (1024 * n_bytes))
    answers = map_chunks(
        lambda rows: call(tables_of(rows), everything), n_queries, chunk, threads
    )
    return answers, False


def _n_searched(scorer):
    """Return how many blocks a search of the nearest looks at."""
    n_blocks, entries = -(-len(scorer) // BLOCK), scorer.decoder.entries
    if len(entries) < 2 or bits_of_block(entries) < 8:
        return n_blocks
    return min(n_blocks, max(MIN_BLOCKS, ceil(scorer.share * n_blocks)))


def _layout(scorer):
    """Return the codes in blocks, their positions by place, and their lists.

    Where codes stand by their positions, these are empty. Without lists, all blocks are
    searched.
    """
    codes, order, lists = scorer.codes, _NONE, None
    name = "ordered blocks" if codes.order else "blocks"
    if codes.order:
        order = read_only(codes.order.positions)
        if has_lists(scorer):
            lists = scorer.key.once("lists", lambda: make_lists(scorer))
    return scorer.key.once(name, lambda: make_blocks(scorer)), order, lists


def has_lists(scorer):
    """Return whether a search of the nearest leaves out some of the blocks."""
    return _n_searched(scorer) * BLOCK < len(scorer)


def order_of_lists(scorer):
    """Return the positions of the codes in the order of two bytes.

    They are the first byte, which adds what all codes share, and that of the others
    whose entries differ most, in an order in which neighbours are alike.
    """
    codebook, other = scorer.decoder.codebook, _other_byte(scorer.decoder)
    places = _places_of_alike(codebook[other].tobytes(), codebook.dtype)
    values = scorer.codes.bytes([0, other])
    keys = 256 * values[:, 0].astype(np.uint16) + places[values[:, 1]]
    return np.argsort(keys, kind="stable")


@lru_cache(maxsize=4)
def _places_of_alike(entries, dtype):
    """Return the places of 256 entries, as bytes, in an order with alike ones together.

    That takes longer than sorting many codes, which changes of an index repeat.
    """
    entries = np.frombuffer(entries, dtype).reshape(256, -1)
    tree = linkage(entries, "ward", optimal_ordering=True)
    return np.argsort(leaves_list(tree)).astype(np.uint16)


def _other_byte(decoder):
    return 1 + decoder.codebook[1:].var(axis=1).sum(axis=1).argmax()


def make_lists(scorer):
    """Return the lists of codes that stand in blocks in the order of lists."""
    decoder, n_blocks = scorer.decoder, len(scorer.codes.whole)
    other = _other_byte(decoder)
    values = scorer.codes.bytes_by_place([0, other])
    begins = np.arange(len(values)) % BLOCK == 0
    begins[1:] |= (values[1:] != values[:-1]).any(axis=1)
    firsts = np.flatnonzero(begins)
    starts = np.searchsorted(firsts, BLOCK * np.arange(n_blocks + 1))
    decoder = scorer.decoder.of_blocks([0, other])
    items = np.tile(np.float32([0, 1]), (len(firsts), 1))
    if decoder.has_numbers:
        keys = decoder.keys(values[firsts])
        items = np.stack(decoder.terms_and_factors(keys), axis=1)
    return kernels.Lists(other, values[firsts].T.copy(), items, starts)


def make_blocks(scorer):
    """Return the codes of a scorer as kernels take them."""
    law, decoder, n = scorer.decoder.law(), scorer.decoder, len(scorer)
    # That of level 1 is the least.
    keys = decoder.base + np.array([1, max(1, decoder.last)])
    reach = numbers_of(keys, decoder.fraction_bits) / (law.times or np.inf)
    blocks = read_only(scorer.codes.whole)
    has_zeros = not blocks[:, scorer.n_bytes :].any(axis=1).ravel()[:n].all()
    last = decoder.last << law.spare
    return kernels.Codes(blocks, n, scorer.n_bytes, law, last, *reach, has_zeros)


def has_halves(decoder):
    """Return whether what a byte adds is nearly the sum of what its halves add."""
    if bits_of_block(decoder.entries) < 8:
        return True
    entries = decoder.codebook.reshape(len(decoder.entries), 16, 16, -1)
    entries = entries - entries.mean(axis=(1, 2), keepdims=True)
    halves = (entries.mean(axis=axis, keepdims=True) for axis in (1, 2))
    rest = np.square(entries - sum(halves)).sum()
    return rest <= MAX_REST * np.square(entries).sum()


def _n_entries(scorer):
    """Return how many entries a table of steps has for a byte; see `kernels`."""
    if byte_tables.ENTRIES == byte_tables.ENTRIES_OF_BITS:
        return byte_tables.ENTRIES
    halves = scorer.key.once("has halves", lambda: has_halves(scorer.decoder))
    return byte_tables.ENTRIES_OF_BITS if halves else byte_tables.ENTRIES
