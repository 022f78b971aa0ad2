"""Near duplicates in 20 Newsgroups: what codes find of the pairs of similar messages.

Messages are TF-IDF vectors, codes are `RandomHyperplaneHash` with ``center=False``, so
that two messages at angle t differ in a share t / pi of the bits, on average. The
radius for a cosine c is n_bits * arccos(c) / pi, rounded. The truth is all pairs whose
cosine is at least c::

    python examples/benchmarks/deduplicate.py

"recall" is the share of the true pairs that is within the radius, "precision" the share
of the pairs within the radius that is true, and "lowest" the smallest cosine among
them. "kept" is the number of groups of `duplicate_groups`, and "across" the number of
test messages in a group with a training message.

A second table has the seconds of one thread for SGH codes of 64 bits of GloVe words,
and where there are not enough words, of sums of two random words. "all pairs" is what
comparing all pairs would take: that of the rows in the middle, times their share::

    python examples/benchmarks/deduplicate.py --only words

A third has those of hashes of 64 bits, from a list of hex strings to groups with their
distances: random ones, and of each tenth a copy that differs in up to 4 bits::

    python examples/benchmarks/deduplicate.py --only hashes
"""

import time
from functools import partial

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from tools import (
    Table,
    WordCodes,
    columns,
    load_20newsgroups,
    options,
    save,
    seconds_of,
)

from skhash.codes import packed_to_words
from skhash.linear import RandomHyperplaneHash
from skhash.neighbors import duplicate_groups, radius_pairs
from skhash.neighbors.search.brute import Brute

BITS, COSINES, LOWEST, SEED = (64, 128, 256, 512), (0.95, 0.9, 0.8), 0.5, 0
SIZES, RADII = (100_000, 1_000_000), (0, 1, 2, 4, 6)
# Rows whose pairs tell what all pairs would take.
ROWS = 8192
MESSAGES = columns(
    "bits | cosine :g | radius | true :, | found :, | recall :.3f | precision :.3f | "
    "lowest :.2f | kept :, | across | s, pairs :.2f | s, groups :.2f"
)
WORDS = columns(
    "n :, | radius | pairs :, | groups :, | s, all pairs :.2f | s, pairs :.2f | "
    "s, groups :.2f"
)

HASHES = columns("hashes :, | radius | groups :, | s, from strings :.3f")


def similar_pairs(X):
    """Return the positions i < j of pairs of cosine LOWEST or more, and the cosines."""
    found = []
    for start in range(0, X.shape[0], 1000):
        products = (X[start : start + 1000] @ X.T).tocoo()
        i, j = products.row + start, products.col
        kept = (products.data >= LOWEST) & (i < j)
        found.append((i[kept], j[kept], products.data[kept]))
    i, j, cosines = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return np.stack([i, j], axis=1), cosines


# The seconds that a call takes its thread, and its answer.
thread_seconds = partial(seconds_of, clock=time.thread_time)


def show_words(data_home):
    """Print and return the times for codes of words."""
    words = WordCodes(64, SEED, data_home=data_home)
    all_codes = words.codes(max(SIZES), np.random.default_rng(SEED))
    for n in (ROWS, 8 * ROWS):  # compiles
        radius_pairs(all_codes[:n], 1, packed=True, n_jobs=1)
    table = Table(WORDS).printed()
    for n in SIZES:
        codes, rows = all_codes[:n], slice((n - ROWS) // 2, (n + ROWS) // 2)
        search = Brute(packed_to_words(codes), 64)
        for radius in RADII:
            middle, _ = thread_seconds(search.pairs_behind, rows, radius, 1)
            kwargs = {"radius": radius, "packed": True, "n_jobs": 1}
            pairs_seconds, (_, pairs) = thread_seconds(radius_pairs, codes, **kwargs)
            group_seconds, (_, kept) = thread_seconds(duplicate_groups, codes, **kwargs)
            seconds = middle * n / ROWS, pairs_seconds, group_seconds
            table.add(n, radius, len(pairs), len(kept), *seconds)
    return table


def show_hashes():
    """Print and return the times for hex strings."""
    rng, table = np.random.default_rng(SEED), Table(HASHES).printed()
    for n in (30_000, 300_000):
        hashes = rng.integers(0, 2**64, n, dtype=np.uint64)
        hashes[9::10] = hashes[8::10]
        for _ in range(4):
            hashes[9::10] ^= np.uint64(1) << rng.integers(0, 64, n // 10, np.uint64)
        strings = [f"{one:016x}" for one in hashes.tolist()]
        for radius in (0, 2, 4, 8):
            task = duplicate_groups, strings, radius
            options = {"return_distance": True, "n_jobs": 1}
            rounds = [thread_seconds(*task, **options) for _ in range(3)]
            seconds, (*_, kept) = sorted(rounds, key=lambda one: one[0])[1]
            table.add(n, radius, len(kept), seconds)
    return table


def show_messages(data_home):
    """Print and return what codes find of the pairs of similar messages."""
    data = load_20newsgroups("texts", data_home=data_home)
    texts = np.concatenate([data.database, data.query])
    is_test = np.arange(len(texts)) >= len(data.database)
    X = TfidfVectorizer(max_features=10_000, sublinear_tf=True)
    X = X.fit_transform(texts).astype(np.float32)
    seconds, (similar, cosines) = seconds_of(similar_pairs, X)
    figures = {"messages": len(texts), "different": len(set(texts)), "sparse": seconds}
    table = Table(MESSAGES).printed()
    keys = similar @ [len(texts), 1]
    for n_bits in BITS:
        encoder = RandomHyperplaneHash(n_bits, center=False, random_state=SEED)
        codes = encoder.fit(X).transform_packed(X)
        for cosine in COSINES:
            radius = round(n_bits * np.arccos(cosine) / np.pi)
            options = {"radius": radius, "packed": True, "n_jobs": 1}
            pairs_seconds, (_, pairs) = thread_seconds(radius_pairs, codes, **options)
            group_seconds, (groups, kept) = thread_seconds(
                duplicate_groups, codes, **options
            )
            # A pair whose cosine is below LOWEST is not among the keys.
            found = np.isin(keys, pairs @ [len(texts), 1])
            true = cosines >= cosine
            lowest = cosines[found].min() if found.sum() == len(pairs) else 0
            across = np.isin(groups[is_test], groups[~is_test]).sum()
            precision = (found & true).sum() / len(pairs)
            counts = n_bits, cosine, radius, true.sum(), len(pairs)
            shares = found[true].mean(), precision, lowest or f"< {LOWEST}"
            seconds = pairs_seconds, group_seconds
            table.add(*counts, *shares, len(kept), across, *seconds)
    return table, figures


def main():
    parser = options(__doc__, data_home=None)
    parser.add_argument("--only", choices=["messages", "words", "hashes"])
    arguments = parser.parse_args()
    tables, figures = {}, {}
    if arguments.only == "hashes":
        tables["Hashes"] = show_hashes()
    if arguments.only in (None, "messages"):
        tables["Duplicates by codes"], figures = show_messages(arguments.data_home)
    if arguments.only in (None, "words"):
        tables["Pairs of near codes"] = show_words(arguments.data_home)
    save(arguments.output, tables, figures, seeds=[SEED], data="one thread")


if __name__ == "__main__":
    main()
