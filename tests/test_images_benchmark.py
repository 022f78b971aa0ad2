"""The benchmark of networks on images measures what it says, on files of its own."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from skhash.classification import VGG, AllConv

FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"
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


def test_cifar_from_its_files(script, cifar, tmp_path, capsys, monkeypatch):
    output, picture = tmp_path / "results.json", tmp_path / "picture.png"
    arguments = ["--data", "cifar10", "--data-home", str(cifar), "--lrs", "auto"]
    arguments += ["--search-rows", "20", "--seeds", "0", "--sizes", "1", "3"]
    arguments += ["--augment", "flip_crop", "--output", str(output)]
    script.main(arguments)
    first = json.loads(output.read_text())
    fits = {
        (cell["network"], cell["method"].split(",")[0]): cell
        for cell in first["cells"].values()
        if "losses" in cell
    }
    pairs = {(n, m) for n in TINY for m in script.NETWORK_METHODS[n]}
    assert fits.keys() == pairs and not first["left_out"]
    for (network, method), fit in fits.items():
        assert fit["rows"] == 40 and len(fit["losses"]) == 1
        assert ("3" in fit) == (method != "relu"), network

    monkeypatch.setattr(script, "measure", None)  # nothing is left to be measured
    monkeypatch.setattr(script, "tune", None)
    script.main(arguments)
    assert json.loads(output.read_text())["cells"] == first["cells"]
    script.main(["--show", str(output), "--picture", str(picture)])
    assert capsys.readouterr().out.count("| st, flip_crop |") == 4
    assert picture.stat().st_size > 0


def test_without_the_files_it_says_what_is_missing(script, tmp_path):
    arguments = ["--data", "cifar10", "--data-home", str(tmp_path)]
    with pytest.raises(SystemExit, match="data_batch_1.bin"):
        script.main(arguments)


@pytest.mark.parametrize("gradient", ["st", "relu"])
def test_predictions_are_those_of_the_classifier(script, gradient):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 32 * 32)), np.arange(60) % 10
    model = script.SBNClassifier(
        architecture=AllConv((2, 3)),
        input_shape=(1, 32, 32),
        max_epochs=2,
        predict_mode="det",
        random_state=0,
    ).set_params(**script.METHODS[gradient])
    model.fit(X, y)
    found = script.probabilities(model, X)
    if gradient == "st":
        np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-5)
        noisy = [script.probabilities(model, X, seed) for seed in range(100)]
        model.set_params(predict_mode="ensemble", n_predict_samples=100)
        means = model.predict_proba(X)
        # Means of 100 members in either, shared by all rows in one of the two.
        assert abs(np.mean(noisy, axis=0) - means).max() < 0.25
        scores = script.scores(model, X, y, [3])["3"]
        three = np.mean([script.probabilities(model, X, s) for s in (1, 2, 3)], axis=0)
        truth = three[np.arange(60), y]
        assert scores["log_loss"] == pytest.approx(-np.log(truth).mean(), rel=1e-5)
        assert scores["accuracy"] == np.mean(three.argmax(axis=1) == y)
        return
    network = model.net_.module_.network.eval()
    x = script.torch.tensor((X - model.mean_) / model.scale_).float()
    for layer in network.layers:
        images = x.reshape(-1, *layer.geometry["input_shape"])
        h = script.torch.nn.functional.conv2d(
            images, layer.weight, stride=layer.geometry["stride"]
        )
        norm = layer.norm
        h = script.torch.nn.functional.batch_norm(
            h, norm.running_mean, norm.running_var, norm.weight, norm.bias
        )
        x = h.relu().flatten(1)
    h = x @ network.head.weight.T + network.head.bias
    np.testing.assert_allclose(found, h.softmax(1).detach().numpy(), atol=1e-5)
