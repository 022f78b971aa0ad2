import itertools
import pickle
from typing import ClassVar

import numpy as np
import pytest
import torch
from cases import each
from checks import other_defaults_of_torch
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import train_test_split
from skorch.callbacks import Callback

import skhash
from skhash import SBNClassifier
from skhash.classification._architectures import make_network
from skhash.classification._deterministic import RealLayer
from skhash.classification._ensemble import Ensemble
from skhash.classification._module import ClassifierModule, whiten
from skhash.gradients import PSA, ExactNetwork
from skhash.networks import (
    BayesBiNNWeights,
    BinaryLinear,
    MirrorWeights,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import Logistic
from skhash.training._module import Batch
from skhash.utils.chunks import CHUNK_BYTES


def blobs(n_classes=3, n_samples=120):
    return make_blobs(n_samples, 4, centers=n_classes, cluster_std=3.0, random_state=0)


def small(**params):
    """A network that is fitted in a moment."""
    params = {"hidden_layer_sizes": (6, 5), "max_epochs": 3, "random_state": 0} | params
    return SBNClassifier(**params)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, random_state=0)


@pytest.fixture(scope="module")
def of_digits(digits):
    X, _, y, _ = digits
    return SBNClassifier((64, 48), max_epochs=10, batch_size=64, random_state=0).fit(
        X, y
    )


def affine_maps(model, statistics=None):
    """Return (W, scale, shift) of each layer in float64, norms folded."""
    arrays = iter(model.weights_)
    statistics = None if statistics is None else iter(statistics)
    maps = []
    for layer in model.layers_:
        W = next(arrays).astype(float)
        if not layer["batch_norm"]:
            maps.append((W, 1.0, next(arrays).astype(float)))
            continue
        gain, offset, mean, var = (next(arrays).astype(float) for _ in range(4))
        if statistics is not None:
            mean, var = (next(statistics).astype(float) for _ in range(2))
        scale = gain / np.sqrt(var + 1e-5)
        maps.append((W, scale, offset - mean * scale))
    return maps


def standardized(model, X):
    return (X - model.mean_) / model.scale_


def expected_probabilities(model, X):
    """Enumerate the states of two layers of units with logistic noise."""
    first, second, (V, _, c) = affine_maps(model)

    def law(a):
        states = np.array(list(itertools.product([-1.0, 1.0], repeat=a.shape[-1])))
        return states, expit(2 * a[..., None, :] * states).prod(axis=-1)

    W, scale, shift = first
    low, p_low = law(standardized(model, X) @ W.T * scale + shift)
    W, scale, shift = second
    high, p_high = law(low @ W.T * scale + shift)
    return p_low @ p_high @ softmax(high @ V.T + c, axis=1)


def test_det_is_the_plain_forward_pass(of_digits, digits):
    X = digits[1]
    x = standardized(of_digits, X)
    *maps, (V, _, c) = affine_maps(of_digits, of_digits.det_statistics_)
    for W, scale, shift in maps:
        logits = x @ W.T * scale + shift
        x = np.where(logits > 0, 1.0, -1.0)
    probabilities = softmax(x @ V.T + c, axis=1)
    model = pickle.loads(pickle.dumps(of_digits)).set_params(n_predict_samples=0)
    np.testing.assert_array_equal(model.transform(X), x > 0)
    np.testing.assert_allclose(model.predict_proba(X), probabilities, atol=1e-5)
    np.testing.assert_array_equal(
        model.predict(X), of_digits.classes_[probabilities.argmax(axis=1)]
    )


@each("batch_norm", [False, True])
def test_the_ensemble_tends_to_the_enumerated_mean(batch_norm):
    X, y = blobs()
    model = small(hidden_layer_sizes=(3, 2), batch_norm=batch_norm).fit(X, y)
    n_draws = 1000
    model.set_params(n_predict_samples=n_draws)
    # Each probability is a mean of values in [0, 1], of deviation at most 1/2.
    error = np.abs(model.predict_proba(X) - expected_probabilities(model, X))
    assert error.max() < 5 * 0.5 / np.sqrt(n_draws)
    with pytest.raises(ValueError, match="n_predict_samples"):
        model.set_params(n_predict_samples=-1).predict(X)


def own_network(n_features, n_classes):
    layers = [
        BinaryLinear(n_features, 9, noise="uniform", batch_norm=True),
        BinaryLinear(np.int64(9), np.int64(7), weights="mirror", batch_norm=True),
    ]
    return StochasticBinaryNetwork(layers, RealLinear(np.int64(7), n_classes))


def mirrored(images, generator):
    return images.flip(-1)


def pooled(*channels):
    options = {"kernel_size": 3, "padding": 1}
    return [
        {"n_channels": n, "pool": p, **options} for n in channels for p in (None, 2)
    ]


def strided(*channels):
    """Convolutions without pooling, every second one with stride 2."""
    return [
        dict(zip(("n_channels", "kernel_size", "stride"), sizes, strict=True))
        for sizes in np.array([[n, 3, 1 + i % 2] for i, n in enumerate(channels)])
    ]


OF_DIGITS = {"architecture": pooled(3, 4), "input_shape": (1, 8, 8)}
OF_TILES = {
    "architecture": strided(3, 4, 4, 4),
    "hidden_layer_sizes": (),
    "input_shape": (1, 27, 27),
}
NETWORKS = [
    {"batch_norm": False},
    {"weights": "pgd", "hidden_layer_sizes": (6, 5, 4)},
    {"weights": "bayesbinn", "optimizer": "SGD"},
    {"architecture": own_network},
    OF_DIGITS,
    OF_DIGITS | {"weights": "mirror"},
    OF_DIGITS | {"batch_norm": False, "hidden_layer_sizes": ()},
    OF_TILES | {"gradient": "psa"},
    OF_TILES | {"weights": "mirror", "gradient": "psa"},
]


def images(params, digits):
    """Digits, tiled where the network wants larger images."""
    X, _, y, _ = digits
    X, y = X[:100], y[:100]
    if params.get("input_shape") == OF_TILES["input_shape"]:
        X = np.tile(X.reshape(-1, 8, 8), (1, 4, 4))[:, :27, :27].reshape(len(X), -1)
    return X, y


@pytest.mark.parametrize("params", NETWORKS)
def test_the_exported_network_is_det(params, digits, tmp_path):
    X, y = images(params, digits)
    model = small(**params, n_predict_samples=0, max_epochs=1).fit(X, y)
    # Norms whose scales have both signs.
    for name, weights in zip(
        model.net_.module_.network.state_dict(), model.weights_, strict=True
    ):
        if name.endswith("norm.weight"):
            weights[::2] *= -1
    network = model.export_deterministic()
    np.testing.assert_array_equal(network.transform(X), model.transform(X))
    np.testing.assert_allclose(
        network.predict_proba(X), model.predict_proba(X), atol=1e-5
    )
    np.testing.assert_array_equal(network.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        network.predict(sparse.csr_array(X)), model.predict(X)
    )
    with pytest.raises(ValueError, match=r"shape \(100, 1\); give"):
        network.predict(X[:, :1])
    is_binary = "weights" in params or params.get("architecture") is own_network
    for layer in network.layers[1:]:
        is_packed = is_binary and not getattr(layer, "geometry", None)
        assert isinstance(layer, RealLayer) != is_packed
    if callable(model.architecture):
        with pytest.warns(UserWarning, match="architecture is not saved"):
            model.save(tmp_path / "model")
    else:
        model.save(tmp_path / "model")
    loaded = skhash.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_weights_are_repetitions_in_the_loss():
    """Without norms, in whose statistics all rows count once.

    Weights are divided by their mean over all rows, and not by that of a batch.
    """
    generator = torch.Generator().manual_seed(0)
    network = make_network(
        [], (4,), [3, 2], 3, noise="logistic", batch_norm=False, generator=generator
    )
    X = torch.randn(5, 4, generator=generator)
    y = torch.tensor([0, 2, 1, 1, 0])
    repeats = torch.tensor([1, 3, 0, 2, 1])
    module = ClassifierModule(network, ExactNetwork())

    def gradients(rows, labels, weights):
        module.zero_grad()
        batch = Batch.of(rows, labels=labels[:, None], weights=weights)
        loss = module.loss(rows, batch)
        loss.backward()
        return [loss, *(p.grad for p in module.parameters())]

    weighted = gradients(X, y, repeats.float())
    repeated = gradients(
        X.repeat_interleave(repeats, 0), y.repeat_interleave(repeats), None
    )
    expected = [repeats.float().mean() * gradient for gradient in repeated]
    torch.testing.assert_close(weighted, expected)


def test_weights_count_in_small_batches():
    """Each row has a heavy right label and three light wrong ones."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    right = (X[:, 0] > 0).astype(int)
    y = np.r_[right, np.tile(1 - right, 3)]
    weights = np.where(np.arange(len(y)) < len(X), 10.0, 1.0)
    model = small(batch_norm=False, batch_size=8, max_epochs=6, lr=0.02)
    model.fit(np.tile(X, (4, 1)), y, sample_weight=weights)
    assert model.score(X, right) > 0.8


def test_rows_of_weight_zero_are_left_out():
    X, y = blobs()
    weights = np.arange(len(y)) % 2
    kept = weights > 0
    model = small().fit(X, y, sample_weight=1e308 * weights)
    other = small().fit(X[kept], y[kept], sample_weight=np.ones(kept.sum()))
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    assert model.history_[0]["train_loss"] == other.history_[0]["train_loss"]


def test_wrong_weights_are_named():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"-1\.0"):
        small().fit(X, y, sample_weight=np.full(len(y), -1.0))
    with pytest.raises(ValueError, match="all 0|non-zero"):
        small().fit(X, y, sample_weight=np.zeros(len(y)))


CHANGES = [
    *({"gradient": one} for one in ("st", "arm", "adf", "psa", PSA(enhanced=True))),
    *({"weights": one} for one in ("mirror", "pgd", MirrorWeights(500.0))),
    {"weights": "bayesbinn", "optimizer": "sgd"},
    {"weights": BayesBiNNWeights(temperature=0.5), "optimizer": torch.optim.SGD},
    *({"noise": one} for one in ("uniform", "triangular", Logistic(scale=2.0))),
    {"batch_norm": False},
    {"batch_norm": False, "init": "default"},
    {"batch_norm": False, "init_scale": 1.0},
    {"init": "real"},
    {"init": "real", "weights": "mirror"},
    *({"n_draws": 3}, {"n_predict_samples": 0}, {"n_predict_samples": 3}),
    {"augment": mirrored, "input_shape": (1, 2, 2)},
    *({"lr": 0.02}, {"lr_schedule": None}, {"lr_schedule": "step"}),
    *({"optimizer": "sgd"}, {"max_epochs": 2}, {"batch_size": 20}),
    *({"init_scale": 1.0}, {"validation_fraction": 0.2}, {"random_state": 1}),
    {"hidden_layer_sizes": (6, 4)},
]


def test_every_option_changes_the_result():
    X, y = blobs()
    results = [
        small(**change).fit(X, y).predict_proba(X).tobytes()
        for change in [{}, *CHANGES]
    ]
    assert len(set(results)) == len(results)
    assert small().fit(X, y).predict_proba(X).tobytes() == results[0]


def test_predictions_repeat():
    X, y = blobs()
    model = small().fit(X, y)
    p = model.predict_proba(X)
    torch.rand(3), np.random.rand(3)
    np.testing.assert_array_equal(model.predict_proba(X), p)
    with other_defaults_of_torch():
        again = small().fit(X, y)
        np.testing.assert_array_equal(again.predict_proba(X), p)
    more = clone(model).set_params(n_predict_samples=20).fit(X, y)
    model.set_params(n_predict_samples=20)
    np.testing.assert_array_equal(model.predict_proba(X), more.predict_proba(X))


def test_predictions_do_not_depend_on_the_rows_beside(of_digits, digits):
    """Nor on their order, to the rounding of float32: sums are in float64."""
    X, *_ = digits
    order = np.random.default_rng(0).permutation(len(X))
    expected = of_digits.decision_function(X)
    for rows in (order, order[:700], order[:3], order[-1:]):
        np.testing.assert_allclose(
            of_digits.decision_function(X[rows]), expected[rows], rtol=1e-7, atol=1e-9
        )


def test_global_generators_are_left_alone():
    X, y = blobs()
    before, torch_before = np.random.get_state()[1], torch.get_rng_state()
    small(gradient="psa").fit(X, y).predict(X)
    small(weights="mirror", architecture=own_network).fit(X, y).predict(X)
    small(weights="mirror").fit(X, y).predict(X)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert torch.equal(torch.get_rng_state(), torch_before)


def test_labels_of_any_type(tmp_path):
    X, y = blobs()
    expected = small().fit(X, y).predict(X)
    for classes, dtype in (("abc", str), ("abc", object), ([-1, 3, 7], float)):
        labels = np.array([*classes], dtype=dtype)
        model = small().fit(X, labels[y])
        model.save(tmp_path / "model")
        loaded = skhash.load(tmp_path / "model")
        assert loaded.classes_.dtype == model.classes_.dtype
        for fitted in (model, loaded):
            np.testing.assert_array_equal(fitted.predict(X), labels[expected])


def test_the_type_of_labels_says_nothing_of_rows():
    X, y = blobs()
    X = (X + 100).astype(np.float32)
    fits = [small().fit(X, y.astype(kind)) for kind in (int, float)]
    for one, other in zip(*(fit.weights_ for fit in fits), strict=True):
        np.testing.assert_array_equal(one, other)


@each("name", ["mirror", "pgd", "bayesbinn"])
def test_loaded_binary_weights_are_trained_as_before(name, tmp_path):
    """A loaded network resumes with the weights that the parameter names."""
    X, y = blobs()
    model = small(weights=name, optimizer="sgd").fit(X, y)
    model.save(tmp_path / "model")
    loaded = skhash.load(tmp_path / "model").partial_fit(X, y)
    trained = loaded.net_.module_.network.layers[1].weights
    assert type(trained) is type(model.net_.module_.network.layers[1].weights)
    assert trained.n_rows == len(X)


def test_loaded_weights_of_an_own_network_are_trained_as_they_were(tmp_path):
    """The factory decides on them, whatever the parameter says."""
    X, y = blobs()
    model = small(architecture=own_network).fit(X, y)
    with pytest.warns(UserWarning, match="not plain data"):
        model.save(tmp_path / "model")
    loaded = skhash.load(tmp_path / "model").partial_fit(X, y)
    weights = [layer.weights.law for layer in loaded.net_.module_.network.layers]
    assert weights == ["real", "mirror"]


def test_parameters_of_parts_are_reached_and_saved(tmp_path):
    X, y = blobs()
    model = small(weights=MirrorWeights()).set_params(weights__prior_strength=2.0)
    part = model.fit(X, y).net_.module_.network.layers[1].weights
    assert part is not model.weights and part.prior_strength == 2.0
    assert part.n_rows == len(X)
    model.save(tmp_path / "model")
    loaded = skhash.load(tmp_path / "model")
    assert repr(loaded.get_params()) == repr(model.get_params())
    with pytest.raises(ValueError, match="weights was MirrorWeights"):
        model.set_params(weights__prior_strength=1.0).partial_fit(X, y)


def test_whitened_logits_have_a_deviation():
    generator = torch.Generator().manual_seed(0)
    options = {"noise": "uniform", "batch_norm": False, "generator": generator}
    network = make_network(pooled(3, 5), (2, 4, 6), (7,), 3, **options)
    X = 5 + 3 * torch.randn(50, 48, generator=generator)
    whiten(network, X, deviation=1.7)
    for layer in network.layers:
        logits = layer.realize()(X).unflatten(1, (len(layer.bias), -1))
        std, mean = torch.std_mean(logits, dim=(0, 2), correction=0)
        torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-5, rtol=0)
        torch.testing.assert_close(std, torch.full_like(std, 1.7))
        X = layer.units.mean(logits.flatten(1))


def test_norms_start_at_the_deviation_of_logits():
    X, y = blobs()
    model = small(init_scale=3.0, max_epochs=1, lr=1e-6, optimizer="sgd").fit(X, y)
    for at in (1, 6):  # scales of the norms of both layers
        np.testing.assert_allclose(model.weights_[at], 3.0, atol=1e-4)


class FirstWeights(Callback):
    """Keeps the parameters that each training starts with."""

    seen: ClassVar[list] = []

    def on_train_begin(self, net, **kwargs):
        values = net.module_.network.state_dict().values()
        self.seen.append([value.numpy().copy() for value in values])


@each("weights", ["real", "mirror", "pgd", "those of a function"])
def test_real_units_come_first(weights):
    """Half of the epochs train as `tanh` does, and the others resume from there."""
    X, y = blobs()
    params, own = {"validation_fraction": 0.2}, {"weights": weights}
    if weights == "those of a function":
        params, own = params | {"architecture": own_network}, {}
    FirstWeights.seen.clear()
    model = small(
        init="real", max_epochs=7, callbacks=[FirstWeights()], **params, **own
    ).fit(X, y)
    _, started = FirstWeights.seen
    real = small(gradient="tanh", max_epochs=3, **params).fit(X, y).weights_
    assert model.n_iter_ == 4
    of_second = 5  # its weights stand behind those of the first layer and its norm
    logits = real[of_second] / np.sqrt(np.mean(real[of_second] ** 2))
    expected = {"mirror": logits, "pgd": np.clip(logits, -1, 1)}
    real[of_second] = expected.get(weights, real[of_second])
    for one, other in zip(started, real, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    model.set_params(max_epochs=1).fit(X, y)
    assert len(FirstWeights.seen) == 3  # of a single epoch there is no half


def test_statistics_are_those_of_each_mode():
    """Layers are fed by the layers below, and normalize over all rows."""
    X, y = blobs()
    model = small(max_epochs=1).fit(X, y)
    first, *_ = affine_maps(model, model.det_statistics_)
    logits = standardized(model, X) @ first[0].T
    mean, var = model.det_statistics_[:2]
    np.testing.assert_allclose(mean, logits.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(var, logits.var(axis=0, ddof=1), rtol=1e-4)
    bits = np.where(logits * first[1] + first[2] > 0, 1.0, -1.0)
    second = bits @ model.weights_[5].T
    np.testing.assert_allclose(model.det_statistics_[2], second.mean(axis=0), atol=1e-4)
    # The first layer meets no noise in either mode; the second does.
    np.testing.assert_allclose(model.weights_[3], mean, atol=1e-4)
    assert np.abs(model.weights_[8] - model.det_statistics_[2]).max() > 0.01


def test_statistics_are_those_of_all_classes_if_rows_are_sorted():
    X, y = blobs(2, n_samples=1200)
    model = small(max_epochs=1).fit(X[np.argsort(y)], np.sort(y))
    var = (standardized(model, X) @ model.weights_[0].T).var(axis=0)
    np.testing.assert_allclose(model.det_statistics_[1], var, rtol=0.1)


def test_augmentations_differ_between_calls_of_partial_fit():
    """Also those that draw from torch's global generators."""
    (X, y), seen = blobs(), set()

    def augment(images, generator):
        seen.update(torch.rand((), generator=g).item() for g in (None, generator))
        return images

    model = small(augment=augment, input_shape=(1, 2, 2), batch_size=60)
    model.partial_fit(X, y, classes=np.unique(y)).partial_fit(X, y)
    assert len(seen) == 8


def test_partial_fit_is_fit_in_parts():
    X, y = blobs()
    model = small(max_epochs=3).fit(X, y)
    parts = small()
    for _ in range(3):
        parts.partial_fit(X, y, classes=np.unique(y))
    losses, others = (
        [record["train_loss"] for record in m.history_] for m in (model, parts)
    )
    # Recalibration between the epochs draws from the generator of the noise, and the
    # first epoch has none before it.
    assert losses[0] == others[0]
    assert len(others) == parts.n_iter_ == 3
    rows = y != 1
    parts.partial_fit(X[rows], y[rows])
    assert parts.predict_proba(X).shape == (len(X), 3)


def test_failed_partial_fit_leaves_the_old_state():
    X, y = blobs()
    model = small()
    with pytest.raises(ValueError, match="classes="):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1, 2])
    p = model.predict_proba(X)
    with pytest.raises(ValueError, match="9"):
        model.partial_fit(X, np.where(y == 0, 9, y))
    with pytest.raises(ValueError, match="differ"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="init='real'"):
        clone(model).set_params(init="real").partial_fit(X, y, [0, 1, 2])
    np.testing.assert_array_equal(model.predict_proba(X), p)


@each(
    "params, message",
    [
        ({"architecture": pooled(2)}, "architecture=.* needs input_shape"),
        ({"augment": max}, "augment=.* needs input_shape"),
        (
            OF_DIGITS | {"input_shape": (1, 3, 3)},
            r"with 64 values in all, .* got \(1, 3, 3\)",
        ),
        (OF_DIGITS | {"architecture": pooled(2, 2, 2, 2)}, "leaves nothing"),
        (OF_DIGITS | {"architecture": pooled(2, 0)}, "n_channels=0"),
        ({"architecture": "resnet"}, "'architecture' parameter.*'resnet'"),
        ({"architecture": lambda n, k: own_network(n + 1, k)}, "65 inputs to 10"),
        ({"hidden_layer_sizes": ()}, "empty"),
        ({"hidden_layer_sizes": (0,)}, "at least 1"),
        ({"weights": "ternary"}, "weights='ternary' is not one of"),
        ({"weights": MirrorWeights(prior_strength=-1.0)}, "prior_strength"),
        ({"weights": "mirror", "batch_norm": False}, "batch_norm=True"),
        ({"weights": "bayesbinn"}, "optimizer='sgd'"),
        ({"weights": "mirror", "hidden_layer_sizes": (9,)}, "only one"),
        ({"gradient": "no_such"}, "no_such"),
    ],
)
def test_what_does_not_fit_is_named(params, message, digits):
    X, y = images({}, digits)
    with pytest.raises(ValueError, match=message):
        small(**params).fit(X, y)


def test_wrong_targets_are_named():
    X, y = blobs()
    with pytest.raises(TypeError, match="Linear"):
        small(architecture=torch.nn.Linear).fit(X, y)
    with pytest.raises(ValueError, match="only one class"):
        small().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="1d array"):
        small().fit(X, np.eye(3, dtype=int)[y])
    with pytest.raises(ValueError, match="diverged"):
        small(batch_norm=False, optimizer="sgd", lr=1e38).fit(X, y)


def test_chunks_of_images_keep_to_the_memory_of_their_units(monkeypatch):
    sizes = []
    units = Ensemble.units
    monkeypatch.setattr(
        Ensemble, "units", lambda self, X: sizes.append(len(X)) or units(self, X)
    )
    X = np.random.RandomState(0).rand(120, 27 * 27)
    params = OF_TILES | {"architecture": strided(64, 2), "batch_size": 8}
    model = small(**params, max_epochs=1, n_predict_samples=1).fit(
        X[:8], np.arange(8) % 2
    )
    model.predict(X)
    # The first layer has 64 maps of 25 x 25 units, and three floats are held of each.
    assert sum(sizes) == len(X)
    assert max(sizes) * 64 * 25**2 * 12 <= CHUNK_BYTES


def test_the_network_is_kept_until_a_fit_or_a_parameter_changes_it(monkeypatch):
    made, init = [], Ensemble.__init__
    monkeypatch.setattr(
        Ensemble, "__init__", lambda self, *args: made.append(1) or init(self, *args)
    )
    X, y = blobs()
    model = small().fit(X, y)
    changes = [
        lambda: None,
        lambda: model.set_params(n_predict_samples=3),
        lambda: setattr(model, "predict_seed_", model.predict_seed_ + 1),
        lambda: model.partial_fit(X, y),
    ]
    for n_made, change in enumerate(changes, start=1):
        change()
        first, again = model.predict_proba(X), model.predict_proba(X)
        assert len(made) == n_made
        np.testing.assert_array_equal(first, again)
        copied = pickle.loads(pickle.dumps(model)).predict_proba(X)
        made.pop()
        np.testing.assert_array_equal(first, copied)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@each("method", ["predict", "predict_proba", "transform"])
def test_rows_beyond_float32_are_refused(method):
    X, y = blobs()
    model = small().fit(X, y)
    with pytest.raises(ValueError, match="largest magnitude in X is 1e\\+300"):
        getattr(model, method)(np.full((2, 4), 1e300))
