"""Numbers beside codes, in few bytes, against rounding by its definition."""

import numpy as np
from cases import each
from decoded import rounded

from skhash.numerics._levels import (
    base_and_last,
    choose_fractions,
    first_columns,
    keys_of,
    keys_to_levels,
    levels_to_keys,
    n_level_bytes,
    numbers_of,
)


@each("fraction_bits", [0, 1, 5, 12, 22, 23])
@each("power", [-100, 0, 100])
def test_numbers_are_rounded_to_a_fraction_and_come_back(power, fraction_bits):
    rng = np.random.default_rng(0)
    spreads = np.exp(rng.normal(size=300)), rng.random(300), np.arange(0, 508, 0.5)
    for numbers in spreads:
        numbers = (numbers * 2.0**power).astype(np.float32)
        keys = keys_of(numbers, fraction_bits)
        base, last = base_and_last(keys)
        levels = keys_to_levels(keys, base, last)
        assert levels.dtype == np.uint8
        assert levels.shape == (len(keys), n_level_bytes(last))
        found = numbers_of(levels_to_keys(levels, base, last), fraction_bits)
        np.testing.assert_array_equal(found, rounded(numbers, fraction_bits))


def test_levels_take_as_few_bytes_as_the_largest_needs():
    for most, width in ((1, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (2**24, 4)):
        keys = np.array([1001, 1000 + most, 0])
        assert base_and_last(keys) == (1000, most)
        assert n_level_bytes(most) == width
        levels = keys_to_levels(keys, 1000, most)
        assert levels.shape == (3, width) and levels[1, 0] >= 128
        assert not levels[2].any()
    assert base_and_last(np.zeros(3, dtype=int)) == (0, 0)


def test_the_first_byte_keeps_the_order_and_tells_levels_apart():
    for most in (255, 256, 448, 70_000):
        keys = np.arange(most + 1) + 1000
        firsts = keys_to_levels(keys, 999, most + 1)[:, 0].astype(int)
        assert (np.diff(firsts) >= 0).all()
        assert np.bincount(firsts).max() <= 2 * -(-most // 256)


@each("spread", [0.01, 3])
def test_fractions_are_as_short_as_neighbours_allow(spread):
    """Rows in a narrow cone differ by less than a short fraction can say."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 20)) * spread + 1
    X *= np.exp(rng.normal(size=(600, 1)) / 3)
    decoded, offset = X + 0.1 * spread * rng.normal(size=X.shape), X.mean(axis=0)
    added = np.square(X - decoded).sum(axis=1) / 4
    chosen = choose_fractions(X, decoded, offset)
    assert (chosen[0] == 23) == (spread < 1)

    def nearest(scores):
        np.fill_diagonal(scores, np.inf)
        return np.argsort(scores, axis=1)[:, :10]

    def by_cosine(rows, lengths):
        return nearest(-X[:500] @ rows.T / lengths)

    def by_distance(rows, squares):
        return nearest(squares - 2 * (X[:500] - offset) @ (rows - offset).T)

    for find, fraction_bits, numbers, true in (
        (by_cosine, chosen[0], *(np.linalg.norm(it, axis=1) for it in (decoded, X))),
        (
            by_distance,
            chosen[1],
            np.square(decoded - offset).sum(axis=1) + added,
            np.square(X - offset).sum(axis=1),
        ),
    ):
        true = find(X, true)
        recalls = [
            (find(decoded, rounded(numbers, bits))[:, :, None] == true[:, None]).sum()
            for bits in (fraction_bits, 23)
        ]
        assert recalls[0] >= recalls[1] - 0.005 * true.size, find


@each("n, k, n_values", [(1, 1, 2), (7, 3, 4), (50, 10, 8), (200, 10, 1000), (4, 0, 2)])
def test_of_equal_scores_the_first_are_chosen(n, k, n_values):
    scores = np.random.default_rng(0).integers(0, n_values, (30, n)).astype(float)
    expected = np.argsort(scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(first_columns(scores, k), np.sort(expected, axis=1))
