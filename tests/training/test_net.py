"""The training loop: batches, splits, callbacks and the record of epochs."""

import copy
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from cases import each, memory_below
from scipy import sparse
from skorch.callbacks import Callback, EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn
from torch.utils.data import Subset

from skhash import SGHEncoder
from skhash.training import _module
from skhash.training._module import BatchIterator, FedRows, Rows, TrainedModule
from skhash.training._net import (
    HashNet,
    Run,
    resolve_optimizer,
    resolve_splitter,
    split_rows,
    train,
    whole_batch,
)
from skhash.utils.chunks import RowView

CPU = torch.device("cpu")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return (rng.random((23, 5)) * (rng.random((23, 5)) < 0.5)).astype(np.float32)


class Shift(TrainedModule):
    """The least squares problem whose solution is the mean of the rows."""

    def __init__(self, n_features):
        super().__init__()
        self.center = nn.Parameter(torch.zeros(n_features))
        self.batches = []

    def forward(self, X):
        return X - self.center

    def loss(self, outputs, batch):
        self.batches.append((batch.X, batch.labels, self.training))
        return outputs.square().sum(dim=1).mean()


def shift_net(n_features=5, module=None, **params):
    draws = params.pop("generator", generator())
    splitter = resolve_splitter(params.pop("validation_fraction", None), draws)
    run = Run(CPU, [0, 1, 2], draws, np.random.RandomState(0), splitter=splitter)
    params = {"lr": 0.1, "lr_schedule": None, "callbacks": None} | params
    optimizer = resolve_optimizer(params.pop("optimizer", "sgd"))
    batch_size = params.pop("batch_size", 8)
    return HashNet(module or Shift(n_features), run, params, batch_size, optimizer)


def rows_of(X, y=None, module=TrainedModule, **known):
    """Rows with labels, as they are fed."""
    return FedRows(Rows(X, y, **known), module)


def standardized(X, mean, scale):
    """Rows as a module with these is fed them."""
    module = Shift(X.shape[1])
    module.mean, module.scale = mean, scale
    return rows_of(X, module=module)


def fit(net, X, y=None, epochs=1):
    """Train on rows, parted by the splitter of the net."""
    net.run = replace(net.run, phases=(epochs,))
    return train(net, Rows(X, y, split=split_rows(net.run.splitter, X)))


# Batches


@each("make", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@each("order", [lambda: None, generator])
@each(
    "batch_size, sizes",
    [(5, [5, 5, 5, 5, 3]), (11, [11, 12]), (22, [23]), (100, [23]), (1, [1] * 23)],
)
def test_each_row_comes_once_an_epoch(X, make, order, batch_size, sizes):
    """A last row that would be alone joins the batch before."""
    y = np.arange(len(X))
    batches = BatchIterator(rows_of(make(X), y), batch_size, CPU, order())
    epochs = []
    for _ in range(2):
        parts = [batch for batch, _ in batches]
        assert [len(batch) for batch in parts] == sizes and len(batches) == len(sizes)
        rows = torch.cat([batch.X for batch in parts])
        labels = torch.cat([batch.labels for batch in parts])
        assert rows.dtype == torch.float32
        np.testing.assert_array_equal(rows, X[labels.numpy()])
        assert sorted(labels.tolist()) == y.tolist()
        epochs.append(labels.tolist())
    if order is generator:
        assert epochs[0] != epochs[1] != y.tolist()
    else:
        assert epochs[0] == epochs[1] == y.tolist()
    assert len(BatchIterator(rows_of(make(X)[:1]), batch_size, CPU)) == 1


@each("mean", [None, np.arange(5) + 0.5])
@each("dtype", [np.float32, np.float64])
def test_sparse_batches_are_the_dense_ones(X, mean, dtype):
    X = X.astype(dtype)
    dense, from_sparse = (
        BatchIterator(standardized(make(X), mean, 3.0), 7, CPU, generator())
        for make in (np.asarray, sparse.csr_array)
    )
    for (batch, _), (other, _) in zip(dense, from_sparse, strict=True):
        assert batch.X.dtype == other.X.dtype == torch.float32
        np.testing.assert_array_equal(batch.X, other.X)
        assert batch.labels is None and other.labels is None


def test_rows_are_standardised_in_the_precision_of_the_data():
    """A large mean is taken off before the change to float32."""
    rng = np.random.default_rng(0)
    small = rng.normal(size=(10, 4))
    dataset = standardized(small + 1e6, np.full(4, 1e6), 2.0)
    (batch,) = (batch.X for batch, _ in BatchIterator(dataset, 10, CPU))
    np.testing.assert_allclose(batch, small / 2, atol=1e-6)


@each("make", [np.asarray, sparse.csr_array])
@each("shuffled", [False, True])
def test_subsets_of_subsets(X, make, shuffled):
    y = np.arange(len(X))
    outer = [20, 3, 7, 11, 2, 19]
    inner = np.array([5, 0, 2])
    subset = Subset(Subset(rows_of(make(X), y), outer), inner)
    batches = BatchIterator(subset, 2, CPU, generator() if shuffled else None)
    assert len(batches) == 1  # the last of the three rows is not left alone
    labels = torch.cat([batch.labels for batch, _ in batches]).tolist()
    expected = [outer[i] for i in inner]
    assert sorted(labels) == sorted(expected) if shuffled else labels == expected
    for batch, _ in batches:
        np.testing.assert_array_equal(batch.X, X[batch.labels.numpy()])
        assert torch.equal(batch.rows, batch.labels)


# Rows on axes


class Projected(Shift):
    """Fed with coordinates along axes, which need not be orthonormal here."""

    def __init__(self, mean, scale, axes):
        super().__init__(len(axes))
        self.mean, self.scale, self.axes = mean, scale, axes


KINDS = {
    "float64": lambda X, path: X,
    "float32": lambda X, path: X.astype(np.float32),
    "csr": lambda X, path: sparse.csr_array(X),
    "csr32": lambda X, path: sparse.csr_matrix(X.astype(np.float32)),
    "view": lambda X, path: RowView(
        np.r_[X, X][::-1], np.arange(len(X))[::-1] + len(X)
    ),
    "half view": lambda X, path: RowView(X.astype(np.float16), prepare=np.float32),
    "file": lambda X, path: mapped(X, path),
    "view of a file": lambda X, path: RowView(mapped(X, path)),
}


def mapped(X, path):
    np.save(path / "rows.npy", X)
    return np.load(path / "rows.npy", mmap_mode="r")


@pytest.fixture
def on_axes():
    """Rows that float16 holds, a module, and what it is to be fed, in float64."""
    rng = np.random.default_rng(1)
    rows = np.round(rng.random((23, 7)) * 64) * (rng.random((23, 7)) < 0.6) / 8
    module = Projected(rng.random(7) + 2, 3.5, rng.standard_normal((3, 7)))
    return rows, module, (rows - module.mean) / module.scale @ module.axes.T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", [True, False])
def test_rows_are_fed_by_their_coordinates(kind, held, on_axes, monkeypatch, tmp_path):
    rows, module, expected = on_axes
    monkeypatch.setattr(_module, "HELD_BYTES", 4 * 23 * 3 - (not held))
    given = KINDS[kind](rows, tmp_path)
    data = rows_of(given, np.arange(23), module)
    assert data.n_columns == 3
    batches = BatchIterator(data, 5, CPU, generator())
    assert (batches.X is not None) == held
    for batch, _ in batches:
        assert batch.X.dtype == torch.float32
        np.testing.assert_allclose(batch.X, expected[batch.labels], atol=2e-5)
    whole = whole_batch(module, given)
    np.testing.assert_allclose(whole.X, expected, atol=2e-5)
    chosen = np.array([20, 3, 3, 0])
    np.testing.assert_allclose(data.values(chosen), expected[chosen], atol=2e-5)


def test_coordinates_are_computed_in_the_precision_of_the_data(on_axes):
    """Whose rows may be far from the origin, and from each other across the axes."""
    rows, module, expected = on_axes
    across = np.linalg.svd(module.axes)[2][-1]
    wide = rows + 2.0**20 * np.outer(np.arange(23), across)
    values = rows_of(wide, module=module).values()
    np.testing.assert_allclose(values, expected, atol=2e-5)
    module.mean = module.mean + 2.0**30
    far = rows_of(rows + 2.0**30, module=module).values()
    np.testing.assert_allclose(far, expected, atol=2e-5)


def test_sparse_rows_on_axes_are_never_dense_at_their_full_width():
    X = sparse.random_array((2000, 5000), density=1e-3, rng=0, format="csr")
    module = Projected(np.ones(5000), 2.0, np.ones((3, 5000)))
    expected = (X.sum(axis=1) - 5000) / 2
    with memory_below(8 * X.shape[0] * X.shape[1] / 20):
        batches = BatchIterator(rows_of(X, module=module), 50, CPU)
        values = rows_of(X, module=module).values()
    for found in (batches.X, values):
        np.testing.assert_allclose(found, np.c_[[expected] * 3].T, rtol=1e-6)


def test_without_axes_arrays_and_small_views_are_held(monkeypatch):
    view = rows_of(RowView(np.eye(23, 7)))
    assert BatchIterator(view, 5, CPU).X is not None
    monkeypatch.setattr(_module, "HELD_BYTES", 4 * 23 * 3)
    assert BatchIterator(rows_of(np.zeros((23, 7))), 5, CPU).X is not None
    assert BatchIterator(view, 5, CPU).X is None
    assert BatchIterator(rows_of(sparse.csr_array((23, 7))), 5, CPU).X is None


# Training


def test_training_solves_least_squares(X):
    net = shift_net(batch_size=len(X))
    fit(net, X, None, 100)
    center = net.module_.center.detach()
    np.testing.assert_allclose(center, X.mean(axis=0), atol=1e-5)


def test_record_is_plain_data(X):
    net = shift_net(validation_fraction=0.3)
    records = fit(net, X, None, 3)
    assert json.loads(json.dumps(records)) == records
    for epoch, record in enumerate(records, start=1):
        assert record["epoch"] == epoch
        assert type(record["train_loss"]) is type(record["valid_loss"]) is float
        assert "batches" not in record
    more = fit(net, X, None, 2)
    assert [record["epoch"] for record in more] == [4, 5]


def test_train_loss_is_the_mean_over_rows(X):
    """Batches of unequal size count by their rows."""
    net = shift_net(lr=1e-12, batch_size=8, generator=None)
    (record,) = fit(net, X, None, 1)
    expected = (X.astype(float) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(record["train_loss"], expected, rtol=1e-5)


def test_split_keeps_rows_apart_and_follows_the_generator(X):
    y = np.arange(len(X))

    def split(seed):
        net = shift_net(validation_fraction=0.3, generator=generator(seed))
        fit(net, X, y, 1)
        batches = net.module_.batches
        return [
            sorted(torch.cat([y for _, y, t in batches if t is kind]).tolist())
            for kind in (True, False)
        ]

    before = np.random.get_state()[1].copy()
    trained, validated = split(0)
    assert sorted(trained + validated) == y.tolist()
    assert len(validated) == round(0.3 * len(X))
    assert split(0) == [trained, validated]
    assert split(1) != [trained, validated]
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_splitter_holds_rows_of_the_data_out(X):
    with pytest.raises(ValueError, match="other rows than those of X"):
        split_rows(predefined_split(Dataset(X)), X)


def test_early_stopping_of_an_encoder():
    X = np.random.default_rng(0).normal(size=(80, 6))
    callbacks = [EarlyStopping(patience=2, threshold=10.0, threshold_mode="abs")]
    before = copy.deepcopy(callbacks[0].get_params())
    encoder = SGHEncoder(
        n_bits=4,
        max_epochs=30,
        init="pca",
        validation_fraction=0.25,
        callbacks=callbacks,
        random_state=0,
    ).fit(X)
    assert encoder.n_iter_ == len(encoder.history_) == 3
    assert callbacks[0].get_params() == before
    assert encoder.callbacks is callbacks
    json.dumps(encoder.history_)
    assert encoder.fit(X).n_iter_ == 3  # a second fit starts with a fresh clone


def test_an_epoch_that_a_callback_ends_early_has_no_record(X):
    def stop(callback, net, **kwargs):
        if len(net.history) == 2:
            raise KeyboardInterrupt

    net = shift_net(callbacks=[type("Stop", (Callback,), {"on_batch_end": stop})()])
    assert len(fit(net, X, None, 5)) == 1


def test_silence_and_verbose(X, capsys):
    fit(shift_net(), X, None, 2)
    assert capsys.readouterr() == ("", "")
    records = fit(shift_net(verbose=True), X, None, 2)
    lines = capsys.readouterr().out.splitlines()[-2:]
    for line, record in zip(lines, records, strict=True):
        assert line.split()[0] == str(record["epoch"])
        assert f"{record['train_loss']:.4f}" in line


@each("n_samples, expected", [(10, 32), (10_000, 100), (10**7, 512)])
def test_automatic_batch_size_is_a_bounded_share(n_samples, expected):
    encoder = SGHEncoder(batch_size="auto")
    assert encoder._resolve_batch_size(n_samples) == expected
    assert encoder.set_params(batch_size=17)._resolve_batch_size(n_samples) == 17


# Sparse batches and fused steps


class SparseShift(Shift):
    """As `Shift`, but it asks for sparse rows as they are."""

    accepts_sparse = True

    def forward(self, X):
        return (X.to_dense() if X.layout == torch.sparse_csr else X) - self.center


@each("batch_size", [1, 5, 23, 100])
@each("rows", [None, [20, 3, 7, 11, 2, 19]])
def test_kept_sparse_batches_are_the_dense_ones(X, batch_size, rows):
    y = np.arange(len(X))
    kept, dense = (
        rows_of(make(X), y, SparseShift(5)) for make in (sparse.csr_array, np.asarray)
    )
    if rows is not None:
        kept, dense = Subset(kept, rows), Subset(dense, rows)
    batches, others = (
        BatchIterator(data, batch_size, CPU, generator()) for data in (kept, dense)
    )
    for (batch, _), (other, _) in zip(batches, others, strict=True):
        assert batch.X.layout == torch.sparse_csr and other.X.layout == torch.strided
        np.testing.assert_array_equal(batch.X.to_dense(), other.X)
        assert torch.equal(batch.labels, other.labels)


def test_training_on_sparse_batches(X):
    dense = shift_net(batch_size=7)
    net = shift_net(module=SparseShift(5), batch_size=7)
    fit(net, sparse.csr_array(X), None, 3)
    fit(dense, X, None, 3)
    assert all(rows.layout == torch.sparse_csr for rows, _, _ in net.module_.batches)
    torch.testing.assert_close(net.module_.center, dense.module_.center)


@each("name", ["adam", "adamw", "sgd", "adagrad"])
def test_steps_are_fused_where_the_optimizer_can(X, name):
    net = shift_net(optimizer=name)
    assert net.optimizer_.defaults["fused"] is True
    plain = shift_net(optimizer=name).set_params(optimizer__fused=False).initialize()
    for other in (net, plain):
        fit(other, X, None, 3)
    torch.testing.assert_close(net.module_.center, plain.module_.center)
    assert "fused" not in shift_net(optimizer="rmsprop").optimizer_.defaults
    unfused = shift_net(optimizer=partial(type(net.optimizer_), fused=False))
    assert unfused.optimizer_.defaults["fused"] is False


def test_draws_are_those_of_the_seeds(X):
    net = shift_net()
    expected = torch.Generator().manual_seed(1)
    assert net.run.seeds[1] == 1
    assert net.module_.generator.initial_seed() == expected.initial_seed()
    again = net.run.again(phases=(3,))
    first, second = (torch.rand(3, generator=run.generator) for run in (net.run, again))
    assert again.phases == (3,) and torch.equal(first, second)


@each("make", [np.asarray, sparse.csr_array])
@each("steps", [{(1,), (2,)}, {(1, 3), (2, 4)}])
def test_pairs_are_rows_then_their_partners_of_one_draw(X, make, steps):
    n = len(X)
    partners = (np.arange(n)[:, None, None] + sorted(steps)) % n
    dataset = rows_of(make(X), np.arange(n), partners=partners)
    seen = set()
    for _ in range(20):
        for batch, _ in BatchIterator(dataset, 5, CPU, generator()):
            np.testing.assert_array_equal(batch.X, X[batch.rows])
            assert torch.equal(batch.labels, batch.rows)
            own, *theirs = batch.parts()
            drawn = [((part.rows - own.rows) % n).tolist() for part in theirs]
            seen |= set(zip(*drawn, strict=True))
            assert torch.equal(own.partners, torch.from_numpy(partners)[own.rows])
    assert seen == steps
    ((first, _),) = BatchIterator(dataset, n, CPU)
    np.testing.assert_array_equal(first.rows, np.r_[np.arange(n), *partners[:, 0].T])


# Batches
