"""Small fits of everything that can be saved, and all that can be asked of them."""

import inspect
from functools import cache, partial
from importlib import import_module

import numpy as np

from skhash import HammingNeighbors, HashedNeighbors
from skhash.linear import LinearDecoder, RandomHyperplaneHash
from skhash.neighbors import AsymmetricNeighbors
from skhash.persistence.state import MODULES

N_FEATURES, N_BITS = 12, 8
RNG = np.random.default_rng(0)
CODEBOOK = RNG.normal(size=(N_BITS, N_FEATURES)), RNG.normal(size=N_FEATURES)
X, BITS = RNG.random((7, N_FEATURES)), RNG.integers(0, 2, (7, N_BITS), np.uint8)
SMALL = {
    "n_bits": N_BITS,
    "max_epochs": 1,
    "max_iter": 2,
    "hidden_layer_sizes": (4,),
    "n_anchors": 10,
    "n_predict_samples": 2,
    "n_jobs": 1,
    "validation_fraction": None,
}


def classes():
    """Return all classes that can be saved, by name."""
    modules = map(import_module, MODULES)
    found = {name: getattr(one, name) for one in modules for name in one.__all__}
    return {
        name: value
        for name, value in found.items()
        if hasattr(value, "save") and not inspect.isabstract(value)
    }


def rows(version):
    """Return rows and codes, of another number for each version, and their labels."""
    rng = np.random.default_rng(version)
    n = 80 + version
    bits = rng.integers(0, 2, (n, N_BITS), np.uint8)
    return rng.random((n, N_FEATURES)), bits, np.arange(n) % 3


def fit(cls, version):
    given = cls().get_params(deep=False).keys()
    small = {name: value for name, value in SMALL.items() if name in given}
    estimator = cls(
        **small | {"random_state": version} if "random_state" in given else small
    )
    vectors, bits, y = rows(version)
    return estimator.fit(vectors, bits if cls is LinearDecoder else y)


def fit_index(cls, version, **what):
    """Fit an index with ids, and remove some."""
    vectors, bits, y = rows(version)
    ids = np.array([f"{version}:{i}" for i in range(len(y))])
    what = {"vectors": vectors} if what == {"vectors": True} else what
    index = cls(1, n_jobs=1).fit(bits, y, ids=ids, **what)
    return index.remove(ids[:: 7 + version])


def fit_clusters(version):
    index = HammingNeighbors(1, algorithm="pruned", n_jobs=1)
    return index.fit(*rows(version)[1:]).prepare(10**9)


def fit_search(index, version, **options):
    encoder = RandomHyperplaneHash(N_BITS, random_state=version)
    return HashedNeighbors(encoder, index, **options).fit(rows(version)[0])


MADE = {
    "codes": partial(fit_index, HammingNeighbors),
    "clusters": fit_clusters,
    "decoder": partial(fit_index, AsymmetricNeighbors, decoder=CODEBOOK),
    "vectors": partial(fit_index, AsymmetricNeighbors, vectors=True),
    "search": partial(fit_search, AsymmetricNeighbors(1), decoder=LinearDecoder()),
    "nibbles": lambda version: LinearDecoder(block_bits=4).fit(*rows(version)[:2]),
} | {
    name: partial(fit, cls)
    for name, cls in classes().items()
    if not hasattr(cls, "kneighbors")
}


@cache
def made(kind, version):
    return MADE[kind](version)


def answers(estimator):
    """Return what an estimator answers to all that can be asked of it."""
    if isinstance(estimator, HammingNeighbors):
        calls = {"kneighbors": (BITS, 1), "radius_neighbors": (BITS, 2)}
    elif isinstance(estimator, AsymmetricNeighbors):
        asked = partial(estimator.kneighbors, codes=BITS)
        return [*map(np.ravel, asked(X, 1)), *map(np.ravel, asked(X[:1], 2))]
    elif isinstance(estimator, HashedNeighbors):
        calls = {"kneighbors": (X, 1)}
    else:
        names = ("transform", "transform_packed", "decision_function", "predict_proba")
        calls = dict.fromkeys(names, (X,)) | {"refine": (X, BITS)}
    found = [
        getattr(estimator, name)(*given)
        for name, given in calls.items()
        if hasattr(estimator, name)
    ]
    found = [one for some in found for one in (some if type(some) is tuple else [some])]
    return [np.concatenate([*map(np.ravel, one)]) for one in found]


def seen(estimator):
    """Return all that can be seen of an estimator, to be compared."""
    index = getattr(estimator, "index_", estimator)
    names = "packed_codes_", "live_", "ids_", "y_"
    columns = [getattr(index, name) for name in names if hasattr(index, name)]
    return repr(estimator), *(one.tobytes() for one in columns + answers(estimator))


def change(estimator):
    """Let an estimator change in all ways that it can, and ask it again."""
    vectors, bits, y = rows(0)
    index = getattr(estimator, "index_", estimator)
    if hasattr(index, "remove"):
        has_ids = hasattr(index, "ids_")
        index.remove((index.ids_ if has_ids else np.arange(index.n_samples_fit_))[-2:])
        vectors, bits, y = (
            vectors[:1],
            bits[:1],
            y[:1] if hasattr(index, "y_") else None,
        )
        more = {"ids": ["new"]} if has_ids else {}
        if index is estimator and hasattr(index, "vectors_"):
            more["vectors"] = vectors
        given = bits if index is estimator else vectors
        estimator.partial_fit(given, y, **more)
        index.compact()
    elif hasattr(estimator, "partial_fit") and not hasattr(estimator, "history_"):
        estimator.partial_fit(vectors, y)  # torch trains in no process that was forked
    answers(estimator)
