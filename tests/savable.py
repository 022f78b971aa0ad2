"""Small fitted estimators of each class that can be saved, and what can be asked."""

import inspect
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import numpy as np

import skhash
from skhash import HashedNeighbors, linear, neighbors, quantization
from skhash.neural import LatentScale
from skhash.persistence.state import MODULES, known_class
from skhash.training import BaseNeuralHasher

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(60, 6)) @ RNG.normal(size=(6, 6)))
Y = np.arange(60) % 3
BITS = (X > np.median(X, axis=0)).astype(np.uint8)
IDS = np.array([f"row {i}" for i in range(60)])
CODES = np.tile(BITS, (5, 2))
DECODER = np.random.default_rng(1).normal(size=(6, 6)), np.ones(6)
TRAINED = {"n_bits": 5, "max_epochs": 1}


def rows(version):
    """Return other rows, codes, labels and ids for each version, and its seed."""
    n = 60 - version
    moved = np.roll(X, version, axis=1)[:n]
    bits = (moved > np.median(moved, axis=0)).astype(np.uint8)
    seed = {"random_state": version}
    return SimpleNamespace(X=moved, y=Y[:n], bits=bits, ids=IDS[:n], seed=seed)


QUICK = {"n_alternations": 1}


def decoder(d, block_bits):
    decoder = quantization.LinearDecoder(block_bits=block_bits, **QUICK)
    return decoder.fit(np.tile(d.X, (5, 1)), np.tile(d.bits, (5, 2)))


def quantizer(n_bytes, X, **seed):
    return quantization.AdditiveQuantizer(n_bytes, **QUICK, **seed).fit(X)


def clusters(d):
    index = neighbors.HammingNeighbors(3, algorithm="pruned", n_jobs=1)
    ids = [f"{one} {mark}" for mark in "abcde" for one in d.ids]
    codes = np.tile(d.bits, (5, 2))
    return index.fit(codes, np.tile(d.y, 5), ids=ids).prepare(10**6)


def pairs(d):
    given = {"pairs": d.ids[:6].reshape(3, 2), "pair_labels": [1, 0, 1]}
    return skhash.SGHEncoder(**TRAINED, **d.seed).fit(d.X, **given, ids=d.ids)


def trained(name, *targets, **options):
    def make(d):
        encoder = getattr(skhash, name)(**TRAINED, **d.seed, **options)
        return encoder.fit(d.X, *(target[d.y] for target in targets))

    return make


# Functions of `rows`.
MAKERS = {
    **{
        name: lambda d, name=name: getattr(linear, name)(5, **d.seed).fit(d.X, d.y)
        for name in linear.__all__
    },
    "LinearDecoder": lambda d: decoder(d, 1),
    "LinearDecoder of nibbles": lambda d: decoder(d, 4),
    "LinearDecoder of bytes": lambda d: decoder(d, 8),
    "AdditiveQuantizer": lambda d: quantizer(2, np.tile(d.X, (5, 1)), **d.seed),
    "AdditiveQuantizer of half bytes": lambda d: quantizer(3, d.X, **d.seed),
    "SGHEncoder": trained("SGHEncoder", latent_scale=LatentScale()),
    "SGHEncoder with pairs": pairs,
    "NeighborHash": trained("NeighborHash", hidden_layer_sizes=(4,), n_neighbors=3),
    "StochasticAutoencoderHash": trained(
        "StochasticAutoencoderHash",
        **{"hidden_layer_sizes": (4,), "posterior": "correlated"},
        decoder="gaussian",
    ),
    "SupervisedHash": trained("SupervisedHash", np.arange(3), hidden_layer_sizes=(4,)),
    "DualHashEncoder": trained(
        "DualHashEncoder", np.array([*"abc"]), hidden_layer_sizes=()
    ),
    "SBNClassifier": lambda d: skhash.SBNClassifier(
        (4, 3), max_epochs=1, n_predict_samples=2, **d.seed
    ).fit(d.X, d.y),
    "HammingNeighbors": lambda d: (
        neighbors.HammingNeighbors(3, n_jobs=1)
        .fit(d.bits, d.y, ids=d.ids)
        .remove(d.ids[:2])
    ),
    "HammingNeighbors with clusters": clusters,
    "JaccardNeighbors": lambda d: (
        neighbors.JaccardNeighbors(3, n_jobs=1)
        .fit(d.bits, d.y, ids=d.ids)
        .remove(d.ids[:2])
    ),
    "AsymmetricNeighbors": lambda d: (
        neighbors.AsymmetricNeighbors(3, n_jobs=1)
        .fit(d.bits, d.y, ids=d.ids, decoder=DECODER)
        .remove(d.ids[:2])
    ),
    "HashedNeighbors": lambda d: HashedNeighbors(
        quantization.AdditiveQuantizer(2, **QUICK), n_neighbors=3, n_jobs=1
    ).fit(d.X, d.y, ids=d.ids),
    "HashedNeighbors of bits": lambda d: HashedNeighbors(
        linear.PCAHash(5),
        **{"metric": "cosine", "rerank": 20, "vectors": True, "n_neighbors": 3},
        index=neighbors.AsymmetricNeighbors(n_jobs=1),
    ).fit(d.X, d.y, ids=d.ids),
}


@cache
def fitted(name, version=0):
    """Return the estimator of this name in `MAKERS`; it is not to be changed."""
    return MAKERS[name](rows(version))


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
    if isinstance(estimator, quantization.AdditiveQuantizer):
        codes = estimator.transform(X)
        return [codes, estimator.inverse_transform(codes)]
    if hasattr(estimator, "predict_proba"):
        return [estimator.predict(X), estimator.predict_proba(X)]
    if isinstance(estimator, neighbors.HammingNeighbors | neighbors.JaccardNeighbors):
        near = estimator.radius_neighbors(CODES[:9, :n])
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


# Methods that do not use a fitted estimator.
OTHER = {"fit", "fit_transform", "get_metadata_routing", "get_params", "load"}


def use(estimator, whole, folder, without=()):
    """Call every public method of an estimator, with what fits `whole`."""
    names = {name for name in dir(estimator) if not name.startswith(("_", "set_"))}
    changing = ["prepare", "remove", "compact", "partial_fit", "replace"]  # so the last
    for name in [*sorted(names - OTHER - {*changing}), *changing]:
        method = getattr(estimator, name, None)
        if inspect.ismethod(method) and name not in without:
            given = arguments(whole, name) | {"path": folder}
            taken = inspect.signature(method).parameters.keys() & given.keys()
            method(**{key: given[key] for key in taken})


def arguments(estimator, method):
    """Return what may be given to a method, by the names of parameters."""
    is_index = hasattr(estimator, "packed_codes_")
    width = getattr(estimator, "_n_features_out", None) or estimator.n_bits_
    codes = CODES[:60, : estimator.n_features_in_ if is_index else width]
    takes_codes = is_index or method == "inverse_transform"
    given = {"X": codes if takes_codes else X, "y": Y, "bits": codes, "codes": codes}
    given |= {"n_bits": 3, "expected_queries": 9}
    takes_queries = method not in ("partial_fit", "replace")
    if isinstance(estimator, neighbors.AsymmetricNeighbors) and takes_queries:
        given["X"] = X
    if method in ("remove", "replace"):
        index = getattr(estimator, "index_", estimator)
        given["ids"] = index.ids_[index.live_][:2]
    if method == "replace":  # others than were removed
        given["ids"] = index.ids_[index.live_][2:4]
        given |= {"X": given["X"][:2], "y": Y[:2]}
    if method == "partial_fit":
        given["ids"] = np.char.add(IDS, " more")
    return given
