"""Parts of an `SGHEncoder`: latent scales, and sources of pairs of rows."""

from abc import abstractmethod

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from skhash.numerics._graph import near_rows
from skhash.utils.arrays import as_array, column_or_1d
from skhash.utils.parameters import (
    Count,
    NotNegative,
    Positive,
    resolved,
    with_parameters,
)
from skhash.utils.targets import encoded_labels, partial_labels

# Most rows whose neighbours are found, and most components that compare them.
NEIGHBOR_ROWS, NEIGHBOR_AXES = 20_000, 128
# Partners drawn for each row, by labels and by listed pairs.
DRAWN_PAIRS = 16
# Weight of all pairs of strangers, relative to that of neighbours.
STRANGERS = 30


@with_parameters()
class LatentScale(BaseEstimator):
    """Latent scale z of each bit of each row (section E.1 of the SGH supplement).

    With it, x is Gaussian around ``alpha + (h * z) U``, with the symbols of
    `SGHEncoder` and an elementwise product. z has the prior ``N(1, std^2)``, which the
    paper leaves out, and the posterior ``q(z|x) = N(m, v)`` with m linear in x and the
    optimal v. Codes are decoded at the prior mean of the scales, 1, unless you pass
    scales to `SGHEncoder.inverse_transform`.

    Parameters
    ----------
    std : float, default=0.3
        Prior standard deviation. As it approaches 0, the model approaches the one
        without scales.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> from skhash.neural import LatentScale
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = SGHEncoder(16, latent_scale=LatentScale(0.2), random_state=0).fit(X)
    >>> encoder.latent_scales(X).shape
    (1797, 16)
    """

    std: Positive = 0.3


def resolve_latent_scale(scale) -> LatentScale | None:
    """Return a clone of the scale, or None."""
    return scale and resolved(scale, {}, LatentScale, "latent_scale")


class PairSource(BaseEstimator):
    """Base class of sources of pairs: which rows are similar, and how much pairs count.

    A source reads the arguments of `fit`, chooses which rows each row is batched with,
    and defines the pairs of a batch.
    """

    weight: float
    _parameter_constraints: dict = {}
    # Whether an encoder has a likelihood of pairs even while nothing is known yet.
    is_always_learned = True

    def read(self, y, pairs, pair_labels, ids, is_part):
        """Return the known pairs, or None.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or None
        pairs, pair_labels, ids
            As in `SGHEncoder.fit`.
        is_part : bool
            Whether the rows are a part of a stream.
        """
        if pairs is not None:
            raise ValueError(
                f"pairs were passed to fit, but the encoder has pairs={self!r}, which "
                "finds its own; leave out one of the two."
            )
        return self._read(y, is_part)

    @abstractmethod
    def rows(self, X, known, trains, rng, device) -> dict:
        """Return the candidates of each row, as `partners` of `Rows`, and `labels`.

        Parameters
        ----------
        X : {ndarray, CSR array} of shape (n_samples, n_features)
        known : object
            As from `read`.
        trains : ndarray of shape (n_samples,), bool
            Which rows are trained on: they have no candidates among the others.
        rng : RandomState
        device : torch.device
        """

    @abstractmethod
    def of_batch(self, logits, batch):
        """Return rows, others, similar and weight for `PairLikelihood.loss`.

        The weights sum to 1.

        Parameters
        ----------
        logits : Tensor of shape (n, n_bits)
            Those of rows, then of their first partners, and so on.
        batch : Batch
        """


@with_parameters()
class GivenPairs(PairSource):
    """The pairs that are passed to `fit`, if any.

    Parameters
    ----------
    weight : float, default=10.0
        Weight nu of the pairs in the loss.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> from skhash.neural import GivenPairs
    >>> X, y = load_digits(return_X_y=True)
    >>> pairs = [[0, 10], [0, 1], [1, 11]]
    >>> encoder = SGHEncoder(16, pairs=GivenPairs(weight=3.0), random_state=0)
    >>> encoder = encoder.fit(X, pairs=pairs, pair_labels=[1, 0, 1], ids=range(len(X)))
    >>> encoder.pair_scale_ > 0
    True
    """

    weight: NotNegative = 10.0
    is_always_learned = False

    def read(self, y, pairs, pair_labels, ids, is_part):
        return None if pairs is None else placed_pairs(pairs, pair_labels, ids)

    def rows(self, X, known, trains, rng, device):
        pairs, similar, ids = known
        check_consistent_length(X, ids)

        def in_turn(pairs, shape):
            """Draw pairs in random order, each about equally often."""
            order = rng.permutation(len(pairs))[np.arange(np.prod(shape)) % len(pairs)]
            return pairs[rng.permutation(order)].reshape(shape)

        both_train = trains[pairs].all(axis=1)
        drawn = _drawn(np.arange(len(pairs)), both_train, trains, in_turn)
        return {"partners": pairs[drawn], "labels": similar[drawn]}

    def of_batch(self, logits, batch):
        _, rows, others = logits.chunk(3)
        whole, first, second = batch.parts()
        firsts, seconds = whole.partners.unbind(dim=2)
        drawn = (firsts == first.rows[:, None]) & (seconds == second.rows[:, None])
        # Where a pair is listed several times, with different labels: their mean.
        similar = (drawn * whole.labels).sum(dim=1) / drawn.sum(dim=1)
        similar = similar.to(logits.dtype)[:, None, None]
        weight = _share(0 * similar + 1)
        return rows[:, None], others[:, None], similar, weight


@with_parameters()
class LabelPairs(PairSource):
    """Pairs of rows with known classes in `y`: similar if the class is the same.

    Parameters
    ----------
    weight : float, default=10.0
        Weight nu of the pairs in the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> from skhash.neural import LabelPairs
    >>> X, y = load_digits(return_X_y=True)
    >>> y[::2] = -1  # not known
    >>> encoder = SGHEncoder(16, pairs=LabelPairs(), random_state=0).fit(X, y)
    >>> encoder.pair_scale_ > 0
    True
    """

    weight: NotNegative = 10.0

    def _read(self, y, is_part):
        if y is None:
            raise ValueError(
                f"pairs={self!r} requires y to be passed, but the target y is None; "
                "mark unknown classes with -1."
            )
        labels = encoded_labels(partial_labels(y, is_part=is_part))
        if labels.shape[1] > 1:
            raise ValueError(
                "y has several labels per row; pass pairs and pair_labels instead, "
                "which say what makes rows similar."
            )
        return labels[:, 0] if (labels >= 0).sum() > 1 else None

    def rows(self, X, known, trains, rng, device):
        check_consistent_length(X, known)
        labeled = np.flatnonzero(known >= 0)
        partners = _drawn(labeled, trains[labeled], trains, rng.choice)
        return {"partners": partners[:, :, None], "labels": known}

    def of_batch(self, logits, batch):
        _, rows = logits.chunk(2)
        _, partners = batch.parts()
        similar = (partners.labels[:, None] == partners.labels).to(logits.dtype)
        is_other = partners.rows[:, None] != partners.rows
        return rows, rows, similar, _share(is_other.to(logits.dtype))


@with_parameters()
class NeighborPairs(PairSource):
    """Pairs of rows without labels: near neighbours are similar, other rows are not.

    In the mean over the pairs of a batch, the similar ones together have weight 1/31
    and the others 30/31, regardless of how many there are of each.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of nearest rows that count as similar. They are found for at most 20,000
        rows, among all training rows, by at most 128 principal components.
    weight : float, default=10.0
        Weight nu of the pairs in the loss.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> from skhash.neural import NeighborPairs
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = SGHEncoder(16, pairs=NeighborPairs(n_neighbors=5), random_state=0)
    >>> encoder.fit(X).pair_scale_ > 0
    True
    """

    n_neighbors: Count = 10
    weight: NotNegative = 10.0

    def _read(self, y, is_part):
        return True

    def rows(self, X, known, trains, rng, device):
        n_samples = X.shape[0]
        anchors = np.sort(rng.permutation(n_samples)[:NEIGHBOR_ROWS])
        search = {"metric": "euclidean", "n_axes": NEIGHBOR_AXES, "device": device}
        near = near_rows(X, anchors, self.n_neighbors, trains, rng, **search)
        # Other rows are their own partners, which makes no pair.
        table = np.repeat(np.arange(n_samples)[:, None], near.shape[1], axis=1)
        table[anchors] = near
        return {"partners": table[:, :, None]}

    def of_batch(self, logits, batch):
        """Return every row with every neighbour.

        Pairs are similar where either is among the neighbours of the other.
        """
        from skhash.training._module import held

        rows, others = logits.chunk(2)
        first, second = batch.parts()
        similar = held(second.partners[:, :, 0], first.rows).T
        similar = similar | held(first.partners[:, :, 0], second.rows)
        is_same = first.rows[:, None] == second.rows
        near = (similar & ~is_same).to(logits.dtype)
        n_near = near.sum()
        n_far = near.numel() - n_near - is_same.sum()
        far_weight = STRANGERS / n_far.clamp(min=1)
        weight = far_weight.lerp(1 / n_near.clamp(min=1), near) / (1 + STRANGERS)
        return rows, others, near, weight.masked_fill_(is_same, 0)


PAIR_SOURCES = {"given": GivenPairs, "labels": LabelPairs, "neighbors": NeighborPairs}


def resolve_pairs(pairs) -> PairSource:
    """Return the source of pairs of a name, or a clone of the source itself."""
    return resolved(pairs, PAIR_SOURCES, PairSource, "pairs")


def _drawn(items, of_training, trains, draw):
    """Return items drawn for each row, shape (n_samples, n_drawn).

    Rows that are trained on draw those `of_training`. Others draw the other ones, or
    all where there are no others.
    """
    if not of_training.any():
        raise ValueError(
            "Every known pair has a row that is held out for validation; hold out "
            "fewer rows, or give more pairs or classes."
        )
    table = np.empty((len(trains), DRAWN_PAIRS), dtype=np.int64)
    for rows, usable in ((trains, of_training), (~trains, ~of_training)):
        if rows.any():
            choices = items[usable] if usable.any() else items
            table[rows] = draw(choices, (np.count_nonzero(rows), DRAWN_PAIRS))
    return table


def placed_pairs(pairs, pair_labels, ids):
    """Return pairs as positions of rows, their labels, and the ids of the rows.

    Pairs of which a row is not among those with these ids are left out.
    """
    if ids is None:
        raise ValueError(
            "pairs refer to rows by id, because cross-validation passes on parts of "
            "the rows, where positions change. Give one id per row; if pairs are "
            "positions, pass ids=np.arange(len(X))."
        )
    ids, pairs = as_array(ids), as_array(pairs)
    if ids.ndim != 1 or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"ids has shape {ids.shape} and pairs {pairs.shape}; give one id per row, "
            "and two ids per pair."
        )
    pair_labels = column_or_1d(pair_labels, warn=True)
    check_consistent_length(pairs, pair_labels)
    if not np.isin(pair_labels, (0, 1)).all():
        other = pair_labels[~np.isin(pair_labels, (0, 1))][0]
        raise ValueError(
            f"pair_labels holds {other}; use 1 for similar rows and 0 for dissimilar."
        )
    places = {name: row for row, name in enumerate(ids.tolist())}
    if len(places) < len(ids):
        raise ValueError(f"ids must be unique; {len(ids)} have {len(places)} values.")
    rows = [places.get(name, -1) for name in pairs.ravel().tolist()]
    rows = np.array(rows, dtype=np.int64).reshape(-1, 2)
    kept = (rows >= 0).all(axis=1)
    if not kept.any():
        raise ValueError(
            f"None of the {len(pairs)} pairs has both rows among the {len(ids)} ids; "
            f"the first pair is {pairs[:1].tolist()}."
        )
    return rows[kept], pair_labels[kept].astype(np.int64), ids


def _share(weight):
    return weight / weight.sum().clamp(min=1)
