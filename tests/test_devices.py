"""Functions with `device` give on a device the results of the CPU.

Encoders are tested in `test_common.py`, gradient estimators and losses with their
contracts, search in more ways in `neighbors/`; here is the rest of what is public, and
parameters of encoders that their contract leaves at the defaults.
"""

import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pytest
import torch
from checks import public_encoders, sparse_data, training_data
from pretend import NAME, as_array, assert_as_on_cpu, without_float64
from scipy import sparse
from sklearn.base import clone

import skhash
from skhash import (
    AdditiveQuantizer,
    HammingNeighbors,
    SBNClassifier,
    StochasticAutoencoderHash,
    audit,
)
from skhash.gradients import gradient_report
from skhash.linear import PCAHash
from skhash.metrics import true_neighbors
from skhash.neighbors import HashedNeighbors

X, SPARSE = training_data(), sparse.csr_array(sparse_data(0.6))
Y = np.arange(len(X)) % 3
IMAGES = np.random.default_rng(2).random((40, 36))

CLASSIFIERS = [
    {},
    {"gradient": "psa", "weights": "mirror", "n_draws": 2},
    {"gradient": "arm", "n_predict_samples": 0, "validation_fraction": 0.2},
    {"weights": "bayesbinn", "optimizer": "sgd", "lr": 0.1, "init": "default"},
]


def classifier(device, **params):
    params = {"hidden_layer_sizes": (6, 5), "max_epochs": 2, "random_state": 0} | params
    return SBNClassifier(device=device, **params)


def classified(device):
    for i, params in enumerate(CLASSIFIERS):
        for rows in (X, SPARSE) if i == 0 else (SPARSE,):
            model = classifier(device, **params).fit(rows, Y)
            yield model.predict_proba(rows)
            yield model.transform(rows)
            yield model.partial_fit(rows[::2], Y[::2]).predict_proba(rows)
            assert device == "cpu" or b"Pretend" not in pickle.dumps(model)


def classified_images(device):
    convolutions = [{"n_channels": 2, "kernel_size": 3, "pool": 2}]
    options = {"architecture": convolutions, "input_shape": (1, 6, 6), "max_epochs": 1}
    model = classifier(device, augment=lambda images, _: images.flip(-1), **options)
    yield model.fit(IMAGES, Y[:40]).predict_proba(IMAGES)


def found_by_codes(device):
    bits = PCAHash(9).fit_transform(X)
    index = HammingNeighbors(4, radius=2, device=device).fit(bits[20:]).remove([3, 9])
    yield from index.kneighbors(bits[:20])
    yield from map(np.concatenate, index.radius_neighbors(bits[:20]))
    encoder = PCAHash(9, device=device)
    both = HashedNeighbors(encoder, n_neighbors=4, index=clone(index)).fit(X)
    yield from both.kneighbors(X[:20])


def found_by_vectors(device):
    for metric in ("euclidean", "cosine", "inner_product"):
        for rows in (X, SPARSE):
            yield true_neighbors(rows, metric=metric, device=device)
            yield true_neighbors(rows[:5], rows, metric=metric, device=device)


def quantized(device):
    """Of two bytes, whose errors are far from ties."""
    quantizer = AdditiveQuantizer(2, n_alternations=1, device=device)
    yield quantizer.fit(X).inverse_transform(quantizer.transform(X))


def reports(device):
    weight = torch.arange(3.0)
    encoder = StochasticAutoencoderHash(6, decoder="gaussian", random_state=0)
    models = [
        (lambda x: (x @ weight.to(x.device)).square(), torch.ones(4, 3), None),
        (encoder.set_params(max_epochs=1).fit(X), X, None),
        (classifier("cpu").fit(X, Y), X, Y),
    ]
    for model, rows, y in models:
        report = gradient_report(
            model, rows, ["st", "arm"], y=y, n_trials=3, random_state=0, device=device
        )
        yield np.array([[row.cosine, row.rmse] for row in report.rows])


def audited(device):
    result = audit(
        X, Y, n_bits=[8], methods=["sgh", "itq"], n_neighbors=5, device=device
    )
    yield np.array([[row.recall, row.recall_reranked] for row in result.rows])


# Functions of a device that yield answers, for each public name but the encoders.
ANSWERS = {
    "AdditiveQuantizer": [quantized],
    "HammingNeighbors": [found_by_codes],
    "SBNClassifier": [classified, classified_images],
    "audit": [audited],
    "gradient_report": [reports],
    "true_neighbors": [found_by_vectors],
}
EXACT = {"HammingNeighbors", "true_neighbors"}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_of_the_cpu(name, device):
    for answer in ANSWERS[name]:
        assert_as_on_cpu(answer, device, exact=name in EXACT)


@pytest.mark.parametrize("device", [NAME], indirect=True)
@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - {"audit"}))
def test_answers_without_float64(name, device):
    for answer in ANSWERS[name]:
        with without_float64():
            found = list(map(as_array, answer(device)))
        assert all(np.isfinite(one).all() for one in found)
        if name in EXACT:
            for one, other in zip(found, map(as_array, answer("cpu")), strict=True):
                np.testing.assert_array_equal(one, other)


def test_every_public_device_is_tested():
    modules = [m.name for m in pkgutil.walk_packages(skhash.__path__, "skhash.")]
    modules = [name for name in ("skhash", *modules) if "._" not in name]
    found = {
        name: value
        for module in map(importlib.import_module, modules)
        for name in getattr(module, "__all__", [])
        if takes_device(value := getattr(module, name))
    }
    encoders = public_encoders().values()
    others = {name for name, value in found.items() if value not in encoders}
    assert others == ANSWERS.keys()


def takes_device(value):
    if not callable(value) or inspect.isabstract(value):
        return False
    return "device" in inspect.signature(value).parameters
