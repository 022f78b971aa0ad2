"""The audit: methods times lengths, each fitted, timed and searched."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skhash._audit._data import split_rows
from skhash._audit._measure import measure, timed_fit
from skhash._audit._result import AuditResult, recommend
from skhash.linear import ITQHash, PCAHash, RandomHyperplaneHash
from skhash.metrics import true_neighbors
from skhash.neural import NeighborHash, SGHEncoder
from skhash.utils._sklearn import Interval, StrOptions, validate_params

METHODS = {
    "sgh": SGHEncoder,
    "neighbor": NeighborHash,
    "itq": ITQHash,
    "pca": PCAHash,
    "lsh": RandomHyperplaneHash,
}
# They turn principal axes into bits, of which there are no more than features.
LIMITED_METHODS = ("itq", "pca")

# Far above any code that is searched: a slip of the pen, which no memory would hold.
MAX_BITS = 2**16

POSITIVE = Interval(Integral, 1, None, closed="left")


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "y": ["array-like", "sparse matrix", None],
        "n_bits": ["array-like"],
        "methods": ["array-like"],
        "metric": [StrOptions({"euclidean", "cosine", "inner_product"})],
        "k": [POSITIVE],
        "rescore": [POSITIVE],
        "sample": [POSITIVE, None],
        "n_queries": [POSITIVE],
        "target_recall": [Interval(Real, 0, 1, closed="right")],
        "device": [str],
        "random_state": ["random_state"],
        "progress": [callable, None],
    }
)
def audit(
    X,
    y=None,
    *,
    n_bits: Sequence[int] = (16, 32, 64, 128),
    methods: Sequence[str] = ("sgh", "neighbor", "itq", "pca", "lsh"),
    metric: str = "euclidean",
    k: int = 10,
    rescore: int = 100,
    sample: int | None = None,
    n_queries: int = 1000,
    target_recall: float = 0.9,
    device: str = "auto",
    random_state=0,
    progress: Callable[[str], None] | None = None,
) -> AuditResult:
    """Measure what binary codes of these vectors cost and keep.

    Queries are drawn at random and held out. The other rows are the database, and what
    the encoders are fitted on (at most 100 000 of them). Each method at each length is
    fitted, timed, and scored by the share of the `k` true float neighbours that a
    search by Hamming distance returns first (``recall``), and that are among its first
    `rescore` candidates (``recall_rescored``), which is the recall after these
    candidates are ranked again by the float vectors.

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
    methods : sequence of {"sgh", "neighbor", "itq", "pca", "lsh"}, default=all
        Methods to try: `SGHEncoder`, `NeighborHash`, `ITQHash`, `PCAHash`,
        `RandomHyperplaneHash`, with their defaults. `NeighborHash` is given `metric`.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        What makes a true neighbour. For "cosine" the encoders normalise the rows.
    k : int, default=10
        Number of true neighbours to find.
    rescore : int, default=100
        Number of candidates to rank again by the float vectors.
    sample : int, default=None
        Use so many random rows, queries included; by default all. Recall falls as the
        database grows, so a small sample flatters.
    n_queries : int, default=1000
        Number of queries, at most a fifth of the rows.
    target_recall : float, default=0.9
        The recall after re-scoring that the recommended code has to reach.
    device : str, default="auto"
        Where to fit, encode and find true neighbours.
    random_state : int, RandomState instance or None, default=0
        Draws sample and queries, and seeds the encoders.
    progress : callable, default=None
        Called with a line of text before each step.

    Returns
    -------
    result : AuditResult
        With ``rows``, ``recommended``, ``reason``, ``encoder``, ``to_frame()`` and
        ``plot()``.

    Raises
    ------
    ValueError
        If an argument is out of its range, the rows are too few, or no method can make
        any of the lengths.

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
    report = progress or (lambda line: None)
    generator = check_random_state(random_state)
    data = split_rows(X, y, sample, n_queries, rescore, generator, report)
    report(f"finding the true neighbours of {data.queries.shape[0]:,} queries")
    truth = true_neighbors(data.queries, data.database, k, metric=metric, device=device)
    make = partial(
        _make_encoder,
        metric=metric,
        device=device,
        random_state=int(generator.randint(np.iinfo(np.int32).max)),
    )
    rows, encoders, skipped = _measure_all(
        methods, n_bits, data, truth, rescore, make, report
    )
    if not rows:
        raise ValueError(f"Nothing could be measured: {'; '.join(skipped)}.")
    if y is not None and rows[0].mean_average_precision is None:
        skipped.append("mAP: no query has a label that occurs in the database")
    best, reason = recommend(rows, k, rescore, target_recall)
    settings = {
        "n_rows": data.n_rows,
        "n_database": data.database.shape[0],
        "n_queries": data.queries.shape[0],
        "n_train": data.train.shape[0],
        "n_features": data.database.shape[1],
        "sparse": sparse.issparse(data.database),
        "float_bytes_per_vector": data.float_bytes,
        "metric": metric,
        "k": int(k),
        "rescore": int(rescore),
        "target_recall": float(target_recall),
        "random_state": _as_int_or_none(random_state),
    }
    encoder = encoders[best.method, best.n_bits]
    return AuditResult(rows, best, reason, encoder, settings, skipped)


def _make_encoder(method, n_bits, metric, device, random_state):
    """Return an encoder with the defaults of its class, for this metric."""
    options = {"normalize": metric == "cosine"}
    if method == "neighbor":
        options["metric"] = metric
    return METHODS[method](n_bits, **options, device=device, random_state=random_state)


def _measure_all(methods, n_bits, data, truth, rescore, make, report):
    """Return rows, fitted encoders by method and length, and what was left out."""
    rows, encoders, skipped = [], {}, []
    limit = min(data.train.shape)
    pairs = [(method, bits) for method in methods for bits in n_bits]
    for number, (method, bits) in enumerate(pairs, start=1):
        name = f"{method} at {bits} bits"
        if method in LIMITED_METHODS and bits > limit:
            skipped.append(f"{name}: it makes at most {limit} bits of these vectors")
            continue
        report(f"{name} ({number} of {len(pairs)})")
        encoder = make(method, bits)
        try:
            fit_seconds = timed_fit(encoder, data.train)
        except ValueError as error:  # such as a diverged loss: the others still count
            skipped.append(f"{name}: {error}")
            continue
        encoders[method, bits] = encoder
        rows.append(measure(encoder, method, bits, fit_seconds, data, truth, rescore))
    return rows, encoders, skipped


def _check_choices(methods, n_bits, k, rescore) -> tuple[list[str], list[int]]:
    """Return methods and lengths, each once."""
    unknown = [str(method) for method in methods if method not in METHODS]
    if unknown:
        raise ValueError(
            f"Unknown methods: {', '.join(unknown)}; use some of {', '.join(METHODS)}."
        )
    wrong = [
        bits
        for bits in n_bits
        if not isinstance(bits, Integral) or not 1 <= bits <= MAX_BITS
    ]
    if wrong:
        raise ValueError(
            f"n_bits must be integers from 1 to {MAX_BITS}, got {wrong[0]!r}."
        )
    if not len(methods) or not len(n_bits):
        raise ValueError("It takes at least one of methods and one of n_bits.")
    if rescore < k:
        raise ValueError(
            f"{rescore=} candidates cannot hold {k=} neighbours; it takes rescore >= k."
        )
    return list(dict.fromkeys(methods)), [int(bits) for bits in dict.fromkeys(n_bits)]


def _as_int_or_none(random_state):
    return int(random_state) if isinstance(random_state, Integral) else None
