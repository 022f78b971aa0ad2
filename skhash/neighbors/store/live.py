"""A live index: what it shows of its store, and how codes leave it."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors.store.files import load_index, save_index
from skhash.neighbors.store.ids import read_ids
from skhash.neighbors.store.store import Store


class LiveMixin:
    """The fitted attributes of an index, read from its store.

    The store is replaced in one assignment, so that threads that search meanwhile see
    the old state or the new one, whole. A search takes `_store` once.
    """

    _store: Store

    @property
    def packed_codes_(self):
        """The codes, packed, by position."""
        return self._store.packed

    @property
    def n_samples_fit_(self):
        """The number of positions."""
        return self._store.n

    @property
    def live_(self):
        """Whether the code at each position was not removed."""
        live = self._store["live"]
        return np.ones(self._store.n, dtype=bool) if live is None else live

    @property
    def ids_(self):
        """The ids by position, where they were given."""
        return self._column("ids")

    @property
    def y_(self):
        """The labels by position, where they were given."""
        return self._column("y")

    def remove(self, ids):
        """Take codes out: no search finds them any more.

        The positions of the other codes stay as they are, until `compact`.

        Parameters
        ----------
        ids : array-like of shape (n_ids,)
            Ids of the codes, or their positions where no ids were given.

        Returns
        -------
        self : HammingNeighbors
            The index without these codes. It takes a byte a position, and copies no
            codes.

        Raises
        ------
        ValueError
            If one is not in the index. Then none is removed.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(n_neighbors=1)
        >>> index = index.fit([[0, 0], [0, 1], [1, 1]], ids=["a", "b", "c"])
        >>> index.remove(["a"]).kneighbors([[0, 0]], return_ids=True)
        (array([[1]], dtype=int32), array([['b']], dtype='<U1'))
        """
        check_is_fitted(self)
        store = self._store
        if ids is None:
            raise ValueError("remove takes the ids of codes, got None.")
        ids = read_ids(ids)
        positions = store.find(ids)
        missing = ids[positions < 0]
        if len(missing):
            what = "at position" if store["ids"] is None else "with the id"
            raise ValueError(
                f"There is no code {what} {missing[0].item()!r}; nothing was removed."
            )
        self._store = store.remove(positions)
        return self

    def compact(self):
        """Give back the memory of removed codes; the others move up to fill the gaps.

        Ids stay as they are. The order of the codes does too, so that searches find the
        same codes in the same order as before, at new positions.

        Returns
        -------
        self : HammingNeighbors
            The index as if the removed codes had never been added.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors().fit([[0, 0], [0, 1], [1, 1]]).remove([1])
        >>> index.n_samples_fit_
        3
        >>> index.compact().n_samples_fit_
        2
        """
        check_is_fitted(self)
        self._store = self._store.compact()
        return self

    def save(self, path):
        """Write the index to a directory: `.npy` files and a manifest in JSON.

        What is written is data only: loading it runs no code. An index that was there
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
        ValueError
            If labels are neither numbers nor strings, or a parameter is none that `fit`
            takes.
        """
        self._fitted_store()
        save_index(self, path)

    @classmethod
    def load(cls, path, *, mmap=False, verify=True):
        """Load an index that `save` wrote.

        The manifest is checked against its checksum, and every file against the size,
        shape and dtype that stand there, at once. The content of the files is checked
        too: at once, or with `mmap` when it is first needed. Only files in the
        directory are read, and no links.

        Parameters
        ----------
        path : path-like
            The directory that was given to `save`.
        mmap : bool, default=False
            Whether to map the files into memory instead of reading them. It takes
            milliseconds, and processes share the memory. Adding codes copies them; the
            files are never written, and nobody else may write or shorten them.
        verify : bool, default=True
            Whether to compare the content of the files with their checksums. With
            `mmap` that is done before the first answer, and takes as long as reading
            the files. What a search takes for granted is looked at without, too: that
            no bits stand behind those of a code, and which codes are live.

        Returns
        -------
        index : HammingNeighbors
            The index that was saved.

        Raises
        ------
        FileNotFoundError
            If `path` holds no saved index.
        ValueError
            If a file is damaged, missing, a link or another one, or was written by a
            newer version.

        Examples
        --------
        >>> import tempfile
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(1).fit([[0, 0], [1, 1]], ids=["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index.save(folder)
        ...     loaded = HammingNeighbors.load(folder)
        >>> loaded.kneighbors([[0, 1]], return_ids=True)
        (array([[1]], dtype=int32), array([['a']], dtype='<U1'))
        """
        return load_index(cls, path, mmap=mmap, verify=verify)

    def _column(self, name):
        column = self._store[name]
        if column is None:
            raise AttributeError(
                f"This {type(self).__name__} has no {name}_; it was fitted without."
            )
        return column

    @property
    def _n_features_out(self):
        return self.n_samples_fit_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_store")
