"""Encoders that see a row by its distances to anchors."""

import numpy as np

from skhash.base import FittedBitsMixin
from skhash.numerics._projection import column_means
from skhash.persistence.schema import reals
from skhash.utils.chunks import dense_rows, row_chunks


class AnchorLogitsMixin(FittedBitsMixin):
    """Logits ``F coef_^T + intercept_``, F_ij = exp(-gamma_ |x_i - mean_ - a_j|^2)."""

    anchors_: np.ndarray  # (n_anchors, n_features), float32, less the mean
    mean_: np.ndarray  # (n_features,), float64
    gamma_: float
    coef_: np.ndarray  # (n_bits, n_anchors)
    intercept_: np.ndarray  # (n_bits,)

    _learned = "coef_"
    _saved = {
        "anchors_": reals("n_anchors", "n_features"),
        "mean_": reals("n_features"),
        "gamma_": reals(low=0),
        "coef_": reals("n_bits", "n_anchors"),
        "intercept_": reals("n_bits"),
    }

    def _draw_anchors(self, X, random_state) -> np.ndarray:
        """Set the mean and the anchors, rows drawn at random; return which rows."""
        self.mean_ = column_means(X)
        n_anchors = min(self.n_anchors, X.shape[0])
        rows = random_state.choice(X.shape[0], n_anchors, replace=False)
        self.anchors_ = (dense_rows(X[rows]) - self.mean_).astype(np.float32)
        return rows

    def _features(self, X) -> np.ndarray:
        return np.exp(-self.gamma_ * squared_distances(X, self.mean_, self.anchors_))

    def _logits(self, X) -> np.ndarray:
        logits = np.empty((X.shape[0], len(self.coef_)), dtype=np.float32)
        for rows in row_chunks(X.shape[0], 24 * len(self.anchors_)):
            logits[rows] = self._features(X[rows]) @ self.coef_.T + self.intercept_
        return logits


def squared_distances(X, mean, anchors) -> np.ndarray:
    """Return the squared distances of rows, less `mean`, to anchors, in float64.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features)
    mean : ndarray of shape (n_features,)
    anchors : ndarray of shape (n_anchors, n_features)

    Returns
    -------
    squares : ndarray of shape (n_samples, n_anchors), float64
    """
    anchors = anchors.astype(np.float64)
    sizes = np.square(anchors).sum(axis=1)
    squares = np.empty((X.shape[0], len(anchors)))
    for rows in row_chunks(X.shape[0], 8 * X.shape[1]):
        centered = dense_rows(X[rows]) - mean
        squares[rows] = -2 * centered @ anchors.T
        squares[rows] += np.square(centered).sum(axis=1)[:, None] + sizes
    return np.maximum(squares, 0, out=squares)
