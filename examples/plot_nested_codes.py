"""
One code for many lengths
=========================

How long should a code be? With nested codes you can decide later. `NeighborHash` is
fitted once, with 64 bits, and its first 8, 16 and 32 bits are good codes as well. This
example compares these prefixes with `ITQHash`, which needs a separate fit for each
length, and with prefixes of `PCAHash`, whose bits are in order of their variance.
"""

# %%
# Data
# ----
#
# The data are six thousand training images of Fashion-MNIST or, if they are not
# installed, scikit-learn's digits. On data sets as small as the digits, the methods are
# close together: with 64 bits, ITQ is level.

import matplotlib.pyplot as plt
from data import load_fashion_mnist

from skhash import ITQHash, NeighborHash, PCAHash
from skhash.datasets import load_digits_retrieval
from skhash.metrics import neighbor_recall_score, true_neighbors

N_ROWS, LENGTHS = 6000, [8, 16, 32, 64]

try:
    data, name = load_fashion_mnist(), "Fashion-MNIST"
except FileNotFoundError:
    data, name = load_digits_retrieval(), "digits"
database, queries = data.database[:N_ROWS], data.query
print(f"{name}: database {database.shape}, queries {queries.shape}")

# %%
# One fit, four codes
# -------------------
#
# By default, the lengths 8, 16, 32 and so on are trained jointly; `nested` can name
# other lengths. `truncate` returns an encoder for the first bits.

nested = NeighborHash(n_bits=64, random_state=0).fit(database)
short = nested.truncate(16)
print(nested.lengths_, short.n_bits)
print((short.transform(queries) == nested.transform(queries)[:, :16]).all())

# %%
# Recall
# ------
#
# Recall 10@100 is the share of a query's ten true neighbours, by Euclidean distance,
# that are among the 100 nearest codes.

truth = true_neighbors(queries, database, n_neighbors=10)


def recall(encoder, n_bits):
    """Return the recall with the first bits of an encoder."""
    codes = (encoder.transform(rows)[:, :n_bits] for rows in (queries, database))
    return neighbor_recall_score(*codes, truth, n_retrieved=100)


pca = PCAHash(n_bits=64).fit(database)
by_nested = [recall(nested, m) for m in LENGTHS]
by_itq = [recall(ITQHash(m, random_state=0).fit(database), m) for m in LENGTHS]
by_pca = [recall(pca, m) for m in LENGTHS]
print("bits  nested  ITQ fits  PCA")
for m, *values in zip(LENGTHS, by_nested, by_itq, by_pca, strict=True):
    print(f"{m:4d}  {values[0]:.3f}   {values[1]:.3f}     {values[2]:.3f}")

# %%
# The picture
# -----------
#
# The upper part shows the nested codes of some images, one per row. The lower part
# shows the recall with the bits to the left of each point.

BLUE, ORANGE, GREY = "#1b6ca8", "#d95f02", "0.55"
figure, (top, ax) = plt.subplots(
    2, figsize=(8.5, 5.4), height_ratios=[1, 3], sharex=True, layout="constrained"
)
style = {"cmap": "Blues", "vmin": -0.3, "vmax": 1.6, "aspect": "auto"}
top.imshow(nested.transform(queries[:8]), extent=(0, 64, 0, 8), **style)
top.set_axis_off()
top.set_title("One code of 64 bits, and codes within it\n", fontsize="medium")
for m in LENGTHS:
    for axes in (top, ax):
        axes.axvline(m, color="0.25", linewidth=1, linestyle=(0, (2, 2)))
    text = f"first {m}" if m < 64 else "all 64"
    top.text(m - 0.3, 8.5, text, ha="right", fontsize="small")
for values, color, marker, text in (
    (by_nested, BLUE, "o", "NeighborHash: one fit, first bits"),
    (by_itq, ORANGE, "s", "ITQHash: a fit for each length"),
    (by_pca, GREY, "^", "PCAHash: one fit, first bits"),
):
    ax.plot(LENGTHS, values, color=color, marker=marker, label=text)
ax.set(xlim=(0, 64.5), ylim=(0, 1.02), xticks=LENGTHS, xlabel="bits used")
ax.set_ylabel("recall of the 10 nearest\nby 100 candidates")
ax.legend(loc="lower right", frameon=False, title=f"{name}, {len(database):,} images")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
