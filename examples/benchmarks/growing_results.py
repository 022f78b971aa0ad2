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
import sys


class Results:
    """Measurements by their names, in a JSON file that grows by each.

    `summary` returns what is printed of a measurement when it is made.
    """

    def __init__(self, path, summary=operator.itemgetter("recalls")):
        self.path, self.content = path, {"cells": {}, "left_out": {}}
        self.summary = summary
        if path and path.exists():
            self.content = json.loads(path.read_text(encoding="utf-8"))
        self.content["head"] = head()

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
    """Return the results of several files as one, with the head of the last."""
    content = {}
    for path in paths:
        for name, part in json.loads(path.read_text(encoding="utf-8")).items():
            if isinstance(part, list):
                content[name] = content.get(name, []) + part
            else:
                content[name] = {**content.get(name, {}), **part}
    return content


def head():
    """Return the machine, the date and the versions of what takes part."""
    versions = {"Python": platform.python_version()}
    for name in "scikit-hash numpy numba torch faiss-cpu".split():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "date": str(datetime.date.today()),
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def describe(head):
    """Return the line that stands above tables."""
    versions = ", ".join(f"{name} {it}" for name, it in head["versions"].items())
    return f"{head['date']}, {head['machine']}, {head['cores']} cores. {versions}."
