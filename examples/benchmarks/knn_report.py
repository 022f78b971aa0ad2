"""Tables and a picture of what `knn.py` has measured."""

import statistics
from itertools import groupby

CENTER = {"bits": 64, "k": 10}
FAISS = ("faiss flat", "faiss knn_hamming")


def show(results):
    """Print the results as markdown."""
    head = results["head"]
    versions = ", ".join(f"{name} {v}" for name, v in head["versions"].items())
    print(
        f"{head['processor']}, {head['threads']} threads, {head['date']}, seed "
        f"{head['seed']}. {versions} (faiss built for {head['faiss options']}).\n"
    )
    show_summary(results)
    print(
        "| codes | bits | n | asked | engine | queries/s | times ours | best to best | "
        "one query, ms | recall | build, s | bytes a code |"
    )
    print("|" + "---|" * 12)
    for _, rows in groupby(results["rows"], key=_setting):
        rows = list(rows)
        ours = next(row["seconds"] for row in rows if row["engine"] == "ours")
        for row in rows:
            print("| " + " | ".join(_cells(row, ours)) + " |")
    print("\n| first query in a new process | cache | imports, s | then, s |")
    print("|---|---|---|---|")
    for name, cache, imports, first in results["first"]:
        print(f"| {name} | {cache} | {imports:.2f} | {first:.2f} |")
    show_constants(results)
    for what in results["left_out"]:
        print(f"\nLeft out: {what}.")


def show_summary(results):
    """Print a line a setting: ours beside the better exact search of faiss."""
    print(
        "| codes | bits | n | asked | ours, queries/s | faiss, queries/s | ratio | "
        "share of the popcount limit | one query, ms | faiss, ms |"
    )
    print("|" + "---|" * 10)
    for setting, rows in groupby(results["rows"], key=_setting):
        rows = {row["engine"]: row for row in rows}
        ours, limit = rows["ours"], rows.get("popcount limit")
        peers = [rows[name] for name in FAISS if name in rows]
        peer, median = min(peers, key=_median), _median(ours)
        cells = (
            *_setting_cells(setting),
            f"{ours['queries'] / median:,.0f}",
            f"{peer['queries'] / _median(peer):,.0f}",
            f"{_median(peer) / median:.1f}",
            "" if limit is None else f"{_median(limit) / median:.2f}",
            f"{1000 * ours['single']:.3f}",
            f"{1000 * min(row['single'] for row in peers):.3f}",
        )
        print("| " + " | ".join(cells) + " |")
    print()


def show_constants(results):
    """Print what comparing one code takes: the constants to predict time by.

    They are those of random codes, all of which are compared.
    """
    print("\n| bits | n | batches, ps a code and thread | one query, ps a code |")
    print("|---|---|---|---|")
    threads = results["head"]["threads"]
    for row in results["rows"]:
        if (row["engine"], row["kind"], row["k"]) != ("ours, brute", "random", 10):
            continue
        batch = _median(row) * threads / row["queries"]
        print(
            f"| {row['bits']} | {row['n']} | {1e12 * batch / row['n']:.0f} | "
            f"{1e12 * row['single'] / row['n']:.0f} |"
        )


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
    asked = f"k = {k}" if radius is None else f"radius {radius}"
    return kind, str(bits), f"{n:,}", asked


def _median(row):
    return statistics.median(row["seconds"])


def _cells(row, ours):
    """Return the cells of a row; `ours` are the sorted seconds of ours."""
    median = _median(row)
    return (
        *_setting_cells(_setting(row)),
        row["engine"],
        f"{row['queries'] / median:,.0f}",
        f"{median / statistics.median(ours):.2f}",
        f"{row['seconds'][0] / ours[0]:.2f}",
        f"{1000 * row['single']:.3f}",
        "" if row["recall"] is None else f"{row['recall']:.3f}",
        f"{row['build']:.2f}",
        "" if row["bytes"] is None else f"{row['bytes']:.1f}",
    )
