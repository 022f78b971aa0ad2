"""Encoders, decoders and classifiers as directories; `load` reads indexes too."""

import copy
import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays
from sklearn import config_context

from skhash.persistence import directory, state

# What a loaded estimator is asked to see that its arrays fit: some rows of zeros, no
# more columns than there are numbers in the arrays, or than these.
PROBE_ROWS, PROBE_COLUMNS = 3, 2**20


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
    state.set_fitted_state(estimator, manifest["values"], state.regrouped(arrays))
    if getattr(estimator, "_is_whole", True):
        _probe(estimator, sum(array.size for array in arrays.values()))
    return estimator


def _probe(estimator, n_numbers):
    """Raise ``ValueError`` unless fitted attributes are there and fit each other.

    Checksums may be right, and still an array be missing or of another shape.
    """
    probe, n_columns = copy.copy(estimator), estimator.n_features_in_
    vars(probe).pop("feature_names_in_", None)  # rows without names would be warned of
    probe.device = "cpu"
    if n_columns > max(n_numbers, PROBE_COLUMNS):
        raise ValueError(f"No arrays are for n_features_in_={n_columns} columns.")
    try:
        with config_context(transform_output="default"), np.errstate(all="ignore"):
            _ask(probe, np.zeros((PROBE_ROWS, n_columns)))
    except Exception as error:  # whatever comes of arrays that do not fit
        raise ValueError(
            f"A fitted {type(probe).__name__} has other attributes ({error})."
        ) from error


def _ask(estimator, rows):
    """Let a classifier predict, an encoder encode, or a decoder decode."""
    if hasattr(estimator, "predict_proba"):
        n_classes = estimator.predict_proba(rows).shape[1]
        if n_classes != len(estimator.classes_):
            raise ValueError(f"there are {n_classes} classes")
    elif hasattr(estimator, "transform"):
        estimator.transform(rows)
    else:
        bits = np.zeros((len(rows), estimator.n_bits_), dtype=np.uint8)
        estimator.reconstruction_error(rows, bits)
