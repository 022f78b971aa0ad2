"""Encoders, decoders and classifiers as directories; `load` reads indexes too."""

import hashlib
from pathlib import Path

from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays

from skhash.persistence import directory, state


def save_estimator(estimator, path) -> None:
    """Write the parameters and fitted state of `estimator` to the directory `path`.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    ValueError
        If a parameter is none that `fit` takes.
    """
    estimator._validate_params()
    arrays, manifest = state.described(estimator)
    content = serialize_arrays(arrays)
    digest = hashlib.sha256(content).hexdigest()
    file = f"skhash-arrays-{digest[:16]}.safetensors"
    manifest |= {"arrays": file, "arrays_sha256": digest}
    with directory.saving(path) as path:
        directory.write_file(path / file, content)
        directory.replace_manifest(path, manifest)


def load(path):
    """Load what a ``save`` method wrote: an encoder, a classifier, an index, a search.

    It runs no code from the file. `HammingNeighbors.load` and `HashedNeighbors.load`
    can also map an index into memory.

    Parameters
    ----------
    path : path-like
        The directory that was given to ``save``.

    Returns
    -------
    estimator : object
        The fitted estimator, of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If `path` holds nothing that was saved.
    ValueError
        If a file is damaged, was written by a newer version, or names an unknown class.

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
    cls = state.known_class(directory.read_manifest(Path(path))["class"])
    # An index reads its files itself.
    return cls.load(path) if hasattr(cls, "load") else load_estimator(path)


def load_estimator(path):
    """Read an estimator that `save_estimator` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no manifest at `path`.
    ValueError
        If a file is damaged, the format is newer than this version reads, or the class
        is not known.
    """
    return directory.load_whole(path, None, _load)


def _load(path, manifest):
    estimator = state.unfitted(manifest)
    directory.check_keys(manifest, {"arrays": str, "arrays_sha256": str})
    file = directory.saved_path(path, manifest["arrays"])
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["arrays_sha256"]:
        raise ValueError(f"{file.name} does not match its checksum.")
    try:
        arrays = parse_arrays(content)
    except Exception as error:  # SafetensorError, or of NumPy for a type it lacks
        raise ValueError(f"{file.name}: {error}") from error
    state.set_fitted_state(estimator, manifest["values"], arrays)
    return estimator
