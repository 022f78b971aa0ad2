"""Saves that are killed before each of their writes to the disk."""

import subprocess
import sys

# Saves what is in OTHER over a copy of each ORIGINAL, killed before its first write to
# the disk, before its second one, and so on; the last save is not killed.
KILLED_WRITERS = """
import os, pathlib, shutil, signal, sys
import skhash
from skhash.neighbors.store import files

other, target, *originals = map(pathlib.Path, sys.argv[1:])
estimator = skhash.load(other)

def save_until(step, folder):
    count = 0
    def counted(function):
        def call(*args, **kwargs):
            nonlocal count
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return function(*args, **kwargs)
        return call
    for name in ("fsync", "replace", "unlink", "mkdir", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    files._HashingFile.write = counted(files._HashingFile.write)
    estimator.save(folder)
    os._exit(0)

for original in originals:
    (target / original.name).mkdir(parents=True)
    step, status = 0, None
    while status != 0:
        folder = target / original.name / f"{step:03d}"
        if original.exists():
            shutil.copytree(original, folder)
        child = os.fork()
        if not child:
            try:
                save_until(step, folder)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), status
        step += 1
"""


def kill_saves(originals, other, target):
    """Return the folders that saves over each original left, by the moment of the kill.

    An original may be a path where there is nothing. They are in subfolders of `target`
    with the names of the originals.
    """
    arguments = [other, target, *originals]
    subprocess.run([sys.executable, "-c", KILLED_WRITERS, *arguments], check=True)
    return [sorted((target / original.name).iterdir()) for original in originals]
