"""Tests of `each`."""

import pytest
from cases import each


def test_all_cases_run_and_the_one_that_fails_is_named():
    seen = []

    @each("word", ["a", "b"])
    @each("n, m", [(1, 2), (3, 4)])
    def test(fixture, word, n, m):
        seen.append((fixture, word, n, m))
        assert (word, m) != ("b", 4)

    with pytest.raises(AssertionError) as failed:
        test(fixture=0)
    assert seen == [(0, "a", 1, 2), (0, "a", 3, 4), (0, "b", 1, 2), (0, "b", 3, 4)]
    assert failed.value.__notes__ == ["case: {'n': 3, 'm': 4}", "case: {'word': 'b'}"]


def test_names_and_cases_have_to_be_there():
    for names, cases in (("other", [1]), ("n", [])):
        with pytest.raises(AssertionError, match=names):
            each(names, cases)(lambda n: None)
