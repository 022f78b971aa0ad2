"""What `bytes.py` compares: quantisers of faiss and ours, behind the same few calls.

Each fits rows, takes in a database as codes, and finds the codes nearest to real
queries, all of them being scored. It tells what it keeps: ``code_bytes`` of a vector
that cannot be computed from anything else, ``memory_bytes`` of a vector that a search
needs, and ``codebook_bytes`` once.
"""

from dataclasses import dataclass, field
from functools import partial

import faiss

from skhash import ITQHash, NeighborHash, PCAHash, SGHEncoder
from skhash.linear import LinearDecoder
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors

FLOAT = 4  # bytes of a number that is kept as it is
LEVELS = 256  # entries of a codebook that one byte picks from
METRICS = {"euclidean": faiss.METRIC_L2, "inner_product": faiss.METRIC_INNER_PRODUCT}
ENCODERS = {"SGH": SGHEncoder, "ITQ": ITQHash, "neighbor": NeighborHash, "PCA": PCAHash}
# Numbers of a code that our search keeps beside it.
OUR_FLOATS = {"euclidean": 1, "cosine": 2}
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
            self.codebook_bytes += FLOAT * matrix_size(transform)
        self.index = index

    def fit(self, rows):
        self.index.train(rows)

    def add(self, rows):
        self.index.add(rows)

    def search(self, queries, k):
        return self.index.search(queries, k)[1]


def matrix_size(transform):
    """Return how many numbers a linear transform keeps."""
    if isinstance(transform, faiss.LinearTransform):
        return transform.d_in * transform.d_out
    return 0


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


def local_search_index(
    n_features, n_bytes, seed, metric="euclidean", iterations=5, encode=16
):
    """LSQ: an additive codebook and codes in turns, codes by local search."""
    index = additive_index(faiss.IndexLocalSearchQuantizer, n_features, n_bytes, metric)
    quantizer = index.index.lsq
    quantizer.random_seed = seed
    quantizer.train_iters = iterations
    quantizer.encode_ils_iters = encode
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
    """RaBitQ: bits of randomly turned columns, principal ones where bytes are few.

    n_bytes : int or None
        All columns by default.
    """
    width = n_features
    if n_bytes is not None:
        width = rabitq_columns(n_features, n_bytes, bits)
    # Its queries are rounded to 8 bits, which costs no recall that could be measured.
    index = faiss.IndexRaBitQFastScan(width, METRICS[metric], 32, bits)
    rotation = faiss.RandomRotationMatrix(width, width)
    rotation.init(seed + 1)
    transforms = [rotation]
    if width < n_features:
        transforms.insert(0, faiss.PCAMatrix(n_features, width))
    return FaissIndex(index, FLOAT * width, transforms=transforms)


def rabitq_columns(n_features, n_bytes, bits):
    """Return how many columns fit, besides what RaBitQ keeps of a whole vector."""
    for width in range(n_features, 7, -1):
        if faiss.IndexRaBitQ(width, faiss.METRIC_L2, bits).code_size <= n_bytes:
            return width
    raise ValueError(f"{n_bytes} bytes are too few for RaBitQ of {bits} bits.")


def scalar_index(n_features, n_bytes, seed, bits, metric="euclidean", spread=None):
    """Columns in `bits` each, principal ones where bytes are few.

    seed : int
        For nothing: nothing is random.
    n_bytes : int or None
        All columns by default.
    spread : str, default=None
        How faiss sets the range of a column; None is from the least to the largest.
    """
    width = n_features
    if n_bytes is not None:
        width = min(n_features, 8 * n_bytes // bits)
    if bits == 8 * FLOAT:
        index = faiss.IndexFlat(width, METRICS[metric])
    else:
        kind = getattr(faiss.ScalarQuantizer, f"QT_{bits}bit")
        index = faiss.IndexScalarQuantizer(width, kind, METRICS[metric])
        if spread:
            index.sq.rangestat = getattr(faiss.ScalarQuantizer, f"RS_{spread}")
    transforms = []
    if width < n_features:
        transforms.append(faiss.PCAMatrix(n_features, width))
    ranges = 2 * FLOAT * width if bits < 8 * FLOAT else 0
    return FaissIndex(index, ranges, transforms=transforms)


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
    """An encoder of ours, and what its codes are searched by.

    Parameters
    ----------
    n_features, n_bytes, seed : int
    encoder : str
        One of `ENCODERS`.
    metric : str, default="euclidean"
        "hamming" encodes the queries, too.
    **decoder
        Parameters of `LinearDecoder`.
    """

    def __init__(
        self, n_features, n_bytes, seed, encoder, metric="euclidean", **decoder
    ):
        self.encoder = ENCODERS[encoder](8 * n_bytes, random_state=seed)
        self.metric, self.decoder = metric, None
        self.code_bytes = n_bytes
        self.memory_bytes = n_bytes + FLOAT * OUR_FLOATS.get(metric, 0)
        # The encoder reads queries only where they are encoded.
        self.codebook_bytes = FLOAT * (8 * n_bytes + 1) * n_features
        if metric != "hamming":
            self.decoder = LinearDecoder(**decoder)

    def fit(self, rows):
        self.encoder.fit(rows)
        if self.decoder is not None:
            self.decoder.fit(rows, self.encoder.transform(rows))
            kept = self.decoder.codebook_.size + self.decoder.offset_.size
            self.codebook_bytes = FLOAT * kept

    def add(self, rows):
        bits = self.encoder.transform(rows)
        if self.decoder is None:
            self.index = HammingNeighbors().fit(bits)
            return
        bits = self.decoder.refine(rows, bits)
        errors = {}
        if self.metric == "euclidean":
            errors["errors"] = self.decoder.reconstruction_error(rows, bits)
        self.index = AsymmetricNeighbors(metric=self.metric)
        self.index.fit(bits, decoder=self.decoder, **errors)

    def search(self, queries, k):
        if self.decoder is None:
            queries = self.encoder.transform(queries)
        return self.index.kneighbors(queries, k, return_distance=False)


@dataclass
class Method:
    """How an index is made, and what is tried on validation rows.

    make : callable (n_features, n_bytes, seed, **options) -> index
    options : list of dict
        The first serves where nothing is chosen.
    metrics : tuple of str
        For rows of unit length, where each is tried; others have "euclidean". Empty if
        the method has one of its own.
    whole : bool
        Whether the bytes follow from the number of columns.
    least_bytes : int
    unit_only : bool
        Whether it makes sense for rows of unit length only.
    """

    make: callable
    options: list = field(default_factory=lambda: [{}])
    metrics: tuple = ("euclidean", "inner_product")
    whole: bool = False
    least_bytes: int = 1
    unit_only: bool = False

    def variants(self, n_features, n_bytes, is_unit):
        """Return the options to try, the metric among them."""
        metrics = self.metrics
        if metrics and not is_unit:
            metrics = ("euclidean",)
        options = [
            option
            for option in self.options
            if n_bytes is None
            or 8 * n_bytes <= n_features
            or option.get("encoder") not in SHORT_ENCODERS
        ]
        if not metrics:
            return options
        return [{**option, "metric": name} for option in options for name in metrics]


BOTH = (False, True)
TRAINED = [{"encoder": name} for name in ("SGH", "ITQ", "neighbor")]
# Long fits of the decoder, that take about as long as those of RQ.
LONG = [
    {"encoder": name, "n_alternations": 20, "relaxation": 1.0}
    for name in ("ITQ", "SGH")
]
METHODS = {
    "ours, Hamming": Method(
        partial(OurIndex, metric="hamming"), [*TRAINED, {"encoder": "PCA"}], ()
    ),
    "ours, bits decoded": Method(partial(OurIndex, block_bits=1), TRAINED),
    "ours, bytes decoded": Method(partial(OurIndex, block_bits=8), LONG),
    "ours, bytes, by cosine": Method(
        partial(OurIndex, block_bits=8), LONG, ("cosine",), unit_only=True
    ),
    "PQ": Method(product_index),
    "PQ fast scan": Method(partial(product_index, fast=True)),
    "OPQ": Method(product_index, [{"rotation": 50}]),
    "RQ": Method(residual_index, [{"beam": 5}, {"beam": 5, "refined": True}]),
    "LSQ": Method(local_search_index, [{"iterations": 10}, {"iterations": 25}]),
    "RaBitQ, 1 bit": Method(partial(rabitq_index, bits=1), whole=True),
    "RaBitQ, 2 bits": Method(partial(rabitq_index, bits=2), whole=True),
    "RaBitQ, 4 bits": Method(partial(rabitq_index, bits=4), whole=True),
    "PCA, RaBitQ": Method(rabitq_index, [{"bits": 1}], least_bytes=16),
    "PCA, float32": Method(partial(scalar_index, bits=32), least_bytes=4),
    "PCA, int8": Method(partial(scalar_index, bits=8), [{}, {"spread": "optim"}]),
    "PCA, int4": Method(partial(scalar_index, bits=4), [{}, {"spread": "optim"}]),
    "int8": Method(partial(scalar_index, bits=8), whole=True),
    "int4": Method(
        partial(scalar_index, bits=4), [{}, {"spread": "optim"}], whole=True
    ),
    "signs": Method(
        sign_index,
        [{"turned": turned, "centred": c} for turned in BOTH for c in BOTH],
        (),
        whole=True,
    ),
}
