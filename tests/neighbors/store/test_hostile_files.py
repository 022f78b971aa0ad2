"""Files that are other than a save writes them, with checksums that fit.

They are refused by one sentence that names them, or searched; nothing else happens.
"""

import io
import json
import os
import shutil

import mutants
import numpy as np
import pytest
from mutants import replace_index_array, write_manifest

import skhash
from skhash import HashedNeighbors, ITQHash
from skhash.linear import LinearDecoder
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.persistence import directory
from skhash.persistence.directory import MANIFEST
from skhash.persistence.state import known_class

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (300, 70), dtype=np.uint8)
VECTORS = RNG.normal(size=(300, 5))
CODEBOOK = RNG.normal(size=(70, 5)), RNG.normal(size=5)
IDS = np.array([f"code {i}" for i in range(300)])


def save_codes(path):
    index = HammingNeighbors(4, radius=30, n_jobs=1).fit(BITS, BITS[:, 0], ids=IDS)
    index.remove(IDS[:9]).save(path)


def save_asymmetric(path, **what):
    index = AsymmetricNeighbors(4, n_jobs=1)
    index.fit(BITS, BITS[:, 0], ids=IDS, **what)
    index.remove(IDS[:9]).save(path)


def save_decoded(path):
    save_asymmetric(path, decoder=CODEBOOK)


def save_vectors(path):
    save_asymmetric(path, vectors=VECTORS)


def save_search(path):
    """A search of real vectors."""
    search = HashedNeighbors(
        ITQHash(9, max_iter=2, random_state=0),
        AsymmetricNeighbors(4, n_jobs=1),
        decoder=LinearDecoder(n_alternations=1, n_restarts=1),
    )
    search.fit(VECTORS @ RNG.normal(size=(5, 12)), BITS[:, 0], ids=IDS).save(path)


def save_clusters(path):
    index = HammingNeighbors(3, algorithm="pruned").fit(BITS, BITS[:, 0], ids=IDS)
    index.remove(IDS[:20]).kneighbors(BITS[:5])
    index.save(path)


def save_encoder(path):
    ITQHash(4, max_iter=2, random_state=0).fit(VECTORS).save(path)


SAVES = {
    "codes": save_codes,
    "clusters": save_clusters,
    "decoded": save_decoded,
    "vectors": save_vectors,
    "search": save_search,
    "encoder": save_encoder,
}
INDEXES = ("codes", "decoded", "vectors")
LOADERS = {
    "codes": HammingNeighbors.load,
    "clusters": HammingNeighbors.load,
    "decoded": AsymmetricNeighbors.load,
    "vectors": AsymmetricNeighbors.load,
    "search": HashedNeighbors.load,
    "encoder": skhash.load,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What is saved of each kind, to be copied."""
    folder = tmp_path_factory.mktemp("saved")
    for kind, save in SAVES.items():
        save(folder / kind)
    return folder


@pytest.fixture(params=["decoded"])
def path(saved, tmp_path, request):
    """An index of the kind that a test names, or one with a decoder."""
    return shutil.copytree(saved / request.param, tmp_path / "index")


def of_kinds(*kinds):
    return pytest.mark.parametrize("path", kinds, indirect=True)


def all_ways():
    return [(mmap, verify) for mmap in (False, True) for verify in (False, True)]


def ask(path, mmap, verify):
    """Load an index and let every kernel that it can use answer."""
    cls = known_class(mutants.read(path)["class"])
    index = cls.load(path, mmap=mmap, verify=verify)
    if cls is AsymmetricNeighbors:
        for n_candidates in (None, 20):
            index.set_params(n_candidates=n_candidates)
            index.kneighbors(VECTORS[:3], codes=BITS[:3])
        return
    for algorithm in ("brute", "pruned"):
        for rows in (slice(2), slice(40)):
            index.set_params(algorithm=algorithm)
            index.kneighbors(BITS[rows])
            index.radius_neighbors(BITS[rows])


def refused(path, message):
    """Nobody who loads this gets an answer, and the error names a file there."""
    for mmap, verify in all_ways():
        with pytest.raises(ValueError, match=message) as caught:
            ask(path, mmap, verify)
        assert str(path) in str(caught.value)


def with_bit_behind(place):
    """Codes of 70 bits, in two words, with one bit more."""
    codes = np.zeros((300, 16), dtype=np.uint8)
    codes[:, :9] = np.packbits(BITS, axis=1)
    codes[-1, place // 8] |= 128 >> place % 8
    return codes


@of_kinds(*INDEXES)
@pytest.mark.parametrize("place", [70, 71, 72, 100, 127])
def test_bits_behind_those_of_a_code(path, place):
    replace_index_array(path, "codes", with_bit_behind(place))
    refused(path, "codes have more than 70 bits")


def test_codes_that_fill_their_bytes(tmp_path):
    """There are no bits behind them, and none are looked for."""
    packed = RNG.integers(0, 256, (300, 9), dtype=np.uint8)
    HammingNeighbors(1, packed=True).fit(packed).save(tmp_path)
    for mmap, verify in all_ways():
        index = HammingNeighbors.load(tmp_path, mmap=mmap, verify=verify)
        assert (index.kneighbors(packed)[0] == 0).all()


def change(path, **changes):
    manifest = mutants.read(path)
    write_manifest(path, {**manifest, **changes})


@of_kinds("codes", "decoded")
@pytest.mark.parametrize("n_bytes", [0, 1, 8, 10, 16, 17, -1, 10**6, True, 9.0, None])
def test_numbers_that_are_not_those_of_the_arrays(path, n_bytes):
    change(path, n_bytes=n_bytes)
    refused(path, "is damaged .*n_bytes")


@of_kinds("codes", "decoded")
@pytest.mark.parametrize("n_features", [0, 64, 73, -70, 10**6, 2**63, "70", None])
def test_columns_that_are_not_those_of_the_codes(path, n_features):
    values = {**mutants.read(path)["values"], "n_features_in_": n_features}
    change(path, values=values)
    refused(path, "damaged .*(n_features_in_|Its decoder does not fit)")


WRONG_ARRAYS = {
    "codes": [
        BITS[:, :16],
        BITS[:, :16].astype("u2"),
        BITS[:, :8],
        BITS[0],
        BITS[None],
    ],
    "y": [BITS[None], np.zeros(300, dtype="V3")],
    "ids": [np.arange(300.0), np.arange(300)[:, None], np.arange(300, dtype=">i8")],
    "live": [np.ones(300, dtype="u1"), np.ones((300, 2), dtype=bool), np.array(True)],
    "vectors": [VECTORS > 0, VECTORS + 1j, VECTORS[:, 0], VECTORS[None]],
    "items": [
        np.ones((300, 1)),
        np.ones(300, "f4"),
        np.ones((300, 2), "f4"),
        np.ones((300, 1), ">f4"),
    ],
    "codebook": [CODEBOOK[0][:64], CODEBOOK[0].T, CODEBOOK[0] * np.nan],
    "offset": [CODEBOOK[1][:4], CODEBOOK[1].astype("f4"), CODEBOOK[1] * np.inf],
}
CASES = [(name, array) for name, arrays in WRONG_ARRAYS.items() for array in arrays]


@pytest.mark.parametrize(("name", "array"), CASES, ids=lambda value: str(value)[:20])
def test_arrays_of_other_types_and_shapes(path, name, array):
    replace_index_array(path, name, array)
    refused(path, "is damaged")


COLUMNS = [("decoded", name) for name in ("codes", "y", "ids", "live", "items")]


@pytest.mark.parametrize(
    ("path", "name"), [*COLUMNS, ("vectors", "vectors")], indirect=["path"]
)
@pytest.mark.parametrize("length", [0, 299, 301])
def test_arrays_of_other_lengths(path, name, length):
    (file,) = path.glob(f"skhash-{name}-*.npy")
    array = np.load(file)
    replace_index_array(path, name, np.resize(array, (length, *array.shape[1:])))
    refused(path, "differ in length")


@of_kinds(*INDEXES)
def test_content_that_would_lead_kernels_astray(path):
    """Booleans that count twice, and scores that no neighbour is better than."""
    replace_index_array(path, "live", np.full(300, 2, dtype=np.uint8).view(bool))
    refused(path, "live holds others than 0 and 1")


def split(n, n_parts):
    """Return whole numbers with the sum n."""
    return [n * (i + 1) // n_parts - n * i // n_parts for i in range(n_parts)]


def wrong_clusters():
    """Changes of the arrays of clusters, of which none may be searched."""
    yield "sizes", lambda sizes: np.append(sizes, 1)
    # As many blocks as before, beyond the codes or before them.
    yield "sizes", lambda sizes: sizes + (sizes == sizes.min())
    yield "sizes", lambda sizes: [-1, 129, *split(172, len(sizes) - 2)]
    yield "sizes", lambda sizes: sizes.astype(np.int32)
    yield "sizes", lambda sizes: np.append(sizes, [2**63 - 1, 2**63 - 1, 2])
    yield "centers", lambda centers: centers[:-1]
    yield "centers", lambda centers: centers[:, :8]
    yield "blocks", lambda blocks: blocks[:-1]
    yield "blocks", lambda blocks: np.concatenate([blocks, blocks[:1]])
    yield "blocks", lambda blocks: blocks[:, :, :64]
    yield "positions", lambda positions: positions + 1
    yield "positions", lambda positions: positions - 1
    yield "positions", lambda positions: np.where(positions == 7, 2**31 - 1, positions)
    yield "positions", lambda positions: positions[:-1]
    yield "positions", lambda positions: positions.astype(np.int64)
    yield "lowest", lambda lowest: lowest[:-1]
    yield "rings", lambda rings: rings[:1]
    yield "rings", lambda rings: rings[:, :-1]
    yield "rings", lambda rings: rings.astype(np.int8)


@of_kinds("clusters")
@pytest.mark.parametrize(("name", "change"), list(wrong_clusters()))
def test_clusters_that_would_lead_kernels_astray(path, name, change):
    (file,) = path.glob(f"skhash-cluster_{name}-*.npy")
    replace_index_array(path, f"cluster_{name}", np.array(change(np.load(file))))
    refused(path, "[Cc]lusters")


@of_kinds("clusters")
def test_clusters_of_which_a_part_is_missing(path):
    arrays = dict(mutants.read(path)["arrays"])
    del arrays["cluster_rings"]
    change(path, arrays=arrays)
    refused(path, "Of its clusters")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers(path, value):
    items = np.zeros((300, 1), dtype=np.float32)
    items[7] = value
    replace_index_array(path, "items", items)
    refused(path, "items holds NaN")


@of_kinds("vectors")
def test_vectors_that_are_no_numbers(path):
    """They are not read before they are needed."""
    replace_index_array(path, "vectors", np.where(VECTORS > 0, VECTORS, np.nan))
    for mmap, verify in all_ways():
        with pytest.raises(ValueError, match=r"vector at position \d+ is NaN"):
            ask(path, mmap, verify)


def test_a_decoder_without_its_arrays_and_arrays_without_a_decoder(path):
    change(path, decoder=None)
    refused(path, "damaged .*: manifest.json has no 'decoder'")
    HammingNeighbors().fit(BITS).save(path)
    scoring = {"n_bits": 70, "normalized": False, "metric": "euclidean"}
    change(path, decoder=scoring)
    refused(path, "Its decoder does not fit")


def test_codes_that_stand_for_nothing(path):
    """An index that compares vectors has a decoder or vectors."""
    manifest = mutants.read(path)
    arrays = {name: manifest["arrays"][name] for name in ("codes", "y", "ids", "live")}
    change(path, arrays=arrays, decoder=None)
    for mmap, verify in all_ways():
        with pytest.raises(ValueError, match="neither a decoder nor vectors"):
            ask(path, mmap, verify)


@pytest.mark.parametrize("scoring", [{}, {"normalized": 1, "metric": "euclidean"}, 3])
def test_decoders_of_other_kinds(path, scoring):
    change(path, decoder=scoring)
    refused(path, "damaged .*: manifest.json has no")


def test_arrays_that_are_no_arrays(path):
    """NumPy would read an archive of arrays by the same call."""
    manifest, content = mutants.read(path), io.BytesIO()
    np.savez(content, np.arange(3))
    mutants.write_index_array(path, manifest, "y", content.getvalue(), BITS[:, 0])
    write_manifest(path, manifest)
    refused(path, r"damaged .*: skhash-y-\w+\.npy")


def paths_below(found, *keys):
    """Yield the keys that lead to every value in JSON."""
    for key in found:
        yield (*keys, key)
        if isinstance(found[key], dict):
            yield from paths_below(found[key], *keys, key)


@pytest.mark.parametrize("kind", SAVES)
def test_keys_that_are_missing_or_of_another_type(saved, kind, tmp_path):
    """One sentence names the file, whatever the key."""
    target = shutil.copytree(saved / kind, tmp_path / kind)
    whole = mutants.read(target)
    for *above, last in paths_below(whole):
        for value in (None, [], "x", -1, "missing"):
            manifest = json.loads(json.dumps(whole))
            holder = manifest
            for key in above:
                holder = holder[key]
            holder[last] = value
            if value == "missing":
                del holder[last]
            write_manifest(target, manifest)
            try:
                LOADERS[kind](target)
            except ValueError as error:
                assert str(target) in str(error)  # noqa: PT017


def outside(path, tmp_path, name):
    """Move a file or directory out of a saved one."""
    (tmp_path / "outside").mkdir()
    (inside,) = path.glob(name)
    return inside, inside.rename(tmp_path / "outside" / inside.name)


PARTS = {
    **{kind: "skhash-codes-*" for kind in INDEXES},
    "clusters": "skhash-cluster_blocks-*",
    "search": "part-encoder-*",
    "encoder": "skhash-arrays-*",
}


@pytest.mark.parametrize("kind", SAVES)
@pytest.mark.parametrize("name", ["part", MANIFEST])
def test_links_are_refused(saved, kind, name, tmp_path):
    target = shutil.copytree(saved / kind, tmp_path / kind)
    name = PARTS[kind] if name == "part" else name
    inside, moved = outside(target, tmp_path, name)
    inside.symlink_to(moved)
    with pytest.raises(ValueError, match=f"{inside.name} is a link"):
        LOADERS[kind](target)
    followed = shutil.copytree(target, tmp_path / "followed")
    LOADERS[kind](followed)


def test_a_link_to_the_directory_is_followed(path, tmp_path):
    """It is what the user names."""
    (tmp_path / "link").symlink_to(path)
    skhash.load(tmp_path / "link")


@pytest.mark.parametrize("prefix", ["../outside/", "{}/outside/", "./../outside/", ""])
@pytest.mark.parametrize("kind", ["search", "encoder"])
def test_names_that_lead_elsewhere(saved, kind, prefix, tmp_path):
    target = shutil.copytree(saved / kind, tmp_path / kind)
    _, moved = outside(target, tmp_path, PARTS[kind])
    name = prefix.format(tmp_path) + moved.name if prefix else ".."
    manifest = mutants.read(target)
    if kind == "search":
        manifest["parts"]["encoder"]["folder"] = name
    else:
        manifest["arrays"] = name
    write_manifest(target, manifest)
    with pytest.raises(ValueError, match="damaged .*: manifest.json names"):
        LOADERS[kind](target)


def test_checksums_that_lead_elsewhere(path, tmp_path):
    """Files of an index are named by them."""
    _, moved = outside(path, tmp_path, "skhash-y-*")
    (path / "y-").mkdir()
    moved.rename(path / "outside.npy")
    manifest = mutants.read(path)
    manifest["arrays"]["y"]["sha256"] = "/../outside"
    write_manifest(path, manifest)
    refused(path, "damaged .*: manifest.json names")


@pytest.mark.parametrize("kind", SAVES)
def test_manifests_beyond_all_bounds(saved, kind, tmp_path, monkeypatch):
    target = shutil.copytree(saved / kind, tmp_path / kind)
    manifest = target / MANIFEST
    whole = manifest.read_text()
    for nested in ("[" * 10**6, '{"a":' * 10**6, '"' + '\\"' * 10**6):
        manifest.write_text(nested)
        with pytest.raises(ValueError, match=f"damaged .*: {MANIFEST}: "):
            LOADERS[kind](target)
        with pytest.raises(FileExistsError, match="other content"):
            SAVES[kind](target)
    manifest.write_text('{"format_version": ' + "9" * 5000 + "}")
    with pytest.raises(ValueError, match=f"damaged .*: {MANIFEST}"):
        LOADERS[kind](target)
    manifest.write_text(whole)
    LOADERS[kind](target)
    monkeypatch.setattr(directory, "MAX_MANIFEST_BYTES", len(whole) - 1)
    with pytest.raises(ValueError, match=f"damaged .*: {MANIFEST}: it has more"):
        LOADERS[kind](target)
    with pytest.raises(ValueError, match="a manifest may have"):
        SAVES[kind](tmp_path / "new")


def test_brackets_in_strings_are_no_depth(tmp_path):
    names = np.array(["[" * 100, '"{' * 100, "\\" * 99 + "[["], dtype=object)
    pandas = pytest.importorskip("pandas")
    index = HammingNeighbors().fit(pandas.DataFrame(BITS[:, :3], columns=names))
    index.save(tmp_path)
    np.testing.assert_array_equal(
        HammingNeighbors.load(tmp_path).feature_names_in_, names
    )


def test_a_number_that_does_not_equal_itself(path):
    """The manifest is read again after an error, and is the same."""
    change(path, n_bytes=0, extra=float("nan"))
    refused(path, "n_bytes")


@pytest.mark.parametrize("kind", SAVES)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_what_is_no_file_is_not_opened(saved, kind, tmp_path):
    target = shutil.copytree(saved / kind, tmp_path / kind)
    (target / MANIFEST).unlink()
    os.mkfifo(target / MANIFEST)
    with pytest.raises(FileNotFoundError, match="not a saved skhash"):
        LOADERS[kind](target)
