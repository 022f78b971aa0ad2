"""Tables and a picture of what `knn.py` has measured."""

import statistics
from itertools import groupby

from growing_results import describe
from result_files import Table, save

CENTER = {"bits": 64, "k": 10}
FAISS = ("faiss flat", "faiss knn_hamming")
SETTING = {"codes": "", "bits": "", "n": ",", "asked": ""}
SETTINGS = {
    **SETTING,
    "ours, queries/s": ",.0f",
    "faiss, queries/s": ",.0f",
    "ratio": ".1f",
    "share of the popcount limit": ".2f",
    "one query, ms": ".3f",
    "faiss, ms": ".3f",
}
ENGINES = {
    **SETTING,
    "engine": "",
    "queries/s": ",.0f",
    "times ours": ".2f",
    "best to best": ".2f",
    "one query, ms": ".3f",
    "recall": ".3f",
    "build, s": ".2f",
    "bytes a code": ".1f",
}
FIRST = {
    "first query in a new process": "",
    "cache": "",
    "imports, s": ".2f",
    "then, s": ".2f",
}
CONSTANTS = {
    "bits": "",
    "n": ",",
    "batches, ps a code and thread": ".0f",
    "one query, ps a code": ".0f",
}


def show(results):
    """Print the results as markdown."""
    head = results["head"]
    print(
        f"{describe(head)} {head['threads']} threads, seed {head['seed']}, "
        f"faiss built for {head['faiss options']}."
    )
    for table in tables_of(results).values():
        if table.rows:
            table.printed()


def save_tables(results, path):
    """Save the tables for the documentation."""
    head = results["head"]
    data = f"{head['threads']} threads, faiss built for {head['faiss options']}"
    tables = tables_of(results)
    save(path, tables, seeds=[head["seed"]], data=data, measured=head)


def tables_of(results):
    """Return all tables by name."""
    settings, engines = Table(SETTINGS), Table(ENGINES)
    for setting, rows in groupby(results["rows"], key=_setting):
        rows = {row["engine"]: row for row in rows}
        settings.rows.append([*_setting_cells(setting), *_beside_faiss(rows)])
        for row in rows.values():
            cells = *_setting_cells(setting), *_cells(row, rows["ours"]["seconds"])
            engines.rows.append(cells)
    left_out = [what.split(": ", 1) for what in results["left_out"]]
    return {
        "settings": settings,
        "engines": engines,
        "first": Table(FIRST, results["first"]),
        "constants": Table(CONSTANTS, list(_constants(results))),
        "left_out": Table({"left out": "", "because": ""}, left_out),
    }


def _beside_faiss(rows):
    """Return the cells of ours beside the better exact search of faiss."""
    ours, limit = rows["ours"], rows.get("popcount limit")
    peers = [rows[name] for name in FAISS if name in rows]
    peer, median = min(peers, key=_median), _median(ours)
    return (
        ours["queries"] / median,
        peer["queries"] / _median(peer),
        _median(peer) / median,
        None if limit is None else _median(limit) / median,
        1000 * ours["single"],
        1000 * min(row["single"] for row in peers),
    )


def _constants(results):
    """Yield what comparing one code takes: the constants to predict time by.

    They are those of random codes, all of which are compared.
    """
    threads = results["head"]["threads"]
    for row in results["rows"]:
        if (row["engine"], row["kind"], row["k"]) == ("ours, brute", "random", 10):
            batch = _median(row) * threads / row["queries"]
            picoseconds = (1e12 * it / row["n"] for it in (batch, row["single"]))
            yield [row["bits"], row["n"], *picoseconds]


def draw(results, path):
    """Draw queries/s against n, for random and real codes side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = [
        row
        for row in results["rows"]
        if row["radius"] is None and all(row[x] == CENTER[x] for x in CENTER)
    ]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    figure, axes = plt.subplots(
        1,
        len(kinds),
        figsize=(4.5 * len(kinds) + 3, 4.4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    named = {}
    colors = plt.get_cmap("tab20")
    for ax, kind in zip(axes[0], kinds, strict=True):
        for i, engine in enumerate(engines):
            points = [r for r in rows if (r["kind"], r["engine"]) == (kind, engine)]
            if not points:
                continue
            points.sort(key=lambda row: row["n"])
            rates = [r["queries"] / _median(r) for r in points]
            last = points[-1]["recall"]
            exact = last is None or last == 1
            (line,) = ax.loglog(
                [row["n"] for row in points],
                rates,
                marker="o",
                linestyle="-" if exact else ":",
                linewidth=2.5 if engine.startswith("ours") else 1.2,
                color=colors(i % 20),
            )
            named[engine if exact else f"{engine} (recall {last:.2f})"] = line
        ax.set(xlabel="codes", title=f"{kind} codes, 64 bits, k = 10")
    axes[0, 0].set_ylabel("queries a second")
    figure.legend(named.values(), named, loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=150)


def _setting(row):
    return row["kind"], row["bits"], row["n"], row["k"], row["radius"]


def _setting_cells(setting):
    kind, bits, n, k, radius = setting
    return kind, bits, n, f"k = {k}" if radius is None else f"radius {radius}"


def _median(row):
    return statistics.median(row["seconds"])


def _cells(row, ours):
    """Return the cells of an engine; `ours` are the sorted seconds of ours."""
    median = _median(row)
    return (
        row["engine"],
        row["queries"] / median,
        median / statistics.median(ours),
        row["seconds"][0] / ours[0],
        1000 * row["single"],
        row["recall"],
        row["build"],
        row["bytes"],
    )
