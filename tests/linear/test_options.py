"""Every parameter of every linear encoder changes its logits."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import skhash
from skhash import linear

SEED = {"random_state": 1}
# Other values of the parameters, and of the seed where something is drawn.
OPTIONS = {
    linear.BinaryAutoencoderHash(8, max_iter=4): {
        **{"penalty": 0.5, "penalty_growth": 8.0, "hinge_weight": 1e-3},
        **{"max_iter": 1, "validation_fraction": 0.3},
    },
    skhash.ITQHash(8): {"max_iter": 1} | SEED,
    linear.KMeansHash(8): {"subspace_bits": 2, "affinity_weight": 0, "max_iter": 1},
    skhash.PCAHash(8, rotation="random"): {"rotation": None} | SEED,
    linear.RandomHyperplaneHash(8): {"center": False} | SEED,
    linear.ScalableGraphHash(8, n_anchors=60): {
        **{"n_anchors": 50, "similarity_width": 0.5, "gamma": 1e-2} | SEED
    },
    linear.SpectralHash(8): {"trim": 0.1},
    linear.SphericalHash(8): {"max_iter": 1} | SEED,
    linear.SupervisedDiscreteHash(32, n_anchors=50, projection_weight=1e-3): {
        **{"n_anchors": 60, "gamma": 1e-3, "max_iter": 1} | SEED,
        **{"class_ridge": 1e3, "projection_weight": 0.1, "projection_ridge": 1.0},
    },
}


@pytest.mark.parametrize("encoder", OPTIONS, ids=str)
def test_every_parameter_changes_the_logits(encoder):
    X, y = (part[:300] for part in load_digits(return_X_y=True))

    def logits(**params):
        fitted = clone(encoder).set_params(**{"random_state": 0} | params)
        return fitted.fit(X, y).decision_function(X)

    plain, options = logits(), OPTIONS[encoder] | {"normalize": True}
    for name, value in options.items():
        assert np.abs(logits(**{name: value}) - plain).max() > 1e-3, name
    others = {"n_bits", "device", "random_state", "tol"}
    assert encoder.get_params().keys() - others == options.keys() - others


def test_no_encoder_is_left_out():
    tested = {type(encoder).__name__ for encoder in OPTIONS}
    assert tested == {name for name in linear.__all__ if name.endswith("Hash")}
