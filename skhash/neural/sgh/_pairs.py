"""Pairs of rows that are known to be similar or not, as training is fed them."""

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from skhash.algebra._graph import neighbor_table
from skhash.utils.targets import encoded_labels, partial_labels
from skhash.utils.torch import random_state_of_call, resolve_device, seeded_generator

# Neighbours are those of at most so many rows, by at most so many components.
NEIGHBOR_ROWS, NEIGHBOR_AXES = 20_000, 128
# Of labels, and of pairs that are listed, each row has so many to bring along.
DRAWN_PAIRS = 16


class PairsMixin:
    """`fit` and `partial_fit` that take what is known of pairs of rows.

    An encoder has the parameters `pair_source`, `n_neighbors` and `random_state`, and
    its module learns from pairs as `skhash.neural.sgh._module` does.
    """

    def fit(self, X, y=None, pairs=None, pair_labels=None, ids=None):
        """Learn the hash functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : array-like of shape (n_samples,), default=None
            Classes for ``pair_source="labels"``; else not used. An unknown class is -1,
            or among strings None or "-1".
        pairs : array-like of shape (n_pairs, 2), int or str, default=None
            The ids of rows that are known to be similar or dissimilar, for
            ``pair_source="given"``. Pairs of which a row is missing, as in a fold of
            cross-validation, are left out.
        pair_labels : array-like of shape (n_pairs,), default=None
            1 where the rows of a pair are similar, 0 where not.
        ids : array-like of shape (n_samples,), int or str, default=None
            The names of the rows, no two alike, that `pairs` call them by.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity; if `y`, `pairs`, `pair_labels` and `ids` do
            not fit it or each other; if no pair is left, no rows share a label, or all
            do.
        """
        return super().fit(X, (y, pairs, pair_labels, ids))

    def partial_fit(self, X, y=None, pairs=None, pair_labels=None, ids=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model, from its rows alone: let them be some
        thousands, drawn at random. Later calls keep the optimizer's state; on an
        encoder that was loaded from a file, or copied off an accelerator, the optimizer
        starts afresh. Of the parameters `lr` and `batch_size` may change from call to
        call, and `max_epochs` is not used. Each call draws pairs of its own.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : array-like of shape (n_samples,), default=None
            As in `fit`, but these rows may all be of unknown class.
        pairs : array-like of shape (n_pairs, 2), int or str, default=None
            As in `fit`, among the rows of this call. Neighbours of
            ``pair_source="neighbors"`` are among these too. If any call has pairs, the
            first needs some.
        pair_labels : array-like of shape (n_pairs,), default=None
            As in `fit`.
        ids : array-like of shape (n_samples,), int or str, default=None
            As in `fit`.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is as it was before.

        Raises
        ------
        ValueError
            As `fit`, or if a parameter has changed that the first call built on.
        """
        return super().partial_fit(X, (y, pairs, pair_labels, ids))

    def _validate_targets(self, given, *, is_part=False):
        """Return the pair source and what it needs, or None if nothing is known."""
        y, pairs, pair_labels, ids = given
        if (pairs is None) != (pair_labels is None):
            raise ValueError("pairs and pair_labels go together; give both or none.")
        if self.pair_source == "given":
            if pairs is None:
                return None
            return ("list", *_placed_pairs(pairs, pair_labels, ids))
        if pairs is not None:
            raise ValueError(
                f"pairs are given, but pair_source={self.pair_source!r} takes them "
                "from elsewhere; leave out one of the two."
            )
        if self.pair_source == "neighbors":
            return ("neighbors",)
        if y is None:
            raise ValueError(
                "pair_source='labels' requires y to be passed, but the target y is "
                "None; give -1 where a class is not known."
            )
        labels = encoded_labels(partial_labels(y, is_part=is_part))
        if labels.shape[1] > 1:
            raise ValueError(
                "y has several labels a row; give pairs and pair_labels instead, which "
                "can say what makes rows similar."
            )
        return ("labels", labels[:, 0]) if (labels >= 0).sum() > 1 else None

    def _train(self, net, X, y, epochs, history):
        targets = None
        if y is not None:
            module = net.module_
            if module.pairs is None:
                raise ValueError(
                    "pairs are given, but none were when the model was built; give "
                    "some in the first call of partial_fit too."
                )
            rng = random_state_of_call(self.random_state, len(history))
            module.pair_kind, table, *more = self._pair_tables(X, y, rng)
            module.n_partners = table.shape[1] // module.partners_each
            positions = np.arange(X.shape[0])[:, None]
            targets = np.hstack([positions, table, *more])
        super()._train(net, X, targets, epochs, history)

    def _pair_tables(self, X, y, rng):
        """Return the kind of pairs, and what is said of it there."""
        kind, *known = y
        n_samples = X.shape[0]
        if kind == "neighbors":
            anchors = np.sort(rng.permutation(n_samples)[:NEIGHBOR_ROWS])
            near = neighbor_table(
                X,
                anchors,
                self.n_neighbors,
                "euclidean",
                NEIGHBOR_AXES,
                resolve_device(self.device),
                seeded_generator(rng),
            )
            # Other rows are their own partners, which makes no pair.
            table = np.repeat(np.arange(n_samples)[:, None], near.shape[1], axis=1)
            table[anchors] = near
            return kind, table
        if kind == "labels":
            (classes,) = known
            check_consistent_length(X, classes)
            labeled = np.flatnonzero(classes >= 0)
            return kind, rng.choice(labeled, (n_samples, DRAWN_PAIRS)), classes[:, None]
        pairs, similar, ids = known
        check_consistent_length(X, ids)
        drawn = _in_turn(len(pairs), n_samples * DRAWN_PAIRS, rng)
        drawn = drawn.reshape(n_samples, DRAWN_PAIRS)
        return kind, np.hstack([pairs[drawn, 0], pairs[drawn, 1]]), similar[drawn]


def _in_turn(n, size, rng) -> np.ndarray:
    """Return `size` numbers below n in random order, each about equally often."""
    return rng.permutation(rng.permutation(n)[np.arange(size) % n])


def _placed_pairs(pairs, pair_labels, ids):
    """Return pairs as positions of rows, their labels, and the ids of the rows.

    Pairs of which a row is not among those with these ids are left out.
    """
    if ids is None:
        raise ValueError(
            "pairs call rows by their ids, since cross-validation passes on parts of "
            "the rows, where positions would mean other ones. Give an id a row, such "
            "as ids=np.arange(len(X)), where pairs are positions."
        )
    ids, pairs = _names(ids, "ids", 1), _names(pairs, "pairs", 2)
    if pairs.shape[1] != 2:
        raise ValueError(f"pairs has {pairs.shape[1]} columns; give 2 ids a row.")
    if (ids.dtype.kind == "U") != (pairs.dtype.kind == "U"):
        raise ValueError(
            f"ids are of dtype {ids.dtype} and pairs of {pairs.dtype}; give both as "
            "integers, or both as strings."
        )
    pair_labels = column_or_1d(pair_labels, warn=True)
    check_consistent_length(pairs, pair_labels)
    if not np.isin(pair_labels, (0, 1)).all():
        other = pair_labels[~np.isin(pair_labels, (0, 1))][0]
        raise ValueError(
            f"pair_labels holds {other}; give 1 for similar rows and 0 for others."
        )
    order = np.argsort(ids, kind="stable")
    known = ids[order]
    if (known[1:] == known[:-1]).any():
        twice = known[1:][known[1:] == known[:-1]][0].item()
        raise ValueError(f"ids must differ, and {twice!r} occurs twice.")
    slots = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    kept = (known[slots] == pairs).all(axis=1)
    if not kept.any():
        raise ValueError(
            f"Of {len(pairs)} pairs none has both of its rows among the {len(ids)} "
            f"ids; the first is {pairs[0].tolist()}."
        )
    return order[slots[kept]], pair_labels[kept].astype(np.int64), ids


def _names(values, name, n_axes):
    """Return an array of integers or of strings with so many axes."""
    values = np.asarray(values)
    if values.dtype.kind in "OT" and all(isinstance(one, str) for one in values.flat):
        values = values.astype(str)
    if values.dtype.kind not in "iuU" or values.ndim != n_axes or not len(values):
        raise ValueError(
            f"{name} must be integers or strings of {n_axes} axes, got an array of "
            f"shape {values.shape} and dtype {values.dtype}."
        )
    return values
