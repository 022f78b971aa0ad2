"""Vectors in a file of the user, which an index reads in place."""

import copy
import io
import os
import pickle

import joblib
import numpy as np
import pytest
from mutants import read, write
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from special_files import make_link, make_pipe

import skhash
from skhash import HashedNeighbors
from skhash.linear import RandomHyperplaneHash
from skhash.persistence.estimators import FILE

X = np.random.default_rng(0).normal(size=(400, 64))
QUERIES = np.random.default_rng(1).normal(size=(30, 64))


def by_vectors(path, rerank=400, **params):
    encoder = RandomHyperplaneHash(21, random_state=0)
    return HashedNeighbors(encoder, rerank=rerank, vectors=path, **params)


@pytest.fixture
def file(tmp_path):
    np.save(tmp_path / "vectors.npy", X)
    return tmp_path / "vectors.npy"


def joblib_copy(search):
    with io.BytesIO() as file:
        joblib.dump(search, file)
        file.seek(0)
        return joblib.load(file)


@pytest.mark.parametrize(
    "copied",
    [lambda search: pickle.loads(pickle.dumps(search)), copy.deepcopy, joblib_copy],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_a_copy_does_not_read_a_file_that_was_replaced(file, copied):
    """A shorter one would be read beyond its end."""
    searches = [by_vectors(file).fit(X) for _ in range(2)]
    searches[1].remove([3]).compact()
    expected = [search.kneighbors(QUERIES) for search in searches]

    def check(searches):
        found = [search.kneighbors(QUERIES) for search in searches]
        np.testing.assert_array_equal(found, expected)

    check(map(copied, searches))
    os.rename(file, file.with_name("old.npy"))
    for other in (X[:10], X[::-1]):
        np.save(file, other)
        for search in searches:
            with pytest.raises(ValueError, match=rf"{file} (has 10 rows|changed)"):
                copied(search).kneighbors(QUERIES)
    check(searches)  # by the file that they opened


@pytest.mark.parametrize("mmap", [False, True])
def test_a_compacted_index_reads_the_file_where_it_lies(file, tmp_path, mmap):
    search = by_vectors(file, rerank=50)
    search.fit(X).remove(np.arange(0, 200, 3)).compact()
    search.remove([1, 2]).compact()  # once more
    rows = np.setdiff1d(np.arange(400), [*range(0, 200, 3), 2, 4])
    by_copy = clone(search).set_params(vectors=True)
    by_copy.set_params(encoder=FrozenEstimator(search.encoder_)).fit(X[rows])

    def check(search):
        for found, expected in [
            (search.kneighbors(QUERIES), by_copy.kneighbors(QUERIES)),
            (search.kneighbors(), by_copy.kneighbors()),
            (np.asarray(search.index_._store["vectors"]), X[rows]),
        ]:
            np.testing.assert_array_equal(found, expected)

    check(search)
    assert len(pickle.dumps(search)) < len(pickle.dumps(by_copy)) / 2
    search.save(tmp_path / "index")
    assert (tmp_path / "index" / FILE).stat().st_size < X.nbytes / 2
    loaded = skhash.load(tmp_path / "index", mmap=mmap)
    check(loaded)
    loaded.partial_fit(X[:1]).remove([len(rows)]).compact()
    check(loaded)
    np.save(file, X[:-1])
    for verify in (False, True):
        with pytest.raises(ValueError, match="has 399 rows, fewer than when it was"):
            skhash.load(tmp_path / "index", mmap=mmap, verify=verify)


@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8", "u1"])
@pytest.mark.parametrize("seed", range(6))
def test_added_vectors_are_in_memory_and_the_others_in_the_file(tmp_path, dtype, seed):
    """Whatever is done to it, it answers as an index that has a copy of all."""
    random = np.random.default_rng(seed)
    rows = (40 * random.random((300, 64))).astype(dtype)
    np.save(tmp_path / "vectors.npy", rows)
    encoder = FrozenEstimator(RandomHyperplaneHash(21, random_state=0).fit(rows))
    params = {"rerank": 50, "n_neighbors": 7}
    search = HashedNeighbors(encoder, vectors=tmp_path / "vectors.npy", **params)
    by_copy = HashedNeighbors(encoder, vectors=True, **params)
    searches, n = [search.fit(rows, ids=range(300)), by_copy], 300
    by_copy.fit(rows, ids=range(300))
    assert by_copy.nbytes_ - search.nbytes_ == by_copy.index_._store["vectors"].nbytes
    queries = 40 * random.random((9, 64))
    for step in random.permutation(["add", "remove", "compact", "replace", "save"] * 2):
        added = 40 * random.random((random.integers(1, 40), 64)).astype("f4")
        live = by_copy.index_.ids_[by_copy.index_.live_]
        some = random.choice(live, 20, replace=False)
        for place, search in enumerate(searches):
            if step == "add":
                search.partial_fit(added, ids=range(n, n + len(added)))
            elif step == "replace":
                search.replace(added[:20], ids=some[: len(added)])
            elif step == "remove":
                search.remove(some)
            elif step == "compact":
                search.compact()
            else:
                search.save(tmp_path / f"{place}")
                mmap = bool(seed % 2)
                searches[place] = skhash.load(tmp_path / f"{place}", mmap=mmap)
        n += len(added)
        search, by_copy = searches
        for options in ({}, {"return_ids": True}):
            found = search.kneighbors(queries, **options)
            np.testing.assert_array_equal(found, by_copy.kneighbors(queries, **options))
        assert isinstance(search.index_._store["vectors"].array.base, np.memmap)
    np.testing.assert_array_equal(
        search.compact().kneighbors(), by_copy.compact().kneighbors()
    )
    sizes = [len(pickle.dumps(search)) for search in searches]
    assert sizes[1] - sizes[0] > 100 * rows[0].nbytes


def test_a_link_to_a_file_of_another_name(file, tmp_path):
    """As caches of downloads have them."""
    make_link(file, file.rename(tmp_path / "content"))
    search = by_vectors(file).fit(X)
    search.save(tmp_path / "index")
    searches = search, skhash.load(tmp_path / "index")
    np.testing.assert_array_equal(*[one.kneighbors(QUERIES) for one in searches])


def test_copies_of_a_search_grow_each_on_its_own(file):
    search = by_vectors(file).fit(X)
    search.partial_fit(X[:100] + 1).partial_fit(X[:1] + 2)  # with room for more
    others = [copy.copy(search) for _ in range(2)]
    for other in others:
        other.index_ = copy.copy(search.index_)
    for sign, other in zip((1, -1), others, strict=True):
        other.partial_fit(sign * QUERIES)
    for sign, other in zip((1, -1), others, strict=True):
        distances, positions = other.kneighbors(sign * QUERIES, 1)
        np.testing.assert_array_equal(positions[:, 0], 501 + np.arange(30))
        assert not distances.any()
    assert (search.kneighbors(QUERIES, 1)[0] > 0).all()


AXES = np.linalg.qr(np.random.default_rng(2).normal(size=(64, 64)))[0]
STEPS = None, FunctionTransformer(np.dot, kw_args={"b": AXES})


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i4"])
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("step", STEPS)
def test_rows_of_the_file_are_those_of_the_fit(file, metric, step, given, dtype):
    """Up to rounding, however far they are from the origin, and not as encoders see."""
    far = 2048 if dtype == "f2" else 4.2e6
    rows = (np.round(1000 * X) + far).astype(given)
    rows[3] = rows[7]
    rows[3, 0] += 4
    if dtype == "f2":
        rows = rows.astype(dtype).astype(given)
    search = by_vectors(file, metric=metric)
    search.set_params(encoder=make_pipeline(step, search.encoder))
    kept = rows.astype(dtype)
    np.save(file, kept)
    search.fit(rows)
    swapped = kept.copy()
    swapped[[3, 7]] = kept[[7, 3]]
    for other in (kept[::-1], swapped):
        np.save(file, other)
        with pytest.raises(ValueError, match="holds other rows than X"):
            search.fit(rows)


@pytest.mark.parametrize(
    "forge",
    [
        lambda places: places - 1,
        lambda places: places + 1,
        lambda places: places[1:],
        lambda places: places[:, None],
        lambda places: places.astype(float),
        lambda places: places.astype(np.int32),
    ],
)
def test_a_saved_index_names_rows_that_the_file_has(file, tmp_path, forge):
    search = by_vectors(file).fit(X).remove(np.arange(1, 399)).compact()
    search.save(tmp_path / "index")
    manifest, arrays = read(tmp_path / "index")
    places = arrays["index_/store/places"]
    arrays["index_/store/places"] = np.ascontiguousarray(forge(places))
    write(tmp_path / "index", manifest, arrays)
    with pytest.raises(ValueError, match="index is damaged"):
        skhash.load(tmp_path / "index", mmap=True, verify=False)


def test_what_is_no_file_of_vectors_is_refused(tmp_path):
    """Nothing waits for a pipe, and nothing is unpickled; see `open_vectors`."""
    make_pipe(tmp_path / "pipe")
    for name in ("pipe", "", "absent.npy"):
        with pytest.raises(FileNotFoundError, match=f"no file {tmp_path}"):
            by_vectors(tmp_path / name).fit(X)
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    np.save(tmp_path / "bits.npy", X > 0)
    np.savez(tmp_path / "two.npz", a=X, b=X)
    np.savetxt(tmp_path / "whole.csv", X, delimiter=",")
    for path in {*tmp_path.iterdir()} - {tmp_path / "pipe"}:
        with pytest.raises(ValueError, match=f"{path} (is|holds|cannot be read)"):
            by_vectors(path).fit(X)


@pytest.mark.parametrize("suffix", [".fvecs", ".fbin", ".safetensors"])
def test_other_files_of_plain_numbers_are_read_in_place(tmp_path, suffix):
    rows, path = X.astype(np.float32), tmp_path / f"vectors{suffix}"
    if suffix == ".fvecs":
        heads = np.full((400, 1), 64, dtype="<i4").view("<f4")
        np.hstack([heads, rows]).tofile(path)
    elif suffix == ".fbin":
        path.write_bytes(np.array([400, 64], dtype="<u4").tobytes() + rows.tobytes())
    else:
        pytest.importorskip("safetensors.numpy").save_file({"a": rows}, path)
    expected = by_vectors(True).fit(rows).remove([3]).compact().kneighbors(QUERIES)
    search = by_vectors(path).fit(rows).remove([3]).compact()
    copies = [search, pickle.loads(pickle.dumps(search))]
    for search in copies:
        np.testing.assert_array_equal(search.kneighbors(QUERIES), expected)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.with_name("other").write_bytes(content)
    os.replace(path.with_name("other"), path)
    with pytest.raises(ValueError, match=f"{path} changed since it was"):
        pickle.loads(pickle.dumps(search)).kneighbors(QUERIES)
    with pytest.raises(ValueError, match="holds other rows than X"):
        by_vectors(path).fit(rows)
