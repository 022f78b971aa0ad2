"""Forged files with checksums that fit: refused, or used like any other."""

import functools
import json
import re
import shutil
from contextlib import suppress
from operator import methodcaller

import mutants
import numpy as np
import pytest
from cases import memory_below
from mutants import read, write
from savable import MAKERS, X, fitted, savable_classes, use

import skhash
from skhash.networks import _layers
from skhash.persistence.estimators import FILE


def test_every_class_is_in_the_table():
    made = {type(fitted(name)) for name in MAKERS}
    assert made == {*savable_classes().values()}


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_whole_can_be_used(name, folder, tmp_path):
    """Else the test of what is forged would show nothing."""
    use(skhash.load(folder / name), fitted(name), tmp_path / "again")


@pytest.mark.filterwarnings("ignore")  # of numbers that are large
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(5, 40), marks=pytest.mark.long)], ids=str
)
def test_mutants(name, seeds, folder, tmp_path):
    """A file changed anywhere is refused by a ValueError, or can be used."""
    for seed in seeds:
        path = shutil.copytree(folder / name, tmp_path / f"{seed}")
        mutants.mutate(path, np.random.default_rng(seed))
        try:
            loaded = skhash.load(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            continue
        with suppress(ValueError):  # a method may refuse what does not fit it
            use(loaded, fitted(name), path.parent / "again")


def refused(path, manifest, arrays, message="is damaged"):
    write(path, manifest, arrays)
    with memory_below(2**24):
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} .*{message}"):
            skhash.load(path)


HUGE = [
    ("LinearDecoder", ("values", "n_bits_"), 10**9),
    ("LinearDecoder of bytes", ("values", "n_bits_"), 10**9),
    ("LinearDecoder of bytes", ("values", "block_bits_"), 30),
    ("AdditiveQuantizer", ("values", "n_bits_"), 10**9),
    ("AdditiveQuantizer", ("values", "block_bits_"), 30),
    ("AdditiveQuantizer", ("values", "n_parts_"), 10**9),
    ("SupervisedHash", ("values", "n_bits_"), 10**9),
    ("SBNClassifier", ("params", "n_predict_samples"), 10**6),
    ("SBNClassifier", ("values", "layers_", 0, "n_outputs"), 30_000),
    ("SBNClassifier", ("values", "layers_", 0, "n_inputs"), 10**8),
    ("SBNClassifier", ("values", "layers_", 2, "n_inputs"), 10**8),
    *((name, ("values", "n_features_in_"), 10**8) for name in MAKERS),
]


@pytest.mark.parametrize(("name", "keys", "value"), HUGE)
def test_numbers_beyond_the_file(name, keys, value, folder, tmp_path, monkeypatch):
    """They are refused before memory is taken for what they say, by torch either."""

    def never(*_, **__):
        raise AssertionError("a layer is made")

    monkeypatch.setattr(_layers, "_rebuild", never)
    monkeypatch.setattr(_layers, "RealLinear", never)
    path = shutil.copytree(folder / name, tmp_path / "saved")
    manifest, arrays = read(path)
    holder = functools.reduce(lambda found, key: found[key], keys[:-1], manifest)
    holder[keys[-1]] = value
    refused(path, manifest, arrays)


def test_a_codebook_of_other_blocks(folder, tmp_path):
    """A search for codes would read behind its end."""
    path = shutil.copytree(folder / "LinearDecoder of bytes", tmp_path / "saved")
    manifest, arrays = read(path)
    size, scales = X.shape[1], arrays["scales_"]
    other = np.ones((4, 8, size), dtype=np.int8)
    refused(path, manifest, {**arrays, "entries_": other}, "codebook must have shape")
    floats = arrays["entries_"].astype(np.float32)
    refused(path, manifest, {**arrays, "entries_": floats}, "must have scales")
    for wrong in (scales[:1], scales * np.nan, 0 * scales, -scales, scales + 1e38):
        forged = {**arrays, "scales_": wrong.astype(np.float32)}
        refused(path, manifest, forged, "scales_? (must be|holds)")


@pytest.mark.parametrize(
    "header",
    [b"[" * 5000, b'{"a":' * 5000, b'"' + b'\\"' * 2000, b"null", b"3", b"{}", b"\xff"],
)
def test_headers_that_are_other_json(header, folder, tmp_path):
    path = shutil.copytree(folder / "SBNClassifier", tmp_path / "saved")
    for end in (64 * 100 - 8, 56):
        content = header[:end].ljust(end)
        (path / FILE).write_bytes(len(content).to_bytes(8, "little") + content)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged"):
            skhash.load(path)
    (path / FILE).write_bytes((2**40 - 8).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="cannot have a header of"):
        skhash.load(path)


def test_numbers_are_made_strings_once(tmp_path):
    write(tmp_path, {}, {name: np.array(["x"]) for name in "abc"})
    names = [rf"\"{one}\", \"{other}\"".encode() for one, other in ("bc", "aa")]
    mutants.forge_header(tmp_path, methodcaller("replace", *names))
    with pytest.raises(ValueError, match="is damaged .* IndexError"):
        skhash.load(tmp_path)


def entry_with(**changes):
    def change(header):
        header = json.loads(header)
        header["components_"] |= changes
        return json.dumps(header).encode()

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [5]},
        {"shape": [5, 6, 1.0]},
        {"shape": [-5, -6]},
        {"shape": [0, 10**18]},
        {"shape": [True, 30]},
        {"shape": 30},
        {"dtype": "F64"},
        {"dtype": "object"},
        {"data_offsets": [0, 120]},
        {"data_offsets": [8, 128]},
        {"data_offsets": None},
    ],
    ids=str,
)
def test_places_that_are_not_those_of_an_array(changes, folder, tmp_path):
    path = shutil.copytree(folder / "PCAHash", tmp_path / "saved")
    mutants.forge_header(path, entry_with(**changes))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged"):
        skhash.load(path)


@pytest.mark.parametrize(
    "name",
    [
        "skhash.linear.Unheard",
        "skhash.linear._itq.ITQHash",
        "skhash.linear.ITQHash.__class__",
        "skhash.neighbors.merge_neighbors",
        "skhash.neighbors.HammingNeighbors",
        "skhash.gradients.resolve_gradient",
        "skhash.gradients.GradientEstimator",
        "skhash.noise.Gumbel",
        "ITQHash",
        "os.system",
        "eval",
        "",
        None,
        ["skhash.linear", "ITQHash"],
    ],
    ids=str,
)
def test_classes_that_are_not_built(name, folder, tmp_path):
    """As the estimator, as one of its parameters, and as a part of it."""
    path = shutil.copytree(folder / "HashedNeighbors", tmp_path / "saved")
    whole, arrays = read(path)
    refused(path, {**whole, "class": name}, arrays)
    part = {"__class__": name, "params": {}}
    if not str(name).endswith("Neighbors"):
        for key in ("encoder", "index"):
            refused(path, {**whole, "params": {**whole["params"], key: part}}, arrays)
    encoder = {**whole["values"]["encoder_"], "class": name}
    values = {**whole["values"], "encoder_": encoder}
    refused(path, {**whole, "values": values}, arrays)


@pytest.mark.parametrize(
    "value",
    [
        {"__class__": "skhash.gradients.ARM"},
        {"__class__": "skhash.gradients.ARM", "params": {"twist": 1}},
        {"__class__": "skhash.gradients.ARM", "params": 3},
        {"__tuple__": 3},
        {"__fitted__": "transform"},
        "many",
        0,
    ],
    ids=str,
)
def test_parameters_that_fit_would_not_take(value, folder, tmp_path):
    path = shutil.copytree(folder / "ITQHash", tmp_path / "saved")
    manifest, arrays = read(path)
    refused(path, {**manifest, "params": {"n_bits": value}}, arrays)
    refused(path, {**manifest, "params": {"n_bits": 5, "twist": 1}}, arrays, "'twist'")


@pytest.mark.parametrize("depth", [8, 20, 400])
def test_parameters_in_each_other(depth, folder, tmp_path):
    """To show them takes time that doubles with each."""
    path = shutil.copytree(folder / "StochasticAutoencoderHash", tmp_path / "saved")
    manifest, arrays = read(path)
    part = "arm"
    for _ in range(depth):
        params = {"gradient": part}
        part = {"__class__": "skhash.neural.Correction", "params": params}
    manifest["params"]["correction"] = part
    refused(path, manifest, arrays)


def test_searches_in_each_other(folder, tmp_path):
    path = shutil.copytree(folder / "HashedNeighbors", tmp_path / "saved")
    manifest, arrays = read(path)
    inner = {key: manifest[key] for key in ("class", "params", "values")}
    manifest["values"] = {**manifest["values"], "encoder_": inner}
    others = {name: one for name, one in arrays.items() if "encoder_" not in name}
    others |= {f"encoder_/{name}": one for name, one in arrays.items()}
    refused(path, manifest, others)


def test_names_that_are_no_fitted_attributes(folder, tmp_path):
    """No method is replaced, and none is called."""
    path = shutil.copytree(folder / "NeighborHash", tmp_path / "saved")
    manifest, arrays = read(path)
    for name in ("transform", "__class__", "net_", "n_bits", "_check_saved"):
        values = {**manifest["values"], name: 3}
        refused(path, {**manifest, "values": values}, arrays, "no fitted attribute")
        refused(path, manifest, {**arrays, name: X}, "no fitted attribute")
        refused(path, manifest, {**arrays, f"{name}/0": X}, "no fitted attribute")
    values = {**manifest["values"], "mean_": None}
    refused(path, {**manifest, "values": values}, arrays, "two values")
    for other in "coefs_/x coefs_/3 coefs_/ coefs_//0 coefs_ coefs_/01".split():
        renamed = {
            other if name == "coefs_/0" else name: arrays[name] for name in arrays
        }
        refused(path, manifest, renamed)
