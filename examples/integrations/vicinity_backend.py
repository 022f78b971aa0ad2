"""A backend of vicinity that keeps codes, and the vectors only if they are wanted.

    items = Vicinity(words, SkhashBackend.from_vectors(vectors, n_bits=256))
    items.save("folder")
    items = load_items("folder")

It learns from the vectors of `from_vectors`; those that are inserted later are encoded
in the same way. Without `n_candidates` the vectors are not kept: distances are those of
what the codes decode to. With it they are, and the distances of the candidates are
true. `Vicinity.evaluate` counts what is found by the distances that a backend returns,
so its recall means what it says with candidates alone.
"""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from vicinity import Metric, Vicinity
from vicinity.backends.base import AbstractBackend, BaseArgs

from skhash import AdditiveQuantizer, AsymmetricNeighbors, HashedNeighbors, ITQHash


@dataclass
class SkhashArgs(BaseArgs):
    """The arguments of `from_vectors`."""

    metric: Metric = Metric.COSINE
    n_bits: int = 64
    n_candidates: int | None = None


class SkhashBackend(AbstractBackend[SkhashArgs]):
    """Codes of `n_bits` bits, found by uncompressed queries."""

    argument_class = SkhashArgs
    # vicinity's own kinds are all that its `load` knows; see `load_items`.
    backend_type = Enum("Kind", {"SKHASH": "skhash"}).SKHASH

    def __init__(self, search, arguments):
        super().__init__(arguments)
        self.search = search

    @classmethod
    def from_vectors(cls, vectors, metric="cosine", n_bits=64, n_candidates=None):
        """Fit an encoder and a decoder, and index the codes of the vectors."""
        metric = Metric.from_string(metric)
        if metric not in (Metric.COSINE, Metric.EUCLIDEAN):
            raise ValueError(f"Metrics are cosine and euclidean, got {metric.value}.")
        encoder = ITQHash(n_bits, normalize=metric is Metric.COSINE, random_state=0)
        search = HashedNeighbors(
            encoder,
            AsymmetricNeighbors(metric=metric.value, n_candidates=n_candidates),
            decoder=AdditiveQuantizer(-(-n_bits // 8)),
            keep_vectors=n_candidates is not None,
        )
        return cls(search.fit(vectors), SkhashArgs(metric, n_bits, n_candidates))

    def __len__(self):
        return int(self.search.index_.live_.sum())

    @property
    def dim(self):
        """The columns of the vectors."""
        return self.search.n_features_in_

    def insert(self, vectors):
        """Add vectors behind the others."""
        self.search.partial_fit(vectors)

    def delete(self, indices):
        """Remove vectors by position; those behind move up."""
        self.search.remove(indices).compact()

    def query(self, vectors, k):
        """Return positions and distances of the k nearest of each query."""
        most = self.arguments.n_candidates or len(self)
        scores, positions = self.search.kneighbors(vectors, min(k, len(self), most))
        if self.arguments.metric is Metric.EUCLIDEAN:
            scores = np.sqrt(scores.clip(min=0))
        return list(zip(positions, scores, strict=True))

    def threshold(self, vectors, threshold, max_k):
        """Return those of the nearest `max_k` within a distance."""
        return [
            (positions[near], distances[near])
            for positions, distances in self.query(vectors, max_k)
            for near in [distances <= threshold]
        ]

    def save(self, path):
        """Write the search and the arguments to a folder."""
        self.search.save(Path(path) / "search")
        self.arguments.dump(Path(path) / "arguments.json")

    @classmethod
    def load(cls, path):
        """Load what `save` wrote."""
        arguments = SkhashArgs.load(Path(path) / "arguments.json")
        return cls(HashedNeighbors.load(Path(path) / "search"), arguments)


def load_items(folder):
    """Load a `Vicinity` over this backend, as `Vicinity.save` wrote it."""
    content = json.loads((Path(folder) / "data.json").read_bytes())
    backend = SkhashBackend.load(folder)
    return Vicinity(content["items"], backend, metadata=content["metadata"])


def main():
    """Print queries a second and recall by vicinity's own evaluation, on digits."""
    from sklearn.datasets import load_digits

    vectors = load_digits().data.astype(np.float32)
    vectors, queries = vectors[:1500], vectors[1500:]
    for n_candidates in (None, 100):
        arguments = {"n_bits": 64, "n_candidates": n_candidates}
        backend = SkhashBackend.from_vectors(vectors, **arguments)
        items = Vicinity(range(len(vectors)), backend)
        rate, recall = items.evaluate(vectors, queries)
        print(f"candidates {n_candidates}: {rate:,.0f} queries/s, recall {recall:.3f}")


if __name__ == "__main__":
    main()
