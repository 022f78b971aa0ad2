"""Forged files with checksums that fit: refused, or used like any other."""

import copy
import functools
import inspect
import json
import shutil
import tracemalloc

import mutants
import numpy as np
import pytest
from mutants import read, write
from savable import CODES, IDS, MAKERS, X, Y, fitted, savable_classes

import skhash
from skhash.neighbors import AsymmetricNeighbors
from skhash.networks import _rebuild
from skhash.persistence.estimators import FILE

# What is no use of a fitted estimator.
OTHER = {"fit", "fit_transform", "get_metadata_routing", "get_params", "load"}


def test_every_class_is_in_the_table():
    made = {type(fitted(name)) for name in MAKERS}
    assert made == {*savable_classes().values()}


def use(estimator, whole, folder):
    """Call every public method of an estimator, with what fits `whole`."""
    names = {name for name in dir(estimator) if not name.startswith(("_", "set_"))}
    changing = ["prepare", "remove", "compact", "partial_fit"]  # and so the last
    for name in [*sorted(names - OTHER - {*changing}), *changing]:
        method = getattr(estimator, name, None)
        if inspect.ismethod(method):
            given = arguments(whole, name) | {"path": folder}
            taken = inspect.signature(method).parameters.keys() & given.keys()
            method(**{key: given[key] for key in taken})


def arguments(estimator, method):
    """Return what may be given to a method, by the names of parameters."""
    is_index = hasattr(estimator, "packed_codes_")
    n_bits = getattr(estimator, "n_bits_", None) or estimator._n_features_out
    codes = CODES[:60, : estimator.n_features_in_ if is_index else n_bits]
    takes_codes = is_index or method == "inverse_transform"
    given = {"X": codes if takes_codes else X, "y": Y, "bits": codes, "codes": codes}
    given |= {"n_bits": 3, "expected_queries": 9}
    if isinstance(estimator, AsymmetricNeighbors) and method != "partial_fit":
        given["X"] = X
    if method == "remove":
        given["ids"] = IDS[5:7]
    if method == "partial_fit":
        given["ids"] = np.char.add(IDS, " more")
        if hasattr(estimator, "vectors_"):
            given["vectors"] = X
    return given


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what is saved of each estimator in the table."""
    folder = tmp_path_factory.mktemp("saved")
    for name in MAKERS:
        fitted(name).save(folder / name)
    return folder


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_whole_can_be_used(name, folder, tmp_path):
    """Else the test of what is forged would show nothing."""
    use(skhash.load(folder / name), fitted(name), tmp_path / "again")


def other_arrays(array):
    """Yield arrays of other shapes, types and values; None is for none."""
    yield None
    yield array[None]
    yield array.ravel()[:-1]
    for axis in range(array.ndim):
        yield array.repeat(2, axis)
        yield array.take(range(array.shape[axis] - 1), axis)
        yield array.take([], axis)
    for other in (np.uint8, np.int64, np.float16, np.float32, np.float64, bool):
        if array.dtype.kind != "U" and array.dtype != other:
            yield array.astype(other)
    values = {"f": (np.nan, np.inf, 1e30), "i": (-1, 2**31 - 1), "u": (0, 255)}
    for value in values.get(array.dtype.kind, ()):
        changed = array.copy()
        changed.flat[-1] = value
        yield changed


def chosen(forgeries):
    """Return some of many forgeries."""
    forgeries = list(forgeries)
    order = np.random.default_rng(len(forgeries)).permutation(len(forgeries))
    return [forgeries[i] for i in order[:15]]


@pytest.mark.filterwarnings("ignore")  # of numbers that are large
@pytest.mark.parametrize("name", MAKERS)
def test_forged_arrays(name, folder, tmp_path):
    path = shutil.copytree(folder / name, tmp_path / "saved")
    manifest, whole = read(path)
    forgeries = ((key, other) for key in whole for other in other_arrays(whole[key]))
    for key, other in chosen(forgeries):
        arrays = {name: own for name, own in whole.items() if name != key}
        arrays |= {} if other is None else {key: np.ascontiguousarray(other)}
        write(path, manifest, arrays)
        use_if_loaded(path, fitted(name), f"{key} {other}")


VALUES = (None, True, -1, 0, 2, 10**9, 2**70, 0.5, float("nan"), float("inf"))
VALUES += ("x", [], [7], [None], {}, {"a": 1}, {"__fitted__": "mean_"}, "missing")


def paths_below(found, *keys):
    """Yield the keys that lead to every value in JSON."""
    for key in found if isinstance(found, dict) else range(len(found)):
        yield (*keys, key)
        if isinstance(found[key], dict | list):
            yield from paths_below(found[key], *keys, key)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_forged_values(name, folder, tmp_path):
    """Anywhere in the manifest."""
    path = shutil.copytree(folder / name, tmp_path / "saved")
    whole, arrays = read(path)
    # What a large parameter asks for, such as restarts, is done when it is asked for.
    paths = [keys for keys in paths_below(whole) if "params" not in keys[:-1]]
    for keys, other in chosen((keys, other) for keys in paths for other in VALUES):
        manifest = copy.deepcopy(whole)
        holder = functools.reduce(lambda found, key: found[key], keys[:-1], manifest)
        if other == "missing":
            del holder[keys[-1]]
        else:
            holder[keys[-1]] = other
        write(path, manifest, arrays)
        use_if_loaded(path, fitted(name), f"{keys} {other!r:.99}")


def use_if_loaded(path, whole, forged):
    """Use what was loaded; a method may refuse what does not fit it, and no more."""
    try:
        loaded = skhash.load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return
    try:
        use(loaded, whole, path.parent / "again")
    except ValueError:
        pass
    except Exception as error:
        raise AssertionError(f"{forged} was loaded") from error


def refused(path, manifest, arrays, message="is damaged"):
    write(path, manifest, arrays)
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"{path} .*{message}"):
        skhash.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


HUGE = [
    ("LinearDecoder", ("values", "n_bits_"), 10**9),
    ("LinearDecoder of bytes", ("values", "n_bits_"), 10**9),
    ("LinearDecoder of bytes", ("values", "block_bits_"), 30),
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

    monkeypatch.setattr(_rebuild, "_rebuild", never)
    monkeypatch.setattr(_rebuild, "RealLinear", never)
    path = shutil.copytree(folder / name, tmp_path / "saved")
    manifest, arrays = read(path)
    holder = functools.reduce(lambda found, key: found[key], keys[:-1], manifest)
    holder[keys[-1]] = value
    refused(path, manifest, arrays)


def test_a_codebook_of_other_blocks(folder, tmp_path):
    """A search for codes would read behind its end."""
    path = shutil.copytree(folder / "LinearDecoder of bytes", tmp_path / "saved")
    manifest, arrays = read(path)
    arrays["codebook_"] = np.ones((4, 8, X.shape[1]), dtype=np.float32)
    refused(path, manifest, arrays, "codebook_ has shape")


@pytest.mark.parametrize(
    "header",
    [b"[" * 5000, b'{"a":' * 5000, b'"' + b'\\"' * 2000, b"null", b"3", b"{}", b"\xff"],
)
def test_headers_that_are_other_json(header, folder, tmp_path):
    path = shutil.copytree(folder / "SBNClassifier", tmp_path / "saved")
    for end in (64 * 100 - 8, 56):
        content = header[:end].ljust(end)
        (path / FILE).write_bytes(len(content).to_bytes(8, "little") + content)
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            skhash.load(path)
    (path / FILE).write_bytes((2**40 - 8).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="cannot have a header of"):
        skhash.load(path)


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
    with pytest.raises(ValueError, match=f"{path} is damaged"):
        skhash.load(path)


@pytest.mark.parametrize(
    "name",
    [
        "skhash.linear.Unheard",
        "skhash.linear._itq.ITQHash",
        "skhash.linear.ITQHash.__class__",
        "skhash.neighbors.PrefixNeighbors",
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
    for other in (
        "coefs_/x",
        "coefs_/3",
        "coefs_/",
        "coefs_//0",
        "coefs_",
        "coefs_/01",
    ):
        renamed = {
            other if name == "coefs_/0" else name: arrays[name] for name in arrays
        }
        refused(path, manifest, renamed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(80))
def test_mutants(seed, folder, tmp_path):
    """What was changed anywhere is refused by a ValueError, or can be used."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice([*MAKERS]))
    path = shutil.copytree(folder / name, tmp_path / "saved")
    mutants.mutate(path, rng)
    use_if_loaded(path, fitted(name), "a mutant")
