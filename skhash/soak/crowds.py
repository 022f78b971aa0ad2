"""Attacks by many at once: threads that search beside a writer, and forks."""

import copy
from concurrent.futures import ThreadPoolExecutor

from skhash.soak.chance import chance_chooses
from skhash.soak.held import Held
from skhash.soak.processes import forked, was_killed
from skhash.soak.reference import assert_nearest, hamming_distances, ranked

N_THREADS, MAX_CODES = 4, 500


def threads(case):
    """Search in threads beside a writer: each answer is that of one of the states."""
    with chance_chooses(case):
        held, begun, done = small(case), [], 0
        begun.append(state(held))

        def write():
            nonlocal done
            for step in range(case.n_steps):
                # What comes of the change is known before anyone can see it.
                future = copy.copy(held)
                future.index = copy.deepcopy(held.index)
                change(future, case.rng("write", step))
                if future.live.any():
                    begun.append(state(future))
                    change(held, case.rng("write", step))
                    done += 1

        def read(reader):
            for question in range(2 * case.n_steps):
                queries = case.queries(("thread", reader, question))
                first = done
                found = held.index.kneighbors(held.as_codes(queries), 1)
                states = begun[first:]
                assert any(is_answer(found, queries, *one) for one in states)
                case.counts["queries"] += len(queries)

        run_together(write, *(lambda r=r: read(r) for r in range(N_THREADS)))


def forks(case):
    """Fork while threads search: both processes go on to search."""
    with chance_chooses(case):
        held = small(case)
        held.index.n_jobs = 2

        def ask(*name):
            queries = case.queries(name)
            found = held.index.kneighbors(held.as_codes(queries), 1)
            assert is_answer(found, queries, *state(held)), "A wrong answer."
            case.counts["queries"] += len(queries)

        ask("first")

        def fork(step):
            process = forked(lambda: ask("child", step))
            ask("parent", step)
            assert not was_killed(process)
            case.counts["forks"] += 1

        run_together(
            lambda: [fork(step) for step in range(case.n_steps)],
            lambda: [ask("beside", step) for step in range(4 * case.n_steps)],
        )


def small(case):
    case.n = min(case.n, MAX_CODES)
    return Held(case)


def change(held, rng):
    [held.add, held.remove, held.compact][rng.integers(3)](rng)


def state(held):
    return held.rows["bits"], held.live.copy()


def is_answer(found, queries, bits, live):
    """Return whether an index that holds this answers so."""
    expected = ranked(hamming_distances(queries, bits), live)
    try:
        assert_nearest(found, expected, 1)
    except AssertionError:
        return False
    return True


def run_together(*functions):
    """Call functions in a thread each; raise what one of them raised."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()
