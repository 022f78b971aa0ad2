"""First values of SGHEncoder: hash directions, and the codebook that fits them."""

import numpy as np
from scipy import linalg
from scipy.special import logit

from skhash.codes import CODINGS
from skhash.metrics import neighbor_recall_score
from skhash.numerics._nearest import exact_neighbors
from skhash.numerics._projection import centered_chunks, principal_axes, project
from skhash.numerics._rotation import fit_itq_rotation, gaussian, random_rotation
from skhash.utils.lazy import torch
from skhash.utils.torch import widest_float

# Spread of the first logits. At 3 a typical bit is 95 % sure: sharp enough that the
# mean code is near the hard one, soft enough that gradients pass.
LOGIT_SPREAD = 3.0
# A codebook is fitted with this share of ridge, which only matters for constant bits.
RIDGE = 1e-4
ITQ_STEPS = 50
# `init="auto"` compares starts by the neighbours that they keep among 20,000 rows:
# with fewer, ITQ and PCA come close to each other where on all rows they do not.
AUTO_ROWS, AUTO_QUERIES, AUTO_NEIGHBORS = 20_000, 1_000, 10


def starting_directions(X, mean, n_bits, init, device, generator) -> np.ndarray:
    """Return the first hash directions, rows of shape (n_bits, n_features), float64.

    Parameters
    ----------
    init : {"auto", "itq", "pca", "random"}
        "auto" is "itq" or "pca", whichever keeps more neighbours of a sample.
    """
    n_features = X.shape[1]
    if init == "random":
        return gaussian(n_bits, n_features, generator).numpy()
    n_axes = min(n_bits, *X.shape)
    axes = principal_axes(X, mean, n_axes, device, generator)
    if init == "pca":
        return _pca_directions(axes, n_bits, generator)
    itq = _itq_directions(X, mean, axes, n_bits, device, generator)
    if init == "itq":
        return itq
    candidates = [itq, _pca_directions(axes, n_bits, generator)]
    recalls = _neighbor_recalls(X, mean, candidates, generator)
    return candidates[int(np.argmax(recalls))]


def _pca_directions(axes, n_bits, generator) -> np.ndarray:
    """Return the axes; bits beyond their number are random mixtures of them."""
    n_more = n_bits - len(axes)
    return np.vstack([axes, gaussian(n_more, len(axes), generator).numpy() @ axes])


def _itq_directions(X, mean, axes, n_bits, device, generator) -> np.ndarray:
    """Return enough ITQ rotations of the axes to fill the bits."""
    projected = project(X, mean, axes, device)
    blocks = []
    for _ in range(-(-n_bits // len(axes))):
        start = random_rotation(len(axes), generator)
        rotation, _ = fit_itq_rotation(projected, start, ITQ_STEPS)
        blocks.append(rotation.numpy().T @ axes)
    return np.vstack(blocks)[:n_bits]


def _neighbor_recalls(X, mean, candidates, generator) -> list[float]:
    """Return recall 10@10 of each candidate's codes among sampled rows."""
    order = torch.randperm(X.shape[0], generator=generator).numpy()
    sample = X[order[:AUTO_ROWS]]
    n_queries = min(AUTO_QUERIES, sample.shape[0] // 2)
    queries, database = sample[:n_queries], sample[n_queries:]
    n_neighbors = min(AUTO_NEIGHBORS, database.shape[0])
    if n_queries == 0:
        return [0.0] * len(candidates)
    truth = exact_neighbors(queries, database, n_neighbors, "euclidean")
    recalls = []
    for directions in candidates:
        bits = np.asarray(sample @ directions.T > directions @ mean, dtype=np.uint8)
        parts = bits[:n_queries], bits[n_queries:]
        recalls += [neighbor_recall_score(*parts, truth, n_retrieved=n_neighbors)]
    return recalls


def sgh_start(X, mean, scale, directions, coding, device) -> dict:
    """Return first values of the parameters of an `SGHModule`, on standardized data.

    The directions are scaled to the wanted spread, and the rest is fitted in closed
    form.
    """
    spread = float(project(X, mean, directions, device).std(correction=0)) or 1.0
    weight = directions.T * (LOGIT_SPREAD * scale / spread)
    bias = np.zeros(len(directions))
    decoder = closed_form_decoder(X, mean, scale, weight, bias, coding, device)
    return {"weight": weight, "bias": bias, **decoder}


def closed_form_decoder(
    X, mean, scale, weight, bias, coding, device, penalty=0.0
) -> dict:
    """Return decoder and prior of least free energy, given an encoder.

    For given probabilities the codebook that minimizes the expected squared error
    solves ``(H^T H + diag(variances) + ridge) U = H^T (x - alpha)``, with the mean
    codes `H` centred; prior and noise are the matching averages.

    Parameters
    ----------
    weight, bias : ndarrays of shape (n_features, n_bits) and (n_bits,)
        The encoder, on standardized data.
    coding : {"01", "pm1"}
    penalty : float
        Added to the ridge: the weight of ``|U|_F^2`` beside the mean error.

    Returns
    -------
    decoder : dict
        ``codebook``, ``offset``, ``prior_logits`` and ``log_rho``.
    """
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
    # number of columns, since the data are standardized.
    explained = np.sum(codebook * (2 * cross - moments @ codebook))
    rho_squared = max(1 - explained / X.shape[1], 1e-6)
    return {
        "codebook": codebook,
        "offset": -(low + step * mean_p) @ codebook,
        "prior_logits": logit(np.clip(mean_p, 1e-3, 1 - 1e-3)),
        "log_rho": 0.5 * np.log(rho_squared),
    }
