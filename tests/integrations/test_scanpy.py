"""scanpy takes searches as its `transformer`, of vectors and of codes in `obsm`."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsTransformer

from skhash import HammingNeighbors, HashedNeighbors, ITQHash

N_NEIGHBORS = 15


@pytest.mark.filterwarnings("ignore")
def test_neighbors_of_cells(vectors):
    scanpy = pytest.importorskip("scanpy", reason="pip install '.[integrations]'")
    cells, encoder = scanpy.AnnData(vectors), ITQHash(64, random_state=0)
    cells.obsm["codes"] = encoder.fit_transform(vectors)
    graphs = {}
    for transformer, use_rep in (
        (HammingNeighbors(N_NEIGHBORS), "codes"),
        (KNeighborsTransformer(n_neighbors=N_NEIGHBORS, metric="manhattan"), "codes"),
        (HashedNeighbors(encoder, n_neighbors=N_NEIGHBORS), "X"),
    ):
        options = {"transformer": transformer, "use_rep": use_rep}
        scanpy.pp.neighbors(cells, **options)
        graphs[type(transformer).__name__] = cells.obsp["distances"].copy()
        assert cells.uns["neighbors"]["params"]["n_neighbors"] == N_NEIGHBORS
    rows = [graph.data.reshape(len(vectors), -1) for graph in graphs.values()]
    # Which of equally near cells come last is theirs to choose; how near, is not.
    assert len(np.unique([np.sort(row) for row in rows], axis=0)) == 1
    near = cells.obsp["connectivities"]
    assert near.shape == (400, 400) and (near != near.T).nnz == 0


@pytest.mark.filterwarnings("ignore")
def test_graphs_of_vectors_are_those_of_exact_ones(vectors):
    scanpy = pytest.importorskip("scanpy", reason="pip install '.[integrations]'")
    # No two are equally near, and sums of squares are exact.
    noise = np.random.default_rng(0).integers(64, size=vectors.shape) / 1024
    near, cells = [], scanpy.AnnData(vectors + noise)
    for transformer in (
        KNeighborsTransformer(n_neighbors=N_NEIGHBORS),
        HashedNeighbors(4, n_neighbors=N_NEIGHBORS, rerank=400, vectors=True),
    ):
        scanpy.pp.neighbors(cells, transformer=transformer, use_rep="X")
        near.append(cells.obsp["connectivities"].toarray())
    np.testing.assert_allclose(*near, atol=1e-3)
