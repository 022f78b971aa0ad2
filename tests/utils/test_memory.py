"""How much memory is left, by files and calls like those of the systems."""

import ctypes
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from skhash.utils import memory


def group(folder, most, used="700", files="200"):
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 400\ninactive_file {files}\n")
    return folder


def test_what_linux_says(tmp_path):
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:  40 kB\n")
    assert memory._of_linux(path) == 40 * 1024
    assert memory._of_linux(tmp_path / "none") == np.inf


class Status(ctypes.Structure):
    """A MEMORYSTATUSEX as its documentation has it."""

    _fields_ = [("dwLength", ctypes.c_uint32), ("dwMemoryLoad", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64)
        for name in (
            *("ullTotalPhys", "ullAvailPhys", "ullTotalPageFile", "ullAvailPageFile"),
            *("ullTotalVirtual", "ullAvailVirtual", "ullAvailExtendedVirtual"),
        )
    ]


@pytest.mark.parametrize("works", [True, False])
def test_what_windows_says(monkeypatch, works):
    def tell(pointer):
        status = ctypes.cast(pointer, ctypes.POINTER(Status)).contents
        assert status.dwLength == ctypes.sizeof(Status)
        for number, (name, _) in enumerate(Status._fields_):
            setattr(status, name, 2**33 + number if number > 1 else 0)
        return works

    kernel32 = SimpleNamespace(GlobalMemoryStatusEx=tell)
    monkeypatch.setattr(sys, "platform", "win32")
    windll = SimpleNamespace(kernel32=kernel32)
    monkeypatch.setattr(ctypes, "windll", windll, raising=False)
    assert memory.free_memory() == (2**33 + 3 if works else np.inf)


@pytest.mark.parametrize("error", [0, 5])
def test_what_macos_says(monkeypatch, error):
    def tell(host, kind, pages, size):
        assert (host, kind, size._obj.value) == (7, 4, len(pages))
        pages[:4] = 3_000_000, 100, 5_000_000, 200  # free, active, inactive, wired
        return error

    system = SimpleNamespace(mach_host_self=lambda: 7, host_statistics64=tell)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: system)
    page = 2**14
    monkeypatch.setattr(os, "sysconf", lambda name: page, raising=False)
    assert memory.free_memory() == (8_000_000 * page if not error else np.inf)


@pytest.mark.parametrize(("most", "left"), [("1000", 500), ("max", np.inf)])
def test_what_a_control_group_leaves(tmp_path, most, left):
    assert memory._of_group(group(tmp_path, most)) == left
    assert memory._of_group(tmp_path / "none") == np.inf


def test_the_least_of_both_counts(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(memory, "_of_linux", lambda: 3.0)
    for left, least in ((2.0, 2.0), (np.inf, 3.0)):
        monkeypatch.setattr(memory, "_of_group", lambda left=left: left)
        assert memory.free_memory() == least
