"""Every public function answers the same, however its arrays lie in memory.

A table of them all, with arguments that are right; and masked arrays are refused.
"""

import importlib
import inspect
import io
import pkgutil
import re
import warnings
from itertools import chain, product

import numpy as np
import pytest
import torch
from checks import public_encoders, targets, training_data
from layouts import LAYOUTS
from scipy import sparse
from sklearn import config_context

import skhash
from skhash import codes, export, metrics, neighbors, neural
from skhash.auditing import timing
from skhash.distributed import ShardedNeighbors
from skhash.gradients import gradient_report
from skhash.linear import PCAHash
from skhash.quantization import LinearDecoder

X = np.abs(training_data())[:40].astype(np.float32)
Y, ROWS = np.arange(len(X)) % 3, np.arange(len(X))
MORE = ROWS + len(ROWS)
BITS = PCAHash(8).fit_transform(X)
PACKED = codes.pack_bits(BITS)
DECODER = LinearDecoder().fit(X, BITS)
METRICS = ("euclidean", "inner_product", "cosine")
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
    yield codes.to_hex, {"packed": PACKED}
    yield codes.from_hex, {"strings": codes.to_hex(PACKED)}
    for function in (codes.hamming_distances, codes.spherical_hamming_distances):
        yield function, {"packed_a": PACKED, "packed_b": PACKED}


def of_hamming_neighbors(cls=neighbors.HammingNeighbors):
    index = cls(3)
    yield index.fit, {"X": BITS, "y": Y, "ids": ROWS}
    yield index.partial_fit, {"X": BITS, "y": Y, "ids": MORE}
    yield index.kneighbors, {"X": BITS, "mask": np.arange(80) < 5}
    yield index.kneighbors, {"X": BITS, "ids": ROWS}
    for method in (index.kneighbors, index.radius_neighbors):
        yield method, {"X": BITS, "exclude": ROWS[:9]}
    yield index.replace, {"X": BITS[:9], "y": Y[:9], "ids": ROWS[:9]}
    for method in (index.radius_neighbors, index.radius_neighbors_graph):
        yield method, {"X": BITS}
    yield index.score, {"X": BITS, "y": Y}
    yield index.remove, {"ids": ROWS[:2]}
    index = cls(3, packed=True)
    for method in (index.fit, index.partial_fit, index.kneighbors):
        yield method, {"X": PACKED}
    index = ShardedNeighbors(3).fit([PACKED])
    for method in (index.kneighbors, index.radius_neighbors):
        yield method, {"X": PACKED}


def of_jaccard_neighbors():
    return of_hamming_neighbors(neighbors.JaccardNeighbors)


def of_neighbors_of_vectors():
    index, coded = neighbors.AsymmetricNeighbors(3), {"X": BITS, "y": Y}
    coded["errors"] = X[:, 0] ** 2
    yield index.fit, coded | {"ids": ROWS, "decoder": DECODER}
    yield index.partial_fit, coded | {"ids": MORE}
    for name in ("kneighbors", "kneighbors_graph", "radius_neighbors_graph"):
        yield getattr(index, name), {"X": X}
    yield index.transform, {"X": X}
    for encoder, rerank in product((1, PCAHash(8)), (None, 9)):
        kept = {"rerank": rerank, "vectors": rerank and True, "metric": "cosine"}
        index = neighbors.HashedNeighbors(encoder, n_neighbors=3, **kept)
        for method in (index.fit, index.kneighbors):
            yield method, {"X": X}
    index = neighbors.HashedNeighbors(PCAHash(8), n_neighbors=3)
    yield index.fit, {"X": X, "y": Y, "ids": ROWS}
    yield index.partial_fit, {"X": X, "y": Y, "ids": MORE}
    yield index.replace, {"X": X[:9], "y": Y[:9], "ids": ROWS[:9]}
    for method in (index.kneighbors, index.radius_neighbors):
        yield method, {"X": X}
    yield index.score, {"X": X, "y": Y}
    yield index.remove, {"ids": ROWS[:2]}
    for function in (neighbors.duplicate_groups, neighbors.radius_pairs):
        yield function, {"codes": BITS, "radius": 1}
    ranked = {"codes": BITS, "radius": 1, "priority": ROWS}
    yield neighbors.duplicate_groups, ranked


def of_metrics():
    for function in (getattr(metrics, name) for name in metrics.__all__):
        if inspect.isfunction(function) and LABELLED.keys() <= parameters(function):
            cuts = {"k": np.array([2, 3])} if "k" in arrays_of(function) else {}
            yield function, LABELLED | cuts
    packed = {"query_codes": PACKED, "database_codes": PACKED, "packed": True}
    yield metrics.mean_average_precision_score, LABELLED | packed
    display, rows = metrics.DistanceHistogramDisplay, {"X_query": X, "X_database": X}
    encoder = PCAHash(8).fit(X)
    yield display.from_predictions, LABELLED
    labels = {"y_query": Y, "y_database": Y}
    yield display.from_estimator, rows | labels | {"encoder": encoder}
    one = {"codes": BITS, "labels": Y, "database_codes": BITS, "database_labels": Y}
    yield metrics.class_distances, one
    coded = {"query_codes": BITS, "database_codes": BITS, "n_retrieved": np.array([3])}
    truth = {"true_neighbors_indices": ROWS[:, None]}
    yield metrics.neighbor_recall_score, coded | truth
    yield metrics.search_recall_score, truth | {"indices": ROWS[:, None] // 2}
    yield metrics.quantization_error, {"outputs": X}
    yield metrics.true_neighbors, rows | {"n_neighbors": 3}
    yield metrics.retrieval_scorer, {"estimator": encoder, "X": X, "y": Y}
    yield (
        metrics.make_neighbor_recall_scorer(n_neighbors=3, n_retrieved=9),
        {"estimator": encoder, "X": X},
    )


def of_exports():
    yield export.bit_strings, {"packed": PACKED, "n_bits": 8}
    yield export.reverse_bits, {"packed": PACKED}
    yield export.to_arrow, {"codes": PACKED, "ids": ROWS}
    yield export.to_pgvector, {"codes": PACKED, "ids": ROWS, "file": io.StringIO()}
    index = neighbors.AsymmetricNeighbors(3).fit(BITS, decoder=DECODER)
    yield export.score_tables, {"decoder": index, "X": X}


def of_decoders():
    for block_bits in (1, 4, 8):
        decoder = LinearDecoder(block_bits=block_bits)
        for method in (decoder.fit, decoder.reconstruction_error, decoder.refine):
            yield method, {"X": X, "bits": BITS}
        yield decoder.inverse_transform, {"bits": BITS}
        for metric in METRICS:
            scored = {"X_query": X, "decoder": decoder, "metric": metric}
            yield neighbors.asymmetric_scores, scored | {"codes": BITS}
            packed = {"codes": PACKED, "packed": True}
            yield neighbors.asymmetric_scores, scored | packed
            index = neighbors.AsymmetricNeighbors(3, radius=0.9, metric=metric)
            index.fit(BITS, decoder=decoder)
            for method in (index.kneighbors, index.radius_neighbors):
                yield method, {"X": X}
    arrays = {"codebook": DECODER.codebook_, "offset": DECODER.offset_}
    yield fit_by_arrays, arrays
    quantizer = skhash.AdditiveQuantizer(2, n_alternations=1).fit(X)
    coded = quantizer.transform(X)
    for method in (quantizer.transform, quantizer.score):
        yield method, {"X": X}
    yield quantizer.inverse_transform, {"X": coded}
    yield quantizer.reconstruction_error, {"X": X, "codes": coded}
    yield quantizer.fit, {"X": X}


def of_vectors():
    for metric in METRICS:
        index = neighbors.HashedNeighbors(PCAHash(8), metric=metric, n_neighbors=3)
        index.set_params(rerank=80, vectors=True)
        for method in (index.fit, index.partial_fit, index.kneighbors):
            yield method, {"X": X}
        yield index.radius_neighbors, {"X": X, "radius": 0.9}


def fit_by_arrays(codebook, offset):
    neighbors.AsymmetricNeighbors(3).fit(BITS, decoder=(codebook, offset))


def of_reports():
    audited = {"X": X, "y": Y, "n_bits": [8], "methods": ["pca", "bytes"]}
    yield skhash.audit, audited | {"n_neighbors": 3, "rerank": 5}
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
    latent = {"latent_scale": neural.LatentScale()}
    encoder = skhash.SGHEncoder(8, max_epochs=1, **latent).fit(X)
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


def arrays_in(answer):
    """Yield the arrays of an answer, whatever it comes in."""
    if isinstance(answer, np.ndarray) and answer.dtype == object:
        for one in answer:
            yield from arrays_in(one)
    elif isinstance(answer, np.ndarray | np.number | float):
        yield np.asarray(answer)
    elif sparse.issparse(answer):
        yield answer.toarray()
    elif isinstance(answer, tuple | list):
        for one in answer:
            yield from arrays_in(one)


def assert_same(answers, others):
    for one, other in zip(arrays_in(answers), arrays_in(others), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def answers_to(room, form):
    """Yield what each function of a room answers, given other forms of arrays."""
    with warnings.catch_warnings(action="ignore"):
        for function, given in room():
            yield function(**{name: form(value) for name, value in given.items()})


def only(condition, make):
    """Return a form that changes the arrays of which something holds."""

    def form(value):
        is_one = isinstance(value, np.ndarray) and condition(value)
        return make(value) if is_one else value

    return form


# Fits of encoders draw: `checks.check_any_layout` has them, with a seed.
every_room = pytest.mark.parametrize(
    "room",
    [room for room in ROOMS if room is not of_encoders],
    ids=lambda room: room.__name__,
)


@pytest.fixture(autouse=True)
def timed_once(monkeypatch):
    """Answers do not depend on how often the audit measures times."""
    monkeypatch.setattr(timing, "TIMED_SECONDS", 0.0)


def assert_same_answers(room, form, expected):
    for found, one in zip(answers_to(room, form), expected, strict=True):
        assert_same(found, one)


def assert_same_unless_drawn(room, found, expected):
    if room is not of_encoders:  # whose fits draw
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)


@every_room
@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.long)]
)
def test_layouts(room, dtype):
    def cast(value):
        return value.astype(dtype) if value.dtype == np.float32 else value

    expected = [*answers_to(room, only(lambda value: value.ndim == 2, cast))]
    # Other numbers than float32 are converted, which most layouts do not survive.
    names = LAYOUTS if dtype == np.float32 else ("Fortran", "gaps", "polars")
    for name, make in ((name, LAYOUTS[name]) for name in names):
        formed = only(lambda value: value.ndim == 2, lambda one, m=make: m(cast(one)))
        try:
            assert_same_answers(room, formed, expected)
        except Exception as error:
            error.add_note(name)
            raise


@every_room
def test_bits_of_other_types(room):
    expected = [*answers_to(room, lambda value: value)]
    for dtype in (bool, ">i4", np.int64, np.float32, np.float64):
        formed = only(lambda value: value is BITS, lambda bits, t=dtype: bits.astype(t))
        assert_same_answers(room, formed, expected)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_tensors_where_scikit_learn_would_keep_them(room, monkeypatch):
    reason = "scikit-learn 1.7 brought it along"
    pytest.importorskip("sklearn.externals.array_api_compat", reason=reason)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    expected = [*answers_to(room, lambda value: value)]
    with config_context(array_api_dispatch=True):
        formed = only(lambda value: value.dtype.kind != "U", torch.tensor)
        found = [*answers_to(room, formed)]
    assert_same_unless_drawn(room, found, expected)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
@pytest.mark.parametrize(
    "kind", [torch.bfloat16, pytest.param(torch.float8_e5m2, marks=pytest.mark.long)]
)
def test_numbers_that_numpy_lacks_are_read_as_float32(room, kind):
    def cast(value):
        return torch.tensor(value).to(kind)

    if room is of_reports and kind is not torch.bfloat16:
        return  # torch gets the tensors of a model as they are, and cannot multiply

    def is_float(value):
        return value.dtype.kind == "f" or value is BITS

    rounded = only(is_float, lambda value: cast(value).float().numpy())
    expected = [*answers_to(room, rounded)]
    found = [*answers_to(room, only(is_float, cast))]
    assert_same_unless_drawn(room, found, expected)


def test_no_kernel_is_compiled_for_rows_that_lie_apart():
    from skhash.neighbors.kernels import products

    offset, features = np.ones(8), np.ones((1, 8, 256), np.float32)
    scales, times = np.ones(1, np.float32), np.float32(-1)
    source = products.Source(offset, False, False, features, scales, times)
    queries, tables = np.ones((4, 8)), np.empty((4, 1, 256), np.float32)
    assert products.write_tables(queries, source, tables)
    np.testing.assert_array_equal(tables, -16)
    for wrong in (np.asfortranarray(queries), queries[:, ::2], queries[::2]):
        with pytest.raises(TypeError):
            products.write_tables(wrong, source, tables)
    with pytest.raises(TypeError):
        products.write_tables(queries, source, tables[::2])
