"""The backend of vicinity, under `Vicinity` and its evaluation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances

K = 7
METRICS = {"cosine": cosine_distances, "euclidean": euclidean_distances}


@pytest.fixture(scope="module")
def script(load):
    return load("vicinity_backend", "vicinity")


def assert_nearest(found, queries, vectors, metric):
    """`found` are the K nearest by true distances, with these."""
    truth = METRICS[metric](queries.astype(float), vectors.astype(float))
    for (positions, distances), own in zip(found, truth, strict=True):
        assert_allclose(distances, np.sort(own)[:K], rtol=1e-3, atol=1e-6)
        assert_allclose(own[positions], distances, rtol=1e-3, atol=1e-6)
        assert len(set(positions.tolist())) == K


@pytest.mark.parametrize("metric", METRICS)
def test_vectors_that_come_and_go(script, metric, vectors, queries):
    """With all vectors compared, answers are true ones."""
    arguments = {"metric": metric, "n_bytes": 2, "rerank": 500}
    backend = script.SkhashBackend.from_vectors(vectors[:300], **arguments)
    items = script.Vicinity([f"item {i}" for i in range(300)], backend)
    items.insert([f"new {i}" for i in range(100)], vectors[300:])
    items.delete(["item 3", "new 5"])
    left = np.delete(vectors, [3, 305], axis=0)
    assert (len(backend), backend.dim) == (398, 64)
    assert_nearest(backend.query(queries, K), queries, left, metric)
    assert items.evaluate(left, queries, k=K)[1] == 1
    bound = np.median(backend.query(queries, K)[0][1])
    within = items.query_threshold(queries[:1], bound, max_k=K)[0]
    assert within == items.query(queries[:1], K)[0][: K // 2 + 1]
    # No more are found than are compared.
    backend.search.set_params(rerank=20)
    backend.arguments.rerank = 20
    assert [len(positions) for positions, _ in backend.query(queries, 50)] == [20] * 20


@pytest.mark.parametrize("metric", METRICS)
def test_codes_alone(script, metric, vectors, queries, tmp_path):
    """Distances are those of what the codes decode to, and stay when saved."""
    arguments = {"metric": metric, "n_bytes": 2}
    backend = script.SkhashBackend.from_vectors(vectors, **arguments)
    words = [str(i) for i in range(len(vectors))]
    items = script.Vicinity(words, backend, metadata={"made": "here"})
    items.save(tmp_path / "folder")
    loaded = script.load_items(tmp_path / "folder")
    assert loaded.query(queries, K) == items.query(queries, K)
    assert (loaded.items, loaded.metadata) == (words, {"made": "here"})
    assert loaded.backend.arguments == backend.arguments
    if metric == "cosine":
        # Powers of two leave the digits of rows as they are.
        rows = np.ldexp(vectors, np.arange(len(vectors))[:, None] % 7)
        longer = script.SkhashBackend.from_vectors(rows, n_bytes=2)
        codes = (one.search.index_.packed_codes_ for one in (longer, backend))
        assert_array_equal(*codes)
        codes = backend.search.index_.packed_codes_
        decoded = backend.search.encoder_.inverse_transform(codes)
        truth = cosine_distances(queries, decoded)
        # The index keeps a byte of the length of what is decoded: 0.4 % of it.
        for (found, distances), own in zip(
            backend.query(queries, K), truth, strict=True
        ):
            assert_allclose(1 - distances, 1 - own[found], rtol=1e-2)


def test_the_script(script, capsys):
    script.main()
    assert capsys.readouterr().out.endswith("recall 1.000\n")
