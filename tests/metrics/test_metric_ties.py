"""Scores under ties against every order that the ties could have, listed in full."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skhash.codes import hamming_distances, pack_bits
from skhash.metrics import (
    mean_average_precision_score,
    ndcg_at_k_score,
    neighbor_recall_score,
    precision_at_k_score,
    recall_at_k_score,
)

QUERY = np.zeros((1, 3), dtype=np.uint8)


def orders(distances):
    """List the rankings that keep the distances in order: products of permutations."""
    found = [[]]
    for distance in np.unique(distances):
        block = np.flatnonzero(distances == distance)
        found = [order + list(p) for order in found for p in permutations(block)]
    return [np.array(order) for order in found]


def average_precision(relevance, k, normalize):
    hits, total = 0, 0.0
    for rank, relevant in enumerate(relevance[:k], start=1):
        if relevant:
            hits += 1
            total += hits / rank
    z = {"min": min(sum(relevance), k), "relevant": sum(relevance), "retrieved": hits}
    return total / z[normalize] if z[normalize] else 0.0


def gain_discounted(gains, k):
    return sum(g / np.log2(1 + t) for t, g in enumerate(gains[:k], start=1))


@st.composite
def small_rankings(draw):
    """At most seven codes of three bits, few distances, something relevant."""
    n = draw(st.integers(1, 7))
    codes = draw(st.lists(st.integers(0, 7), min_size=n, max_size=n))
    bits = (np.array(codes)[:, None] >> np.arange(3)) & 1
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(any))
    return bits.astype(np.uint8), np.array(labels), draw(st.integers(1, n))


def distances_of(codes):
    return hamming_distances(pack_bits(QUERY), pack_bits(codes))[0]


@settings(max_examples=80)
@given(small_rankings(), st.sampled_from(["min", "relevant"]))
def test_scores_are_the_mean_and_the_extremes_of_all_orders(case, normalize):
    codes, labels, k = case
    ranked = [labels[order] for order in orders(distances_of(codes))]
    stable = labels[np.argsort(distances_of(codes), kind="stable")]
    scores = [
        (
            partial(mean_average_precision_score, normalize=normalize),
            partial(average_precision, k=k, normalize=normalize),
        ),
        (precision_at_k_score, lambda relevance: relevance[:k].sum() / k),
        (recall_at_k_score, lambda relevance: relevance[:k].sum() / labels.sum()),
    ]
    for score, of_one in scores:
        values = list(map(of_one, ranked))
        oracle = {"expected": np.mean(values), "index": of_one(stable)}
        oracle |= {"best": max(values), "worst": min(values)}
        for ties, value in oracle.items():
            found = score(QUERY, codes, [1], labels, k=k, ties=ties)
            assert found == pytest.approx(value, abs=1e-12)


@settings(max_examples=80)
@given(small_rankings(), st.sampled_from(["best", "worst", "index"]))
def test_retrieved_denominator_follows_the_order_of_relevance_in_ties(case, ties):
    codes, labels, k = case
    first = {"best": -labels, "worst": labels, "index": 0 * labels}[ties]
    relevance = labels[np.lexsort((first, distances_of(codes)))]
    score = mean_average_precision_score(
        QUERY, codes, [1], labels, k=k, normalize="retrieved", ties=ties
    )
    assert score == pytest.approx(average_precision(relevance, k, "retrieved"))


@settings(max_examples=60)
@given(small_rankings())
def test_neighbor_recall_is_the_mean_and_the_extremes_of_all_orders(case):
    codes, labels, n_retrieved = case
    truth = np.flatnonzero(labels)[None]
    distances = distances_of(codes)
    values = [labels[order][:n_retrieved].mean() for order in orders(distances)]
    values = np.array(values) * n_retrieved / labels.sum()
    by_index = labels[np.argsort(distances, kind="stable")][:n_retrieved].sum()
    oracle = {
        "expected": values.mean(),
        "best": values.max(),
        "worst": values.min(),
        "index": by_index / labels.sum(),
    }
    for ties, value in oracle.items():
        score = neighbor_recall_score(
            QUERY, codes, truth[:, ::-1], n_retrieved=n_retrieved, ties=ties
        )
        assert score == pytest.approx(value, abs=1e-12)


@settings(max_examples=60)
@given(small_rankings(), st.integers(0, 2**32 - 1), st.sampled_from([True, False]))
def test_ndcg_is_the_mean_of_all_orders(case, seed, linear):
    codes, _, k = case
    labels = np.random.default_rng(seed).integers(0, 2, size=(len(codes), 4))
    labels[0, 0] = 1
    wanted = np.array([[1, 1, 0, 1]])
    shared = labels @ wanted[0]
    gains = shared if linear else 2.0**shared - 1
    ideal = gain_discounted(np.sort(gains)[::-1], k)
    values = [
        gain_discounted(gains[order], k) / ideal
        for order in orders(distances_of(codes))
    ]
    by_index = gains[np.argsort(distances_of(codes), kind="stable")]
    for ties, value in [
        ("expected", np.mean(values)),
        ("index", gain_discounted(by_index, k) / ideal),
    ]:
        score = ndcg_at_k_score(
            QUERY,
            codes,
            wanted,
            labels,
            k=k,
            gain="linear" if linear else "exponential",
            ties=ties,
        )
        assert score == pytest.approx(value, abs=1e-12)
