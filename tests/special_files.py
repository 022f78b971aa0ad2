"""Files that are not plain ones; a test is skipped where the system has none."""

import os

import pytest


def make_link(path, target):
    """Make a symbolic link."""
    try:
        path.symlink_to(target)
    except OSError as error:  # Windows grants them to some users
        pytest.skip(f"no links: {error}")


def make_pipe(path):
    """Make a named pipe."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes on this system")
    os.mkfifo(path)
