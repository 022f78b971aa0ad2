"""Where the model starts: the codebook that fits the first directions."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.special import logit

from skhash.codes import CODINGS
from skhash.numerics._projection import centered_chunks, project
from skhash.utils.torch import widest_float

# Spread of the first logits. At 3 a typical bit is 95 % sure: sharp enough that the
# mean code is near the hard one, soft enough that gradients pass.
LOGIT_SPREAD = 3.0
# A codebook is fitted with this share of ridge, which only matters for constant bits.
RIDGE = 1e-4


@dataclass
class SGHStart:
    """First values of the model's parameters, on standardised data."""

    weight: np.ndarray  # (n_features, n_bits)
    bias: np.ndarray  # (n_bits,)
    codebook: np.ndarray  # (n_bits, n_features)
    offset: np.ndarray  # (n_features,)
    prior_logits: np.ndarray  # (n_bits,)
    log_rho: float
    scale_weight: np.ndarray | None = None  # (n_features, n_bits)
    scale_bias: np.ndarray | None = None  # (n_bits,)

    def add_latent_scales(self) -> None:
        """Let latent scales start at the mean of their prior."""
        self.scale_weight = np.zeros_like(self.weight)
        self.scale_bias = np.zeros_like(self.bias)


def sgh_start(X, mean, scale, directions, coding, device) -> SGHStart:
    """Scale the directions to the wanted spread and fit the rest in closed form."""
    spread = float(project(X, mean, directions, device).std(correction=0)) or 1.0
    weight = directions.T * (LOGIT_SPREAD * scale / spread)
    bias = np.zeros(len(directions))
    decoder = closed_form_decoder(X, mean, scale, weight, bias, coding, device)
    return SGHStart(weight=weight, bias=bias, **decoder)


def closed_form_decoder(
    X, mean, scale, weight, bias, coding, device, penalty=0.0
) -> dict:
    """Return decoder and prior of least free energy, given an encoder.

    For given probabilities the codebook that minimises the expected squared error
    solves ``(H^T H + diag(variances) + ridge) U = H^T (x - alpha)``, with the mean
    codes `H` centred; prior and noise are the matching averages.

    Parameters
    ----------
    weight, bias : ndarrays of shape (n_features, n_bits) and (n_bits,)
        The encoder, on standardised data.
    coding : {"01", "pm1"}
    penalty : float
        What is added to the ridge: the weight of ``|U|_F^2`` beside the mean error.

    Returns
    -------
    decoder : dict
        ``codebook``, ``offset``, ``prior_logits`` and ``log_rho`` of `SGHStart`.
    """
    import torch

    low, step = CODINGS[coding]
    n_samples, n_bits = X.shape[0], len(bias)
    logits = project(X, mean, weight.T / scale, device)
    p = torch.sigmoid(logits + torch.from_numpy(bias).to(logits))
    dtype = widest_float(p.device)
    mean_p = p.mean(dim=0, dtype=dtype).cpu().numpy()
    variance = step**2 * (p * (1 - p)).mean(dim=0, dtype=dtype).cpu().numpy()
    codes = step * (p - torch.from_numpy(mean_p).to(p))
    cross = np.zeros((n_bits, X.shape[1]))
    for rows, chunk in centered_chunks(X, mean, device):
        cross += (codes[rows].T @ chunk).cpu().numpy()
    cross /= n_samples * scale
    moments = (codes.T @ codes).cpu().numpy() / n_samples + np.diag(variance)
    codebook = linalg.solve(
        moments + (RIDGE * step**2 + penalty) * np.eye(n_bits), cross, assume_a="pos"
    )
    # E|x - alpha - hU|^2 = E|x|^2 - 2 <U, cross> + <U, moments U>, and E|x|^2 is the
    # number of columns, since the data are standardised.
    explained = np.sum(codebook * (2 * cross - moments @ codebook))
    rho_squared = max(1 - explained / X.shape[1], 1e-6)
    return {
        "codebook": codebook,
        "offset": -(low + step * mean_p) @ codebook,
        "prior_logits": logit(np.clip(mean_p, 1e-3, 1 - 1e-3)),
        "log_rho": 0.5 * np.log(rho_squared),
    }
