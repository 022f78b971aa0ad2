"""Indexes that live through everything, beside plain arrays of what they hold."""

import copy
import pickle
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from decoded import numbers_of, rounded, scores_of_decoded
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.testing import assert_allclose, assert_array_equal
from stress.drawn import Codes, draw_form, formed, lengths, one_of, rngs, sizes
from stress.plain import (
    assert_answers,
    decoded,
    first_of,
    hamming_distances,
    jaccard_distances,
    scores_of,
)

import skhash
from skhash.linear import RandomHyperplaneHash
from skhash.neighbors import (
    AsymmetricNeighbors,
    HammingNeighbors,
    HashedNeighbors,
    JaccardNeighbors,
)
from skhash.neighbors.store.decoder import METRICS
from skhash.numerics._levels import numbers_of as read_numbers
from skhash.quantization import AdditiveQuantizer
from skhash.utils.arrays import unit_rows

MAX_QUERIES, MAX_OWN, MAX_K = 60, 300, 150
ALGORITHMS = ("auto", "brute", "multi_index", "pruned")
SHARES = (0.03, 0.5, 0.97)


class LiveIndex(RuleBasedStateMachine):
    """`HammingNeighbors`: rows come, go, move and are asked for."""

    tolerance, n_candidates, least, most = 0, None, 1, 0

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self.stack.enter_context(folder), "saved")

    def teardown(self):
        self.stack.close()

    @initialize(rng=rngs, n=sizes, n_bits=lengths)
    def fit(self, rng, n, n_bits):
        self.codes, self.n_bits = Codes(rng, n_bits), n_bits
        self.packed, self.id_kind = rng.random() < 0.5, one_of(rng, None, int, str)
        self.has_labels = rng.random() < 0.7
        self.rows, self.live, self.n_added = {}, np.ones(0, dtype=bool), 0
        self.index = self.make(rng)
        self.add(rng, max(n, self.least))

    def make(self, rng):
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
        rows = {"bits": self.codes.draw(rng, n)}
        if self.has_labels:
            rows["y"] = rng.integers(0, 5, n)
        ids = 7 * np.arange(self.n_added, self.n_added + n) - 50
        if self.id_kind:
            rows["ids"] = ids.astype(self.id_kind)
            free = np.setdiff1d(self.names[~self.live], self.names[self.live])
            rows["ids"] = np.append(free[:1], rows["ids"])[:n].astype(rows["ids"].dtype)
        return rows

    def give(self, rows, form, verb="partial_fit"):
        method = getattr(self.index, verb if self.rows else "fit")
        rows = dict(rows)
        method(self.as_codes(rows.pop("bits"), form), **rows)

    @rule(rng=rngs, n=st.integers(1, 300))
    def add(self, rng, n):
        self.put(rng, self.draw_rows(rng, n), "partial_fit")
        self.n_added += n

    @rule(rng=rngs, n=st.integers(1, 300))
    def replace(self, rng, n):
        """Rows take the ids of others, and places behind all."""
        gone = rng.permutation(np.flatnonzero(self.live))[:n]
        if self.id_kind and len(gone):
            names = {"ids": self.names[gone]}
            self.put(rng, self.draw_rows(rng, len(gone)) | names, "replace")
            self.live[gone] = False

    def put(self, rng, rows, verb):
        self.give(rows, draw_form(rng), verb)
        rows |= self.numbers_of(rows)
        self.live = np.append(self.live, np.ones(len(rows["bits"]), dtype=bool))
        self.rows = {
            name: np.concatenate([self.rows.get(name, own[:0]), own])
            for name, own in rows.items()
        }
        self.round_numbers()

    def numbers_of(self, rows):
        """Return what an index keeps of new rows besides their codes."""
        return {}

    def round_numbers(self):
        """Round what it keeps, as it does."""

    @rule(rng=rngs, share=st.sampled_from((0.0, 0.01, 0.3, 0.9, 1.0)))
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

    @rule(rng=rngs)
    def move(self, rng):
        """Save and open the index, or copy it: answers are the same, bit for bit."""
        X, _, _, more = self.draw_queries(rng, own=False)
        k = min(int(self.live.sum()), self.n_candidates or 9, 9)
        before = self.index.kneighbors(X, k, **more) if k else ()
        self.move_by(one_of(rng, "read", "map", "unchecked map", "pickle", "copy"))
        after = self.index.kneighbors(X, k, **more) if k else ()
        for one, other in zip(before, after, strict=True):
            assert_array_equal(one, other)

    def move_by(self, way):
        if way == "pickle":
            self.index = pickle.loads(pickle.dumps(self.index))
        elif way == "copy":
            self.index = copy.deepcopy(self.index)
        else:
            self.index.save(self.folder)
            mmap, verify = "map" in way, "unchecked" not in way
            self.index = skhash.load(self.folder, mmap=mmap, verify=verify)

    @rule(rng=rngs)
    def refuse(self, rng):
        """Ask for what cannot be: the index is as before."""
        unknown = ["nobody"] if self.id_kind is str else [-51]
        rows = self.draw_rows(rng, 2)
        calls = [lambda: self.store.remove(unknown)]
        calls += [lambda: self.store.kneighbors(np.ones((1, 3000)))]
        if self.id_kind:
            twice = np.append(self.names[self.live][:1], unknown)
            others = self.draw_rows(rng, len(twice)) | {"ids": twice}
            calls.append(lambda: self.give(others, ("u1", "C"), "replace"))
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

    @rule(rng=rngs)
    def score(self, rng):
        """Compare the score with that of an index of the codes that are left."""
        is_asked = self.has_labels and type(self.index) is HammingNeighbors
        if is_asked and self.live.any():
            asked = (
                self.as_codes(self.codes.draw(rng, 9), ("u1", "C")),
                np.arange(9) % 5,
            )
            left = self.as_codes(self.rows["bits"][self.live], ("u1", "C"))
            rebuilt = HammingNeighbors(packed=self.packed)
            rebuilt.fit(left, self.rows["y"][self.live])
            assert_array_equal(self.index.score(*asked), rebuilt.score(*asked))

    @rule(rng=rngs, n_questions=st.integers(1, 4))
    def ask(self, rng, n_questions):
        """Compare nearest codes, those within a radius, and graphs of both."""
        for _ in range(n_questions):
            own = rng.random() < 0.2 and self.finds_own()
            may_find, question = self.draw_filters(rng)
            X, scores, first_scores, more = self.draw_queries(rng, own)
            allowed = np.repeat(may_find[None], len(scores), axis=0)
            if own:
                np.fill_diagonal(allowed, False)
            if self.n_candidates is not None:
                allowed = first_of(first_scores, allowed, self.n_candidates)
            self.store.n_jobs = one_of(rng, 1, 2, None)
            if hasattr(self.store, "algorithm"):
                self.store.algorithm = one_of(rng, *ALGORITHMS)
            task = rng, X, scores, allowed, question | more
            self.compare_nearest(*task)
            if hasattr(self.index, "radius_neighbors"):
                self.compare_within(*task)

    def compare_nearest(self, rng, X, scores, allowed, question):
        k, radius = int(rng.integers(1, MAX_K)), self.draw_radius(rng, scores)
        if k <= (self.n_candidates or k):
            found = self.index.kneighbors(X, k, radius=radius, **question)
            assert_answers(found, scores, allowed, k, radius, self.tolerance)
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
        if not question:
            graph = self.index.radius_neighbors_graph(X, radius, "distance")
            assert_array_equal(graph.indices, np.concatenate(found[1]))
            assert_array_equal(graph.data, np.concatenate(found[0]))

    def finds_own(self):
        """Return whether it can be asked for the neighbours of each live row."""
        return 0 < len(self.live) <= MAX_OWN and self.live.all()

    def draw_filters(self, rng):
        """Draw a mask and ids; return what may be found, and how to ask so."""
        may_find, filters = self.live, {}
        if rng.random() < 0.4:
            filters["mask"] = mask = rng.random(len(may_find)) < one_of(rng, *SHARES)
            may_find = may_find & mask
        if rng.random() < 0.3:
            some = self.live & (rng.random(len(may_find)) < one_of(rng, *SHARES))
            names, may_find = self.names[some], may_find & some
            unknown = np.array([-51, -51]).astype(self.names.dtype)
            filters["ids"] = rng.permutation([*names, *unknown, *names[:1]])
        if rng.random() < 0.3:
            some = self.live & (rng.random(len(may_find)) < one_of(rng, *SHARES))
            unknown = np.array([-51, -51]).astype(self.names.dtype)
            filters["exclude"] = [*self.names[some], *unknown]
            may_find = may_find & ~some
        return may_find, filters

    def draw_queries(self, rng, own):
        """Draw queries: how to ask, their scores, and those that find candidates."""
        self.asked = bits = self.codes.draw(rng, rng.integers(1, MAX_QUERIES))
        bits = self.rows["bits"] if own else bits
        scores = hamming_distances(bits, self.rows["bits"])
        return None if own else self.as_codes(bits, draw_form(rng)), scores, None, {}

    def draw_radius(self, rng, scores):
        if rng.random() < 0.05 or not scores.size:
            return self.n_bits + int(rng.integers(3))
        return int(np.quantile(scores, rng.choice([0, 0.001, 0.02, 0.3])))


class LiveVectors(LiveIndex):
    """`AsymmetricNeighbors`, by decoders, some with errors.

    All are small whole numbers times a power of two, so that scores are exact.
    """

    def make(self, rng):
        self.has_errors, self.metric = rng.random() < 0.5, one_of(rng, *METRICS)
        self.has_errors &= self.metric != "inner_product"
        self.n_features = rng.integers(1, 7)
        block = one_of(rng, 1, 4, 8)
        entries = (2**block,) if block > 1 else ()
        shape = -(-self.n_bits // block), *entries, self.n_features
        power, self.power = self.draw_powers(rng)
        self.scale = 2.0**power
        self.decoder = SimpleNamespace(
            codebook_=rng.integers(-1, 2, shape) * self.scale,
            offset_=rng.integers(-3, 4, self.n_features) * self.scale,
            n_bits_=self.n_bits,
        )
        if self.metric == "cosine":
            self.tolerance = 2e-5
        return AsymmetricNeighbors(packed=self.packed, metric=self.metric)

    def draw_rows(self, rng, n):
        rows = super().draw_rows(rng, n)
        if self.has_errors and self.metric == "cosine":
            is_zero = rng.random(n) < 0.2
            rows["errors"] = one_of(rng, np.zeros(n), np.where(is_zero, np.inf, 0))
        elif self.has_errors:
            rows["errors"] = self.scale**2 * 4.0 * rng.integers(0, 9, n)
        return rows

    def draw_powers(self, rng):
        """Draw powers of two for vectors and for queries; float32 ends at 2^+-126."""
        if self.metric == "cosine":
            return one_of(rng, -40, 0, 40), one_of(rng, -40, 0, 40)
        half = one_of(rng, -65, -61, 0, 0, 50)
        other = half if self.metric == "euclidean" else one_of(rng, half, half, 0)
        return half, other

    def draw_vectors(self, rng, n):
        return rng.integers(-4, 5, (n, self.n_features)).astype(float)

    def give(self, rows, form, verb="partial_fit"):
        decoder = {} if self.rows else {"decoder": self.decoder}
        super().give(rows | decoder, form, verb)

    def decode(self, bits=None):
        by, bits = self.decoder, self.rows["bits"] if bits is None else bits
        return decoded(bits, by.codebook_, by.offset_)

    def numbers_of(self, rows):
        if self.metric == "inner_product":
            return {}
        by_angle, errors = self.metric == "cosine", rows.get("errors", 0)
        added = 0 if by_angle else 0.25 * errors
        task = self.decode(rows["bits"]), self.decoder.offset_, by_angle, added
        return {"numbers": np.where(np.isinf(errors), 0, numbers_of(*task))}

    def round_numbers(self):
        if "numbers" in self.rows:
            self.rows["numbers"] = rounded(self.rows["numbers"])

    def scores_by_decoder(self, queries):
        task = self.decode(), self.decoder.offset_, self.metric
        return scores_of_decoded(queries, *task, numbers=self.rows.get("numbers"))

    def finds_own(self):
        return False  # it has no vectors to ask for

    def draw_queries(self, rng, own):
        n = rng.integers(1, MAX_QUERIES)
        queries = self.draw_vectors(rng, n) * 2.0**self.power
        X = formed(queries, draw_form(rng), any_sparse=True)
        return X, self.scores_by_decoder(queries), None, {}

    def draw_radius(self, rng, scores):
        if not scores.size:
            return 0.0
        share = rng.choice([0, 0.001, 0.02, 0.3])
        return float(np.quantile(scores, share, method="lower"))


class LiveSearch(LiveVectors):
    """`HashedNeighbors`: codes, and decoders or vectors behind them.

    Fitted codebooks hold any numbers, so that scores are compared up to rounding.
    """

    least = 9  # rows for an encoder; fewer may all be equal

    def make(self, rng):
        self.by = one_of(rng, "codes", "decoder", "bytes", "vectors", "bytes, vectors")
        self.packed, self.n_features = True, rng.integers(2, 9)
        self.metric, params = one_of(rng, *METRICS), {}
        encoder = RandomHyperplaneHash(min(self.n_bits, 40), random_state=0)
        if "bytes" in self.by:
            n_bytes = int(rng.integers(1, 4))
            encoder = AdditiveQuantizer(n_bytes, n_alternations=1, beam_width=1)
        if "vectors" in self.by:
            # Which decoded vectors come first may be a matter of rounding.
            some = int(2 ** rng.uniform(0, 9))
            self.n_candidates = some if self.by == "vectors" else 10**6
            params = {"rerank": self.n_candidates, "vectors": True}
        if self.by == "decoder":
            params = {"index": AsymmetricNeighbors()}
        return HashedNeighbors(encoder, metric=self.metric, **params)

    @property
    def store(self):
        return self.index.index_

    @property
    def compares_bits(self):
        """Whether codes are found by Hamming distances."""
        return self.by in ("codes", "vectors")

    def scaled(self, vectors):
        return unit_rows(vectors) if self.metric == "cosine" else vectors

    def draw_rows(self, rng, n):
        rows = LiveIndex.draw_rows(self, rng, n)
        return rows | {"vectors": self.draw_vectors(rng, n)}

    def give(self, rows, form, verb="partial_fit"):
        method = getattr(self.index, verb if self.rows else "fit")
        more = {name: rows[name] for name in ("y", "ids") if name in rows}
        method(formed(rows["vectors"], form), **more)
        packed = self.store.packed_codes_[len(self.live) :]
        if self.compares_bits:
            expected = self.index.encoder_.transform(self.scaled(rows["vectors"]))
            assert_array_equal(packed, np.packbits(expected, axis=1))
        n_bits = getattr(self.index.encoder_, "n_bits", None)
        rows["bits"] = np.unpackbits(packed, axis=1, count=n_bits)

    def numbers_of(self, rows):
        return {}  # as the index rounds them, see `scores_by_decoder`

    def draw_queries(self, rng, own):
        vectors, first = self.rows["vectors"], None
        queries = self.draw_vectors(rng, rng.integers(1, MAX_QUERIES))
        queries = vectors if own else queries
        has_vectors = self.n_candidates is not None
        X = None
        if not own:
            X = formed(queries, draw_form(rng), any_sparse=not has_vectors)
        if self.compares_bits:
            codes = self.index.encoder_.transform(self.scaled(queries))
            first = hamming_distances(codes, self.rows["bits"])
        if self.by == "codes":
            return X, first, None, {}
        scores = scores_of(queries, vectors, self.metric)
        first = scores if first is None else first
        if not has_vectors:
            scores = self.scores_by_decoder(self.scaled(queries))
        exact = has_vectors and self.metric != "cosine"
        self.tolerance = 0 if exact else self.rounding(scores)
        return X, scores, first, {}

    def rounding(self, scores):
        """Return by how much scores may differ."""
        rounding = 2e-5 * (1 + np.square(scores).max(initial=0))
        if self.n_candidates is not None:
            return 1e-7
        if self.metric == "euclidean":  # roots of numbers near 0
            return rounding**0.5
        if self.metric == "cosine":
            # The direction of a row that is nearly 0 is that of its rounding.
            least = np.linalg.norm(self.decode(), axis=1).min(initial=1)
            return rounding / np.clip(least, 1e-9, 1)
        return rounding

    @property
    def decoder(self):
        return self.index.encoder_ if self.by == "bytes" else self.index.decoder_

    def scores_by_decoder(self, queries):
        """Return scores by the index's own numbers, which are nearly what they are."""
        by_angle, numbers = self.metric == "cosine", None
        if self.metric != "inner_product":
            held = self.store._store
            keys = held.decoder.keys_of_levels(held.levels)
            bits = held.decoder.fraction_bits
            numbers = read_numbers(keys, bits).astype(float)
            vectors, rows = self.decode(), self.scaled(self.rows["vectors"])
            errors = np.square(rows - vectors).sum(axis=1)
            task = vectors, self.decoder.offset_, by_angle, 0.25 * errors
            expected = numbers_of(*task)
            if by_angle:
                expected *= rows.any(axis=1)
            options = {"rtol": 2.0 ** -(bits + 1) + 1e-5, "atol": 1e-12}
            assert_allclose(numbers, expected, **options)
        task = self.decode(), self.decoder.offset_, self.metric
        return scores_of_decoded(queries, *task, numbers=numbers)

    def draw_radius(self, rng, scores):
        kind = LiveIndex if self.by == "codes" else LiveVectors
        return kind.draw_radius(self, rng, scores)

    def finds_own(self):
        has_own = self.by == "codes" or self.n_candidates is not None
        return has_own and LiveIndex.finds_own(self)


class LiveFingerprints(LiveIndex):
    """`JaccardNeighbors`: distances are compared to the last bit."""

    def make(self, rng):
        return JaccardNeighbors(packed=self.packed)

    def draw_queries(self, rng, own):
        X, _, *rest = super().draw_queries(rng, own)
        bits = self.rows["bits"] if own else self.asked
        return X, jaccard_distances(bits, self.rows["bits"]), *rest

    def draw_radius(self, rng, scores):
        return LiveVectors.draw_radius(self, rng, scores)


MACHINES = LiveIndex, LiveVectors, LiveSearch, LiveFingerprints


@pytest.mark.parametrize("machine", MACHINES)
def test_lives(machine):
    """Every change once, in some order, with questions after each."""
    for seed in range(16):
        rng, held = np.random.default_rng(seed), machine()
        with held.stack:
            held.fit(rng, one_of(rng, 5, 40, 600), one_of(rng, 3, 13, 64, 100))
            changes = [
                partial(held.add, rng, 40),
                partial(held.replace, rng, 40),
                partial(held.remove, rng, one_of(rng, 0.0, 0.3, 1.0)),
                held.compact,
                partial(held.move, rng),
                partial(held.refuse, rng),
                partial(held.score, rng),
            ]
            for place in rng.permutation(len(changes)):
                changes[place]()
                held.holds_what_it_should()
                held.ask(rng, 1)


TestLiveIndex, TestLiveVectors, TestLiveSearch, TestLiveFingerprints = (
    one.TestCase for one in MACHINES
)
for case in (TestLiveIndex, TestLiveVectors, TestLiveSearch, TestLiveFingerprints):
    case.pytestmark = [pytest.mark.long]
    case.settings = settings(max_examples=8, stateful_step_count=12)
del case
