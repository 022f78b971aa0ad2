"""`partial_fit` and validation rows: one contract of everything that is trained."""

import copy
import inspect
import pickle
import signal

import numpy as np
import pytest
from cases import each
from checks import training_data
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import kneighbors_graph
from skorch.callbacks import EarlyStopping

from skhash import (
    DualHashEncoder,
    NeighborHash,
    SBNClassifier,
    SGHEncoder,
    StochasticAutoencoderHash,
    SupervisedHash,
    load,
)
from skhash.gradients import ARM
from skhash.losses import DualHashLoss
from skhash.training._net import HashNet

X = training_data().astype(np.float32)
Y = np.arange(len(X)) % 3
SGH = SGHEncoder(5, max_epochs=2, random_state=0)
AUTOENCODER = StochasticAutoencoderHash(
    5, hidden_layer_sizes=(6,), decoder="gaussian", max_epochs=2, random_state=0
)
NEIGHBOR = NeighborHash(5, max_epochs=2, random_state=0)
CLASSIFIER = SBNClassifier((6, 5), max_epochs=2, random_state=0)
STREAMED = [SGH, AUTOENCODER, NEIGHBOR, CLASSIFIER]
SUPERVISED = [
    DualHashEncoder(
        5, loss=DualHashLoss(warmup_epochs=1), max_epochs=2, random_state=0
    ),
    SupervisedHash(5, max_epochs=2, loss="dsdh", random_state=0),
]
each_stream = pytest.mark.parametrize(
    "estimator", STREAMED, ids=lambda estimator: type(estimator).__name__
)
each_trained = pytest.mark.parametrize(
    "estimator", STREAMED + SUPERVISED, ids=lambda estimator: type(estimator).__name__
)


def begun(estimator, **params):
    """A stream of one call."""
    estimator = clone(estimator).set_params(**params)
    if isinstance(estimator, SBNClassifier):
        return estimator.partial_fit(X, Y, classes=[0, 1, 2])
    return estimator.partial_fit(X)


def goes_on(estimator, rows=X):
    """Return the parameters after one more call."""
    estimator = copy.deepcopy(estimator)
    is_classifier = isinstance(estimator, SBNClassifier)
    estimator.partial_fit(rows, *([Y[: len(rows)]] if is_classifier else []))
    return outputs(estimator)


def outputs(estimator):
    """Numbers that every change of the weights changes."""
    return estimator.decision_function(X)


@each_stream
@each("is_pickled", [False, True])
def test_step_and_batch_sizes_may_change(estimator, is_pickled):
    stream = begun(estimator)
    if is_pickled:
        stream = pickle.loads(pickle.dumps(stream))
    assert copy.deepcopy(stream.net_).history[0] is stream.net_.history[0]
    expected = goes_on(stream)
    np.testing.assert_array_equal(goes_on(stream.set_params(lr=stream.lr)), expected)
    for params in ({"lr": 1e-12}, {"lr": 0.2}, {"batch_size": np.int64(16)}):
        before = stream.get_params()
        assert (goes_on(stream.set_params(**params)) != expected).any(), params
        stream.set_params(**before)
    still = goes_on(stream.set_params(lr=1e-12))
    if not isinstance(stream, SBNClassifier):  # whose norms have other statistics
        np.testing.assert_allclose(still, outputs(stream), atol=1e-4)


@each_stream
def test_a_fit_goes_on_alike_whether_it_was_saved_or_not(estimator, tmp_path):
    estimator = clone(estimator).set_params(lr_schedule="cosine").fit(X, Y)
    estimator.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    np.testing.assert_array_equal(goes_on(loaded, X[:50]), goes_on(estimator, X[:50]))


@each_stream
def test_a_batch_size_may_become_automatic_again(estimator):
    stream = begun(estimator, batch_size=16).set_params(batch_size="auto")
    found, size = goes_on(stream), stream._resolve_batch_size(len(X))  # above 16
    np.testing.assert_array_equal(goes_on(stream.set_params(batch_size=size)), found)


@each_stream
@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_change_of_all_else_is_refused_or_has_its_effect(
    estimator, is_loaded, tmp_path
):
    """On a loaded one, whose net is made anew, it has; of a net at hand it is named."""
    changes = {
        SGH: {"gradient": "exact", "kl_weight": 1.0, "coding": "pm1"},
        AUTOENCODER: {"gradient": ARM(), "kl_weight": 0.7, "optimizer": "sgd"},
        NEIGHBOR: {"gradient": "st", "temperature": 0.1, "optimizer": "sgd"},
        CLASSIFIER: {"gradient": "psa", "n_draws": 3, "optimizer": "sgd"},
    }[estimator]
    stream = begun(estimator)
    if is_loaded:
        stream.save(tmp_path / "saved")
        stream = load(tmp_path / "saved")
    expected, before = goes_on(stream), stream.get_params(deep=False)
    for name, value in changes.items():
        stream.set_params(**{name: value})
        if is_loaded and name != "coding":
            assert (goes_on(stream) != expected).any(), name
        elif not is_loaded:
            with pytest.raises(ValueError, match=f"{name} was"):
                goes_on(stream)
        stream.set_params(**before)
    np.testing.assert_array_equal(goes_on(stream), expected)
    stream.set_params(max_epochs=7, random_state=3, verbose=False)
    assert np.isfinite(goes_on(stream)).all()


def test_parameters_of_parameters_count():
    stream = begun(AUTOENCODER, gradient=ARM(n_samples=1))
    goes_on(stream)
    stream.set_params(gradient__n_samples=4)
    with pytest.raises(ValueError, match="gradient .*ARM"):
        goes_on(stream)
    stream.set_params(gradient=ARM(n_samples=1), hidden_layer_sizes=(6, 6))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes was \(6,\)"):
        goes_on(stream)
    stream.set_params(hidden_layer_sizes=(6,))
    goes_on(stream)


@each_stream
def test_a_loaded_stream_draws_anew_in_each_call(estimator, tmp_path):
    """As one whose net is at hand, whose generators go on."""
    stream = begun(estimator)
    seeds = []
    for i in range(3):
        stream.save(tmp_path / str(i))
        stream = load(tmp_path / str(i))
        stream.partial_fit(X, *([Y] if isinstance(stream, SBNClassifier) else []))
        seeds.append(stream.net_.module_.generator.initial_seed())
        assert stream.net_.run.n_before == i + 1
    assert [record["epoch"] for record in stream.history_] == [1, 2, 3, 4]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize(
    "estimator",
    [
        *STREAMED,
        *SUPERVISED,
        *(clone(SGH).set_params(pairs=pairs) for pairs in ("labels", "neighbors")),
        clone(NEIGHBOR).set_params(max_train_samples=100),
        clone(NEIGHBOR).set_params(graph=kneighbors_graph(X, 5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_labels", [0, 1, 2])
def test_validation_rows_take_part_in_validation_only(estimator, n_labels):
    """Fitted arrays do not depend on them, and ``valid_loss`` does."""
    if n_labels != 1 and not isinstance(estimator, NeighborHash):
        pytest.skip("it has one label a row")
    y = [None, Y, np.c_[Y > 0, Y != 1].astype(int)][n_labels]
    first = clone(estimator)
    first.set_params(validation_fraction=0.3).fit(X, y)
    valid = first.net_.run.split.valid
    assert len(valid) == 45
    other = X.copy()
    other[valid] = 5 * X[valid][::-1] + 100
    if y is not None:
        y = y.copy()
        y[valid] = np.roll(y[valid], 1, axis=0)
    second = clone(first).fit(other, y)
    for name, value in vars(first).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(second, name), err_msg=name)
    # The rounding of products depends on how rows lie in memory.
    np.testing.assert_allclose(outputs(first), outputs(second), rtol=1e-4, atol=1e-5)
    losses = [[r["valid_loss"] for r in fit.history_] for fit in (first, second)]
    assert losses[0] != losses[1]


@each("y", [None, Y])
def test_rows_that_validated_do_not_train_later_either(y):
    stream = clone(NEIGHBOR).set_params(validation_fraction=0.3)
    stream.partial_fit(X, y)
    bank = stream.net_.module_.bank[0]
    assert len(bank) == 105
    held_out = X[stream.net_.run.split.valid]
    assert not (bank[:, None] == held_out).all(axis=2).any()
    stream.partial_fit(X[:100], None if y is None else y[:100])
    assert len(stream.net_.run.split.valid) == 30
    assert len(stream.net_.module_.bank[0]) == 175


@pytest.mark.parametrize("method", ["get_loss", "on_batch_end", "on_epoch_begin"])
@each_trained
def test_an_interrupt_reaches_the_caller(estimator, method, monkeypatch):
    """The estimator is as before, and a search does not take it for a failed fit."""
    estimator = clone(estimator).fit(X, Y)
    before, original = dict(vars(estimator)), getattr(HashNet, method)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # none in the background

    def interrupted(self, *arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return original(self, *arguments, **options)

    monkeypatch.setattr(HashNet, method, interrupted)
    fits = [lambda: estimator.fit(X[:, :6], Y)]
    fits.append(GridSearchCV(estimator, {"lr": [0.1]}, scoring=lambda *a: 0.0).fit)
    if hasattr(estimator, "partial_fit"):
        fits.append(lambda: estimator.partial_fit(X, Y))
    for fit in fits:
        with pytest.raises(KeyboardInterrupt):
            fit(*[X, Y] if len(inspect.signature(fit).parameters) else [])
        assert vars(estimator).keys() == before.keys()
        assert all(vars(estimator)[name] is value for name, value in before.items())


@each_stream
def test_a_single_row_is_trained_on_or_refused(estimator):
    estimator = clone(estimator).fit(X, Y)
    before = outputs(estimator)
    try:
        estimator.partial_fit(X[:1], Y[:1])
    except ValueError as error:
        assert "1 row" in str(error) or "minimum of 2" in str(error)
        np.testing.assert_array_equal(outputs(estimator), before)


@each(
    "estimator",
    [
        *(clone(SGH).set_params(pairs=pairs) for pairs in ("given", "neighbors")),
        *(
            clone(AUTOENCODER).set_params(decoder=decoder, posterior=posterior)
            for decoder in ("gaussian", "multinomial", "bernoulli")
            for posterior in ("independent", "correlated")
        ),
    ],
)
def test_calls_with_all_rows_are_the_epochs_of_a_fit(estimator):
    rows = np.abs(X) / np.abs(X).max()  # which every decoder explains
    fitted = clone(estimator).set_params(max_epochs=3).fit(rows)
    streamed = clone(estimator)
    for _ in range(3):
        streamed.partial_fit(rows)
    found, expected = (fit.decision_function(rows) for fit in (streamed, fitted))
    np.testing.assert_array_equal(found, expected)
    assert [row["epoch"] for row in streamed.history_] == [1, 2, 3]
    assert streamed.n_iter_ == fitted.n_iter_ == 3


@each("estimator", [SGH, AUTOENCODER, NEIGHBOR])
def test_a_splitter_may_hold_out_nothing(estimator):
    """It is one of skorch's: any callable that parts a dataset."""
    plain, split = (
        clone(estimator).set_params(validation_fraction=splitter).fit(X)
        for splitter in (None, lambda dataset, y=None: (dataset, None))
    )
    np.testing.assert_array_equal(outputs(split), outputs(plain))
    assert "valid_loss" not in split.history_[0]


@each_trained
def test_callbacks_that_watch_validation_need_some(estimator):
    encoder = clone(estimator).set_params(callbacks=[EarlyStopping()])
    with pytest.raises(ValueError, match="EarlyStopping monitors 'valid_loss'.*0.1"):
        encoder.fit(X, Y)
    encoder.set_params(callbacks=[("stop", EarlyStopping(monitor="train_loss"))])
    encoder.fit(X, Y)


@each_stream
@each("optimizer", ["lbfgs", "LBFGS", "SparseAdam", "muon", "Rprop"])
def test_optimizers_that_cannot_work_are_named(estimator, optimizer):
    with pytest.raises(ValueError, match=f"optimizer='{optimizer}'"):
        clone(estimator).set_params(optimizer=optimizer).fit(X, Y)
