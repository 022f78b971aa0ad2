"""Measuring the free memory."""

import ctypes
import os
import sys
from pathlib import Path


def free_memory() -> float:
    """Return how many bytes this process may still use; infinity if unknown.

    The system's available memory, or on Linux the rest of the control group's limit.
    """
    if sys.platform == "win32":
        return _of_windows()
    if sys.platform == "darwin":
        return _of_macos()
    return min(_of_linux(), _of_group())


def _of_windows():
    # A MEMORYSTATUSEX: its size, and as the third number the available bytes.
    status = (ctypes.c_uint64 * 8)(64)
    is_told = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return float(status[2]) if is_told else float("inf")


def _of_macos():
    # A vm_statistics64: the numbers of free, active, inactive pages, and more.
    system, kind, pages = ctypes.CDLL(None), 4, (ctypes.c_uint32 * 256)()
    size = ctypes.c_uint32(len(pages))
    host = system.mach_host_self()
    if system.host_statistics64(host, kind, pages, ctypes.byref(size)):
        return float("inf")
    return float(pages[0] + pages[2]) * os.sysconf("SC_PAGE_SIZE")


def _of_linux(path="/proc/meminfo"):
    for name, value, *_ in _rows(path):
        if name == "MemAvailable:":
            return 1024.0 * int(value)
    return float("inf")


def _of_group(folder="/sys/fs/cgroup"):
    numbers = {name: int(value) for name, value, *_ in _rows(f"{folder}/memory.stat")}
    limits = [row[0] for row in _rows(f"{folder}/memory.max")]
    used = [row[0] for row in _rows(f"{folder}/memory.current")]
    if not limits or limits[0] == "max" or not used:
        return float("inf")
    # Pages of files are given back when they are needed.
    return float(limits[0]) - float(used[0]) + numbers.get("inactive_file", 0)


def _rows(path):
    """Return the words of each line of a file, or nothing if it is missing."""
    try:
        return [line.split() for line in Path(path).read_text().splitlines()]
    except OSError:
        return []
