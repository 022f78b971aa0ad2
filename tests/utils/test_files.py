"""A file is the old one or the new one, whoever writes it and however that ends."""

import errno
import os
import stat

import pytest

from skhash.utils.files import ABANDONED, replacing


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "codes.npy"
    path.write_bytes(b"old")
    return path


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
    assert order == ["content", "replace", "names"]
