"""Scores of candidates by the real vectors behind their codes."""

import numpy as np

from skhash.neighbors.store.kept_file import KeptFile
from skhash.utils.arrays import check_array
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.threads import count_threads, map_in_threads

_kernels = LateModule("skhash.neighbors.kernels.vectors")

# Bytes of vectors that a thread reads at a time.
BLOCK_BYTES = 2**24


class VectorScorer:
    """Scores of candidates by the real vectors behind their codes, in float64."""

    dtype = np.dtype(np.float64)

    def __init__(self, vectors, metric, n_jobs):
        self.vectors, self.metric, self.n_jobs = vectors, metric, n_jobs

    def read_queries(self, X, name):
        """Return validated queries."""
        X = check_array(X, dtype=self.dtype, order="C", input_name=name)
        n_features = self.vectors.shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but HashedNeighbors is expecting "
                f"{n_features} features as input."
            )
        return X

    def score_candidates(self, queries, candidates):
        """Return the score of each query's own candidates; only their rows are read."""
        scores = np.empty(candidates.shape, dtype=self.dtype)
        row_bytes = self.dtype.itemsize * queries.shape[1]

        def score(rows):
            block_bytes = (rows.stop - rows.start) * row_bytes
            for columns in row_chunks(candidates.shape[1], block_bytes, BLOCK_BYTES):
                positions = np.ascontiguousarray(candidates[rows, columns])
                scores[rows, columns] = self._score(queries[rows], positions)

        query_bytes = candidates.shape[1] * row_bytes
        blocks = row_chunks(len(queries), query_bytes, BLOCK_BYTES)
        map_in_threads(score, blocks, count_threads(self.n_jobs))
        wrong = ~np.isfinite(scores)
        if wrong.any():  # memory-mapped vectors were not checked before
            position = candidates[wrong][0]
            raise ValueError(
                f"The vector at position {position} has no score: it holds NaN or "
                "infinity, or squares of its numbers or those of the query overflow "
                "or vanish in float64. Remove it, or multiply all vectors and queries "
                "by a constant."
            )
        return scores

    def _score(self, queries, positions):
        vectors = self.vectors
        if isinstance(vectors, KeptFile):
            vectors, positions = vectors.at(positions)
        vectors = vectors[:]
        known = vectors.dtype.char not in "eg" and vectors.dtype.isnative
        if not (known and vectors.flags.c_contiguous and vectors.flags.aligned):
            # Kernels read rows in one piece, and numba knows neither half and extended
            # precision nor foreign bytes: these rows are copied one block at a time.
            dtype = vectors.dtype if known else self.dtype
            vectors = np.array(vectors[positions.ravel()], dtype=dtype, order="C")
            positions = np.arange(positions.size).reshape(positions.shape)
        vectors.flags.writeable = False  # numba compiles one version only
        scores = np.empty(positions.shape, dtype=self.dtype)
        euclidean, cosine = self.metric == "euclidean", self.metric == "cosine"
        _kernels.score_vectors(vectors, positions, queries, euclidean, cosine, scores)
        return scores
