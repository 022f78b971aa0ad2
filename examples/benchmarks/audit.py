"""The picture of an audit: `skhash.audit` on three data sets, side by side.

python examples/benchmarks/audit.py docs/images/audit.svg
"""

import numpy as np
from tools import LOADERS, TITLES, Table, finish, options, panels, save

import skhash

DATA = ["digits", "fashion_mnist", "glove_100k"]
BITS, SAMPLE = (8, 16, 32, 64, 128), 20_000


def print_line(line, *_):
    print(line)


def main():
    parser = options(__doc__, data=DATA, data_home=None)
    parser.add_argument("picture", help="file to write")
    arguments = parser.parse_args()
    titles = [TITLES[name] for name in arguments.data]
    figure, axes = panels(titles, size=(4.8, 4.2), sharey=True)
    best = Table(
        "set | vectors :, | method | bits | by | bytes | bytes once :, | 10@100 :.3f"
        " | candidates to re-rank"
    )
    others = Table("set | else")
    for ax, name, title in zip(axes, arguments.data, titles, strict=True):
        data = LOADERS[name](data_home=arguments.data_home)
        vectors = np.vstack([data.database, data.query])
        settings = {"n_bits": BITS, "sample": SAMPLE, "progress": print_line}
        result = skhash.audit(vectors, **settings)
        result.plot(ax)
        ax.get_legend().remove()
        for handle in ax.get_legend_handles_labels()[0]:
            if handle.get_label().startswith("recommended"):
                handle.set_label("recommended")
        ax.set(title=title, xlabel="bytes a vector")
        ax.label_outer()
        row = result.recommended
        sizes = row.bytes_per_vector, row.codebook_bytes or None
        cells = row.method, row.n_bits, row.search, *sizes, row.recall_reranked
        best.rows.append([title, len(vectors), *cells, row.depth])
        others.rows += [[title, line] for line in result.alternatives]
    finish(figure, arguments.picture)
    tables = {"Recommended": best, "Alternatives": others}
    for table in tables.values():
        table.printed()
    data = f"at most {SAMPLE:,} rows of each set, a fifth of them or 1000 as queries"
    save(arguments.output, tables, seeds=[0], data=data)


if __name__ == "__main__":
    main()
