"""Texts of a result, shared by the terminal and the page."""

import re
import shlex
import sys

from skhash.auditing.measure import OVERSAMPLING


def stored(result) -> str:
    """Describe the storage of the recommended search."""
    reads = result.settings["rescore"]
    parts = {
        "code": "{:,} bytes of code a vector",
        "beside": "{:,} beside it",
        "decoder": "the decoder once, {:,} bytes",
        "vector": "the vectors, {:,} bytes each, of which a query reads "
        f"{reads}: they may stay on disk",
    }
    storage = result.storage
    return "; ".join(parts[key].format(storage[key]) for key in parts if storage[key])


def how_measured(settings) -> str:
    """Say how and where the numbers were measured."""
    return (
        f"Measured with {settings['n_queries']:,} vectors as queries among "
        f"{settings['n_database']:,} others, of {settings['float_bytes_per_vector']:,} "
        f"bytes each as {'sparse ' * settings['sparse']}float32; metric: "
        f"{settings['metric']}. {settings['date']}, {settings['processor']}, "
        f"{settings['n_cores']} cores."
    )


def caution(settings) -> str:
    """Warn that recall falls with the size of the database."""
    n_rows = settings["n_rows"]
    if settings["n_database"] + settings["n_queries"] < n_rows:
        return (
            f"Expect less among all {n_rows:,} vectors: recall falls as a database "
            "grows. A larger --sample tells more."
        )
    return "Recall falls as a database grows: measure as many as you will use."


def cells_of(rows, settings, has_labels) -> list[dict[str, str]]:
    """Return the cells of each row of the table, by the names of their columns."""
    k, rescore = settings["k"], settings["rescore"]
    fields = {
        "codebook": "codebook_bytes",
        "fit s": "fit_seconds",
        "encode/s": "encode_per_second",
        "H/s": "search_per_second",
        "Q/s": "asymmetric_per_second",
    }
    for letter, field in (("H", "recall"), ("Q", "recall_asymmetric")):
        fields[f"{letter} {k}@{k}"] = field
        if rescore > k:
            fields[f"{letter} {k}@{rescore}"] = f"{field}_rescored"
        fields[f"{letter} depth"] = field.replace("recall", "depth")
    if has_labels:
        fields["mAP"] = "mean_average_precision"

    def cells(row):
        beside = row.bytes_per_vector - row.code_bytes
        return {
            "method": row.method,
            "bits": f"{row.n_bits}",
            "bytes": f"{row.code_bytes}" + (f"+{beside}" if beside else ""),
            **{name: _cell(row, one, k) for name, one in fields.items()},
        }

    return list(map(cells, rows))


def _cell(row, field, k) -> str:
    value = getattr(row, field)
    if value is None:  # a depth is, too, where recall stays below the target
        recall = getattr(row, field.replace("depth", "recall"))
        return "-" if recall is None else f">{k * OVERSAMPLING[-1]}"
    if field == "codebook_bytes" and not value:
        return "-"
    if field == "fit_seconds":
        return f"{value:.2f}"
    is_large = isinstance(value, int) or field.endswith("per_second")
    return short(value) if is_large else f"{value:.3f}"


def short(number: float, units=("", "k", "M", "G")) -> str:
    """Format a number in three or four figures.

    Examples
    --------
    >>> from skhash.auditing.texts import short
    >>> short(98_632), short(0.41)
    ('98.6k', '0.41')
    """
    unit, *larger = units
    if number >= 999.5 and larger:
        return short(number / 1000, larger)
    return f"{number:.3g}{unit}"


def command(words) -> str:
    """Return a command line that can be copied into a shell of this system."""
    if sys.platform != "win32":
        return shlex.join(words)
    # cmd knows no single quotes, and no file name there has a double one.
    special = re.compile(r"[^\w.:\\/-]")
    return " ".join(f'"{word}"' if special.search(word) else word for word in words)
