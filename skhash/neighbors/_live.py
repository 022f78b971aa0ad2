"""A live index: what it shows of its store, and how codes leave it."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors._ids import read_ids
from skhash.neighbors._store import Store


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
