"""The data of the benchmarks: sets by their names, and codes of mixtures of words."""

import numpy as np
from data_sets import load_20newsgroups, load_fashion_mnist, load_glove
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skhash import SGHEncoder
from skhash.datasets import RetrievalData, load_digits_retrieval

# Rows that the encoder of words is fitted to, and rows that are mixed at a time.
N_TRAIN, BLOCK = 20_000, 100_000


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
    return RetrievalData("20newsgroups-tfidf", "cosine", database, database, query)


LOADERS = {
    "digits": lambda data_home=None: load_digits_retrieval(),
    "tfidf": load_tfidf,
    "minilm": lambda data_home=None: load_20newsgroups("minilm", data_home=data_home),
    "fashion_mnist": load_fashion_mnist,
    "glove": load_glove,
    "glove_100k": lambda data_home=None: load_glove(100_000, data_home=data_home),
}
TITLES = {
    "digits": "digits, 8 x 8",
    "tfidf": "20 Newsgroups, tf-idf",
    "minilm": "MiniLM sentence embeddings",
    "fashion_mnist": "Fashion-MNIST images",
    "glove": "GloVe word vectors",
    "glove_100k": "GloVe word vectors, 100 000",
}


class WordCodes:
    """SGH codes of GloVe words, and of sums of two random words where they are too few.

    Queries are words that are held out.
    """

    def __init__(self, n_bits, seed=0, n_queries=1000, data_home=None):
        self.words = load_glove(n_queries=n_queries, data_home=data_home)
        self.encoder = SGHEncoder(n_bits, random_state=seed)
        self.encoder.fit(self.words.train[:N_TRAIN])
        self.queries = self.encoder.transform_packed(self.words.query)

    def sums(self, n, rng):
        """Yield packed codes of sums of two words, block by block."""
        words = self.words.database
        for start in range(0, n, BLOCK):
            first, second = rng.integers(0, len(words), (2, min(BLOCK, n - start)))
            rows = words[first] + words[second]
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
            yield self.encoder.transform_packed(rows)

    def codes(self, n, rng):
        """Return n packed codes."""
        words = self.encoder.transform_packed(self.words.database[:n])
        return np.concatenate([words, *self.sums(n - len(words), rng)])
