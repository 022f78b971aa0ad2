"""Recall against bytes a vector: our codes beside faiss's quantizers.

    python examples/benchmarks/bytes.py --output bytes.json --data-home DATA_HOME
    python examples/benchmarks/bytes.py --show bytes.json --results FILE
    python examples/benchmarks/bytes.py --quick

Recall 10@N is the share of the ten exact nearest neighbours that are among the first N
of a search of all codes by uncompressed queries, without a second look at vectors.
Neighbours are those by Euclidean distance, which for rows of unit length (MiniLM,
GloVe) are those by cosine. On Fashion-MNIST everything is fitted to the first 30,000
images and searched among the others, on SIFT to other pictures; on MiniLM of messages
and digits the rows that are fitted are the database, on passages and GloVe a part of
it. "10@10, not fitted" counts neighbours that were not fitted. Queries have been seen
by nothing.

Options of every method, the metric of a search of unit rows among them, are chosen by
10@10 of rows that are held out of the training part, with the first seed, at
``--choose-bytes`` bytes or the method's own.

Rows of unit length are compared by the angle, the cosine of what codes decode to; "by
angle" does it for codes of faiss, which does not offer it.

Bytes are counted all in: *code bytes* are what has to be kept of a vector, *search
bytes* what a search needs of it, with norms and factors (norms can be computed from the
codes), and the codebook is named beside. Seconds are of the processor, in all threads:
of fits, of encoding, of searches for 100 neighbours for all queries together, and the
median of queries that are asked one by one.
"""

import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import faiss
import joblib
import numpy as np
import tools
import torch
from sklearn.neighbors import NearestNeighbors

from skhash import AdditiveQuantizer, ITQHash, NeighborHash, PCAHash, SGHEncoder
from skhash.metrics import true_neighbors
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.quantization import LinearDecoder

# Methods: each fits rows, takes in a database as codes, and finds the codes nearest to
# uncompressed queries, all of them being scored.

FLOAT = 4  # bytes of a number that is kept as it is
LEVELS = 256  # entries of a codebook that one byte picks from
METRICS = {"euclidean": faiss.METRIC_L2, "inner_product": faiss.METRIC_INNER_PRODUCT}
L2, ANY = ("euclidean",), ("euclidean", "inner_product")
ENCODERS = {"SGH": SGHEncoder, "ITQ": ITQHash, "neighbor": NeighborHash, "PCA": PCAHash}
# These make at most a bit a column.
SHORT_ENCODERS = ("ITQ", "PCA")


class FaissIndex:
    """An index of faiss that is searched exhaustively.

    Parameters
    ----------
    index : faiss.Index
    codebook_bytes : int
    derived_bytes : int, default=0
        Bytes of each code that could be computed from the rest of it.
    transforms : sequence of faiss.VectorTransform, default=()
        Applied to every vector, from first to last.
    """

    def __init__(self, index, codebook_bytes, derived_bytes=0, transforms=()):
        self.memory_bytes = index.code_size
        self.code_bytes = index.code_size - derived_bytes
        self.codebook_bytes = codebook_bytes
        for transform in reversed(transforms):
            index = faiss.IndexPreTransform(transform, index)
            if isinstance(transform, faiss.LinearTransform):
                self.codebook_bytes += FLOAT * transform.d_in * transform.d_out
        self.index = index

    def fit(self, rows):
        self.index.train(rows)

    def add(self, rows):
        self.index.add(rows)

    def search(self, queries, k):
        return self.index.search(queries, k)[1]


class ByAngle(FaissIndex):
    """Codes of faiss, compared by the cosine of what they decode to.

    The length of that would be a byte, as ours is; here it is not rounded.
    """

    def __init__(self, made):
        vars(self).update(vars(made))
        self.memory_bytes = self.code_bytes + 1

    def add(self, rows):
        decoded = self.index.sa_decode(self.index.sa_encode(rows))
        self.index = flat_index(decoded, "angle")


def by_angle(make):
    return lambda *sizes, **options: ByAngle(make(*sizes, **options))


def flat_index(rows, metric):
    """Return an index of rows as they are, or of unit length for the angle."""
    if metric == "angle":
        faiss.normalize_L2(rows)
        metric = "inner_product"
    index = faiss.IndexFlat(rows.shape[1], METRICS[metric])
    index.add(rows)
    return index


class AshIndex(FaissIndex):
    """ASH: two bits for each of some rotated principal axes, and a scale of the row.

    Asymmetric scalar hashing (arXiv 2606.07870, 2026), written from its description.

    Parameters
    ----------
    n_features, n_bytes, seed : int
    metric : {"euclidean", "inner_product", "angle"}
    n_centres : int
        Rows are coded relative to the nearest of these centres.
    unbiased : bool
        Whether the scale makes inner products with the row itself exact, or the squared
        error least.
    """

    SCALE_BYTES, N_STEPS = 2, 20

    def __init__(self, n_features, n_bytes, seed, metric, n_centres, unbiased):
        self.width, self.seed = min(n_features, 4 * n_bytes), seed
        self.metric, self.n_centres, self.unbiased = metric, n_centres, unbiased
        self.code_bytes = -(-self.width // 4) + self.SCALE_BYTES + (n_centres > 1)
        self.memory_bytes = self.code_bytes
        self.codebook_bytes = FLOAT * (self.width + n_centres) * n_features

    def fit(self, rows):
        options = {"seed": self.seed + 1, "min_points_per_centroid": 1}
        clusters = faiss.Kmeans(rows.shape[1], self.n_centres, niter=20, **options)
        clusters.train(rows)
        self.centres = clusters.centroids
        left = rows - self.nearest(rows)
        axes = np.linalg.eigh(left.T @ left)[1][:, -self.width :]
        noise = np.random.default_rng(self.seed).standard_normal(2 * (self.width,))
        turn, on_axes = np.linalg.qr(noise)[0].astype(np.float32), left @ axes
        for _ in range(self.N_STEPS):  # Procrustes, as in ITQ
            left, _, right = np.linalg.svd(on_axes.T @ self.coded(on_axes @ turn))
            turn = left @ right
        self.axes = axes @ turn

    def nearest(self, rows):
        """Return the centre of each row."""
        found = flat_index(self.centres, "euclidean").search(rows, 1)[1]
        return self.centres[found[:, 0]]

    def coded(self, values):
        """Return the values as they are coded: -3, -1, 1 or 3 times a scale."""
        scale = np.sqrt(np.square(values).mean(axis=1, keepdims=True) / 5)
        for _ in range(3):
            levels = np.clip(2 * np.floor(values / (2 * scale + 1e-30)) + 1, -3, 3)
            common = (values * levels).sum(axis=1, keepdims=True)
            scale = common / np.square(levels).sum(axis=1, keepdims=True)
        if self.unbiased:
            scale = np.square(values).sum(axis=1, keepdims=True) / (common + 1e-30)
        return scale * levels

    def add(self, rows):
        centres = self.nearest(rows)
        decoded = centres + self.coded((rows - centres) @ self.axes) @ self.axes.T
        self.index = flat_index(decoded, self.metric)


class ExactSearch:
    """The rows themselves, all of which scikit-learn compares."""

    codebook_bytes = 0

    def __init__(self, n_features, n_bytes, seed, metric):
        self.code_bytes = self.memory_bytes = FLOAT * n_features

    def fit(self, rows):
        pass

    def add(self, rows):
        self.index = NearestNeighbors(algorithm="brute").fit(rows)

    def search(self, queries, k):
        return self.index.kneighbors(queries, k, return_distance=False)


class GraphIndex(ExactSearch):
    """The rows themselves, and a graph (HNSW) of usearch, which compares some."""

    def add(self, rows):
        from usearch.index import Index

        self.index = Index(ndim=rows.shape[1], metric="l2sq")
        self.options = {"threads": faiss.omp_get_max_threads()}
        self.index.add(np.arange(len(rows)), rows, **self.options)
        self.memory_bytes = round(self.index.serialized_length / len(rows))

    def search(self, queries, k):
        found = self.index.search(queries, k, **self.options).keys
        return np.asarray(found, dtype=np.int64).reshape(len(queries), -1)


def product_index(
    n_features, n_bytes, seed, metric="euclidean", rotation=None, fast=False
):
    """PQ, and OPQ by its rotation; `fast` looks half bytes up in registers."""
    n_parts = n_bytes * (2 if fast else 1)
    width = n_parts * -(-n_features // n_parts)  # parts are equally wide
    make = partial(faiss.IndexPQFastScan, width, n_parts, 4)
    if not fast:
        make = partial(faiss.IndexPQ, width, n_parts, 8)
    index = make(METRICS[metric])
    quiet(index.pq.cp, seed)
    transforms = []
    if rotation:
        transforms = [faiss.OPQMatrix(n_features, n_parts, width)]
        transforms[0].niter = rotation
        # The vectors that train it; left to itself, faiss takes fewer.
        transforms[0].max_train_points = 2**20
    elif width > n_features:
        transforms = [faiss.RemapDimensionsTransform(n_features, width, True)]
    return FaissIndex(index, FLOAT * index.pq.ksub * width, transforms=transforms)


def residual_index(
    n_features, n_bytes, seed, metric="euclidean", beam=5, refined=False
):
    """RQ: bytes one after the other, with a beam; refined, all codebooks together."""
    index = additive_index(faiss.IndexResidualQuantizer, n_features, n_bytes, metric)
    quantizer = index.index.rq
    quiet(quantizer.cp, seed)
    quantizer.max_beam_size = beam
    if refined:
        quantizer.train_type |= quantizer.Train_refine_codebook
    else:
        quantizer.use_beam_LUT = 1
    return index


def local_search_index(n_features, n_bytes, seed, metric="euclidean", iterations=5):
    """LSQ: an additive codebook and codes in turns, codes by local search."""
    index = additive_index(faiss.IndexLocalSearchQuantizer, n_features, n_bytes, metric)
    quantizer = index.index.lsq
    quantizer.random_seed = seed
    quantizer.train_iters = iterations
    quantizer.encode_ils_iters = 16
    return index


def additive_index(make, n_features, n_bytes, metric):
    """Euclidean distances need the norm of what a code decodes to, kept in a byte."""
    quantizer = faiss.AdditiveQuantizer
    is_euclidean = metric == "euclidean"
    search = quantizer.ST_norm_qint8 if is_euclidean else quantizer.ST_LUT_nonorm
    index = make(n_features, n_bytes, 8, METRICS[metric], search)
    codebook_bytes = FLOAT * n_bytes * LEVELS * n_features
    return FaissIndex(index, codebook_bytes, derived_bytes=int(is_euclidean))


def rabitq_index(n_features, n_bytes, seed, metric="euclidean", bits=1):
    """RaBitQ: bits of randomly turned columns."""
    # Its queries are rounded to 8 bits, which costs no recall that could be measured.
    index = faiss.IndexRaBitQFastScan(n_features, METRICS[metric], 32, bits)
    rotation = faiss.RandomRotationMatrix(n_features, n_features)
    rotation.init(seed + 1)
    return FaissIndex(index, FLOAT * n_features, transforms=[rotation])


def scalar_index(n_features, n_bytes, seed, bits, metric="euclidean", spread="minmax"):
    """Columns in `bits` each, principal ones where bytes are few.

    n_bytes : int or None
        All columns by default.
    spread : str
        How faiss sets the range of a column.
    """
    width = n_features if n_bytes is None else min(n_features, 8 * n_bytes // bits)
    kind = getattr(faiss.ScalarQuantizer, f"QT_{bits}bit")
    index = faiss.IndexScalarQuantizer(width, kind, METRICS[metric])
    index.sq.rangestat = getattr(faiss.ScalarQuantizer, f"RS_{spread}")
    transforms = [faiss.PCAMatrix(n_features, width)] * (width < n_features)
    return FaissIndex(index, 2 * FLOAT * width, transforms=transforms)


def sign_index(n_features, n_bytes, seed, turned=False, centred=True):
    """The signs of the columns, searched by Hamming distance."""
    index = faiss.IndexLSH(n_features, n_features, turned, centred)
    if turned:
        index.rrot.init(seed + 1)
    codebook_bytes = FLOAT * n_features * (centred + turned * n_features)
    return FaissIndex(index, codebook_bytes)


def quiet(clustering, seed):
    """Set the seed, and let faiss train on few rows without a word."""
    clustering.seed = seed + 1
    clustering.min_points_per_centroid = 1
    clustering.max_points_per_centroid = 2**20


class OurIndex:
    """An encoder of ours and what its codes are searched by, or a quantizer.

    Parameters
    ----------
    n_features, n_bytes, seed : int
    encoder : str or None
        One of `ENCODERS`. None is for `AdditiveQuantizer`.
    metric : str, default="euclidean"
        "hamming" encodes the queries, too.
    **decoder
        Parameters of `LinearDecoder` or the quantizer.
    """

    def __init__(
        self, n_features, n_bytes, seed, encoder, metric="euclidean", **decoder
    ):
        self.encoder = self.decoder = None
        if encoder:
            self.encoder = ENCODERS[encoder](8 * n_bytes, random_state=seed)
        self.metric = metric
        self.code_bytes = self.memory_bytes = n_bytes
        # The encoder reads queries only where they are encoded.
        self.codebook_bytes = FLOAT * (8 * n_bytes + 1) * n_features
        if encoder is None:
            self.decoder = AdditiveQuantizer(n_bytes, **decoder)
        elif metric != "hamming":
            self.decoder = LinearDecoder(**decoder)

    def fit(self, rows):
        bits = None
        if self.encoder is not None:
            bits = self.encoder.fit(rows).transform(rows)
        if self.decoder is not None:
            self.decoder.fit(rows, bits)
            self.codebook_bytes = self.decoder.entries_.nbytes
            self.codebook_bytes += FLOAT * self.decoder.offset_.size

    def add(self, rows):
        if self.decoder is None:
            self.index = HammingNeighbors().fit(self.encoder.transform(rows))
            return
        codes, errors = self.codes(rows), {}
        is_packed = self.encoder is None
        self.by_codes = HammingNeighbors(packed=is_packed).fit(codes)
        if self.metric == "euclidean" and not self.decoder.normalized_:
            errors["errors"] = self.decoder.reconstruction_error(rows, codes)
        self.index = AsymmetricNeighbors(metric=self.metric, packed=is_packed)
        self.index.fit(codes, decoder=self.decoder, **errors)
        self.memory_bytes += self.index._store.bytes_beside

    def codes(self, rows):
        """Return the codes that are searched: bytes of a quantizer, or bits."""
        if self.encoder is None:
            return self.decoder.transform(rows)
        return self.decoder.refine(rows, self.encoder.transform(rows))

    def search(self, queries, k):
        if self.decoder is None:
            queries = self.encoder.transform(queries)
        return self.index.kneighbors(queries, k, return_distance=False)

    def search_by_codes(self, queries, k):
        """Search by Hamming distance, the queries being encoded too."""
        coded = self.codes if self.encoder is None else self.encoder.transform
        return self.by_codes.kneighbors(coded(queries), k, return_distance=False)


@dataclass
class Method:
    """How an index is made, and what is tried on validation rows.

    make : callable (n_features, n_bytes, seed, **options) -> index
    options : list of dict
        The first serves where nothing is chosen.
    metrics : tuple of str
        For rows of unit length, where each is tried; others have the first, and nothing
        by inner products. Empty if the method has its own.
    whole : bool
        Whether the bytes follow from the number of columns.
    """

    make: callable
    options: list = field(default_factory=lambda: [{}])
    metrics: tuple = ANY
    whole: bool = False

    def variants(self, n_features, n_bytes, is_unit):
        """Return the options to try, the metric among them."""
        metrics = self.metrics if is_unit else self.metrics[:1]
        options = self.options
        if n_bytes and 8 * n_bytes > n_features:
            options = [it for it in options if it.get("encoder") not in SHORT_ENCODERS]
        if not metrics:
            return options
        return [{**option, "metric": name} for option in options for name in metrics]


TRAINED = [{"encoder": name} for name in ("SGH", "ITQ", "neighbor")]
# Long fits of the decoder, that take about as long as those of RQ.
LONG = [{"encoder": name, "n_alternations": 20} for name in ("ITQ", "SGH")]
# Without an encoder: codes that start from residuals.
BARE = [{"encoder": None, "n_alternations": 20}, {"encoder": None}]
RESIDUAL = [{"beam": 5}, {"beam": 5, "refined": True}]
CENTRED = [{"n_centres": n, "unbiased": it} for n in (1, 64) for it in (False, True)]
SPREAD = [{}, {"spread": "optim"}]
SIGNS = [{"turned": it, "centred": c} for it in (False, True) for c in (False, True)]
DECODER = "skhash LinearDecoder"
METHODS = {
    "skhash encoder, Hamming distance": Method(
        partial(OurIndex, metric="hamming"), [*TRAINED, {"encoder": "PCA"}], ()
    ),
    f"{DECODER}, 1-bit blocks": Method(
        partial(OurIndex, block_bits=1, n_alternations=6), TRAINED, L2
    ),
    f"{DECODER}, 8-bit blocks": Method(partial(OurIndex, block_bits=8), LONG, L2),
    f"{DECODER}, both searches": Method(
        partial(OurIndex, block_bits=8, n_alternations=1), TRAINED, L2
    ),
    "skhash AdditiveQuantizer": Method(OurIndex, BARE, L2),
    "PQ": Method(product_index),
    "PQ fast scan": Method(partial(product_index, fast=True)),
    "OPQ": Method(product_index, [{"rotation": 50}]),
    "RQ": Method(residual_index, RESIDUAL),
    "RQ, by angle": Method(by_angle(residual_index), RESIDUAL, ("inner_product",)),
    "LSQ": Method(local_search_index, [{"iterations": 10}, {"iterations": 25}]),
    "ASH": Method(AshIndex, CENTRED, (*ANY, "angle")),
    "RaBitQ, 1 bit": Method(partial(rabitq_index, bits=1), whole=True),
    "RaBitQ, 2 bits": Method(partial(rabitq_index, bits=2), whole=True),
    "RaBitQ, 4 bits": Method(partial(rabitq_index, bits=4), whole=True),
    "PCA, int8": Method(partial(scalar_index, bits=8), SPREAD),
    "PCA, int4": Method(partial(scalar_index, bits=4), SPREAD),
    "int8": Method(partial(scalar_index, bits=8), whole=True),
    "int4": Method(partial(scalar_index, bits=4), SPREAD, whole=True),
    "signs": Method(sign_index, SIGNS, (), whole=True),
    "HNSW, usearch": Method(GraphIndex, metrics=L2, whole=True),
    "exact, scikit-learn": Method(ExactSearch, metrics=L2, whole=True),
}

# Measures

CUTS = (10, 100)
N_NEIGHBORS = 10
N_SINGLE = 100  # queries that are asked one by one
N_VALIDATION = 1000  # queries, and at most a fifth of the rows
N_TRANSFER = 30_000
UNIT_ROWS = ("minilm", "passages", "glove", "glove_100k", "tfidf")
# Fitted to its first rows, and searched among the others.
TRANSFER = "fashion_mnist"


@dataclass
class Part:
    """Rows to fit, rows to search, queries, and their true neighbours.

    `is_new` says which of the rows to search were not fitted.
    """

    train: np.ndarray
    database: np.ndarray
    queries: np.ndarray

    def __post_init__(self):
        for name in ("train", "database", "queries"):
            rows = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            setattr(self, name, rows)
        self.truth = true_neighbors(self.queries, self.database, N_NEIGHBORS)
        fitted = set(map(bytes, self.train))
        self.is_new = np.array([bytes(row) not in fitted for row in self.database])


class Collection:
    """The test of one data set, and its validation within the training part."""

    def __init__(self, name, data_home, n_queries):
        data, rng = tools.LOADERS[name](data_home=data_home), np.random.default_rng(0)
        self.is_unit = name in UNIT_ROWS
        # Codes that tie are found in their order, which is to mean nothing.
        database = rng.permutation(data.database)
        train = data.train if len(data.train) < len(database) else database
        if name == TRANSFER:
            train, database = data.train[:N_TRANSFER], data.train[N_TRANSFER:]
        queries = rng.permutation(data.query)[:n_queries]
        self.test = Part(train, database, queries)
        rows = rng.permutation(train)
        n_queries = min(N_VALIDATION, len(rows) // 5)
        queries, rows = rows[:n_queries], rows[n_queries:]
        half = len(rows) // 2 if name == TRANSFER else 0
        self.validation = Part(rows[half:], rows[:half] if half else rows, queries)


def recalls(found, truth, is_new):
    """Return shares of true neighbours that are found, by what is counted.

    found : (n_queries, n_found) positions, the nearest first; -1 is none.
    is_new : (n_rows,) those among which "not fitted" counts
    """
    is_found = {n: np.array(list(map(np.isin, truth, found[:, :n]))) for n in CUTS}
    shares = {f"10@{n}": float(own.mean()) for n, own in is_found.items()}
    shares["1@1"] = float((found[:, 0] == truth[:, 0]).mean())
    if is_new[truth].any():
        shares["not fitted"] = float(is_found[N_NEIGHBORS][is_new[truth]].mean())
    return shares


def measure(index, part, seed):
    """Fit, encode and search; return what came of it."""
    train, spent = (
        np.random.default_rng(seed).permutation(part.train),
        tools.cpu_seconds_of,
    )
    fitting, _ = spent(index.fit, train)
    adding, _ = spent(index.add, part.database)
    k, about = min(max(CUTS), len(part.database)), (part.truth, part.is_new)
    seconds, found = spent(index.search, part.queries, k)
    measured = {"recalls": recalls(found, *about), "n": len(part.database)}
    if hasattr(index, "by_codes"):
        by_codes = index.search_by_codes(part.queries, k)
        measured["by_codes"] = recalls(by_codes, *about)["10@10"]
    single = [spent(index.search, it[None], k)[0] for it in part.queries[:N_SINGLE]]
    return {
        **measured,
        "code_bytes": index.code_bytes,
        "memory_bytes": index.memory_bytes,
        "codebook_bytes": index.codebook_bytes,
        "fit_seconds": fitting,
        "encoded_per_second": len(part.database) / max(adding, 1e-9),
        "queries_per_second": len(part.queries) / seconds,
        "query_ms": 1000 * median(single),
    }


class Comparison:
    """Chooses options and measures, method by method."""

    def __init__(self, name, arguments, results):
        queries = arguments.data_home, arguments.queries
        self.name, self.collection = name, Collection(name, *queries)
        self.n_features = self.collection.test.train.shape[1]
        self.results, self.arguments = results, arguments

    def choose(self, method, n_bytes):
        """Return the options that find most validation rows."""
        variants = partial(METHODS[method].variants, self.n_features)
        size = n_bytes and self.arguments.choose_bytes
        possible = variants(n_bytes, self.collection.is_unit)
        tried = variants(size, self.collection.is_unit)
        tried = [options for options in tried if options in possible] or possible
        if len(tried) == 1:
            return tried[0]
        found, first = [], self.arguments.seeds[0]
        for options in tried:
            name = f"{self.name}/validation/{method}/{size}/{json.dumps(options)}"
            task = method, size, options, "validation", first
            cell = self.results.get(name, partial(self.measure, *task))
            if cell:
                found.append((cell["recalls"]["10@10"], options))
        return max(found, key=lambda pair: pair[0])[1] if found else tried[0]

    def measure(self, method, n_bytes, options, part, seed):
        index = METHODS[method].make(self.n_features, n_bytes, seed, **options)
        cell = measure(index, getattr(self.collection, part), seed)
        return {**cell, "options": options}

    def run(self):
        for method in self.arguments.methods:
            for n_bytes in self.sizes(METHODS[method]):
                options = self.choose(method, n_bytes)
                for seed in self.arguments.seeds:
                    name = f"{self.name}/test/{method}/{n_bytes}/{seed}"
                    task = method, n_bytes, options, "test", seed
                    self.results.get(name, partial(self.measure, *task))

    def sizes(self, kind):
        if kind.metrics[:1] == ("inner_product",) and not self.collection.is_unit:
            return []
        if kind.whole:
            return [None]
        return [n for n in self.arguments.bytes if n <= 4 * self.n_features]


# Tables

COLUMNS = (
    "method | code bytes | search bytes | codebook, MB :.2f | 10@10 :.3f | "
    "10@100 :.3f | +- :.3f | 10@10, not fitted :.3f | 1@1 :.3f | by codes :.3f | "
    "seeds | fit, s :.1f | rows/s :,.0f | MB in all :,.0f | queries/s :,.0f | "
    "one query, ms :.2f | options"
)


def tests(content):
    """Return the cells of the test by (set, method, bytes), those of all seeds."""
    found = defaultdict(list)
    for name, cell in content["cells"].items():
        data, part, method, n_bytes, *_ = name.split("/")
        if part == "test":
            size = None if n_bytes == "None" else int(n_bytes)
            found[data, method, size].append(cell)
    return found


def tables_of(content):
    """Return a table for each set by its title, and what was left out."""
    found, tables = tests(content), {}
    for (data, method, _), cells in found.items():
        table = tables.setdefault(tools.TITLES[data], tools.Table(COLUMNS))
        table.rows.append(_row(method, cells))
    for table in tables.values():
        table.rows.sort(key=lambda row: row[2])  # search bytes
    rows = [list(item) for item in content["left_out"].items()]
    tables["Left out"] = tools.Table({"left out": "", "because": ""}, rows)
    return tables


def _row(method, cells):
    first = cells[0]
    sizes = first["code_bytes"], first["memory_bytes"], first["codebook_bytes"] / 1e6
    recalls = defaultdict(list)
    for cell in cells:
        for name, value in cell["recalls"].items():
            recalls[name].append(value)
    spread = max(np.ptp(recalls[name]) for name in ("10@10", "10@100")) / 2
    names = "10@10", "10@100", "not fitted", "1@1"
    found, at_100, *more = (tools.mean_of(recalls[name]) for name in names)
    by_codes = tools.mean_of([cell["by_codes"] for cell in cells if "by_codes" in cell])
    names = "fit_seconds", "encoded_per_second", "queries_per_second", "query_ms"
    fit, encoded, *asked = (_median([c[it] for c in cells if it in c]) for it in names)
    in_all = "n" in first and first["n"] * sizes[1] / 1e6 + sizes[2] or None
    options = ", ".join(f"{name} {value}" for name, value in first["options"].items())
    head = [method, *sizes, found, at_100, spread, *more, by_codes, len(cells)]
    return [*head, fit, encoded, in_all, *asked, options]


def _median(values):
    return median(values) if values else None


def parse():
    sets = {"sets": ["minilm", "fashion_mnist", "glove_100k", "digits"]}
    sizes = {"bytes": [4, 8, 16, 32], "choose_bytes": 8, "queries": 1000}
    sizes |= {"threads": os.cpu_count(), "seeds": [0, 1, 2], "methods": METHODS}
    parser = tools.options(__doc__, grows=True, **sets, **sizes, quick=False)
    what = "a file of results; its rows that are not in JSON files are shown too"
    parser.add_argument("--keep", type=Path, help=what)
    if parser.parse_args().quick:
        parser.set_defaults(sets=["digits"], bytes=[4, 8], seeds=[0])
    return parser.parse_args()


def run(name, arguments, results):
    """Measure all methods on one data set."""
    faiss.omp_set_num_threads(arguments.threads)
    torch.set_num_threads(arguments.threads)
    with joblib.parallel_config(n_jobs=arguments.threads):
        Comparison(name, arguments, results).run()


def main():
    arguments = parse()
    content = tools.content_of(arguments, arguments.sets, run)
    tested = [name for name in content["cells"] if "/test/" in name]
    seeds = sorted({int(name.split("/")[4]) for name in tested})
    tables = tables_of(content)
    if arguments.keep:
        for title in tools.TITLES.values():
            if f"<summary>{title}<" in arguments.keep.read_text(encoding="utf-8"):
                tables.setdefault(title, tools.Table(COLUMNS))
        tools.keep_rows(tables, content, arguments.keep, n_names=2)
        for name in tools.TITLES.values() & tables.keys():
            tables[name].rows.sort(key=lambda row: int(row[2]))  # search bytes
    tools.print_and_save(tables, content, arguments.results, seeds=seeds)


if __name__ == "__main__":
    main()
