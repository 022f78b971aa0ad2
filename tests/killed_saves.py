"""Saves that are killed before each of their writes to the disk."""

import shutil

from processes import killed_before

import skhash


def kill_saves(originals, other, target):
    """Return the folders that saves over each original left, by the moment of the kill.

    What is in `other` is saved over a copy of each, and killed before its first write
    to the disk, before its second one, and so on; the last save is not killed. An
    original may be a path where there is nothing. The folders are in subfolders of
    `target` with the names of the originals.
    """
    estimator = skhash.load(other)
    return [_kill_saves(estimator, one, target / one.name) for one in originals]


def _kill_saves(estimator, original, target):
    target.mkdir(parents=True)
    folders, killed = [], True
    while killed:
        folders.append(target / f"{len(folders):03d}")
        if original.exists():
            shutil.copytree(original, folders[-1])
        killed = killed_before(
            lambda folder=folders[-1]: estimator.save(folder), len(folders) - 1
        )
    return folders
