"""The audit: methods times lengths, each fitted, timed and searched."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skhash._versions import processor
from skhash.auditing.evidence import gather_evidence
from skhash.auditing.measure import Task, measure_decoder, measure_encoder, timed_fit
from skhash.auditing.peers import PEERS, measure_peer
from skhash.auditing.result import AuditResult
from skhash.auditing.rows import as_rows, split_rows
from skhash.linear import ITQHash, PCAHash, RandomHyperplaneHash
from skhash.metrics import true_neighbors
from skhash.neural import NeighborHash, SGHEncoder
from skhash.utils._sklearn import Interval, StrOptions, validate_params
from skhash.utils.ranges import COUNT
from skhash.utils.threads import granted_cores

METHODS = {
    "itq": ITQHash,
    "sgh": SGHEncoder,
    "neighbor": NeighborHash,
    "pca": PCAHash,
    "lsh": RandomHyperplaneHash,
    # It gives the length alone: codes are made by a decoder.
    "residual": RandomHyperplaneHash,
}
# Lengths of the other methods follow from the number of columns.
METHODS_OF_ANY_LENGTH = (*METHODS, "pq")

# Far above any useful code: longer ones are typing errors that fill the memory.
MAX_BITS = 2**16


@validate_params(
    {
        "n_bits": ["array-like"],
        "methods": ["array-like"],
        "metric": [StrOptions({"euclidean", "cosine", "inner_product"})],
        "k": COUNT,
        "rescore": COUNT,
        "sample": [*COUNT, None],
        "n_queries": COUNT,
        "target_recall": [Interval(Real, 0, 1, closed="right")],
        "device": [str],
        "random_state": ["random_state"],
    }
)
def audit(
    X,
    y=None,
    *,
    n_bits: Sequence[int] = (16, 32, 64, 128),
    methods: Sequence[str] = (*METHODS, *PEERS),
    metric: str = "euclidean",
    k: int = 10,
    rescore: int = 100,
    sample: int | None = None,
    n_queries: int = 1000,
    target_recall: float = 0.9,
    device: str = "auto",
    random_state=0,
    progress: Callable[[str, AuditResult | None], None] | None = None,
) -> AuditResult:
    """Measure the cost and the recall of binary codes of these vectors.

    Queries are drawn at random and held out. The other rows are the database, and the
    encoders are fitted on them (on at most 100,000). Each method is fitted at each
    length; `NeighborHash` is fitted at the longest only, and cut to the others. All are
    timed, and scored by the share of the `k` true neighbours that is found

    - by Hamming distance (``recall``), with the codes of encoders,
    - by uncompressed queries, compared with decoded codes (``recall_asymmetric``), with
      those that a `skhash.AdditiveQuantizer` makes,
    - and among the first `rescore` candidates of each of these (``recall_rescored`` and
      ``recall_asymmetric_rescored``), which is the recall after they are ranked again
      by the float vectors.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Real vectors. Of a memory map only the sampled rows are read.
    y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_labels), \
            default=None
        Classes, or an indicator of several labels; with them the mean average precision
        is measured too.
    n_bits : sequence of int, default=(16, 32, 64, 128)
        Lengths to try.
    methods : sequence of {"itq", "sgh", "neighbor", "pca", "lsh", "residual", "sign", \
            "int8", "pq", "rabitq"}, default=all
        Methods to try: `ITQHash`, `SGHEncoder`, `NeighborHash`, `PCAHash`,
        `RandomHyperplaneHash`, with their defaults, and
        `AdditiveQuantizer`, which needs no encoder. `NeighborHash` is
        given `metric`, and `n_bits` as the lengths to be `nested`. The last four are
        for comparison: a bit or a byte for each column, and product quantization and
        RaBitQ of faiss, if it is installed.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The measure of true neighbours. For "cosine" the encoders normalize the rows.
    k : int, default=10
        Number of true neighbours to find.
    rescore : int, default=100
        Number of candidates to re-rank by the vectors. If it is `k`, nothing is
        re-ranked, and the recommended search needs no vectors.
    sample : int, default=None
        Number of random rows to use, including queries; by default all. Recall falls as
        the database grows, so a small sample gives too high a recall.
    n_queries : int, default=1000
        Number of queries, at most a fifth of the rows.
    target_recall : float, default=0.9
        The recall, after re-ranking, that the recommended search has to reach.
    device : str, default="auto"
        Where to fit, encode and find true neighbours.
    random_state : int, RandomState instance or None, default=0
        Draws sample and queries, and seeds the encoders.
    progress : callable, default=None
        Called before each step with a line of text and with the `AuditResult` of the
        rows measured so far, or None before the first encoder.

    Returns
    -------
    result : AuditResult
        With ``rows``, ``recommended``, ``search``, ``reason``, ``encoder``,
        ``decoder``, ``usage``, ``to_frame()`` and ``plot()``.

    Raises
    ------
    ValueError
        If an argument is out of its range, the rows are too few, or no method can make
        any of the lengths.

    Notes
    -----
    A KeyboardInterrupt ends the audit and reaches the caller. The last call of
    `progress` got the result so far; its ``skipped`` names the rest.

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
    methods, n_bits = _check_choices(methods, n_bits, k, rescore)
    progress = progress or (lambda line, result: None)
    generator, X = check_random_state(random_state), as_rows(X)
    progress("reading the rows", None)
    data = split_rows(X, y, metric, (sample, n_queries, rescore), generator)
    n_asked = f"{data.queries.shape[0]:,} queries"
    progress(f"finding the true neighbours of {n_asked}", None)
    truth = true_neighbors(data.queries, data.database, k, metric=metric, device=device)
    drawn = int(generator.randint(np.iinfo(np.int32).max))
    make = partial(_make_encoder, metric=metric, device=device, random_state=drawn)
    task = Task(data, truth, rescore, metric, float(target_recall))
    seed = int(random_state) if isinstance(random_state, Integral) else None
    settings = _settings(task, seed)
    run = _Run(task, make, settings, progress)
    run.measure_all(methods, n_bits)
    if not run.fitted:
        raise ValueError(f"Nothing could be measured: {'; '.join(run.skipped)}.")
    result = run.result()
    name = _name(result.recommended.method, result.recommended.n_bits)
    progress(f"looking at neighbours by {name}", result)
    fitted = result.encoder, result.decoder
    return replace(result, evidence=gather_evidence(fitted, task, X, generator))


def _settings(task, seed) -> dict:
    """Return the settings of a result."""
    data = task.data
    return {
        "n_rows": data.n_rows,
        "n_database": data.database.shape[0],
        "n_queries": data.queries.shape[0],
        "n_train": data.train.shape[0],
        "n_features": data.database.shape[1],
        "sparse": sparse.issparse(data.database),
        "float_bytes_per_vector": data.float_bytes,
        "metric": task.metric,
        "k": task.truth.shape[1],
        "rescore": int(task.rescore),
        "date": f"{date.today()}",
        "processor": processor(),
        "n_cores": granted_cores(),
        "target_recall": task.target,
        "random_state": seed,
    }


def _make_encoder(method, n_bits, metric, device, random_state):
    """Return an encoder with the defaults of its class, for this metric."""
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
        Makes the encoder of a method and a length.
    settings : dict
        Settings of the audit; see `AuditResult`.
    progress : callable
        That of `audit`.

    Attributes
    ----------
    rows : list of AuditRow
    fitted : dict of tuples (encoder, decoder)
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
            (method, bits)
            for method in methods
            for bits in (n_bits if method in METHODS_OF_ANY_LENGTH else [None])
        ]
        for number, one in enumerate(asked):
            step = f"{_name(*one)} ({number + 1} of {len(asked)})"
            self.progress(step, self.result(asked[number:]))
            try:
                self._measure(*one)
            except ValueError as error:  # the others still count
                reason = str(error).partition(". ")[0].rstrip(".")
                self.skipped.append(f"{_name(*one)}: {reason}")

    def result(self, left=()) -> AuditResult | None:
        """Return the result so far, or None before the first encoder.

        left : list of tuples (method, n_bits) that are not measured yet
        """
        if not self.fitted:
            return None
        skipped = list(self.skipped)
        if left:
            skipped.append(f"not measured: {', '.join(_name(*one) for one in left)}")
        rows = list(self.rows)
        return AuditResult.from_rows(rows, self.fitted, self.settings, skipped)

    def _measure(self, method, bits) -> None:
        if method in PEERS:
            self.rows.append(measure_peer(method, bits, self.task))
            return
        if method == "residual":
            encoder = self.make(method, bits).fit(self.task.data.train)
            row, decoder = measure_decoder(encoder, self.task)
        else:
            encoder, seconds = self._fit(method, bits)
            row, decoder = measure_encoder(encoder, method, seconds, self.task), None
        self.fitted[len(self.rows)] = encoder, decoder
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


def _name(method, bits) -> str:
    return method if bits is None else f"{method} at {bits} bits"


def _check_choices(methods, n_bits, k, rescore) -> tuple[list[str], list[int]]:
    """Return methods and lengths, each once."""
    known = [*METHODS, *PEERS]
    if not set(methods) <= {*known} or not set(methods) & METHODS.keys():
        raise ValueError(
            f"methods must be some of {', '.join(known)}, with one at least of the "
            f"first {len(METHODS)}; got {list(methods)}."
        )
    are_lengths = [isinstance(n, Integral) and 1 <= n <= MAX_BITS for n in n_bits]
    if not are_lengths or not all(are_lengths):
        raise ValueError(
            f"n_bits must be integers from 1 to {MAX_BITS}, at least one, got "
            f"{list(n_bits)}."
        )
    if rescore < k:
        raise ValueError(
            f"{rescore=} candidates cannot hold {k=} neighbours; rescore must be at "
            "least k."
        )
    return list(dict.fromkeys(methods)), [int(bits) for bits in dict.fromkeys(n_bits)]
