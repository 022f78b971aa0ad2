"""The picture of an audit: `skhash.audit` on three data sets, side by side.

python examples/benchmarks/audit.py docs/images/audit.png
"""

import argparse

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from data_sets import load_fashion_mnist, load_glove
from growing_results import describe, head
from result_files import Table, add_output, save

import skhash
from skhash.datasets import load_digits_retrieval

DATA = {
    "digits": load_digits_retrieval,
    "Fashion-MNIST": load_fashion_mnist,
    "GloVe, frequent words": lambda: load_glove(100_000),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", help="file to write")
    add_output(parser)
    arguments = parser.parse_args()
    figure, all_axes = plt.subplots(
        1, 3, figsize=(14, 4.2), sharey=True, layout="constrained"
    )
    print(describe(head()))
    recommended, rows = Table(RECOMMENDED), Table(ROWS)
    alternatives = Table({"set": "", "else": ""})
    for ax, (name, load) in zip(all_axes, DATA.items(), strict=True):
        try:
            data = load()
        except FileNotFoundError as error:
            raise SystemExit(f"{name}: {error}") from None
        vectors = np.vstack([data.database, data.query])
        result = skhash.audit(
            vectors, n_bits=BITS, sample=SAMPLE, progress=lambda line, _: print(line)
        )
        result.plot(ax)
        ax.set_title(f"{name}\n{ax.get_title()}", fontsize="medium")
        ax.label_outer()
        if ax is not all_axes[-1]:
            ax.get_legend().remove()
        recommended.rows.append([name, len(vectors), *cells_of(result)])
        alternatives.rows += [[name, line] for line in result.alternatives]
        rows.rows += [
            [name, *(getattr(row, field) for field in FIELDS)] for row in result.rows
        ]
    figure.savefig(arguments.picture, dpi=110)
    tables = {"recommended": recommended, "alternatives": alternatives, "rows": rows}
    for table in tables.values():
        table.printed()
    data = f"at most {SAMPLE:,} rows of each set, a fifth of them or 1000 as queries"
    save(arguments.output, tables, seeds=[0], data=data)


def cells_of(result):
    """Return what is recommended."""
    best = result.choice
    once = best.decoder_bytes or None
    recall = best.recall
    return best.row.method, best.row.n_bits, best.search, best.n_bytes, once, recall


BITS = (8, 16, 32, 64, 128)
SAMPLE = 20_000
RECOMMENDED = {
    "set": "",
    "vectors": ",",
    "method": "",
    "bits": "",
    "by": "",
    "bytes": "",
    "bytes once": ",",
    "10@100": ".3f",
}
FIELDS = {
    "method": "method",
    "n_bits": "bits",
    "code_bytes": "code bytes",
    "bytes_per_vector": "bytes",
    "codebook_bytes": "bytes once",
    "recall": "H 10@10",
    "recall_rescored": "H 10@100",
    "recall_asymmetric": "Q 10@10",
    "recall_asymmetric_rescored": "Q 10@100",
}
ROWS = {"set": "", **dict.fromkeys(FIELDS.values(), "")}
ROWS |= {name: ".3f" for name in ROWS if "@" in name} | {"bytes once": ","}

if __name__ == "__main__":
    main()
