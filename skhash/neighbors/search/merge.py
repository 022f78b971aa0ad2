"""Merging the answers of many machines."""

from numbers import Integral
from typing import Any

import numpy as np

from skhash.numerics._nearest import smallest
from skhash.utils.arrays import as_array


def merge_neighbors(results, n_neighbors=None) -> Any:
    """Merge the nearest neighbours that were found in parts of a database.

    The parts may be searched by any engine, on any number of machines. If each answer
    is ordered by (distance, position), and its positions are those in the whole
    database, the result equals the answer of a single machine with all codes.

    Parameters
    ----------
    results : sequence of (distances, positions)
        For each part, two arrays of shape (n_queries, n_found). The number found may
        differ between parts, and may be 0. Positions may be ids, all of one kind.
    n_neighbors : int, default=None
        Number of neighbours to keep; by default the largest number found in a part.

    Returns
    -------
    distances : ndarray of shape (n_queries, n_neighbors)
    positions : ndarray of shape (n_queries, n_neighbors)
        Nearest neighbours of all parts, ordered by (distance, position).

    Raises
    ------
    ValueError
        If there are no parts, if they have different numbers of queries or positions of
        different kinds, or if fewer than `n_neighbors` were found in total.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors import merge_neighbors
    >>> first = np.array([[0, 3]]), np.array([[7, 2]])
    >>> second = np.array([[0, 1]]), np.array([[12, 10]])
    >>> merge_neighbors([first, second], n_neighbors=3)
    (array([[0, 0, 1]]), array([[ 7, 12, 10]]))
    """
    parts = [tuple(map(as_array, part)) for part in results]
    if not parts:
        raise ValueError("There is nothing to merge: results has no parts.")
    shapes = [array.shape for part in parts for array in part]
    if (
        any(len(part) != 2 or part[0].shape != part[1].shape for part in parts)
        or {len(shape) for shape in shapes} != {2}
        or len({shape[0] for shape in shapes}) != 1
    ):
        raise ValueError(
            "Each part has distances and positions of shape (n_queries, n_found), with "
            f"the same number of queries; got shapes {shapes}."
        )
    # Where nothing was found, the type means nothing.
    found = [part for part in parts if part[1].shape[1]] or parts[:1]
    kinds = {positions.dtype.kind for _, positions in found}
    if len(kinds) > 1:
        raise ValueError(
            f"Positions must be of one kind, got dtypes {[p.dtype for _, p in found]}."
        )
    distances, positions = (
        np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True)
    )
    if n_neighbors is None:
        n_neighbors = max(shape[1] for shape in shapes)
    n_found = distances.shape[1]
    if not isinstance(n_neighbors, Integral) or not 0 <= n_neighbors <= n_found:
        raise ValueError(
            f"n_neighbors={n_neighbors!r} were asked for, and the parts have "
            f"{n_found} for a query; ask each part for as many."
        )
    return smallest(distances, positions, n_neighbors)
