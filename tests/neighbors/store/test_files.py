"""Saved indexes: the same answers, damage is named, a killed writer loses nothing."""

import io
import json
import pickle
import shutil
import sys
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from killed_saves import kill_saves
from numpy.testing import assert_array_equal

import skhash
from skhash.codes import pack_bits
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.neighbors.search.pruned import Clusters
from skhash.neighbors.store import files
from skhash.neighbors.store.files import ARRAYS
from skhash.persistence import directory
from skhash.persistence.directory import MANIFEST, checksum_of

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (300, 70), dtype=np.uint8)
QUERIES = RNG.integers(0, 2, (7, 70), dtype=np.uint8)
IDS = np.array([f"code {i}" for i in range(300)])


def make_index(**params):
    index = HammingNeighbors(4, radius=30, n_jobs=1, **params)
    return index.fit(BITS, BITS[:, :3], ids=IDS).remove(IDS[:9])


@pytest.fixture
def path(tmp_path):
    make_index().save(tmp_path / "index")
    return tmp_path / "index"


def array_file(path, name):
    (found,) = path.glob(f"skhash-{name}-*.npy")
    return found


def assert_same(index, other):
    """The same state, and the same answers."""
    assert index.get_params() == other.get_params()
    for name in ("packed_codes_", "live_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(index, name), getattr(other, name))
    for name in ("y_", "ids_", "feature_names_in_"):
        assert hasattr(index, name) == hasattr(other, name)
        if hasattr(index, name):
            np.testing.assert_array_equal(getattr(index, name), getattr(other, name))
    for found, expected in zip(
        index.kneighbors(QUERIES), other.kneighbors(QUERIES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def load_all_ways(path, cls=HammingNeighbors):
    yield cls.load(path)
    yield cls.load(path, mmap=True)
    yield cls.load(path, mmap=True, verify=False)
    yield cls.load(path, verify=False)
    yield skhash.load(path)


@pytest.mark.parametrize("n_bits", [64, 70])
@pytest.mark.parametrize("kind", ["bare", "whole", "numbers"])
def test_saved_and_loaded(n_bits, kind, tmp_path):
    """With and without the columns, of whole words and others."""
    index = HammingNeighbors(3, packed=kind == "bare", radius=7)
    bits = np.zeros((300, 70), dtype=np.uint8)
    bits[:, :n_bits] = BITS[:, :n_bits]
    global_queries = QUERIES
    if kind == "bare":
        index.fit(pack_bits(bits))
    elif kind == "whole":
        index.fit(bits, BITS[:, :3], ids=IDS).remove(IDS[::7])
    else:
        index.partial_fit(bits[:200], IDS[:200], ids=np.arange(200))
        index.partial_fit(bits[200:], IDS[200:], ids=np.arange(-100, 0))
    asked = pack_bits(global_queries) if kind == "bare" else global_queries
    index.save(tmp_path / "index")
    for loaded in load_all_ways(tmp_path / "index"):
        assert loaded.get_params() == index.get_params()
        np.testing.assert_array_equal(loaded.packed_codes_, index.packed_codes_)
        for found, expected in zip(
            loaded.kneighbors(asked), index.kneighbors(asked), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
        for name in ("ids_", "y_", "live_"):
            assert hasattr(loaded, name) == hasattr(index, name)
            if hasattr(index, name):
                np.testing.assert_array_equal(
                    getattr(loaded, name), getattr(index, name)
                )


def test_names_of_columns_and_labels_of_a_data_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(BITS, columns=[f"bit {i}" for i in range(70)])
    y = pandas.Series(IDS, dtype=object)
    index = HammingNeighbors(2).fit(frame, y)
    index.save(tmp_path)
    loaded = HammingNeighbors.load(tmp_path)
    np.testing.assert_array_equal(loaded.feature_names_in_, index.feature_names_in_)
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.y_, IDS)
    index.fit(BITS, np.array([*IDS[:-1], 3], dtype=object))
    with pytest.raises(ValueError, match="y holds Python objects"):
        index.save(tmp_path)
    assert_files_are_whole(tmp_path)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
def test_what_codes_stand_for_is_saved(metric, tmp_path):
    codebook = RNG.normal(size=(70, 5)), RNG.normal(size=5)
    blocks = RNG.normal(size=(9, 256, 5)), RNG.normal(size=5)
    vectors = BITS @ codebook[0] + codebook[1]
    asked = QUERIES @ codebook[0] + codebook[1] + RNG.normal(size=(7, 5))
    decoder = SimpleNamespace(codebook_=blocks[0], offset_=blocks[1], n_bits_=70)
    for what in ({"decoder": codebook}, {"decoder": decoder}, {"vectors": vectors}):
        index = AsymmetricNeighbors(4, metric=metric, n_candidates=40)
        index.fit(BITS, **what)
        index.save(tmp_path)
        for loaded in load_all_ways(tmp_path, AsymmetricNeighbors):
            found = loaded.kneighbors(asked, codes=QUERIES)
            expected = index.kneighbors(asked, codes=QUERIES)
            np.testing.assert_array_equal(found, expected)


def test_the_files_are_plain(path):
    """Ten lines of NumPy read them."""
    manifest = json.loads((path / MANIFEST).read_text())
    columns = {
        name: np.load(
            path / f"skhash-{name}-{entry['sha256'][:16]}.npy", allow_pickle=False
        )
        for name, entry in manifest["arrays"].items()
    }
    np.testing.assert_array_equal(
        columns["codes"][:, : manifest["n_bytes"]], pack_bits(BITS)
    )
    assert not columns["codes"][:, manifest["n_bytes"] :].any()
    np.testing.assert_array_equal(columns["ids"], IDS)
    np.testing.assert_array_equal(columns["y"], BITS[:, :3])
    np.testing.assert_array_equal(np.flatnonzero(~columns["live"]), np.arange(9))
    assert len(list(path.iterdir())) == 5


def test_an_open_index_changes_without_its_files(path):
    content = {file: file.read_bytes() for file in path.iterdir()}
    index = HammingNeighbors.load(path, mmap=True)
    other = make_index()
    for one in (index, other):
        one.partial_fit(QUERIES, QUERIES[:, :3], ids=IDS[:7]).remove(IDS[20:30])
    assert_same(index, other)
    assert_same(index.compact(), other.compact())
    assert content == {file: file.read_bytes() for file in path.iterdir()}
    index.save(path)
    assert_same(HammingNeighbors.load(path, mmap=True), other)
    assert_files_are_whole(path)


def test_opening_reads_no_codes(path):
    """Every process that maps the files shares them."""
    index = HammingNeighbors.load(path, mmap=True, verify=False)
    codes = index.packed_codes_
    while isinstance(codes.base, np.ndarray):
        codes = codes.base
    assert isinstance(codes, np.memmap)
    assert not codes.flags.writeable


def test_an_open_index_outlives_its_files(path):
    """Another process saves after this one has opened, and removes the files."""
    index = HammingNeighbors.load(path, mmap=True)
    make_index().remove(IDS[9:100]).save(path)
    assert_same(index, make_index())


def test_opening_while_another_process_saves(path, monkeypatch):
    """The manifest that was read names files that are gone; the new one is read."""
    new = make_index().remove(IDS[9:100])
    read = directory.read_manifest

    def read_and_let_save(folder):
        manifest = read(folder)
        monkeypatch.setattr(directory, "read_manifest", read)
        new.save(folder)
        return manifest

    monkeypatch.setattr(directory, "read_manifest", read_and_let_save)
    assert_same(HammingNeighbors.load(path), new)


def test_opening_while_others_save_there_and_back(path, monkeypatch):
    """A file that the manifest names is missing, and then all is as it was."""
    old, new, map_file = make_index(), changed_index(), files._map

    def map_and_let_save(folder, name, entry):
        monkeypatch.setattr(files, "_map", map_file)
        new.save(folder)
        try:
            return map_file(folder, name, entry)
        finally:
            old.save(folder)

    monkeypatch.setattr(files, "_map", map_and_let_save)
    assert_same(HammingNeighbors.load(path), old)


def test_pickle_and_joblib_of_an_open_index(path, tmp_path):
    index = HammingNeighbors.load(path, mmap=True)
    assert_same(pickle.loads(pickle.dumps(index)), make_index())
    file = io.BytesIO()
    joblib.dump(index, file)
    file.seek(0)
    assert_same(joblib.load(file), make_index())
    joblib.dump(index, tmp_path / "index.joblib")
    mapped = joblib.load(tmp_path / "index.joblib", mmap_mode="r")
    assert_same(mapped, make_index())


def test_an_empty_index(path, tmp_path):
    index = make_index().remove(IDS[9:]).compact()
    index.save(tmp_path / "empty")
    for loaded in load_all_ways(tmp_path / "empty"):
        assert loaded.n_samples_fit_ == 0
        loaded.partial_fit(BITS, BITS[:, :3], ids=IDS).remove(IDS[:9])
        assert_same(loaded, make_index())


def answer(path, mmap):
    return HammingNeighbors.load(path, mmap=mmap).kneighbors(QUERIES)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["codes", "y", "ids", "live"])
def test_flipped_bits(path, name, mmap):
    """Refused at once, or where the file is mapped, before the first answer."""
    file = array_file(path, name)
    content = file.read_bytes()
    for position in np.linspace(0, len(content) - 1, 30).astype(int):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"damaged .*: {file.name}"):
            answer(path, mmap)
    file.write_bytes(content)
    answer(path, mmap)


def test_a_damaged_map_is_refused_by_all_that_reads_it(path):
    file = array_file(path, "ids")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    index = HammingNeighbors.load(path, mmap=True)
    for read in (
        lambda: index.kneighbors(QUERIES),
        lambda: index.radius_neighbors(QUERIES),
        lambda: index.ids_,
        lambda: index.packed_codes_,
        lambda: index.remove(IDS[20:21]),
        lambda: index.partial_fit(QUERIES, QUERIES[:, :3], ids=IDS[:7]),
        lambda: index.compact(),
        lambda: index.save(path),
        lambda: pickle.dumps(index),
    ):
        with pytest.raises(
            ValueError, match="damaged .*: skhash-ids-.* does not match its"
        ):
            read()
    HammingNeighbors.load(path, mmap=True, verify=False).kneighbors(QUERIES)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["codes", "live"])
def test_truncated_and_longer_files(path, name, mmap):
    file = array_file(path, name)
    content = file.read_bytes()
    for other in (b"", content[:60], content[:-1], content + b"\0"):
        file.write_bytes(other)
        with pytest.raises(ValueError, match=f"damaged .*: {file.name} has"):
            HammingNeighbors.load(path, mmap=mmap)
    file.unlink()
    with pytest.raises(ValueError, match=f"damaged .*: {file.name} is missing"):
        HammingNeighbors.load(path, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True])
def test_swapped_files(path, tmp_path, mmap):
    """Codes of another index, of the same shape or another one; files for others."""
    HammingNeighbors().fit(BITS[::-1]).save(tmp_path / "other")
    codes = array_file(path, "codes")
    shutil.copy(array_file(tmp_path / "other", "codes"), codes)
    with pytest.raises(ValueError, match="damaged .* does not match its checksum"):
        answer(path, mmap)
    shutil.copy(array_file(path, "ids"), codes)
    with pytest.raises(ValueError, match=f"damaged .*: {codes.name}"):
        answer(path, mmap)
    shutil.copy(tmp_path / "other" / MANIFEST, path / MANIFEST)
    with pytest.raises(ValueError, match="is missing"):
        answer(path, mmap)


def test_header_of_another_array(path):
    """The size of the file is right, and the manifest says another shape."""
    file = array_file(path, "codes")
    codes = np.load(file)
    np.save(file, codes.reshape(600, -1))
    with pytest.raises(ValueError, match=r"shape \(600, 8\).*instead of \[300, 16\]"):
        HammingNeighbors.load(path, mmap=True)


def rewrite(path, **changes):
    """Change the manifest as its writer would: with a checksum that fits."""
    manifest = json.loads((path / MANIFEST).read_text())
    manifest.pop("checksum")
    for key, value in changes.items():
        manifest[key] = value(manifest[key])
    manifest["checksum"] = checksum_of(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("class", lambda _: "ITQHash", "holds a ITQHash"),
        ("format_version", lambda version: version + 1, "reads up to"),
        ("params", lambda params: {**params, "wings": 2}, r"not know: .*'wings'"),
        ("arrays", lambda a: {**a, "../../x": a["y"]}, r"not know: \['../../x'\]"),
    ],
)
def test_manifests_of_others(path, key, change, message):
    rewrite(path, **{key: change})
    with pytest.raises(ValueError, match=message):
        HammingNeighbors.load(path)


def test_columns_of_other_lengths(path, tmp_path):
    HammingNeighbors().fit(BITS[:50], BITS[:50, 0]).save(tmp_path / "other")
    manifest = json.loads((tmp_path / "other" / MANIFEST).read_text())
    shutil.copy(array_file(tmp_path / "other", "y"), path)
    rewrite(path, arrays=lambda arrays: {**arrays, "y": manifest["arrays"]["y"]})
    with pytest.raises(ValueError, match="differ in length"):
        HammingNeighbors.load(path)


def test_flipped_bits_in_the_manifest(path):
    manifest = path / MANIFEST
    content = manifest.read_bytes()
    before = json.loads(content)
    for position in range(0, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 16
        manifest.write_bytes(damaged)
        try:
            HammingNeighbors.load(path)
        except ValueError as error:
            assert "damaged" in str(error) or "format version" in str(error)
        else:
            assert json.loads(manifest.read_bytes()) == before


def test_what_is_no_saved_index(tmp_path):
    with pytest.raises(FileNotFoundError, match="not a saved skhash"):
        HammingNeighbors.load(tmp_path)
    (tmp_path / "embeddings.npy").touch()
    with pytest.raises(FileExistsError, match="other content"):
        make_index().save(tmp_path)
    with pytest.raises(FileExistsError, match="is a file"):
        make_index().save(tmp_path / "embeddings.npy")
    (tmp_path / "encoder").mkdir()
    encoder = skhash.PCAHash(n_bits=3).fit(RNG.normal(size=(30, 5)))
    encoder.save(tmp_path / "encoder")
    with pytest.raises(ValueError, match="holds a skhash.linear.PCAHash"):
        HammingNeighbors.load(tmp_path / "encoder")
    make_index().save(tmp_path / "encoder")
    assert_files_are_whole(tmp_path / "encoder")
    assert_same(skhash.load(tmp_path / "encoder"), make_index())


def assert_files_are_whole(path):
    """There are the manifest, the files that it names, and nothing else."""
    arrays = json.loads((path / MANIFEST).read_text())["arrays"]
    names = {
        f"skhash-{name}-{entry['sha256'][:16]}.npy" for name, entry in arrays.items()
    }
    assert {file.name for file in path.iterdir()} == {MANIFEST, *names}
    assert arrays.keys() <= set(ARRAYS)


def changed_index():
    """Another state of `make_index`: more codes."""
    return make_index().partial_fit(QUERIES, QUERIES[:, :3], ids=IDS[:7])


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What killed writers of `changed_index` left, where there was an index or not."""
    folder = tmp_path_factory.mktemp("saves")
    make_index().save(folder / "old")
    changed_index().save(folder / "new")
    originals = folder / "old", folder / "none"
    left = kill_saves(originals, folder / "new", folder / "killed")
    return dict(zip([True, False], left, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("old_exists", [True, False])
def test_a_killed_writer_leaves_the_old_index_whole(killed, old_exists):
    old, new = make_index(), changed_index()
    states = []
    for folder in killed[old_exists]:
        if not (folder / MANIFEST).exists():
            assert not old_exists
            states.append("none")
        else:
            loaded = HammingNeighbors.load(folder)
            is_new = loaded.n_samples_fit_ == new.n_samples_fit_
            assert_same(loaded, new if is_new else old)
            states.append("new" if is_new else "old")
        # The next save works, and cleans up.
        new.save(folder)
        assert_files_are_whole(folder)
    before = "old" if old_exists else "none"
    assert states == sorted(states, key=[before, "new"].index)
    # Four arrays and the manifest are each written and renamed before the new state.
    assert states.count(before) >= 14
    assert states.count("new") >= 1 + 4 * old_exists


def test_leftovers_go_before_a_save_begins(path, monkeypatch):
    """They may be what has filled the disk."""
    whole = {file.name for file in path.iterdir()}
    for name in (
        "skhash-codes-0123456789abcdef.npy",
        "skhash-y-0123456789abcdef.npy.part",
        "manifest.json.part",
    ):
        (path / name).write_text("half")

    def full_disk(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(files._HashingFile, "write", full_disk)
    with pytest.raises(OSError, match="disk full"):
        make_index().remove(IDS[9:100]).save(path)
    left = {file.name for file in path.iterdir()}
    assert {name for name in left if (path / name).stat().st_size} == whole
    assert_same(HammingNeighbors.load(path), make_index())


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("n_bits", [13, 64, 200])
def test_clusters_are_saved_with_the_codes(n_bits, mmap, tmp_path, monkeypatch):
    bits = np.random.default_rng(0).integers(0, 2, (3000, n_bits), dtype=np.uint8)
    index = HammingNeighbors(4, algorithm="pruned", radius=n_bits // 4)
    index.fit(bits).kneighbors(bits[:3])
    index.remove(np.arange(0, 3000, 3)).save(tmp_path / "index")
    expected = HammingNeighbors(4, algorithm="brute").fit(bits[np.arange(3000) % 3 > 0])

    def never(*_):
        raise AssertionError("clusters are made anew")

    with monkeypatch.context() as patch:
        patch.setattr(Clusters, "make", never)
        for path in (tmp_path / "index", tmp_path / "again"):
            loaded = HammingNeighbors.load(path, mmap=mmap)
            loaded.save(tmp_path / "again")  # before anything is searched, and after
            for queries in (bits[:2], bits[:60]):
                found = loaded.kneighbors(queries)
                for one, other in zip(found, expected.kneighbors(queries), strict=True):
                    kept = one if one.dtype == np.int32 else one - one // 3 - 1
                    assert_array_equal(kept, other)
                inside = loaded.radius_neighbors(queries, return_distance=False)
                others = expected.radius_neighbors(
                    queries, n_bits // 4, return_distance=False
                )
                for one, other in zip(inside, others, strict=True):
                    assert_array_equal(one - one // 3 - 1, other)
    # Other codes have other clusters.
    loaded.partial_fit(bits[:5]).save(tmp_path / "more")
    names = {file.name.split("-")[1] for file in (tmp_path / "more").glob("*.npy")}
    assert names == {"codes", "live"}
    assert loaded.kneighbors(bits[:1], 1)[0] == [[0]]
