"""Many small cases of one test as one item of pytest."""

import inspect
import tracemalloc
from functools import wraps


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


def peak_bytes(call):
    """Return the most memory that a call held at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
