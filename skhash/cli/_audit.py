"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
import shlex
from contextlib import suppress
from pathlib import Path

import numpy as np

from skhash._audit import AuditResult, audit
from skhash._audit._columns import columns_of
from skhash._audit._measure import AuditRow
from skhash.cli._device import check_device
from skhash.cli._files import check_writable, replacing
from skhash.cli._terminal import Table, print_text, progress_lines
from skhash.datasets._npy import read_npy
from skhash.persistence.directory import check_target

# Columns that a narrow terminal does without, the first one first.
DISPENSABLE = (
    *("corr", "balance", "refine/s", "codebook", "encode/s", "Q/s", "H/s", "fit s"),
    "mAP",
)
# Columns of numbers in some figures; the others are shares, or as wide as their rows.
WIDE = ("bytes", "codebook", "fit s", "encode/s", "refine/s", "H/s", "Q/s")
# Where --out keeps the recommended encoder, and the decoder of its codes.
ENCODER, DECODER = "encoder", "decoder"


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
    folder = None if arguments.out is None else Path(arguments.out)
    check_device(arguments.device)
    if folder is not None:
        check_writable(folder)
        check_target(folder / ENCODER)
        check_target(folder / DECODER)
    result, left_out = _measure(arguments)
    try:
        print_audit(result, left_out)
    finally:  # also where nobody reads what is printed
        if folder is not None:
            _write(result, folder, arguments.vectors)


def _measure(arguments) -> tuple[AuditResult, list[str]]:
    """Print rows as they are measured; return the result, and columns left out."""
    X, y, name = _read(arguments)
    rows = _Rows(
        f"{name}: {X.shape[0]:,} vectors of {X.shape[1]:,} numbers",
        columns_of(arguments.k, arguments.rescore, y is not None),
        {
            "method": max(map(len, [*arguments.methods, "method"])),
            "bits": len(f"{8 * X.shape[1]}"),  # those of int8
        },
    )
    with progress_lines() as show:

        def print_row(row):
            show("")
            # Where nobody reads it, the report is written all the same.
            with suppress(OSError):
                rows.print_row(row)

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
            on_row=print_row,
        )
    return result, rows.left_out


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
    """Prints rows as they are measured, below what the columns are called.

    Parameters
    ----------
    title : str
        What the first row is printed below, so that a failure before it prints nothing.
    columns : list of Column
    widths : dict of int
        Those of "method" and "bits".
    """

    def __init__(self, title, columns, widths):
        self._title, self._columns = title, columns
        numbers = dict.fromkeys(WIDE, 6)
        widths = {
            column.name: (widths | numbers).get(column.name, 5) for column in columns
        }
        self._table = Table(widths, DISPENSABLE)
        self.left_out = self._table.left_out

    def print_row(self, row: AuditRow) -> None:
        if self._title:
            print_text(self._title)
            print()
            self._table.print_header()
            self._title = None
        cells = {column.name: column.write(row) for column in self._columns}
        self._table.print_row(cells)


def print_audit(result: AuditResult, left_out: list[str]) -> None:
    """Print how it was measured, and the recommendation."""
    settings = result.settings
    k, rescore = settings["k"], settings["rescore"]
    print()
    print_text(
        f"Measured with {settings['n_queries']:,} vectors as queries among "
        f"{settings['n_database']:,} others, of {settings['float_bytes_per_vector']:,} "
        f"bytes each as {'sparse ' if settings['sparse'] else ''}float32; metric: "
        f"{settings['metric']}."
    )
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
    settings, storage = result.settings, result.storage
    print_text(f"Recommended: {result.choice}: {result.reason}.")
    print_text(
        f"+- is two standard errors over the {settings['n_queries']:,} queries. Memory "
        f"is counted for all {settings['n_rows']:,} vectors, what decodes codes "
        "included."
    )
    print_text(f"Store: {_stored(storage, settings['rescore'])}.")
    print_text(f"Use: {result.usage}")
    for line in result.alternatives:
        print_text(line)
    if settings["n_database"] + settings["n_queries"] < settings["n_rows"]:
        print_text(
            f"Expect less among all {settings['n_rows']:,} vectors: recall falls as a "
            "database grows. A larger --sample tells more."
        )
    else:
        print_text("Recall falls as a database grows: measure as many as you will use.")


def _stored(storage: dict[str, int], rescore: int) -> str:
    """Say what the search has to keep."""
    parts = [f"{storage['code']} bytes of code a vector"]
    if storage["floats"]:
        parts.append(f"{storage['floats']} bytes of floats a vector")
    if storage["decoder"]:
        parts.append(f"the decoder once, {storage['decoder']:,} bytes")
    if storage["vector"]:
        parts.append(
            f"the vectors, {storage['vector']:,} bytes each, of which a query reads "
            f"{rescore}: they may stay on disk"
        )
    return "; ".join(parts)


def _write(result: AuditResult, folder: Path, vectors: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    report = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    with replacing(folder / "report.json") as file:
        file.write(f"{report}\n".encode())
    result.encoder.save(folder / ENCODER)
    result.decoder.save(folder / DECODER)
    drawn = _draw(result, folder / "audit.png")
    print()
    print(
        f"Wrote {folder}: report.json, {ENCODER}/, {DECODER}/"
        f"{', audit.png' if drawn else ''}"
    )
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
