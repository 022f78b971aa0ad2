"""Recall of the true neighbours by short codes: learned ones beside baselines.

The protocol of the Stochastic Generative Hashing paper (Dai et al., 2017, and its
supplement): recall 1@N, 10@N and 100@100 of exact Euclidean neighbours, N to 1000, in
expectation over the order of tied codes::

    python examples/benchmarks/l2nns.py fashion_mnist glove
    python examples/benchmarks/l2nns.py digits --bits 16 32 --seeds 0

faiss's ITQ (`faiss.ITQTransform`: 50 rotation steps on centred rows of unit length)
runs in the same process where faiss is installed. Every method has its defaults, but
for the hidden layer of "neighbor MLP" and its step size, and "SGH neighbors", which is
SGHEncoder with ``pairs="neighbors"``; none has seen the queries.
"""

import argparse
import statistics
import time
from functools import partial

import numpy as np
from data_sets import load_20newsgroups, load_fashion_mnist, load_glove
from growing_results import describe, head
from result_files import Table, add_output, save
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skhash import ITQHash, NeighborHash, PCAHash, SGHEncoder
from skhash.codes import pack_bits, spherical_hamming_distances
from skhash.datasets import RetrievalData, load_digits_retrieval
from skhash.linear import (
    BinaryAutoencoderHash,
    KMeansHash,
    RandomHyperplaneHash,
    ScalableGraphHash,
    SpectralHash,
    SphericalHash,
)
from skhash.metrics import neighbor_recall_score, true_neighbors


def load_tfidf(data_home=None):
    """Load 20 Newsgroups as 256 components of tf-idf, rows of unit length."""
    texts = load_20newsgroups("texts", data_home=data_home)
    vectorise = make_pipeline(
        TfidfVectorizer(max_features=10_000, stop_words="english", sublinear_tf=True),
        TruncatedSVD(256, random_state=0),
        Normalizer(),
    )
    database = vectorise.fit_transform(texts.database).astype(np.float32)
    query = vectorise.transform(texts.query).astype(np.float32)
    return RetrievalData(
        name="20newsgroups-tfidf",
        metric="cosine",
        train=database,
        database=database,
        query=query,
    )


LOADERS = {
    "digits": lambda data_home=None: load_digits_retrieval(),
    "fashion_mnist": load_fashion_mnist,
    "glove": load_glove,
    "glove_100k": lambda data_home=None: load_glove(100_000, data_home=data_home),
    "minilm": lambda data_home=None: load_20newsgroups("minilm", data_home=data_home),
    "tfidf": load_tfidf,
}
CUTS = (10, 100, 1000)


class FaissITQ:
    """faiss's ITQ behind the same two methods."""

    def __init__(self, n_bits, random_state=None):
        self.n_bits = n_bits

    def fit(self, X):
        import faiss

        self.transform_ = faiss.ITQTransform(X.shape[1], self.n_bits, True)
        self.transform_.train(np.ascontiguousarray(X, dtype=np.float32))
        return self

    def transform_packed(self, X):
        projected = self.transform_.apply(np.ascontiguousarray(X, dtype=np.float32))
        return pack_bits(projected > 0)


METHODS = {
    "SGH": SGHEncoder,
    "SGH exact": lambda n_bits, random_state: SGHEncoder(
        n_bits, gradient="exact", random_state=random_state
    ),
    "SGH linear": lambda n_bits, random_state: SGHEncoder(
        n_bits, gradient="linear", random_state=random_state
    ),
    "SGH neighbors": partial(SGHEncoder, pairs="neighbors"),
    "neighbor": NeighborHash,
    "neighbor MLP": partial(NeighborHash, hidden_layer_sizes=(512,), lr=0.03),
    "PCA": PCAHash,
    "ITQ": ITQHash,
    "faiss ITQ": FaissITQ,
    "random": RandomHyperplaneHash,
    "spectral": SpectralHash,
    "spherical": SphericalHash,
    "spherical, own distance": SphericalHash,
    "KMH": KMeansHash,
    "scalable graph": ScalableGraphHash,
    "binary autoencoder": BinaryAutoencoderHash,
}
OWN_DISTANCES = {"spherical, own distance": spherical_hamming_distances}


class Fits:
    """Encoders fitted to one data set, with the seconds that it took.

    With `longest`, methods that can be cut are fitted once a seed, at that length.
    """

    def __init__(self, data, longest=None):
        self.data, self.longest, self.kept = data, longest, {}

    def get(self, method, n_bits, seed):
        is_cut = self.longest and method.startswith("neighbor")
        length = self.longest if is_cut else n_bits
        if (method, length, seed) not in self.kept:
            encoder = METHODS[method](length, random_state=seed)
            start = time.perf_counter()
            encoder.fit(self.data.train)
            fitted = encoder, time.perf_counter() - start
            if not is_cut:
                return fitted
            self.kept[method, length, seed] = fitted
        encoder, seconds = self.kept[method, length, seed]
        return encoder.truncate(n_bits), seconds


def recall_by(distances_of, queries, database, truth, cuts):
    """Return recall at each cut by any distance, in expectation over ties."""
    hits = np.zeros(len(cuts))
    for query, own in zip(queries, truth, strict=True):
        distances = distances_of(query[None], database)[0]
        found = distances[own]
        for i, cut in enumerate(cuts):
            last = np.partition(distances, cut - 1)[cut - 1]
            share = (cut - (distances < last).sum()) / (distances == last).sum()
            hits[i] += (found < last).sum() + share * (found == last).sum()
    return hits / truth.size


def recall_by_hamming(queries, database, truth, cuts):
    return neighbor_recall_score(
        queries, database, truth, n_retrieved=cuts, packed=True
    )


def measure(encoder, data, truth, own_distances=None):
    """Return recalls by name."""
    database = encoder.transform_packed(data.database)
    queries = encoder.transform_packed(data.query)
    cuts = [cut for cut in CUTS if cut <= len(database)]
    recall = partial(recall_by, own_distances) if own_distances else recall_by_hamming
    recalls = {}
    for k in (1, 10):
        values = recall(queries, database, truth[:, :k], cuts)
        recalls |= {f"{k}@{n}": v for n, v in zip(cuts, values, strict=True)}
    recalls["100@100"] = recall(queries, database, truth, [100])[0]
    return recalls


def methods_for(n_bits, n_features, names):
    """Leave out what is not installed or cannot make so many bits."""
    left_out = set()
    try:
        import faiss  # noqa: F401
    except ImportError:
        left_out.add("faiss ITQ")
    if n_bits > n_features:
        left_out |= {"PCA", "ITQ", "faiss ITQ", "KMH", "binary autoencoder"}
    return [name for name in names if name not in left_out]


def run(name, arguments):
    """Print and return the table of one data set; None without the data."""
    try:
        data = LOADERS[name](data_home=arguments.data_home)
    except FileNotFoundError as error:
        print(f"\n## {name}: left out. {error}")
        return None
    print(
        f"\n## {name}: {data.database.shape[0]:,} x {data.database.shape[1]} database, "
        f"{data.query.shape[0]:,} queries, {data.train.shape[0]:,} training rows"
    )
    truth = true_neighbors(data.query, data.database, 100)
    # Imports and compilation are no part of a fit.
    SGHEncoder(2, max_epochs=1, random_state=0).fit(data.train[:200])
    fits = Fits(data, max(arguments.bits) if arguments.nested else None)
    table = None
    for n_bits in arguments.bits:
        for method in methods_for(n_bits, data.train.shape[1], arguments.methods):
            recalls, seconds = measure_seeds(fits, method, n_bits, truth, arguments)
            if table is None:
                columns = {"bits": "", "method": "", **dict.fromkeys(recalls, ".3f")}
                table = Table({**columns, "+-": ".3f", "fit s": ".1f"}).printed()
            means = map(np.mean, recalls.values())
            spread = np.ptp(recalls["10@100"]) / 2
            table.add(n_bits, method, *means, spread, statistics.median(seconds))
    return table


def measure_seeds(fits, method, n_bits, truth, arguments):
    """Return lists of recalls by name, and of seconds, with an entry a seed."""
    runs, times = [], []
    for seed in arguments.seeds:
        encoder, seconds = fits.get(method, n_bits, seed)
        runs.append(measure(encoder, fits.data, truth, OWN_DISTANCES.get(method)))
        times.append(seconds)
    return {name: [recalls[name] for recalls in runs] for name in runs[0]}, times


def ratios_of(tables):
    """Return a table of 10@100 of SGH divided by that of faiss's ITQ."""
    rows = []
    for name, table in tables.items():
        both = ({*table.where(method=it)["bits"]} for it in ("SGH", "faiss ITQ"))
        for n_bits in sorted(set.intersection(*both)):
            sgh, itq = (table[n_bits, it, "10@100"] for it in ("SGH", "faiss ITQ"))
            rows.append([name, n_bits, sgh / itq])
    return Table({"data": "", "bits": "", "SGH / faiss ITQ": ".2f"}, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["fashion_mnist", "glove"])
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument(
        "--nested",
        action="store_true",
        help="fit NeighborHash once, at the longest length, and cut it to the others",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    print(describe(head()))
    print(
        f"recall K@N, mean over seeds {arguments.seeds}; +- is half the range of 10@100"
    )
    tables = {name: run(name, arguments) for name in arguments.data}
    tables = {name: table for name, table in tables.items() if table}
    ratios = ratios_of(tables)
    if ratios.rows:
        tables["ratios"] = ratios.printed()
    save(arguments.output, tables, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
