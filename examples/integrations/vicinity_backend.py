"""A backend of vicinity that keeps codes, and the vectors only if they are wanted.

    items = Vicinity(words, SkhashBackend.from_vectors(vectors, n_bytes=8))
    items.save("folder")
    items = load_items("folder")

It learns from the vectors of `from_vectors`; those that are inserted later are encoded
in the same way. Without `rerank` the vectors are not kept: distances are those of what
the codes decode to. With it they are, and the distances are true. `Vicinity.evaluate`
counts what is found by the distances that a backend returns, so its recall means what
it says with `rerank` alone.
"""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from vicinity import Metric, Vicinity
from vicinity.backends.base import AbstractBackend, BaseArgs

from skhash import HashedNeighbors, load


@dataclass
class SkhashArgs(BaseArgs):
    """The arguments of `from_vectors`."""

    metric: Metric = Metric.COSINE
    n_bytes: int = 8
    rerank: int | None = None


class SkhashBackend(AbstractBackend[SkhashArgs]):
    """Vectors in `n_bytes` bytes each."""

    argument_class = SkhashArgs
    # vicinity's own kinds are all that its `load` knows; see `load_items`.
    backend_type = Enum("Kind", {"SKHASH": "skhash"}).SKHASH

    def __init__(self, search, arguments):
        super().__init__(arguments)
        self.search = search

    @classmethod
    def from_vectors(cls, vectors, metric="cosine", n_bytes=8, rerank=None):
        """Fit a quantizer, and index the codes of the vectors."""
        metric = Metric.from_string(metric)
        if metric not in (Metric.COSINE, Metric.EUCLIDEAN):
            raise ValueError(f"Metrics are cosine and euclidean, got {metric.value}.")
        options = {"rerank": rerank, "vectors": rerank is not None}
        search = HashedNeighbors(n_bytes, metric=metric.value, **options)
        return cls(search.fit(vectors), SkhashArgs(metric, n_bytes, rerank))

    def __len__(self):
        return int(self.search.live_.sum())

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
        k = min(k, len(self), self.arguments.rerank or k)
        distances, positions = self.search.kneighbors(vectors, k)
        return list(zip(positions, distances, strict=True))

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
        return cls(load(Path(path) / "search"), arguments)


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
    for rerank in (None, 100):
        backend = SkhashBackend.from_vectors(vectors, rerank=rerank)
        items = Vicinity(range(len(vectors)), backend)
        rate, recall = items.evaluate(vectors, queries)
        print(f"rerank={rerank}: {rate:,.0f} queries/s, recall {recall:.3f}")


if __name__ == "__main__":
    main()
