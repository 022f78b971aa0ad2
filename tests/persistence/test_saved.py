"""Saved files: whole or not at all, the same when loaded, and data alone."""

import json
import pickletools
import re
import shutil
import warnings
from operator import methodcaller

import numpy as np
import pytest
from checks import assert_same_state
from mutants import forge_header, read, write
from safetensors.numpy import load_file
from savable import MAKERS, X, assert_same_answers, fitted
from savable import TRAINED as FAST
from skorch.callbacks import EarlyStopping
from special_files import make_link, make_pipe

import skhash
from skhash.gradients import ARM, StraightThrough
from skhash.linear import ITQHash, PCAHash
from skhash.neighbors import HashedNeighbors
from skhash.neural import Correction, CorrelatedPosterior
from skhash.noise import Logistic
from skhash.persistence import tensors
from skhash.persistence.estimators import FILE
from skhash.training import LinearSchedule

TRAINED = {**FAST, "random_state": 0}


@pytest.fixture(params=MAKERS)
def path(request, folder, tmp_path):
    """A copy of what is saved of an estimator, in a directory of its name."""
    return shutil.copytree(folder / request.param, tmp_path / request.param)


of_one = pytest.mark.parametrize("path", ["ITQHash"], indirect=True)


def rewrite(path, **changes):
    manifest, arrays = read(path)
    write(path, {**manifest, **changes}, arrays)


def content(path):
    """Return all files below a directory, and what is in them."""
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_the_same_is_loaded(path):
    whole, loaded = fitted(path.name), skhash.load(path)
    assert type(loaded) is type(whole)
    assert repr(loaded.get_params()) == repr(whole.get_params())
    assert_same_answers(loaded, whole)
    if not hasattr(whole, "index_"):
        assert_same_state(whole, loaded)
    loaded.save(path)
    assert_same_answers(skhash.load(path), whole)


def test_a_file_is_plain_safetensors_and_no_pickle(path):
    """Others read it, too."""
    assert [file.name for file in path.iterdir()] == [FILE]
    plain, (manifest, arrays) = load_file(path / FILE), read(path)
    assert plain.keys() == arrays.keys() - manifest["same"].keys()
    for name in plain.keys() - {*manifest["strings"]}:
        np.testing.assert_array_equal(plain[name], arrays[name])
    with pytest.raises(ValueError):
        list(pickletools.genops((path / FILE).read_bytes()))


def test_arrays_begin_where_processors_like_them(path):
    _, mapped = tensors.read(path / FILE, mmap=True)
    for name, array in mapped.arrays.items():
        assert array.flags.aligned
        unit = next(unit for unit in (64, 8, 1) if array.nbytes % unit == 0)
        is_scanned = name in ("store/codes", "store/blocks")
        assert array.ctypes.data % (64 if is_scanned else unit) == 0


def test_arrays_that_repeat_are_written_once(tmp_path):
    """A search and its quantizer have one codebook; 0 and -0 are not the same."""
    HashedNeighbors(4).fit(X).save(tmp_path)
    names = {"encoder_/entries_", "index_/store/codebook"}
    assert len(load_file(tmp_path / FILE).keys() & names) == 1
    values = {name: np.zeros(99) for name in "abcde"}
    values["b"] = -values["b"]
    write(tmp_path, {}, values)
    manifest, loaded = tensors.read(tmp_path / FILE)
    assert manifest["same"] == {"c": "a", "e": "d"}
    arrays = loaded.read()
    for name, array in arrays.items():
        assert array.tobytes() == values[name].tobytes()
    assert not np.shares_memory(arrays["a"], arrays["c"])
    # Nobody makes a small file take much memory.
    for first, error in ((b"a", ValueError), (b"c", KeyError)):
        write(tmp_path, {}, values)
        changes = [rb"\"e\": \"%s\"" % name for name in (b"d", first)]
        forge_header(tmp_path, methodcaller("replace", *changes))
        with pytest.raises(error, match="more than once|c"):
            tensors.read(tmp_path / FILE)


# Damage


def test_flipped_bits_and_files_that_are_cut_or_longer(path):
    whole = (path / FILE).read_bytes()
    damaged = [whole[:n] for n in (0, 7, 8, 99, -1)] + [whole + b"\0"]
    for place in np.linspace(0, len(whole) - 1, 40).astype(int):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        damaged.append(flipped)
    for content in damaged:
        (path / FILE).write_bytes(content)
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged"):
            skhash.load(path)


@of_one
def test_what_is_no_saved_estimator(path, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for absent in (tmp_path / "absent", empty, path / FILE):
        message = re.escape(f"{absent} is not a saved skhash estimator")
        with pytest.raises(FileNotFoundError, match=message):
            skhash.load(absent)
    rewrite(path, format=2, skhash_version="7.5")
    with pytest.raises(ValueError, match="skhash 7.5 .* format 2, .* up to 1; up"):
        skhash.load(path)


@of_one
@pytest.mark.parametrize("kind", ["link", "broken link", "pipe", "directory"])
def test_what_is_no_file_is_not_opened(path, kind, tmp_path):
    """A pipe would keep the reader waiting."""
    moved = (path / FILE).rename(tmp_path / "elsewhere")
    if kind == "link":
        make_link(path / FILE, moved)
    elif kind == "broken link":
        make_link(path / FILE, tmp_path / "nowhere")
    elif kind == "pipe":
        make_pipe(path / FILE)
    else:
        (path / FILE).mkdir()
    message = f"{re.escape(str(path))} is damaged .* link, or no file"
    with pytest.raises(ValueError, match=message):
        skhash.load(path)


# Writers that fail, are killed, and meet others


def test_what_cannot_be_saved_leaves_the_old_state(path):
    before = content(path)
    broken = ITQHash(n_bits=3).fit(X)
    broken.n_iter_ = print
    with pytest.raises(ValueError, match="n_iter_ is .*no such number"):
        broken.save(path)
    with pytest.raises(ValueError, match="'n_bits' parameter of ITQHash must be"):
        ITQHash(n_bits=3).fit(X).set_params(n_bits="many").save(path)
    broken = ITQHash(n_bits=3).fit(X)
    broken.mean_ = broken.mean_ * np.nan
    with pytest.raises(ValueError, match="mean_ holds values from nan"):
        broken.save(path)
    assert content(path) == before


@of_one
def test_a_file_that_is_replaced_while_it_is_read(path, monkeypatch):
    parse = json.loads

    def replace_then_parse(text):
        monkeypatch.setattr(tensors.json, "loads", parse)
        fitted("PCAHash").save(path)
        return parse(text)

    monkeypatch.setattr(tensors.json, "loads", replace_then_parse)
    assert_same_answers(skhash.load(path), fitted("ITQHash"))
    assert_same_answers(skhash.load(path), fitted("PCAHash"))


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json", "model.safetensors"])
def test_directories_and_files_of_others_stay(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match="other content"):
        fitted("ITQHash").save(tmp_path)
    with pytest.raises(FileExistsError, match="is a file"):
        fitted("ITQHash").save(tmp_path / name)
    assert content(tmp_path) == {name: b"mine"}
    fitted("ITQHash").save(tmp_path / "new")
    (tmp_path / "new" / name).write_text("mine")
    fitted("PCAHash").save(tmp_path / "new")
    assert (tmp_path / "new" / name).read_text() == "mine"


def test_the_rest_of_a_first_save_that_was_killed_is_no_other_content(tmp_path):
    (tmp_path / f"{FILE}.0123456789abcdef.part").write_text("half")
    fitted("ITQHash").save(tmp_path)
    assert_same_answers(skhash.load(tmp_path), fitted("ITQHash"))


# Parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("callbacks", [EarlyStopping()]),
        ("random_state", np.random.RandomState(0)),
        ("validation_fraction", lambda dataset, y=None: (dataset, dataset)),
    ],
)
def test_params_that_are_no_data_are_left_out(name, value, tmp_path):
    params = {**TRAINED, "validation_fraction": 0.2, name: value}
    encoder = skhash.SGHEncoder(**params).fit(X)
    with pytest.warns(UserWarning, match=f"{name} is not saved") as caught:
        encoder.save(tmp_path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    loaded = skhash.load(tmp_path)
    assert getattr(loaded, name) is getattr(skhash.SGHEncoder(), name)
    assert loaded.n_bits == 5
    assert_same_answers(loaded, encoder)


def test_numpy_numbers_are_saved_as_numbers(tmp_path):
    params = {"lr": np.float32(0.01), "normalize": np.bool_(1)}
    encoder = skhash.SGHEncoder(**{**TRAINED, **params, "n_bits": np.int64(3)}).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.save(tmp_path)
    loaded = skhash.load(tmp_path)
    for name, value in {**params, "n_bits": 3}.items():
        assert getattr(loaded, name) == value
    assert_same_answers(loaded.fit(X), encoder)


PARTS = {
    "hidden_layer_sizes": (4, 3),
    "gradient": ARM(n_samples=3),
    "noise": Logistic(scale=2.0),
    "kl_weight": LinearSchedule(0.0, 0.5, n_steps=7),
    "posterior": CorrelatedPosterior(rank=2),
    "correction": Correction(StraightThrough(debias=None), n_epochs=1),
}


class OwnSchedule(LinearSchedule):
    """Not the library's: another machine could not build it."""


@pytest.mark.filterwarnings("ignore:. of 5 bits")
def test_parameters_that_are_objects_of_ours_and_of_others(tmp_path):
    encoder = skhash.StochasticAutoencoderHash(**TRAINED, **PARTS).fit(X)
    encoder.save(tmp_path)
    loaded = skhash.load(tmp_path)
    assert repr(loaded.get_params()) == repr(encoder.get_params())
    assert loaded.hidden_layer_sizes == (4, 3)
    assert_same_answers(loaded.fit(X), encoder)
    with pytest.warns(UserWarning, match="kl_weight is not saved, .* OwnSchedule"):
        encoder.set_params(kl_weight=OwnSchedule(0.0, 1.0, 3)).save(tmp_path)
    default = skhash.StochasticAutoencoderHash().kl_weight
    assert skhash.load(tmp_path).kl_weight == default


class OwnHash(ITQHash):
    """Not the library's: another machine could not build it."""


def test_classes_of_others_are_not_saved(tmp_path):
    with pytest.raises(TypeError, match="is a OwnHash, which cannot be saved"):
        OwnHash(2).fit(X).save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_long_histories_and_many_names(tmp_path):
    """Data that grow with use are no part of the header, which is bounded."""
    pandas = pytest.importorskip("pandas")
    names = [f"{'long ' * 5}{i}" for i in range(40_000)]
    rows = np.random.default_rng(0).normal(size=(4, 40_000))
    encoder = PCAHash(2).fit(pandas.DataFrame(rows, columns=names))
    encoder.save(tmp_path)
    loaded = skhash.load(tmp_path)
    np.testing.assert_array_equal(loaded.feature_names_in_, names)
    assert loaded.feature_names_in_.dtype == object
    encoder = skhash.SGHEncoder(**TRAINED).fit(X)
    encoder.history_ = encoder.history_ * 20_000
    encoder.save(tmp_path)
    assert skhash.load(tmp_path).history_ == encoder.history_
    with pytest.raises(ValueError, match="take .* bytes, but .* at most 1048576"):
        encoder.set_params(device="d" * 2**20).save(tmp_path)


def test_arrays_of_another_byte_order_are_saved(tmp_path):
    vectors = np.random.RandomState(0).randn(9, 3).astype(">f4")
    search = HashedNeighbors(PCAHash(3), n_neighbors=2, rerank=9, vectors=True)
    search.fit(vectors).save(tmp_path / "search")
    again = skhash.load(tmp_path / "search")
    np.testing.assert_array_equal(again.index_._store["vectors"], vectors)
    np.testing.assert_array_equal(again.kneighbors(vectors), search.kneighbors(vectors))
