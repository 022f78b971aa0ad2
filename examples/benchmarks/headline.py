"""Measure the code of the README on sentence embeddings, and draw its picture.

    python examples/benchmarks/headline.py --data-home DATA_HOME
    python examples/benchmarks/headline.py --draw

The Python of the README runs as it stands there, with MiniLM embeddings in place of
digits: of passages, of which 100,000 are fitted and the others only encoded. Queries
are passages of other messages. The table goes to ``docs/results/headline.md``
and to the README. The picture has them beside what ``bytes.py`` measured, as
``docs/results/bytes.md`` says; some rows go to ``docs/results/engines.md``.
"""

import doctest
import re
import time

import numpy as np
import tools
from tools import LOADERS, ROOT, TITLES, Table, options, read_table, save

from skhash.metrics import search_recall_score, true_neighbors

README, DOCS = ROOT / "README.md", ROOT / "docs"
RESULTS, BYTES = DOCS / "results/headline.md", DOCS / "results/bytes.md"
ENGINES, PICTURE = DOCS / "results/engines.md", DOCS / "images/headline.svg"
HEAD = (
    "kept in memory | bytes per vector :,g | codebook, MB :.1f | recall 10@10 :.0% | "
    "100 re-ranked :.0%"
)
SIZES = 8, 16  # the README's bytes, and more
OURS = "skhash"
# Of the methods measured: the name in the picture, and the colour.
DECODED = "skhash AdditiveQuantizer"
METHODS = {
    DECODED: (OURS, "#d62839"),
    "RQ, by angle": ("RQ, by angle", "#e09f3e"),
    "RQ": ("RQ", "#3a86c8"),
    "OPQ": ("OPQ", "#2a9d5c"),
    "PQ": ("PQ", "#8fbf6a"),
    "RaBitQ": ("RaBitQ", "#9b5de5"),
}
PANELS = {
    "10@10": "recall 10@10: codes alone",
    "10@100": "recall 10@100: before re-ranking",
}


def run_readme(X, queries, n_bytes):
    """Run the README's Python on these rows, for codes of n bytes; return its names."""
    names = {"X": X, "queries": queries}
    for example in doctest.DocTestParser().get_examples(README.read_text("utf-8")):
        if not re.match("X = |X, queries = ", example.source):
            source = example.source.replace("Neighbors(8,", f"Neighbors({n_bytes},")
            exec(compile(source, README, "single"), names)
    return names


def memory(search):
    """Return the bytes that an index needs for one more row, and the MB for none."""
    store = search.index_._store
    once = store.nbytes - store["blocks"].nbytes
    return store.n_bytes + store.bytes_beside, once / 1e6


def measure(name, data_home):
    """Write the table of the README's searches, here and there."""
    data = LOADERS[name](data_home=data_home)
    X, queries = np.float32(data.database), np.float32(data.query)
    start, table = time.process_time(), Table(HEAD).printed()
    table.add("the vectors", X[0].nbytes, 0, 1.0, None)
    truth = true_neighbors(queries, X, 10, metric="cosine")
    for n_bytes in SIZES:
        names = run_readme(X, queries, n_bytes)
        reranked = names["reranked"].kneighbors(queries, 10, return_distance=False)
        found = names["positions"], reranked
        recalls = [search_recall_score(positions, truth) for positions in found]
        kept = memory(names["search"])
        table.add(f"codes of {n_bytes} bytes", *kept, *recalls)
    found = names["bits"].kneighbors(queries, 10, return_distance=False)
    recall = search_recall_score(found, truth)
    code_bytes = names["bits"].index_.packed_codes_.shape[1]
    table.add("ITQ codes, by Hamming distance", code_bytes, 0, recall, None)
    seconds = time.process_time() - start
    rows = f"{len(X):,} rows of {X.shape[1]} numbers, {len(queries):,} queries"
    spent = f"the README's code ran {seconds:.0f} s of processor time"
    save(RESULTS, {"README": table}, seeds=[0], data=f"{TITLES[name]}: {rows}; {spent}")
    page = README.read_text("utf-8")
    old = re.search(rf"^\| {HEAD.split(' | ')[0]} .*\n(\|.*\n)*", page, re.MULTILINE)
    README.write_text(page.replace(old[0], table.markdown() + "\n"), "utf-8")


def engines(title):
    """Write what codes of about 8 bytes, or of a bit a column, find and need."""
    table = Table("method | search bytes | 10@10 | 10@100 | fit, s | rows/s")
    for row in read_table(BYTES, title):
        if row["code bytes"] == "8" or row["method"] in ("signs", "RaBitQ, 1 bit"):
            if row["method"].partition(",")[0] in (*METHODS, "signs"):
                table.rows.append([row[name] for name in table.formats])
    table.rows.sort(key=lambda cells: (int(cells[1]), cells[2]))
    about = re.search(r"^\*.*\*$", BYTES.read_text("utf-8"), re.MULTILINE)[0]
    ENGINES.write_text(f"{about}\n\n{table.markdown()}\n", "utf-8")


def curves(rows):
    """Return by method the rows: bytes that a search needs, and recalls."""
    result = {name: [] for name in METHODS}
    for row in sorted(rows, key=lambda row: int(row["search bytes"])):
        method = row["method"]
        name = method if method in METHODS else method.partition(",")[0]
        if name in METHODS:
            recalls = {recall: float(row[recall]) for recall in PANELS}
            result[name].append({"bytes": int(row["search bytes"]), **recalls})
    return result


def draw(title):
    """Draw what `bytes.py` measured, and the searches of the README."""
    found = curves(read_table(BYTES, title))
    vectors, *codes, _ = (list(row.values()) for row in read_table(RESULTS, "Seed"))
    figure, axes = tools.panels(list(PANELS.values()), size=(4.5, 4), sharey=True)
    for ax, recall, column in zip(axes, PANELS, (3, 4), strict=True):
        for name, rows in found.items():
            label, color = METHODS[name]
            points = [(row["bytes"], row[recall]) for row in rows]
            style = {"color": color, "linewidth": 3.5 if label == OURS else 1.5}
            ax.plot(*zip(*points, strict=True), "o-", label=label, **style)
        points = [(float(row[1]), float(row[column].rstrip("%"))) for row in codes]
        x, percents = np.transpose(points)
        style = {"color": METHODS[DECODED][1], "markersize": 15}
        ax.plot(x, percents / 100, "*", label=f"{OURS}, defaults", **style)
        float_bytes = int(vectors[1].replace(",", ""))
        ax.plot(float_bytes, 1, "s", color="#888888", label="float32")
        tools.powers_of_two(ax, [4, 16, 64, 256, float_bytes])
        ax.set(xlabel="bytes per vector", ylim=(0, 1.03))
    axes[0].set_ylabel("share of the ten nearest")
    tools.finish(figure, PICTURE)


def main():
    arguments = options(__doc__, data_home=None, draw=False).parse_args()
    if not arguments.draw:
        measure("passages", arguments.data_home)
    engines(TITLES["passages"])
    draw(TITLES["passages"])


if __name__ == "__main__":
    main()
