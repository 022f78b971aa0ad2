"""Who saves where others save too, and in which order it comes to the disk."""

import os
import signal
import stat

import numpy as np
import pytest
from processes import forked, was_killed

import skhash
from skhash import HammingNeighbors
from skhash.persistence import directory
from skhash.persistence.directory import MANIFEST

fcntl = pytest.importorskip("fcntl", reason="no locks on this system")
BITS = np.random.default_rng(0).integers(0, 2, (50, 9), dtype=np.uint8)


def lock(path):
    """Take the lock of a directory and give it back, or raise ``BlockingIOError``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def test_one_saves_at_a_time(tmp_path):
    with directory.saving(tmp_path / "new") as path:
        with pytest.raises(BlockingIOError):
            lock(path)
        # Others look no further than their own directory.
        HammingNeighbors().fit(BITS).save(path / "part-index-0123456789abcdef")
    lock(path)


def test_a_save_that_fails_keeps_nobody_waiting(tmp_path):
    with pytest.raises(OSError, match="disk full"):
        with directory.saving(tmp_path):
            raise OSError("disk full")
    lock(tmp_path)


def test_a_killed_save_keeps_nobody_waiting(tmp_path):
    def save():
        with directory.saving(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    assert was_killed(forked(save))
    lock(tmp_path)


def test_a_process_that_was_forked_over_a_save_keeps_nobody_waiting(tmp_path):
    """It has the directory open, too."""
    reading, writing = os.pipe()
    with directory.saving(tmp_path):
        process = forked(lambda: (os.close(writing), os.read(reading, 1)))
    lock(tmp_path)
    os.close(writing)
    assert not was_killed(process)
    os.close(reading)


def test_systems_and_disks_without_locks(tmp_path, monkeypatch):
    index = HammingNeighbors().fit(BITS)

    def refused(*arguments):
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    index.save(tmp_path)
    monkeypatch.setattr(directory, "fcntl", None)
    index.save(tmp_path)
    assert skhash.load(tmp_path).n_samples_fit_ == 50


def test_the_new_names_are_on_the_disk_before_the_old_ones_go(tmp_path, monkeypatch):
    """A machine that loses its power keeps the old state or the new one."""
    HammingNeighbors().fit(BITS, BITS[:, 0]).save(tmp_path)
    replace, fsync, unlink, order = os.replace, os.fsync, os.unlink, []

    def replaced(source, target):
        order.append("manifest" if target.name == MANIFEST else "array")
        replace(source, target)

    def synced(descriptor):
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        order.append("names" if is_directory else "content")
        fsync(descriptor)

    def unlinked(path, **options):
        order.append("old")
        unlink(path, **options)

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "unlink", unlinked)
    HammingNeighbors().fit(1 - BITS, BITS[:, 1]).save(tmp_path)
    each = ["content", "array"]
    whole = [*each, *each, "names", "content", "manifest", "names", "old", "old"]
    assert order == whole
