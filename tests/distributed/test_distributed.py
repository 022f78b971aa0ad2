"""Encoding and search by Dask give what one machine gives."""

import os
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from skhash import AdditiveQuantizer, HammingNeighbors, ITQHash, SGHEncoder
from skhash.distributed import ShardedNeighbors, encode_blocks
from skhash.distributed._encode import _light

dask = pytest.importorskip("dask", reason="pip install 'scikit-hash[dask]'")
da = pytest.importorskip("dask.array", reason="pip install 'scikit-hash[dask]'")


@pytest.fixture
def codes():
    # Few bits and many codes: ties everywhere, across blocks too.
    return np.random.default_rng(0).integers(0, 256, (300, 2)).astype(np.uint8) & 0x3C


@pytest.fixture
def queries():
    return np.random.default_rng(1).integers(0, 256, (12, 2)).astype(np.uint8) & 0x3C


def blocks_of(codes, kind, folder):
    """The codes in 20 blocks, some empty, or smaller than `n_neighbors`."""
    some = [0, 1, 4, 4, 5, 50, 60, 77, 99, 120, 130]
    cuts = [*some, 151, 170, 200, 210, 233, 250, 299, 300]
    parts = np.split(codes, cuts)
    if kind == "arrays":
        return parts
    if kind == "dask":
        return da.from_array(codes, chunks=(tuple(map(len, parts)), 1))
    paths = [folder / f"{i}.npy" for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)
    return list(map(str, paths)) if kind == "strings" else paths


def assert_same(found, wanted):
    """Distances and positions are equal, each with its type and number of rows."""
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other) and one[0].dtype == other[0].dtype
        assert_array_equal(np.concatenate(one), np.concatenate(other))


def assert_answers(sharded, codes, queries, k=7, radius=2):
    """Those of one machine, of the nearest, of some of them and of all in a ball."""
    single = HammingNeighbors(7, packed=True).fit(codes)
    for method, arguments, options in (
        ("kneighbors", (queries, k), {}),
        ("kneighbors", (queries, 400), {"radius": radius}),
        ("radius_neighbors", (queries, radius), {}),
    ):
        found, wanted = (
            getattr(one, method)(*arguments, **options) for one in (sharded, single)
        )
        assert_same(found, wanted)


@pytest.mark.parametrize("kind", ["arrays", "dask", "paths", "strings"])
def test_equals_one_machine(codes, queries, kind, tmp_path):
    sharded = ShardedNeighbors(7).fit(blocks_of(codes, kind, tmp_path))
    for k, radius in ((1, 0), (7, 2), (300, 16)):
        assert_answers(sharded, codes, queries, k, radius)


def test_defaults_and_bits(codes, queries):
    bits, query_bits = (np.unpackbits(a, axis=1) for a in (codes, queries))
    sharded = clone(ShardedNeighbors(3, radius=1, packed=False, n_jobs=2))
    sharded.fit([bits[:100], bits[100:]])
    single = HammingNeighbors(3, radius=1).fit(bits)
    for method in ("kneighbors", "radius_neighbors"):
        found, wanted = (getattr(one, method)(query_bits) for one in (sharded, single))
        assert_same(found, wanted)


def test_errors(codes, queries):
    with pytest.raises(ValueError, match="equal widths"):
        ShardedNeighbors().fit([codes, codes[:, :1]])
    with pytest.raises(ValueError, match="two axes"):
        ShardedNeighbors().fit([codes, codes[0]])
    for blocks in ([codes[:0], codes[:0]], da.from_array(codes[:0])):
        with pytest.raises(ValueError, match="no codes"):
            ShardedNeighbors().fit(blocks)
    with pytest.raises(ValueError, match="shapes \\[\\]"):
        ShardedNeighbors().fit([])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        array = da.from_array(codes, chunks=(100, 2))
        ShardedNeighbors().fit(array[array[:, 0] > 3])
    index = ShardedNeighbors().fit([codes])
    with pytest.raises(ValueError, match="301.*300"):
        index.kneighbors(queries, 301)
    for radius in (-1, 1.5):
        with pytest.raises(ValueError, match=f"radius must be .* got {radius}"):
            index.kneighbors(queries, radius=radius)


@each("normalize", [False, True])
def test_blocks_are_encoded_as_the_whole(normalize):
    X, _ = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    blocks = da.from_array(X, chunks=(400, 30))
    for encoder in (
        ITQHash(12, normalize=normalize, random_state=0).fit(X),
        SGHEncoder(12, normalize=normalize, max_epochs=1, random_state=0).fit(X),
    ):
        packed = encode_blocks(encoder, blocks)
        expected = encoder.transform_packed(X)
        assert packed.shape == expected.shape and packed.dtype == expected.dtype
        assert_array_equal(packed.compute(), expected)
        # State that only training needs is not sent along, and not lost here.
        assert not hasattr(_light(encoder), "net_")
        assert hasattr(encoder, "net_") == isinstance(encoder, SGHEncoder)
    with pytest.raises(TypeError, match="AdditiveQuantizer has no transform_packed"):
        encode_blocks(AdditiveQuantizer(2).fit(X[:300]), blocks)


def test_blocks_without_rows_are_encoded():
    """As a filter leaves them."""
    X = np.random.default_rng(0).normal(size=(90, 5)).astype(np.float32)
    X[30:60, 0] = np.abs(X[30:60, 0])
    encoder = ITQHash(4, random_state=0).fit(X)
    blocks = da.from_array(X, chunks=(30, 5))
    blocks = blocks[blocks[:, 0] < 0].compute_chunk_sizes()
    assert 0 in blocks.chunks[0]
    found = encode_blocks(encoder, blocks)
    expected = encoder.transform_packed(X[X[:, 0] < 0])
    assert_array_equal(found.compute(), expected)
    index = ShardedNeighbors(3).fit(found)
    wanted = HammingNeighbors(3, packed=True).fit(expected).kneighbors(expected)
    assert_array_equal(index.kneighbors(expected), wanted)


# Workers that are lost, and late


@contextmanager
def limited(seconds=180):
    """Raise an error where Dask waits longer; Windows knows no such alarm."""

    def stop(*_):
        raise TimeoutError(f"Dask took more than {seconds} s: are its workers gone?")

    alarm = getattr(signal, "alarm", lambda seconds: None)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, stop)
    alarm(seconds)
    try:
        yield
    finally:
        alarm(0)


@pytest.fixture(scope="module")
def cluster_client():
    """Two workers, started anew when they die."""
    distributed = pytest.importorskip("distributed")
    with (
        # It gives up a worker that is not back in time, and later waits for nobody.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
        # Dask closes none that is about to start.
        client.wait_for_workers(2, timeout=180)


@pytest.fixture
def client(cluster_client):
    """The client, when both workers are there."""
    with limited():
        cluster_client.wait_for_workers(2)
        yield cluster_client


def dying_once(function, folder):
    """A function whose first call ends the process that calls it.

    It is pickled whole, as workers cannot import this file.
    """

    def call(*arguments, **options):
        import os

        try:
            (folder / "died").mkdir()
        except FileExistsError:
            return function(*arguments, **options)
        os.abort()

    return call


def test_a_worker_that_dies_over_a_block(client, tmp_path):
    X, _ = load_digits(return_X_y=True)
    encoder = ITQHash(12, random_state=0).fit(X)
    expected, blocks = encoder.transform_packed(X), da.from_array(X, chunks=(300, -1))
    blocks = blocks.map_blocks(dying_once(np.asarray, tmp_path), meta=blocks._meta)
    blocks = encode_blocks(encoder, blocks)
    assert_array_equal(blocks.compute(), expected)
    assert_answers(ShardedNeighbors(7).fit(blocks), expected, expected[:9])
    assert (tmp_path / "died").exists()


@pytest.mark.long
def test_a_dead_worker_loses_nothing(client, codes, queries, tmp_path):
    index = ShardedNeighbors(7).fit(blocks_of(codes, "paths", tmp_path))
    assert_answers(index, codes, queries)
    holders = client.who_has(index.shards_)
    pids = client.run(os.getpid)
    dead = next(address for one in holders.values() for address in one)
    os.kill(pids[dead], getattr(signal, "SIGKILL", signal.SIGTERM))
    assert_answers(index, codes, queries)
