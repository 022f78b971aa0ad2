"""``skhash audit``: reads vectors, prints the audit's table, writes its report."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from skhash.auditing import AuditResult, audit, texts
from skhash.auditing.chart import FIGURE_SIZE, write
from skhash.auditing.choices import ordered
from skhash.auditing.page import check_image_shape
from skhash.cli._checks import check_device, check_writable, reading_options
from skhash.cli._signals import Signals
from skhash.cli._terminal import print_table, print_text
from skhash.datasets import open_vectors
from skhash.datasets._npz import read_npy
from skhash.persistence.estimators import check_target
from skhash.utils.files import replacing
from skhash.utils.progress import progress

# Rows of the table, but for --all.
N_ROWS = 8
LEGEND = (
    "search: hamming compares codes with the codes of queries; asymmetric compares "
    "uncompressed queries with decoded codes. recall {n_neighbors}@n: share of the "
    "{neighbors} among the first n; with n above {n_neighbors}, after re-ranking these "
    "by their vectors. codebook: bytes that all codes share, to decode them. depth: "
    "the n that reaches the target."
)
PARAMETERS = "n_bits methods metric n_neighbors rerank sample n_queries".split()
PARAMETERS += ["target_recall", "n_vectors", "device", "random_state"]
# Folder of the recommended encoder.
ENCODER = "encoder"


def run_audit(arguments) -> None:
    """Run the command with its parsed arguments."""
    check_device(arguments.device)
    X, y, name = _read(arguments)
    _check_report(arguments, X.shape)
    is_short = arguments.quiet or arguments.json
    with Signals() as signals, progress(not arguments.quiet, logged=True) as show:
        result = _measure(X, y, arguments, show, signals)
        show("")
        with signals.held():
            try:
                _print(arguments, result, name)
            finally:  # also where nobody reads the output
                names = _write_report(result, arguments, name)
            if names and not is_short:
                _tell_report(names, arguments, result)
        kept = f"{arguments.out} holds" if arguments.out else "above are"
        signals.check(f"interrupted; {kept} the {len(result.rows)} searches measured")


def _read(arguments):
    """Return vectors, labels or None, and the name of the vectors."""
    path, labels = arguments.vectors, arguments.labels
    if path is None:
        if labels is not None:
            raise ValueError("--labels needs a file of vectors; pass VECTORS too.")
        X, y = load_digits(return_X_y=True)
        return X.astype(np.float32), y, "scikit-learn's digits"
    X, y = open_vectors(path, **reading_options(arguments)), None
    if labels is not None:
        y = read_npy(labels)
        if y.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"--labels {labels} holds an array of shape {y.shape} for "
                f"{X.shape[0]} vectors; give one label per vector."
            )
    return X, y, Path(path).name


def _measure(X, y, arguments, show, signals) -> AuditResult:
    """Return the result; after a signal, that of the measurements so far."""
    options, latest = {name: getattr(arguments, name) for name in PARAMETERS}, None

    def tell(line, result):
        nonlocal latest
        # A library that drops the signal's exception may have cut a fit short, so
        # measurements after the signal do not count.
        signals.check()
        latest = result
        show(line)

    try:
        return audit(X, y, **options, progress=tell)
    except BaseException:
        if signals.number is None:
            raise
        if latest is None:
            signals.check()
        return latest


def _print(arguments, result: AuditResult, name) -> None:
    """Print the table and the recommendation.

    name : that of the vectors
    """
    if arguments.json:
        print(json.dumps(result.to_dict(), allow_nan=False))
        return
    settings = result.settings
    if not arguments.quiet:
        _print_table(result, name, None if arguments.all else N_ROWS)
    for line in (
        *result.alternatives,
        texts.caution(result),
        f"+- is two standard errors over the {settings['n_queries']:,} queries. Memory "
        f"is counted for {settings['n_vectors']:,} vectors, codebooks included.",
        f"Recommended: {texts.recommendation(result)}",
        f"Store: {texts.stored(result)}.",
    ):
        print_text(line)
    reading, given = texts.reading_of(arguments.vectors, reading_options(arguments))
    usage = f"search = {result.usage_of(**given)}"
    print("Use:", "; ".join([reading, *result.imports, usage]))  # to be copied


def _print_table(result, name, n_rows) -> None:
    settings, rows = result.settings, ordered(result, n_rows)
    shape = f"{settings['n_rows']:,} vectors of {settings['n_features']:,} numbers"
    print_text(f"{name}: {shape}")
    print()
    left_out = print_table(texts.cells_of(rows, settings))
    print()
    if len(rows) < len(result.rows):
        print_text(
            "First the recommended search, then those that no other beats in memory "
            f"and recall; --all prints all {len(result.rows)}."
        )
    print_text(texts.how_measured(settings))
    print_text(LEGEND.format(**settings, neighbors=texts.neighbors_of(settings)))
    if left_out:
        print_text(f"Too wide for this terminal: {', '.join(left_out)}.")
    for line in result.skipped:
        print_text(f"Left out: {line}.")
    print()


# The files of --out


def _check_report(arguments, shape) -> None:
    """Check that the report can be written, before minutes are spent on it.

    shape : numbers of vectors and of columns
    """
    if arguments.out is None:
        if arguments.texts or arguments.image_shape:
            raise ValueError(
                "--texts and --image-shape are for the page that --out writes; add "
                "--out DIR."
            )
        return
    if not arguments.out:
        raise ValueError("--out '' names no directory; write --out DIR.")
    folder = Path(arguments.out)
    check_writable(folder)
    check_target(folder / ENCODER)
    if arguments.image_shape is not None:
        check_image_shape(arguments.image_shape, shape[1])
    if arguments.texts is not None:
        with _lines(arguments.texts) as lines:
            n_lines = sum(1 for _ in lines)
        if n_lines != shape[0]:
            raise ValueError(
                f"--texts {arguments.texts} has {n_lines:,} lines for {shape[0]:,} "
                "vectors; give one line per vector, without line breaks within a text."
            )


def _lines(path):
    """Open a file of texts that may hold any bytes."""
    return open(path, encoding="utf-8", errors="replace")


def _write_report(result: AuditResult, arguments, name: str) -> list[str]:
    """Write all files of ``--out``, and return their names.

    name : that of the vectors
    """
    if arguments.out is None:
        return []
    folder, lines_of = Path(arguments.out), None
    folder.mkdir(parents=True, exist_ok=True)
    report = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    _write_text(folder / "report.json", f"{report}\n")
    result.encoder.save(folder / ENCODER)
    if arguments.texts is not None and result.evidence is not None:
        rows = set(result.evidence.rows)
        with _lines(arguments.texts) as lines:
            lines_of = {row: line for row, line in enumerate(lines) if row in rows}
    page = result.to_html(
        image_shape=arguments.image_shape,
        texts=lines_of,
        name=name,
        vectors=arguments.vectors,
        folder=arguments.out,
        options=reading_options(arguments),
    )
    _write_text(folder / "report.html", page)
    names = ["report.html", "report.json", f"{ENCODER}/"]
    with suppress(ImportError), replacing(folder / "audit.png") as file:
        write(result.plot, file, "png", FIGURE_SIZE)
        names.append("audit.png")
    return names


def _write_text(path, text) -> None:
    # A file name that is not UTF-8 reads as text that UTF-8 cannot write.
    with replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _tell_report(names, arguments, result) -> None:
    """Print the files written, and the next steps."""
    print()
    print_text(f"Wrote {arguments.out}: {', '.join(names)}")
    if "audit.png" not in names:
        print_text('No picture: install matplotlib, pip install "scikit-hash[audit]".')
    encoder, options = str(Path(arguments.out, ENCODER)), reading_options(arguments)
    reading, given = texts.reading_of(arguments.vectors, options)
    given["encoder"] = f"FrozenEstimator(load({texts.quoted(encoder)}))"
    usage = f"search = {result.usage_of(**given)}"
    print("Without another fit:", "; ".join([reading, *texts.REUSING, usage]))
    if result.recommended.method == "bytes":
        return  # no tool reads these codes without the codebook
    words = ["skhash", "encode", encoder]
    words += [arguments.vectors or "VECTORS.npy", "codes.npy", "--packed"]
    words += texts.flags_of(options)
    print(f"For another engine: {texts.command(words)}")  # one line, to be copied
