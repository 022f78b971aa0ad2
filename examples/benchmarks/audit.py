"""The picture of an audit: `skhash.audit` on three data sets, side by side.

python examples/benchmarks/audit.py docs/images/audit.png
"""

import argparse

import numpy as np
from drawing import DPI, panels
from growing_results import describe, head
from loaders import LOADERS, TITLES
from result_files import Table, add_output, columns, save

import skhash

DATA = ("digits", "fashion_mnist", "glove_100k")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", help="file to write")
    parser.add_argument("--data", nargs="+", default=DATA, choices=LOADERS)
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args(arguments)
    titles = [TITLES[name] for name in arguments.data]
    figure, axes = panels(titles, size=(4.7, 4.2), legend=False, sharey=True)
    print(describe(head()))
    recommended, alternatives = Table(RECOMMENDED), Table({"set": "", "else": ""})
    for ax, name, title in zip(axes, arguments.data, titles, strict=True):
        data = LOADERS[name](data_home=arguments.data_home)
        vectors = np.vstack([data.database, data.query])
        result = skhash.audit(vectors, n_bits=BITS, sample=SAMPLE, progress=say)
        result.plot(ax)
        ax.set_title(f"{title}\n{ax.get_title()}", fontsize="medium")
        ax.label_outer()
        recommended.rows.append([title, len(vectors), *cells_of(result)])
        alternatives.rows += [[title, line] for line in result.alternatives]
    figure.savefig(arguments.picture, dpi=DPI)
    tables = {"What is recommended": recommended}
    tables["What else may be chosen"] = alternatives
    for table in tables.values():
        table.printed()
    data = f"at most {SAMPLE:,} rows of each set, a fifth of them or 1000 as queries"
    save(arguments.output, tables, seeds=[0], data=data)


def say(line, *_):
    print(line)


def cells_of(result):
    """Return what is recommended."""
    best = result.choice
    once = best.decoder_bytes or None
    recall = best.recall
    return best.row.method, best.row.n_bits, best.search, best.n_bytes, once, recall


BITS = (8, 16, 32, 64, 128)
SAMPLE = 20_000
RECOMMENDED = columns(
    "set | vectors :, | method | bits | by | bytes | bytes once :, | 10@100 :.3f"
)

if __name__ == "__main__":
    main()
