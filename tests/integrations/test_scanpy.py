"""scanpy takes the search as its `transformer`, on codes in `obsm`."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsTransformer

from skhash import HammingNeighbors, ITQHash

N_NEIGHBORS = 15


@pytest.mark.filterwarnings("ignore")
def test_neighbors_of_cells(vectors):
    scanpy = pytest.importorskip("scanpy", reason="pip install '.[integrations]'")
    cells = scanpy.AnnData(vectors)
    cells.obsm["codes"] = ITQHash(64, random_state=0).fit_transform(vectors)
    graphs = {}
    for transformer in (
        HammingNeighbors(N_NEIGHBORS),
        KNeighborsTransformer(n_neighbors=N_NEIGHBORS, metric="manhattan"),
    ):
        options = {"transformer": transformer, "use_rep": "codes"}
        scanpy.pp.neighbors(cells, **options)
        graphs[type(transformer).__name__] = cells.obsp["distances"].copy()
        assert cells.uns["neighbors"]["params"]["n_neighbors"] == N_NEIGHBORS
    rows = [graph.data.reshape(len(vectors), -1) for graph in graphs.values()]
    # Which of equally near cells come last is theirs to choose; how near, is not.
    np.testing.assert_array_equal(*map(np.sort, rows))
    near = cells.obsp["connectivities"]
    assert near.shape == (400, 400) and (near != near.T).nnz == 0
