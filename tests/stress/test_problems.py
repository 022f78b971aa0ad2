"""Single questions: near pairs, and crowds."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from processes import forked, was_killed
from stress.drawn import Codes, lengths, one_of, rngs
from stress.plain import groups_of, hamming_distances
from stress.test_indexes import LiveIndex

from skhash.neighbors import duplicate_groups, radius_pairs

steps = st.integers(1, 8)
N_READERS = 3


@settings(max_examples=20)
@given(rng=rngs, n=st.integers(1, 500), n_bits=lengths)
def test_near_pairs_and_groups(rng, n, n_bits):
    bits = Codes(rng, n_bits).draw(rng, n)
    distances = hamming_distances(bits, bits)
    radius = int(np.quantile(distances, rng.choice([0, 0.001, 0.01, 0.1])))
    found, pairs = radius_pairs(bits, radius, n_jobs=2)
    groups, _ = duplicate_groups(np.packbits(bits, axis=1), radius, packed=True)
    near = distances <= radius
    first, second = np.nonzero(np.triu(near, k=1))
    order = np.lexsort((second, distances[first, second], first))
    expected = np.stack([first, second], axis=1)[order]
    assert_array_equal(pairs, expected)
    assert_array_equal(found, distances[tuple(expected.T)])
    assert_array_equal(groups, groups_of(near))
    priority = rng.integers(0, 1 + n // one_of(rng, 1, 4, n), n)
    priority = one_of(rng, priority, priority / 7, priority.astype(str))
    priority = one_of(rng, priority, list(priority))
    away, same, kept = duplicate_groups(
        bits, radius, priority=priority, return_distance=True
    )
    assert_array_equal(same, groups)
    best = [
        max(np.flatnonzero(groups == group), key=lambda i: (priority[i], -i))
        for group in range(groups.max() + 1)
    ]
    assert_array_equal(kept, best)
    assert_array_equal(away, distances[np.arange(n), kept[groups]])
    assert_array_equal(duplicate_groups(bits, radius, priority=priority)[1], kept)


class Crowd(LiveIndex):
    """An index that many use at a time, each with its own random numbers."""

    def __init__(self, rng, n, n_bits):
        super().__init__()
        self.fit(rng, n, n_bits)

    def answer(self, rng):
        """Return random queries and what the index answers."""
        bits = self.codes.draw(rng, 20)
        return bits, self.index.kneighbors(self.as_codes(bits, ("u1", "C")), 1)

    def state(self):
        return self.rows["bits"], self.live


def assert_answer_of(states, queries, found):
    """Look whether one of some states of an index answers so."""
    for bits, live in states:
        distances = np.where(live, hamming_distances(queries, bits), 10**6)
        nearest = distances.argmin(axis=1)
        if np.array_equal(found[1][:, 0], nearest) and np.array_equal(
            found[0][:, 0], distances.min(axis=1)
        ):
            return
    raise AssertionError("No state that was there answers so.")


def run_together(*functions):
    """Call functions in a thread each; raise what one of them raised."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()


@pytest.mark.long
@settings(max_examples=8)
@given(rng=rngs, n=st.integers(1, 500), n_bits=lengths, n_steps=steps)
def test_threads_search_beside_a_writer(rng, n, n_bits, n_steps):
    """Each answer is that of a state that was there meanwhile."""
    crowd = Crowd(rng, n, n_bits)
    states, done = [crowd.state()], 0
    seeds = rng.integers(2**32, size=(N_READERS + 1, n_steps))

    def write():
        nonlocal done
        for seed in seeds[0]:
            # The result of the change is known before anyone can see it.
            future = copy.copy(crowd)
            future.index = copy.deepcopy(crowd.index)
            change(future, np.random.default_rng(seed))
            if future.live.any():
                states.append(future.state())
                change(crowd, np.random.default_rng(seed))
                done += 1

    def read(reader):
        for seed in seeds[reader]:
            first = done
            answer = crowd.answer(np.random.default_rng(seed))
            assert_answer_of(states[first:], *answer)

    run_together(write, *(lambda r=r: read(r) for r in range(1, N_READERS + 1)))
    crowd.teardown()


def change(held, rng):
    what = rng.integers(4)
    if what == 0:
        held.add(rng, int(rng.integers(1, 100)))
    elif what == 1:
        held.remove(rng, rng.choice([0.01, 0.3, 0.9]))
    elif what == 2:
        held.replace(rng, int(rng.integers(1, 100)))
    else:
        held.compact()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@settings(max_examples=4)
@given(rng=rngs, n=st.integers(1, 500), n_bits=lengths, n_steps=steps)
def test_forks_beside_threads_that_search(rng, n, n_bits, n_steps):
    """Both processes search."""
    crowd = Crowd(rng, n, n_bits)
    crowd.index.n_jobs = 2
    first, second = rng.integers(2**32, size=(2, n_steps))

    def ask(seed):
        answer = crowd.answer(np.random.default_rng(seed))
        assert_answer_of([crowd.state()], *answer)

    def fork(seed):
        process = forked(lambda: ask(seed))
        ask(seed + 1)
        assert not was_killed(process)

    ask(0)
    run_together(
        lambda: [fork(seed) for seed in first], lambda: [ask(seed) for seed in second]
    )
    crowd.teardown()
