"""`ShardedNeighbors`: exact search in codes on many machines."""

from dataclasses import field
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors import HammingNeighbors, merge_neighbors
from skhash.neighbors._params import check_count
from skhash.neighbors.store.rows import nearest_within, object_array
from skhash.utils._sklearn import fit_context
from skhash.utils.arrays import as_array
from skhash.utils.parameters import AnyInt, Count, CountFrom0, with_parameters


@with_parameters(kw_only=True)
class ShardedNeighbors(BaseEstimator):
    """Exact search, by Hamming distance, of binary codes that are spread over machines.

    Each block of codes becomes a `HammingNeighbors` on the worker that has the block,
    and stays in its memory. Every query is sent to all blocks, and answers are merged
    by (distance, position), so they equal those of a single machine with all codes. If
    a worker dies, Dask rebuilds its blocks from their source.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that `kneighbors` returns by default.
    radius : int, default=2
        Default distance for `radius_neighbors`, inclusive.
    packed : bool, default=True
        Format of the codes. True is packed bytes, as returned by `encode_blocks`. False
        is bits 0/1, one per column.
    n_jobs : int, default=1
        Number of threads that search one block. A worker searches as many blocks at a
        time as it has threads.

    Attributes
    ----------
    shards_ : list of dask.delayed.Delayed
        Index of each block that is not empty, on the workers.
    starts_ : ndarray of shape (n_shards + 1,), int64
        Position at which each of these blocks begins, then the number of all codes.
    n_features_in_ : int
        Number of columns of the codes.

    See Also
    --------
    skhash.neighbors.HammingNeighbors : Exact search on one machine.
    skhash.neighbors.merge_neighbors : Merges answers, for use without Dask.

    Notes
    -----
    The search runs on the active Dask client, or without one in threads of this
    process. Network traffic is the queries, sent to each block, and ``12 n_neighbors``
    bytes back per query and block. Workers merge the answers, eight at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.distributed import ShardedNeighbors
    >>> codes = np.arange(200, dtype=np.uint8)[:, None]
    >>> blocks = [codes[:120], codes[120:]]
    >>> index = ShardedNeighbors(n_neighbors=2).fit(blocks)  # doctest: +SKIP
    >>> index.kneighbors(codes[199:])  # doctest: +SKIP
    (array([[0, 1]], dtype=int32), array([[199, 135]]))
    """

    n_neighbors: Count = field(default=5, kw_only=False)
    radius: CountFrom0 = 2
    packed: bool = True
    n_jobs: AnyInt | None = 1

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Index each block of codes on its worker.

        Parameters
        ----------
        X : dask.array.Array of shape (n_samples, n_columns), or list of blocks
            Codes. Blocks in a list are arrays, or paths of ``.npy`` files that each
            worker can read; these are mapped, not sent. Some blocks may be empty.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : ShardedNeighbors
            The fitted index.

        Raises
        ------
        ValueError
            If blocks differ in width, if all of them are empty, or if the block lengths
            of a Dask array are unknown.
        """
        import dask

        blocks, shapes = _read_blocks(X)
        _check_shapes(shapes)
        make = dask.delayed(_make_shard, pure=True)
        lengths = [rows for rows, _ in shapes]
        shards = [
            make(block, self.packed, self.n_jobs)
            for block, n in zip(blocks, lengths, strict=True)
            if n
        ]
        self.shards_ = list(dask.persist(*shards))
        self.starts_ = np.cumsum([0, *filter(None, lengths)])
        self.n_features_in_ = shapes[0][1]
        return self

    def kneighbors(
        self, X, n_neighbors=None, return_distance=True, *, radius=None
    ) -> Any:
        """Find the codes nearest to each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries, in the format of `fit`.
        n_neighbors : int, default=None
            Number of neighbours per query; by default the parameter `n_neighbors`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        radius : int, default=None
            Return only codes within this distance, inclusive. There may then be fewer
            than `n_neighbors`, and the answer has the form of `radius_neighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), int32
            Number of bits that differ, in ascending order. Only if `return_distance` is
            True.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among all codes, ordered by (distance,
            position).

        Raises
        ------
        ValueError
            If there are fewer than `n_neighbors` codes and no `radius` is given, or if
            `radius` is not an integer of at least 0.
        """
        import dask

        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        most = self.starts_[-1]
        if radius is not None:
            check_count("radius", radius)
            most = np.inf
        if not isinstance(k, Integral) or not 1 <= k <= most:
            raise ValueError(
                f"n_neighbors={k!r} is not from 1 to {self.starts_[-1]}, the number of "
                "codes."
            )
        search = dask.delayed(_nearest, pure=True)
        merge = dask.delayed(_merge, pure=True)
        X = dask.delayed(as_array(X), pure=True)
        answers = [search(*placed, X, k) for placed in self._placed_shards()]
        while len(answers) > 1:
            answers = [merge(answers[i : i + 8], k) for i in range(0, len(answers), 8)]
        answer = distances, positions = dask.compute(answers[0])[0]
        if radius is not None:
            answer = nearest_within(*answer, k, radius)
            distances, positions = map(object_array, answer)
        return (distances, positions) if return_distance else positions

    def radius_neighbors(self, X, radius=None, return_distance=True) -> Any:
        """Find all codes within a distance of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries, in the format of `fit`.
        radius : int, default=None
            Largest distance, inclusive; by default the parameter `radius`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of int32 arrays
            Number of bits that differ, in ascending order. Only if `return_distance` is
            True.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions of the neighbours among all codes, ordered by (distance,
            position).
        """
        import dask

        check_is_fitted(self)
        search = dask.delayed(_within, pure=True)
        radius = self.radius if radius is None else radius
        X = as_array(X)
        queries = dask.delayed(X, pure=True)
        tasks = [search(*placed, queries, radius) for placed in self._placed_shards()]
        answers = dask.compute(*tasks)
        distances, positions = np.empty((2, len(X)), dtype=object)
        for query in range(len(X)):
            near = np.concatenate([part[query] for part, _ in answers])
            places = np.concatenate([part[query] for _, part in answers])
            order = np.argsort(near, kind="stable")  # shards are in order of positions
            distances[query], positions[query] = near[order], places[order]
        return (distances, positions) if return_distance else positions

    def _placed_shards(self):
        return zip(self.shards_, self.starts_[:-1], strict=True)


def _read_blocks(X):
    """Return blocks that Dask or a worker can read, and their shapes."""
    if hasattr(X, "to_delayed"):
        X = X.rechunk({1: -1})
        if np.isnan(X.chunks[0]).any():
            raise ValueError(
                "The block lengths of X are unknown; call X.compute_chunk_sizes()."
            )
        blocks = X.to_delayed().ravel().tolist()
        return blocks, [(rows, X.shape[1]) for rows in X.chunks[0]]
    blocks = list(X)
    return blocks, [_open(block).shape for block in blocks]


def _open(block):
    # Anything but an array is a path.
    return block if hasattr(block, "shape") else np.load(block, mmap_mode="r")


def _check_shapes(shapes):
    if {len(shape) for shape in shapes} != {2} or len({s[1] for s in shapes}) > 1:
        raise ValueError(
            "Blocks of codes must have two axes and equal widths, got the shapes "
            f"{shapes}."
        )
    if not any(rows for rows, _ in shapes):
        raise ValueError("There are no codes; pass at least one block with a row.")


def _make_shard(block, packed, n_jobs):
    return HammingNeighbors(packed=packed, n_jobs=n_jobs).fit(_open(block))


def _nearest(shard, start, X, k):
    distances, positions = shard.kneighbors(X, min(k, shard.n_samples_fit_))
    return distances, positions + start


def _merge(answers, k):
    n_found = sum(positions.shape[1] for _, positions in answers)
    return merge_neighbors(answers, min(k, n_found))


def _within(shard, start, X, radius):
    distances, positions = shard.radius_neighbors(X, radius)
    return list(distances), [places + start for places in positions]
