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
        weights with a fresh optimizer.
        """
        check_is_fitted(self)
        save_estimator(self, path)


def load(path) -> Any:
    """Load a saved encoder, quantizer, classifier, index or search.

    Loading runs no code from the file. To memory-map an index, use
    `HammingNeighbors.load` or `HashedNeighbors.load`.

    Parameters
    ----------
    path : path-like
        Directory that ``save`` wrote.

    Returns
    -------
    estimator : object
        The fitted estimator, of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If `path` holds no saved estimator.
    ValueError
        If a file is damaged, was written by an incompatible version of skhash, or names
        an unknown class.

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
    return load_estimator(path)


def load_estimator(path, cls=None, *, mmap=False, verify=True):
    """Read an estimator that `save_estimator` wrote.

    Parameters
    ----------
    path : path-like
    cls : type or None
        The expected class; None is any.
    mmap : bool
        Whether to map the arrays of an index instead of reading them.
    verify : bool
        Whether to compare the content of these with their checksums.

    Raises
    ------
    FileNotFoundError
        If there is nothing that was saved at `path`.
    ValueError
        If a file is damaged, the format is another one than this version reads, or the
        class is not known, or another one.
    """
    path = Path(path)
    if not (path / FILE).exists() and not (path / FILE).is_symlink():
        raise FileNotFoundError(
            f"{path} is not a saved skhash estimator: it has no {FILE}."
        )
    with tensors.naming_damage(path):
        manifest, arrays = tensors.read(path / FILE, mmap)
        if manifest.get("format") is None:
            raise ValueError(
                "It was saved by an unreleased version of skhash, from before format "
                "1; fit it again and save it."
            )
        if manifest["format"] != FORMAT:
            raise ValueError(
                f"It has format {manifest['format']}, from skhash "
                f"{manifest['skhash_version']}, but this version reads format "
                f"{FORMAT}; update skhash, or save it again with this version."
            )
        if cls is not None and manifest["class"] != state.class_name(cls):
            raise ValueError(
                f"It holds a {manifest['class']} and not a {state.class_name(cls)}; "
                "load it with skhash.load."
            )
        return state.restored(manifest, arrays, verify=verify)
