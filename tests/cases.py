"""Many small cases of one test as one item of pytest, and limits of memory."""

import inspect
import tracemalloc
from contextlib import contextmanager
from functools import wraps


@contextmanager
def memory_below(limit):
    """Fail if Python allocates `limit` bytes or more at a time in the block."""
    tracemalloc.start()
    try:
        yield
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < limit


def each(names, cases):
    """Run a test for each case in turn; the first that fails is named.

    As `pytest.mark.parametrize`, for cases that take milliseconds, which an item takes,
    too, and share their fixtures.
    """
    names, cases = names.replace(" ", "").split(","), list(cases)

    def decorated(test):
        @wraps(test)
        def of_each(*arguments, **fixtures):
            for case in cases:
                given = dict(zip(names, case if names[1:] else [case], strict=True))
                try:
                    test(*arguments, **fixtures, **given)
                except BaseException as error:
                    error.add_note(f"case: {given}")
                    raise

        own = inspect.signature(test).parameters
        assert cases and own.keys() >= {*names}, names
        kept = [one for name, one in own.items() if name not in names]
        of_each.__signature__ = inspect.Signature(kept)
        return of_each

    return decorated
