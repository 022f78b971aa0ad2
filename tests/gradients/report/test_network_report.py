"""`gradient_report` of classifiers, whose gradients are those of a network."""

import numpy as np
import pytest
import torch
from cases import each
from gradients import network_enumeration
from gradients.network_enumeration import generic_loss, make_network
from sklearn.datasets import load_iris

import skhash
from skhash import SBNClassifier
from skhash.classification._module import cross_entropy
from skhash.gradients import (
    DeterministicST,
    ExactNetwork,
    LayerwiseNetwork,
    _exact_network,
    gradient_report,
)
from skhash.gradients.report import _run

X, Y = load_iris(return_X_y=True)
X, Y = X[::10], np.array(["a", "b", "c"])[Y[::10]]


def fitted(sizes=(3, 2), **params):
    params = {"batch_norm": False, "max_epochs": 2, "device": "cpu"} | params
    return SBNClassifier(sizes, random_state=0, **params).fit(X, Y)


def report_of(model, estimators, **options):
    options = {"n_trials": 2, "random_state": 0} | options
    return gradient_report(model, X, estimators, y=Y, **options)


@each("batch_norm", [False, True])
def test_the_reference_is_the_gradient_of_the_expected_loss(batch_norm):
    model = fitted(batch_norm=batch_norm)
    report = report_of(model, ["exact_network"])
    assert report.settings["reference"] == "ExactNetwork()"
    assert report.settings["n_bits"] == [3, 2]
    network = model._network()
    rows = torch.tensor((X - model.mean_) / model.scale_, dtype=torch.float32)
    labels = torch.tensor(np.unique(Y, return_inverse=True)[1])
    losses = ExactNetwork().network_surrogate(
        lambda outputs: cross_entropy(outputs, labels), network, rows
    )
    losses.mean().backward()
    parts = {"layers.0": network.layers[0], "layers.1": network.layers[1]}
    parts |= {"head": network.head, "all": network}
    for row in report.rows:
        gradients = [p.grad.flatten() for p in parts[row.group].parameters()]
        norm = float(torch.cat(gradients).norm())
        assert row.optimum == pytest.approx(-norm, rel=1e-5)
        assert row.rmse == 0 and row.cosine == pytest.approx(1)
        n_numbers = report.settings["groups"][row.group]
        assert n_numbers == sum(len(part) for part in gradients)


def test_wide_layers_have_a_sampled_reference(monkeypatch):
    report = report_of(fitted((13,)), ["st"], reference_samples=30)
    assert report.settings["reference"] == "ARM, 30 samples"
    monkeypatch.setattr(_exact_network, "MAX_UNITS", 13)
    monkeypatch.setattr(_run, "MAX_EXACT_BITS", 13)
    exact = report_of(fitted((13,)), ["st"])
    noise = report.settings["reference_noise"]["all"]
    assert 0 < noise < 1
    assert report.rows[0].optimum == pytest.approx(
        exact.rows[0].optimum, rel=5 * noise + 0.5 * noise**2
    )


@each("params", [{"weights": "mirror", "batch_norm": True}, {"n_draws": 2}])
def test_what_the_states_of_units_do_not_tell_is_sampled(params):
    """A mean over random weights too, and the bound of several draws."""
    report = report_of(fitted(**params), ["disarm"], n_trials=200)
    assert report.settings["reference"] == "ARM, 1000 samples"
    assert report.rows[0].bias < 2 * report.rows[0].bias_floor


def test_instances_and_parameters_of_training_do_not_matter(tmp_path):
    names = {"one": LayerwiseNetwork(DeterministicST()), "two": "det_st"}
    model = fitted()
    one, two = (row for row in report_of(model, names).rows if row.group == "layers.0")
    assert one.bias == two.bias > 0
    model.save(tmp_path / "model")
    loaded = skhash.load(tmp_path / "model")
    assert report_of(loaded, names) == report_of(model, names)


def test_a_network_of_ones_own():
    """Its reference is the enumeration of all paths, layer by layer."""
    network, row = make_network([2, 3]), network_enumeration.X
    report = gradient_report(
        network, row, ["psa", "st"], loss=generic_loss, n_trials=200, random_state=0
    )
    assert report.settings["reference"] == "ExactNetwork()"
    assert report.settings["n_bits"] == [2, 3]
    _, parts = network_enumeration.exact(network)
    flat = [part.flatten() for part in parts]
    expected = {
        "all": torch.cat(flat),
        "layers.0": torch.cat(flat[:2]),
        "layers.1": torch.cat(flat[2:4]),
        "head": torch.cat(flat[4:]),
    }
    rows = {(row.estimator, row.group): row for row in report.rows}
    for group, gradient in expected.items():
        assert rows["psa", group].optimum == pytest.approx(-float(gradient.norm()))
    assert rows["psa", "layers.1"].bias < 4 * rows["psa", "layers.1"].bias_floor
    assert rows["psa", "layers.0"].rmse != rows["st", "layers.0"].rmse


def test_targets_of_a_network_of_ones_own():
    network = make_network([2, 3])
    rows, y = torch.cat([network_enumeration.X] * 3), torch.tensor([0, 1, 1])

    def loss(outputs, y):
        return -outputs.log_softmax(dim=-1)[..., torch.arange(len(y)), y]

    report = gradient_report(
        network, rows, ["st"], loss=loss, y=y, batch_size=2, n_trials=2
    )
    parts = [
        network_enumeration.exact(network, lambda o, k=k: -o.log_softmax(-1)[..., k])[1]
        for k in (0, 1)
    ]
    zero, one = (torch.cat([part.flatten() for part in own]) for own in parts)
    batches = torch.stack([(zero + one) / 2, one])
    mean = batches.square().sum(dim=1).mean().sqrt()
    assert report.rows[0].optimum == pytest.approx(-float(mean))


def test_wrong_arguments():
    model = fitted()
    with pytest.raises(ValueError, match="pass them as y="):
        gradient_report(model, X, ["st"])
    with pytest.raises(ValueError, match="not among the classes"):
        gradient_report(model, X, ["st"], y=np.repeat("d", len(X)))
    with pytest.raises(TypeError, match="ExactNetwork"):
        report_of(model, ["exact"])
