"""`gradient_report` against enumeration, and what it leaves alone."""

import itertools
import json

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
    Exact,
    GradientEstimator,
    Reinforce,
    StraightThrough,
    gradient_report,
)
from skhash.gradients.report import _run
from skhash.gradients.report._result import PANELS
from skhash.training._batches import Batch

WEIGHTS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
LOGITS = torch.tensor([[0.3, -0.2, 0.9]], dtype=torch.float64)


def cubic(x):
    return (x @ WEIGHTS - 1).pow(3) + x[..., 0] * x[..., 1]


def report_of(estimators, **options):
    options = {"n_trials": 20, "random_state": 0} | options
    return gradient_report(cubic, LOGITS, estimators, **options)


class Table:
    """The gradients of an estimator at each state, and the states' probabilities."""

    def __init__(self, coefficient):
        states = list(itertools.product([0.0, 1.0], repeat=3))
        states = torch.tensor(states, dtype=torch.float64)
        p = torch.sigmoid(2 * LOGITS)
        self.chances = (p * states + (1 - p) * (1 - states)).prod(dim=1).numpy()
        leaf = states.clone().requires_grad_()
        (slopes,) = torch.autograd.grad(cubic(leaf).sum(), leaf)
        density = 2 * p * (1 - p)
        at_state = p * states + (1 - p) * (1 - states)
        self.gradients = (slopes * coefficient(density, at_state)).numpy()
        signs = (2 * states - 1).numpy()
        scores = signs * (density / at_state).numpy()
        self.truth = self.chances @ (cubic(states).numpy()[:, None] * scores)

    def mean(self, values):
        return self.chances @ values

    def spread(self):
        """Return the standard deviation of the gradient."""
        away = self.gradients - self.mean(self.gradients)
        return np.sqrt(self.mean((away**2).sum(axis=1)))


# The coefficient of f'(x): F' for straight-through, F' / (2 p(x)) for ZGR.
COEFFICIENTS = {
    "st": lambda density, at_state: density,
    "zgr": lambda density, at_state: density / (2 * at_state),
    "identity_st": lambda density, at_state: torch.full_like(at_state, 0.5),
}


class TestAgainstEnumeration:
    @pytest.mark.parametrize("name", COEFFICIENTS)
    def test_all_measurements(self, name):
        n_trials = 2000
        table = Table(COEFFICIENTS[name])
        (row,) = report_of([name], n_trials=n_trials).rows
        g, h = table.truth, table.gradients
        norm = np.linalg.norm(g)
        products, squares = h @ g, (h * h).sum(axis=1)
        cosines = products / np.sqrt(squares) / norm
        spread = np.sqrt(table.mean(cosines**2) - table.mean(cosines) ** 2)
        assert row.cosine == pytest.approx(
            table.mean(cosines), abs=4 * spread / np.sqrt(n_trials)
        )
        rms = np.sqrt(table.mean(squares))
        spread = np.sqrt(table.mean(products**2) - table.mean(products) ** 2)
        # The error of the divisor too, both as relative ones.
        spread_squares = np.sqrt(table.mean(squares**2) - rms**4)
        error = spread / rms + abs(table.mean(products)) * spread_squares / rms**3
        assert row.improvement == pytest.approx(
            -table.mean(products) / rms, abs=4 * error / np.sqrt(n_trials)
        )
        errors = ((h - g) ** 2).sum(axis=1)
        rmse = np.sqrt(table.mean(errors))
        spread = np.sqrt(table.mean(errors**2) - rmse**4) / rmse
        assert row.rmse == pytest.approx(rmse, abs=4 * spread / np.sqrt(n_trials))
        assert row.relative_rmse == pytest.approx(row.rmse / norm)
        assert row.optimum == pytest.approx(-norm)
        bias = np.linalg.norm(table.mean(h) - g) / norm
        floor = table.spread() / np.sqrt(n_trials) / norm
        assert row.bias == pytest.approx(bias, abs=4 * floor)
        assert row.bias_floor == pytest.approx(floor, rel=0.1)
        assert row.spread == pytest.approx(table.spread() / norm, rel=0.1)
        squared = row.bias**2 + row.spread**2 * (1 - 1 / n_trials)
        assert row.relative_rmse == pytest.approx(np.sqrt(squared))

    def test_interval_of_the_cosine_is_that_of_the_trials(self):
        table = Table(COEFFICIENTS["st"])
        h = table.gradients
        cosines = h @ table.truth / np.linalg.norm(h, axis=1)
        cosines /= np.linalg.norm(table.truth)
        (row,) = report_of(["st"], n_trials=2000).rows
        order = np.argsort(cosines)
        chances = np.cumsum(table.chances[order])
        ends = row.cosine_low, row.cosine_high
        for end, level in zip(ends, (0.15, 0.85), strict=True):
            # Near a step of the distribution function either side may be drawn.
            near = [np.searchsorted(chances, level + shift) for shift in (-0.04, 0.04)]
            low, high = cosines[order][near]
            assert low - 1e-9 <= end <= high + 1e-9

    def test_improvement_is_the_minimum_of_the_proximal_objective(self):
        table = Table(COEFFICIENTS["st"])
        products = table.mean(table.gradients @ table.truth)
        squares = table.mean((table.gradients**2).sum(axis=1))
        step = np.linspace(-5, 5, 200_001)
        minimum = (-step * products + 0.5 * step**2 * squares).min()
        (row,) = report_of(["st"], n_trials=3000).rows
        assert -0.5 * row.improvement**2 == pytest.approx(minimum, rel=0.1)

    def test_the_exact_estimator_is_perfect(self):
        (row,) = report_of(["exact"]).rows
        assert row.cosine == pytest.approx(1)
        assert (row.cosine_low, row.cosine_high) == pytest.approx((1, 1))
        assert row.rmse == row.bias == row.spread == 0
        assert row.improvement == pytest.approx(row.optimum)
        assert row.bias_floor == 0

    def test_zero_gradients_count_as_cosine_zero(self):
        class Half(GradientEstimator):
            """The exact gradient or none, at even odds."""

            def surrogate(self, loss, logits, generator=None, **options):
                losses = Exact().surrogate(loss, logits, **options)
                return losses * (torch.rand((), generator=generator) < 0.5)

        (row,) = report_of({"half": Half()}, n_trials=50).rows
        assert 0 < row.n_zero < 50
        assert row.cosine == pytest.approx(1 - row.n_zero / 50)


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

    def test_more_samples_less_noise(self):
        few, many = (
            report_of(["st"], reference_samples=n).settings for n in (20, 2000)
        )
        assert few["reference_noise"]["logits"] > 3 * many["reference_noise"]["logits"]
        assert few["cosine_ceiling"]["logits"] < many["cosine_ceiling"]["logits"] < 1
        assert few["reference"] == "ARM, 20 samples"

    def test_its_noise_is_the_least_bias_that_can_be_told(self):
        """Of what does not draw, nothing else hides a bias."""
        report = report_of(["tanh"], reference_samples=20)
        noise = report.settings["reference_noise"]["logits"]
        assert report.rows[0].spread < 1e-3 * noise
        assert report.rows[0].bias_floor == pytest.approx(noise) and noise > 0.1

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
        # What must not be felt by the next call.
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
    def test_straight_through_is_exact_for_a_linear_loss(self, module, rows):
        report = gradient_report(Fitted(module), rows, ["st", "arm"], n_trials=10)
        measured = {(row.estimator, row.group): row for row in report.rows}
        assert measured["st", "encoder"].relative_rmse < 1e-12
        assert measured["st", "encoder"].cosine == pytest.approx(1)
        assert measured["arm", "encoder"].relative_rmse > 0.1
        assert measured["st", "decoder"].relative_rmse > 0.01  # it sees drawn bits

    def test_groups_and_the_norm_of_their_gradients(self, module, rows):
        report = gradient_report(Fitted(module), rows, ["exact"], n_trials=2)
        assert report.settings["groups"] == {"all": 19, "encoder": 15, "decoder": 4}
        mean = torch.sigmoid(2 * module.encoder(rows))
        loss = module.decoder(mean).mean()
        both = torch.autograd.grad(loss, list(module.parameters()))
        both = torch.cat([gradient.flatten() for gradient in both])
        expected = [part.norm().item() for part in (both, both[:15], both[15:])]
        assert norms_of(report) == pytest.approx(expected)

    def test_batches_have_references_of_their_own(self, module, rows):
        whole = gradient_report(Fitted(module), rows, ["exact"], n_trials=2)
        report = gradient_report(
            Fitted(module), rows, ["exact"], n_trials=2, batch_size=4
        )
        assert report.settings["n_batches"] == 2
        assert report.rows[0].rmse == 0
        halves = [
            gradient_report(Fitted(module), part, ["exact"], n_trials=2).rows[0].optimum
            for part in rows.split(4)
        ]
        assert report.rows[0].optimum == pytest.approx(
            -np.sqrt(np.mean(np.square(halves)))
        )
        assert whole.rows[0].optimum != pytest.approx(report.rows[0].optimum)

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

    def test_the_seed_covers_dropout_too(self, module, rows):
        module.encoder = nn.Sequential(nn.Dropout(0.5), module.encoder)
        reports = []
        for seed in (0, 0, 1):
            torch.rand(1)  # the global generator has no say
            report = gradient_report(
                Fitted(module), rows, ["st"], n_trials=3, random_state=seed
            )
            reports.append(report.to_dict()["rows"])
        assert reports[0] == reports[1] != reports[2]

    def test_targets_and_rows_reach_the_loss(self, rows):
        module = Model(power=2)
        plain = gradient_report(Fitted(module), rows, ["exact"], n_trials=2).rows[0]
        told = gradient_report(
            Fitted(module), rows, ["exact"], n_trials=2, y=np.arange(6)
        )
        assert told.rows[0].optimum != plain.optimum
        gradient_report(Fitted(module), rows, [Reinforce(baseline="row")], n_trials=2)

    def test_a_fitted_encoder(self, module, rows):
        class Encoder:
            def _training_batch(self, X, y):
                return module, Batch.of(torch.as_tensor(X) / 2)

        report = gradient_report(Encoder(), rows.numpy(), ["st"], random_state=0)
        plain = gradient_report(Fitted(module), rows / 2, ["st"], random_state=0)
        assert report.to_dict() == plain.to_dict()


def expected_loss(encoder, rows, losses_of):
    """Return the mean over rows of the expected loss, state by state."""
    p = torch.sigmoid(2 * encoder(rows))
    total = 0.0
    for state in itertools.product([0.0, 1.0], repeat=p.shape[1]):
        on = torch.tensor(state, dtype=p.dtype).expand(p.shape)
        chances = (p * on + (1 - p) * (1 - on)).prod(dim=1)
        total = total + (chances * losses_of(on)).mean()
    return total


class TestOwnModule:
    """A torch module of the user's, and a loss of what comes out of it."""

    @pytest.fixture
    def encoder(self, module):
        return nn.Sequential(module.encoder, nn.Tanh(), nn.Linear(3, 3).double())

    def test_gradient_is_that_of_the_expected_loss(self, encoder, module, rows):
        def loss(bits, targets):
            return (module.decoder(bits)[..., 0] - targets).pow(4)

        targets = np.linspace(-2, 2, len(rows))
        report = gradient_report(
            encoder,
            rows.numpy(),
            ["exact", "arm"],
            loss=loss,
            y=targets,
            n_trials=3,
            random_state=0,
        )
        assert report.settings["groups"] == {"all": 27, "0": 15, "2": 12}
        targets = torch.tensor(targets)
        value = expected_loss(encoder, rows, lambda x: loss(x, targets))
        parts = torch.autograd.grad(value, list(encoder.parameters()))
        flat = torch.cat([part.flatten() for part in parts])
        norms = [part.norm().item() for part in (flat, flat[:15], flat[15:])]
        assert norms_of(report)[:3] == pytest.approx(norms)
        assert all(row.relative_rmse < 1e-12 for row in report.rows[:3])
        assert report.rows[3].relative_rmse > 0.1

    @pytest.mark.parametrize("batch_size", [None, 4])
    def test_it_is_measured_as_the_librarys_own(self, rows, batch_size):
        module, targets = Model(power=3), torch.arange(6.0)
        options = {"n_trials": 5, "random_state": 0, "batch_size": batch_size}
        own = gradient_report(
            module.encoder,
            rows,
            ["st", Reinforce(baseline="row")],
            loss=lambda bits, y: (module.decoder(bits)[..., 0] - y) ** 3,
            y=targets,
            **options,
        )
        estimators = ["st", Reinforce(baseline="row")]
        fitted = gradient_report(
            Fitted(module), rows, estimators, y=targets.double(), **options
        )
        for row in (row for row in own.rows if row.group == "all"):
            (other,) = (
                other
                for other in fitted.rows
                if (other.estimator, other.group) == (row.estimator, "encoder")
            )
            for name in ("cosine", "optimum", "rmse", "bias", "spread"):
                assert getattr(row, name) == pytest.approx(getattr(other, name))

    def test_images_go_through_convolutions(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(4, 1, 4, 4, generator=generator)
        encoder = nn.Sequential(nn.Conv2d(1, 2, 4), nn.Flatten())
        report = gradient_report(
            encoder, images, ["st"], loss=lambda bits: bits.sum(dim=-1), n_trials=2
        )
        assert report.settings["n_bits"] == 2
        assert report.rows[0].relative_rmse < 1e-6  # a linear loss

    def test_nothing_of_the_users_changes(self, module, rows):
        encoder = nn.Sequential(nn.BatchNorm1d(4).double(), module.encoder)
        kept = {name: value.clone() for name, value in encoder.state_dict().items()}
        state = torch.get_rng_state()
        gradient_report(encoder, rows, ["st"], loss=cubic, n_trials=2)
        for name, value in encoder.state_dict().items():
            assert torch.equal(value, kept[name])
        assert encoder.training and all(p.grad is None for p in encoder.parameters())
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_loss_that_is_a_module_keeps_its_parameters_to_itself(self, module, rows):
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = module.decoder

            def forward(self, bits):
                return self.decoder(bits)[..., 0].square()

        own = gradient_report(
            module.encoder, rows, ["st"], loss=Loss(), n_trials=2, random_state=0
        )
        plain = gradient_report(
            module.encoder,
            rows,
            ["st"],
            loss=lambda bits: module.decoder(bits)[..., 0].square(),
            n_trials=2,
            random_state=0,
        )
        assert own.to_dict() == plain.to_dict()


class TestOptions:
    def test_the_same_seed_the_same_report(self):
        first, second, other = (
            report_of(["st", "arm"], random_state=seed).to_dict() for seed in (3, 3, 4)
        )
        assert first == second
        assert first["rows"] != other["rows"]

    def test_estimators_see_the_same_numbers(self):
        rows = report_of({"one": "arm", "two": ARM()}).rows
        assert rows[0].cosine == rows[1].cosine
        alone = report_of(["arm"]).rows[0]
        assert alone.rmse == rows[0].rmse

    def test_more_trials_are_others(self):
        assert report_of(["st"], n_trials=21).rows != report_of(["st"]).rows

    def test_arrays_and_integers_are_logits_too(self):
        report = report_of(["st"])
        array = gradient_report(
            cubic, LOGITS.numpy(), ["st"], n_trials=20, random_state=0
        )
        assert array.to_dict() == report.to_dict()
        gradient_report(lambda x: x.sum(dim=-1), [[0, 1]], "st", n_trials=2)

    def test_labels(self):
        arm = ARM(n_samples=3)
        assert [row.estimator for row in report_of(["st", arm]).rows] == [
            "st",
            "ARM(n_samples=3)",
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"estimators": ["so"]}, "'so' is not one of"),
            ({"estimators": []}, "at least one"),
            ({"estimators": ["st", "st"]}, "more than once"),
            ({"n_trials": 1}, "n_trials"),
            ({"X": np.zeros((0, 3))}, "at least one row"),
            ({"X": np.zeros(3)}, "two axes"),
            ({"batch_size": 7}, "all rows at once"),
        ],
    )
    def test_wrong_arguments(self, arguments, message):
        defaults = {"model": cubic, "X": LOGITS, "estimators": ["st"]}
        with pytest.raises(ValueError, match=message):
            gradient_report(**{**defaults, **arguments})

    def test_wrong_models(self, module, rows):
        with pytest.raises(TypeError, match="neither a function"):
            gradient_report(3, LOGITS, ["st"])
        with pytest.raises(TypeError, match="pass loss="):
            gradient_report(module, rows, ["st"])
        with pytest.raises(TypeError, match="leave loss= out"):
            gradient_report(cubic, LOGITS, ["st"], loss=cubic)
        with pytest.raises(ValueError, match="a loss of its own"):
            gradient_report(Fitted(module), rows, ["st"], loss=cubic)
        module.gradient = "analytic"
        with pytest.raises(TypeError, match="'analytic'"):
            gradient_report(Fitted(module), rows, ["st"])
        with pytest.raises(ValueError, match="requires_grad"):
            frozen = module.requires_grad_(False)
            gradient_report(frozen, rows, ["st"], loss=cubic)
        with pytest.raises(ValueError, match=r"shape \(\) .* one number a row"):
            gradient_report(lambda x: x.sum(), LOGITS, ["st"])
        with pytest.raises(ValueError, match="y has 2 rows, but X has 6"):
            gradient_report(nn.Linear(4, 3), rows, ["st"], loss=cubic, y=[0, 1])


class TestResult:
    def test_frame_and_dict(self):
        report = report_of(["st", "arm"])
        frame = report.to_frame()
        assert frame["estimator"].tolist() == ["st", "arm"]
        assert frame["cosine"].tolist() == [row.cosine for row in report.rows]
        plain = json.loads(json.dumps(report.to_dict()))
        row = report.rows[1]
        assert plain["rows"][1]["rmse"] == row.rmse
        assert plain["rows"][1]["relative_rmse"] == row.relative_rmse
        assert plain["rows"][1]["cosine_low"] == row.cosine_low
        assert plain["settings"]["n_bits"] == 3

    def test_text(self):
        report = report_of(["st", "arm"], n_trials=7)
        assert "2 estimators, 7 trials" in repr(report)
        assert all(name in str(report) for name in ("st", "arm", "logits", *PANELS))

    def test_plot(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("agg")
        from matplotlib import pyplot as plt

        report = report_of(["st", "arm"])
        axes = report.plot()
        for ax, name in zip(axes, PANELS, strict=True):
            dots = ax.lines[0].get_xdata()
            assert dots.tolist() == [getattr(row, name) for row in report.rows]
        labels = [text.get_text() for text in axes[0].get_yticklabels()]
        assert labels == ["st", "arm"]
        (bars,) = axes[0].collections
        ends = [(row.cosine_low, row.cosine_high) for row in report.rows]
        assert [tuple(bar[:, 0]) for bar in bars.get_segments()] == ends
        dashed = [
            line.get_xdata()[0]
            for ax in axes
            for line in ax.lines
            if line.get_ls() == "--"
        ]
        assert dashed == [1.0, report.rows[0].optimum]
        plt.close("all")

    def test_plot_of_what_is_not_there(self):
        report = report_of(["st"])
        with pytest.raises(ValueError, match="'encoder'"):
            report.plot(group="encoder")


@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_sparse_encoder_is_measured_as_a_dense_one(batch_size):
    X = np.random.default_rng(0).poisson(0.5, (20, 9)).astype(np.float32)
    encoder = StochasticAutoencoderHash(
        3, hidden_layer_sizes=(5,), input_dropout=0, max_epochs=1, random_state=0
    ).fit(X)
    dense, other = (
        gradient_report(
            encoder,
            rows,
            ["st", "arm"],
            n_trials=3,
            batch_size=batch_size,
            random_state=0,
        ).rows
        for rows in (X, sparse.csr_array(X))
    )
    for row, other_row in zip(dense, other, strict=True):
        assert_allclose(other_row.rmse, row.rmse, rtol=1e-3)
        assert_allclose(other_row.cosine, row.cosine, atol=1e-3)
