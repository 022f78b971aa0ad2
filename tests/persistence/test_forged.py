"""Forged files with checksums that fit: refused, or used like any other."""

import inspect
import shutil

import numpy as np
import pytest
from savable import CODES, IDS, MAKERS, X, Y, fitted, savable_classes
from saved_files import read_arrays, read_manifest, write_arrays, write_manifest

import skhash
from skhash.neighbors import AsymmetricNeighbors

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


@pytest.mark.filterwarnings("ignore")  # of numbers that are large
@pytest.mark.parametrize("name", MAKERS)
def test_forged_arrays(name, folder, tmp_path):
    """None that is loaded makes a method fail."""
    path = shutil.copytree(folder / name, tmp_path / "saved")
    whole = read_arrays(path)
    for key, array in whole.items():
        for other in other_arrays(array):
            arrays = {name: own for name, own in whole.items() if name != key}
            arrays |= {} if other is None else {key: np.ascontiguousarray(other)}
            write_arrays(path, arrays)
            use_if_loaded(path, fitted(name), f"{key} {other}")


VALUES = (
    None,
    True,
    -1,
    0,
    2,
    10**9,
    2**70,
    0.5,
    float("nan"),
    "x",
    [],
    [7],
    {},
    {"a": 1},
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_forged_values(name, folder, tmp_path):
    path = shutil.copytree(folder / name, tmp_path / "saved")
    manifest = read_manifest(path)
    for key in manifest["values"]:
        for other in (*VALUES, "missing"):
            values = {**manifest["values"], key: other}
            if other == "missing":
                del values[key]
            write_manifest(path, {**manifest, "values": values})
            use_if_loaded(path, fitted(name), f"{key} {other!r:.99}")


def use_if_loaded(path, whole, forged):
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
