"""A small fitted estimator of each class that can be saved."""

from functools import cache
from importlib import import_module

import numpy as np

import skhash
from skhash import HashedNeighbors, linear, neighbors
from skhash.persistence.state import MODULES, known_class
from skhash.training import BaseNeuralHasher

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(60, 6)) @ RNG.normal(size=(6, 6)))
Y = np.arange(60) % 3
BITS = (X > np.median(X, axis=0)).astype(np.uint8)
IDS = np.array([f"row {i}" for i in range(60)])
CODES = np.tile(BITS, (5, 2))
MARKS = np.repeat(["", *"bcde"], 60)
TRAINED = {"n_bits": 5, "max_epochs": 1, "random_state": 0}


def asymmetric(**what):
    index = neighbors.AsymmetricNeighbors(3, n_jobs=1)
    return index.fit(BITS, Y, ids=IDS, **what).remove(IDS[:2])


def decoder(block_bits):
    decoder = linear.LinearDecoder(
        block_bits=block_bits, n_alternations=1, n_restarts=1
    )
    return decoder.fit(np.tile(X, (5, 1)), CODES)


MAKERS = {
    **{
        name: lambda name=name: getattr(linear, name)(5, random_state=0).fit(X, Y)
        for name in linear.__all__
        if name != "LinearDecoder"
    },
    "LinearDecoder": lambda: decoder(1),
    "LinearDecoder of nibbles": lambda: decoder(4),
    "LinearDecoder of bytes": lambda: decoder(8),
    "SGHEncoder": lambda: skhash.SGHEncoder(**TRAINED, scale="latent").fit(X),
    "SGHEncoder with pairs": lambda: skhash.SGHEncoder(**TRAINED).fit(
        X, pairs=IDS[:6].reshape(3, 2), pair_labels=[1, 0, 1], ids=IDS
    ),
    "NeighborHash": lambda: skhash.NeighborHash(
        **TRAINED, hidden_layer_sizes=(4,), n_neighbors=3
    ).fit(X),
    "StochasticAutoencoderHash": lambda: skhash.StochasticAutoencoderHash(
        **TRAINED, hidden_layer_sizes=(4,), posterior="correlated", decoder="gaussian"
    ).fit(X),
    "SupervisedHash": lambda: skhash.SupervisedHash(
        **TRAINED, hidden_layer_sizes=(4,)
    ).fit(X, Y),
    "DualHashEncoder": lambda: skhash.DualHashEncoder(
        **TRAINED, hidden_layer_sizes=()
    ).fit(X, np.array([*"abc"])[Y]),
    "SBNClassifier": lambda: skhash.SBNClassifier(
        (4, 3), max_epochs=1, n_predict_samples=2, random_state=0
    ).fit(X, Y),
    "HammingNeighbors": lambda: (
        neighbors.HammingNeighbors(3, n_jobs=1).fit(BITS, Y, ids=IDS).remove(IDS[:2])
    ),
    "HammingNeighbors with clusters": lambda: neighbors.HammingNeighbors(
        3, algorithm="pruned", n_jobs=1
    ).fit(
        CODES,
        np.tile(Y, 5),
        ids=np.char.add(np.tile(IDS, 5), MARKS),
        expected_queries=10,
    ),
    "AsymmetricNeighbors": lambda: asymmetric(
        decoder=(RNG.normal(size=(6, 6)), np.ones(6))
    ),
    "AsymmetricNeighbors of vectors": lambda: asymmetric(vectors=X),
    "HashedNeighbors": lambda: HashedNeighbors(
        linear.PCAHash(5),
        neighbors.AsymmetricNeighbors(3, n_candidates=20, n_jobs=1),
        decoder=linear.LinearDecoder(n_alternations=1, n_restarts=1),
    ).fit(X, Y, ids=IDS),
}


@cache
def fitted(name):
    """Return the estimator of this name in `MAKERS`; it is not to be changed."""
    return MAKERS[name]()


def savable_classes():
    """Return the classes that `skhash.load` makes, by name."""
    names = (
        (module, name) for module in MODULES for name in import_module(module).__all__
    )
    known = {name: known_class(f"{module}.{name}") for module, name in names}
    return {
        name: cls
        for name, cls in known.items()
        if hasattr(cls, "save") and cls is not BaseNeuralHasher
    }


def answers(estimator):
    """Return what a fitted estimator of the table answers, as a list of arrays."""
    n = estimator.n_features_in_
    if hasattr(estimator, "refine"):
        bits = CODES[:60, : estimator.n_bits_]
        return [estimator.inverse_transform(bits), estimator.refine(X, bits)]
    if hasattr(estimator, "predict_proba"):
        return [estimator.predict(X), estimator.predict_proba(X)]
    if isinstance(estimator, neighbors.HammingNeighbors):
        near = estimator.radius_neighbors(CODES[:9, :n], 2)
        asked = estimator.kneighbors(CODES[:9, :n], return_ids=True)
        return [*asked, *map(np.concatenate, near)]
    if hasattr(estimator, "kneighbors"):
        return list(estimator.kneighbors(X[:9], return_ids=True))
    return [estimator.transform_packed(X), estimator.decision_function(X)]


def assert_same_answers(estimator, expected):
    """Compare answers to those of another estimator, or to a list of arrays."""
    others = expected if isinstance(expected, list) else answers(expected)
    for one, other in zip(answers(estimator), others, strict=True):
        np.testing.assert_array_equal(one, other)
