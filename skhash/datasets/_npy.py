"""NumPy's .npy files: arrays of numbers or strings, never pickles."""

import numpy as np

from skhash.datasets._damage import PathLike, parsing


def read_npy(path: PathLike, mmap: bool = False) -> np.ndarray:
    """Read or map the array of a ``.npy`` file; ``ValueError`` where it holds none."""
    # The magic is checked first: NumPy reads any other content as a pickle.
    with open(path, "rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{path} is not a .npy file; write it with numpy.save.")
    with parsing(f"{path} cannot be read as .npy"):
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
