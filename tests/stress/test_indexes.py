"""Indexes that live through everything, beside plain arrays of what they should hold."""

import copy
import pickle
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.testing import assert_array_equal
from stress.drawn import (
    Codes,
    chance_chooses,
    formed,
    forms,
    lengths,
    rngs,
    sizes,
    torch_answers,
)
from stress.plain import assert_answers, decoded, first_of, hamming_distances, scores_of

from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors
from skhash.neighbors.store.decoder import METRICS

MAX_QUERIES, MAX_OWN, MAX_K = 60, 300, 150
shares = st.sampled_from((None, 0.03, 0.5, 0.97))


class LiveIndex(RuleBasedStateMachine):
    """`HammingNeighbors`: rows come, go, move and are asked for."""

    tolerance, n_candidates = 0, None

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self.stack.enter_context(folder), "saved")

    def teardown(self):
        self.stack.close()

    @initialize(
        rng=rngs,
        n=sizes,
        n_bits=lengths,
        packed=st.booleans(),
        id_kind=st.sampled_from((None, int, str)),
        form=forms,
        data=st.data(),
    )
    def fit(self, rng, n, n_bits, packed, id_kind, form, data):
        self.stack.enter_context(chance_chooses(rng))
        self.codes, self.n_bits = Codes(rng, n_bits), n_bits
        self.packed, self.id_kind = packed, id_kind
        self.rows, self.live, self.n_added = {}, np.ones(0, dtype=bool), 0
        self.index = self.make(rng, data.draw)
        self.add(rng, n, form)

    def make(self, rng, draw):
        return HammingNeighbors(packed=self.packed)

    @property
    def store(self):
        """The index that holds the codes."""
        return self.index

    @property
    def names(self):
        return self.rows.get("ids", np.arange(len(self.live)))

    def as_codes(self, bits, form):
        codes = np.packbits(bits, axis=1) if self.packed else bits
        return formed(codes, form, any_type=not self.packed)

    def draw_rows(self, rng, n):
        """Draw rows; the first may get the id of one that was removed."""
        rows = {"bits": self.codes.draw(rng, n), "y": rng.integers(0, 5, n)}
        ids = 7 * np.arange(self.n_added, self.n_added + n) - 50
        if self.id_kind:
            rows["ids"] = ids.astype(self.id_kind)
            free = np.setdiff1d(self.names[~self.live], self.names[self.live])
            rows["ids"] = np.append(free[:1], rows["ids"])[:n].astype(rows["ids"].dtype)
        return rows

    def give(self, rows, form):
        method = self.index.partial_fit if self.rows else self.index.fit
        rows = dict(rows)
        method(self.as_codes(rows.pop("bits"), form), rows.pop("y"), **rows)

    @rule(rng=rngs, n=st.integers(1, 300), form=forms)
    def add(self, rng, n, form):
        rows = self.draw_rows(rng, n)
        self.give(rows, form)
        self.n_added += n
        self.live = np.append(self.live, np.ones(n, dtype=bool))
        for name, own in rows.items():
            self.rows[name] = np.concatenate([self.rows.get(name, own[:0]), own])

    @rule(rng=rngs, share=st.sampled_from((0.0, 0.01, 0.3, 0.9)))
    def remove(self, rng, share):
        gone = self.live & (rng.random(len(self.live)) < share)
        self.store.remove(rng.permutation(self.names[gone]))
        self.live = self.live & ~gone

    @rule()
    def compact(self):
        self.store.compact()
        self.rows = {name: rows[self.live] for name, rows in self.rows.items()}
        self.live = self.live[self.live]

    @rule(reach=st.integers(0, 300), what=st.sampled_from(("n_neighbors", "radius")))
    def prepare(self, reach, what):
        if hasattr(self.index, "prepare"):
            self.index.prepare(10**6, **{what: max(1, reach)})

    @rule(way=st.sampled_from(("read", "map", "unchecked map", "pickle", "copy")))
    def move(self, way):
        if way == "pickle":
            self.index = pickle.loads(pickle.dumps(self.index))
        elif way == "copy":
            self.index = copy.deepcopy(self.index)
        else:
            self.index.save(self.folder)
            mmap, verify = "map" in way, "unchecked" not in way
            self.index = type(self.index).load(self.folder, mmap=mmap, verify=verify)

    @rule(rng=rngs)
    def refuse(self, rng):
        """Ask for what cannot be: the index is as before."""
        unknown = ["nobody"] if self.id_kind is str else [-51]
        rows = self.draw_rows(rng, 2)
        calls = [lambda: self.store.remove(unknown)]
        calls += [lambda: self.store.kneighbors(np.ones((1, 3000)))]
        if self.id_kind and self.live.any():
            rows["ids"][0] = self.names[self.live][0]
            calls.append(lambda: self.give(rows, ("u1", "C")))
        for call in calls:
            with pytest.raises(ValueError):
                call()

    @invariant()
    def holds_what_it_should(self):
        assert_array_equal(self.store.live_, self.live)
        packed = np.packbits(self.rows["bits"], axis=1)
        assert_array_equal(self.store.packed_codes_, packed)
        for name in ("y", "ids"):
            assert hasattr(self.store, f"{name}_") == (name in self.rows)
            if name in self.rows:
                assert_array_equal(getattr(self.store, f"{name}_"), self.rows[name])

    @rule(
        rng=rngs,
        n_queries=st.integers(1, MAX_QUERIES),
        form=forms,
        own=st.booleans(),
        masked=shares,
        chosen=shares,
        algorithm=st.sampled_from(("auto", "brute", "multi_index", "pruned")),
        n_jobs=st.sampled_from((1, 2, None)),
    )
    def ask(self, rng, n_queries, form, own, masked, chosen, algorithm, n_jobs):
        """Compare nearest codes, those within a radius, and graphs of both."""
        n = len(self.live)
        own = own and n <= MAX_OWN and self.live.all() and self.finds_own()
        may_find, filters = self.draw_filters(rng, masked, chosen)
        X, scores, first_scores, more = self.draw_queries(rng, n_queries, form, own)
        allowed = np.repeat(may_find[None], len(scores), axis=0)
        if own:
            np.fill_diagonal(allowed, False)
        if self.n_candidates is not None:
            allowed = first_of(first_scores, allowed, self.n_candidates)
        self.store.n_jobs = n_jobs
        if hasattr(self.store, "algorithm"):
            self.store.algorithm = algorithm
        with torch_answers(rng) if rng.random() < 0.1 else nullcontext():
            self.compare_nearest(rng, X, scores, allowed, {**filters, **more})
            self.compare_within(rng, X, scores, allowed, {**filters, **more})

    def compare_nearest(self, rng, X, scores, allowed, question):
        most = allowed.sum(axis=1).min()
        if not most:
            return
        k = int(min(most, rng.choice([1, 2, 5, rng.integers(1, MAX_K), MAX_K])))
        found = self.index.kneighbors(X, k, **question)
        assert_answers(found, scores, allowed, k, tolerance=self.tolerance)
        graph = self.index.kneighbors_graph(X, k, "distance", **question)
        assert_array_equal(graph.data, found[0].ravel())
        assert_array_equal(graph.indices, found[1].ravel())
        if "ids" in self.rows:
            named = self.index.kneighbors(X, k, return_ids=True, **question)
            assert_array_equal(named[1], self.names[found[1]])
            assert named[1].dtype == self.names.dtype

    def compare_within(self, rng, X, scores, allowed, question):
        radius = self.draw_radius(rng, scores)
        found = self.index.radius_neighbors(X, radius, **question)
        assert_answers(found, scores, allowed, radius=radius, tolerance=self.tolerance)
        graph = self.index.radius_neighbors_graph(X, radius, **question)
        assert_array_equal(graph.indices, np.concatenate(found[1]))
        assert (graph.data == 1).all()

    def finds_own(self):
        """Return whether it can be asked for the neighbours of its own rows."""
        return True

    def draw_filters(self, rng, masked, chosen):
        """Draw a mask and ids; return what may be found, and how to ask so."""
        may_find, filters = self.live, {}
        if masked is not None:
            filters["mask"] = mask = rng.random(len(may_find)) < masked
            may_find = may_find & mask
        if chosen is not None:
            some = self.live & (rng.random(len(may_find)) < chosen)
            names, may_find = self.names[some], may_find & some
            unknown = np.array([-51, -51]).astype(self.names.dtype)
            filters["ids"] = rng.permutation([*names, *unknown, *names[:1]])
        return may_find, filters

    def draw_queries(self, rng, n, form, own):
        """Draw queries: how to ask, their scores, and those that find candidates."""
        bits = self.rows["bits"] if own else self.codes.draw(rng, n)
        scores = hamming_distances(bits, self.rows["bits"])
        return None if own else self.as_codes(bits, form), scores, None, {}

    def draw_radius(self, rng, scores):
        if rng.random() < 0.05 or not scores.size:
            return self.n_bits + int(rng.integers(3))
        return int(np.quantile(scores, rng.choice([0, 0.001, 0.02, 0.3])))


class LiveVectors(LiveIndex):
    """`AsymmetricNeighbors`, by decoders, errors or vectors.

    All are small whole numbers times a power of two, so that scores are exact.
    """

    def make(self, rng, draw):
        self.by = draw(st.sampled_from(("decoder", "errors", "vectors", "both")))
        self.metric = draw(
            st.sampled_from(METRICS[: None if self.by != "errors" else 1])
        )
        self.kind = draw(st.sampled_from(("f2", "f4", "f8", ">f4")))
        self.n_features = draw(st.integers(1, 6))
        block = draw(st.sampled_from((1, 4, 8)))
        entries = (2**block,) if block > 1 else ()
        shape = -(-self.n_bits // block), *entries, self.n_features
        self.codebook = rng.integers(-1, 2, shape).astype(float)
        self.offset = rng.integers(-3, 4, self.n_features).astype(float)
        if self.metric == "cosine":
            self.tolerance = 2e-5
        if (self.by, self.metric) != ("both", "cosine") and draw(st.booleans()):
            self.n_candidates = draw(sizes)
        options = {"metric": self.metric, "n_candidates": self.n_candidates}
        return AsymmetricNeighbors(packed=self.packed, **options)

    def draw_rows(self, rng, n):
        rows = super().draw_rows(rng, n)
        if self.by in ("vectors", "both"):
            rows["vectors"] = self.draw_vectors(rng, n).astype(self.kind)
        if self.by == "errors":
            rows["errors"] = 4.0 * rng.integers(0, 9, n)
        return rows

    def draw_vectors(self, rng, n):
        return rng.integers(-4, 5, (n, self.n_features)).astype(float)

    def give(self, rows, form):
        rows = dict(rows)
        if not self.rows and self.by != "vectors":
            rows["decoder"] = self.codebook, self.offset
        if "vectors" in rows:
            rows["vectors"] = formed(rows["vectors"], form, any_type=False)
        super().give(rows, form)

    def decode(self):
        return decoded(self.rows["bits"], self.codebook, self.offset)

    def finds_own(self):
        return "vectors" in self.rows

    def draw_queries(self, rng, n, form, own):
        vectors = self.rows.get("vectors")
        vectors = self.decode() if vectors is None else vectors.astype(float)
        queries, codes, more = vectors, self.rows["bits"], {}
        if not own:
            queries, codes = self.draw_vectors(rng, n), self.codes.draw(rng, n)
            more = {"codes": self.as_codes(codes, form)}
        scores = scores_of(queries, vectors, self.metric)
        if "errors" in self.rows:
            scores += 0.25 * self.rows["errors"]
        first_scores = hamming_distances(codes, self.rows["bits"])
        if self.by == "both":
            first_scores = scores_of(queries, self.decode(), self.metric)
        any_sparse = "vectors" not in self.rows
        X = None if own else formed(queries, form, any_sparse=any_sparse)
        return X, scores, first_scores, more

    def draw_radius(self, rng, scores):
        share = rng.choice([0, 0.001, 0.02, 0.3])
        return float(np.quantile(scores, share, method="lower")) if scores.size else 0.0


for machine in (LiveIndex, LiveVectors):
    case = machine.TestCase
    case.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
    globals()[f"Test{machine.__name__}"] = case
