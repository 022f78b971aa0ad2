"""Losses of NeighborHash against plain loops, numpy and autograd."""

import numpy as np
import pytest
import torch
from cases import each
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize

from skhash.gradients import DeterministicST
from skhash.neural.neighbor import _module
from skhash.neural.neighbor._module import (
    Contrast,
    Distances,
    NeighborModule,
    PairLoss,
    ReconstructionLoss,
    product,
    squared_distances,
    wanted_alike,
    wanted_by_distance,
)
from skhash.training._module import Batch

LENGTHS, TEMPERATURE = [3, 8, 12], 0.9
N_ROWS = 7


# The formulas, pair by pair in float64


def loop_agreement(rows, partners, length):
    agreement = np.zeros((len(rows), len(partners)))
    for i, row in enumerate(rows):
        for j, partner in enumerate(partners):
            agreement[i, j] = sum(row[bit] * partner[bit] for bit in range(length))
    return agreement


def loop_wanted(distance, sharpness):
    """How much row i wants partner j, and partner j row i."""
    both = []
    for one in (distance**2, distance.T**2):
        wanted = np.zeros(one.shape)
        for i, squares in enumerate(one):
            unit = squares.mean() - squares.min()
            for j, square in enumerate(squares):
                wanted[i, j] = np.exp(-sharpness * square / unit)
            wanted[i] /= wanted[i].sum()
        both.append(wanted)
    return both[0], both[1].T


def loop_alike(near):
    return near / near.sum(axis=1)[:, None], near / near.sum(axis=0)


def loop_contrast(agreement, length, temperature, wanted):
    """That of one length, from its agreements of shape (n, n)."""
    n, total = len(agreement), 0.0
    logits = agreement / length / (temperature / length**0.3)
    for i in range(n):
        for j in range(n):
            total -= wanted[0][i, j] * (logits[i, j] - np.log(np.exp(logits[i]).sum()))
            total -= wanted[1][i, j] * (
                logits[i, j] - np.log(np.exp(logits[:, j]).sum())
            )
    return total / (2 * n)


def pair_weights(distance):
    return np.exp(-3 * distance**2 / (distance**2).mean())


def loop_off_distance(agreement, distance):
    covariance = np.cov(
        distance.ravel(), agreement.ravel(), aweights=pair_weights(distance).ravel()
    )
    return 1 - covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1])


def loop_pair_loss(rows, partners, lengths, temperature, wanted, distance, weight):
    loss = 0.0
    for length in lengths:
        agreement = loop_agreement(rows, partners, length)
        loss += loop_contrast(agreement, length, temperature, wanted)
        if distance is not None:
            loss += weight * length * loop_off_distance(agreement, distance)
    return loss


def loop_reconstruction(signs, target, decoders, weight):
    loss = 0.0
    for decoder in decoders:
        m = len(decoder)
        error = target - signs[:, :m] @ decoder / m**0.5
        loss += weight * m**0.5 * (error**2).mean()
    return loss


# The losses


def pairs():
    """Signs of rows and of partners."""
    generator = torch.Generator().manual_seed(0)
    return torch.tanh(torch.randn(2, N_ROWS, 12, generator=generator).double())


def vectors(n=N_ROWS):
    rng = np.random.RandomState(0)
    rows = rng.randn(n, 5)
    return rows, rows + 0.7 * rng.randn(n, 5)


def squares_of(rows, partners):
    return squared_distances(torch.from_numpy(rows), torch.from_numpy(partners))


@pytest.fixture(params=["alike", "by distance", "and by correlation"])
def case(request):
    """Arguments of a loss but for the signs, and those of the loop."""
    generator = torch.Generator().manual_seed(0)
    near = torch.rand(N_ROWS, N_ROWS, generator=generator).fill_diagonal_(0) < 0.3
    distance, distances = euclidean_distances(*vectors()), None
    wanted, expected = wanted_alike(near.double()), loop_alike(near.numpy())
    if request.param != "alike":
        wanted = wanted_by_distance(squares_of(*vectors()), 4.0)
        expected = loop_wanted(distance, 4.0)
    if request.param == "and by correlation":
        distances = Distances.of(squares_of(*vectors()))
    head = LENGTHS, TEMPERATURE
    plain = distance if distances is not None else None
    return (*head, wanted, distances, 0.7), (*head, expected, plain, 0.7)


def test_rows_that_are_all_equal_want_all_partners_alike():
    wanted = wanted_by_distance(torch.zeros(5, 5), 20.0)
    np.testing.assert_allclose(wanted, np.full((5, 5), 2 / 5), rtol=1e-6)
    rows, far = torch.zeros(2, 5, 3)
    far = far + torch.tensor([1e15])  # squares near the end of float32
    assert torch.isfinite(wanted_by_distance(squared_distances(rows, far), 20.0)).all()


@pytest.mark.parametrize("lengths", [[12], [3, 8, 12], [1, 2, 3, 11, 12]], ids=str)
def test_the_loss_of_pairs_is_the_formula(lengths, case):
    arguments, expected = ((lengths, *values[1:]) for values in case)
    signs = pairs()
    loss = PairLoss.apply(*signs, *arguments)
    np.testing.assert_allclose(
        loss, loop_pair_loss(*signs.numpy(), *expected), rtol=1e-12
    )


def test_the_gradient_is_that_of_finite_differences(case):
    rows, partners = (signs.clone().requires_grad_() for signs in pairs())
    assert torch.autograd.gradcheck(
        lambda *signs: -2.5 * PairLoss.apply(*signs, *case[0]), (rows, partners)
    )


@each("temperature", [1e-6, 1e-3, 0.6, 1e6])
def test_pairs_are_finite_at_any_temperature(temperature):
    """And what tells no pair apart has the loss of a guess."""
    rows, wanted = torch.ones(5, 8, requires_grad=True), wanted_alike(torch.eye(5))
    for partners in (-torch.ones(5, 8), torch.ones(5, 8), torch.eye(5, 8)):
        loss = PairLoss.apply(rows, partners, [8], temperature, wanted, None, 0.0)
        (gradient,) = torch.autograd.grad(loss, rows)
        assert torch.isfinite(loss) and torch.isfinite(gradient).all()
    ones = torch.ones(2, 5, 8)
    loss = PairLoss.apply(*ones, [8], temperature, wanted, None, 0)
    np.testing.assert_allclose(loss, np.log(5), rtol=1e-6)


@each("dtype", [torch.float32, torch.float64])
@each("same", ["agreement", "distances", "both"])
@each("n", [2, 3, 33])
def test_correlation_of_what_does_not_vary_is_none(n, same, dtype):
    """Whether sums of equal values come out as equal or not."""
    rows, partners = (torch.from_numpy(v).to(dtype) for v in vectors(n))
    signs, others = torch.ones(2, n, 12, dtype=dtype)
    if same != "agreement":
        rows, partners = rows[:1].expand(n, 5), rows[:1].expand(n, 5)
    if same == "distances":
        signs, others = signs.clone(), others.clone()
        signs[::2] = -1
    squares = squared_distances(rows.contiguous(), partners.contiguous())
    distances = Distances.of(squares)
    arguments = [12], 0.9, wanted_alike(torch.eye(n, dtype=dtype))
    for factor in (1.0, 0.3, 1 / 3):
        own = (factor * signs).requires_grad_()
        loss = PairLoss.apply(own, others, *arguments, distances, 1.0)
        plain = PairLoss.apply(own, others, *arguments, None, 1.0)
        np.testing.assert_allclose((loss - plain).item(), 12, rtol=1e-3)
        (gradient,) = torch.autograd.grad(loss, own)
        assert gradient.abs().max() < 100


def reconstructed():
    """Signs, rows and decoders."""
    rng = np.random.RandomState(0)
    decoders = [rng.randn(m, 5) for m in LENGTHS]
    return [
        torch.from_numpy(values).requires_grad_()
        for values in (np.tanh(rng.randn(9, 12)), rng.randn(9, 5), *decoders)
    ]


def test_the_gradient_of_reconstruction_is_that_of_finite_differences():
    signs, target, *decoders = reconstructed()
    target.requires_grad_(False)

    def loss(signs, *decoders):
        return -2.5 * ReconstructionLoss.apply(signs, target, False, *decoders)

    assert torch.autograd.gradcheck(loss, (signs, *decoders))


def test_rough_products_are_those_of_factors_in_bfloat16():
    """Of eight binary places."""
    signs, target, *decoders = reconstructed()
    left, right = signs.detach(), decoders[-1].detach()
    exact, bound = left @ right, 3 * 2.0**-8 * (left.abs() @ right.abs())
    rough = product(left, right, True)
    assert rough.dtype == exact.dtype
    assert ((rough - exact).abs() <= bound).all() and (rough != exact).any()
    torch.testing.assert_close(product(left, right, False), exact, rtol=0, atol=0)
    gradients = []
    for is_coarse in (True, False):
        loss = ReconstructionLoss.apply(signs, target.detach(), is_coarse, *decoders)
        gradients.append(torch.autograd.grad(loss, [signs, *decoders]))
    for one, other in zip(*gradients, strict=True):
        assert 0 < (one - other).norm() < 0.02 * other.norm()


# The module


def make_module(**params):
    rng = np.random.RandomState(0)
    options = {
        "mean": np.zeros(4),
        "scale": 1.0,
        "axes": np.eye(4),
        "coefs": [rng.randn(4, 6)],
        "intercepts": [rng.randn(6)],
        "skip_coef": None,
    }
    contrast = {
        "lengths": [2, 6],
        "temperature": 2.0,
        "n_samples": 3 ** (1 / 0.35),
        "by_distance": True,
        "n_epochs": 5,
        "distance_weight": 0.0,
        "reconstruction_weight": 0.0,
        "unit_rows": False,
    }
    contrast |= {name: params.pop(name) for name in contrast.keys() & params.keys()}
    return NeighborModule(**options | params, contrast=Contrast(**contrast))


def strangers(X, labels=None):
    """A batch of rows and partners that are no candidates of other rows."""
    n = len(X)
    near = torch.arange(n).reshape(n, 1, 1)
    return Batch(X, torch.arange(n), labels=labels, partners=near)


def batch_of(n=10, d=4):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("hidden", [True, False])
def test_products_of_training_alone_are_rough_where_that_is_faster(
    able, hidden, monkeypatch
):
    monkeypatch.setattr(_module, "multiplies_bfloat16", lambda device: able)
    coefs = [np.eye(4), np.zeros((4, 6))] if hidden else [batch_of(4, 6).numpy()]
    skip = batch_of(4, 6).numpy() if hidden else None
    intercepts = [np.zeros(coef.shape[1]) for coef in coefs]
    module = make_module(coefs=coefs, intercepts=intercepts, skip_coef=skip)
    X = batch_of().float()
    assert torch.equal(module(X), module.eval()(X))
    module.start_epoch(0)
    exact, trained = module(X), module.train()(X)
    assert torch.equal(exact, trained) == (not able)
    torch.testing.assert_close(trained, exact, atol=0.1, rtol=0)


@each("n_epochs", [1, 2, 5, 30])
def test_curves_get_as_steep_as_five(n_epochs):
    """By one factor each epoch."""
    module = make_module(n_epochs=n_epochs)
    assert module.steepness == 1
    grown = []
    for epoch in range(n_epochs + 3):
        module.start_epoch(epoch)
        grown.append(module.steepness)
    expected = np.r_[np.geomspace(1, 5, n_epochs), 5, 5, 5]
    np.testing.assert_allclose(grown, expected, rtol=1e-12)


KNOWN_NEAR = torch.tensor([[1, 7], [2, 2], [3, 9], [4, 4], [0, 0], *[[0, 0]] * 5])


@each("gradient", [None, DeterministicST()])
@each("unit_rows", [False, True])
@each("weights", [(0, 0), (0.3, 0), (0, 2.0), (0.3, 2.0)])
@each("by_distance", [True, False])
def test_the_loss_of_a_batch_is_the_sum_of_all(
    by_distance, weights, unit_rows, gradient
):
    """Of five rows; row 0 is near the partner of row 2, row 2 near that of row 4."""
    mean, scale = np.array([1.0, 0.0, 2.0, 0.5]), 2.0
    module = make_module(
        mean=mean,
        scale=scale,
        gradient=gradient,
        by_distance=by_distance,
        distance_weight=weights[0],
        reconstruction_weight=weights[1],
        unit_rows=unit_rows,
    )
    module = module.double().eval()  # so that products are exact
    decoders = [np.random.RandomState(m).randn(m, 4) for m in (2, 6)]
    for parameter, values in zip(module.decoders, decoders, strict=False):
        parameter.data = torch.from_numpy(values)
    assert len(module.decoders) == (2 if weights[1] else 0)
    X = batch_of()
    logits = module(X)
    for epoch in (0, 2):
        module.start_epoch(epoch)
        batch = Batch(X, torch.arange(10), partners=KNOWN_NEAR[:, :, None])
        loss = module.loss(logits, batch)

        signs = np.tanh(module.steepness * logits.detach().numpy())
        signs = signs if gradient is None else np.sign(signs)
        raw = X.numpy() * scale + mean
        rows = normalize(raw) if unit_rows else X.numpy()
        distance = euclidean_distances(rows[:5], rows[5:])
        near = np.eye(5)
        near[[0, 2], [2, 4]] = 1
        expected = loop_pair_loss(
            signs[:5],
            signs[5:],
            [2, 6],
            2.0,
            loop_wanted(distance, 3.0) if by_distance else loop_alike(near),
            distance if by_distance else None,
            weights[0],
        )
        target = (rows - rows.mean(axis=0)) / (rows - rows.mean(axis=0)).std()
        if by_distance and weights[1]:
            expected += loop_reconstruction(signs[:5], target[:5], decoders, weights[1])
        np.testing.assert_allclose(loss.item(), expected, rtol=1e-7)
    loss.backward()
    assert module.coefs[0].grad.abs().max() > 0


def test_distances_and_reconstruction_are_left_out_with_labels():
    X = batch_of()
    plain = make_module(by_distance=False).double()
    weighted = make_module(distance_weight=3.0, reconstruction_weight=2.0).double()
    logits = plain(X)
    labels = torch.arange(10)[:, None]
    losses = [
        module.loss(logits, strangers(X, given)).item()
        for given in (labels, None)
        for module in (plain, weighted)
    ]
    assert losses[0] == losses[1] == losses[2] < losses[3]


@each("n_axes", [3, 4])
def test_rows_on_axes_are_compared_by_their_directions_there(n_axes):
    rng = np.random.RandomState(0)
    axes = np.linalg.qr(rng.randn(4, 4))[0][:n_axes]
    X, mean, scale = rng.randn(10, 4) + 1, np.array([1.0, 0, 2, 0]), 3.0
    options = {"mean": mean, "scale": scale, "axes": axes, "coefs": [np.eye(n_axes, 6)]}
    fed = torch.from_numpy((X - mean) / scale @ axes.T)
    rows = make_module(**options, unit_rows=True).double()._compared(fed).numpy()
    np.testing.assert_allclose(rows, normalize(X @ axes.T), atol=1e-6)
    if n_axes == 4:
        np.testing.assert_allclose(rows @ axes, normalize(X), atol=1e-6)
    as_fed = make_module(**options).double()._compared(fed)
    np.testing.assert_array_equal(as_fed, fed)
