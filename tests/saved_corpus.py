"""Files that released versions saved, and what they answered.

Run this file to keep those of the present version.
"""

from pathlib import Path

import numpy as np
from savable import MAKERS, answers, fitted

import skhash
from skhash.persistence.estimators import FILE

FOLDER = Path(__file__).parent / "data" / "saved"
ANSWERS = "answers.npz"


def keep(folder):
    """Save the estimators of the table, with their answers."""
    expected = {}
    for name in MAKERS:
        path = folder / name.replace(" ", "-")
        fitted(name).save(path)
        loaded = skhash.load(path)
        expected |= {f"{path.name}/{i}": one for i, one in enumerate(answers(loaded))}
    np.savez_compressed(folder / ANSWERS, **expected)


def kept():
    """Return the directories of all versions that have a file."""
    return sorted(file.parent for file in FOLDER.glob(f"*/*/{FILE}"))


def kept_answers(path):
    """Return what the estimator of a directory answered when it was saved."""
    with np.load(path.parent / ANSWERS) as found:
        names = [name for name in found if name.split("/")[0] == path.name]
        return [found[name] for name in names]


if __name__ == "__main__":
    keep(FOLDER / ".".join(skhash.__version__.split(".")[:2]))
