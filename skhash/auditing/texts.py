"""Texts of a result: sentences, numbers, the table's columns, commands."""

import shlex
from html import escape

import numpy as np

from skhash.auditing.result import SEARCH_NAMES
from skhash.utils.progress import short

# Of the scores that a search ranks by: how they are shown, and their name.
SCORES = {
    "hamming": (np.asarray, "bits that differ"),
    "euclidean": (np.sqrt, "estimated distance"),
    "inner_product": (lambda scores: 0.0 - scores, "estimated inner product"),
    "cosine": (lambda scores: 1.0 - scores, "estimated cosine"),
}
# Numbers of vectors that people plan for.
SCALES = (10**7, 10**9)
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def percent(share, digits=1) -> str:
    return f"{100 * share:.{digits}f}".removesuffix(".0") + "%"


def amount(n_bytes) -> str:
    """Write bytes as 512 bytes, 1.5 kB or 20.3 GB."""
    size, units = float(n_bytes), iter(UNITS)
    unit = next(units)
    while size >= 999.5 and unit != UNITS[-1]:
        size, unit = size / 1000, next(units)
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"


def times(ratio) -> str:
    return f"{ratio:.1f}".removesuffix(".0") if ratio < 10 else f"{ratio:,.0f}"


def neighbors_of(k) -> str:
    return "true nearest neighbours" if k == 1 else f"{k} true neighbours"


def found_by(result) -> str:
    """Say how the recommended search finds, behind "it finds 90% of them"."""
    if not result.is_rescored:
        return "by the codes alone"
    rescore = result.settings["rescore"]
    return f"once its first {rescore} candidates are ranked again by the float vectors"


def sentence(result) -> str:
    """Say the recommendation in a sentence, as HTML."""
    settings, best = result.settings, result.choice
    target = percent(settings["target_recall"])
    neighbors = neighbors_of(settings["k"])
    name = escape(type(result.encoder).__name__)
    code = (
        f"<strong>{name} at {best.row.n_bits} bits</strong> "
        f"(<code>{escape(best.row.method)}</code> below), searched by "
        f"{SEARCH_NAMES[best.search]}"
    )
    kept = (
        f"keeps <strong>{best.n_bytes:,} bytes</strong> of a vector in memory instead "
        f"of {settings['float_bytes_per_vector']:,}"
    )
    # A recall that is rounded to the target does not reach it.
    digits = 4 if best.recall < settings["target_recall"] <= best.recall + 1e-3 else 1
    finds = (
        f"finds <strong>{percent(best.recall, digits)}</strong> of the {neighbors} "
        f"{found_by(result)}"
    )
    if best.recall < settings["target_recall"]:
        return (
            f"No code that was measured finds {target} of the {neighbors}. The nearest "
            f"to it, {code}, {kept}, and {finds}."
        )
    return f"Take {code}: it {kept}, and {finds}."


def scores_of(result):
    """Return what turns scores into what is shown, and what that is called."""
    by_hamming = result.search == "hamming"
    return SCORES["hamming" if by_hamming else result.settings["metric"]]


def point_text(choice, result, rescored) -> str:
    """Return what is said of a point of the chart, in lines."""
    row, speed = choice.row, _queries_per_second(choice)
    floats = result.settings["float_bytes_per_vector"]
    lines = [
        f"{row.method} at {row.n_bits} bits, by {SEARCH_NAMES[choice.search]}",
        f"recall {choice.recall:.3f} ± {2 * choice.error:.3f}"
        + ", re-scored" * rescored,
        f"{choice.n_bytes:,} bytes a vector, {times(floats / choice.n_bytes)} times "
        f"smaller; {amount(choice.decoder_bytes)} once",
    ]
    if speed is not None:
        lines.append(f"{speed:,.0f} queries/s" + ", not re-scored" * rescored)
    return "\n".join(lines)


def _queries_per_second(choice) -> float | None:
    """Return the speed of its search, None of engines whose own was not timed."""
    if choice.search == "hamming":
        return choice.row.search_per_second
    return choice.row.asymmetric_per_second


def tiles(result) -> dict[str, str]:
    """Return what the recommendation costs, for the places of a template."""
    settings, best = result.settings, result.choice
    floats, n_rows = settings["float_bytes_per_vector"], settings["n_rows"]
    return {
        "recall": percent(best.recall),
        "error": percent(2 * best.error),
        "target": percent(settings["target_recall"]),
        "neighbors": neighbors_of(settings["k"]),
        "n_bytes": f"{best.n_bytes:,}",
        "float_bytes": f"{floats:,}",
        "times": times(floats / best.n_bytes),
        "memory": amount(best.memory(n_rows)),
        "float_memory": amount(n_rows * floats),
        "speed": f"{_queries_per_second(best):,.0f}",
        **{n: f"{settings[n]:,}" for n in ("n_rows", "n_queries", "n_database", "k")},
    }


def at_scale(result) -> str:
    """Say what more vectors would take, and that the recall would not stay."""
    floats = result.settings["float_bytes_per_vector"]
    parts = [
        f"{n:,} vectors would take {amount(result.choice.memory(n))} of memory instead "
        f"of {amount(n * floats)}"
        for n in SCALES
    ]
    measured = f"the {result.settings['n_database']:,} that were measured"
    return (
        f"With this code {' and '.join(parts)}, but its recall would be lower there "
        f"than among {measured}: audit as many as you can before you decide."
    )


def stored(result) -> str:
    """Say what the recommended search has to keep."""
    storage = result.storage
    parts = [f"{storage['code']} bytes of code a vector"]
    if storage["floats"]:
        parts.append(f"{storage['floats']} bytes of floats a vector")
    if storage["decoder"]:
        parts.append(f"the decoder once, {storage['decoder']:,} bytes")
    if storage["vector"]:
        parts.append(
            f"the vectors, {storage['vector']:,} bytes each, of which a query reads "
            f"{result.settings['rescore']}: they may stay on disk"
        )
    return "; ".join(parts)


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
    """Say what a larger database would change."""
    n_rows = settings["n_rows"]
    if settings["n_database"] + settings["n_queries"] < n_rows:
        return (
            f"Expect less among all {n_rows:,} vectors: recall falls as a database "
            "grows. A larger --sample tells more."
        )
    return "Recall falls as a database grows: measure as many as you will use."


# The table

SPEEDS = {
    "codebook": ("codebook_bytes", short),
    "fit s": ("fit_seconds", "{:.2f}".format),
    "encode/s": ("encode_per_second", short),
    "refine/s": ("refine_per_second", short),
    "H/s": ("search_per_second", short),
    "Q/s": ("asymmetric_per_second", short),
}
BITS = {
    "balance": ("bit_balance", "{:.2f}".format),
    "corr": ("bit_correlation", "{:.2f}".format),
}


def cells_of(rows, settings, has_labels) -> list[dict[str, str]]:
    """Return the cells of each row, by the names of their columns."""
    k, rescore = settings["k"], settings["rescore"]
    fields = dict(SPEEDS)
    for letter, field in (("H", "recall"), ("Q", "recall_asymmetric")):
        fields[f"{letter} {k}@{k}"] = (field, "{:.3f}".format)
        if rescore > k:
            fields[f"{letter} {k}@{rescore}"] = (f"{field}_rescored", "{:.3f}".format)
    if has_labels:
        fields["mAP"] = ("mean_average_precision", "{:.3f}".format)
    fields |= BITS

    def cells(row):
        values = {name: getattr(row, field) for name, (field, _) in fields.items()}
        floats = row.bytes_per_vector - row.code_bytes
        return {
            "method": row.method,
            "bits": f"{row.n_bits}",
            "bytes": f"{row.code_bytes}" + (f"+{floats}" if floats else ""),
            **{
                name: "-" if value is None else fields[name][1](value)
                for name, value in values.items()
            },
        }

    return list(map(cells, rows))


# Commands for the user's files


def steps(result, vectors, folder) -> list[tuple[str, str]]:
    """Return what to do next: what for, and the command or the Python.

    vectors, folder : str or None
        The file of the vectors, and the folder of the saved encoder.
    """
    if folder is None:
        lines = ["", f"search = {result.usage}.fit(X)"]
        return [
            ("Make the search from all vectors X, in Python:", _python(result, lines))
        ]
    vectors = vectors or "VECTORS.npy"
    encoder = f"{folder}/encoder"
    command = shlex.join(
        ["skhash", "encode", encoder, vectors, "codes.npy", "--packed"]
    )
    lines = [
        "from skhash.datasets import open_vectors",
        "from sklearn.frozen import FrozenEstimator",
        "",
        f"X = open_vectors({vectors!r})",
        f"encoder = FrozenEstimator(load({encoder!r}))  # as it was fitted",
        f"search = {result.usage_of('encoder')}.fit(X)",
        "queries = X[:5]  # yours",
    ]
    return [
        ("Search all vectors, in Python:", _python(result, lines)),
        ("Or encode them for another engine:", command),
    ]


def _python(result, lines) -> str:
    """Return Python that makes a search and asks it."""
    lines = [
        "from skhash import *",
        "from skhash.linear import *",
        *lines,
        "distances, positions = search.kneighbors(queries)",
    ]
    if result.is_rescored and not result.keeps_vectors:
        k, metric = result.settings["k"], result.settings["metric"]
        nearest = f"true_neighbors(queries[[i]], X[near], {k}, metric={metric!r})[0]"
        lines += [
            "from skhash.metrics import true_neighbors",
            "",
            "positions = [  # the candidates, ranked again by the sparse vectors",
            f"    near[{nearest}]",
            "    for i, near in enumerate(positions)",
            "]",
        ]
    return "\n".join(lines)
