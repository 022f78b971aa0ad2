"""Saved searches: the same answers, damage is named, a killed writer loses nothing."""

import json
import os
import shutil
import stat
import sys
import warnings

import numpy as np
import pytest
from killed_saves import kill_saves
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import EarlyStopping

import skhash
from skhash import HashedNeighbors, ITQHash, PCAHash, SGHEncoder
from skhash.linear import LinearDecoder
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, PrefixNeighbors
from skhash.persistence import directory
from skhash.persistence.directory import MANIFEST, checksum_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 12)) @ RNG.normal(size=(12, 12))
MORE, QUERIES = X[150:] + 0.1, RNG.normal(size=(7, 12)) @ X[:12]
LABELS = np.arange(200) % 3
IDS = np.array([f"row {i}" for i in range(200)])
MORE_IDS = np.array([f"another {i}" for i in range(50)])


def index(kind=AsymmetricNeighbors, **params):
    return kind(4, n_jobs=1, **params)


SEARCHES = {
    "default index": HashedNeighbors(ITQHash(9, random_state=0)),
    "codes": HashedNeighbors(ITQHash(9, random_state=0), index(HammingNeighbors)),
    "vectors": HashedNeighbors(PCAHash(9), index(n_candidates=40), keep_vectors=True),
    "codebook of the encoder": HashedNeighbors(
        SGHEncoder(9, max_epochs=1, random_state=0, normalize=True),
        index(n_candidates=40),
    ),
    "codebook of least squares": HashedNeighbors(PCAHash(9), index(n_candidates=40)),
    "decoder": HashedNeighbors(
        PCAHash(9),
        index(),
        decoder=LinearDecoder(n_alternations=2, n_restarts=3),
    ),
    "frozen": HashedNeighbors(
        FrozenEstimator(ITQHash(9, random_state=1).fit(X[50:])),
        index(n_candidates=40),
        keep_vectors=True,
    ),
}


# Encoder and decoder have an array file each, and the index has codes, y, ids, live,
# items, codebook and offset; there is a manifest to each and to the whole.
N_FILES = 1 + 1 + 7 + 4


def make_search(kind="decoder"):
    """A search with names, and some rows that were removed."""
    search = clone(SEARCHES[kind]).fit(X, LABELS, ids=IDS)
    search.index_.remove(IDS[:9])
    return search


def changed_search():
    """Another state of `make_search`: more rows."""
    return make_search().partial_fit(MORE, LABELS[:50], ids=MORE_IDS)


@pytest.fixture
def path(tmp_path):
    make_search().save(tmp_path / "search")
    return tmp_path / "search"


def assert_same(found, expected):
    """The same parameters, and the same answers."""
    assert repr(found) == repr(expected)
    assert repr(found.get_params()) == repr(expected.get_params())
    assert type(found.encoder_) is type(expected.encoder_)
    assert found.index_.get_params() == expected.index_.get_params()
    for name in ("n_features_in_", "feature_names_in_", "decoder_"):
        assert hasattr(found, name) == hasattr(expected, name)
    assert found.n_features_in_ == expected.n_features_in_
    codes = found.index_.packed_codes_
    np.testing.assert_array_equal(codes, expected.index_.packed_codes_)
    for options in ({}, {"return_ids": True}, {"ids": IDS[::2]}):
        pairs = zip(
            found.kneighbors(QUERIES, 3, **options),
            expected.kneighbors(QUERIES, 3, **options),
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
    assert (found.transform(QUERIES) != expected.transform(QUERIES)).nnz == 0
    np.testing.assert_array_equal(
        found.get_feature_names_out(), expected.get_feature_names_out()
    )


def load_all_ways(path):
    yield HashedNeighbors.load(path)
    yield HashedNeighbors.load(path, mmap=True)
    yield HashedNeighbors.load(path, mmap=True, verify=False)
    yield HashedNeighbors.load(str(path), verify=False)
    yield skhash.load(path)


def part(path, name):
    (found,) = path.glob(f"part-{name}-*")
    return found


def content(path):
    """All files below a directory, and what is in them."""
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def assert_whole(path):
    """There are the manifest, the parts that it names, and nothing else."""
    parts = json.loads((path / MANIFEST).read_text())["parts"]
    folders = {saved["folder"] for saved in parts.values()}
    assert {entry.name for entry in path.iterdir()} == {MANIFEST, *folders}
    for folder in folders:
        suffixes = {file.suffix for file in (path / folder).iterdir()}
        assert suffixes in ({".json", ".npy"}, {".json", ".safetensors"})


@pytest.mark.parametrize("kind", SEARCHES)
def test_saved_and_loaded(kind, tmp_path):
    search = make_search(kind)
    search.save(tmp_path)
    assert_whole(tmp_path)
    for loaded in load_all_ways(tmp_path):
        assert_same(loaded, search)
    # All that goes on from here goes on alike.
    expected = make_search(kind).partial_fit(MORE, LABELS[:50], ids=MORE_IDS)
    expected.index_.remove(IDS[100:120])
    for each in (*load_all_ways(tmp_path), search):
        each.partial_fit(MORE, LABELS[:50], ids=MORE_IDS)
        each.index_.remove(IDS[100:120])
        assert_same(each, expected)


@pytest.mark.parametrize("kind", SEARCHES)
def test_the_parameters_fit_anew(kind, tmp_path):
    search = make_search(kind)
    search.save(tmp_path)
    loaded = skhash.load(tmp_path)
    with pytest.raises(NotFittedError):
        clone(loaded).kneighbors(QUERIES)
    assert_same(clone(loaded).fit(X, ids=IDS), clone(search).fit(X, ids=IDS))
    assert (loaded.encoder is loaded.encoder_) == (kind == "frozen")
    for again in (loaded, search):
        again.set_params(
            index=HammingNeighbors(2), decoder=None, keep_vectors=False
        ).fit(X[::-1], ids=IDS)
    assert_same(loaded, search)


def test_parameters_that_were_set_after_fit(tmp_path):
    """What is fitted is as it was, and what is to be fitted next too."""
    search = make_search("codes").set_params(encoder__n_bits=5, index__radius=1)
    search.index_.n_neighbors = 2
    search.save(tmp_path)
    loaded = skhash.load(tmp_path)
    assert_same(loaded, search)
    assert loaded.encoder.n_bits == 5 and loaded.encoder_.n_bits == 9
    search.set_params(encoder=PCAHash(3), index=None, decoder=LinearDecoder())
    search.save(tmp_path)
    assert_same(skhash.load(tmp_path), search)


def test_a_frozen_encoder_whose_place_another_takes(tmp_path):
    search = make_search("frozen").set_params(encoder=PCAHash(3))
    search.save(tmp_path)
    loaded = skhash.load(tmp_path)
    assert_same(loaded, search)
    loaded.encoder_.fit(X[:20], None)
    assert_same(loaded, search)


def test_names_of_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(12)])
    search = HashedNeighbors(PCAHash(9), index(HammingNeighbors)).fit(frame)
    search.save(tmp_path)
    loaded = skhash.load(tmp_path)
    np.testing.assert_array_equal(loaded.feature_names_in_, frame.columns)
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.kneighbors(frame), search.kneighbors(frame))


def test_parameters_that_are_no_data_are_left_out(tmp_path):
    encoder = SGHEncoder(3, max_epochs=1, callbacks=[EarlyStopping("train_loss")])
    search = HashedNeighbors(encoder, index(HammingNeighbors)).fit(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.save(tmp_path)
    messages = {str(warning.message) for warning in caught}
    assert len(messages) == 1 and "callbacks: list is not plain" in messages.pop()
    assert {warning.filename for warning in caught} == {__file__}
    loaded = skhash.load(tmp_path)
    assert loaded.encoder.callbacks is None and loaded.encoder_.callbacks is None
    np.testing.assert_array_equal(loaded.kneighbors(X), search.kneighbors(X))


def test_a_map_stays_one_and_outlives_its_files(path):
    search = HashedNeighbors.load(path, mmap=True)
    words = search.index_._store._rooms["words"]
    while not isinstance(words, np.memmap):
        words = words.base
    changed_search().save(path)
    assert_same(search, make_search())
    search.save(path)
    assert_whole(path)
    assert_same(skhash.load(path), make_search())


def test_opening_while_another_process_saves(path, monkeypatch):
    """The manifest that was read names parts that are gone; the new one is read."""
    new, read = changed_search(), directory.read_manifest

    def read_and_let_save(folder):
        manifest = read(folder)
        monkeypatch.setattr(directory, "read_manifest", read)
        new.save(folder)
        return manifest

    monkeypatch.setattr(directory, "read_manifest", read_and_let_save)
    assert_same(HashedNeighbors.load(path), new)


# What cannot be saved


class OwnHash(ITQHash):
    """Not the library's: another machine could not build it."""


class OwnDecoder(LinearDecoder):
    """Nor is this one."""


PIPELINE = make_pipeline(StandardScaler(), PCAHash(9)).fit(X)
PREFIXES = PrefixNeighbors(2, prefix_bits=8)
REFUSED = [
    ("encoder is a Pipeline", PIPELINE, None, None),
    ("encoder is a Pipeline", FrozenEstimator(PIPELINE), None, None),
    ("encoder is a OwnHash", OwnHash(9), None, None),
    ("index is a PrefixNeighbors", PCAHash(9), PREFIXES, None),
    ("decoder is a OwnDecoder", PCAHash(9), index(), OwnDecoder()),
]


@pytest.mark.parametrize(("message", "encoder", "index", "decoder"), REFUSED)
def test_what_is_no_data_is_refused(message, encoder, index, decoder, path, tmp_path):
    search = HashedNeighbors(encoder, index, decoder=decoder).fit(X)
    before = content(path)
    for target in (path, tmp_path / "new"):
        with pytest.raises(TypeError, match=f"{message}, .*pickle or joblib, or save"):
            search.save(target)
    assert content(path) == before
    assert not (tmp_path / "new").exists()


def test_parameters_that_are_no_estimators_of_ours_are_refused(path):
    before = content(path)
    for params, name in (
        ({"encoder": PIPELINE}, "encoder is a Pipeline"),
        ({"encoder": FrozenEstimator(PCAHash(9).fit(X))}, "encoder is a Frozen"),
        ({"index": PREFIXES}, "index is a PrefixNeighbors"),
    ):
        with pytest.raises(TypeError, match=name):
            make_search().set_params(**params).save(path)
    assert content(path) == before


def test_fitted_state_that_is_no_data_is_refused(path):
    """The encoder is written by then; nothing of it stays."""
    before = content(path)
    labels = np.array([*"ab", 3], dtype=object)[LABELS]
    search = HashedNeighbors(PCAHash(9)).fit(X, labels)
    with pytest.raises(ValueError, match="y holds Python objects"):
        search.save(path)
    search = make_search()
    search.encoder_.mean_ = print
    with pytest.raises(TypeError, match="not plain data"):
        search.save(path)
    assert content(path) == before
    assert len(list(path.iterdir())) == 4


def test_a_search_that_is_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        clone(SEARCHES["codes"]).save(tmp_path / "search")
    assert not (tmp_path / "search").exists()


# Damage


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["encoder", "index", "decoder"])
def test_flipped_bits_truncated_and_missing_files(path, name, mmap):
    """Refused at once, or what is mapped, before the first answer."""

    def answer():
        HashedNeighbors.load(path, mmap=mmap).kneighbors(QUERIES)

    for file in part(path, name).iterdir():
        whole = file.read_bytes()
        for position in np.linspace(0, len(whole) - 1, 20).astype(int):
            damaged = bytearray(whole)
            damaged[position] ^= 8
            file.write_bytes(damaged)
            try:
                with pytest.raises(ValueError, match="damaged|format version"):
                    answer()
            except pytest.fail.Exception:  # white space alone
                assert json.loads(damaged) == json.loads(whole)
        for end in (0, 60, -1):
            file.write_bytes(whole[:end])
            with pytest.raises(ValueError, match="damaged"):
                answer()
        file.unlink()
        with pytest.raises(ValueError, match="damaged .*(is missing|has no manifest)"):
            answer()
        file.write_bytes(whole)
    answer()


@pytest.mark.parametrize("mmap", [False, True])
def test_without_verification_the_content_is_taken_as_it_is(path, mmap):
    (file,) = part(path, "index").glob("skhash-y-*")
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    loaded = HashedNeighbors.load(path, mmap=mmap, verify=False)
    assert loaded.index_.y_[-1] != LABELS[-1]
    assert_same(loaded, make_search())
    with pytest.raises(ValueError, match=f"damaged .*: {file.name} does not match"):
        HashedNeighbors.load(path, mmap=mmap).kneighbors(QUERIES)


def test_flipped_bits_in_the_manifest(path):
    manifest = path / MANIFEST
    whole = manifest.read_bytes()
    for position in range(0, len(whole), 17):
        damaged = bytearray(whole)
        damaged[position] ^= 16
        manifest.write_bytes(damaged)
        try:
            HashedNeighbors.load(path)
        except ValueError as error:
            assert "damaged" in str(error) or "format version" in str(error)
        else:
            assert json.loads(damaged) == json.loads(whole)


@pytest.mark.parametrize("name", ["encoder", "index", "decoder"])
def test_parts_of_other_saves(path, name, tmp_path):
    """Each is whole, and of the same shapes; they do not belong together."""
    other = clone(SEARCHES["decoder"]).fit(2 * X[::-1], LABELS, ids=IDS)
    other.save(tmp_path / "other")
    message = f"{part(path, name).name} (is missing|is not the one)"
    own = part(path, name)
    own.rename(tmp_path / "own")
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            skhash.load(path)
        shutil.copytree(part(tmp_path / "other", name), own, dirs_exist_ok=True)
    shutil.rmtree(own)
    (tmp_path / "own").rename(own)
    assert_same(skhash.load(path), make_search())


def rewrite(path, **changes):
    """Change the manifest as its writer would: with a checksum that fits."""
    manifest = json.loads((path / MANIFEST).read_text())
    manifest.pop("checksum")
    for key, change in changes.items():
        manifest[key] = change(manifest[key])
    manifest["checksum"] = checksum_of(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


def of_class(name):
    return lambda params: {**params, "encoder": {"__class__": name, "params": {}}}


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("class", lambda _: "ITQHash", "holds a ITQHash and no .*Hashed"),
        ("format_version", lambda version: version + 1, "reads up to"),
        ("params", lambda params: {**params, "wings": None}, r"not know: .*'wings'"),
        ("params", of_class("os.system"), "holds a 'os.system', which"),
        ("params", of_class("Pipeline"), "holds a 'Pipeline', which"),
        (
            "values",
            lambda values: {**values, "fit": 3},
            r"has no fitted attributes \['fit'\]",
        ),
    ],
)
def test_manifests_of_others(path, key, change, message):
    rewrite(path, **{key: change})
    with pytest.raises(ValueError, match=message):
        HashedNeighbors.load(path)


def test_others_that_say_they_are_searches(tmp_path):
    for estimator in (PCAHash(3).fit(X), HammingNeighbors().fit(X > 0)):
        estimator.save(tmp_path)
        with pytest.raises(
            ValueError, match=f"holds a .*{type(estimator).__name__} and"
        ):
            HashedNeighbors.load(tmp_path)
        rewrite(tmp_path, **{"class": lambda _: "skhash.neighbors.HashedNeighbors"})
        with pytest.raises(ValueError, match="is damaged .* has no 'frozen'"):
            skhash.load(tmp_path)


# What is in the directory already


def test_a_save_replaces_any_other(path):
    """Nothing of the one before stays, whatever it was."""
    encoder, codes = PCAHash(3).fit(X), HammingNeighbors().fit(X > 0)
    for saved in (encoder, make_search(), codes, changed_search(), make_search()):
        saved.save(path)
        assert type(skhash.load(path)) is type(saved)
        n_entries = 4 if isinstance(saved, HashedNeighbors) else 2
        assert len(list(path.iterdir())) == n_entries
    assert_whole(path)
    assert_same(skhash.load(path), make_search())


def test_files_of_others_stay(path):
    """Beside the parts, in them, and in folders that are named like parts."""
    like_part = path / "part-encoder-0123456789abcdef"
    like_part.mkdir()
    in_part = part(path, "index") / "notes.txt"
    own = [path / "notes.txt", like_part / MANIFEST, in_part]
    for file in own:
        file.write_text('{"what": "my own"}')
    link = path.parent / "elsewhere"
    part(path, "decoder").rename(link)
    part_link = path / "part-decoder-00112233445566aa"
    part_link.symlink_to(link)
    elsewhere = content(link)
    new = changed_search()
    new.save(path)
    assert_same(skhash.load(path), new)
    assert all(file.read_text() == '{"what": "my own"}' for file in own)
    assert list(in_part.parent.iterdir()) == [in_part]
    assert content(link) == elsewhere and not part_link.is_symlink()


def test_a_directory_of_others_is_not_written_to(tmp_path):
    (tmp_path / "part-index-0123456789abcdef").mkdir()
    (tmp_path / "part-index-0123456789abcdef" / "notes.txt").touch()
    before = content(tmp_path)
    with pytest.raises(FileExistsError, match="other content"):
        make_search().save(tmp_path)
    with pytest.raises(FileExistsError, match="is a file"):
        make_search().save(tmp_path / "part-index-0123456789abcdef" / "notes.txt")
    assert content(tmp_path) == before


def test_a_full_disk_leaves_the_old_search_and_nothing_else(path, monkeypatch):
    new, before = changed_search(), content(path)
    fsync, n_left = os.fsync, 0

    def limited(descriptor):
        nonlocal n_left
        n_left -= not stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if n_left < 0:
            raise OSError("disk full")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", limited)
    for n_files in range(N_FILES):
        n_left = n_files
        with pytest.raises(OSError, match="disk full"):
            new.save(path)
        # Where the last manifest fails, parts stay behind: those of a save that may
        # have been done. The next one removes them.
        assert (content(path) == before) == (n_files < N_FILES - 1)
        assert_same(skhash.load(path), make_search())
    n_left = N_FILES
    new.save(path)
    assert_whole(path)
    assert_same(skhash.load(path), new)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What killed writers of `changed_search` left, where there was a search or not."""
    folder = tmp_path_factory.mktemp("saves")
    make_search().save(folder / "old")
    changed_search().save(folder / "new")
    originals = folder / "old", folder / "none"
    left = kill_saves(originals, folder / "new", folder / "killed")
    return dict(zip([True, False], left, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("old_exists", [True, False])
def test_a_killed_writer_leaves_the_old_search_whole(killed, old_exists):
    old, new = make_search(), changed_search()
    states = []
    for folder in killed[old_exists]:
        if not (folder / MANIFEST).exists():
            assert not old_exists
            states.append("none")
        else:
            loaded = skhash.load(folder)
            is_new = loaded.index_.n_samples_fit_ == new.index_.n_samples_fit_
            assert_same(loaded, new if is_new else old)
            states.append("new" if is_new else "old")
        # The next save works, and cleans up.
        new.save(folder)
        assert_whole(folder)
    before = "old" if old_exists else "none"
    assert states == sorted(states, key=[before, "new"].index)
    # All files are written and renamed before the new state is there. Then its names go
    # to the disk, and the old one goes: all files but its manifest, which was replaced,
    # and three directories.
    assert states.count(before) >= 2 * N_FILES
    assert states.count("new") == 2 + (N_FILES - 1 + 3) * old_exists


def test_leftovers_go_before_a_save_begins(path, monkeypatch):
    """They may be what has filled the disk."""
    whole = content(path)
    leftover = path / "part-index-0123456789abcdef"
    shutil.copytree(part(path, "index"), leftover)
    (leftover / MANIFEST).unlink()
    (path / "manifest.json.part").write_text("{")

    def full_disk(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(directory.os, "fsync", full_disk)
    with pytest.raises(OSError, match="disk full"):
        changed_search().save(path)
    assert content(path) == whole
    assert_same(HashedNeighbors.load(path), make_search())
