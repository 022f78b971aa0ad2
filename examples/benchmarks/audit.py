"""The picture of an audit: `skhash.audit` on three data sets, side by side.

python examples/benchmarks/audit.py docs/images/audit.png
"""

import argparse
import datetime
import platform

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import skhash
from skhash.datasets import load_digits_retrieval, load_fashion_mnist, load_glove

DATA = {
    "digits": load_digits_retrieval,
    "Fashion-MNIST": load_fashion_mnist,
    "GloVe, frequent words": lambda: load_glove(100_000),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", help="file to write")
    arguments = parser.parse_args()
    figure, all_axes = plt.subplots(
        1, 3, figsize=(14, 4.2), sharey=True, layout="constrained"
    )
    print(f"{datetime.date.today()}, {platform.machine()}, skhash {skhash.__version__}")
    for ax, (name, load) in zip(all_axes, DATA.items(), strict=True):
        try:
            data = load()
        except FileNotFoundError as error:
            raise SystemExit(f"{name}: {error}") from None
        rows = np.vstack([data.database, data.query])
        result = skhash.audit(rows, n_bits=BITS, sample=SAMPLE, progress=print)
        result.plot(ax)
        ax.set_title(f"{name}\n{ax.get_title()}", fontsize="medium")
        ax.label_outer()
        if ax is not all_axes[-1]:
            ax.get_legend().remove()
        print(f"{name}: recommended {result.choice}: {result.reason}")
        print("\n".join([*result.alternatives, *result.skipped]))
        for row in result.rows:
            print(f"{name}: {row}")
    figure.savefig(arguments.picture, dpi=110)


BITS = (8, 16, 32, 64, 128)
SAMPLE = 20_000

if __name__ == "__main__":
    main()
