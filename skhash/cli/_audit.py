"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np

from skhash.audit import AuditResult, audit
from skhash.audit.texts import caution, cells_of, how_measured, stored
from skhash.cli._device import check_device
from skhash.cli._report import make_report
from skhash.cli._signals import Signals
from skhash.cli._terminal import Table, nothing, print_text, progress
from skhash.datasets._npy import read_npy

# Columns that a narrow terminal does without, the first one first.
DISPENSABLE = (
    *("corr", "balance", "refine/s", "codebook", "encode/s", "Q/s", "H/s", "fit s"),
    "mAP",
)


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
    check_device(arguments.device)
    X, y, name = _read(arguments)
    report = make_report(arguments, name, X.shape)
    is_short = arguments.quiet or arguments.json
    title = f"{name}: {X.shape[0]:,} vectors of {X.shape[1]:,} numbers"
    rows = _Rows(title, (arguments.k, arguments.rescore, y is not None))
    with Signals() as signals:
        result = _measure(arguments, X, y, None if is_short else rows, signals)
        with signals.held():
            try:
                _print(arguments, result, rows)
            finally:  # also where nobody reads what is printed
                names = [] if report is None else report.write(result)
            if names and not is_short:
                report.tell(names)
        kept = f"{report.folder} holds" if report else "above are"
        signals.check(f"interrupted; {kept} the {len(result.rows)} codes measured")


def _print(arguments, result, rows) -> None:
    if arguments.json:
        print(json.dumps(result.to_dict(), allow_nan=False))
    elif arguments.quiet:
        _print_recommendation(result)
    else:
        print_audit(result, rows.left_out)


def _measure(arguments, X, y, rows, signals) -> AuditResult:
    """Measure, print rows as they are measured if `rows` is not None.

    After a signal the result is of what was measured.
    """
    with (nothing if arguments.quiet else progress)() as show:
        watch = _Watch(show, rows, signals)
        try:
            return audit(
                X,
                y,
                n_bits=arguments.bits,
                methods=arguments.methods,
                metric=arguments.metric,
                k=arguments.k,
                rescore=arguments.rescore,
                sample=arguments.sample,
                n_queries=arguments.queries,
                target_recall=arguments.target_recall,
                device=arguments.device,
                random_state=arguments.seed,
                progress=watch,
            )
        except BaseException:
            if signals.number is None:
                raise
            if watch.result is None:
                signals.check()
            return watch.result


class _Watch:
    """Shows the steps of an audit, prints its rows, and keeps the latest result."""

    def __init__(self, show, rows, signals):
        self._show, self._rows, self._signals = show, rows, signals
        self._n_printed, self.result = 0, None

    def __call__(self, line, result):
        # A library that drops the signal's exception may have cut a fit short: what was
        # measured since the signal does not count.
        self._signals.check()
        self.result = result
        if result is not None and self._rows is not None:
            self._show("")
            # Where nobody reads it, the report is written all the same.
            with suppress(OSError):
                for row in result.rows[self._n_printed :]:
                    self._rows.print_row(row)
            self._n_printed = len(result.rows)
        self._show(line)


def _read(arguments):
    """Return vectors, labels or None, and what to call them."""
    if arguments.vectors is None:
        if arguments.labels is not None:
            raise ValueError("--labels belong to VECTORS; name the file of these too.")
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X.astype(np.float32), y, "scikit-learn's digits"
    from skhash.datasets import open_vectors

    X, y = open_vectors(arguments.vectors), None
    if arguments.labels is not None:
        y = _read_labels(arguments.labels, X.shape[0])
    return X, y, Path(arguments.vectors).name


def _read_labels(path: str, n_vectors: int) -> np.ndarray:
    if Path(path).suffix != ".npy":
        raise ValueError(f"{path}: labels are read from .npy; write with numpy.save.")
    try:
        y = read_npy(path)
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read as labels, an array of numbers or strings: {error}"
        ) from error
    if y.shape[:1] != (n_vectors,):
        raise ValueError(
            f"--labels {path} holds an array of shape {y.shape} for {n_vectors} "
            "vectors; it takes one label a vector."
        )
    if not (_are_classes(y) or _are_indicators(y)):
        raise ValueError(
            f"--labels {path} holds an array of shape {y.shape} and dtype {y.dtype}; "
            "labels are whole numbers or strings in one dimension, or 0 and 1 in two, "
            "with a column for each of two labels or more."
        )
    return y


def _are_classes(y: np.ndarray) -> bool:
    if y.dtype.kind == "f":
        return y.ndim == 1 and bool((y == np.round(y)).all())
    return y.ndim == 1 and y.dtype.kind in "biuSU"


def _are_indicators(y: np.ndarray) -> bool:
    if y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind not in "biuf":
        return False
    return bool(((y == 0) | (y == 1)).all())


class _Rows:
    """Prints rows as they are measured, below the title and the names of the columns.

    The title waits for the first row, so that a failure before it prints nothing.
    """

    def __init__(self, title, cuts):
        self._title, self._cuts, self._table, self.left_out = title, cuts, None, []

    def print_row(self, row) -> None:
        cells = cells_of(row, *self._cuts)
        if self._table is None:
            print_text(self._title)
            print()
            self._table = Table(cells, DISPENSABLE)
            self._table.print_header()
            self.left_out = self._table.left_out
        self._table.print_row(cells)


def print_audit(result: AuditResult, left_out: list[str]) -> None:
    """Print how it was measured, and the recommendation."""
    settings = result.settings
    k, rescore = settings["k"], settings["rescore"]
    print()
    print_text(how_measured(settings))
    print_text(_legend(k, rescore))
    if left_out:
        print_text(f"Too wide for this terminal: {', '.join(left_out)}.")
    for line in result.skipped:
        print_text(f"Left out: {line}.")
    print()
    _print_recommendation(result)


def _legend(k: int, rescore: int) -> str:
    lines = [
        f"{k}@{k}: share of the {k} true neighbours among the first {k} that are found,"
        " H by Hamming distance, Q by real queries among refined codes."
    ]
    if rescore > k:
        lines.append(
            f"{k}@{rescore}: among the first {rescore}, which is the recall after these"
            " are ranked again by the float vectors."
        )
    lines.append(
        "bytes: a code, + floats beside it for Q; codebook: bytes that decode all of "
        "them."
    )
    return " ".join(lines)


def _print_recommendation(result: AuditResult) -> None:
    settings = result.settings
    print_text(f"Recommended: {result.choice}: {result.reason}.")
    print_text(
        f"+- is two standard errors over the {settings['n_queries']:,} queries. Memory "
        f"is counted for all {settings['n_rows']:,} vectors, codebooks included."
    )
    print_text(f"Store: {stored(result)}.")
    print_text(f"Use: {result.usage}")
    for line in result.alternatives:
        print_text(line)
    print_text(caution(settings))
