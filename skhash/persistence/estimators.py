"""Saving and loading of estimators in directories, whole or not at all.

A directory holds one file. A save writes another one beside it and renames that over
it; who opens the file, once, has one state, whatever others save meanwhile.
"""

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from skhash.persistence import state, tensors
from skhash.utils.files import is_unfinished, replacing

FILE = "skhash.safetensors"
# The lowest format whose readers understand what is written.
FORMAT = 1


def check_target(path) -> Path:
    """Return the path to save to, unless something else is there.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    """
    path = Path(path)
    if path.is_dir():
        others = [file for file in path.iterdir() if not is_unfinished(file, FILE)]
        if others and not (path / FILE).is_file():
            raise FileExistsError(
                f"{path} is a directory with other content; save to a new path."
            )
    elif path.exists():
        raise FileExistsError(f"{path} is a file; save writes a directory.")
    return path


def save_estimator(estimator, path) -> None:
    """Write the parameters and fitted state of `estimator` to the directory `path`.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    TypeError
        If the estimator has parts that are no data.
    ValueError
        If `fit` would refuse a parameter.
    """
    from skhash import __version__

    arrays, entry = state.described(estimator)
    path = check_target(path)
    path.mkdir(parents=True, exist_ok=True)
    versions = {"format": FORMAT, "skhash_version": __version__}
    with replacing(path / FILE) as file:
        tensors.write(file, {**versions, **entry}, arrays)


class SaveMixin:
    """Adds `save` to an estimator."""

    def save(self, path) -> None:
        """Save the fitted estimator to a directory, as safetensors and JSON.

        Parameters
        ----------
        path : path-like
            Directory to write to: a new one, or one that `save` wrote before. The
            latter is replaced atomically: a crash leaves either the old or the new
            state, complete.

        Raises
        ------
        FileExistsError
            If `path` holds anything else.
        ValueError
            If labels are neither numbers nor strings, or if a parameter is not valid.

        See Also
        --------
        skhash.load : Reads the directory without running code.

        Notes
        -----
        The clusters that an index has built are saved too. Parameters that are not
        plain data (callables, callbacks) are left out with a warning. Optimizer state
        is left out too: `partial_fit` on a loaded estimator starts from the saved
        weights with a fresh optimizer. The settings of scikit-learn's `set_output`
        and metadata routing are not saved either; make them again after loading.
        """
        check_is_fitted(self)
        save_estimator(self, path)


def load(path, *, mmap: bool = False, verify: bool = True) -> Any:
    """Load a saved encoder, quantizer, classifier, index or search.

    Loading runs no code from the file. Types, shapes and parameters are checked at
    once, and so are the contents of the arrays, except as described below.

    Parameters
    ----------
    path : path-like
        Directory that ``save`` wrote.
    mmap : bool, default=False
        Whether to memory-map the arrays of an index instead of reading them. Loading
        then takes milliseconds, and processes share the memory. Adding codes copies
        those in the file. skhash never writes to the file, and no other program may
        change or shorten it. Everything besides an index is always read.
    verify : bool, default=True
        Whether to verify the checksums of an index, and of the file of vectors that a
        search names. With `mmap` this happens before the first answer, and takes as
        long as reading the files. Padding bits and the marks of removed codes, on which
        searches rely, are always checked, and so is everything besides an index.

    Returns
    -------
    estimator : object
        The fitted estimator, of the class that was saved. Estimators among the
        parameters of a search are not fitted, unless they are wrapped in a
        FrozenEstimator.

    Raises
    ------
    FileNotFoundError
        If `path` holds no saved estimator, or if the file of vectors that it names is
        missing.
    ValueError
        If a file is damaged, was changed, is a link, or was written by a later version
        of skhash that this one does not understand.

    Examples
    --------
    >>> import tempfile
    >>> import skhash
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = skhash.ITQHash(n_bits=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder.save(folder)
    ...     loaded = skhash.load(folder)
    >>> bool((loaded.transform(X) == encoder.transform(X)).all())
    True
    """
    path = Path(path)
    if not (path / FILE).exists() and not (path / FILE).is_symlink():
        raise FileNotFoundError(
            f"{path} is not a saved skhash estimator: it has no {FILE}."
        )
    with tensors.naming_damage(path):
        manifest, arrays = tensors.read(path / FILE, mmap)
        if not 1 <= manifest["format"] <= FORMAT:
            raise ValueError(
                f"skhash {manifest['skhash_version']} wrote it in format "
                f"{manifest['format']}, and this version reads up to {FORMAT}; update "
                "skhash."
            )
        return state.restored(manifest, arrays, verify=verify)
