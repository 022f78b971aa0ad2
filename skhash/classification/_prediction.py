"""Predictions and codes of a network that is kept as arrays."""

import math

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash.classification._deterministic import (
    DeterministicNetwork,
    deterministic_network,
)
from skhash.codes import pack_bits
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import inference_device


class PredictionMixin(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin
):
    """What a fitted classifier says of rows."""

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self._log_probabilities(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of the classes, means over the ensemble.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes), float32
        """
        return np.exp(self._log_probabilities(X))

    def decision_function(self, X) -> np.ndarray:
        """Return log probabilities, or of two classes the log odds of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,), float32
        """
        scores = self._log_probabilities(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def transform(self, X) -> np.ndarray:
        """Return the bits of the last layer, without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        bits : ndarray of shape (n_samples, n_bits), uint8
            0 and 1, as `skhash.HammingNeighbors` takes them.
        """
        X = self._validate_fitted(X)
        (member,) = self._members("det")

        def bits(rows):
            return member.units(member.logits(rows)) > 0

        return self._run(X, self._n_features_out, np.uint8, bits)

    def transform_packed(self, X) -> np.ndarray:
        """Return the bits of `transform` as packed bytes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        packed : ndarray of shape (n_samples, ceil(n_bits / 8)), uint8
        """
        return pack_bits(np.asarray(self.transform(X)))

    def export_deterministic(self) -> DeterministicNetwork:
        """Return the network without noise as arrays that do not need torch.

        Weights of -1 and +1 are packed bits, and batch norms are folded into a
        threshold for each unit.

        Returns
        -------
        network : DeterministicNetwork
            It has `predict`, `predict_proba` and `transform` in plain NumPy, which
            agree with ``predict_mode="det"``.
        """
        check_is_fitted(self)
        return deterministic_network(
            self._network("det"), self.classes_, self.mean_, self.scale_
        )

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self.layers_[-1]["n_inputs"]

    def _log_probabilities(self, X) -> np.ndarray:
        X = self._validate_fitted(X)
        members = self._members(self.predict_mode)

        def mean_log_probabilities(rows):
            import torch

            from skhash.classification._module import outputs_of

            scores = [torch.log_softmax(h, dim=1) for h in outputs_of(members, rows)]
            total = torch.stack(scores).logsumexp(dim=0)
            return total - np.log(len(members))

        return self._run(X, len(self.classes_), np.float32, mean_log_probabilities)

    def _validate_fitted(self, X):
        check_is_fitted(self)
        return validate_data(
            self,
            X,
            reset=False,
            dtype=[np.float32, np.float64],
            accept_sparse="csr",
        )

    def _network(self, mode):
        """Return the network that was fitted, with the statistics of a mode."""
        import torch

        from skhash.classification._architectures import rebuild

        network = rebuild(self.layers_, self.weights_, self.noise)
        if mode == "det":
            state = network.state_dict()
            names = statistics_of(state)
            for name, value in zip(names, self.det_statistics_, strict=True):
                state[name].copy_(torch.from_numpy(value))
        return network

    def _members(self, mode):
        """Return the networks of a mode, without random choices left."""
        import torch

        from skhash.classification._module import Member

        device = inference_device(self.device)
        network = self._network(mode).to(device)
        if mode == "ensemble":
            generator = torch.Generator(device).manual_seed(self.predict_seed_)
            with torch.no_grad():
                return [
                    Member(network, generator) for _ in range(self.n_predict_samples)
                ]
        return [Member(network)]

    def _run(self, X, width, dtype, function) -> np.ndarray:
        """Return what a function of standardised rows makes, one chunk at a time."""
        import torch

        from skhash.training._batches import FedRows, Rows

        data = FedRows(Rows(X))
        data.mean, data.scale = self.mean_, self.scale_
        device = inference_device(self.device)
        widest = max(map(_n_inputs, self.layers_))
        result = np.empty((X.shape[0], width), dtype=dtype)
        with torch.no_grad():
            for rows in row_chunks(X.shape[0], 20 * widest):
                result[rows] = function(data.values(rows).to(device)).cpu().numpy()
        return result


def _n_inputs(layer) -> int:
    """Return how many values the description of a layer says that it reads."""
    if "n_inputs" in layer:
        return layer["n_inputs"]
    return math.prod(layer["input_shape"])


def statistics_of(state) -> list[str]:
    """Return the names of the statistics of norms among those of a state."""
    return [name for name in state if name.endswith(("running_mean", "running_var"))]
