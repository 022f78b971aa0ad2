"""Logits of a multi-layer perceptron, without torch on the CPU."""

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skhash.utils.torch import inference_device


class MLPLogitsMixin:
    """Logits of linear layers with ReLU between them, of rows minus ``mean_``.

    As in `skhash.base.LinearLogitsMixin` the mean is subtracted from dense rows and
    moved to the other side of the first layer for sparse ones, and encoding on the CPU
    does without torch.
    """

    mean_: np.ndarray | None  # (n_features,), float64; None where nothing is centred
    coefs_: list[np.ndarray]  # one (n_inputs, n_outputs) a layer, float32
    intercepts_: list[np.ndarray]  # one (n_outputs,) a layer, float32

    def __sklearn_is_fitted__(self):
        return hasattr(self, "coefs_")

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self.coefs_[-1].shape[1]

    def _logits(self, X) -> np.ndarray:
        device = inference_device(self.device)
        if device == "cpu":
            return self._forward(X, np.asarray)
        import torch

        return self._forward(X, lambda array: torch.as_tensor(array, device=device))

    def _forward(self, X, convert) -> np.ndarray:
        """Run the layers on arrays that `convert` made, of NumPy or torch."""
        first, intercept = self.coefs_[0], self.intercepts_[0]
        if sparse.issparse(X):
            # The wide first layer is done where the sparse rows are.
            if self.mean_ is not None:
                intercept = intercept - self.mean_ @ first
            values = convert((X @ first + intercept).astype(np.float32))
        else:
            if self.mean_ is not None:
                X = X - self.mean_.astype(X.dtype)
            X = convert(X.astype(np.float32, copy=False))
            values = X @ convert(first) + convert(intercept)
        for coef, intercept in zip(self.coefs_[1:], self.intercepts_[1:], strict=True):
            values = values.clip(min=0) @ convert(coef) + convert(intercept)
        return values if isinstance(values, np.ndarray) else values.cpu().numpy()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
