"""How recall falls as a database grows, and what smaller sizes say of larger ones.

    python examples/benchmarks/growth.py --output growth.json --data-home DATA_HOME
    python examples/benchmarks/growth.py --show growth.json --results FILE --draw

`AdditiveQuantizer` is fitted once to 100,000 vectors that the database does not hold,
but for the last size of MiniLM. Recall 10@N is the share of the ten nearest that are
among the first N of all codes, compared with uncompressed queries.

"Expected" is what the sizes up to 100,000 lead to expect of larger ones, as the audit
does it: `skhash.auditing.growth`.
"""

from collections import defaultdict
from functools import partial

import tools
from sklearn.frozen import FrozenEstimator

from skhash import AdditiveQuantizer, HashedNeighbors
from skhash.auditing.growth import Growth
from skhash.metrics import search_recall_score, true_neighbors

TABLE = "Recall by the number of vectors"
PICTURE = tools.ROOT / "docs/images/growth.svg"
MOST_SEEN = 100_000  # vectors from which larger databases are foretold
SIZES = (10_000, 30_000, MOST_SEEN, 300_000, 1_000_000)
COLUMNS = (
    "data | bytes a code | vectors :,d | 10@10 :.3f | 10@100 :.3f | "
    "expected 10@10 :.3f | expected 10@100 :.3f"
)
CUTS = {"10@10": 10, "10@100": 100}


def measure(data, n_bytes, n_queries):
    """Return the sizes of the database, and by cut the recall among each."""
    n = len(data.database)
    sizes = [size for size in SIZES if size < 0.9 * n] + [n]
    queries = data.query[:n_queries]
    quantizer = AdditiveQuantizer(n_bytes).fit(data.train)
    search = HashedNeighbors(FrozenEstimator(quantizer), metric=data.metric)
    recalls, start = {cut: [] for cut in CUTS}, 0
    for size in sizes:
        search.partial_fit(data.database[start:size])
        start = size
        found = search.kneighbors(queries, max(CUTS.values()), return_distance=False)
        rows = data.database[:size]
        truth = true_neighbors(queries, rows, 10, metric=data.metric)
        for cut, n in CUTS.items():
            recalls[cut].append(search_recall_score(found[:, :n], truth))
        print(f"{n_bytes} bytes, {size:,}: {recalls['10@10'][-1]:.3f}", flush=True)
    return {"sizes": sizes, "recalls": recalls}


def table_of(content):
    """Return a row for each data set, length and size."""
    rows = []
    for name, cell in content["cells"].items():
        data, n_bytes = name.split("/")
        sizes, recalls = cell["sizes"], cell["recalls"].values()
        n_seen = sum(size <= MOST_SEEN for size in sizes)
        for place, size in enumerate(sizes):
            found, foretold = [own[place] for own in recalls], [None] * len(recalls)
            if place >= n_seen:
                seen = [Growth(sizes[:n_seen], own[:n_seen], size) for own in recalls]
                foretold = [growth.expected for growth in seen]
            rows.append([tools.TITLES[data], int(n_bytes), size, *found, *foretold])
    return tools.Table(COLUMNS, rows)


def draw(rows):
    """Draw recall against the number of vectors, a line for each length."""
    found = defaultdict(list)
    for row in rows:
        found[row["data"], int(row["bytes a code"])].append(row)
    titles = list(dict.fromkeys(title for title, _ in found))
    figure, axes = tools.panels(titles, size=(4.5, 4), sharey=True)
    lengths = sorted({n_bytes for _, n_bytes in found})
    for (title, n_bytes), own in found.items():
        ax, shade = axes[titles.index(title)], lengths.index(n_bytes) / len(lengths)
        sizes = [int(row["vectors"].replace(",", "")) for row in own]
        for cut, style in zip(CUTS, ("o-", "o:"), strict=True):
            recalls = [float(row[cut]) for row in own]
            color = 0.84 - shade / 2, 0.16, 0.22 + shade / 2
            ax.plot(sizes, recalls, style, color=color, label=f"{n_bytes} bytes, {cut}")
        ax.set(xscale="log", xlabel="vectors", ylim=(0, 1.03))
    axes[0].set_ylabel("share of the ten nearest")
    tools.finish(figure, PICTURE)


def run(name, arguments, results):
    """Measure all lengths on one data set."""
    data = tools.LOADERS[name](data_home=arguments.data_home)
    for n_bytes in arguments.bytes:
        make = partial(measure, data, n_bytes, arguments.queries)
        results.get(f"{name}/{n_bytes}", make)


def main():
    sets = {"sets": ["passages", "sift"], "bytes": [4, 8, 16, 32], "queries": 2000}
    arguments = tools.options(__doc__, grows=True, **sets, draw=False).parse_args()
    content = tools.content_of(arguments, arguments.sets, run)
    tables = {TABLE: table_of(content)}
    tools.print_and_save(tables, content, arguments.results, seeds=[0])
    if arguments.draw:
        draw(tools.read_table(arguments.results, "Seed"))


if __name__ == "__main__":
    main()
