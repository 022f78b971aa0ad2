"""Texts of a result, shared by the terminal and the page."""

import re
import shlex
import sys

from skhash.auditing.measure import OVERSAMPLING

# What imports a search by a saved encoder.
REUSING = (
    "from sklearn.frozen import FrozenEstimator",
    "from skhash import HashedNeighbors, load",
)
# How many times the vectors that were searched an estimate is good for.
MOST_GROWTH = 10


def recommendation(result) -> str:
    """Say in whole sentences what to do, and why."""
    choice, rerank = result.choice, result.settings["rerank"]
    searched = {
        "hamming": "compare them with the codes of the queries by Hamming distance",
        "asymmetric": "compare them with uncompressed queries",
    }[choice.row.search]
    n_bits = choice.row.n_bits
    size = in_bytes(n_bits // 8) if choice.row.method == "bytes" else f"{n_bits} bits"
    compared = f"{searched}, and re-rank the {rerank} best by their vectors"
    return (
        f"make codes of {size} for each vector with "
        f"{type(result.encoder).__name__}; {compared if rerank else searched}. This "
        f"finds {choice.recall:.1%} +- {2 * choice.error:.1%} of the "
        f"{neighbors_of(result.settings)}. It is {result.reason}."
    )


def in_bytes(size) -> str:
    """Return a number of bytes with its unit."""
    return "1 byte" if size == 1 else f"{size:,} bytes"


def neighbors_of(settings) -> str:
    """Name the neighbours that are to be found."""
    k = settings["n_neighbors"]
    return "true nearest neighbours" if k == 1 else f"{k} true neighbours"


def stored(result) -> str:
    """Describe the storage of the recommended search."""
    reads, storage = result.settings["rerank"], result.storage
    parts = {
        "code": f"{in_bytes(storage['code'])} of code per vector",
        "beside": "{:,} more next to each code",
        "codebook": "{:,} bytes for the codebook, shared by all",
        "vector": "the vectors, {:,} bytes each, which can stay on disk: a query reads "
        f"{reads}",
    }
    return "; ".join(parts[key].format(storage[key]) for key in parts if storage[key])


def how_measured(settings) -> str:
    """Say how and where the numbers were measured."""
    return (
        f"Measured with {settings['n_queries']:,} vectors as queries among "
        f"{settings['n_database']:,} others, of {settings['float_bytes_per_vector']:,} "
        f"bytes each as {settings['vector_type']}; metric: {settings['metric']}. "
        f"{settings['date']}, {settings['processor']}, {settings['n_cores']} cores."
    )


def caution(result) -> str:
    """Say what to expect of a larger database."""
    settings, growth = result.settings, result.growth
    if growth is not None:
        recalls = ", ".join(f"{recall:.1%}" for recall in growth.recalls)
        sizes = ", ".join(f"{size:,}" for size in growth.sizes)
        text = (
            f"Among {growth.n_vectors:,} vectors that were not fitted, expect "
            f"{growth.expected:.1%}: the search finds {recalls} among {sizes} of them. "
            "Fitted vectors are found more often, most of all if they are few."
        )
        if growth.n_vectors > MOST_GROWTH * growth.sizes[-1]:
            text += " This is a rough estimate: audit a larger sample."
        if growth.expected < settings["target_recall"]:
            text += (
                f" It is below the target of {100 * settings['target_recall']:g}%: "
                "audit longer codes, or re-rank more candidates."
            )
        return text
    n_rows = settings["n_rows"]
    if settings["n_database"] + settings["n_queries"] < n_rows:
        return (
            f"With all {n_rows:,} vectors, recall will be lower; --n-vectors {n_rows} "
            "predicts it."
        )
    return "With more vectors, recall falls; --n-vectors N predicts it for N vectors."


def cells_of(rows, settings) -> list[dict[str, str]]:
    """Return the cells of each row of the table, by the names of their columns."""
    k, rerank = settings["n_neighbors"], settings["rerank"]
    fields = {
        "method": "method",
        "bits": "n_bits",
        "search": "search",
        "bytes per vector": "bytes_per_vector",
        f"recall {k}@{k}": "recall",
        f"recall {k}@{rerank or k}": "recall_reranked",
        "queries per second": "search_per_second",
        "codebook bytes": "codebook_bytes",
    }
    if any(row.mean_average_precision is not None for row in rows):
        fields["mean average precision"] = "mean_average_precision"
    fields["depth"] = "depth"
    fields["fit seconds"] = "fit_seconds"
    fields["encoded per second"] = "encode_per_second"
    return [{name: _cell(row, key, k) for name, key in fields.items()} for row in rows]


def _cell(row, field, k) -> str:
    value = getattr(row, field)
    if field == "depth" and value is None:  # recall stays below the target
        return f">{k * OVERSAMPLING[-1]}"
    if value is None or (field == "codebook_bytes" and not value):
        return "-"
    if isinstance(value, str):
        return value
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


def reading_of(path, options) -> tuple[str, dict[str, str]]:
    """Return an import and Python code, for `AuditResult.usage_of`, to read vectors.

    path : str or None, for scikit-learn's digits
    options : dict, those of `open_vectors`
    """
    if path is None:
        return "from sklearn.datasets import load_digits", {"X": "load_digits().data"}
    file = quoted(path)
    if path.lower().endswith(".npy"):
        rows = f'np.load({file}, mmap_mode="r")'
        return "import numpy as np", {"X": rows, "vectors": file}
    for name, value in options.items():
        file += f", {name}={value if value is True else quoted(value)}"
    return "from skhash.datasets import open_vectors", {"X": f"open_vectors({file})"}


def flags_of(options) -> list[str]:
    """Return options of `open_vectors` as words of a command.

    Examples
    --------
    >>> from skhash.auditing.texts import flags_of
    >>> flags_of({"column": "embedding", "keep_ids": True})
    ['--column', 'embedding', '--keep-ids']
    """
    pairs = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    return [word for pair in pairs for word in pair if word is not True]


def quoted(text) -> str:
    """Return a string as Python code, in double quotes if it holds none."""
    code = repr(text)
    return code if '"' in text else f'"{code[1:-1]}"'


def command(words) -> str:
    """Return a command line that can be copied into a shell of this system."""
    if sys.platform != "win32":
        return shlex.join(words)
    # cmd knows no single quotes, and no file name there has a double one.
    special = re.compile(r"[^\w.:\\/-]")
    return " ".join(f'"{word}"' if special.search(word) else word for word in words)
