"""scikit-learn's checks and our own contract, over every public estimator."""

import inspect
import subprocess
import sys
from functools import partial

import checks
import numpy as np
import pytest
from cases import each
from checks import (
    CONTRACT,
    assert_device_fits_as_the_cpu,
    fitted,
    fitted_once,
    public_encoders,
    public_estimators,
    training_data,
)
from page_examples import page_classes, page_functions
from pretend import NAME, without_float64
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import check_estimator
from skorch import NeuralNet

import skhash
from skhash.base import BaseHasher
from skhash.gradients import GradientEstimator
from skhash.gradients._network import NetworkGradient
from skhash.losses import DSDHLoss, DualHashLoss, DualSolver, MDSHCLoss, SupervisedLoss
from skhash.losses._objective import Objective
from skhash.neural import Correction, LatentScale
from skhash.noise import Noise
from skhash.persistence.state import class_name, known_class
from skhash.training import BaseNeuralHasher, TrainedModule

# The pages' own encoders keep the same contracts.
EXAMPLES = {cls.__name__: cls for cls in page_classes(BaseHasher)}

# The smallest settings that still do all that the class does; others have defaults.
SMALL = {
    "AdditiveQuantizer": [{"n_bytes": 2, "n_alternations": 1, "beam_width": 2}],
    "AsymmetricNeighbors": [{"n_neighbors": 2}],
    "BinaryAutoencoderHash": [{"n_bits": 2, "max_iter": 2}],
    "DualHashEncoder": [
        {"n_bits": 2, "max_epochs": 2, "loss": DualHashLoss(warmup_epochs=1)}
    ],
    "HammingNeighbors": [{"n_neighbors": 2}],
    "HashedNeighbors": [
        {"encoder": encoder, "n_neighbors": 2, **params}
        for encoder, params in (
            (skhash.linear.RandomHyperplaneHash(8, random_state=0), {}),
            (2, {"metric": "cosine"}),
            (1, {"rerank": 100, "vectors": True}),
        )
    ],
    "ITQHash": [{"n_bits": 2}],
    "JaccardNeighbors": [{"n_neighbors": 2}],
    "KMeansHash": [{"n_bits": 2}],
    "LinearDecoder": [{"n_alternations": 1}],
    "QuantileHash": [{"n_bits": 1}],
    "NeighborHash": [{"n_bits": 2, "max_epochs": 1}],
    "PCAHash": [{"n_bits": 2}],
    "RandomHyperplaneHash": [{"n_bits": 2}],
    "SBNClassifier": [
        {
            "hidden_layer_sizes": (16,),
            "max_epochs": 6,
            "lr": 0.2,
            "n_predict_samples": 4,
        }
    ],
    "SGHEncoder": [{"n_bits": 2, "max_epochs": 1}],
    "ScalableGraphHash": [{"n_bits": 2, "n_anchors": 10}],
    "SpectralHash": [{"n_bits": 2}],
    "SphericalHash": [{"n_bits": 2}],
    "StochasticAutoencoderHash": [
        {"n_bits": 2, "max_epochs": 1, "hidden_layer_sizes": (8,)}
    ],
    "SupervisedDiscreteHash": [{"n_bits": 2}],
    "SupervisedHash": [{"n_bits": 2, "max_epochs": 1, "hidden_layer_sizes": (8,)}],
    "TripletHash": [{"n_bits": 2, "max_epochs": 1}],
}

# Settings for our own contract: more bits than fit a byte where the method has them.
CONTRACT_SETTINGS = {
    "BinaryAutoencoderHash": [
        {"n_bits": 9, "max_iter": 2},
        {"n_bits": 9, "max_iter": 2, "validation_fraction": 0.2, "normalize": True},
    ],
    "DualHashEncoder": [
        {"n_bits": 9, "max_epochs": 2, "loss": DualHashLoss(warmup_epochs=1)},
        {
            "n_bits": 19,
            "max_epochs": 2,
            "hidden_layer_sizes": (7, 5),
            "loss": DualHashLoss(DualSolver(u_step=5.0, whole=True), warmup_epochs=1),
            "optimizer": "storm",
            "dropout": 0.2,
            "batch_size": 50,
            "normalize": True,
            "balanced": False,
            "validation_fraction": 0.2,
        },
    ],
    "ITQHash": [{"n_bits": 9}, {"n_bits": 9, "normalize": True}],
    "KMeansHash": [
        {"n_bits": 9},
        {"n_bits": 9, "subspace_bits": 2, "affinity_weight": 1.0, "normalize": True},
    ],
    "QuantileHash": [{"n_bits": 9}],
    "NeighborHash": [
        {"n_bits": 9, "max_epochs": 1},
        {"n_bits": 19, "max_epochs": 2, "hidden_layer_sizes": (5,), "batch_size": 40},
        {
            "n_bits": 9,
            "max_epochs": 1,
            "gradient": "st",
            "normalize": True,
            "hidden_layer_sizes": (7, 5),
            "nested": False,
            "validation_fraction": 0.2,
        },
    ],
    "PCAHash": [{"n_bits": 9}, {"n_bits": 9, "rotation": "random", "normalize": True}],
    "RandomHyperplaneHash": [
        {"n_bits": 19},
        {"n_bits": 19, "center": False},
        {"n_bits": 19, "normalize": True},
    ],
    "SGHEncoder": [
        {"n_bits": 9, "max_epochs": 1},
        {"n_bits": 19, "max_epochs": 1, "gradient": "exact", "coding": "pm1"},
        {"n_bits": 9, "max_epochs": 2, "init": "random", "validation_fraction": 0.2},
        {"n_bits": 9, "max_epochs": 1, "latent_scale": LatentScale()},
        {
            "n_bits": 9,
            "max_epochs": 1,
            "init": "pca",
            "pairs": "neighbors",
            "normalize": True,
        },
    ],
    "ScalableGraphHash": [
        {"n_bits": 9, "n_anchors": 30},
        {"n_bits": 19, "n_anchors": 30, "normalize": True},
    ],
    "SpectralHash": [{"n_bits": 9}, {"n_bits": 19, "trim": 0, "normalize": True}],
    "SphericalHash": [
        {"n_bits": 9},
        # Balls of many equal rows do not settle, and then moves amplify rounding.
        {"n_bits": 19, "max_iter": 10, "normalize": True},
    ],
    "StochasticAutoencoderHash": [
        {"n_bits": 9, "max_epochs": 2, "decoder": "gaussian"},
        {
            "n_bits": 19,
            "max_epochs": 1,
            "decoder": "gaussian",
            "posterior": "correlated",
            "kl_weight": 0.1,
            "validation_fraction": 0.2,
        },
        {
            "n_bits": 9,
            "max_epochs": 1,
            "decoder": "gaussian",
            "gradient": "arm",
            "correction": Correction(n_epochs=1),
            "hidden_layer_sizes": (),
            "normalize": True,
        },
    ],
    "SupervisedDiscreteHash": [
        {"n_bits": 9, "n_anchors": 30},
        {"n_bits": 19, "n_anchors": 30, "normalize": True},
    ],
    "SupervisedHash": [
        {"n_bits": 9, "max_epochs": 1, "hidden_layer_sizes": (8,)},
        {
            "n_bits": 19,
            "max_epochs": 3,
            "hidden_layer_sizes": (7, 5),
            "loss": MDSHCLoss(pair_epoch=1),
            "dropout": 0.2,
            "batch_size": 50,
            "validation_fraction": 0.2,
        },
        {
            "n_bits": 9,
            "max_epochs": 3,
            "hidden_layer_sizes": (),
            "loss": DSDHLoss(),
            "balanced": False,
            "normalize": True,
        },
    ],
    "TripletHash": [
        {"n_bits": 9, "max_epochs": 2},
        {"n_bits": 19, "max_epochs": 2, "validation_fraction": 0.2, "normalize": True},
    ],
}

# All checks run on the first setting of a class; on the others, those that may depend
# on how it computes.
FIRST_SETTINGS = {name: settings[:1] for name, settings in CONTRACT_SETTINGS.items()}
OTHER_SETTINGS = {
    name: CONTRACT_SETTINGS.get(name, [])[1:] for name in public_encoders()
}
CHECKS_OF_CLASSES = [
    checks.check_any_layout,
    checks.check_any_number_type,
    checks.check_codes_are_bits,
    checks.check_copies_encode_alike,
    checks.check_cuda_is_asked_for_at_fit_only,
    checks.check_logit_of_zero_gives_bit_zero,
    checks.check_names_of_the_bits,
    checks.check_params_after_fit_have_no_say_in_encoding,
    checks.check_pickles_from_an_accelerator,
    checks.check_pipelines_with_metadata_routing,
    checks.check_unfitted_says_so,
]
CHECKS_OF_SETTINGS = [one for one in CONTRACT if one not in CHECKS_OF_CLASSES]

# Checks that fit what they make up, which are floats and classes.
FITS = [
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
]
FITS_TRANSFORMERS = ["check_transformer_data_not_an_array", "check_transformer_general"]
# Checks of what `fit` says of wrong rows, before it looks at anything else.
SPARSE = [
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
]
MESSAGES = ["check_complex_data", "check_estimators_empty_data_messages", *SPARSE]
FLOATS = "it fits arbitrary floats, which are no codes and are refused"

# Every check of scikit-learn that is known to fail, and why. xfail is strict.
EXPECTED_FAILED_CHECKS = {
    "AsymmetricNeighbors": dict.fromkeys(
        [*FITS, *FITS_TRANSFORMERS, *MESSAGES, "check_fit1d"],
        "it fits without a decoder, which codes need",
    ),
    "HammingNeighbors": dict.fromkeys(FITS + FITS_TRANSFORMERS, FLOATS),
    "JaccardNeighbors": dict.fromkeys(FITS + FITS_TRANSFORMERS, FLOATS),
    "LinearDecoder": dict.fromkeys(
        [*FITS, *SPARSE, "check_requires_y_none"],
        "it fits to classes or none, where a decoder learns from codes",
    ),
    "SBNClassifier": dict.fromkeys(
        [
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ],
        "other rows make other batches, with noise of their own",
    ),
    "ShardedNeighbors": dict.fromkeys(
        FITS + MESSAGES, "it fits one array, where blocks of codes are taken"
    ),
}


def instances(classes, settings):
    return [
        cls(**params)
        for name, cls in classes.items()
        for params in settings.get(name, [{}])
    ]


@pytest.mark.parametrize(
    "estimator", instances(public_estimators() | EXAMPLES, SMALL), ids=str
)
def test_scikit_learn_checks(estimator):
    expected = EXPECTED_FAILED_CHECKS.get(type(estimator).__name__, {})
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    failed = [one for one in results if one["status"] == "failed"]
    for one in failed:
        one["exception"].add_note(one["check_name"])
    if failed:
        raise ExceptionGroup("checks of scikit-learn", [r["exception"] for r in failed])
    # Each that is known to fail does; not every version has them all.
    assert all(one["status"] == "xfail" for one in results if one["expected_to_fail"])
    assert any(one["status"] == "passed" for one in results)


each_encoder = partial(pytest.mark.parametrize, "encoder", ids=str)


def run_checks(encoder, checks):
    """Run all checks, and raise what those raise that fail."""
    errors = []
    for check in checks:
        try:
            check(encoder)
        except Exception as error:
            error.add_note(check.__name__)
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"our contract, by {encoder}", errors)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@each_encoder(instances(public_encoders() | EXAMPLES, FIRST_SETTINGS))
def test_our_contract(encoder):
    run_checks(encoder, CONTRACT)


@each_encoder(instances(public_encoders(), OTHER_SETTINGS))
def test_what_other_settings_may_break(encoder):
    run_checks(encoder, CHECKS_OF_SETTINGS)


@each_encoder(instances(public_encoders() | EXAMPLES, FIRST_SETTINGS))
def test_devices(encoder, device):
    assert_device_fits_as_the_cpu(encoder, device)


@pytest.mark.long
@each_encoder(instances(public_encoders(), OTHER_SETTINGS))
def test_devices_of_other_settings(encoder, device):
    assert_device_fits_as_the_cpu(encoder, device)


@pytest.mark.parametrize("device", [NAME], indirect=True)
@each_encoder(instances(public_encoders(), SMALL))
def test_devices_without_float64(encoder, device):
    X = np.abs(training_data())
    with without_float64():
        on_device = fitted(clone(encoder).set_params(device=device), X)
        logits = on_device.decision_function(X)
    on_cpu = on_device.set_params(device="cpu").decision_function(X)
    np.testing.assert_allclose(logits, on_cpu, atol=1e-4 * np.abs(on_cpu).max())


def test_exceptions_are_of_public_estimators():
    assert EXPECTED_FAILED_CHECKS.keys() <= public_estimators().keys()
    assert SMALL.keys() <= public_estimators().keys() | EXAMPLES.keys()
    assert CONTRACT_SETTINGS.keys() <= public_encoders().keys() | EXAMPLES.keys()


def subclasses(cls):
    for one in cls.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_estimator_is_public_and_checked():
    checked = public_estimators()  # imports all that is public
    for cls in set(subclasses(BaseEstimator)):
        is_ours = cls.__module__.startswith("skhash.") and hasattr(cls, "fit")
        if is_ours and not issubclass(cls, NeuralNet) and not inspect.isabstract(cls):
            assert checked.get(cls.__name__) is cls


def test_every_class_on_a_page_is_of_a_kind_with_a_contract():
    kinds = (BaseHasher, GradientEstimator, Noise, SupervisedLoss)
    # These are made by an encoder or a loss.
    parts = (TrainedModule, Objective)
    for cls in page_classes():
        # The page itself compares an index with one of the library.
        is_index = hasattr(cls, "kneighbors")
        assert is_index or issubclass(cls, (*kinds, *parts, NetworkGradient)), cls
    for kind in (*kinds, BaseNeuralHasher):
        assert page_classes(kind), f"no page shows how to write a {kind.__name__}"
    for name in ({"end": "_score"}, {"start": "read_"}):
        assert page_functions(**name), f"no page shows how to write one of {name}"


def test_every_estimator_can_be_loaded():
    # They hold indexes, which can.
    others = {"ShardedNeighbors"}
    for name, cls in public_estimators().items():
        assert hasattr(cls, "save") != (name in others)
        assert name in others or known_class(class_name(cls)) is cls


@each("name", ["PCAHash", "ITQHash", "KMeansHash"])
def test_more_bits_than_axes_are_refused_with_both_numbers(name):
    X = training_data()
    encoder = public_encoders()[name](n_bits=X.shape[1] + 1)
    message = rf"n_bits={X.shape[1] + 1} .*n_features={X.shape[1]}"
    with pytest.raises(ValueError, match=message):
        encoder.fit(X)
    with pytest.raises(ValueError, match="n_bits=8 with n_samples=7"):
        encoder.set_params(n_bits=8).fit(X[:7])
    encoder.set_params(n_bits=X.shape[1]).fit(X)


@each(
    "name",
    [
        "RandomHyperplaneHash",
        "SGHEncoder",
        "ScalableGraphHash",
        "SpectralHash",
        "SphericalHash",
    ],
)
def test_more_bits_than_features(name):
    X = training_data()
    n_bits = 3 * X.shape[1] + 1
    bits = public_encoders()[name](n_bits=n_bits, random_state=0).fit_transform(X)
    assert bits.shape == (len(X), n_bits)
    assert len(np.unique(bits, axis=1).T) > X.shape[1]


def run_python(code, *arguments):
    """Run code in a fresh process, where nothing is imported yet."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )


def test_loaded_encoders_encode_without_torch(tmp_path):
    X = training_data()
    np.save(tmp_path / "X.npy", X)
    for i, encoder in enumerate(instances(public_encoders(), CONTRACT_SETTINGS)):
        if "loss" in encoder.get_params() and not isinstance(encoder.loss, str):
            continue  # the loss that is loaded is a part of training, which is torch's
        encoder = fitted_once(encoder)
        encoder.save(tmp_path / f"encoder{i}")
        np.save(tmp_path / f"encoder{i}" / "bits.npy", encoder.transform(X))
    run_python(
        """
import sys
from functools import partial
from pathlib import Path
import numpy as np
import skhash
folder = Path(sys.argv[1])
X = np.load(folder / "X.npy")
for saved in folder.glob("encoder*"):
    encoder = skhash.load(saved)
    assert (encoder.transform(X) == np.load(saved / "bits.npy")).all(), encoder
    encoder.transform_packed(X), encoder.decision_function(X)
    assert "torch" not in sys.modules, f"{encoder} imported torch"
    assert "skorch" not in sys.modules, f"{encoder} imported skorch"
""",
        tmp_path,
    )


def test_everything_public_is_there():
    for name in skhash.__all__:
        assert hasattr(skhash, name), name
    assert sorted(skhash.__all__) == list(skhash.__all__)
