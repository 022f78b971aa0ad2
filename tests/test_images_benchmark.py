"""The benchmark of networks on images measures what it says, on files of its own."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from skhash.classification._architectures import VGG, AllConv

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
STORED = ROOT / "docs" / "results" / "sbn_images.json"
TINY = {
    "allconv": {"rows": 40, "epochs": 1, "architecture": AllConv((2, 3))},
    "vgg": {
        "rows": 40,
        "epochs": 1,
        "architecture": VGG((2, 3, 2)),
        "hidden_layer_sizes": (5,),
    },
}


@pytest.fixture
def script(monkeypatch):
    """The script, as it is run, with networks of a few channels."""
    monkeypatch.syspath_prepend(FOLDER)
    names = "sbn_images", "sbn_images_report", "growing_results"
    script = importlib.import_module(names[0])
    monkeypatch.setattr(script, "REDUCED", TINY)
    monkeypatch.setattr(script, "N_VALIDATION", 10)
    yield script
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def cifar(tmp_path):
    """A data home with files of ten images each, one of each class."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"data_batch_{number}" for number in range(1, 6)]
    for name in [*names, "test_batch"]:
        images = rng.integers(0, 256, size=(10, 3072), dtype=np.uint8)
        labels = np.arange(10, dtype=np.uint8)[:, None]
        (folder / f"{name}.bin").write_bytes(np.hstack([labels, images]).tobytes())
    return tmp_path


def unexpected(*arguments):
    raise AssertionError(f"measured again: {arguments}")


def test_cifar_from_its_files(script, cifar, tmp_path, capsys, monkeypatch):
    output, picture = tmp_path / "results.json", tmp_path / "picture.png"
    arguments = ["--data", "cifar10", "--data-home", str(cifar), "--lrs", "0.01"]
    arguments += ["--seeds", "0", "--sizes", "1", "3", "--augment", "flip_crop"]
    arguments += ["--output", str(output)]
    script.main(arguments)
    first = json.loads(output.read_text())
    fits = {
        (fit["network"], fit["method"].removesuffix(", flip_crop")): fit
        for fit in first["cells"].values()
    }
    pairs = {(n, m) for n in TINY for m in script.NETWORK_METHODS[n]}
    assert fits.keys() == pairs and not first["left_out"]
    for (_, method), fit in fits.items():
        assert (fit["rows"], len(fit["losses"]), fit["lr"]) == (40, 1, 0.01)
        assert ("3" in fit) == (method != "relu")

    # Nothing is left to be measured.
    monkeypatch.setattr(script, "measure", unexpected)
    script.main(arguments)
    assert json.loads(output.read_text())["cells"] == first["cells"]
    capsys.readouterr()
    results = tmp_path / "tables.json"
    options = ["--picture", str(picture), "--results", str(results)]
    script.main(["--show", str(output), *options])
    tables = json.loads(results.read_text())["tables"]
    assert tables.keys() == {"allconv_40", "vgg_40"}
    stored = json.loads(STORED.read_text())["tables"]["vgg_4000"]
    assert tables["vgg_40"]["formats"] == stored["formats"]
    accuracies = {row[0]: row[2] for row in tables["vgg_40"]["rows"]}
    for (network, _), fit in fits.items():
        if network == "vgg":
            assert accuracies[fit["method"]] == 100 * fit["det"]["accuracy"]
    assert capsys.readouterr().out.count("| st, flip_crop |") == len(TINY)
    assert picture.stat().st_size > 0


def test_a_rate_is_searched_for_once(script, cifar, tmp_path, monkeypatch):
    output = tmp_path / "results.json"
    arguments = ["--data", "cifar10", "--data-home", str(cifar), "--lrs", "auto"]
    arguments += ["--search-rows", "20", "--networks", "vgg", "--methods", "relu"]
    arguments += ["--output", str(output), "--seeds"]
    script.main([*arguments, "0", "1"])
    monkeypatch.setattr(script, "tune", unexpected)
    script.main([*arguments, "1", "2"])
    search, *fits = json.loads(output.read_text())["cells"].values()
    assert [fit["seed"] for fit in fits] == [0, 1, 2]
    assert {fit["lr"] for fit in fits} == {search["lr"]}


def test_rates_are_a_table(script, cifar, tmp_path, capsys):
    """Of a run, and of its file: accuracies in percent, and the best of them."""
    output = tmp_path / "results.json"
    arguments = ["--data", "cifar10", "--data-home", str(cifar), "--seeds", "0"]
    arguments += ["--networks", "vgg", "--methods", "relu", "--output", str(output)]
    script.main([*arguments, "--lrs", "0.01", "0.02", "--epochs", "2"])
    printed = capsys.readouterr().out
    tune, fit = json.loads(output.read_text())["cells"].values()
    shares = " | ".join(f"{100 * share:.1f}" for share in tune["found"].values())
    line = f"| vgg | relu | {fit['lr']} | {shares} |"
    assert "| network | method | taken | 0.01 | 0.02 |" in printed and line in printed
    script.main(["--show", str(output)])
    assert line in capsys.readouterr().out


def test_without_the_files_it_says_what_is_missing(script, tmp_path):
    arguments = ["--data", "cifar10", "--data-home", str(tmp_path)]
    with pytest.raises(SystemExit, match="data_batch_1.bin"):
        script.main(arguments)


def fitted(script, method):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 32 * 32)), np.arange(40) % 10
    model = script.SBNClassifier(
        architecture=AllConv((2, 3)),
        input_shape=(1, 32, 32),
        max_epochs=2,
        random_state=0,
    )
    return model.set_params(**script.METHODS[method]).fit(X, y), X[:10], y[:10]


def test_predictions_are_those_of_the_classifier(script):
    model, X, y = fitted(script, "st")
    without_noise = model.set_params(predict_mode="det").predict_proba(X)
    np.testing.assert_allclose(script.probabilities(model, X), without_noise, atol=1e-5)
    members = [script.probabilities(model, X, seed) for seed in range(1, 101)]
    model.set_params(predict_mode="ensemble", n_predict_samples=100)
    means = model.predict_proba(X)
    # Of 100 members in either.
    assert abs(np.mean(members, axis=0) - means).max() < 0.2

    scores = script.scores(model, X, y, [1, 3])
    for n_members in (1, 3):
        mean = np.mean(members[:n_members], axis=0)
        found, truth = scores[str(n_members)], mean[np.arange(10), y]
        assert found["log_loss"] == pytest.approx(-np.log(truth).mean(), rel=1e-5)
        assert found["accuracy"] == np.mean(mean.argmax(axis=1) == y)


def test_the_twin_has_real_units(script):
    """Its outputs are those of torch's own layers."""
    model, X, _ = fitted(script, "relu")
    network = model.net_.module_.network.eval()
    x = torch.tensor((X - model.mean_) / model.scale_).float()
    for layer in network.layers:
        images = x.reshape(-1, *layer.geometry["input_shape"])
        h = functional.conv2d(images, layer.weight, stride=layer.geometry["stride"])
        norm = layer.norm
        statistics = norm.running_mean, norm.running_var
        h = functional.batch_norm(h, *statistics, norm.weight, norm.bias)
        x = h.relu().flatten(1)
    p = (x @ network.head.weight.T + network.head.bias).softmax(dim=1)
    np.testing.assert_allclose(
        script.probabilities(model, X), p.detach().numpy(), atol=1e-5
    )
