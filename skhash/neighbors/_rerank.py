"""Candidates by Hamming distance, ranked anew by real vectors or decoded codes."""

import numpy as np
from scipy import sparse
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
)

from skhash.codes import check_unmasked
from skhash.neighbors.search.asymmetric import CodeScorer, read_decoder, smallest
from skhash.neighbors.store.rows import all_but_self
from skhash.utils.chunks import row_chunks
from skhash.utils.threads import count_threads, late_import, map_in_threads

# Bytes of vectors that a thread reads at a time.
BLOCK_BYTES = 2**24


class VectorScorer:
    """Scores of candidates by the real vectors that their codes were made of.

    They are computed in float32, or in float64 if the vectors are wider.
    """

    def __init__(self, vectors, metric, n_jobs):
        self.vectors, self.metric, self.n_jobs = vectors, metric, n_jobs
        wide = np.result_type(vectors.dtype, np.float32) != np.float32
        self.dtype = np.dtype(np.float64 if wide else np.float32)

    def read_queries(self, X, name):
        """Return validated queries."""
        X = check_array(X, dtype=self.dtype, order="C", input_name=name)
        n_features = self.vectors.shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the vectors of the codes have "
                f"{n_features}."
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
        wrong = np.isnan(scores)
        if wrong.any():  # those that are mapped from a file were not read before
            position = candidates[wrong][0]
            raise ValueError(
                f"The score of the vector at position {position} is NaN: it holds NaN "
                f"or infinity, or numbers too large for {self.dtype}; remove it, or "
                "scale all vectors."
            )
        return scores

    def _score(self, queries, positions):
        # numba is imported at the first search: importing skhash stays quick.
        with late_import:
            from skhash.neighbors.kernels.vectors import score_vectors

        vectors = self.vectors[:]
        if vectors.dtype.char in "eg" or not vectors.dtype.isnative:
            # numba does not know half and extended precision, and foreign bytes: these
            # rows are converted one block at a time.
            vectors = vectors[positions.ravel()].astype(self.dtype)
            positions = np.arange(positions.size).reshape(positions.shape)
        vectors.flags.writeable = False  # numba compiles one version only
        scores = np.empty(positions.shape, dtype=self.dtype)
        kinds = self.metric == "euclidean", self.metric == "cosine"
        score_vectors(vectors, positions, queries, *kinds, scores)
        return scores


class RerankMixin:
    """The second stage of a search: what it needs of `fit`, and its answer."""

    def _read_decoder(self, decoder):
        return None if decoder is None else read_decoder(decoder, self.metric)

    def _rerank_columns(self, decoder, X, packed, vectors):
        """Return what the store keeps for re-ranking of the new codes `X`."""
        items = None
        if decoder is not None:
            decoder.check_codes(packed, np.shape(X)[1], self.packed)
            items = decoder.items(packed)
        if vectors is not None:
            vectors = _read_vectors(vectors)
            check_consistent_length(packed, vectors)
        return {"vectors": vectors, "items": items}

    def _check_rerank(self, store, decoder):
        """Raise ``ValueError`` unless there is what `rerank` needs."""
        if self.rerank == "vectors" and store["vectors"] is None:
            raise ValueError(
                "rerank='vectors' needs the real vectors of the codes; fit by "
                "fit(codes, vectors=...)."
            )
        if self.rerank == "asymmetric" and decoder is None:
            raise ValueError(
                "rerank='asymmetric' needs a decoder of the codes; fit by "
                "fit(codes, decoder=...)."
            )
        if self.rerank == "asymmetric" and decoder.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, but the decoder was taken in for "
                f"{decoder.metric!r}; fit again."
            )

    def _reranked(self, store, selected, codes, k, vectors, own):
        """Return the `k` smallest (score, position) of each query, in this order.

        own : whether the queries are the fitted codes, each left out of its own answer
        """
        self._check_rerank(store, self._decoder)
        available = selected.n - own
        n_candidates = min(int(self.n_candidates or available), available)
        if k > n_candidates:
            raise ValueError(
                f"n_neighbors={k} neighbours cannot come from n_candidates="
                f"{self.n_candidates}; it takes n_candidates >= n_neighbors."
            )
        vectors = _read_query_vectors(store, codes, vectors, own)
        scans = self.rerank == "asymmetric" and n_candidates == available
        if self.rerank == "vectors":
            scorer = VectorScorer(store["vectors"], self.metric, self.n_jobs)
        else:
            codes_by_decoder = self._decoder, store.packed, store["items"]
            scorer = CodeScorer(*codes_by_decoder, self.n_jobs)
        n_candidates = k if scans else n_candidates
        parts = []
        # Candidates, their distances and scores, and what sorting takes.
        for rows in row_chunks(len(codes), 48 * n_candidates):
            queries = scorer.read_queries(vectors[rows], "vectors")
            count = n_candidates + own
            if scans:
                candidates = _nearest(scorer, selected, queries, count)
            else:
                _, candidates = self._find(
                    "nearest", store, selected, codes[rows], count
                )
            if own:
                kept = all_but_self(candidates, rows.start)
                candidates = candidates[kept].reshape(len(kept), n_candidates)
            scores = scorer.score_candidates(queries, candidates)
            parts.append(smallest(scores, candidates, k))
        scores, positions = zip(*parts, strict=True)
        return np.concatenate(scores), np.concatenate(positions)


def _nearest(scorer, selected, queries, k):
    """Return the positions of the `k` smallest scores among the selected codes."""
    decoder, packed, items = scorer.decoder, scorer.packed_codes, scorer.items
    if selected.positions is not None:
        packed, items = packed[selected.positions], items[selected.positions]
    elif selected.live is not None:
        items = np.where(selected.live[:, None], items, np.float32(np.nan))
    scorer = CodeScorer(decoder, packed, items, scorer.n_jobs)
    _, found = scorer.nearest(queries, k)
    return found if selected.positions is None else selected.positions[found]


def _read_vectors(vectors):
    """Return vectors of codes as an array; a memory map stays on disk."""
    if sparse.issparse(vectors):
        raise ValueError(
            "vectors of codes must be dense, got a sparse matrix; re-rank by "
            "rerank='asymmetric' instead, whose queries may be sparse."
        )
    vectors = np.asarray(check_unmasked(vectors))
    if vectors.ndim != 2 or vectors.dtype.kind not in "iuf":
        raise ValueError(
            "vectors must be numbers of shape (n_samples, n_features), got an array "
            f"of shape {vectors.shape} and dtype {vectors.dtype}."
        )
    if not _is_mapped(vectors):
        assert_all_finite(vectors, input_name="vectors")
    return vectors


def _is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


def _read_query_vectors(store, codes, vectors, own):
    """Return the real vectors of the queries; they are validated when they are used."""
    if vectors is None and own:
        vectors = store["vectors"]
    if vectors is None:
        raise ValueError(
            "Re-ranking needs the real vectors of the queries; ask by "
            "kneighbors(codes, vectors=...), or put the encoder and the index into "
            "one HashedNeighbors, which does so."
        )
    if sparse.issparse(vectors):
        vectors = vectors.tocsr()
    else:
        vectors = np.asarray(check_unmasked(vectors))
    check_consistent_length(codes, vectors)
    return vectors
