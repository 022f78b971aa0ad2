"""A search of real vectors as a directory, with a directory in it for each fitted part.

Each save writes the parts to directories of new names. The manifest names them, with
the checksums of their own manifests, and is replaced last, in one rename.
"""

from pathlib import Path
from secrets import token_hex

from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors.store.files import load_index, save_index
from skhash.persistence import load_estimator, save_estimator
from skhash.persistence.directory import (
    MANIFEST,
    check_class,
    check_keys,
    check_target,
    load_whole,
    make_directory,
    read_manifest,
    remove_leftover,
    replace_manifest,
    saved_path,
)
from skhash.persistence.estimators import check_param_names, known_class, unfitted
from skhash.persistence.state import fitted_state, plain_params, set_fitted_state


class SavedInPartsMixin:
    """How `HashedNeighbors` is saved and loaded."""

    _unsaved_attributes = ("encoder_", "index_", "decoder_")  # they are parts

    def save(self, path) -> None:
        """Write the search to a directory: a manifest, and a directory for each part.

        What is written is data only: loading it runs no code. A search that was there
        before is replaced at once, or not at all if writing fails or the process is
        killed.

        Parameters
        ----------
        path : path-like
            A directory; made if it is missing.

        Raises
        ------
        FileExistsError
            If `path` is a file, or a directory with other content.
        TypeError
            If encoder, index or decoder are none that skhash can save, such as a
            Pipeline. Then nothing is written.
        ValueError
            If labels are neither numbers nor strings.

        Notes
        -----
        Encoder and decoder are written as by their own ``save``, which leaves out
        parameters that are not plain data, and the index as by `HammingNeighbors.save`.
        """
        check_is_fitted(self)
        path = Path(path)
        check_target(path)
        frozen = type(self.encoder_) is FrozenEstimator
        parts = {
            "encoder": self.encoder_.estimator if frozen else self.encoder_,
            "index": self.index_,
        }
        if hasattr(self, "decoder_"):
            parts["decoder"] = self.decoder_
        params = self.get_params(deep=False)
        if self.encoder is self.encoder_:  # frozen, and so saved as a part
            params["encoder"] = None
        for name, estimator in [*parts.items(), *params.items()]:
            _check_is_data(name, estimator)
        for name, estimator in params.items():
            params[name] = _plain(estimator)

        make_directory(path)
        folders = {name: path / f"part-{name}-{token_hex(8)}" for name in parts}
        try:
            for name, folder in folders.items():
                write = save_index if name == "index" else save_estimator
                write(parts[name], folder)
        except BaseException:
            for folder in filter(Path.exists, folders.values()):
                remove_leftover(folder)
            raise
        manifest = {
            "params": params,
            "values": fitted_state(self)[1],
            "frozen": frozen,
            "parts": {
                name: {
                    "folder": folder.name,
                    "checksum": read_manifest(folder)["checksum"],
                }
                for name, folder in folders.items()
            },
        }
        replace_manifest(path, self, manifest)

    @classmethod
    def load(cls, path, *, mmap=False, verify=True):
        """Load a search that `save` wrote.

        Parameters
        ----------
        path : path-like
            The directory that was given to `save`.
        mmap : bool, default=False
            Whether to map the files of the index into memory instead of reading them,
            as `HammingNeighbors.load` does. Encoder and decoder are read.
        verify : bool, default=True
            Whether to compare the content of the index's files with their checksums;
            with `mmap`, before the first answer. All else is always checked.

        Returns
        -------
        search : HashedNeighbors
            The search that was saved. Its parameters are estimators that are not
            fitted, but for a FrozenEstimator.

        Raises
        ------
        FileNotFoundError
            If `path` holds nothing that was saved.
        ValueError
            If a file is damaged, missing or another one, or was written by a newer
            version.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from skhash import HashedNeighbors, ITQHash
        >>> X, _ = load_digits(return_X_y=True)
        >>> search = HashedNeighbors(ITQHash(32, random_state=0)).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     search.save(folder)
        ...     loaded = HashedNeighbors.load(folder)
        >>> loaded
        HashedNeighbors(encoder=ITQHash(n_bits=32, random_state=0))
        >>> bool((loaded.kneighbors(X)[1] == search.kneighbors(X)[1]).all())
        True
        """
        path = Path(path)
        return load_whole(path, lambda found: _load(cls, path, found, mmap, verify))


def _entry(folder):
    """Return how the manifest names a part."""
    return {"folder": folder.name, "checksum": read_manifest(folder)["checksum"]}


def _load(cls, path, manifest, mmap, verify):
    check_class(manifest, cls, path)
    check_param_names(cls, manifest, path)
    _check_manifest(manifest, path / MANIFEST)
    params = {
        name: None if plain is None else unfitted({**manifest, **plain}, path)
        for name, plain in manifest["params"].items()
    }
    parts = {}
    for name, part in manifest["parts"].items():
        folder = saved_path(path, part["folder"])
        _check_part(folder, part)
        if name == "index":
            parts[name] = load_index(HammingNeighbors, folder, mmap=mmap, verify=verify)
        else:
            parts[name] = load_estimator(folder)
    _check_parts(parts, path)
    if manifest["frozen"]:
        parts["encoder"] = FrozenEstimator(parts["encoder"])
    if params.get("encoder") is None:
        params["encoder"] = parts["encoder"]
    search = unfitted({**manifest, "params": params}, path)
    fitted = {f"{name}_": part for name, part in parts.items()}
    set_fitted_state(search, manifest["values"], fitted, path)
    return search


def _check_manifest(manifest, file):
    """Raise ``ValueError`` unless a manifest has what that of a search has."""
    check_keys(manifest, {"frozen": bool, "parts": dict}, file)
    for plain in manifest["params"].values():
        if plain is not None:
            check_keys(plain, {"class": str, "params": dict}, file)
    parts = manifest["parts"]
    check_keys(parts, {"encoder": dict, "index": dict}, file)
    unknown = sorted(parts.keys() - {"encoder", "index", "decoder"})
    if unknown:
        raise ValueError(f"{file} is damaged: it has parts {unknown}.")
    for part in parts.values():
        check_keys(part, {"folder": str, "checksum": str}, file)


def _check_parts(parts, path):
    """Raise ``ValueError`` where a part is of a class that cannot do its work."""
    for name, method in (("encoder", "transform"), ("decoder", "refine")):
        if name in parts and not hasattr(parts[name], method):
            raise ValueError(
                f"{path} is damaged: its {name} is a {type(parts[name]).__name__}, "
                f"which has no {method}."
            )


def _check_part(folder, entry):
    """Raise ``ValueError`` unless a part is there, and the one that was saved."""
    try:
        same = _entry(folder) == entry
    except FileNotFoundError:
        same = False
    if not same:
        raise ValueError(
            f"{folder.parent} is damaged: its part {folder.name} is missing, or not "
            "the one that was saved."
        )


def _check_is_data(name, estimator):
    """Raise ``TypeError`` unless an estimator, or None, can be saved and loaded."""
    cls = type(estimator)
    if estimator is not None and known_class(cls.__name__) is not cls:
        raise TypeError(
            f"{name} is a {cls.__name__}, which is not saved as data. Keep "
            "the whole search by pickle or joblib, or save those parts, such as "
            "encoder_ and index_, that have a save of their own."
        )


def _plain(estimator):
    """Return an estimator that is not fitted as JSON can hold it."""
    if estimator is None:
        return None
    return {"class": type(estimator).__name__, "params": plain_params(estimator)}
