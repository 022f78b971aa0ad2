"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
import shlex
from pathlib import Path

import numpy as np

from skhash._audit import AuditResult, audit
from skhash._audit._measure import AuditRow
from skhash.cli._device import check_device
from skhash.cli._files import check_writable, replacing
from skhash.cli._terminal import print_table, print_text, progress
from skhash.datasets._npy import read_npy
from skhash.persistence.directory import check_target

# Columns that a narrow terminal does without, the first one first.
DISPENSABLE = ("balance", "corr", "search/s", "encode/s", "fit s", "smaller", "mAP")
# Where --out keeps the recommended encoder.
ENCODER = "encoder"


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
    folder = None if arguments.out is None else Path(arguments.out)
    check_device(arguments.device)
    if folder is not None:
        check_writable(folder)
        check_target(folder / ENCODER)
    X, y, name = _read(arguments)
    with progress() as show:
        result = audit(
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
            progress=show,
        )
    try:
        print_audit(result, name)
    finally:  # also where nobody reads what is printed
        if folder is not None:
            _write(result, folder, arguments.vectors)


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


def print_audit(result: AuditResult, name: str) -> None:
    """Print what was measured, the table, and the recommendation."""
    settings = result.settings
    print_text(
        f"{name}: {settings['n_rows']:,} vectors of {settings['n_features']:,} numbers"
        f", {settings['float_bytes_per_vector']:,} bytes each as "
        f"{'sparse ' if settings['sparse'] else ''}float32. Measured with "
        f"{settings['n_queries']:,} of them as queries among {settings['n_database']:,}"
        f" others; metric: {settings['metric']}."
    )
    print()
    left_out = _print_rows(result)
    print()
    print_text(_legend(settings["k"], settings["rescore"]))
    if left_out:
        print_text(f"Too wide for this terminal: {', '.join(left_out)}.")
    for line in result.skipped:
        print_text(f"Left out: {line}.")
    print()
    _print_recommendation(result)


def _legend(k: int, rescore: int) -> str:
    line = (
        f"{k}@{k}: share of the {k} true neighbours among the first {k} by Hamming "
        "distance."
    )
    if rescore == k:
        return line
    return line + (
        f" {k}@{rescore}: among the first {rescore}, which is the recall after these "
        "are ranked again by the float vectors."
    )


def _print_recommendation(result: AuditResult) -> None:
    settings, best = result.settings, result.recommended
    print_text(f"Recommended: {best.method} at {best.n_bits} bits, {result.reason}.")
    print_text(
        f"It keeps {best.recall_rescored:.3f} +- {2 * best.recall_rescored_error:.3f} "
        f"of the true neighbours in {best.bytes_per_vector} instead of "
        f"{settings['float_bytes_per_vector']:,} bytes a vector, "
        f"{best.compression:.3g} times smaller."
    )
    if settings["n_database"] + settings["n_queries"] < settings["n_rows"]:
        print_text(
            f"Expect less among all {settings['n_rows']:,} vectors: recall falls as a "
            "database grows. A larger --sample tells more."
        )
    else:
        print_text("Recall falls as a database grows: measure as many as you will use.")


def _print_rows(result: AuditResult) -> list[str]:
    """Print the table and return the columns that did not fit."""
    k, rescore = result.settings["k"], result.settings["rescore"]
    rows = [_cells(row, k, rescore) for row in result.rows]
    marked = result.rows.index(result.recommended)
    cells = [list(row.values()) for row in rows]
    return print_table(list(rows[0]), cells, marked=marked, dispensable=DISPENSABLE)


def _cells(row: AuditRow, k: int, rescore: int) -> dict[str, str]:
    """Return the cells of a row by their column."""
    cells = {
        "method": row.method,
        "bits": f"{row.n_bits}",
        "bytes": f"{row.bytes_per_vector}",
        "smaller": f"{row.compression:.3g}x",
        "fit s": f"{row.fit_seconds:.2f}",
        "encode/s": _short(row.encode_per_second),
        "search/s": _short(row.search_per_second),
        f"{k}@{k}": f"{row.recall:.3f}",
        f"{k}@{rescore}": f"{row.recall_rescored:.3f}",
    }
    if row.mean_average_precision is not None:
        cells["mAP"] = f"{row.mean_average_precision:.3f}"
    return cells | {
        "balance": f"{row.bit_balance:.2f}",
        "corr": f"{row.bit_correlation:.2f}",
    }


def _short(number: float) -> str:
    """Write a speed in three or four figures, such as 98.6k: more would be noise."""
    units = iter("kMG")
    unit = ""
    while number >= 999.5 and unit != "G":
        number, unit = number / 1000, next(units)
    return f"{number:.3g}{unit}"


def _write(result: AuditResult, folder: Path, vectors: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    report = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    with replacing(folder / "report.json") as file:
        file.write(f"{report}\n".encode())
    result.encoder.save(folder / ENCODER)
    drawn = _draw(result, folder / "audit.png")
    print()
    print(f"Wrote {folder}: report.json, {ENCODER}/{', audit.png' if drawn else ''}")
    if not drawn:
        print('No picture: install matplotlib, pip install "scikit-hash[audit]".')
    words = ["skhash", "encode", str(folder / ENCODER), vectors or "VECTORS.npy"]
    print(f"Next: {shlex.join([*words, 'codes.npy', '--packed'])}")


def _draw(result: AuditResult, path: Path) -> bool:
    """Write the picture, where matplotlib is installed, and say whether it is."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    from skhash._audit._plot import FIGURE_SIZE

    # A figure without pyplot: no window, no state of the process is touched.
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    result.plot(figure.subplots())
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=150)
    return True
