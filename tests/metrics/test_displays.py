"""Displays draw the values of the metrics."""

import numpy as np
import pytest
from cases import each
from sklearn.datasets import load_digits

from skhash import PCAHash
from skhash.codes import pack_bits
from skhash.metrics import (
    DistanceHistogramDisplay,
    HammingPrecisionRecallDisplay,
    PrecisionAtKDisplay,
    hamming_distance_histogram,
    hamming_precision_recall_curve,
    precision_at_k_score,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

DISPLAYS = [
    DistanceHistogramDisplay,
    HammingPrecisionRecallDisplay,
    PrecisionAtKDisplay,
]


@pytest.fixture(scope="module")
def vectors():
    X, y = load_digits(return_X_y=True)
    return X[:50], X[50:400], y[:50], y[50:400]


@pytest.fixture(scope="module")
def encoder(vectors):
    return PCAHash(n_bits=12).fit(vectors[1])


@pytest.fixture(scope="module")
def codes(vectors, encoder):
    X_query, X_database, y_query, y_database = vectors
    encoded = encoder.transform(X_query), encoder.transform(X_database)
    return *encoded, y_query, y_database


@pytest.fixture(autouse=True)
def closed_figures():
    from matplotlib import pyplot as plt

    yield
    plt.close("all")


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.mark.parametrize("options", [{}, {"empty_ball": "zero"}])
def test_precision_over_recall(codes, ax, options):
    display = HammingPrecisionRecallDisplay.from_predictions(*codes, ax=ax, **options)
    options = {"empty_ball": "skip"} | options
    precision, recall, _ = hamming_precision_recall_curve(*codes, **options)
    np.testing.assert_array_equal(display.line_.get_data(), [recall, precision])


@pytest.mark.parametrize("options", [{}, {"k": [3, 30], "ties": "best"}])
def test_precision_over_k(codes, ax, options):
    display = PrecisionAtKDisplay.from_predictions(*codes, ax=ax, **options)
    k, precision = display.line_.get_data()
    expected = precision_at_k_score(*codes, **{"k": k} | options)
    np.testing.assert_array_equal(precision, expected)
    assert options or (k[0] == 1 and k[-1] == 350 and (np.diff(k) > 0).all())
    alone = (codes[0], codes[0], codes[2], codes[2])
    display = PrecisionAtKDisplay.from_predictions(*alone, ax=ax, exclude_self=True)
    assert display.k[-1] == 49


def test_histograms_are_shares(codes, ax):
    display = DistanceHistogramDisplay.from_predictions(*codes, ax=ax)
    counts = hamming_distance_histogram(*codes)
    for patch, count in zip(display.patches_, counts, strict=True):
        values, edges, _ = patch.get_data()
        np.testing.assert_allclose(values, count / count.sum(), rtol=1e-14)
        np.testing.assert_array_equal((edges[1:] + edges[:-1]) / 2, np.arange(13))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["pairs that share a label", "other pairs"]


@each("display", DISPLAYS)
def test_an_encoder_and_its_codes_draw_the_same(display, vectors, codes, encoder):
    of_codes = display.from_predictions(*codes)
    of_encoder = display.from_estimator(encoder, *vectors)
    state, other = vars(of_codes), vars(of_encoder)
    for name in ("k", "precision", "recall", "relevant", "irrelevant"):
        np.testing.assert_array_equal(state.get(name), other.get(name))
    packed = pack_bits(codes[0]), pack_bits(codes[1]), *codes[2:]
    of_bytes = display.from_predictions(*packed, packed=True)
    if display is PrecisionAtKDisplay:
        np.testing.assert_allclose(of_bytes.precision, of_codes.precision, rtol=1e-14)


@each("display", DISPLAYS)
def test_names(display, vectors, encoder):
    def shown(drawn):
        texts = [text.get_text() for text in drawn.ax_.get_legend().get_texts()]
        return {drawn.ax_.get_title(), *texts}

    assert "PCAHash" in shown(display.from_estimator(encoder, *vectors))
    named = display.from_estimator(encoder, *vectors, name="mine")
    assert "mine" in shown(named) and "PCAHash" not in shown(named)
    assert "other" in shown(named.plot(name="other"))


@pytest.mark.parametrize("display", DISPLAYS)
def test_axes_of_the_users_own_and_style(display, codes, ax):
    drawn = display.from_predictions(*codes, ax=ax, plot_kwargs={"alpha": 0.25})
    assert drawn.ax_ is ax and drawn.figure_ is ax.figure
    artist = drawn.patches_[0] if hasattr(drawn, "patches_") else drawn.line_
    assert artist.get_alpha() == 0.25
    again = drawn.plot()
    assert again is drawn and drawn.ax_ is not ax
    assert drawn.ax_.get_xlabel() and drawn.ax_.get_ylabel()
    nameless = ax.figure.add_subplot()
    if not hasattr(drawn, "patches_"):
        assert drawn.plot(nameless).ax_.get_legend() is None


def test_numbers_may_be_lists(ax):
    assert DistanceHistogramDisplay([0, 4], [1, 0]).plot(ax).patches_
    assert PrecisionAtKDisplay([1, 2], [1.0, 0.5]).plot(ax).line_
