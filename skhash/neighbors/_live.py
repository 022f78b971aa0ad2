"""What an index shows of its store."""

from skhash.neighbors._store import Store


class LiveMixin:
    """The fitted attributes of an index, read from its store.

    The store is replaced in one assignment, so that threads that search meanwhile see
    the old state or the new one, whole. A search takes `_store` once.
    """

    _store: Store

    @property
    def packed_codes_(self):
        return self._store.packed

    @property
    def n_samples_fit_(self):
        return self._store.n

    @property
    def y_(self):
        return self._column("y")

    def _column(self, name):
        column = self._store[name]
        if column is None:
            raise AttributeError(f"This {type(self).__name__} was fitted without any.")
        return column

    @property
    def _n_features_out(self):
        return self.n_samples_fit_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_store")
