"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
from pathlib import Path

import numpy as np

from skhash._audit import AuditResult, audit
from skhash.cli._terminal import print_table, progress


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
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
    print_audit(result, name)
    if arguments.out is not None:
        _write(result, Path(arguments.out), arguments.vectors)


def _read(arguments):
    """Return vectors, labels or None, and what to call them."""
    if arguments.vectors is None:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X.astype(np.float32), y, "scikit-learn's digits"
    from skhash.datasets import open_vectors

    y = None
    if arguments.labels is not None:
        y = np.load(arguments.labels, allow_pickle=False)
    return open_vectors(arguments.vectors), y, Path(arguments.vectors).name


def print_audit(result: AuditResult, name: str) -> None:
    """Print what was measured, the table, and the recommendation."""
    settings = result.settings
    print(
        f"{name}: {settings['n_database']:,} vectors of {settings['n_features']} "
        f"numbers, {settings['float_bytes_per_vector']} bytes each as float32; "
        f"{settings['n_queries']:,} queries held out; {settings['metric']}"
    )
    print()
    k, rescore = settings["k"], settings["rescore"]
    header = ["method", "bits", "bytes", "smaller", "fit s", "encode/s", "search/s"]
    header += [f"recall {k}@{k}", f"{k}@{rescore} rescored"]
    with_labels = result.rows[0].mean_average_precision is not None
    header += ["mAP"] if with_labels else []
    header += ["balance", "correlation"]
    rows = [_cells(row, with_labels) for row in result.rows]
    print_table(header, rows, marked=result.rows.index(result.recommended))
    for line in result.skipped:
        print(f"left out: {line}")
    best = result.recommended
    print()
    print(f"recommended: {best.method} at {best.n_bits} bits, {result.reason}.")
    error = 2 * best.recall_rescored_error
    print(
        f"It keeps {best.recall_rescored:.3f} +- {error:.3f} of the true neighbours "
        f"in {best.bytes_per_vector} instead of {settings['float_bytes_per_vector']} "
        "bytes. Recall falls as a database grows: audit as many rows as you will "
        "search."
    )


def _cells(row, with_labels) -> list[str]:
    cells = [
        row.method,
        f"{row.n_bits}",
        f"{row.bytes_per_vector}",
        f"{row.compression:.0f}x",
        f"{row.fit_seconds:.2f}",
        f"{row.encode_per_second:,.0f}",
        f"{row.search_per_second:,.0f}",
        f"{row.recall:.3f}",
        f"{row.recall_rescored:.3f}",
    ]
    if with_labels:
        cells.append(f"{row.mean_average_precision:.3f}")
    return [*cells, f"{row.bit_balance:.2f}", f"{row.bit_correlation:.2f}"]


def _write(result: AuditResult, folder: Path, vectors: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    report = json.dumps(result.to_dict(), indent=1)
    (folder / "report.json").write_text(report + "\n")
    result.encoder.save(folder / "encoder")
    written = "report.json, encoder/"
    try:
        import matplotlib
    except ImportError:
        print('No picture: install matplotlib, pip install "scikit-hash[audit]".')
    else:
        with matplotlib.rc_context({"backend": "agg"}):
            figure = result.plot().figure
            figure.savefig(folder / "audit.png", dpi=150)
        written += ", audit.png"
    print()
    print(f"wrote {folder}: {written}")
    print(f"next: skhash encode {folder}/encoder {vectors or 'VECTORS'} codes.npy")
