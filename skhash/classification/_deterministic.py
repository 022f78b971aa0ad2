"""A network without noise as arrays, which needs no torch."""

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import softmax

from skhash.codes import (
    bits_to_signs,
    pack_bits,
    packed_to_words,
    packed_width,
    unpack_bits,
)
from skhash.numerics._affine import affine
from skhash.numerics._binary import BinaryUnits
from skhash.utils.chunks import CHUNK_BYTES, dense_rows
from skhash.utils.threads import MIN_SHARED_WORK, map_chunks, threads_for

# Shape of images, stride, padding and width of pools of a convolution.
_numbers_of = itemgetter("input_shape", "stride", "padding", "pool")


@dataclass(frozen=True)
class RealLayer:
    """Units that are on where ``scale h + shift > 0``, with h a linear map of inputs.

    Batch norm and intercept are in scale and shift, one for each unit or channel.

    Parameters
    ----------
    weights : ndarray, float32, or int8 where they are -1 and +1
        Of shape (n_units, n_inputs) or (n_channels, n_inputs, k, k).
    scale, shift : ndarray of shape (n_units,), float32
    geometry : dict
        Of a convolution: ``input_shape``, ``stride``, ``padding`` and ``pool``.
    """

    weights: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    geometry: dict

    @classmethod
    def of(cls, layer) -> "RealLayer":
        """Return a torch layer, in evaluation mode and on the CPU, as arrays."""
        return cls(_weights_of(layer), *_affine_of(layer), dict(layer.geometry))

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the layer."""
        return int(np.prod(self.geometry.get("input_shape", self.weights.shape[1:])))

    @property
    def bytes_per_row(self) -> int:
        """Approximate memory of a row on its way through the layer."""
        n_places = np.prod(self.geometry.get("input_shape", (1,))[1:])
        n_taps = np.prod(self.weights.shape[2:])
        return int(4 * (self.n_inputs * n_taps + len(self.weights) * n_places))

    def __call__(self, x) -> np.ndarray:
        """Return the packed bits of the units for rows of numbers."""
        if not self.geometry:
            return pack_bits(self._is_on(_product(x, self.weights)))
        shape, stride, padding, pool = _numbers_of(self.geometry)
        images = np.pad(x.reshape(-1, *shape), [(0, 0)] * 2 + [(padding, padding)] * 2)
        images = np.moveaxis(images, 1, -1)
        windows = _windows(images, self.weights.shape[-1], stride)
        kernels = np.moveaxis(self.weights, 1, -1).reshape(len(self.weights), -1)
        h = _product(windows.reshape(-1, windows.shape[-1]), kernels)
        h = _squares(h.reshape(*windows.shape[:3], -1), pool).max(axis=(2, 4))
        return pack_bits(_channels_first(self._is_on(h)))

    def _is_on(self, h):
        return h * self.scale + self.shift > 0

    def read(self, packed) -> np.ndarray:
        """Return the packed bits of the units for those of a layer below."""
        return self(bits_to_signs(unpack_bits(packed, self.n_inputs)))


@dataclass(frozen=True)
class PackedLayer:
    """Units with weights of -1 and +1 that read bits.

    A unit is on where few of its inputs differ from its weights, which the processor
    counts by the word. Where the scale of the norm is negative, all weights of the unit
    are negated.

    Parameters
    ----------
    weights : ndarray of shape (n_units, ceil(n_inputs / 8)), uint8
        Packed bits, on for +1.
    limits : ndarray of shape (n_units,), int64
        A unit is on where at most this number of inputs differ.
    """

    weights: np.ndarray
    limits: np.ndarray

    @classmethod
    def of(cls, layer) -> "PackedLayer":
        """Return a torch layer, in evaluation mode and on the CPU, as arrays."""
        scale, shift = _affine_of(layer)
        bits = (_weights_of(layer) > 0) != (scale < 0)[:, None]
        return cls(pack_bits(bits), _limits(scale, shift, bits.shape[1]))

    @property
    def bytes_per_row(self) -> int:
        """Approximate memory of a row on its way through the layer."""
        return self.weights.shape[1] + packed_width(len(self.weights))

    def read(self, packed) -> np.ndarray:
        """Return the packed bits of the units for those of a layer below."""
        on = self._units(packed_to_words(packed)).view(np.uint8)
        return on[:, : packed_width(len(self.weights))]

    @cached_property
    def _units(self) -> BinaryUnits:
        return BinaryUnits(packed_to_words(self.weights), self.limits)


@dataclass(frozen=True)
class DeterministicNetwork:
    """Classifier with +1/-1 units and no noise, which predicts without torch.

    `SBNClassifier.export_deterministic` makes it. It predicts as the classifier does
    with ``n_predict_samples=0``. The prediction for a row does not depend on other
    rows. Rows are divided among as many threads as `joblib` allows.

    Parameters
    ----------
    layers : list of RealLayer and PackedLayer
        Hidden layers. The first has real weights. Fully connected layers with weights
        -1 and +1 are packed.
    coef : ndarray of shape (n_classes, n_units), float32
    intercept : ndarray of shape (n_classes,), float32
        Weights and intercepts of the head, for units of -1 and +1.
    classes : ndarray of shape (n_classes,)
    mean : ndarray of shape (n_features,), float64
    scale : float
        The first layer sees rows as ``(x - mean) / scale``.
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
        first, *others = network.layers
        layers = [RealLayer.of(first), *map(_exported, others)]
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
        return unpack_bits(self.transform_packed(X), self.coef.shape[1])

    def transform_packed(self, X) -> np.ndarray:
        """Return the bits of the last layer as packed bytes.

        Parameters
        ----------
        X : {ndarray, CSR array} of shape (n_samples, n_features)

        Returns
        -------
        packed : ndarray of shape (n_samples, ceil(n_bits / 8)), uint8
        """
        return self._map(np.asarray, X)

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of the classes, shape (n_samples, n_classes)."""
        constant = self.intercept - self.coef.sum(axis=1)

        def probabilities(packed):
            units = unpack_bits(packed, self.coef.shape[1]).astype(np.float32)
            # A unit that is off counts -1: twice the bits, less what all would make.
            return softmax(_product(units, 2 * self.coef) + constant, axis=1)

        return self._map(probabilities, X)

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each row."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]

    def _map(self, function, X):
        """Return a function of the packed bits of rows, in threads if that pays."""
        if X.shape[1:] != self.mean.shape:
            raise ValueError(f"X has shape {X.shape}; give {len(self.mean)} columns.")
        bytes_per_row = max(layer.bytes_per_row for layer in self.layers)
        work = X.shape[0] * self.layers[0].weights.size
        threads = threads_for(work, MIN_SHARED_WORK, None)

        def of_rows(rows):
            return function(self._packed(dense_rows(X[rows])))

        size = CHUNK_BYTES // bytes_per_row
        return np.concatenate(map_chunks(of_rows, X.shape[0], size, threads))

    def _packed(self, X):
        X = X.astype(np.result_type(X, np.float32), copy=False)
        x = X - self.mean.astype(X.dtype)
        x /= X.dtype.type(self.scale)
        first, *others = self.layers
        packed = first(x.astype(np.float32, copy=False))
        for layer in others:
            packed = layer.read(packed)
        return packed


def _exported(layer):
    """Return a torch layer that reads bits as arrays."""
    is_packed = layer.weights.is_binary and not layer.geometry
    return (PackedLayer if is_packed else RealLayer).of(layer)


def _weights_of(layer):
    """Return weights, float32, or int8 where they are -1 and +1."""
    weights = layer.weights.likeliest(layer.weight).detach().numpy()
    return weights.astype(np.int8) if layer.weights.is_binary else weights


def _affine_of(layer):
    """Return scale and shift of outputs: units are on where scale h + shift > 0."""
    if layer.norm is None:
        affine = layer.bias.new_ones(len(layer.weight)), layer.bias
    else:
        # In evaluation a norm does not depend on its input.
        affine = layer.norm(None)
    return tuple(value.detach().numpy() for value in affine)


def _limits(scale, shift, n):
    """Return how many inputs may differ from the n weights of a unit that is on.

    Where d differ, the product is ``n - 2 d``. Whether the unit is on is asked in
    float32, as the network itself does, so that ties fall as they do there: it is
    halved between what is on and what is not, as the norm is monotone.
    """
    size = np.abs(scale)
    on, off = np.full(len(size), -1), np.full(len(size), n + 1)
    while (off - on > 1).any():
        middle = (on + off) // 2
        product = (n - 2 * middle).astype(np.float32)
        is_on = size * product + shift > 0
        on, off = np.where(is_on, middle, on), np.where(is_on, off, middle)
    return on


def _product(x, weights):
    """Return the products of rows with those of weights, each row by itself."""
    return affine(x, weights.T, np.zeros(len(weights)))


def _windows(pixels, size, stride):
    """Return windows of images with channels last, (n_rows, height, width, n_values).

    Pixels of a window stand one behind the other.
    """
    windows = sliding_window_view(pixels, (size, size), axis=(1, 2))
    windows = np.moveaxis(windows[:, ::stride, ::stride], 3, -1)
    return windows.reshape(*windows.shape[:3], -1)


def _squares(values, pool):
    """Return images with channels last by squares of a width, or of single values.

    The axes of a square are the third and the fifth of (n_rows, height, pool, width,
    pool, n_channels). Values that fill no square are left out.
    """
    pool = pool or 1
    n_rows, height, width, n_channels = values.shape
    height, width = height // pool, width // pool
    squares = values[:, : height * pool, : width * pool]
    return squares.reshape(n_rows, height, pool, width, pool, n_channels)


def _channels_first(images):
    """Return rows of images whose channels are last, flattened channel by channel."""
    return np.moveaxis(images, -1, 1).reshape(len(images), -1)
