"""Errors of readers, for files that are not what they claim to be."""

import os
import textwrap
import warnings
from collections.abc import Iterable
from contextlib import contextmanager

import numpy as np

PathLike = str | os.PathLike[str]

# Deflate, the compression of .gz, .npz and HDF5, makes data no smaller than this part:
# a file that declares more than 1032 times its size cannot hold it.
LARGEST_EXPANSION = 1032

# Where a reason or a list of names is cut: a damaged file may put all of itself there.
LONGEST_TEXT = 300


@contextmanager
def parsing(failure: str):
    """Turn exceptions of a parser in the block into a ``ValueError`` of one line.

    A damaged file fails anywhere inside NumPy, SciPy, zipfile or HDF5, with whatever
    exception, and the warnings on the way say no more. Open the file before, so that
    one that is missing or forbidden stays an ``OSError``.

    Parameters
    ----------
    failure : str
        The failed action, with the path; the reason is put after it.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        text = " ".join(str(error).split())
        reason = listed([text]) if text else type(error).__name__
        raise ValueError(f"{failure}: {reason}") from error


def listed(names: Iterable[str]) -> str:
    """Format names found in a file, which may be strange, as a piece of a line."""
    shown = (name if name.isprintable() else ascii(name) for name in names)
    text = textwrap.shorten(", ".join(shown), LONGEST_TEXT, placeholder=" ...")
    return text or "none"
