"""Members of a classifier, and what its module feeds the network."""

from types import SimpleNamespace

import numpy as np
import torch
from cases import each

from skhash.classification._ensemble import Ensemble
from skhash.classification._module import ClassifierModule, refresh_statistics
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
from skhash.noise import NOISES, Logistic

N_MEMBERS = 2000


@each("noise", NOISES)
@each("n_layers", [1, 2])
def test_units_of_members_are_on_with_their_probability_and_independent(
    noise, n_layers
):
    generator = torch.Generator().manual_seed(0)
    sure, layer = (BinaryLinear(2, n, noise=noise, generator=generator) for n in (2, 3))
    sure.weight.data.copy_(100 * torch.eye(2))  # passes 1 and -1 on
    layer.weight.data.mul_(0.4)  # so that no unit is sure
    layer.bias.data.mul_(0.4)
    head = RealLinear(3, 2, generator=generator)
    layers = [sure, layer][-n_layers:]
    network = StochasticBinaryNetwork(layers, head).double()
    X = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    with torch.no_grad():
        p = layer.units.noise.cdf(layer.realize()(X))[0]
        ensemble = Ensemble(network, np.zeros(2), 1.0, N_MEMBERS, generator)
        units = [values[0] > 0 for _, values in ensemble.units(X)]
    on = torch.stack(units).double()
    # All equally likely ranges of noise below the logit, and one in part.
    assert ((on.mean(dim=0) - p).abs() < 1 / N_MEMBERS).all()
    correlations = torch.corrcoef(on.T)[[0, 0, 1], [1, 2, 2]]
    assert correlations.abs().max() < 5 / N_MEMBERS**0.5


def test_members_differ_by_the_weights_of_the_first_layer_too():
    layer = BinaryLinear(3, 5, weights="mirror", noise=Logistic(1e-6))
    network = StochasticBinaryNetwork([layer], RealLinear(5, 2))
    generator = torch.Generator().manual_seed(0)
    ensemble = Ensemble(network, np.zeros(3), 1.0, 10, generator)
    units = [values for _, values in ensemble.units(torch.ones(1, 3))]
    assert len(torch.cat(units).unique(dim=0)) > 1


def test_augmentations_see_the_images_as_they_were():
    rng = np.random.default_rng(0)
    images, mean, scale = rng.random((5, 2, 3, 4)), rng.random(24), 0.3
    seen = []

    def darken(images, generator):
        seen.append(images)
        return images / 2

    module = ClassifierModule(
        torch.nn.Identity(), None, augment=darken, shape=(2, 3, 4)
    )
    module.mean, module.scale = mean, scale

    def standardized(images):
        return torch.from_numpy((images.reshape(5, -1) - mean) / scale)

    X = standardized(images)
    torch.testing.assert_close(module(X), standardized(images / 2))
    torch.testing.assert_close(seen[0], torch.from_numpy(images))
    assert module.eval()(X) is X and len(seen) == 1


def test_refreshed_statistics_are_means_over_batches():
    """Each row counts alike, in the last batch not more than in the first."""
    generator = torch.Generator().manual_seed(0)
    layer = BinaryLinear(4, 3, batch_norm=True, generator=generator)
    network = StochasticBinaryNetwork([layer], RealLinear(3, 2, generator=generator))
    X = torch.randn(30, 4, generator=generator)
    outputs = (X @ layer.weight.T.detach()).split(14)  # 14, 14 and 2 rows
    batches = [(SimpleNamespace(X=rows), None) for rows in X.split(14)]
    refresh_statistics(network, batches)
    for found, of_batches in (
        (layer.norm.running_mean, [rows.mean(dim=0) for rows in outputs]),
        (layer.norm.running_var, [rows.var(dim=0) for rows in outputs]),
    ):
        sums = [len(x) * value for x, value in zip(outputs, of_batches, strict=True)]
        torch.testing.assert_close(found, sum(sums) / len(X))
    assert layer.norm.momentum == 0.1 and not network.training
