"""Measuring the free memory."""

from pathlib import Path


def free_memory() -> float:
    """Return how many bytes this process may still use; infinity if unknown.

    The system's available memory, or the rest of the control group's limit. Linux only.
    """
    return min(_of_system(), _of_group())


def _of_system(path="/proc/meminfo"):
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
