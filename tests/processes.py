"""Processes that are forked, and killed before a write to the disk or at any moment."""

import io
import os
import signal
import sys
import time
import traceback
import warnings
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from skhash.utils import files

# A process that takes longer than this hangs.
PATIENCE = 600.0


@contextmanager
def before_each_write(call):
    """Call something before anything changes on the disk."""

    def calling(function):
        def wrapped(*arguments, **options):
            call()
            return function(*arguments, **options)

        return wrapped

    class Watched(io.BufferedWriter):
        def write(self, content):
            call()
            return super().write(content)

    def opened(path, mode):
        return Watched(io.FileIO(path, mode.replace("b", "")))

    with ExitStack() as stack:
        for name in ("fsync", "replace", "unlink", "mkdir", "rmdir"):
            changed = calling(getattr(os, name))
            stack.enter_context(patch.object(os, name, changed))
        stack.enter_context(patch.object(files, "open", opened, create=True))
        yield


def count_writes(save):
    """Return how often a call of `save` changes something on the disk."""
    writes = []
    with before_each_write(lambda: writes.append(1)):
        save()
    return len(writes)


def killed_before(save, step):
    """Call `save` in a process that is killed before its write number `step`.

    Returns
    -------
    killed : bool
        False, if there are no more writes than `step`, so that it was saved.
    """

    def save_until():
        left = step

        def kill():
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        with before_each_write(kill):
            save()

    return was_killed(forked(save_until))


def killed_after(save, seconds):
    """Call `save` in a process that is killed after some time; return whether it was.

    It had saved, or not, or was about to.
    """
    process = forked(save)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    return was_killed(process)


def forked(function):
    """Call a function in a process forked from this one; return its number."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        # Python warns of forks beside threads: what is called here has to bear them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        return process
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def was_killed(process):
    """Wait for a process; return whether it was killed, or raise if it failed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise AssertionError(f"A process hung: it took more than {PATIENCE} s.")
        time.sleep(0.001)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"A process ended with {code}."
    return code != 0
