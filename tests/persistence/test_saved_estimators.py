"""Saved encoders: damage is named, crashes lose nothing, nothing runs."""

import hashlib
import json
import os
import pickletools
import re
import shutil
import warnings

import numpy as np
import pytest
from checks import assert_same_state, training_data
from safetensors.numpy import load_file
from safetensors.numpy import save as serialize_arrays
from skorch.callbacks import EarlyStopping

import skhash
from skhash.gradients import ARM, StraightThrough
from skhash.neural import Correction, CorrelatedPosterior
from skhash.noise import Logistic
from skhash.persistence import directory
from skhash.persistence.directory import FORMAT_VERSION, MANIFEST, checksum_of
from skhash.training import LinearSchedule


@pytest.fixture
def encoder():
    return skhash.ITQHash(n_bits=9, max_iter=3, random_state=0).fit(training_data())


@pytest.fixture
def other():
    X = training_data()[:, ::-1]
    return skhash.PCAHash(n_bits=3, random_state=0).fit(X)


@pytest.fixture
def path(encoder, tmp_path):
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


def array_file(path):
    (found,) = path.glob("*.safetensors")
    return found


def rewrite(path, **changes):
    """Change the manifest as its writer would: with a checksum that fits."""
    manifest = json.loads((path / MANIFEST).read_text())
    manifest.pop("checksum")
    manifest.update(changes)
    manifest["checksum"] = checksum_of(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


def test_directory_is_json_and_safetensors(path, encoder):
    assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors"}
    assert len(list(path.iterdir())) == 2
    arrays = load_file(array_file(path))
    np.testing.assert_array_equal(arrays["components_"], encoder.components_)
    for file in path.iterdir():
        with pytest.raises(ValueError):
            list(pickletools.genops(file.read_bytes()))


@pytest.mark.parametrize("kind", [str, os.fspath, lambda path: path])
def test_any_kind_of_path(kind, encoder, tmp_path):
    target = tmp_path / "new" / "folders" / "encoder"
    encoder.save(kind(target))
    assert_same_state(encoder, skhash.load(kind(target)))


def test_saving_again_leaves_no_old_arrays(path, encoder, other):
    old = array_file(path)
    encoder.save(path)
    assert array_file(path) == old
    other.save(path)
    assert array_file(path) != old
    assert len(list(path.iterdir())) == 2
    assert_same_state(other, skhash.load(path))


@pytest.mark.parametrize("end", [0, 1, 20, -1])
def test_truncated_manifest(path, end):
    manifest = path / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:end])
    with pytest.raises(ValueError, match=f"damaged .*: {MANIFEST}"):
        skhash.load(path)


def test_flipped_bytes_in_the_manifest(path):
    """Wherever a bit flips, loading refuses, or nothing but white space changed."""
    manifest = path / MANIFEST
    content = manifest.read_bytes()
    before = json.loads(content)
    for position in range(0, len(content), 3):
        for bit in (0, 4, 7):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            manifest.write_bytes(damaged)
            try:
                skhash.load(path)
            except ValueError as error:
                assert "damaged" in str(error) or "format version" in str(error)
            else:
                assert json.loads(manifest.read_bytes()) == before


@pytest.mark.parametrize("text", ["null", "[]", "3", '"text"', "{}", "\udcff"])
def test_manifest_with_other_json(path, text):
    (path / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=f"damaged .*: {MANIFEST}"):
        skhash.load(path)


def test_changed_value_in_the_manifest(path):
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["params"]["n_bits"] = 8
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="does not match its checksum"):
        skhash.load(path)


def test_flipped_bytes_in_the_arrays(path):
    file = array_file(path)
    content = file.read_bytes()
    for position in np.linspace(0, len(content) - 1, 50).astype(int):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged .* does not match its checksum"):
            skhash.load(path)


@pytest.mark.parametrize("end", [0, 7, 100, -1])
def test_truncated_arrays(path, end):
    file = array_file(path)
    file.write_bytes(file.read_bytes()[:end])
    with pytest.raises(ValueError, match="damaged"):
        skhash.load(path)


def test_missing_arrays(path):
    name = array_file(path).name
    array_file(path).unlink()
    with pytest.raises(ValueError, match=f"damaged .*: {name} is missing"):
        skhash.load(path)


def test_arrays_of_another_encoder(path, other, tmp_path):
    other.save(tmp_path / "other")
    shutil.copy(array_file(tmp_path / "other"), array_file(path))
    with pytest.raises(ValueError, match="does not match its checksum"):
        skhash.load(path)


def test_arrays_that_are_no_safetensors(path):
    """A checksum that fits does not make garbage an array file."""
    garbage = b"\xff" * 100
    array_file(path).write_bytes(garbage)
    rewrite(path, arrays_sha256=hashlib.sha256(garbage).hexdigest())
    with pytest.raises(ValueError, match="is damaged"):
        skhash.load(path)


def test_newer_format(path):
    rewrite(path, format_version=FORMAT_VERSION + 1)
    message = f"format version {FORMAT_VERSION + 1}; .* up to {FORMAT_VERSION}"
    with pytest.raises(ValueError, match=message):
        skhash.load(path)


def test_newer_format_with_another_checksum(path):
    """The version is read first: what follows may be made otherwise."""
    content = {"format_version": FORMAT_VERSION + 1, "anything": "else"}
    (path / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="Update skhash to load it"):
        skhash.load(path)


@pytest.mark.parametrize(
    "name",
    [
        "skhash.linear.Unheard",
        "skhash.linear._itq.ITQHash",
        "skhash.linear.ITQHash.__class__",
        "skhash.neighbors.PrefixNeighbors",
        "skhash.gradients.resolve_gradient",
        "ITQHash",
        "os.system",
        "eval",
        "",
    ],
)
def test_unknown_class(path, name):
    rewrite(path, **{"class": name, "skhash_version": "9.8"})
    with pytest.raises(ValueError, match=rf"holds a '{name}', which.*skhash 9\.8"):
        skhash.load(path)


def test_an_encoder_that_says_it_is_an_index(path):
    rewrite(path, **{"class": "skhash.neighbors.HammingNeighbors"})
    with pytest.raises(ValueError, match="parameters that .*HammingNeighbors does not"):
        skhash.load(path)


def test_unknown_params(path):
    rewrite(path, params={"n_bits": 9, "twist": 1}, skhash_version="9.8")
    with pytest.raises(ValueError, match=r"'twist'.*written by skhash 9\.8"):
        skhash.load(path)


def test_nothing_there(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    for absent in (tmp_path / "absent", tmp_path, file):
        message = re.escape(f"{absent} is not a saved skhash estimator")
        with pytest.raises(FileNotFoundError, match=message):
            skhash.load(absent)


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".npy.part"])
def test_files_of_others_that_are_named_by_their_content_stay(tmp_path, suffix):
    file = tmp_path / f"embeddings-0123456789abcdef{suffix}"
    file.write_text("theirs")
    encoder = skhash.PCAHash(2).fit(training_data())
    with pytest.raises(FileExistsError, match="other content"):
        encoder.save(tmp_path)
    encoder.save(tmp_path / "new")
    moved = file.rename(tmp_path / "new" / file.name)
    encoder.save(tmp_path / "new")
    assert moved.read_text() == "theirs"


def test_a_file_is_not_replaced(encoder, tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(FileExistsError, match="is a file"):
        encoder.save(file)
    assert file.read_text() == "text"


@pytest.mark.parametrize("name", ["notes.txt", MANIFEST, "model.safetensors"])
def test_a_foreign_directory_is_not_written_to(encoder, tmp_path, name):
    (tmp_path / name).write_text('{"name": "a web page\'s own manifest"}')
    before = (tmp_path / name).read_bytes()
    with pytest.raises(FileExistsError, match="other content"):
        encoder.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_an_empty_directory_is_written_to(encoder, tmp_path):
    encoder.save(tmp_path)
    assert_same_state(encoder, skhash.load(tmp_path))


def crash_at_rename(monkeypatch, number):
    """Let the rename of this number (1, 2, ...) fail, as a full disk or a kill does."""
    calls = []

    def replace(source, target):
        calls.append(target)
        if len(calls) == number:
            raise OSError("crashed here")
        return os.rename(source, target)

    monkeypatch.setattr(directory.os, "replace", replace)


@pytest.mark.parametrize("number", [1, 2])
def test_crash_leaves_the_old_state(path, encoder, other, monkeypatch, number):
    with monkeypatch.context() as patch:
        crash_at_rename(patch, number)
        with pytest.raises(OSError, match="crashed here"):
            other.save(path)
    assert_same_state(encoder, skhash.load(path))
    other.save(path)  # and saving again cleans up
    assert_same_state(other, skhash.load(path))
    assert len(list(path.iterdir())) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_crash_of_the_first_save(encoder, tmp_path, monkeypatch, number):
    target = tmp_path / "encoder"
    with monkeypatch.context() as patch:
        crash_at_rename(patch, number)
        with pytest.raises(OSError, match="crashed here"):
            encoder.save(target)
    with pytest.raises(FileNotFoundError):
        skhash.load(target)
    encoder.save(target)
    assert_same_state(encoder, skhash.load(target))
    assert len(list(target.iterdir())) == 2


def test_crash_while_writing(path, encoder, other, monkeypatch):
    def fsync(descriptor):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(directory.os, "fsync", fsync)
        with pytest.raises(OSError, match="disk full"):
            other.save(path)
    assert_same_state(encoder, skhash.load(path))


def test_what_cannot_be_saved_leaves_the_old_state(path, encoder):
    before = sorted(file.name for file in path.iterdir())
    broken = skhash.ITQHash(n_bits=3).fit(training_data())
    broken.n_iter_ = print
    with pytest.raises(TypeError, match="not plain data"):
        broken.save(path)
    assert sorted(file.name for file in path.iterdir()) == before
    assert_same_state(encoder, skhash.load(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("callbacks", [EarlyStopping()]),
        ("random_state", np.random.RandomState(0)),
        ("validation_fraction", lambda dataset, y=None: (dataset, dataset)),
    ],
)
def test_params_that_are_no_data_are_left_out(name, value, tmp_path):
    X = training_data()
    params = {"n_bits": 3, "max_epochs": 1, "validation_fraction": 0.2, name: value}
    encoder = skhash.SGHEncoder(**params).fit(X)
    with pytest.warns(UserWarning, match=f"{name}: .* is not saved") as caught:
        encoder.save(tmp_path / "encoder")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    loaded = skhash.load(tmp_path / "encoder")
    assert getattr(loaded, name) is getattr(skhash.SGHEncoder(), name)
    assert loaded.n_bits == 3
    np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))


def test_numpy_numbers_are_saved_as_numbers(tmp_path):
    X = training_data()
    params = {
        "n_bits": np.int64(3),
        "lr": np.float32(0.01),
        "refit_decoder": np.bool_(1),
    }
    encoder = skhash.SGHEncoder(max_epochs=1, random_state=0, **params).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    for name, value in params.items():
        assert getattr(loaded, name) == value
    np.testing.assert_array_equal(loaded.fit(X).transform(X), encoder.transform(X))


def test_loading_calls_no_method_of_the_file(path):
    """Values are set as attributes of fitted state, and under such names only."""
    manifest = json.loads((path / MANIFEST).read_text())
    values = {**manifest["values"], "transform": "replaced", "__class__": "replaced"}
    rewrite(path, values=values)
    with pytest.raises(ValueError, match="damaged"):
        skhash.load(path)


# Lists of arrays


@pytest.fixture
def layered():
    """A fitted encoder with lists of arrays, one longer than there are digits."""
    X = np.abs(training_data())
    encoder = skhash.StochasticAutoencoderHash(
        n_bits=3, hidden_layer_sizes=(2,) * 11, max_epochs=1, random_state=0
    ).fit(X)
    return encoder, X


@pytest.fixture
def layered_path(layered, tmp_path):
    layered[0].save(tmp_path / "layered")
    return tmp_path / "layered"


def replace_arrays(path, change):
    """Rewrite the array file with names changed, and a checksum that fits."""
    content = serialize_arrays(change(load_file(array_file(path))))
    array_file(path).write_bytes(content)
    rewrite(path, arrays_sha256=hashlib.sha256(content).hexdigest())


def test_lists_of_arrays_come_back_in_order(layered, layered_path):
    encoder, X = layered
    loaded = skhash.load(layered_path)
    assert len(loaded.coefs_) == 12 and type(loaded.coefs_) is list
    assert_same_state(encoder, loaded)
    np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))
    names = load_file(array_file(layered_path)).keys()
    assert {f"coefs_.{i}" for i in range(12)} <= names
    assert "coefs_" not in names


def test_lists_of_numbers_and_records_are_values(layered, layered_path):
    manifest = json.loads((layered_path / MANIFEST).read_text())
    assert manifest["values"]["history_"] == layered[0].history_


def renamed(old, new):
    return lambda arrays: {
        new if name == old else name: array for name, array in arrays.items()
    }


@pytest.mark.parametrize(
    "change",
    [
        renamed("coefs_.3", "coefs_.x"),
        renamed("coefs_.3", "coefs_."),
        renamed("coefs_.3", "coefs_.-3"),
        renamed("coefs_.3", "coefs_.3.0"),
        renamed("coefs_.3", "coefs_.03"),
        renamed("coefs_.3", "coefs_.30"),
        renamed("coefs_.3", "coefs_"),
        renamed("coefs_.3", ".3"),
        renamed("coefs_.3", "transform.3"),
        renamed("coefs_.3", "__class__"),
        lambda arrays: {n: a for n, a in arrays.items() if n != "coefs_.0"},
        lambda arrays: {"coefs_": np.ones(2), **arrays},
    ],
    ids=range(12),
)
def test_damaged_names_of_list_items(layered_path, change):
    """Gaps, doubles and what is no number are refused, and nothing is called."""
    replace_arrays(layered_path, change)
    with pytest.raises(ValueError, match=re.escape(f"{layered_path} is damaged")):
        skhash.load(layered_path)


def test_a_list_in_place_of_a_value(layered_path):
    """One name cannot be both."""
    manifest = json.loads((layered_path / MANIFEST).read_text())
    rewrite(layered_path, values={**manifest["values"], "coefs_": 3})
    with pytest.raises(ValueError, match=re.escape(f"{layered_path} is damaged")):
        skhash.load(layered_path)


# Parameters that are tuples, or objects of the library's own


PARAMS = {
    "hidden_layer_sizes": (4, 3),
    "gradient": ARM(n_samples=3),
    "noise": Logistic(scale=2.0),
    "kl_weight": LinearSchedule(0.0, 0.5, n_steps=7),
    "posterior": CorrelatedPosterior(rank=2),
    "correction": Correction(StraightThrough(debias=None), n_epochs=1),
}


def test_parts_come_back_as_they_were(tmp_path):
    X = np.abs(training_data())
    encoder = skhash.StochasticAutoencoderHash(n_bits=3, max_epochs=1, **PARAMS).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert loaded.hidden_layer_sizes == (4, 3)
    assert loaded.get_params().keys() == encoder.get_params().keys()
    for name in ("gradient", "noise", "kl_weight", "posterior"):
        given, found = PARAMS[name], getattr(loaded, name)
        assert type(found) is type(given)
        assert found.get_params() == given.get_params()
    assert repr(loaded.correction) == repr(PARAMS["correction"])  # a part in a part
    loaded.fit(X)


class OwnSchedule(LinearSchedule):
    """Not the library's: another machine could not build it."""


def test_parts_of_others_are_left_out(tmp_path):
    X = np.abs(training_data())
    encoder = skhash.StochasticAutoencoderHash(
        n_bits=3, max_epochs=1, kl_weight=OwnSchedule(0.0, 1.0, 3)
    ).fit(X)
    with pytest.warns(UserWarning, match="kl_weight: OwnSchedule .* is not saved"):
        encoder.save(tmp_path / "encoder")
    loaded = skhash.load(tmp_path / "encoder")
    assert loaded.kl_weight == skhash.StochasticAutoencoderHash().kl_weight


@pytest.mark.parametrize(
    "part",
    [
        "os.system",
        "skhash.gradients.clone",
        "skhash.gradients.resolve_gradient",
        "skhash.gradients.__doc__",
        "skhash.gradients._exact.Exact",
        "skhash.gradients.GradientEstimator",
        "skhash.noise.Gumbel",
        "skhash.gradients",
        "text",
        None,
        ["skhash.noise", "Normal"],
    ],
    ids=str,
)
def test_only_exported_parts_are_built(path, part):
    params = {"n_bits": {"__class__": part, "params": {"gradient": "st"}}}
    rewrite(path, params=params)
    with pytest.raises(ValueError, match="damaged|not known"):
        skhash.load(path)


@pytest.mark.parametrize(
    "value",
    [
        {"__class__": "skhash.gradients.ARM"},
        {"__class__": "skhash.gradients.ARM", "params": {"twist": 1}},
        {"__class__": "skhash.gradients.ARM", "params": 3},
        {"__tuple__": 3},
    ],
    ids=str,
)
def test_damaged_parts(path, value):
    rewrite(path, params={"n_bits": value})
    with pytest.raises(ValueError, match="damaged|not known"):
        skhash.load(path)


# What killed saves left behind


def killed_save(path, save, patched):
    """Save until the first file has its name, and then be killed."""

    def die(source, target):
        os.rename(source, target)
        raise KeyboardInterrupt

    with patched.context() as patch:
        patch.setattr(directory.os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            save(path)


def full_disk(*arguments):
    raise OSError("disk full")


def test_leftovers_go_before_a_save_begins(path, encoder, other, monkeypatch):
    """They may be what has filled the disk."""
    whole = {file.name for file in path.iterdir()}
    killed_save(path, other.save, monkeypatch)
    (path / "manifest.json.part").write_text("{")
    assert {file.name for file in path.iterdir()} > whole
    with monkeypatch.context() as patch:
        patch.setattr(directory.os, "fsync", full_disk)
        patch.setattr(directory.os, "replace", full_disk)
        with pytest.raises(OSError, match="disk full"):
            other.save(path)
    left = {file.name for file in path.iterdir()}
    assert not {name for name in left - whole if not name.endswith(".part")}
    assert "manifest.json.part" not in left
    assert_same_state(encoder, skhash.load(path))


def test_a_save_writes_through_no_link(path, encoder, tmp_path):
    """One that somebody put where a part of a file is written first."""
    (tmp_path / "outside").write_text("mine")
    for name in (f"{array_file(path).name}.part", f"{MANIFEST}.part"):
        (path / name).symlink_to(tmp_path / "outside")
    encoder.save(path)
    assert (tmp_path / "outside").read_text() == "mine"
    assert len(list(path.iterdir())) == 2


def test_loading_while_another_process_saves(path, other, monkeypatch):
    """The manifest that was read names a file that is gone; the new one is read."""
    read = directory.read_manifest

    def read_and_let_save(folder):
        manifest = read(folder)
        monkeypatch.setattr(directory, "read_manifest", read)
        other.save(folder)
        return manifest

    monkeypatch.setattr(directory, "read_manifest", read_and_let_save)
    assert_same_state(other, skhash.load(path))


@pytest.mark.parametrize("value", [0, "many", None, [1], {"a": 1}])
def test_parameters_that_fit_would_not_take(path, encoder, value, tmp_path):
    rewrite(path, params={"n_bits": value})
    with pytest.raises(ValueError, match=f"{path} is damaged or .*'n_bits' parameter"):
        skhash.load(path)
    with pytest.raises(ValueError, match="'n_bits' parameter of ITQHash must be"):
        encoder.set_params(n_bits=value).save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_value_that_no_array_can_have(path):
    rewrite(path, values={"classes_": [[1], [2, 3]]})
    with pytest.raises(ValueError, match=f"{path} is damaged"):
        skhash.load(path)


@pytest.mark.parametrize("classes", [[0], [0, 1, 2], 3, None, "missing"])
def test_a_classifier_of_other_classes(classes, tmp_path):
    X, y = training_data(), np.arange(150) % 2
    skhash.SBNClassifier((3,), max_epochs=1, random_state=0).fit(X, y).save(tmp_path)
    arrays = load_file(array_file(tmp_path))
    values = json.loads((tmp_path / MANIFEST).read_text())["values"]
    arrays.pop("classes_", None)
    if classes != "missing":
        values["classes_"] = classes
    rewrite(tmp_path, values=values)
    replace_arrays(tmp_path, lambda _: arrays)
    with pytest.raises(ValueError, match=f"{tmp_path} is damaged"):
        skhash.load(tmp_path)
