"""Whatever public takes an array refuses one that is masked, with one message."""

import importlib
import inspect
import io
import pkgutil
import re
from itertools import chain

import numpy as np
import pytest
from checks import public_encoders, targets, training_data

import skhash
from skhash import codes, export, metrics, neighbors
from skhash.distributed import ShardedNeighbors
from skhash.gradients import gradient_report
from skhash.linear import LinearDecoder, PCAHash

X = np.abs(training_data())[:40]
Y, ROWS = np.arange(len(X)) % 3, np.arange(len(X))
MORE = ROWS + len(ROWS)
BITS = PCAHash(8).fit_transform(X)
PACKED = codes.pack_bits(BITS)
DECODER = LinearDecoder(n_alternations=0).fit(X, BITS)
LABELLED = {
    "query_codes": BITS,
    "database_codes": BITS,
    "query_labels": Y,
    "database_labels": Y,
}


# Each yields what can be called with arguments that are right.
def of_codes():
    for function in (codes.check_bits, codes.pack_bits, codes.bits_to_signs):
        yield function, {"bits": BITS}
    yield codes.check_packed, {"packed": PACKED}
    yield codes.unpack_bits, {"packed": PACKED, "n_bits": 8}
    yield codes.signs_to_bits, {"signs": 2.0 * BITS - 1}
    for function in (codes.hamming_distances, codes.spherical_hamming_distances):
        yield function, {"packed_a": PACKED, "packed_b": PACKED}


def of_hamming_neighbors():
    index = neighbors.HammingNeighbors(3, radius=2)
    yield index.fit, {"X": BITS, "y": Y, "ids": ROWS}
    yield index.partial_fit, {"X": BITS, "y": Y, "ids": MORE}
    yield index.kneighbors, {"X": BITS, "mask": np.arange(80) < 5}
    yield index.kneighbors, {"X": BITS, "ids": ROWS}
    for method in (index.radius_neighbors, index.radius_neighbors_graph):
        yield method, {"X": BITS}
    yield index.score, {"X": BITS, "y": Y}
    yield index.remove, {"ids": ROWS[:2]}
    index = neighbors.PrefixNeighbors(prefix_bits=4)
    for method in (index.fit, index.kneighbors):
        yield method, {"X": BITS}
    index = ShardedNeighbors(3).fit([PACKED])
    for method in (index.kneighbors, index.radius_neighbors):
        yield method, {"X": PACKED}


def of_neighbors_of_vectors():
    index, coded = neighbors.AsymmetricNeighbors(3), {"X": BITS, "y": Y}
    coded["errors"] = X[:, 0] ** 2
    yield index.fit, coded | {"ids": ROWS, "decoder": DECODER}
    yield index.partial_fit, coded | {"ids": MORE}
    for name in ("kneighbors", "kneighbors_graph", "radius_neighbors_graph"):
        yield getattr(index, name), {"X": X}
    yield index.transform, {"X": X}
    index = neighbors.AsymmetricNeighbors(3, n_candidates=9)
    for method in (index.fit, index.partial_fit):
        yield method, {"X": BITS, "vectors": X}
    yield index.kneighbors, {"X": X, "codes": BITS}
    index = neighbors.HashedNeighbors(PCAHash(8), neighbors.HammingNeighbors(3))
    yield index.fit, {"X": X, "y": Y, "ids": ROWS}
    yield index.partial_fit, {"X": X, "y": Y, "ids": MORE}
    yield index.kneighbors, {"X": X}
    yield index.score, {"X": X, "y": Y}
    scored = {"X_query": X, "codes": BITS, "decoder": DECODER}
    yield neighbors.asymmetric_scores, scored
    for function in (neighbors.duplicate_groups, neighbors.radius_pairs):
        yield function, {"codes": BITS, "radius": 1}


def of_metrics():
    for function in (getattr(metrics, name) for name in metrics.__all__):
        if inspect.isfunction(function) and LABELLED.keys() <= parameters(function):
            cuts = {"k": np.array([2, 3])} if "k" in arrays_of(function) else {}
            yield function, LABELLED | cuts
    display, vectors = metrics.DistanceHistogramDisplay, {"X_query": X, "X_database": X}
    encoder = PCAHash(8).fit(X)
    yield display.from_predictions, LABELLED
    labels = {"y_query": Y, "y_database": Y}
    yield display.from_estimator, vectors | labels | {"encoder": encoder}
    one = {"codes": BITS, "labels": Y, "database_codes": BITS, "database_labels": Y}
    yield metrics.class_distances, one
    coded = {"query_codes": BITS, "database_codes": BITS, "n_retrieved": np.array([3])}
    truth = {"true_neighbors_indices": ROWS[:, None]}
    yield metrics.neighbor_recall_score, coded | truth
    yield metrics.quantization_error, {"outputs": X}
    yield metrics.true_neighbors, vectors | {"n_neighbors": 3}
    yield metrics.retrieval_scorer, {"estimator": encoder, "X": X, "y": Y}
    yield (
        metrics.make_neighbor_recall_scorer(3, n_retrieved=9),
        {"estimator": encoder, "X": X},
    )


def of_exports():
    yield export.bit_strings, {"packed": PACKED, "n_bits": 8}
    yield export.reverse_bits, {"packed": PACKED}
    yield export.to_int8, {"packed": PACKED, "convention": "view"}
    yield export.from_int8, {"signed": PACKED.view(np.int8), "convention": "view"}
    yield export.to_arrow, {"codes": PACKED, "ids": ROWS}
    yield export.to_pgvector, {"codes": PACKED, "ids": ROWS, "file": io.StringIO()}
    index = neighbors.AsymmetricNeighbors(3).fit(BITS, decoder=DECODER)
    yield export.score_tables, {"decoder": index, "X": X}


def of_decoders():
    decoder = LinearDecoder(n_alternations=0)
    for method in (decoder.fit, decoder.reconstruction_error, decoder.refine):
        yield method, {"X": X, "bits": BITS}
    yield decoder.inverse_transform, {"bits": BITS}
    arrays = {"codebook": decoder.codebook_, "offset": decoder.offset_}
    yield fit_by_arrays, arrays


def fit_by_arrays(codebook, offset):
    neighbors.AsymmetricNeighbors(3).fit(BITS, decoder=(codebook, offset))


def of_reports():
    audited = {"X": X, "y": Y, "n_bits": [8], "methods": ["pca"]}
    yield skhash.audit, audited | {"k": 3, "rescore": 5}
    classifier = skhash.SBNClassifier((6,), max_epochs=1, random_state=0)
    weighed = {"X": X, "y": Y, "sample_weight": np.ones(len(X))}
    yield classifier.fit, weighed
    yield classifier.partial_fit, weighed | {"classes": np.arange(3)}
    yield classifier.score, weighed
    for name in ("decision_function", "predict", "predict_proba"):
        yield getattr(classifier, name), {"X": X}
    for method in (classifier.transform, classifier.transform_packed):
        yield method, {"X": X}
    report = {"estimators": ["st"], "n_trials": 2, "model": classifier}
    yield gradient_report, report | {"X": X, "y": Y}
    yield gradient_report, report | {"model": lambda x: x.square().sum(-1), "X": X[:4]}


def of_encoders():
    for cls in public_encoders().values():
        encoder = cls().set_params(n_bits=8)
        if "max_epochs" in encoder.get_params():
            encoder.set_params(max_epochs=1)
        y = targets(encoder, X)
        yield encoder.fit, {"X": X} | ({} if y is None else {"y": y})
        for name, method in inspect.getmembers(encoder, inspect.ismethod):
            if "X" in arrays_of(method) and not name.startswith(("_", "fit")):
                yield method, {"X": BITS if name == "inverse_transform" else X}
    pairs = {"pairs": ROWS.reshape(-1, 2), "pair_labels": Y[:20] % 2, "ids": ROWS}
    for how, known in (("labels", {"y": Y}), ("given", pairs)):
        encoder = skhash.SGHEncoder(8, max_epochs=1, pairs=how)
        for method in (encoder.fit, encoder.partial_fit):
            yield method, {"X": X} | known
    encoder = skhash.NeighborHash(8, max_epochs=1)
    for method in (encoder.fit, encoder.partial_fit):
        yield method, {"X": X, "y": Y}
    encoder = skhash.SGHEncoder(8, max_epochs=1, scale="latent").fit(X)
    yield encoder.latent_scales, {"X": X}
    scales = {"scales": encoder.latent_scales(X)}
    yield encoder.inverse_transform, {"X": BITS} | scales


ROOMS = [value for name, value in globals().items() if name.startswith("of_")]


# They are handed arrays that have been checked, or tensors.
INSIDE = {
    "CorrelatedPosterior.divergence",
    "TrainedModule.rows",
    *(
        f"{source}.{method}"
        for source in ("PairSource", "GivenPairs", "LabelPairs", "NeighborPairs")
        for method in ("read", "rows")
    ),
}
# They have the index read by `read_source`.
ENGINES = {"to_faiss", "to_sqlite_vec", "to_usearch"}


def parameters(function):
    return inspect.signature(function).parameters.keys()


def arrays_of(function):
    """Return the parameters that a docstring calls arrays."""
    text = (inspect.getdoc(function) or "").partition("Returns\n---")[0]
    return re.findall(r"^(\w+) : .*(?:array-like|ndarray)", text, flags=re.M)


@pytest.mark.filterwarnings("ignore:.* bits are the same")
def test_masks_are_refused():
    asked = set()
    for call, values in chain.from_iterable(room() for room in ROOMS):
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                masked = np.ma.array(value, mask=np.zeros(value.shape, dtype=bool))
                with pytest.raises(ValueError, match="masked array"):
                    call(**values | {name: masked})
                asked.add((getattr(call, "__qualname__", None), name))
        call(**values)
    for name, function in public_functions():
        for array in arrays_of(function) if name not in INSIDE | ENGINES else ():
            assert (name, array) in asked


def public_functions():
    """Yield the functions and methods of all that is public, with their names."""
    modules = [m.name for m in pkgutil.walk_packages(skhash.__path__, "skhash.")]
    for module in modules:
        if "._" in module:
            continue
        module = importlib.import_module(module)
        for value in (getattr(module, name) for name in getattr(module, "__all__", [])):
            members = [("", value)]
            if inspect.isclass(value):
                members = inspect.getmembers(value)
            for name, function in members:
                home = getattr(function, "__module__", None) or ""
                is_ours = home.startswith("skhash") and not name.startswith("_")
                if inspect.isroutine(function) and is_ours:
                    yield function.__qualname__, function
