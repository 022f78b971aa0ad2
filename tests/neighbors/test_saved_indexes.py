"""Saved indexes and searches: columns, maps of files, and what kernels rely on."""

import pickle
import re
import shutil
from copy import deepcopy
from functools import partial, reduce
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from mutants import read, write
from numpy.testing import assert_array_equal
from processes import before_each_write
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash
from skhash import HashedNeighbors, ITQHash, PCAHash
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, JaccardNeighbors
from skhash.neighbors.search.pruned import Clusters
from skhash.neighbors.store import files
from skhash.persistence.estimators import FILE
from skhash.utils.chunks import row_chunks

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (300, 70), dtype=np.uint8)
QUERIES = RNG.integers(0, 2, (7, 70), dtype=np.uint8)
IDS = np.array([f"code {i}" for i in range(300)])
CODEBOOK = RNG.normal(size=(70, 5)), RNG.normal(size=5)
ASKED = QUERIES @ CODEBOOK[0] + RNG.normal(size=(7, 5))
# Rows of a search.
X = RNG.normal(size=(200, 12)) @ RNG.normal(size=(12, 12))
MORE, ROWS = X[150:] + 0.1, RNG.normal(size=(7, 12)) @ X[:12]
WAYS = [
    {"mmap": mmap, "verify": verify}
    for mmap in (False, True)
    for verify in (True, False)
]


def make_codes(**params):
    index = HammingNeighbors(4, radius=30, n_jobs=1, **params)
    return index.fit(BITS, BITS[:, :3], ids=IDS).remove(IDS[:9])


def make_planes():
    index = JaccardNeighbors(4, radius=0.6, n_jobs=1)
    return index.fit(BITS, BITS[:, :3], ids=IDS).remove(IDS[:9])


def make_asymmetric(decoder):
    index = AsymmetricNeighbors(4, n_jobs=1)
    return index.fit(BITS, BITS[:, 0], ids=IDS, decoder=decoder).remove(IDS[:9])


def make_search(encoder=None, **params):
    encoder = ITQHash(9, random_state=0) if encoder is None else encoder
    search = HashedNeighbors(encoder, n_neighbors=4, n_jobs=1, **params)
    ids = IDS[: len(X)]
    return search.fit(X, np.arange(200) % 3, ids=ids).remove(ids[:9])


WHOLE = SimpleNamespace(
    entries_=RNG.integers(-127, 128, size=(9, 256, 5), dtype=np.int8),
    scales_=np.float32(2.0) ** np.arange(-4, 5, dtype=np.float32),
    offset_=CODEBOOK[1],
    n_bits_=70,
)
WHOLE.codebook_ = WHOLE.entries_ * WHOLE.scales_[:, None, None]
MAKERS = {
    "codes": make_codes,
    "clusters": lambda: make_codes(algorithm="pruned"),
    "planes": make_planes,
    "decoder": lambda: make_asymmetric(CODEBOOK),
    "whole numbers": lambda: make_asymmetric(WHOLE),
    "search": lambda: make_search(index=AsymmetricNeighbors()),
    "search of vectors": lambda: make_search(rerank=40, vectors=True),
    "frozen": lambda: make_search(FrozenEstimator(ITQHash(9, random_state=1).fit(X))),
}


def answers(estimator):
    """Return what it answers: a list of arrays."""
    index = getattr(estimator, "index_", estimator)
    if index is not estimator:
        found = estimator.kneighbors(ROWS, 3, return_ids=True)
    elif isinstance(index, HammingNeighbors | JaccardNeighbors):
        found = index.kneighbors(QUERIES, return_ids=True)
        found += tuple(map(np.concatenate, index.radius_neighbors(QUERIES)))
    else:
        found = index.kneighbors(ASKED, return_ids=True)
    return [*found, index.packed_codes_, index.live_, index.ids_, index.y_]


def assert_same(estimator, expected):
    assert repr(estimator.get_params()) == repr(expected.get_params())
    for one, other in zip(answers(estimator), answers(expected), strict=True):
        assert_array_equal(one, other)


def change(estimator):
    """Add and remove some rows."""
    ids = np.char.add(IDS[:50], " more")
    if hasattr(estimator, "index_"):
        estimator.partial_fit(MORE, np.arange(50) % 3, ids=ids)
        return estimator.remove(IDS[100:120])
    labels = BITS[:50, 0] if estimator.y_.ndim == 1 else BITS[:50, :3]
    estimator.partial_fit(BITS[:50], labels, ids=ids)
    return estimator.remove(IDS[100:120])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for kind, make in MAKERS.items():
        made = make()
        answers(made)  # which makes clusters
        made.save(folder / kind)
    return folder


@pytest.fixture(params=MAKERS)
def path(request, folder, tmp_path):
    """A copy of what is saved of a kind, in a directory of its name."""
    return shutil.copytree(folder / request.param, tmp_path / request.param)


def of_kinds(*kinds):
    return pytest.mark.parametrize("path", kinds, indirect=True)


def load(path, **options):
    cls = HashedNeighbors
    if "search" not in path.name and path.name != "frozen":
        codes = path.name in ("codes", "clusters")
        cls = HammingNeighbors if codes else AsymmetricNeighbors
        cls = JaccardNeighbors if path.name == "planes" else cls
    return skhash.load(path, **options)


@of_kinds("codes", "planes", "decoder", "search of vectors")
def test_an_open_map_outlives_its_file(path):
    """And what is changed is not the file."""
    whole, expected = (path / FILE).read_bytes(), MAKERS[path.name]()
    loaded, other = load(path, mmap=True), load(path, mmap=True)
    rooms = getattr(loaded, "index_", loaded)._store._rooms
    codes = rooms["blocks"].array if "blocks" in rooms else rooms["words"]
    while not isinstance(codes, np.memmap):
        codes = codes.base
    assert not codes.flags.writeable
    change(other)
    assert (path / FILE).read_bytes() == whole
    other.save(path)
    assert_same(loaded, expected)
    assert_same(load(path), change(expected))
    assert [file.name for file in path.iterdir()] == [FILE]


@of_kinds("codes", "planes", "decoder", "whole numbers")
def test_codes_that_are_added_meanwhile_damage_no_file(path):
    """They take the room behind those that are saved, in the same block."""
    index = MAKERS[path.name]()

    def add():
        index.partial_fit(BITS[:1], index.y_[:1], ids=[str(index.n_samples_fit_)])

    add()  # which makes room
    expected = pickle.loads(pickle.dumps(index))
    with before_each_write(add):
        index.save(path)
    assert_same(load(path), expected)


@of_kinds("codes", "planes", "decoder", "search of vectors")
def test_joblib_of_a_map(path, tmp_path):
    joblib.dump(load(path, mmap=True), tmp_path / "index.joblib")
    for mode in (None, "r"):
        loaded = joblib.load(tmp_path / "index.joblib", mmap_mode=mode)
        assert_same(loaded, MAKERS[path.name]())


def test_labels_that_are_strings(tmp_path):
    index = HammingNeighbors(2).fit(BITS, np.array(IDS, dtype=object))
    index.save(tmp_path)
    assert_array_equal(skhash.load(tmp_path).y_, IDS)
    index.fit(BITS, np.array([*IDS[:-1], 3], dtype=object))
    with pytest.raises(ValueError, match="y holds Python objects"):
        index.save(tmp_path)
    assert_array_equal(skhash.load(tmp_path).y_, IDS)


def test_extended_precision_is_saved_as_float64(tmp_path):
    X = BITS[:, :8].astype(np.longdouble)
    search = HashedNeighbors(PCAHash(4), rerank=20, vectors=True).fit(X, X[:, 0])
    search.save(tmp_path)
    assert_array_equal(skhash.load(tmp_path).kneighbors(), search.kneighbors())
    assert_array_equal(skhash.load(tmp_path).y_, X[:, 0])


# Damage


@of_kinds("codes", "planes", "decoder", "search of vectors")
@pytest.mark.parametrize("mmap", [False, True])
def test_flipped_bits_are_found_before_the_first_answer(path, mmap):
    whole = (path / FILE).read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        (path / FILE).write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged"):
            answers(load(path, mmap=mmap))


@of_kinds("codes")
def test_a_damaged_map_is_refused_by_all_that_reads_it(path):
    content = bytearray((path / FILE).read_bytes())
    content[-1] ^= 1
    (path / FILE).write_bytes(content)
    index = skhash.load(path, mmap=True)
    for use in (
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
        message = f"{re.escape(str(path))} is damaged .* checksum"
        with pytest.raises(ValueError, match=message):
            use()
    for mmap in (False, True):
        answers(skhash.load(path, mmap=mmap, verify=False))


@of_kinds("search")
def test_without_verification_encoders_are_checked(path):
    manifest, arrays = read(path)
    content = (path / FILE).read_bytes()
    place = content.index(arrays["encoder_/components_"].tobytes())
    damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    (path / FILE).write_bytes(damaged)
    for options in WAYS:
        with pytest.raises(ValueError, match="components_ does not match its checksum"):
            load(path, **options)


# Kernels rely on these


def refused(path, manifest, arrays, message):
    """Whichever way it is loaded, it gives no answer."""
    write(path, manifest, arrays)
    for options in WAYS:
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} .*{message}"):
            answers(load(path, **options))


WRONG = {
    "codes": [BITS[:, :16].astype("u2"), BITS[:, :8], BITS[0], BITS[None]],
    "y": [BITS[None], np.array(3)],
    "ids": [np.arange(300.0), np.arange(300)[:, None], np.arange(300, dtype="u8")],
    "live": [np.ones(300, dtype="u1"), np.ones((300, 2), dtype=bool), np.array(True)],
    "vectors": [BITS > 0, BITS[:, 0], BITS[None]],
    "levels": [np.ones((300, 4), "u1")],
    "blocks": [
        *(np.ones((1, n, 512), "u1") for n in (8, 9, 14)),
        np.ones((1, 13, 512), "i1"),
        np.full((1, 13, 512), 255, "u1"),
        np.ones((13, 512), "u1"),
        np.ones((1, 512, 13), "u1"),
    ],
    "planes": [
        np.zeros(shape, "u8") for shape in ((1, 72, 8), (1, 73, 4), (1, 81, 8), (73, 8))
    ],
    "planes ": [np.zeros((1, 73, 8), "i8")],
    "counts": [np.ones(300, "u1"), np.ones(300, "i4"), np.ones((300, 1), "u2")],
    "order": [
        *(np.arange(n, dtype="i4") for n in (0, 299, 301)),
        *(np.arange(300, dtype=kind) for kind in ("i8", "u4", "f4")),
        np.arange(300, dtype="i4")[:, None],
        np.arange(300, dtype="i4") // 2,
        np.arange(300, dtype="i4") - 1,
        np.arange(300, dtype="i4") + 1,
    ],
    "codebook": [CODEBOOK[0][:64], CODEBOOK[0].T, CODEBOOK[0] * np.nan],
    "offset": [CODEBOOK[1][:4], CODEBOOK[1].astype("f4"), CODEBOOK[1] * np.inf],
    "wings": [np.arange(3)],
    # Booleans that count twice.
    **{"live ": [np.full(300, 2, dtype=np.uint8).view(bool)]},
}


@of_kinds("decoder", "planes")
@pytest.mark.parametrize("name", WRONG)
def test_arrays_of_other_types_shapes_lengths_and_content(path, name):
    manifest, arrays = read(path)
    key = f"store/{name.strip()}"
    others = WRONG[name]
    if key in arrays and name not in ("codebook", "offset"):
        own = arrays[key]
        lengths = (0, 2) if name in ("blocks", "planes") else (0, 299, 301)
        others = [*others, *(np.resize(own, (n, *own.shape[1:])) for n in lengths)]
    for other in others:
        refused(path, manifest, {**arrays, key: np.ascontiguousarray(other)}, "")


@of_kinds("planes")
def test_planes_without_the_others(path):
    manifest, arrays = read(path)
    for name in ("planes", "counts", "order"):
        others = {key: one for key, one in arrays.items() if not key.endswith(name)}
        refused(path, manifest, others, f"{name} is missing")


@of_kinds("planes")
def test_planes_behind_those_of_a_code(path):
    manifest, arrays = read(path)
    for plane in (64, 65, 72):
        planes = arrays["store/planes"].copy()
        planes[0, plane, 7] = 1
        message = "codes have more bits than they may have"
        refused(path, manifest, {**arrays, "store/planes": planes}, message)


@of_kinds("codes", "decoder")
def test_bits_behind_those_of_a_code(path):
    manifest, arrays = read(path)
    (name,) = arrays.keys() & {"store/codes", "store/blocks"}
    for place in (70, 71, 72, 100, 127) if name == "store/codes" else (70, 71):
        codes, bit = arrays[name].copy(), 128 >> place % 8
        if name == "store/codes":
            codes[-1, place // 8] |= bit
        else:
            codes[0, place // 8, 299] |= bit
        message = "codes have more bits than they may have"
        refused(path, manifest, {**arrays, name: codes}, message)


@of_kinds("decoder")
def test_levels_above_the_largest(path):
    manifest, arrays = read(path)
    blocks = arrays["store/blocks"].copy()
    last = manifest["values"]["store"]["decoder"]["last"]
    levels = blocks[0, 9:, :300].T.astype(int) @ 256 ** np.arange(3, -1, -1)
    spare = 32 - last.bit_length()
    assert levels.max() == last << spare
    blocks[0, 9:, 17] = [*((last + 1) << spare).to_bytes(4)]
    refused(path, manifest, {**arrays, "store/blocks": blocks}, "above the largest")


def test_levels_are_read_block_by_block(tmp_path, monkeypatch):
    """Those behind the last code are not."""
    monkeypatch.setattr(files, "row_chunks", partial(row_chunks, budget=1))
    bits = np.tile(BITS, (4, 1))[:1100]
    index = AsymmetricNeighbors(n_jobs=1)
    index.fit(bits, bits[:, 0], ids=np.arange(1100), decoder=CODEBOOK)
    index.save(tmp_path)
    manifest, arrays = read(tmp_path)
    for place in 0, 511, 512, 1099, 1100:
        blocks = arrays["store/blocks"].copy()
        blocks[place // 512, 9:, place % 512] = 255
        changed = {**arrays, "store/blocks": blocks}
        if place < len(bits):
            refused(tmp_path, manifest, changed, "above the largest")
        else:
            write(tmp_path, manifest, changed)
            same = load(tmp_path).kneighbors(ASKED), index.kneighbors(ASKED)
            assert_array_equal(*(positions for _, positions in same))


@of_kinds("codes", "planes", "decoder")
def test_numbers_that_are_not_those_of_the_arrays(path):
    manifest, arrays = read(path)
    values = manifest["values"]
    wrong = [
        {"store": {**values["store"], "n_bytes": n_bytes}}
        for n_bytes in (0, 1, 8, 10, 16, 17, -1, 10**6, True, 9.0, None)
    ]
    wrong += [
        {"store": {**values["store"], "n": n}}
        for n in (0, 299 - 512, -1, 301 + 512, 300.0, "300", None, True, 2**63)
    ]
    wrong += [{"store": {}}]
    columns = 0, 64, 73, -70, 10**6, 2**63, "70", None
    for other in (*wrong, *({"n_features_in_": n} for n in columns)):
        refused(path, {**manifest, "values": {**values, **other}}, arrays, "")


@of_kinds("decoder")
def test_decoders_that_are_not_those_of_the_codes(path):
    manifest, arrays = read(path)
    own = manifest["values"]["store"]["decoder"]
    scorings = [None, {}, 3, {**own, "n_bits": 64}, {**own, "n_bits": 71}]
    scorings += [{**own, "metric": "hamming"}, {**own, "normalized": 1}]
    scorings += [{**own, "metric": "inner_product"}]
    scorings += [{**own, "base": base} for base in (0.5, None, -1, 2**31)]
    scorings += [{**own, "fraction_bits": bits} for bits in (1.0, None, -1, 24)]
    for scoring in scorings:
        store = {"n": 300, "n_bytes": 9, "decoder": scoring}
        values = {**manifest["values"], "store": store}
        refused(path, {**manifest, "values": values}, arrays, "ecoder")
    for name in ("codebook", "offset", "blocks"):
        others = {key: one for key, one in arrays.items() if not key.endswith(name)}
        refused(path, manifest, others, "ecoder|codes is missing")


@of_kinds("whole numbers")
def test_codebooks_of_whole_numbers_that_fit_no_scales(path):
    manifest, arrays = read(path)
    names = "store/codebook", "store/scales"
    entries, scales = (arrays[name] for name in names)
    assert entries.dtype == np.int8
    wrong = [(entries, one * scales) for one in (0, -1, np.nan, np.inf, 1e-40, 2e38)]
    wrong += [(entries, scales[:8]), (entries, scales[:, None]), (entries, scales > 0)]
    wrong += [(entries.astype(kind), scales) for kind in ("f4", "f8", "u1", "i8")]
    wrong += [(entries[:, :, 0], scales), (entries[:, :16], scales)]
    for pair in wrong:
        pair = map(np.ascontiguousarray, pair)
        refused(path, manifest, arrays | dict(zip(names, pair, strict=True)), "")
    for name in names:
        others = {key: one for key, one in arrays.items() if key != name}
        refused(path, manifest, others, "ecoder|scales")


@of_kinds("search of vectors")
def test_vectors_that_are_no_numbers(path):
    """They are not read before they are needed."""
    manifest, arrays = read(path)
    name = "index_/store/vectors"
    arrays[name] = np.where(X > 0, X, np.nan)
    write(path, manifest, arrays)
    for options in WAYS:
        with pytest.raises(ValueError, match=r"vector at position \d+ has no score"):
            answers(load(path, **options))
    del arrays[name]
    refused(path, manifest, arrays, "needs vectors, but none are saved")


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
def test_clusters_that_would_lead_kernels_astray(path):
    manifest, arrays = read(path)
    for name, change_of in wrong_clusters():
        key = f"store/cluster_{name}"
        forged = np.ascontiguousarray(change_of(arrays[key]))
        refused(path, manifest, {**arrays, key: forged}, "[Cc]lusters")
    del arrays["store/cluster_rings"]
    refused(path, manifest, arrays, "Of its clusters")


@of_kinds("clusters")
@pytest.mark.parametrize("mmap", [False, True])
def test_clusters_are_saved_with_the_codes(path, mmap, monkeypatch):
    """A loaded index does not build them again, nor does one that it saved."""
    expected = make_codes(algorithm="pruned")
    answers(expected)  # which makes clusters
    with monkeypatch.context() as patch:
        patch.setattr(Clusters, "make", None)
        for _ in range(2):
            loaded = load(path, mmap=mmap)
            loaded.save(path)
            assert_same(loaded, expected)
    # Other codes have other clusters.
    change(loaded).save(path)
    assert not [name for name in read(path)[1] if "cluster" in name]


# Searches


@of_kinds("search", "frozen", "search of vectors")
def test_the_parameters_fit_anew(path):
    loaded, search = skhash.load(path), MAKERS[path.name]()
    with pytest.raises(NotFittedError):
        clone(loaded).kneighbors(ROWS)
    ids, y = IDS[:200], np.arange(200) % 3
    assert_same(clone(loaded).fit(X, y, ids=ids), clone(search).fit(X, y, ids=ids))
    assert (loaded.encoder is loaded.encoder_) == (path.name == "frozen")
    assert type(loaded.encoder_) is type(search.encoder_)
    # All that is fitted is as it was, and all that is to be fitted next.
    search.set_params(encoder=PCAHash(3), index=HammingNeighbors(2))
    search.index_.n_neighbors = 2
    search.save(path)
    assert_same(skhash.load(path), search)


@of_kinds("whole numbers")
def test_what_a_later_version_may_add(path):
    """It could change what the rest means, so this version does not pass it over."""
    manifest, arrays = read(path)
    places = ((), ("values", "store"), ("values", "store", "decoder"))
    for place in places:
        later = deepcopy(manifest)
        entry = reduce(dict.__getitem__, place, later)
        entry["wings"] = 2
        refused(path, later, arrays, r"does not know \['wings'\]; update skhash")
    for later in ({**manifest["values"], "wings_": 2}, manifest["values"]):
        others = {**manifest, "values": later, "params": {"wings": 2}}
        refused(path, others, arrays, "update skhash")


class OwnHash(ITQHash):
    """Not the library's: another machine could not build it."""


class OwnNeighbors(HammingNeighbors):
    """Nor is this one."""


PIPELINE = make_pipeline(StandardScaler(), PCAHash(9)).fit(X)


@of_kinds("codes")
def test_what_is_no_data_is_refused(path):
    whole = (path / FILE).read_bytes()
    for message, params in {
        "encoder is a Pipeline": {"encoder": PIPELINE},
        "encoder is a (Pipeline|Frozen)": {"encoder": FrozenEstimator(PIPELINE)},
        "encoder is a OwnHash": {"encoder": OwnHash(9)},
        "index is a OwnNeighbors": {"encoder": PCAHash(9), "index": OwnNeighbors()},
    }.items():
        fitted = HashedNeighbors(**params).fit(X)
        only_params = make_search().set_params(**params)
        for search in (fitted, only_params):
            with pytest.raises(TypeError, match=f"{message}.*Pickle the whole"):
                search.save(path)
    with pytest.raises(ValueError, match="y holds Python objects"):
        labels = np.array([*"ab", 3], dtype=object)[np.arange(200) % 3]
        HashedNeighbors(PCAHash(9)).fit(X, labels).save(path)
    with pytest.raises(NotFittedError):
        HashedNeighbors(PCAHash(9)).save(path)
    assert (path / FILE).read_bytes() == whole


@of_kinds("search")
def test_an_encoder_of_other_columns(path):
    manifest, arrays = read(path)
    values = {**manifest["values"], "n_features_in_": 13}
    refused(path, {**manifest, "values": values}, arrays, "encoder_ is not for 13")
