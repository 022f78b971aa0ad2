"""Indexes that change, and beside each what it should hold by now."""

import copy
import pickle

import numpy as np
from numpy.testing import assert_array_equal

from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.soak.case import log_uniform
from skhash.soak.reference import (
    hamming_distances,
    ranked,
    ranked_candidates,
    scores_of,
)


class Held:
    """A `HammingNeighbors`, and its rows by name in plain arrays.

    Attributes
    ----------
    index : HammingNeighbors
    rows : dict of ndarray
        "bits", "y", and "ids" where it has some.
    live : ndarray of bool
    k : int
        How many neighbours were asked for.
    """

    kind = HammingNeighbors

    def __init__(self, case, **params):
        rng = case.rng("held")
        self.case, self.n_added, self.k = case, 0, 1
        self.packed = bool(rng.integers(2))
        self.id_kind = rng.choice(["none", "int", "str"])
        self.index = self.kind(packed=self.packed, **params)
        self.rows = self.drawn_rows("first", case.n)
        self.live = np.ones(case.n, dtype=bool)
        self.give(self.index.fit, self.rows)

    def drawn_rows(self, name, n):
        """Draw rows of an index, with ids that were never there."""
        rows = {"bits": self.case.bits(name, n)}
        rows["y"] = self.case.rng(name, "y").integers(0, 5, n)
        ids = 7 * np.arange(self.n_added, self.n_added + n) - 50
        if self.id_kind != "none":
            rows["ids"] = ids.astype(str) if self.id_kind == "str" else ids
        self.n_added += n
        return rows

    def give(self, method, rows):
        """Call `fit` or `partial_fit`."""
        rows = dict(rows)
        method(self.as_codes(rows.pop("bits")), rows.pop("y"), **rows)

    def as_codes(self, bits, rng=None):
        """Return codes in the format of the index, of some type and layout."""
        codes = np.packbits(bits, axis=1) if self.packed else bits
        if rng is None:
            return codes
        if not self.packed and rng.random() < 0.5:
            codes = codes.astype(rng.choice(["u1", "?", "i8", "f4", "f8"]))
        layout = rng.integers(4)
        if layout == 1:
            return np.asfortranarray(codes)
        if layout == 2:
            return np.repeat(codes, 2, axis=0)[::2]
        return codes.tolist() if layout == 3 and not self.packed else codes

    @property
    def n(self):
        return len(self.live)

    @property
    def names(self):
        """The ids by position, or the positions."""
        return self.rows.get("ids", np.arange(self.n))

    def change(self, rng):
        """Let the index change in one way, and what it should hold with it."""
        changes = self.add, self.remove, self.compact, self.move, self.prepare
        if rng.random() < 0.05:
            self.refuse(rng)
        changes[rng.choice(5, p=[0.3, 0.25, 0.15, 0.2, 0.1])](rng)
        self.check()

    def add(self, rng):
        n = log_uniform(rng, 1, max(1, self.n // 2))
        rows = self.drawn_rows(("more", self.n_added), n)
        self.give(self.index.partial_fit, rows)
        self.rows = {
            name: np.concatenate([old, rows[name]]) for name, old in self.rows.items()
        }
        self.live = np.append(self.live, np.ones(n, dtype=bool))

    def remove(self, rng):
        share = rng.choice([0.0, 0.01, 0.3, 0.9])
        gone = self.live & (rng.random(self.n) < share)
        self.index.remove(rng.permutation(self.names[gone]))
        self.live = self.live & ~gone

    def compact(self, rng):
        self.index.compact()
        self.rows = {name: rows[self.live] for name, rows in self.rows.items()}
        self.live = np.ones(np.count_nonzero(self.live), dtype=bool)

    def prepare(self, rng):
        """Let tables and clusters be made for what is to come."""
        reach = {"radius": int(rng.integers(0, self.case.n_bits + 1))}
        if rng.random() < 0.5:
            reach = {"n_neighbors": log_uniform(rng, 1, 2 * self.n)}
        self.index.prepare(10**6, **reach)

    def move(self, rng):
        """Save and open the index, or copy it."""
        ways = ["read", "map", "unchecked map", "pickle", "copy"]
        way, folder = rng.choice(ways), self.case.folder / "moved"
        if way == "pickle":
            self.index = pickle.loads(pickle.dumps(self.index))
        elif way == "copy":
            self.index = copy.deepcopy(self.index)
        else:
            self.index.save(folder)
            self.index = self.kind.load(
                folder, mmap="map" in way, verify="unchecked" not in way
            )

    def refuse(self, rng):
        """Ask for what cannot be: the index is as before."""
        bits = self.rows["bits"][:1]
        wrong = np.concatenate([bits, bits], axis=1).repeat(9, axis=1)
        for call in (
            lambda: self.index.remove(["nobody"] if self.id_kind == "str" else [-51]),
            lambda: self.index.partial_fit(self.as_codes(wrong), [0]),
            lambda: self.index.kneighbors(self.as_codes(bits), self.n + 1),
            lambda: self.index.kneighbors(self.as_codes(wrong)),
        ):
            try:
                call()
            except ValueError:
                continue
            raise AssertionError("It was not refused.")

    def check(self):
        """Compare all that the index says it holds."""
        assert self.index.n_samples_fit_ == self.n
        assert_array_equal(
            self.index.packed_codes_, np.packbits(self.rows["bits"], axis=1)
        )
        assert_array_equal(self.index.live_, self.live)
        assert_array_equal(self.index.y_, self.rows["y"])
        assert hasattr(self.index, "ids_") == ("ids" in self.rows)
        if "ids" in self.rows:
            assert_array_equal(self.index.ids_, self.rows["ids"])

    def question(self, rng):
        """Draw a question: its arguments, who may be found, and what to call them."""
        arguments, may_find = {}, self.live.copy()
        if rng.random() < 0.4:
            mask = rng.random(self.n) < rng.choice([0.03, 0.5, 0.97])
            arguments["mask"], may_find = mask, may_find & mask
        if rng.random() < 0.3:
            chosen = rng.random(self.n) < rng.choice([0.03, 0.5])
            unknown = np.array([-51, -51]).astype(self.names.dtype)
            ids = np.concatenate([self.names[chosen], unknown, self.names[chosen][:1]])
            arguments["ids"], may_find = rng.permutation(ids), may_find & chosen
        with_ids = "ids" in self.rows and rng.random() < 0.5
        arguments["return_ids"] = with_ids
        return arguments, may_find, self.names if with_ids else None

    def asked(self, rng, own):
        """Draw queries, or None for its own codes; and all scores of them."""
        bits = self.rows["bits"] if own else self.case.queries(("asked", rng.random()))
        scores = hamming_distances(bits, self.rows["bits"])
        return None if own else self.as_codes(bits, rng), scores, {}

    def ranked(self, scores, may_find, own):
        """Return what each query may find, the best first."""
        return ranked(scores, may_find, own)

    def most(self, n_found):
        """Return how many neighbours may be asked for, of so many."""
        return n_found

    def radius(self, rng, scores):
        """Draw a radius: now and then, one that finds everything."""
        if rng.random() < 0.05 or not scores.size:
            return self.case.n_bits + int(rng.integers(3))
        return int(np.quantile(scores, rng.choice([0, 0.001, 0.02, 0.3])))


class HeldVectors(Held):
    """An `AsymmetricNeighbors`, of a decoder or of vectors, beside its rows.

    All are small whole numbers, so that scores are exact.
    """

    kind = AsymmetricNeighbors

    def __init__(self, case):
        rng = case.rng("vectors")
        self.n_features = int(rng.integers(1, 6))
        self.by = rng.choice(["decoder", "errors", "vectors", "both"])
        metrics = ["euclidean", "inner_product"]
        self.metric = metrics[0] if self.by == "errors" else str(rng.choice(metrics))
        self.codebook = rng.integers(-1, 2, (case.n_bits, self.n_features)).astype(
            float
        )
        self.offset = rng.integers(-3, 4, self.n_features).astype(float)
        some = log_uniform(rng, 1, case.n) if rng.random() < 0.5 else None
        self.n_candidates = some
        super().__init__(case, metric=self.metric, n_candidates=some)

    def drawn_rows(self, name, n):
        rows = super().drawn_rows(name, n)
        if self.by in ("vectors", "both"):
            rows["vectors"] = self.case.vectors(name, n, self.n_features)
        if self.by == "errors":
            rows["errors"] = 4.0 * self.case.rng(name, "errors").integers(0, 9, n)
        return rows

    def give(self, method, rows):
        is_first = method.__name__ == "fit" and self.by != "vectors"
        decoder = {"decoder": (self.codebook, self.offset)} if is_first else {}
        super().give(method, {**rows, **decoder})

    def decoded(self):
        return self.rows["bits"] @ self.codebook + self.offset

    def prepare(self, rng):
        """There is nothing to be made."""

    def asked(self, rng, own):
        vectors = self.rows.get("vectors")
        own = own and vectors is not None
        vectors = self.decoded() if vectors is None else vectors
        name, codes = ("asked", rng.random()), self.rows["bits"]
        queries, more = vectors, {}
        if not own:
            queries = self.case.vectors(name, self.case.n_queries, self.n_features)
            codes = self.case.queries(name)
            more = {"codes": self.as_codes(codes, rng)}
        scores = scores_of(queries, vectors, self.metric)
        if self.by == "errors":
            scores += 0.25 * self.rows["errors"]
        # What candidates are found by.
        self.first_scores = hamming_distances(codes, self.rows["bits"])
        if self.by == "both":
            self.first_scores = scores_of(queries, self.decoded(), self.metric)
        return None if own else queries, scores, more

    def ranked(self, scores, may_find, own):
        if self.n_candidates is None:
            return ranked(scores, may_find, own)
        parts = self.first_scores, scores, may_find, self.n_candidates, own
        return ranked_candidates(*parts)

    def most(self, n_found):
        return min(n_found, self.n_candidates or n_found)

    def radius(self, rng, scores):
        if not scores.size:
            return 0.0
        return float(np.quantile(scores, rng.choice([0, 0.001, 0.02, 0.3])))
