"""Where training starts: hash directions from the data."""

from itertools import pairwise

import numpy as np

from skhash.metrics import neighbor_recall_score, true_neighbors
from skhash.numerics._projection import principal_axes, project
from skhash.numerics._rotation import fit_itq_rotation, random_rotation

ITQ_STEPS = 50
# A rotation that training only starts from takes fewer rows and steps.
ROTATION_ROWS, ROTATION_STEPS = 4_000, 10
# So many rows say as well where directions should start as all do.
START_ROWS = 20_000
# `init="auto"` compares starts by the neighbours that they keep among so many rows:
# with fewer, ITQ and PCA come close to each other where on all rows they do not.
AUTO_ROWS, AUTO_QUERIES, AUTO_NEIGHBORS = 20_000, 1_000, 10


def sample_rows(X, generator):
    """Return at most `START_ROWS` rows, drawn where there are more."""
    import torch

    if X.shape[0] <= START_ROWS:
        return X
    order = torch.randperm(X.shape[0], generator=generator)
    return X[order[:START_ROWS].numpy()]


def starting_directions(X, mean, n_bits, init, device, generator) -> np.ndarray:
    """Return the first hash directions, rows of shape (n_bits, n_features), float64.

    Parameters
    ----------
    init : {"auto", "itq", "pca", "random"}
        "auto" takes "itq" or "pca", whichever keeps more neighbours of a sample.
    """
    n_features = X.shape[1]
    if init == "random":
        return _gaussian(n_bits, n_features, generator)
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


def rotated_axes(projected, lengths, generator):
    """Return first directions for codes whose prefixes are codes too.

    The bits that a prefix has beyond the one before are some of the directions of an
    ITQ rotation of as many leading axes as the prefix has bits, or of all axes.

    Parameters
    ----------
    projected : Tensor of shape (n_samples, n_axes), float32
        Rows on their principal axes. At most 4000 of them, at equal steps, are used.
    lengths : sequence of int, ascending
        The prefixes.
    generator : torch.Generator

    Returns
    -------
    directions : ndarray of shape (n_axes, n_bits), float64
        Orthonormal columns in a block.
    """
    sample = projected[:: -(-len(projected) // ROTATION_ROWS)]
    n_axes = projected.shape[1]
    directions = np.zeros((n_axes, lengths[-1]))
    for start, stop in pairwise([0, *lengths]):
        while start < stop:
            axes = slice(min(stop, n_axes))
            inside = sample[:, axes]
            rotation = random_rotation(inside.shape[1], generator)
            rotation, _ = fit_itq_rotation(inside, rotation, ROTATION_STEPS)
            bits = slice(start, min(start + inside.shape[1], stop))
            directions[axes, bits] = rotation[:, : bits.stop - bits.start].numpy()
            start = bits.stop
    return directions


def _gaussian(n_rows, n_columns, generator) -> np.ndarray:
    import torch

    return torch.randn(
        n_rows, n_columns, generator=generator, dtype=torch.float64
    ).numpy()


def _pca_directions(axes, n_bits, generator) -> np.ndarray:
    """The axes themselves; bits beyond their number are random mixtures of them."""
    n_more = n_bits - len(axes)
    return np.vstack([axes, _gaussian(n_more, len(axes), generator) @ axes])


def _itq_directions(X, mean, axes, n_bits, device, generator) -> np.ndarray:
    """As many ITQ rotations of the axes as it takes to fill the bits."""
    projected = project(X, mean, axes, device)
    blocks = []
    for _ in range(-(-n_bits // len(axes))):
        start = random_rotation(len(axes), generator)
        rotation, _ = fit_itq_rotation(projected, start, ITQ_STEPS)
        blocks.append(rotation.numpy().T @ axes)
    return np.vstack(blocks)[:n_bits]


def _neighbor_recalls(X, mean, candidates, generator) -> list[float]:
    """Recall 10@10 of each candidate's codes among rows of a sample."""
    import torch

    order = torch.randperm(X.shape[0], generator=generator).numpy()
    sample = X[order[:AUTO_ROWS]]
    n_queries = min(AUTO_QUERIES, sample.shape[0] // 2)
    queries, database = sample[:n_queries], sample[n_queries:]
    n_neighbors = min(AUTO_NEIGHBORS, database.shape[0])
    if n_queries == 0:
        return [0.0] * len(candidates)
    truth = true_neighbors(queries, database, n_neighbors)
    recalls = []
    for directions in candidates:
        threshold = directions @ mean
        query_bits, database_bits = (
            np.asarray(rows @ directions.T > threshold, dtype=np.uint8)
            for rows in (queries, database)
        )
        recalls.append(
            neighbor_recall_score(
                query_bits, database_bits, truth, n_retrieved=n_neighbors
            )
        )
    return recalls
