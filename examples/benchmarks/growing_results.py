"""Measurements that are kept in a file as they are made, by benchmarks that take hours.

An interrupted run loses nothing: started again with the same file, it goes on.
"""

import contextlib
import datetime
import importlib.metadata
import json
import operator
import os
import platform
import shlex
import sys
from pathlib import Path


class Results:
    """Measurements by their names, in a JSON file that grows by each.

    `summary` returns what is printed of a measurement when it is made.
    """

    def __init__(self, path, summary=operator.itemgetter("recalls")):
        self.path, self.content = path, {"cells": {}, "left_out": {}}
        self.summary = summary
        if path and path.exists():
            self.content = json.loads(path.read_text(encoding="utf-8"))
        before = self.content.get("head", {}).get("commands", [])
        commands = dict.fromkeys([*before, command()])
        self.content["head"] = {**head(), "commands": list(commands)}

    def get(self, name, make):
        """Return the measurement of that name, made now unless it is there.

        Returns None, with the reason printed, where it fails.
        """
        cells, left_out = self.content["cells"], self.content["left_out"]
        if name in cells:
            return cells[name]
        try:
            cells[name] = make()
        except (RuntimeError, ValueError, MemoryError) as error:
            left_out[name] = f"{type(error).__name__}: {error}".split("\n")[0]
            print(f"left out: {name}: {left_out[name]}", file=sys.stderr)
            return None
        left_out.pop(name, None)
        print(f"{name}: {self.summary(cells[name])}", file=sys.stderr, flush=True)
        self.write()
        return cells[name]

    def write(self):
        if self.path:
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(self.content, indent=1), encoding="utf-8")
            os.replace(beside, self.path)


def merged(paths):
    """Return the results of several files as one, with the head of the last.

    Its commands are those of all of them.
    """
    content, commands = {}, []
    for path in paths:
        for name, part in json.loads(path.read_text(encoding="utf-8")).items():
            if isinstance(part, list):
                content[name] = content.get(name, []) + part
            else:
                content[name] = {**content.get(name, {}), **part}
        commands += content.setdefault("head", {}).get("commands", [])
    content["head"]["commands"] = list(dict.fromkeys(commands))
    return content


# Those that may take part, and the modules that they are loaded as.
PACKAGES = {
    "scikit-hash": "skhash",
    "numpy": "numpy",
    "scikit-learn": "sklearn",
    "numba": "numba",
    "torch": "torch",
    "faiss-cpu": "faiss",
    "usearch": "usearch",
    "pynear": "pynear",
}


def head():
    """Return the machine, the date and the versions of what is loaded."""
    loaded = [name for name, module in PACKAGES.items() if module in sys.modules]
    versions = {"Python": platform.python_version()}
    for name in loaded:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "date": str(datetime.date.today()),
        "machine": processor_name(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def processor_name():
    """Return the name that the system has for the processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


# What of the environment belongs to a command.
SETTINGS = (
    *("OMP_NUM_THREADS", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "OPENBLAS_CORETYPE"),
    *("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
)


def command():
    """Return the command that runs here, without names of folders outside."""
    script, *given = sys.argv
    words = [_inside(script) or Path(script).name]
    for before, word in zip([script, *given], given, strict=False):
        if Path(word).is_absolute():
            option = before.startswith("--") and before[2:].replace("-", "_").upper()
            name = Path(word).name if Path(word).suffix else option or "FOLDER"
            word = _inside(word) or name
        words.append(word)
    known = [name for name in SETTINGS if name in os.environ]
    settings = [f"{name}={os.environ[name]}" for name in known]
    return shlex.join([*settings, "python", *words])


def _inside(path):
    """Return a path as seen from the root of the repository, None for others."""
    path, root = Path(path).resolve(), Path(__file__).resolve().parents[2]
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else None


def describe(head):
    """Return the line that stands above tables."""
    versions = ", ".join(f"{name} {it}" for name, it in head["versions"].items())
    return f"{head['date']}, {head['machine']}, {head['cores']} cores. {versions}."
