"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np

from skhash.auditing import AuditResult, audit
from skhash.auditing.texts import caution, cells_of, how_measured, stored
from skhash.cli._device import check_device
from skhash.cli._report import check_report, tell_report, write_report
from skhash.cli._signals import Signals
from skhash.cli._terminal import Table, nothing, print_text, progress
from skhash.datasets._npy import read_npy

# Columns that a narrow terminal does without, the first one first.
DISPENSABLE = (
    *("corr", "balance", "refine/s", "codebook", "encode/s", "Q/s", "H/s", "fit s"),
    "mAP",
)
LEGEND = (
    "{k}@n: share of the {k} true neighbours among the first n, H by Hamming distance, "
    "Q by real queries among refined codes; with n above {k} it is the recall after "
    "these are ranked again by the float vectors. bytes: a code, + floats beside it "
    "for Q; codebook: bytes that decode all of them."
)
AUDIT_PARAMETERS = (
    *("n_bits", "methods", "metric", "k", "rescore", "sample", "n_queries"),
    *("target_recall", "device", "random_state"),
)


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
    check_device(arguments.device)
    X, y, name = _read(arguments)
    check_report(arguments, X.shape)
    is_short = arguments.quiet or arguments.json
    title = f"{name}: {X.shape[0]:,} vectors of {X.shape[1]:,} numbers"
    show_progress = nothing if arguments.quiet else progress
    with Signals() as signals, show_progress() as show:
        watch = _Watch(show, signals, None if is_short else title, y is not None)
        result = _measure(X, y, arguments, watch, signals)
        show("")
        with signals.held():
            try:
                _print(arguments, result, watch.left_out)
            finally:  # also where nobody reads what is printed
                names = write_report(result, arguments, name)
            if names and not is_short:
                tell_report(names, arguments)
        kept = f"{arguments.out} holds" if arguments.out else "above are"
        signals.check(f"interrupted; {kept} the {len(result.rows)} codes measured")


def _measure(X, y, arguments, watch, signals) -> AuditResult:
    """Return the result, after a signal that of what was measured."""
    options = {name: getattr(arguments, name) for name in AUDIT_PARAMETERS}
    try:
        return audit(X, y, **options, progress=watch)
    except BaseException:
        if signals.number is None:
            raise
        if watch.result is None:
            signals.check()
        return watch.result


class _Watch:
    """Shows the steps of an audit, prints its rows, and keeps the latest result.

    Parameters
    ----------
    show : callable
        Shows a line of progress.
    signals : Signals
    title : str or None
        It is printed above the first row, so that a failure before it prints nothing.
        With None no rows are printed.
    has_labels : bool
    """

    def __init__(self, show, signals, title, has_labels):
        self._show, self._signals, self._title = show, signals, title
        self._has_labels, self._table, self._n_printed = has_labels, None, 0
        self.result, self.left_out = None, []

    def __call__(self, line, result):
        # A library that drops the signal's exception may have cut a fit short: what was
        # measured since the signal does not count.
        self._signals.check()
        self.result = result
        if result is not None and self._title is not None:
            self._show("")
            # Where nobody reads it, the report is written all the same.
            with suppress(OSError):
                self._print_rows(result)
        self._show(line)

    def _print_rows(self, result):
        rows, self._n_printed = result.rows[self._n_printed :], len(result.rows)
        for cells in cells_of(rows, result.settings, self._has_labels):
            if self._table is None:
                self._table = Table(cells, DISPENSABLE)
                self.left_out = self._table.left_out
                print_text(self._title)
                print()
                self._table.print_header()
            self._table.print_row(cells)


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
            "vectors; give one label a vector."
        )
    return y


def _print(arguments, result: AuditResult, left_out: list[str]) -> None:
    """Print how it was measured, and the recommendation."""
    if arguments.json:
        print(json.dumps(result.to_dict(), allow_nan=False))
        return
    settings = result.settings
    if not arguments.quiet:
        print()
        print_text(how_measured(settings))
        print_text(LEGEND.format(**settings))
        if left_out:
            print_text(f"Too wide for this terminal: {', '.join(left_out)}.")
        for line in result.skipped:
            print_text(f"Left out: {line}.")
        print()
    print_text(f"Recommended: {result.choice}: {result.reason}.")
    print_text(
        f"+- is two standard errors over the {settings['n_queries']:,} queries. Memory "
        f"is counted for all {settings['n_rows']:,} vectors, codebooks included."
    )
    print_text(f"Store: {stored(result)}.")
    print_text(f"Use: {result.usage}")
    for line in (*result.alternatives, caution(settings)):
        print_text(line)
