"""Semantic hashing of 20 Newsgroups: how many of the nearest messages share the group.

The protocol of text hashing: the training messages are the database, the test messages
the queries, a message is relevant where it is of the same group, and Precision@100 is
taken in expectation over the order of tied codes::

    python examples/benchmarks/semantic_hashing.py
    python examples/benchmarks/semantic_hashing.py --bits 64 --methods ITQ correlated

Input is tf-idf of the 10000 most frequent words without English stop words, counted on
the training part. Each method has a few candidate settings at each length; the one that
does best on a tenth of the training messages, never on the test messages, is fitted on
all of them, once a seed.
"""

import json
import statistics
import sys
from functools import partial

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from tools import Table, load_20newsgroups, options, save, seconds_of, with_spread

from skhash import ITQHash, NeighborHash, SGHEncoder, StochasticAutoencoderHash
from skhash.metrics import precision_at_k_score

N_RETRIEVED = 100
DATA = "20 Newsgroups: 11 293 messages in the database, 7528 queries"
COLUMNS = f"bits | method | Precision@{N_RETRIEVED} :.3f | fit s :.1f"
COLUMNS += " | validation | chosen"


def after_svd(encoder_class):
    """Return a maker of an encoder that sees unit rows of latent semantic analysis."""

    def make(n_bits, seed, n_components, **params):
        svd = TruncatedSVD(max(n_bits, n_components), random_state=seed)
        encoder = encoder_class(n_bits, random_state=seed, **params)
        return make_pipeline(svd, Normalizer(), encoder)

    return make


def autoencoder(posterior):
    """Return a maker of a stochastic autoencoder with this posterior."""

    def make(n_bits, seed, **params):
        params |= {"posterior": posterior, "random_state": seed}
        return StochasticAutoencoderHash(n_bits, **params)

    return make


# A group has hundreds of messages: many neighbours, and a temperature at which all of
# them count.
HEAT = [{"n_components": 128, "temperature": it} for it in (0.5, 1.0, 2.0, 4.0)]


class GroupHash(NeighborHash):
    """Neighbours are given as a graph: all count alike, however near they are."""

    def fit(self, X, y=None):
        self.graph = kneighbors_graph(X, self.n_neighbors)
        return super().fit(X, y)


LINEAR = {"n_neighbors": 50, "nested": False, "hidden_layer_sizes": ()}
# A group is coarser than neighbours: few steps and strong decay find more of it.
LINEAR |= {"max_epochs": 20, "weight_decay": 1.0}
DEEP = LINEAR | {"hidden_layer_sizes": "auto"}
AXES = [{"n_components": n} for n in (64, 128, 256)]
# Each method and its candidates. The first one of the autoencoders is their default.
METHODS = {
    "ITQ": (after_svd(ITQHash), AXES),
    "SGH": (after_svd(SGHEncoder), AXES),
    "neighbor": (after_svd(partial(GroupHash, **LINEAR)), HEAT),
    "neighbor MLP": (after_svd(partial(GroupHash, **DEEP)), HEAT),
}
for posterior, kl_weight in (("independent", 0.0), ("correlated", 0.01)):
    candidates = [{}, {"kl_weight": kl_weight}, {"max_epochs": 24}]
    METHODS[posterior] = autoencoder(posterior), candidates


def vectorized(texts, other_texts):
    """Return tf-idf rows of both, with words and weights of the first."""
    kind = {"max_features": 10_000, "stop_words": "english", "sublinear_tf": True}
    vectorizer = TfidfVectorizer(**kind, dtype=np.float32)
    return vectorizer.fit_transform(texts), vectorizer.transform(other_texts)


def float_precision(queries, database, query_labels, labels):
    """Precision@100 of the exact cosine, some queries at a time."""
    precisions = []
    for start in range(0, queries.shape[0], 500):
        similarity = (queries[start : start + 500] @ database.T).toarray()
        nearest = np.argpartition(-similarity, N_RETRIEVED - 1)[:, :N_RETRIEVED]
        relevant = labels[nearest] == query_labels[start : start + 500, None]
        precisions.append(relevant.mean(axis=1))
    return np.concatenate(precisions).mean()


def measure(make, params, n_bits, seed, parts):
    """Fit on the database; return Precision@100 of the queries, and seconds."""
    database, labels, queries, query_labels = parts
    encoder = make(n_bits, seed, **params)
    seconds, _ = seconds_of(encoder.fit, database)
    codes = encoder.transform(queries), encoder.transform(database)
    return precision_at_k_score(*codes, query_labels, labels, k=N_RETRIEVED), seconds


def main():
    runs = {"bits": [8, 16, 32, 64, 128], "methods": METHODS, "seeds": [0, 1, 2]}
    arguments = options(__doc__, **runs, data_home=None).parse_args()
    try:
        data = load_20newsgroups("texts", data_home=arguments.data_home)
    except FileNotFoundError as error:
        sys.exit(str(error))
    labels, query_labels = np.asarray(data.train_labels), np.asarray(data.query_labels)
    fitted, held_out = train_test_split(
        np.arange(len(labels)), test_size=0.1, stratify=labels, random_state=0
    )
    database, queries = vectorized(data.train[fitted], data.train[held_out])
    validation = database, labels[fitted], queries, labels[held_out]
    database, queries = vectorized(data.train, data.query)
    test = database, labels, queries, query_labels
    exact = float_precision(queries, database, query_labels, labels)
    print(f"Precision@{N_RETRIEVED} of the exact cosine of tf-idf: {exact:.3f}")
    figures, seeds = {"exact_cosine": float(exact)}, arguments.seeds

    table = Table(COLUMNS).printed()
    for n_bits in arguments.bits:
        for method in arguments.methods:
            table.add(n_bits, method, *row_of(method, n_bits, seeds, validation, test))
    save(arguments.output, {"found": table}, figures, seeds=seeds, data=DATA)


def row_of(method, n_bits, seeds, validation, test):
    """Choose a candidate, fit it with all seeds, and return the rest of its row."""
    make, candidates = METHODS[method]
    scores = [measure(make, c, n_bits, 0, validation)[0] for c in candidates]
    chosen = candidates[int(np.argmax(scores))]
    runs = [measure(make, chosen, n_bits, seed, test) for seed in seeds]
    precisions = [precision for precision, _ in runs]
    spent = statistics.median(seconds for _, seconds in runs)
    validated = " ".join(f"{score:.3f}" for score in scores)
    shown = f"`{json.dumps(chosen)}`" if chosen else "default"
    return with_spread(precisions), spent, validated, shown


if __name__ == "__main__":
    main()
