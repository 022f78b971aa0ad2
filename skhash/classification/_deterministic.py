"""A stochastic binary network without its noise, in plain NumPy."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from skhash.codes import bits_to_signs, pack_bits, unpack_bits
from skhash.utils.chunks import dense_rows, row_chunks


@dataclass(frozen=True)
class DeterministicLayer:
    """Units that are on where ``signs * h > thresholds``, h the linear map of inputs.

    Batch norm and intercept are in the thresholds, one for each unit or channel.

    Parameters
    ----------
    weights : ndarray
        Real ones, float32 of shape (n_units, n_inputs) or (n_channels, n_inputs, k, k),
        or packed bits of shape (n_units, ceil(n / 8)), uint8, of the n weights of each
        unit, on for +1.
    shape : tuple of int
        That of the weights before packing.
    signs, thresholds : ndarray of shape (n_units,), float32
    geometry : dict
        Of a convolution: ``input_shape``, ``stride``, ``padding`` and ``pool``.
    """

    weights: np.ndarray
    shape: tuple
    signs: np.ndarray
    thresholds: np.ndarray
    geometry: dict

    @classmethod
    def of(cls, layer) -> "DeterministicLayer":
        """Return a torch layer, in evaluation mode and on the CPU, as arrays."""
        weights = layer.weights.likeliest(layer.weight).detach().numpy()
        shape = weights.shape
        if layer.weights.is_binary:
            weights = pack_bits((weights > 0).reshape(shape[0], -1))
        if layer.norm is None:
            affine = layer.bias.new_ones(shape[0]), layer.bias
        else:
            # In evaluation a norm does not look at what it normalises.
            affine = layer.norm(None)
        scale, shift = (value.detach().double().numpy() for value in affine)
        # On where scale h + shift > 0; a unit of scale 0 is always on or always off.
        constant = np.where(shift > 0, -np.inf, np.inf)
        size = np.where(scale == 0, 1, np.abs(scale))
        thresholds = np.where(scale == 0, constant, -shift / size).astype(np.float32)
        signs = np.sign(scale).astype(np.float32)
        return cls(weights, shape, signs, thresholds, dict(layer.geometry))

    @property
    def is_packed(self) -> bool:
        """Whether the weights are packed bits."""
        return self.weights.dtype == np.uint8

    @property
    def values_per_row(self) -> int:
        """How many numbers a row takes on its way through the layer."""
        n_inputs = np.prod(self.geometry.get("input_shape", self.shape[1:]))
        return int(n_inputs * np.prod(self.shape[2:]) + self.shape[0])

    def unpacked(self) -> np.ndarray:
        """Return the weights as float32."""
        if not self.is_packed:
            return self.weights
        n_weights = int(np.prod(self.shape[1:]))
        bits = unpack_bits(self.weights, n_weights)
        return bits_to_signs(bits).reshape(self.shape)

    def __call__(self, x) -> np.ndarray:
        """Return the bits of rows of inputs, shape (n_rows, n_outputs), bool."""
        weights = self.unpacked()
        if not self.geometry:
            return self.signs * (x @ weights.T) > self.thresholds
        # Channels are the last axis until the end, where they come first.
        on = self.signs * _convolved(x, weights, **self.geometry) > self.thresholds
        return np.moveaxis(on, -1, 1).reshape(len(x), -1)


@dataclass(frozen=True)
class DeterministicNetwork:
    """A classifier of +-1 units without noise that needs nothing but NumPy.

    `SBNClassifier.export_deterministic` makes it; it predicts what that does with
    ``predict_mode="det"``.

    Parameters
    ----------
    layers : list of DeterministicLayer
    coef : ndarray of shape (n_classes, n_units), float32
    intercept : ndarray of shape (n_classes,), float32
        The head, on units of -1 and +1.
    classes : ndarray of shape (n_classes,)
    mean : ndarray of shape (n_features,), float64
    scale : float
        Rows minus `mean`, divided by `scale`, enter the first layer.
    """

    layers: list
    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    mean: np.ndarray
    scale: float

    @classmethod
    def of(cls, network, classes, mean, scale) -> "DeterministicNetwork":
        """Return a torch network, in evaluation mode and on the CPU, as arrays."""
        layers = [DeterministicLayer.of(layer) for layer in network.layers]
        head = (value.detach().numpy() for value in network.head.parameters())
        return cls(layers, *head, classes, mean, scale)

    def transform(self, X) -> np.ndarray:
        """Return the bits of the last layer.

        Parameters
        ----------
        X : {ndarray, CSR array} of shape (n_samples, n_features)

        Returns
        -------
        bits : ndarray of shape (n_samples, n_bits), uint8
        """
        n_bits = self.coef.shape[1]
        bits = np.empty((X.shape[0], n_bits), dtype=np.uint8)
        bytes_per_row = 4 * max(layer.values_per_row for layer in self.layers)
        for rows in row_chunks(X.shape[0], bytes_per_row):
            bits[rows] = self._bits(dense_rows(X[rows]))
        return bits

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of the classes, shape (n_samples, n_classes)."""
        units = bits_to_signs(self.transform(X))
        return softmax(units @ self.coef.T + self.intercept, axis=1)

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each row."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]

    def _bits(self, X):
        X = X.astype(np.result_type(X, np.float32), copy=False)
        x = (X - self.mean.astype(X.dtype)) / X.dtype.type(self.scale)
        first, *others = self.layers
        on = first(x.astype(np.float32))
        for layer in others:
            on = layer(bits_to_signs(on))
        return on


def _convolved(x, weights, input_shape, stride, padding, pool):
    """Return the cross-correlation of images, (n_rows, height, width, n_channels).

    Of squares of a width `pool` it is the largest value; what fills none is left out.
    """
    sides = (padding, padding)
    images = np.pad(x.reshape(-1, *input_shape), ((0, 0), (0, 0), sides, sides))
    size = weights.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(images, size, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    h = np.tensordot(windows, weights, axes=([1, 4, 5], [1, 2, 3]))
    pool = pool or 1
    n_rows, height, width, n_channels = h.shape
    height, width = height // pool, width // pool
    h = h[:, : height * pool, : width * pool]
    return h.reshape(n_rows, height, pool, width, pool, n_channels).max(axis=(2, 4))
