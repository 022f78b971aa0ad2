"""The base of the indexes: adding, removing, saving and loading codes."""

from typing import Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_packed, pack_bits
from skhash.neighbors._params import check_count, check_params
from skhash.neighbors.store.files import read_store, write_store
from skhash.neighbors.store.ids import check_same_kind, first_of, read_ids, to_strings
from skhash.neighbors.store.rows import check_column_fits, object_array, read_labels
from skhash.neighbors.store.store import Store
from skhash.persistence.estimators import SaveMixin
from skhash.persistence.schema import Columns
from skhash.utils.arrays import check_array, validate_data


class BaseIndex(SaveMixin, BaseEstimator):
    """Base of indexes: codes and their columns, in a store.

    The store is replaced in one assignment, so that threads that search meanwhile see
    the old state or the new one, whole. A search reads `_store` once.
    """

    _store: Store
    _saved = {"_store": Columns(write_store, read_store)}

    def _take_in(self, X, y, ids, *, decoder=None, added=None, vectors=None):
        """Fit the codes `X`, replacing any before.

        decoder : Decoder, default=None
        added : ndarray of shape (n_samples,), default=None
            What is added to the numbers of the codes, see `Decoder.numbers`.
        vectors : ndarray or KeptFile of shape (n_samples, n_features), default=None
            The vectors that the codes were made of.
        """
        y, ids, packed = read_labels(X, y), read_ids(ids, X), self._read_codes(X)
        columns = {"y": y, "ids": ids, "vectors": vectors}
        if decoder is not None:
            decoder.check_codes(packed, np.shape(X)[1], self.packed)
            keys = decoder.keys(packed, added)
            decoder, columns["levels"] = decoder.with_levels(keys)
        store = Store(self._arrange(packed), decoder, **columns)
        if ids is not None:
            store.lookup()  # refuses an id that occurs twice
        validate_data(self, X, reset=True, skip_check_array=True)
        self._store = store
        return self

    def _add(self, X, y, ids, *, added=None, vectors=None, replaces=False):
        """Append the codes `X`; `replaces` : in place of those with the same ids."""
        store = self._fitted_store()
        if replaces and (ids is None or store["ids"] is None):
            raise ValueError(
                "replace finds codes by their ids; pass ids here, and to fit and every "
                "partial_fit."
            )
        packed = self._read_more_codes(X, store)
        columns = {"y": read_labels(X, y), "ids": read_ids(ids, X), "vectors": vectors}
        for name, new in columns.items():
            check_column_fits(name, store[name], new)
        if ids is not None:
            check_same_kind(store["ids"], columns["ids"])
        if replaces:
            store = _without(store, columns["ids"], "replaced")
        if store.decoder is not None:
            store.decoder.check_codes(packed, np.shape(X)[1], self.packed)
            keys = store.decoder.keys(packed, added)
            store, columns["levels"] = store.with_levels(keys)
        self._store = store.append(packed, **columns)
        return self

    @property
    def packed_codes_(self) -> np.ndarray:
        """The packed codes, by position."""
        return self._store.packed

    @property
    def nbytes_(self) -> int:
        """Bytes that the index holds.

        They include the codes with their columns and room to grow, the decoder, and
        whatever has been built so far for searches and for looking up ids.
        Arrays of the index that are mapped from its file are included.
        """
        store = self._fitted_store()
        searcher = store.codes_key.get("searcher")
        return store.nbytes + (searcher.nbytes if searcher else 0)

    @property
    def n_samples_fit_(self) -> int:
        """Number of positions, including those of removed codes."""
        return self._store.n

    @property
    def live_(self) -> np.ndarray:
        """False at the positions of removed codes, True elsewhere."""
        live = self._store["live"]
        return np.ones(self._store.n, dtype=bool) if live is None else live

    @property
    def ids_(self) -> np.ndarray:
        """Id of the code at each position, if ids were given."""
        return to_strings(self._column("ids"))

    @property
    def y_(self) -> np.ndarray:
        """Labels of the code at each position, if labels were given."""
        return self._column("y")

    def remove(self, ids) -> Self:
        """Remove codes, so that no search finds them any more.

        The other codes keep their positions until `compact` is called.

        Parameters
        ----------
        ids : array-like of shape (n_ids,)
            Ids of the codes to remove, or their positions if the index has no ids.

        Returns
        -------
        self : object
            The index without these codes. The call needs one byte per position, and
            copies no codes.

        Raises
        ------
        ValueError
            If one of them is not in the index. No code is removed then.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(n_neighbors=1)
        >>> index = index.fit([[0, 0], [0, 1], [1, 1]], ids=["a", "b", "c"])
        >>> index.remove(["a"]).kneighbors([[0, 0]], return_ids=True)
        (array([[1]], dtype=int32), array([['b']], dtype='<U1'))
        """
        check_is_fitted(self)
        if ids is None:
            raise ValueError("remove needs the ids of codes, got None.")
        self._store = _without(self._store, read_ids(ids), "removed")
        return self

    def replace(self, X, y=None, *, ids, **columns) -> Self:
        """Replace the codes that have the given ids, in one step.

        A search in another thread finds either the old codes or the new ones; at no
        time are both missing. The new codes get positions after all others, as if the
        old codes had been removed and the new ones added.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            The new codes, in the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the new codes; required if and only if `fit` was given labels.
        ids : array-like of shape (n_samples,)
            Ids of the codes to replace. The new codes get the same ids.
        **columns
            `errors`, as in `AsymmetricNeighbors.partial_fit`.

        Returns
        -------
        self : object
            The index with the codes replaced.

        Raises
        ------
        ValueError
            If the index has no ids, if one of `ids` is unknown or occurs twice, or if
            the new codes do not match those in the index. No code is replaced then.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(n_neighbors=1)
        >>> index = index.fit([[0, 0], [0, 1], [1, 1]], ids=["a", "b", "c"])
        >>> index.replace([[1, 1]], ids=["a"]).kneighbors([[0, 0]], return_ids=True)
        (array([[1]], dtype=int32), array([['b']], dtype='<U1'))
        """
        return self._add(X, y, ids, replaces=True, **columns)

    def compact(self) -> Self:
        """Free the memory of removed codes, and renumber the positions of the others.

        Ids and the order of the codes do not change, so searches find the same codes in
        the same order, at new positions.

        Returns
        -------
        self : object
            The index, as if the removed codes had never been added.

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

    def _answer(self, store, neighbors, return_distance, return_ids):
        """Return distances and positions, arrays or lists of arrays, as wanted."""
        distances, positions = neighbors
        if isinstance(positions, list):
            positions = list(map(store.ids_at, positions)) if return_ids else positions
            distances, positions = map(object_array, (distances, positions))
        elif return_ids:
            positions = store.ids_at(positions)
        return (distances, positions) if return_distance else positions

    def _fitted_store(self):
        if not hasattr(self, "_store"):
            check_is_fitted(self)  # takes as long as a small search
        check_params(self)
        return self._store

    def _read_codes(self, X):
        """Return validated `X`, packed."""
        kind = None if self.packed else "numeric"
        try:
            codes = check_array(X, dtype=kind, estimator=self, input_name="X")
        except ValueError as error:
            if np.ndim(X) == 1:
                error.add_note(
                    "Pass hex strings as skhash.codes.from_hex(X), and an array of "
                    'integers as X.astype(">u8")[:, None].view(np.uint8), both with '
                    "packed=True."
                )
            raise
        return self._pack(codes)

    def _read_more_codes(self, X, store):
        """Return validated `X`, packed, of the width of the codes in `store`."""
        if self._is_plain(X):
            packed = self._pack(X)
        else:
            packed = self._read_codes(X)
            validate_data(self, X, reset=False, skip_check_array=True)
        # Kernels rely on the width.
        if packed.shape[1] != store.n_bytes:
            raise ValueError(
                f"With packed={self.packed} these codes have {packed.shape[1]} bytes, "
                f"but those of the index have {store.n_bytes}; set packed back to what "
                "it was in fit, or fit again."
            )
        return packed

    def _arrange(self, packed):
        """Return the codes as the store keeps them."""
        return packed

    def _pack(self, codes):
        return check_packed(codes) if self.packed else pack_bits(codes)

    def _is_plain(self, X):
        """Return whether scikit-learn would return `X` as it is; its check is slow."""
        return (
            type(X) is np.ndarray
            and X.dtype.kind in "biu"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def _check_n_neighbors(self, n_neighbors, exclude_self, selected, store, radius):
        """Return how many neighbours to find among the selected codes of a store.

        exclude_self : whether queries are the fitted codes, each left out of its answer
        radius : if given, there may be fewer of them
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check_count("n_neighbors", k, least=1)
        available, n = max(0, selected.n - exclude_self), store.n
        if k > available and radius is None:
            themselves = " besides the query itself" if exclude_self else ""
            themselves += " after filtering" if selected.n < store.n_live else ""
            raise ValueError(
                f"n_neighbors={k} neighbours were asked for, but there are only "
                f"{available}{themselves} (n_samples_fit = {n}); "
                "ask for fewer, or fit more codes."
            )
        return int(k)

    def _column(self, name):
        column = self._store[name]
        if column is None:
            raise AttributeError(
                f"This {type(self).__name__} has no {name}_: it was fitted without any."
            )
        return column

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_store")


def score_codes(index, queries, y):
    """Return the mean average precision of the Hamming ranking of packed codes."""
    from skhash.metrics import mean_average_precision_score

    store = _labelled_store(index, y).compact()
    database, labels = store.packed, store["y"]
    return mean_average_precision_score(queries, database, y, labels, packed=True)


def _without(store, ids, action):
    """Return a store in which the codes with these ids are removed, or raise."""
    positions = store.find(ids)
    missing = ids[positions < 0]
    if len(missing):
        what = "at position" if store["ids"] is None else "with the id"
        raise ValueError(
            f"There is no code {what} {first_of(missing)!r}; nothing was {action}."
        )
    return store.remove(positions)


def score_search(search, index, X, y, most=None):
    """Return the mean average precision of what a search finds in an index.

    most : how many codes it can find; by default all
    """
    from skhash.metrics._found import found_average_precision

    store = _labelled_store(index, y)
    X = X.tocsr() if sparse.issparse(X) else X  # other formats have no slices
    n_found = min(store.n_live, int(most or store.n))

    def find(rows):
        return search.kneighbors(X[rows], n_found, return_distance=False)

    return found_average_precision(find, n_found, y, store["y"], store["live"])


def _labelled_store(index, y):
    store = index._fitted_store()
    if y is None or store["y"] is None:
        raise ValueError(
            "score needs labels, those of the fitted codes (fit(codes, y)) and of the "
            "queries. Without labels, score by make_neighbor_recall_scorer or "
            "search_recall_score of skhash.metrics."
        )
    return store
