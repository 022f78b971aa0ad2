"""Pairs of rows that are known to be similar or not, as training is fed them."""

import numpy as np
from sklearn.utils import (
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
)
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skhash.neural._graph import encoded_labels, neighbor_table
from skhash.utils.torch import resolve_device, seeded_generator

# Neighbours are those of at most so many rows, by at most so many components.
NEIGHBOR_ROWS, NEIGHBOR_AXES = 20_000, 128
# Of labels, and of pairs that are listed, each row has so many to bring along.
DRAWN_PAIRS = 16


class PairsMixin:
    """`fit` and `partial_fit` that take what is known of pairs of rows.

    An encoder has the parameters `pair_source`, `n_neighbors` and `random_state`, and
    its module learns from pairs as `skhash.modules._sgh` does.
    """

    def fit(self, X, y=None, pairs=None, pair_labels=None):
        """Learn the hash functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : array-like of shape (n_samples,), default=None
            Classes, -1 where unknown, for ``pair_source="labels"``; else not used.
        pairs : array-like of shape (n_pairs, 2), int, default=None
            Positions of rows that are known to be similar or dissimilar, for
            ``pair_source="given"``.
        pair_labels : array-like of shape (n_pairs,), default=None
            1 where the rows of a pair are similar, 0 where not.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, or `y`, `pairs` and `pair_labels` do not fit
            it or each other.
        """
        return super().fit(X, (y, pairs, pair_labels))

    def partial_fit(self, X, y=None, pairs=None, pair_labels=None):
        """Train for one epoch on these rows, as one part of a stream.

        The first call also builds the model, from its rows alone: let them be some
        thousands, drawn at random. Later calls keep the optimizer's state; on an
        encoder that was loaded from a file, or copied off an accelerator, the optimizer
        starts afresh.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. Rows are samples.
        y : array-like of shape (n_samples,), default=None
            As in `fit`.
        pairs : array-like of shape (n_pairs, 2), int, default=None
            As in `fit`, positions among the rows of this call. Neighbours of
            ``pair_source="neighbors"`` are among these too.
        pair_labels : array-like of shape (n_pairs,), default=None
            As in `fit`. If any call has pairs, the first needs some.

        Returns
        -------
        self : object
            The encoder. If a later call raises, the encoder is as it was before.
        """
        return super().partial_fit(X, (y, pairs, pair_labels))

    def _validate_targets(self, given):
        """Return the pair source and what it needs, or None if nothing is known."""
        y, pairs, pair_labels = given
        if (pairs is None) != (pair_labels is None):
            raise ValueError("pairs and pair_labels go together; give both or none.")
        if self.pair_source == "given":
            return None if pairs is None else ("list", *_checked(pairs, pair_labels))
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
        check_classification_targets(y)
        if type_of_target(y) == "multilabel-indicator":
            raise ValueError(
                "y has several labels a row; give pairs and pair_labels instead, which "
                "can say what makes rows similar."
            )
        classes = encoded_labels(column_or_1d(y, warn=True))[:, 0]
        return ("labels", classes) if (classes >= 0).sum() > 1 else None

    def _train(self, net, X, y, epochs, history):
        targets = None
        if y is not None:
            module = net.module_
            if module.pairs is None:
                raise ValueError(
                    "pairs are given, but none were when the model was built; give "
                    "some in the first call of partial_fit too."
                )
            rng = check_random_state(self.random_state)
            module.pair_kind, table, *more = self._pair_tables(X, y, rng)
            module.n_partners = table.shape[1] // module.partners_each
            positions = np.arange(X.shape[0])[:, None]
            targets = np.hstack([positions, table, *more])
        super()._train(net, X, targets, epochs, history)

    def _pair_tables(self, X, y, rng):
        """Return the kind of pairs, and what `skhash.modules._sgh_pairs` says of it."""
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
        pairs, similar = known
        if pairs.min() < 0 or pairs.max() >= n_samples:
            outside = pairs[(pairs < 0) | (pairs >= n_samples)][0]
            raise ValueError(
                f"pairs holds the position {outside}, but X has {n_samples} rows."
            )
        drawn = _in_turn(len(pairs), n_samples * DRAWN_PAIRS, rng)
        drawn = drawn.reshape(n_samples, DRAWN_PAIRS)
        return kind, np.hstack([pairs[drawn, 0], pairs[drawn, 1]]), similar[drawn]


def _in_turn(n, size, rng) -> np.ndarray:
    """Return `size` numbers below n in random order, each about equally often."""
    return rng.permutation(rng.permutation(n)[np.arange(size) % n])


def _checked(pairs, pair_labels):
    pairs = check_array(pairs, dtype=np.int64, input_name="pairs")
    if pairs.shape[1] != 2:
        raise ValueError(f"pairs has {pairs.shape[1]} columns; give 2 positions a row.")
    pair_labels = column_or_1d(pair_labels, warn=True)
    check_consistent_length(pairs, pair_labels)
    if not np.isin(pair_labels, (0, 1)).all():
        other = pair_labels[~np.isin(pair_labels, (0, 1))][0]
        raise ValueError(
            f"pair_labels holds {other}; give 1 for similar rows and 0 for others."
        )
    return pairs, pair_labels.astype(np.int64)
