"""`gradient_report` against enumeration, and what it leaves alone."""

import itertools
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import sparse
from torch import nn

from skhash import StochasticAutoencoderHash
from skhash.gradients import (
    ARM,
    BernoulliUnits,
    GradientEstimator,
    Reinforce,
    StraightThrough,
    gradient_report,
)
from skhash.gradients.report import _run
from skhash.gradients.report._result import PANELS
from skhash.training._module import Batch

WEIGHTS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
LOGITS = torch.tensor([[0.3, -0.2, 0.9]], dtype=torch.float64)


def cubic(x):
    return (x @ WEIGHTS - 1).pow(3) + x[..., 0] * x[..., 1]


def report_of(estimators, **options):
    options = {"n_trials": 20, "random_state": 0} | options
    return gradient_report(cubic, LOGITS, estimators, **options)


def expected_loss(encoder, rows, losses_of):
    """Return the mean over rows of the expected loss, state by state."""
    p = torch.sigmoid(2 * encoder(rows))
    total = 0.0
    for state in itertools.product([0.0, 1.0], repeat=p.shape[1]):
        on = torch.tensor(state, dtype=p.dtype).expand(p.shape)
        chances = (p * on + (1 - p) * (1 - on)).prod(dim=1)
        total = total + (chances * losses_of(on)).mean()
    return total


class Drawn(GradientEstimator):
    """Any numbers for a gradient, sometimes zeros; their means over rows are kept."""

    seen: ClassVar[list] = []

    def surrogate(self, loss, logits, generator=None, **told):
        drawn = torch.randn(logits.shape, generator=generator, dtype=logits.dtype)
        drawn = drawn * (torch.rand((), generator=generator) < 0.8)
        self.seen.append(drawn.mean(dim=0).numpy())
        return (logits * drawn).sum(dim=-1)


def test_measurements_are_those_of_the_formulas():
    """Of whatever is drawn, in batches of which the last one is smaller."""
    encoder = nn.Linear(1, 3, bias=False, dtype=torch.float64)
    X, y = torch.ones(5, 1), torch.arange(1.0, 6)
    Drawn.seen.clear()
    report = gradient_report(
        encoder,
        X,
        {"drawn": Drawn()},
        loss=lambda bits, y: y * cubic(bits),
        y=y,
        n_trials=40,
        batch_size=2,
        random_state=0,
    )
    (row,) = report.rows
    h = np.reshape(Drawn.seen, (3, 40, 3)).swapaxes(0, 1)
    losses = [
        expected_loss(encoder, x.double(), lambda on, y=y: y * cubic(on))
        for x, y in zip(X.split(2), y.split(2), strict=True)
    ]
    g = [torch.autograd.grad(each, encoder.weight)[0].flatten() for each in losses]
    g = torch.stack(g).numpy()
    norm = np.sqrt((g**2).sum(axis=1).mean())
    lengths = np.linalg.norm(h, axis=2)
    products = (h * g).sum(axis=2)
    cosines = products / np.maximum(lengths, 1e-300) / np.linalg.norm(g, axis=1)
    cosines = cosines.mean(axis=1)
    variance = h.var(axis=0, ddof=1).sum(axis=1).mean()
    expected = {
        "cosine": cosines.mean(),
        "cosine_low": np.quantile(cosines, 0.15),
        "cosine_high": np.quantile(cosines, 0.85),
        "improvement": -products.mean() / np.sqrt((lengths**2).mean()),
        "optimum": -norm,
        "rmse": np.sqrt(((h - g) ** 2).sum(axis=2).mean()),
        "relative_rmse": np.sqrt(((h - g) ** 2).sum(axis=2).mean()) / norm,
        "bias": np.sqrt(((h.mean(axis=0) - g) ** 2).sum(axis=1).mean()) / norm,
        "bias_floor": np.sqrt(variance / 40) / norm,
        "spread": np.sqrt(variance) / norm,
        "n_zero": (lengths == 0).sum(),
    }
    found = {name: getattr(row, name) for name in expected}
    assert found == pytest.approx(expected)
    assert row.n_zero > 0 and report.settings["n_batches"] == 3


class TestReference:
    @pytest.fixture(autouse=True)
    def sampled(self, monkeypatch):
        monkeypatch.setattr(_run, "MAX_EXACT_BITS", 2)

    def test_a_sampled_one_knows_its_noise(self):
        noises, errors = [], []
        # Of few calls: another divisor of their spread would change the noise much.
        options = {"reference_samples": 4, "n_trials": 2}
        for seed in range(200):
            report = report_of(["exact"], random_state=seed, **options)
            norm = report.rows[0].optimum
            noises.append((report.settings["reference_noise"]["logits"] * norm) ** 2)
            errors.append(report.rows[0].rmse ** 2)
        assert np.mean(noises) == pytest.approx(np.mean(errors), rel=0.25)

    def test_its_noise_falls_and_is_the_least_bias_that_can_be_told(self):
        """Of what does not draw, nothing else hides a bias."""
        few, many = (report_of(["tanh"], reference_samples=n) for n in (20, 2000))
        assert few.settings["reference"] == "ARM, 20 samples"
        noise = few.settings["reference_noise"]["logits"]
        assert noise > 3 * many.settings["reference_noise"]["logits"]
        assert few.settings["cosine_ceiling"]["logits"] == pytest.approx(
            np.sqrt(1 - noise**2)
        )
        assert few.rows[0].spread < 1e-3 * noise
        assert few.rows[0].bias_floor == pytest.approx(noise) and noise > 0.1

    def test_few_bits_are_enumerated_and_many_sampled(self, monkeypatch):
        monkeypatch.undo()
        assert "Exact" in report_of(["st"]).settings["reference"]
        report = gradient_report(
            lambda x: x.sum(dim=-1), torch.zeros(1, 40), ["st"], n_trials=2
        )
        assert report.settings["reference"] == "ARM, 1000 samples"
        assert 0 < report.settings["reference_noise"]["logits"] < 1


def test_a_gradient_of_zeros_is_told():
    """An even function of the bits around one half does not depend on them."""
    report = gradient_report(
        lambda x: (x - 0.5).square().sum(dim=-1), 0 * LOGITS, ["st"], n_trials=20
    )
    (row,) = report.rows
    assert row.optimum == 0 and row.cosine == 0 and row.rmse > 0
    assert row.relative_rmse == row.bias == np.inf


class Model(nn.Module):
    """Linear encoder and linear decoder of one number: straight-through is exact."""

    def __init__(self, n_bits=3, power=1):
        super().__init__()
        self.encoder = nn.Linear(4, n_bits, dtype=torch.float64)
        self.decoder = nn.Linear(n_bits, 1, dtype=torch.float64)
        self.register_buffer("n_seen", torch.zeros(()))
        self.gradient, self.units = StraightThrough(), BernoulliUnits()
        self.generator, self.power, self.n_calls = torch.Generator(), power, 0

    def forward(self, X):
        return self.encoder(X)

    def loss(self, logits, batch):
        X, y = batch.X, batch.labels
        # Changes that the next call must not see.
        self.n_calls += 1
        self.n_seen += 1
        weight = self.n_calls + self.n_seen - 1
        targets = 0.0 if y is None else y.to(X.dtype)

        def function(bits):
            return weight * (self.decoder(bits)[..., 0] - targets) ** self.power

        return self.gradient.surrogate(
            function, logits, self.generator, units=self.units, rows=batch.rows
        ).mean()


@pytest.fixture
def rows():
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()


@pytest.fixture
def module():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model()


class Fitted:
    """An encoder that was trained with a module."""

    def __init__(self, module):
        self.module = module

    def _training_batch(self, X, y):
        labels = None if y is None else torch.as_tensor(y)
        return self.module, Batch.of(X, labels=labels)


def norms_of(report):
    return [-row.optimum for row in report.rows]


class TestModule:
    def test_groups_and_the_norm_of_their_gradients(self, module, rows):
        report = gradient_report(Fitted(module), rows, ["exact"], n_trials=2)
        assert report.settings["groups"] == {"all": 19, "encoder": 15, "decoder": 4}
        mean = torch.sigmoid(2 * module.encoder(rows))
        loss = module.decoder(mean).mean()
        both = torch.autograd.grad(loss, list(module.parameters()))
        both = torch.cat([gradient.flatten() for gradient in both])
        expected = [part.norm().item() for part in (both, both[:15], both[15:])]
        assert norms_of(report) == pytest.approx(expected)

    def test_no_unit_is_dropped(self, module, rows):
        measure = partial(
            gradient_report, estimators=["exact", "disarm"], n_trials=3, random_state=0
        )
        without = measure(Fitted(module), rows).rows
        module.encoder = nn.Sequential(nn.Dropout(), module.encoder)
        assert measure(Fitted(module), rows).rows == without
        assert module.encoder[0].training
        options = {"decoder": "gaussian", "max_epochs": 1, "random_state": 0}
        encoder = StochasticAutoencoderHash(4, dropout=0.5, **options).fit(rows.numpy())
        dropped = measure(encoder, rows.numpy()).rows
        for part in encoder.net_.module_.modules():
            if hasattr(part, "dropout"):
                part.dropout = 0.0
        assert measure(encoder, rows.numpy()).rows == dropped

    def test_nothing_of_the_users_changes(self, module, rows):
        kept = {name: value.clone() for name, value in module.state_dict().items()}
        gradient, generator = module.gradient, module.generator
        states = torch.get_rng_state(), generator.get_state(), np.random.get_state()[1]
        estimator = Reinforce()
        gradient_report(Fitted(module), rows, [estimator], n_trials=2, random_state=0)
        for name, value in module.state_dict().items():
            assert torch.equal(value, kept[name])
        assert module.gradient is gradient and module.generator is generator
        assert module.n_calls == 0 and not hasattr(estimator, "totals_")
        assert all(p.grad is None for p in module.parameters())
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.equal(generator.get_state(), states[1])
        assert np.array_equal(np.random.get_state()[1], states[2])

    def test_the_seed_covers_noise_of_the_model(self, module, rows):
        """It is independent of that of the units, or there would be a bias."""
        norm = nn.BatchNorm1d(4).double()
        encoder = nn.Sequential(norm, module.encoder)

        def loss(bits):
            return (bits * torch.rand(bits.shape, dtype=bits.dtype)).sum(dim=-1)

        given, reports = {"loss": loss, "n_trials": 100}, []
        for seed in (0, 0, 1):
            torch.rand(1)  # the global generator has no say
            report = gradient_report(encoder, rows, "rloo", random_state=seed, **given)
            reports.append(report.rows)
            assert report.rows[0].bias < 2 * report.rows[0].bias_floor
        assert reports[0] == reports[1] != reports[2]
        assert norm.num_batches_tracked == 0

    def test_targets_and_rows_reach_the_loss(self, rows):
        module = Model(power=2)
        plain = gradient_report(Fitted(module), rows, ["exact"], n_trials=2).rows[0]
        told = gradient_report(
            Fitted(module), rows, ["exact"], n_trials=2, y=np.arange(6)
        )
        assert told.rows[0].optimum != plain.optimum
        gradient_report(Fitted(module), rows, [Reinforce(baseline="row")], n_trials=2)


class TestOwnModule:
    """A torch module of the user's, and a loss of what comes out of it."""

    @pytest.fixture
    def encoder(self, module):
        return nn.Sequential(module.encoder, nn.Tanh(), nn.Linear(3, 3).double())

    def test_images_go_through_convolutions(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(4, 1, 4, 4, generator=generator)
        encoder = nn.Sequential(nn.Conv2d(1, 2, 4), nn.Flatten())
        report = gradient_report(
            encoder, images, ["st"], loss=lambda bits: bits.sum(dim=-1), n_trials=2
        )
        assert report.settings["n_bits"] == 2
        assert report.rows[0].relative_rmse < 1e-6  # a linear loss

    def test_a_loss_that_is_a_module_keeps_its_parameters_to_itself(self, module, rows):
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = module.decoder

            def forward(self, bits):
                return self.decoder(bits)[..., 0].square()

        def function(bits):
            return module.decoder(bits)[..., 0].square()

        own, plain = (
            gradient_report(
                module.encoder, rows, ["st"], loss=loss, n_trials=2, random_state=0
            )
            for loss in (Loss(), function)
        )
        assert own == plain


class TestOptions:
    def test_the_same_seed_the_same_report(self):
        first, second, other = (
            report_of(["st", "arm"], random_state=seed) for seed in (3, 3, 4)
        )
        assert first == second
        assert first.rows != other.rows

    def test_estimators_see_the_same_numbers(self):
        rows = report_of({"one": "arm", "two": ARM()}).rows
        assert rows[0].cosine == rows[1].cosine
        alone = report_of(["arm"]).rows[0]
        assert alone.rmse == rows[0].rmse

    def test_arrays_and_integers_are_logits_too(self):
        array = gradient_report(
            cubic, LOGITS.numpy(), ["st"], n_trials=20, random_state=0
        )
        assert array == report_of(["st"])
        gradient_report(lambda x: x.sum(dim=-1), [[0, 1]], "st", n_trials=2)

    def test_wrong_arguments(self, module):
        frozen, analytic = nn.Linear(4, 3).requires_grad_(False), Model()
        analytic.gradient = "analytic"
        X = np.zeros((6, 4))
        for arguments, message in [
            ({"estimators": ["so"]}, "'so' is not one of"),
            ({"estimators": []}, "at least one"),
            ({"estimators": ["st", "st"]}, "more than once"),
            ({"n_trials": 1}, "n_trials"),
            ({"X": np.zeros((0, 3))}, "at least one row"),
            ({"X": np.zeros(3)}, "two axes"),
            ({"batch_size": 7}, "all rows at once"),
            ({"model": nn.Linear(4, 3)}, "a function of bits alone"),
            ({"loss": cubic}, "a function of bits alone"),
            ({"model": lambda x: x.sum()}, "one number per row"),
            ({"model": module.encoder, "loss": cubic, "X": X, "y": [1]}, "y has 1"),
            ({"model": frozen, "loss": cubic, "X": X}, "requires_grad"),
            ({"model": Fitted(module), "loss": cubic}, "has its own loss"),
            ({"model": Fitted(analytic), "X": X}, "'analytic'"),
        ]:
            given = {"model": cubic, "X": LOGITS, "estimators": ["st"]} | arguments
            with pytest.raises((TypeError, ValueError), match=message):
                gradient_report(**given)


class TestResult:
    def test_rows_make_a_table(self):
        pd = pytest.importorskip("pandas")
        arm = ARM(n_samples=3)
        report = report_of(["st", arm], n_trials=7)
        frame = pd.DataFrame(report.rows)
        assert frame["estimator"].tolist() == ["st", "ARM(n_samples=3)"]
        assert frame["cosine"].tolist() == [row.cosine for row in report.rows]
        assert "2 estimators, 7 trials" in repr(report)
        assert all(name in str(report) for name in ("st", "logits", *PANELS))

    def test_plot(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("agg")
        from matplotlib import pyplot as plt

        report = report_of(["st", "arm"])
        with pytest.raises(ValueError, match="'encoder'"):
            report.plot(group="encoder")
        axes = report.plot()
        for ax, name in zip(axes, PANELS, strict=True):
            dots = ax.lines[0].get_xdata()
            assert dots.tolist() == [getattr(row, name) for row in report.rows]
        (bars,) = axes[0].collections
        ends = [(row.cosine_low, row.cosine_high) for row in report.rows]
        assert [tuple(bar[:, 0]) for bar in bars.get_segments()] == ends
        plt.close("all")


def test_a_sparse_encoder_is_measured_as_a_dense_one():
    X = np.random.default_rng(0).poisson(0.5, (20, 9)).astype(np.float32)
    encoder = StochasticAutoencoderHash(
        3, hidden_layer_sizes=(5,), dropout=0, max_epochs=1, random_state=0
    ).fit(X)
    dense, other = (
        gradient_report(
            encoder, rows, ["st", "arm"], n_trials=3, batch_size=7, random_state=0
        ).rows
        for rows in (X, sparse.csr_array(X))
    )
    for row, other_row in zip(dense, other, strict=True):
        assert_allclose(other_row.rmse, row.rmse, rtol=1e-3)
        assert_allclose(other_row.cosine, row.cosine, atol=1e-3)
