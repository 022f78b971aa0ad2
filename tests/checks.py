"""Our own contract: what every encoder does, one check a promise.

A check takes an unfitted encoder and raises where the promise is broken. Data are small
and have a mean far from 0 relative to rounding, but not to their spread.
"""

import copy
import importlib
import inspect
import pickle
import pkgutil
import tempfile
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from layouts import LAYOUTS
from pretend import NAME
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash
from skhash.base import BaseHasher
from skhash.codes import pack_bits, unpack_bits
from skhash.persistence.state import class_name, known_class
from skhash.utils.chunks import dense_chunks, row_chunks

N_FEATURES = 12
# Rounding of float32 logits relative to the largest, with room for sums of some terms.
ROUNDING = 1e-4


def public_estimators():
    """Return all classes with `fit` that modules of `skhash` export."""
    modules = [m.name for m in pkgutil.walk_packages(skhash.__path__, "skhash.")]
    found = {
        value.__name__: value
        for module in map(importlib.import_module, modules)
        if "._" not in module.__name__
        for value in (getattr(module, name) for name in getattr(module, "__all__", []))
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
        if hasattr(value, "fit") and not inspect.isabstract(value)
    }
    return dict(sorted(found.items()))


def public_encoders():
    """Return those of `public_estimators` that make codes."""
    return {
        name: cls
        for name, cls in public_estimators().items()
        if issubclass(cls, BaseHasher)
    }


def training_data():
    """Blobs on a sloping spectrum, float64: axes and bits are well separated."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(6, N_FEATURES))
    X = centers[rng.integers(0, 6, 150)] + 0.5 * rng.normal(size=(150, N_FEATURES))
    return X * np.linspace(3, 0.5, N_FEATURES) + rng.normal(size=N_FEATURES)


def sparse_data(share=0.2):
    """Rows with a fifth of their entries, all positive, as counts of words."""
    rng = np.random.default_rng(1)
    X = rng.gamma(2.0, size=(150, N_FEATURES)) * np.linspace(3, 0.5, N_FEATURES)
    return X * (rng.random(X.shape) < share)


def targets(encoder, X):
    """Labels for those who need some."""
    if not encoder.__sklearn_tags__().target_tags.required:
        return None
    return np.array(["a", "b", "c"])[np.arange(X.shape[0]) % 3]


def seeded(encoder):
    return clone(encoder).set_params(random_state=0)


def fitted(encoder, X=None):
    X = training_data() if X is None else X
    return seeded(encoder).fit(X, targets(encoder, X))


_FITS: dict = {}


def fitted_once(encoder):
    """As `fitted`, but a copy of the first such fit: for checks of what comes after."""
    key = type(encoder), repr(encoder.get_params())
    if key not in _FITS:
        _FITS[key] = fitted(encoder)
    return copy.deepcopy(_FITS[key])


def assert_same_codes(bits, other_bits, logits):
    """Equal wherever the logit is beyond rounding."""
    sure = np.abs(logits) > ROUNDING * np.abs(logits).max()
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(bits[sure], other_bits[sure])


def assert_same_fit(encoder, X, bits, other_bits, how=""):
    """Compare codes of a fit to `X` with those of one that rounds otherwise.

    With most methods hardly a bit changes. Some learn from signs, and amplify rounding:
    then no more may change than where the last figures of `X` do, and never so much
    that it could be another fit, which changes half of the bits.
    """
    share = (other_bits != bits).mean()
    if share >= 0.01:
        limit = min(2 * changed_by_last_figures(encoder, X, bits), 0.2)
        assert share <= limit, f"{how}: {share:.3f} of the bits change"


def changed_by_last_figures(encoder, X, bits):
    """Return the largest share of bits that changes of X by rounding errors change.

    Those of float32 sums of a row's terms, some of which follow each other in a fit.
    """
    rng, shares, error = np.random.default_rng(0), [], 8 * N_FEATURES * 2**-24
    for _ in range(5):
        values = X.toarray() if sparse.issparse(X) else X
        values = values * (1 + error * rng.uniform(-1, 1, values.shape))
        noisy = type(X)(values) if sparse.issparse(X) else values
        shares.append((fitted(encoder, noisy).transform(X) != bits).mean())
    return max(shares)


def fitted_attributes(encoder):
    return {
        name: value
        for name, value in vars(encoder).items()
        if name.endswith("_") and name not in ("net_", "bank_")
    }


def assert_same_state(encoder, other):
    attributes, others = fitted_attributes(encoder), fitted_attributes(other)
    assert attributes.keys() == others.keys()
    for name, value in attributes.items():
        parts = (value, others[name])
        if not isinstance(value, list):
            parts = ([value], [others[name]])
        for part, other_part in zip(*parts, strict=True):
            np.testing.assert_array_equal(other_part, part, err_msg=name)
            assert np.asarray(other_part).dtype == np.asarray(part).dtype, name


def check_codes_are_bits(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    bits = encoder.transform(X)
    assert isinstance(bits, np.ndarray)
    assert bits.dtype == np.uint8
    assert bits.shape == (len(X), encoder.n_bits)
    assert set(np.unique(bits)) == {0, 1}
    assert encoder.transform(X[:1]).shape == (1, encoder.n_bits)


def check_bit_is_the_sign_of_its_logit(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    logits = encoder.decision_function(X)
    assert logits.dtype == np.float32
    assert logits.shape == (len(X), encoder.n_bits)
    np.testing.assert_array_equal(encoder.transform(X), logits > 0)


def check_logit_of_zero_gives_bit_zero(encoder):
    """The tie rule; constant rows at the mean of a linear encoder are the tie."""
    encoder = fitted_once(encoder)
    with pytest.MonkeyPatch.context() as patch:
        zeros = np.zeros((3, encoder.n_bits), dtype=np.float32)
        patch.setattr(encoder, "_logits", lambda X: zeros, raising=False)
        assert not encoder.transform(training_data()[:3]).any()
        assert not encoder.transform_packed(training_data()[:3]).any()


def check_packed_codes_are_the_codes(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    bits, packed = encoder.transform(X), encoder.transform_packed(X)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed, pack_bits(bits))
    np.testing.assert_array_equal(unpack_bits(packed, encoder.n_bits), bits)


def check_codes_do_not_depend_on_the_chunk(encoder):
    for X in inputs_of(encoder):
        encoder = fitted(encoder, X) if sparse.issparse(X) else fitted_once(encoder)
        bits, few = encoder.transform(X), X[:23]
        logits = encoder.decision_function(few)
        for budget in (1, 1000):  # one row a chunk; some rows, the last chunk shorter
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(row_chunks, "__defaults__", (budget,))
                patch.setattr(dense_chunks, "__defaults__", (budget,))
                chunked = encoder.decision_function(few)
                assert_same_codes(bits[:23], encoder.transform(few), logits)
                packed = encoder.transform_packed(few)
                in_chunks = unpack_bits(packed, encoder.n_bits)
                assert_same_codes(bits[:23], in_chunks, logits)
            tolerance = 0 if encoder._rowwise else ROUNDING * np.abs(logits).max()
            np.testing.assert_allclose(chunked, logits, rtol=0, atol=tolerance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_chunks, "__defaults__", (4000,))
            patch.setattr(dense_chunks, "__defaults__", (4000,))
            refitted = fitted(encoder, X)
        assert_same_fit(encoder, X, bits, refitted.transform(X))


def check_rows_do_not_depend_on_each_other(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    bits, logits = encoder.transform(X), encoder.decision_function(X)
    order = np.random.default_rng(0).permutation(len(X))[:40]
    assert_same_codes(bits[order], encoder.transform(X[order]), logits[order])
    if encoder._rowwise:
        again = encoder.decision_function(X[order])
        np.testing.assert_array_equal(again, logits[order])


def check_same_seed_same_codes(encoder):
    X = training_data()
    y = targets(encoder, X)
    bits = fitted_once(encoder).transform(X)
    torch.rand(3), np.random.rand(3)  # the global generators have no say
    again = seeded(encoder)
    np.testing.assert_array_equal(again.fit_transform(X, y), bits)
    again.set_params(random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(again.fit(X, y).transform(X), bits)


def check_all_else_is_left_alone(encoder):
    """The parameters, the rows, which may be read-only, and global generators."""
    inputs = [*inputs_of(encoder)]
    for seed, X in ((0, inputs[0]), (None, inputs[-1])):
        encoder = clone(encoder).set_params(random_state=seed)
        params, rows = encoder.get_params(), X.copy()
        before = copy.deepcopy(params)
        if not sparse.issparse(X):
            X.flags.writeable = False
        numpy_before, torch_before = np.random.get_state(), torch.get_rng_state()
        encoder.fit(X, targets(encoder, X)).transform(X)
        if seed is not None:  # None means NumPy's global generator, as in scikit-learn
            np.testing.assert_array_equal(np.random.get_state()[1], numpy_before[1])
            assert np.random.get_state()[2] == numpy_before[2]
        assert torch.equal(torch.get_rng_state(), torch_before)
        assert (X != rows).sum() == 0
        after = encoder.get_params()
        assert after.keys() == params.keys()
        assert all(after[name] is params[name] for name in params)
        assert repr(after) == repr(before)


@contextmanager
def other_defaults_of_torch():
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.inference_mode(), torch.autocast("cpu"):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def check_defaults_of_torch_have_no_say(encoder):
    X, expected = training_data(), fitted_once(encoder)
    methods = "decision_function", "free_energy", "bound"
    for name in filter(partial(hasattr, encoder), methods):
        with other_defaults_of_torch():
            values = getattr(fitted(encoder), name)(X)
        np.testing.assert_array_equal(values, getattr(expected, name)(X))


def check_copies_encode_alike(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    bits = encoder.transform(X)
    for copied in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(copied.transform(X), bits)
        assert_same_state(encoder, copied)
    assert not fitted_attributes(clone(encoder))


def check_copies_share_nothing(encoder):
    """Training a copy on leaves the original as it was."""
    X = training_data()
    encoder = fitted_once(encoder)
    snapshot = pickle.loads(pickle.dumps(encoder))
    copied = copy.deepcopy(encoder)
    goes_on = getattr(copied, "partial_fit", copied.fit)
    goes_on(X[:, ::-1], targets(encoder, X))
    assert_same_state(encoder, snapshot)


def check_training_on_leaves_the_loaded_arrays_alone(encoder):
    """The state that a failed `partial_fit` restores is not trained in place."""
    if not hasattr(encoder, "partial_fit") or not is_of_the_library(encoder):
        return
    X = training_data()
    loaded = saved_and_loaded(fitted_once(encoder))
    before, snapshot = copy.copy(loaded), copy.deepcopy(loaded)
    loaded.partial_fit(X)
    assert_same_state(before, snapshot)


def check_save_and_load_are_inverses(encoder):
    names = [f"x{i}" for i in range(N_FEATURES)]
    frame = pd.DataFrame(training_data(), columns=names)
    encoders = fitted_once(encoder), fitted(encoder, frame)
    for X, encoder in zip((training_data(), frame), encoders, strict=True):
        loaded = saved_and_loaded(encoder)
        assert type(loaded) is type(encoder)
        assert repr(loaded.get_params()) == repr(encoder.get_params())
        assert_same_state(encoder, loaded)
        np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))
        np.testing.assert_array_equal(
            loaded.get_feature_names_out(), encoder.get_feature_names_out()
        )
    assert loaded.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[names[::-1]])
    refitted = clone(loaded).fit(X, targets(encoder, X))
    np.testing.assert_array_equal(refitted.transform(X), encoder.transform(X))


def check_names_of_the_bits(encoder):
    X = training_data()
    with pytest.raises(NotFittedError):
        clone(encoder).get_feature_names_out()
    encoder = fitted_once(encoder)
    prefix = type(encoder).__name__.lower()
    names = [f"{prefix}{i}" for i in range(encoder.n_bits)]
    assert encoder.get_feature_names_out().tolist() == names
    bits = encoder.transform(X)
    for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        frame = encoder.set_output(transform=library).transform(X)
        assert isinstance(frame, kind)
        assert list(frame.columns) == names
        np.testing.assert_array_equal(frame.to_numpy(), bits, strict=True)


def check_sparse_is_dense(encoder):
    if not encoder.__sklearn_tags__().input_tags.sparse:
        with pytest.raises(TypeError, match="[Ss]parse"):
            fitted(encoder, sparse.csr_array(sparse_data()))
        return

    def in_float32(X):
        return sparse.csr_array(X.astype(np.float32))

    X = sparse_data()
    dense = fitted(encoder, X)
    bits, logits = dense.transform(X), dense.decision_function(X)
    for make in (in_float32, sparse.csr_matrix, sparse.csc_array):
        from_sparse = fitted(encoder, make(X))
        assert_same_fit(encoder, X, bits, from_sparse.transform(X))
        assert_same_codes(bits, dense.transform(make(X)), logits)
        packed = dense.transform_packed(make(X))
        assert_same_codes(bits, unpack_bits(packed, dense.n_bits), logits)


def check_any_number_type(encoder):
    X = np.round(training_data() * 8)  # exact in every type
    encoder = fitted(encoder, X)
    bits, logits = encoder.transform(X), encoder.decision_function(X)
    for dtype in (np.float16, np.float32, np.int16, np.int64):
        assert_same_codes(bits, encoder.transform(X.astype(dtype)), logits)
        refitted = fitted(encoder, X.astype(dtype))
        assert_same_fit(encoder, X, bits, refitted.transform(X), dtype)
    np.testing.assert_array_equal(encoder.transform(X.tolist()), bits)
    np.testing.assert_array_equal(encoder.transform(np.asfortranarray(X)), bits)


def check_any_layout(encoder, layouts=LAYOUTS):
    X = training_data().astype(np.float32)
    expected = fitted(encoder, X)
    bits, packed = expected.transform(X), expected.transform_packed(X)
    for name, make in layouts.items():
        found = fitted(encoder, make(X))
        for one in (found, expected):
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                assert (one.transform(make(X)) == bits).all(), name
                assert (one.transform_packed(make(X)) == packed).all(), name


def check_wrong_input_is_named(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    methods = [
        lambda X: clone(encoder).fit(X, targets(encoder, X)),
        encoder.transform,
        encoder.transform_packed,
        encoder.decision_function,
    ]
    for value, message in [(np.nan, "NaN"), (np.inf, "infinity")]:
        wrong = X.copy()
        wrong[3, 2] = value
        for method in methods:
            with pytest.raises(ValueError, match=f"contains {message}"):
                method(wrong)
    for method in methods:
        with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
            method(X[0])
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            method(X[:0])
        with pytest.raises(ValueError, match=r"0 feature\(s\)"):
            method(X[:, :0])
    for method in methods[1:]:
        message = f"X has 5 features, but .* is expecting {N_FEATURES} features"
        with pytest.raises(ValueError, match=message):
            method(X[:, :5])


def check_far_rows_are_refused_or_encoded(encoder):
    """None gets the code of something else because numbers overflow."""
    X = training_data()
    encoder = fitted_once(encoder)
    for huge in (X * 1e300, (X * 1e30).astype(np.float32)):
        try:
            bits = encoder.transform(huge)
        except ValueError as error:
            assert "largest magnitude in X is" in str(error), error
            continue
        assert np.isfinite(encoder.decision_function(huge)).all()
        far, farther = (encoder.transform(X * unit) for unit in (1e10, 1e12))
        if (far == farther).mean() > 0.99:  # else codes of far rows are periodic
            assert (bits == far).mean() > 0.99  # the rest are ties of rounding


def check_unfitted_says_so(encoder):
    X = training_data()
    methods = ["transform", "transform_packed", "decision_function", "save"]
    for name in filter(partial(hasattr, encoder), [*methods, "reconstruction_error"]):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(clone(encoder), name)(X)
    failed = clone(encoder)
    with pytest.raises(ValueError, match="NaN"):
        failed.fit(np.full_like(X, np.nan), targets(encoder, X))
    with pytest.raises(ValueError, match="no_such_device"):
        failed.set_params(device="no_such_device").fit(X, targets(encoder, X))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        failed.transform(X)


def check_codes_follow_scale_exactly(encoder):
    """Multiplying by a power of two changes no rounding, so it changes no bit."""
    X = training_data()
    bits = fitted_once(encoder).transform(X)
    for power in (-11, 10):
        scaled = X * 2.0**power
        np.testing.assert_array_equal(fitted(encoder, scaled).transform(scaled), bits)
    if encoder.get_params().get("normalize"):
        powers = np.linspace(-900, 900, len(X)).astype(int)[:, None]
        scaled = np.ldexp(X, powers)  # each row by another power
        np.testing.assert_array_equal(fitted_once(encoder).transform(scaled), bits)


def check_codes_follow_scale_and_shift(encoder):
    X = training_data()
    bits = fitted_once(encoder).transform(X)
    moved = {"times 0.001": X * 0.001}
    params = encoder.get_params()
    if params.get("center", True) and not params.get("normalize", False):
        moved = {"times 0.001 plus 100": X * 0.001 + 100, "plus 10^8": X + 1e8}
    for how, other in moved.items():
        refitted = fitted(encoder, other)
        assert_same_fit(encoder, X, bits, refitted.transform(other), how)
        if "times" not in how and hasattr(encoder, "reconstruction_error"):
            error = refitted.reconstruction_error(other).mean()
            expected = fitted_once(encoder).reconstruction_error(X).mean()
            np.testing.assert_allclose(error, expected, rtol=0.01)


def check_params_after_fit_have_no_say_in_encoding(encoder):
    X = training_data()
    encoder = fitted_once(encoder)
    bits = encoder.transform(X)
    encoder.set_params(n_bits=bits.shape[1] + 8, random_state=7)
    np.testing.assert_array_equal(encoder.transform(X), bits)
    np.testing.assert_array_equal(encoder.transform_packed(X), pack_bits(bits))
    assert encoder.decision_function(X).shape == bits.shape
    assert len(encoder.get_feature_names_out()) == bits.shape[1]


def check_cuda_is_asked_for_at_fit_only(encoder):
    """Fitting says that the device is missing; encoding falls back to the CPU."""
    X = training_data()
    on_cpu = fitted(clone(encoder).set_params(device="cpu"), X)
    bits, logits = on_cpu.transform(X), on_cpu.decision_function(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        patch.setattr(torch.cuda, "device_count", lambda: 0)
        for device in ("cuda", "cuda:1"):
            with pytest.raises(ValueError, match=f"device='{device}' was asked for"):
                fitted(clone(encoder).set_params(device=device), X)
            on_cpu.set_params(device=device)
            assert_same_codes(bits, on_cpu.transform(X), logits)
        with pytest.raises(ValueError, match="not a device name"):
            fitted(clone(encoder).set_params(device="gpu0"), X)


def check_pickles_from_an_accelerator(encoder):
    """A pickle holds nothing that only the machine of the fit can read."""
    X = training_data()
    encoder = fitted_once(encoder)
    if not hasattr(encoder, "net_"):
        return
    on_cpu = pickle.dumps(encoder)
    encoder.net_.device = torch.device("cuda")
    unpickled = pickle.loads(pickle.dumps(encoder))
    assert not hasattr(unpickled, "net_")
    assert_same_state(encoder, unpickled)
    np.testing.assert_array_equal(unpickled.transform(X), encoder.transform(X))
    if hasattr(encoder, "partial_fit"):
        assert unpickled.partial_fit(X).n_iter_ == encoder.n_iter_ + 1
    assert hasattr(pickle.loads(on_cpu), "net_")


def check_partial_fit_goes_on(encoder):
    """The first call builds, later ones train on; a failed one changes nothing."""
    if not hasattr(encoder, "partial_fit"):
        return
    X = training_data()
    encoder = seeded(encoder).partial_fit(X)
    assert encoder.transform(X).shape == (len(X), encoder.n_bits)
    before = encoder.decision_function(X)
    encoder.partial_fit(X)
    assert np.abs(encoder.decision_function(X) - before).max() > 0
    snapshot = copy.deepcopy(encoder)
    for wrong in (X[:, :5], np.full_like(X, np.nan), X[:0]):
        with pytest.raises(ValueError):
            encoder.partial_fit(wrong)
        assert_same_state(encoder, snapshot)
    n_more = encoder.get_params().get("correction__n_epochs", 0)
    assert encoder.fit(X).n_iter_ == encoder.max_epochs + n_more


def check_pipelines_with_metadata_routing(encoder):
    X = training_data()
    y = targets(encoder, X)
    alone = fitted(encoder, StandardScaler().fit_transform(X))
    bits = alone.transform(StandardScaler().fit_transform(X))
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), seeded(encoder)).fit(X, y)
        np.testing.assert_array_equal(pipeline.transform(X), bits)
        step = type(encoder).__name__.lower()
        search = GridSearchCV(
            pipeline,
            {f"{step}__n_bits": [1, 2]},
            scoring=lambda estimator, X, y=None: float(estimator.transform(X).mean()),
            cv=2,
            error_score="raise",
        ).fit(X, y)
    assert search.best_estimator_.transform(X).shape == (
        len(X),
        search.best_params_[f"{step}__n_bits"],
    )


def inputs_of(encoder, share=0.2):
    """Dense data, and sparse where the encoder takes them."""
    yield training_data()
    if encoder.__sklearn_tags__().input_tags.sparse:
        yield sparse.csr_array(sparse_data(share))


def assert_device_fits_as_the_cpu(encoder, device):
    """Bit for bit on a device that draws and rounds as the CPU does; see `pretend`.

    Encoding on the CPU does without torch, and rounds otherwise.
    """
    places = [clone(encoder).set_params(device=name) for name in ("cpu", device)]
    # Of fuller rows no two are alike, nor are their distances: ties have no order.
    for X in inputs_of(encoder, share=0.6):
        on_cpu, on_device = (fitted(place, X) for place in places)
        assert_encodes_as_the_cpu(on_device, X)
        if device != NAME:
            continue
        assert_same_training(on_cpu, on_device)
        assert b"Pretend" not in pickle.dumps(on_device), "no other machine can read it"
        if hasattr(encoder, "partial_fit"):
            if sparse.issparse(X):  # of dense rows it goes on with the net at hand
                on_cpu, on_device = map(saved_and_loaded, (on_cpu, on_device))
            on_cpu.partial_fit(X[::2]), on_device.partial_fit(X[::2])
            assert_same_training(on_cpu, on_device)
            assert_encodes_as_the_cpu(on_device, X)


def assert_same_training(encoder, other):
    """The same state, however long it took; one attribute is made by encoding."""
    encoder, other = copy.copy(encoder), copy.copy(other)
    for one in (encoder, other):
        for record in getattr(one, "history_", []):
            record.pop("dur", None)
    errors = [vars(one).pop("quantization_error_", 0) for one in (encoder, other)]
    np.testing.assert_allclose(*errors, rtol=ROUNDING)
    assert_same_state(encoder, other)


def assert_encodes_as_the_cpu(on_device, X):
    """Codes of a device are those that its encoder makes on the CPU."""
    on_cpu = copy.deepcopy(on_device).set_params(device="cpu")
    logits = on_cpu.decision_function(X)
    with pytest.MonkeyPatch.context() as patch:
        for chunks in (row_chunks, dense_chunks):
            patch.setattr(chunks, "__defaults__", (10_000,))
        patch.setattr("skhash.base.encoding_threads", lambda device: 2)  # as for CUDA
        found = on_device.decision_function(X)
        bits, packed = on_device.transform(X), on_device.transform_packed(X)
    np.testing.assert_allclose(found, logits, atol=ROUNDING * np.abs(logits).max())
    assert_same_codes(on_cpu.transform(X), bits, logits)
    np.testing.assert_array_equal(bits, found > 0)
    np.testing.assert_array_equal(packed, pack_bits(bits))


def saved_and_loaded(encoder):
    """Return a copy as users keep it: by pickle for their own classes."""
    if not is_of_the_library(encoder):
        kept = pickle.loads(pickle.dumps(encoder))
        vars(kept).pop("net_", None)  # no file has it
        return kept
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder) / "encoder")
        return skhash.load(Path(folder) / "encoder")


def is_of_the_library(encoder):
    """Say whether it can be saved: a file holds no other classes."""
    return known_class(class_name(type(encoder))) is type(encoder)


CONTRACT = [
    check for name, check in list(globals().items()) if name.startswith("check_")
]
