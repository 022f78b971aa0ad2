"""Every encoder on data of which little can be learned."""

import threading
import warnings

import joblib
import numpy as np
import pytest
from cases import each
from checks import public_encoders, seeded, targets, training_data
from scipy import sparse
from sklearn.datasets import load_digits

from skhash import NeighborHash, PCAHash, SGHEncoder, base
from skhash.linear import RandomHyperplaneHash, SphericalHash

ENCODERS = public_encoders().values()


def encoder_of(cls):
    encoder = seeded(cls(2))
    if "max_epochs" in encoder.get_params():
        encoder.set_params(max_epochs=1)
    return encoder


@each("cls", ENCODERS)
def test_rows_that_are_all_equal_are_refused(cls):
    encoder, X = encoder_of(cls), np.full((10, 3), 7.0)
    y = targets(encoder, X)
    for rows in (X, X.astype(np.float32), np.zeros((10, 3))):
        with pytest.raises(
            ValueError, match=f"All 10 rows .* equal, but {cls.__name__}"
        ):
            encoder.fit(rows, y)
    if encoder.__sklearn_tags__().input_tags.sparse:
        with pytest.raises(ValueError, match="10 rows of X"):
            encoder.fit(sparse.csr_array(X), y)
    encoder.set_params(normalize=True)
    with pytest.raises(ValueError, match="unit length"):
        encoder.fit(X * np.arange(1, 11)[:, None], y)


def test_rows_far_from_all_others_are_warned_of():
    """They set the scale, and leave all other rows on one side of each bit."""
    X, _ = load_digits(return_X_y=True)
    encoder = SGHEncoder(16, max_epochs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.fit(X)
    X = X.copy()
    X[3] *= 1000
    with pytest.warns(UserWarning, match="of 16 bits"):
        encoder.fit(X)
    bits = encoder.transform(X)
    assert (np.minimum(bits.mean(axis=0), 1 - bits.mean(axis=0)) < 0.002).mean() > 0.5


def test_many_equal_rows_are_warned_of():
    X = np.zeros((100, 5))
    X[:2] = np.random.default_rng(0).normal(size=(2, 5))
    with pytest.warns(UserWarning, match="of 8 bits"):
        SphericalHash(8, random_state=0).fit(X[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PCAHash(2).fit(X[:3])


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("cls", [RandomHyperplaneHash, NeighborHash])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_codes_do_not_depend_on_threads_or_where_rows_are(
    dtype, cls, normalize, monkeypatch, tmp_path
):
    X = training_data().astype(dtype)
    encoder = encoder_of(cls).set_params(normalize=normalize, device="cpu").fit(X)
    np.save(tmp_path / "rows.npy", X)
    in_file = np.load(tmp_path / "rows.npy", mmap_mode="r")
    methods = encoder.decision_function, encoder.transform, encoder.transform_packed
    expected = [method(X) for method in methods]
    monkeypatch.setattr(base, "MIN_SHARED_WORK", 1)
    # Each share of rows is begun when two others are: they are a multiple of three.
    meeting, logits_of = threading.Barrier(3, timeout=60), encoder._logits

    def meet(X):
        meeting.wait()
        return logits_of(X)

    monkeypatch.setattr(encoder, "_logits", meet, raising=False)
    with joblib.parallel_config(n_jobs=3):
        for method, result in zip(methods, expected, strict=True):
            for rows in (X, in_file):
                np.testing.assert_array_equal(method(rows), result)
