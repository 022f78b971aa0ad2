"""Attacks by questions: every kind of search, compared with plain answers."""

from contextlib import nullcontext

import numpy as np
from numpy.testing import assert_array_equal

from skhash.linear import PCAHash
from skhash.neighbors import (
    AsymmetricNeighbors,
    HashedNeighbors,
    PrefixNeighbors,
    duplicate_groups,
    merge_neighbors,
    radius_pairs,
)
from skhash.soak.case import log_uniform
from skhash.soak.chance import chance_chooses, torch_answers
from skhash.soak.held import Held, HeldVectors
from skhash.soak.reference import (
    assert_graph,
    assert_nearest,
    assert_within,
    groups_of,
    hamming_distances,
    ranked,
    ranked_candidates,
    scores_of,
)

ALGORITHMS = ("auto", "auto", "brute", "multi_index", "multi_index", "pruned")


def hamming(case):
    """`HammingNeighbors` that grows, shrinks, moves and is asked, by any algorithm."""
    live_through(case, Held, n_algorithms=len(ALGORITHMS))


def asymmetric(case):
    """`AsymmetricNeighbors`, by a decoder or vectors, that changes and is asked."""
    live_through(case, HeldVectors)


def live_through(case, kind, n_algorithms=0):
    with chance_chooses(case):
        held = kind(case)
        for step in range(case.n_steps):
            rng = case.rng("step", step)
            if n_algorithms:
                held.index.algorithm = ALGORITHMS[rng.integers(n_algorithms)]
            held.index.n_jobs = [1, 2, None][rng.integers(3)]
            on_torch = n_algorithms and rng.random() < 0.1
            with torch_answers(case) if on_torch else nullcontext():
                ask(held, rng)
            if rng.random() < 0.4:
                held.change(rng)


def ask(held, rng):
    """Ask an index for the nearest codes, for those within a radius, or a graph."""
    # Of an index that has removed codes, the own ones cannot be asked for.
    own = bool(held.live.all()) and held.n <= 500 and rng.random() < 0.15
    arguments, may_find, names = held.question(rng)
    X, scores, more = held.asked(rng, own)
    own, arguments = X is None, arguments | more
    answers = held.ranked(scores, may_find, own)
    held.case.counts["queries"] += len(answers)
    n_found = held.most(np.count_nonzero(may_find) - own)
    what = rng.choice(["nearest", "within", "graph"], p=[0.5, 0.35, 0.15])
    if what != "within" and n_found < 1:
        return
    if what == "within":
        radius = held.radius(rng, scores)
        found = held.index.radius_neighbors(X, radius, **arguments)
        assert_within(found, answers, radius, names)
        return
    k = n_found if rng.random() < 0.05 else log_uniform(rng, 1, min(n_found, 150))
    if rng.random() < 0.6:  # what the last answers showed is of use for the same k
        k = min(n_found, held.k)
    held.k = k
    if what == "nearest":
        found = held.index.kneighbors(X, k, **arguments)
        assert_nearest(found, answers, k, names)
        return
    mode = str(rng.choice(["connectivity", "distance"]))
    arguments.pop("return_ids")
    graph = held.index.kneighbors_graph(X, k, mode, **arguments)
    distances, positions = zip(*answers, strict=True)
    assert_graph(graph, [d[:k] for d in distances], [p[:k] for p in positions], mode)


def prefix(case):
    """`PrefixNeighbors` against two plain sorts."""
    rng, bits = case.rng("prefix"), case.bits("codes", case.n)
    n_first, packed = log_uniform(rng, 1, case.n_bits), bool(rng.integers(2))
    n_candidates = log_uniform(rng, 1, 2 * case.n)
    pack = np.packbits if packed else np.asarray
    index = PrefixNeighbors(
        prefix_bits=n_first, n_candidates=n_candidates, packed=packed, n_jobs=2
    ).fit(pack(bits, axis=1) if packed else bits)
    with chance_chooses(case):
        for step in range(case.n_steps):
            queries = case.queries(step)
            k = log_uniform(case.rng("k", step), 1, min(case.n, n_candidates))
            found = index.kneighbors(pack(queries, axis=1) if packed else queries, k)
            expected = ranked_candidates(
                hamming_distances(queries[:, :n_first], bits[:, :n_first]),
                hamming_distances(queries, bits),
                np.ones(case.n, dtype=bool),
                n_candidates,
            )
            assert_nearest(found, expected, k)
            case.counts["queries"] += len(queries)


def hashed(case):
    """`HashedNeighbors`: the codes of an encoder, then the vectors behind them."""
    rng = case.rng("hashed")
    n_features, n = int(rng.integers(2, 20)), max(case.n, 30)
    X = case.vectors("rows", n, n_features)
    n_bits = int(rng.integers(1, n_features + 1))
    n_candidates = log_uniform(rng, 1, n)
    index = AsymmetricNeighbors(n_candidates=n_candidates, n_jobs=2)
    search = HashedNeighbors(PCAHash(n_bits), index, keep_vectors=True).fit(X)
    folder = case.folder / "search"
    with chance_chooses(case):
        for step in range(case.n_steps):
            queries = case.vectors(("queries", step), case.n_queries, n_features)
            k = log_uniform(case.rng("k", step), 1, n_candidates)
            distances, scores = (
                hamming_distances(
                    *(search.encoder_.transform(rows) for rows in (queries, X))
                ),
                scores_of(queries, X, "euclidean"),
            )
            everywhere = np.ones(n, dtype=bool)
            expected = ranked_candidates(distances, scores, everywhere, n_candidates)
            assert_nearest(search.kneighbors(queries, k), expected, k)
            case.counts["queries"] += len(queries)
            search.save(folder)
            search = HashedNeighbors.load(folder, mmap=bool(step % 2))


def pairs(case):
    """`radius_pairs` and `duplicate_groups` against the whole matrix."""
    rng, n = case.rng("pairs"), min(case.n, 600)
    bits = case.bits("codes", n)
    distances = hamming_distances(bits, bits)
    with chance_chooses(case):
        for _ in range(case.n_steps):
            radius = int(np.quantile(distances, rng.choice([0, 0.001, 0.01, 0.1])))
            found, found_pairs = radius_pairs(bits, radius, n_jobs=2)
            near = distances <= radius
            first, second = np.nonzero(np.triu(near, k=1))
            order = np.lexsort((second, distances[first, second], first))
            expected = np.stack([first, second], axis=1)[order]
            assert_array_equal(found_pairs, expected, f"radius={radius}")
            assert_array_equal(found, distances[tuple(expected.T)])
            groups = duplicate_groups(np.packbits(bits, axis=1), radius, packed=True)
            assert_array_equal(groups, groups_of(near), f"radius={radius}")
            case.counts["queries"] += n


def merge(case):
    """`merge_neighbors` of parts, some of them empty, against the whole."""
    rng, bits = case.rng("merge"), case.bits("codes", case.n)
    for step in range(case.n_steps):
        queries = case.queries(step)
        scores = hamming_distances(queries, bits)
        cuts = np.sort(rng.integers(0, case.n + 1, rng.integers(0, 9)))
        starts, stops = [0, *cuts], [*cuts, case.n]
        k = log_uniform(rng, 1, case.n)
        parts = []
        for start, stop in zip(starts, stops, strict=True):
            part = ranked(scores[:, start:stop], np.ones(stop - start, dtype=bool))
            distances, positions = (np.stack(one) for one in zip(*part, strict=True))
            parts.append((distances[:, :k], positions[:, :k] + start))
        found = merge_neighbors([parts[i] for i in rng.permutation(len(parts))], k)
        assert_nearest(found, ranked(scores, np.ones(case.n, dtype=bool)), k)
        case.counts["queries"] += len(queries)
