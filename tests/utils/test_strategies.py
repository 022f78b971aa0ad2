"""Strategies by name, as objects, and with wrong parameters."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from skhash import SGHEncoder
from skhash.metrics import make_neighbor_recall_scorer
from skhash.neural import LabelPairs, LatentScale, NeighborPairs
from skhash.neural.sgh._scales import CodewordScale, resolve_scale

SMALL = {"n_bits": 6, "max_epochs": 2, "init": "pca", "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200], y[:200]


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ({"scale": "latent"}, {"scale": LatentScale()}),
        ({"pairs": "labels"}, {"pairs": LabelPairs()}),
        ({"pairs": "neighbors"}, {"pairs": NeighborPairs()}),
    ],
)
def test_a_name_is_a_strategy_with_its_defaults(name, strategy, digits):
    named, made = (
        SGHEncoder(**SMALL, **given).fit(*digits) for given in (name, strategy)
    )
    np.testing.assert_array_equal(named.components_, made.components_)


def test_strategies_are_resolved_to_objects_of_their_own():
    scale = LatentScale(std=0.7)
    assert resolve_scale(scale) is not scale
    assert resolve_scale(scale).std == 0.7
    assert type(resolve_scale(None)) is CodewordScale


def test_wrong_strategies_are_named(digits):
    with pytest.raises(ValueError, match="'scale' parameter of SGHEncoder"):
        SGHEncoder(scale="latnet").fit(digits[0])
    with pytest.raises(ValueError, match="scale='latnet' is not one of None, 'latent'"):
        resolve_scale("latnet")
    with pytest.raises(ValueError, match="'std' parameter of LatentScale.*-1"):
        SGHEncoder(scale=LatentScale(std=-1)).fit(digits[0])


def test_their_parameters_are_searched_and_cloned(digits):
    search = GridSearchCV(
        SGHEncoder(**SMALL, pairs=NeighborPairs()),
        {"pairs__weight": [0.1, 30.0], "pairs__n_neighbors": [3]},
        scoring=make_neighbor_recall_scorer(n_neighbors=3),
        cv=2,
    ).fit(digits[0])
    assert search.best_estimator_.pairs.n_neighbors == 3
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    assert (
        clone(search.best_estimator_).pairs.weight
        == search.best_params_["pairs__weight"]
    )


def test_a_stream_refuses_another_parameter_of_a_strategy(digits):
    encoder = SGHEncoder(**SMALL, scale=LatentScale()).partial_fit(digits[0])
    with pytest.raises(ValueError, match="scale was LatentScale.. then.*std=0.5"):
        encoder.set_params(scale__std=0.5).partial_fit(digits[0])
