"""A file is the old one or the new one, whoever writes it and however that ends."""

import errno
import os
import stat
import time

import pytest

from skhash.utils import files
from skhash.utils.files import ABANDONED, PAUSES, replacing


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "codes.npy"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def plain_fsync(monkeypatch):
    """Sync as systems other than macOS do."""
    monkeypatch.setattr(files, "fcntl", None)


def test_two_writers_at_once(path):
    """Each one writes its own file, and the last one to finish wins, whole."""
    with replacing(path) as first:
        first.write(b"first, be")
        with replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"gun before")
    assert path.read_bytes() == b"first, begun before"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.usefixtures("plain_fsync")
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_alone(path, step, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if step != "write":
        monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space") as caught:
        with replacing(path) as file:
            file.write(b"new")
            if step == "write":
                full()
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert [*path.parent.iterdir()] == [path]


def test_files_of_writers_that_were_killed_go(path):
    """Those alone that nobody has written to for an hour, and nobody else's."""
    killed, writing = (path.with_name(f"codes.npy.{i * 16}.part") for i in "01")
    others = path.with_name("other.npy.0123456789abcdef.part"), path.with_name("a.part")
    for file in (killed, writing, *others):
        file.write_bytes(b"half")
        then = file.stat().st_mtime - (2 * ABANDONED if file != writing else 0)
        os.utime(file, (then, then))
    with replacing(path) as file:
        file.write(b"new")
    assert {*path.parent.iterdir()} == {path, writing, *others}


@pytest.fixture
def refuse(monkeypatch):
    """Return a function that makes one of `os` refuse, as Windows does for open files.

    It does so for some calls, with no pauses between them.
    """

    def refuse(name, n_times):
        def change(*arguments, **options):
            nonlocal n_times
            n_times -= 1
            if n_times >= 0:
                raise PermissionError(errno.EACCES, "Access is denied")
            return original(*arguments, **options)

        original = getattr(os, name)
        monkeypatch.setattr(os, name, change)

    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return refuse


def test_a_file_that_is_open_for_a_moment_is_replaced(path, refuse):
    refuse("replace", len(PAUSES))
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("n_unlinks", [0, 1])
def test_a_file_that_stays_open_is_named(path, refuse, n_unlinks):
    refuse("replace", 10**6)
    refuse("unlink", n_unlinks)
    with pytest.raises(PermissionError, match="cannot be replaced.*close it") as caught:
        with replacing(path) as file:
            file.write(b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert [*path.parent.iterdir()] == [path]


def test_what_cannot_be_cleaned_up_is_left(path, refuse):
    """Another writer has it open; the first error is told, and a save goes on."""
    abandoned = path.with_name(f"codes.npy.{'0' * 16}.part")
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (0, 0))
    refuse("unlink", 10**6)
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and abandoned.exists()
    with pytest.raises(ZeroDivisionError):
        with replacing(path) as file:
            1 / 0  # noqa: B018


@pytest.mark.skipif(files.fcntl is None, reason="no fcntl on this system")
@pytest.mark.parametrize("known", [True, False])
def test_on_macos_content_leaves_the_cache_of_the_disk(path, known, monkeypatch):
    done, fsync = [], os.fsync

    def control(descriptor, command):
        if not known:  # to the file system
            raise OSError(errno.ENOTSUP, "Operation not supported")
        done.append(command)

    def synced(descriptor):
        done.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(files.fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(files.fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", synced)
    with replacing(path) as file:
        file.write(b"new")
    assert done == [51 if known else stat.S_IFREG, stat.S_IFDIR]


@pytest.mark.usefixtures("plain_fsync")
def test_content_is_on_the_disk_before_its_name(path, monkeypatch):
    """A machine that loses its power keeps the old file or the new one."""
    replace, fsync, order = os.replace, os.fsync, []

    def synced(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        order.append("names" if is_folder else "content")
        fsync(descriptor)

    def replaced(source, target):
        order.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with replacing(path) as file:
        file.write(b"new")
    # Windows syncs no folders.
    assert order == ["content", "replace", "names"][: 2 if os.name == "nt" else 3]
