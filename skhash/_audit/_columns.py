"""What the columns of an audit's table are called, mean and say of a row."""

from collections.abc import Callable
from dataclasses import dataclass

from skhash._audit._measure import AuditRow
from skhash.utils.progress import short


@dataclass(frozen=True)
class Column:
    """A column: what it is called and means, and what it says of a row."""

    name: str
    meaning: str
    write: Callable[[AuditRow], str]


def columns_of(k: int, rescore: int, has_labels: bool) -> list[Column]:
    """Return the columns, from left to right."""
    columns = [*_sizes(), *_speeds(), *_recalls(k, rescore)]
    if has_labels:
        meaning = "Mean average precision by label of the ranking by Hamming distance."
        columns.append(_share("mAP", "mean_average_precision", meaning))
    return [*columns, *_bits()]


def _sizes():
    yield Column(
        "method",
        "What was fitted; sign, int8, pq and rabitq are of other engines, to compare "
        "with.",
        lambda row: row.method,
    )
    yield Column("bits", "The length of the codes.", lambda row: f"{row.n_bits}")
    yield Column(
        "bytes",
        "Memory of a vector: its code, which is all that a search by Hamming distance "
        "holds, and behind the plus the floats that a search by real queries keeps "
        "beside it.",
        _bytes,
    )
    yield Column(
        "codebook",
        "Bytes that decode the codes, once for all vectors; only a search by real "
        "queries needs them.",
        lambda row: short(row.codebook_bytes),
    )


def _bytes(row) -> str:
    floats = row.bytes_per_vector - row.code_bytes
    return f"{row.code_bytes}" + (f"+{floats}" if floats else "")


def _speeds():
    yield Column(
        "fit s",
        "Seconds of the fit; a dash where the code is cut from a longer one.",
        lambda row: _or_dash(row.fit_seconds, "{:.2f}".format),
    )
    for name, field, meaning in (
        ("encode/s", "encode_per_second", "Vectors encoded in a second."),
        (
            "refine/s",
            "refine_per_second",
            "Codes refined in a second, for the search by real queries.",
        ),
        ("H/s", "search_per_second", "Queries a second by Hamming distance."),
        ("Q/s", "asymmetric_per_second", "Queries a second by real queries."),
    ):
        yield Column(
            name, meaning, lambda row, field=field: _or_dash(getattr(row, field), short)
        )


def _recalls(k, rescore):
    """Return the columns of the recalls: of both searches, alone and re-scored."""
    searches = {
        "H": ("recall", "by Hamming distance, in expectation over the order of ties"),
        "Q": ("recall_asymmetric", "by real queries, compared with the decoded codes"),
    }
    cuts = {k: ""} | ({rescore: "_rescored"} if rescore > k else {})
    for letter, (name, search) in searches.items():
        for cut, suffix in cuts.items():
            meaning = (
                f"Share of the {k} true neighbours among the first {cut} that are "
                f"found {search}."
            )
            if suffix:
                meaning += (
                    " It is the recall after these are ranked again by the float "
                    "vectors."
                )
            yield _share(f"{letter} {k}@{cut}", name + suffix, meaning)


def _bits():
    yield _share(
        "balance",
        "bit_balance",
        "Share of the rarer value of a bit, averaged: 0.5 at best; near 0 most bits "
        "are constant.",
        digits=2,
    )
    yield _share(
        "corr",
        "bit_correlation",
        "Mean magnitude of the correlation of two bits: 0 at best; high where bits "
        "repeat each other.",
        digits=2,
    )


def _share(name, field, meaning, digits=3):
    write = f"{{:.{digits}f}}".format
    return Column(name, meaning, lambda row: _or_dash(getattr(row, field), write))


def _or_dash(value, write) -> str:
    return "-" if value is None else write(value)
