"""The audit: methods times lengths, each fitted, timed and searched."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from numbers import Integral, Real
from typing import Annotated

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skhash._versions import processor
from skhash.auditing.choices import name_in, name_of
from skhash.auditing.evidence import gather_evidence
from skhash.auditing.growth import check_growth, measure_growth
from skhash.auditing.measure import Task, measure_bytes, measure_encoder, timed_fit
from skhash.auditing.peers import PEERS, measure_peer
from skhash.auditing.result import AuditResult
from skhash.auditing.rows import as_rows, split_rows
from skhash.codes import packed_width
from skhash.linear import ITQHash, PCAHash, RandomHyperplaneHash
from skhash.metrics import true_neighbors
from skhash.neural import NeighborHash, SGHEncoder
from skhash.quantization import AdditiveQuantizer
from skhash.utils._sklearn import Interval
from skhash.utils.parameters import ArrayLike, Count, Metric, RandomState, checked
from skhash.utils.threads import granted_cores

METHODS = {
    "bytes": AdditiveQuantizer,
    "itq": ITQHash,
    "sgh": SGHEncoder,
    "neighbor": NeighborHash,
    "pca": PCAHash,
    "lsh": RandomHyperplaneHash,
}
# Lengths of the other methods follow from the number of columns.
METHODS_OF_ANY_LENGTH = (*METHODS, "pq")
WHOLE_BYTES = "bytes", "pq"  # lengths are rounded up to these

# Far above any useful code: longer ones are typing errors that fill the memory.
MAX_BITS = 2**16


@checked
def audit(
    X,
    y=None,
    *,
    n_bits: ArrayLike = (16, 32, 64, 128),
    methods: ArrayLike = (*METHODS, *PEERS),
    metric: Metric = "euclidean",
    n_neighbors: Count = 10,
    rerank: Count | None = 100,
    sample: Count | None = None,
    n_queries: Count = 1000,
    target_recall: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.9,
    n_vectors: Count | None = None,
    device: str = "auto",
    random_state: RandomState = 0,
    progress: Callable[[str, AuditResult | None], None] | None = None,
) -> AuditResult:
    """Measure what codes of your vectors cost and find, and recommend a search.

    Queries are drawn at random and held out. The other vectors are the database, on
    which every method is fitted at every code length (on at most 100,000 vectors).
    `NeighborHash` is fitted at the largest length only, and truncated to the others.
    All are timed, and scored by their recall, the share of the true neighbours that
    they find:

    - ``recall``: with the codes alone, compared by Hamming distance for encoders, and
      with uncompressed queries for `skhash.AdditiveQuantizer`;
    - ``recall_reranked``: among the first `rerank` codes, which is the recall after
      these are re-ranked by their vectors.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Vectors, one per row. Of a memory map, only the sampled rows are read.
    y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_labels), \
            default=None
        Classes, or a 0/1 indicator matrix of several labels. If given, the mean average
        precision is measured too.
    n_bits : sequence of int, default=(16, 32, 64, 128)
        Code lengths to try, in bits.
    methods : sequence of {"bytes", "itq", "sgh", "neighbor", "pca", "lsh", "sign", \
            "int8", "pq", "rabitq"}, default=all
        Methods to try, all with their defaults.

        - "bytes": `AdditiveQuantizer`, at whole bytes.
        - "itq", "sgh", "neighbor", "pca", "lsh": the encoders `ITQHash`, `SGHEncoder`,
          `NeighborHash`, `PCAHash` and `RandomHyperplaneHash`. `NeighborHash` is
          fitted once with `metric`, and its codes are truncated to each of `n_bits`.
        - "sign", "int8": for comparison, a bit or a byte per column.
        - "pq", "rabitq": for comparison, product quantization and RaBitQ of faiss, if
          it is installed.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        Metric by which true neighbours are found. With "cosine", encoders scale vectors
        to unit length.
    n_neighbors : int, default=10
        Number of true neighbours to find per query.
    rerank : int, default=100
        Number of candidates to re-rank by their vectors, for each query. With None, or
        the same number as `n_neighbors`, the recommended search needs no vectors.
    sample : int, default=None
        Number of random rows to use, including queries; by default all. Recall falls as
        the database grows, so a small sample overestimates it; see `n_vectors`.
    n_queries : int, default=1000
        Number of queries, at most a fifth of the rows.
    target_recall : float, default=0.9
        Recall that the recommended search must reach, after re-ranking.
    n_vectors : int, default=None
        Number of vectors that you will search; by default those of `X`. If given, the
        method to recommend is fitted again, to four fifths of the vectors (at most
        100,000), and its recall is measured among growing parts of the others. If the
        recall to expect among `n_vectors` (``result.growth.expected``) is below
        `target_recall`, the same is tried with a method that finds more. Vectors that
        were fitted are found more often, so if they will be a large share, expect
        slightly more.
    device : str, default="auto"
        Where to fit and apply encoders, and find true neighbours. "bytes" uses the CPU.
    random_state : int, RandomState instance or None, default=0
        Seed for the sample, the queries and the methods.
    progress : callable, default=None
        Function called before each step, with a line of text and the `AuditResult` so
        far, which is None before the first encoder is measured.

    Returns
    -------
    result : AuditResult
        The measurements (``rows``, ``to_frame()``, ``plot()``, ``to_html()``) and the
        recommendation (``recommended``, ``reason``, ``encoder``, ``usage``).

    Raises
    ------
    ValueError
        If an argument is out of range, if there are too few rows, or if no method can
        make codes of any of the lengths.

    Notes
    -----
    A KeyboardInterrupt ends the audit and is passed on to the caller. The last call of
    `progress` received the result so far, whose ``skipped`` lists what was not
    measured.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import audit
    >>> X, y = load_digits(return_X_y=True)
    >>> result = audit(X, y, n_bits=[16, 32], methods=["itq", "lsh"])
    >>> [(row.method, row.n_bits) for row in result.rows]
    [('itq', 16), ('itq', 32), ('lsh', 16), ('lsh', 32)]
    >>> result.recommended.method
    'itq'
    """
    methods, n_bits = _check_choices(methods, n_bits)
    if rerank is not None and rerank < n_neighbors:
        raise ValueError(f"{rerank=} must be at least {n_neighbors=}.")
    n_candidates = int(rerank or n_neighbors)
    progress = progress or (lambda line, result: None)
    generator, X = check_random_state(random_state), as_rows(X)
    progress("reading the rows", None)
    data = split_rows(X, y, metric, sample, n_queries, n_candidates, generator)
    check_growth(n_vectors, data.database.shape[0], n_candidates)
    n_asked = f"{data.queries.shape[0]:,} queries"
    progress(f"finding the true neighbours of {n_asked}", None)
    options = {"metric": metric, "device": device}
    truth = true_neighbors(data.queries, data.database, n_neighbors, **options)
    options["random_state"] = int(generator.randint(np.iinfo(np.int32).max))
    task = Task(data, truth, n_candidates, metric, float(target_recall))
    seed = int(random_state) if isinstance(random_state, Integral) else None
    settings = _settings(task, seed, n_vectors)
    run = _Run(task, partial(_make, **options), settings, progress)
    run.measure_all(methods, n_bits)
    if not run.fitted:
        raise ValueError(f"Nothing could be measured: {'; '.join(run.skipped)}.")
    result = run.result() if n_vectors is None else run.result_among(generator)
    progress(f"looking at neighbours by {name_in(result)}", result)
    evidence = gather_evidence(result.encoder, task, X, generator)
    return replace(result, evidence=evidence)


def _settings(task, seed, n_vectors) -> dict:
    """Return the settings of a result."""
    data, k = task.data, task.truth.shape[1]
    return {
        "n_rows": data.n_rows,
        "n_vectors": int(n_vectors or data.n_rows),
        "n_database": data.database.shape[0],
        "n_queries": data.queries.shape[0],
        "n_train": data.train.shape[0],
        "n_features": data.database.shape[1],
        "sparse": sparse.issparse(data.database),
        "float_bytes_per_vector": data.float_bytes,
        "vector_type": data.kind,
        "metric": task.metric,
        "n_neighbors": k,
        "rerank": task.n_candidates if task.n_candidates > k else None,
        "date": f"{date.today()}",
        "processor": processor(),
        "n_cores": granted_cores(),
        "target_recall": task.target,
        "random_state": seed,
    }


def _make(method, n_bits, metric, device, random_state):
    """Return a quantizer, or an encoder for this metric, with defaults otherwise."""
    if method == "bytes":
        return AdditiveQuantizer(n_bits // 8)
    options = {"normalize": metric == "cosine"}
    if method == "neighbor":
        options["metric"] = metric
    return METHODS[method](n_bits, **options, device=device, random_state=random_state)


class _Run:
    """Measurements, one after the other.

    Parameters
    ----------
    task : Task
    make : callable
        Makes the estimator of a method and a length.
    settings : dict
        Settings of the audit; see `AuditResult`.
    progress : callable
        That of `audit`.

    Attributes
    ----------
    rows : list of AuditRow
    fitted : dict of estimators
        By the place of their row.
    skipped : list of str
    """

    def __init__(self, task, make, settings, progress):
        self.task, self.make, self.settings = task, make, settings
        self.progress = progress
        self.rows, self.fitted, self.skipped = [], {}, []
        self._nested = {}  # of each method, the encoder of all lengths and its seconds

    def measure_all(self, methods, n_bits):
        """Measure all methods and lengths; those that fail are skipped."""
        self._n_bits = n_bits
        asked = [
            (method, 8 * packed_width(bits) if method in WHOLE_BYTES else bits)
            for method in methods
            for bits in (n_bits if method in METHODS_OF_ANY_LENGTH else [None])
        ]
        asked = list(dict.fromkeys(asked))
        for number, code in enumerate(asked):
            step = f"{name_of(*code)} ({number + 1} of {len(asked)})"
            self.progress(step, self.result(asked[number:]))
            try:
                self._measure(*code)
            except ValueError as error:  # the others still count
                reason = str(error).partition(". ")[0].rstrip(".")
                self.skipped.append(f"{name_of(*code)}: {reason}")

    def result_among(self, generator) -> AuditResult:
        """Return the result for `n_vectors`, with the recall to expect among them.

        While that is below the target, a choice must have found more.
        """
        n_vectors, target, last = self.settings["n_vectors"], self.task.target, None
        result = self.result()
        while result.recommended is not last:
            step = f"measuring the recall of {name_in(result)} among growing numbers"
            self.progress(step, result)
            growth = measure_growth(result.encoder, self.task, n_vectors, generator)
            last, found = result.recommended, result.choice.recall
            if growth.expected < target:
                needed = np.nextafter(growth.needed(found, target), 2)
                result = self.result(needed=needed)
        return replace(result, growth=growth)

    def result(self, left=(), needed=None) -> AuditResult | None:
        """Return the result so far, or None before the first encoder.

        left : list of tuples (method, n_bits) that are not measured yet
        needed : as of `AuditResult.from_rows`
        """
        if not self.fitted:
            return None
        skipped = list(self.skipped)
        if left:
            skipped.append(f"not measured: {', '.join(name_of(*row) for row in left)}")
        rows = list(self.rows)
        parts = rows, self.fitted, self.settings, skipped
        return AuditResult.from_rows(*parts, needed)

    def _measure(self, method, bits) -> None:
        if method in PEERS:
            self.rows += measure_peer(method, bits, self.task)
            return
        if method == "bytes":
            encoder = self.make(method, bits)
            row = measure_bytes(encoder, self.task)
        else:
            encoder, seconds = self._fit(method, bits)
            row = measure_encoder(encoder, method, seconds, self.task)
        self.fitted[len(self.rows)] = encoder
        self.rows.append(row)

    def _fit(self, method, bits):
        """Return a fitted encoder and the seconds of its fit, None for a cut code."""
        train = self.task.data.train
        if method != "neighbor":  # the codes of that are nested: one fit serves all
            encoder = self.make(method, bits)
            return encoder, timed_fit(encoder, train)
        if method not in self._nested:
            encoder = self.make(method, max(self._n_bits))
            encoder.set_params(nested=self._n_bits)
            self._nested[method] = encoder, timed_fit(encoder, train)
        encoder, seconds = self._nested[method]
        if bits == encoder.n_bits:
            return encoder, seconds
        return encoder.truncate(bits), None


def _check_choices(methods, n_bits) -> tuple[list[str], list[int]]:
    """Return methods and lengths, each once."""
    known = [*METHODS, *PEERS]
    if not set(methods) <= {*known} or not set(methods) & METHODS.keys():
        raise ValueError(
            f"methods must be among {', '.join(known)}, with at least one of the first "
            f"{len(METHODS)}, got {list(methods)}."
        )
    are_lengths = [isinstance(n, Integral) and 1 <= n <= MAX_BITS for n in n_bits]
    if not are_lengths or not all(are_lengths):
        raise ValueError(
            f"n_bits must be one or more integers from 1 to {MAX_BITS}, got "
            f"{list(n_bits)}."
        )
    return list(dict.fromkeys(methods)), [int(bits) for bits in dict.fromkeys(n_bits)]
