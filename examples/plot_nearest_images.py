"""
Nearest images by code and by float
===================================

How much of an image does a 64-bit code keep? For one image of each class, this example
shows the ten images with the nearest codes next to the ten nearest by Euclidean
distance. A code takes 8 bytes; the 784 pixels of a Fashion-MNIST image take 3136 bytes
as floats.
"""

# %%
# Data
# ----
#
# The data are Fashion-MNIST or, if it is not installed, scikit-learn's digits.

import matplotlib.pyplot as plt
import numpy as np
from data import load_fashion_mnist

from skhash import HammingNeighbors, SGHEncoder
from skhash.datasets import load_digits_retrieval
from skhash.metrics import true_neighbors

N_FOUND = 10

try:
    data = load_fashion_mnist()
except FileNotFoundError:
    data = load_digits_retrieval()
SIDE = round(data.database.shape[1] ** 0.5)
names = np.arange(10) if data.label_names is None else data.label_names
print(f"{data.name}: database {data.database.shape}, queries {data.query.shape}")

# %%
# Codes and neighbours
# --------------------
#
# The encoder uses no labels. The queries are test images that are not in the database.

encoder = SGHEncoder(n_bits=64, random_state=0).fit(data.train)
index = HammingNeighbors(n_neighbors=N_FOUND, packed=True)
index.fit(encoder.transform_packed(data.database))
by_code = index.kneighbors(encoder.transform_packed(data.query), return_distance=False)
by_float = true_neighbors(data.query, data.database, n_neighbors=N_FOUND)

# %%
# How often does a neighbour have the query's class, and how many neighbours do the two
# lists share?

wanted = data.query_labels[:, None]
for name, positions in {"code": by_code, "float": by_float}.items():
    precision = np.mean(data.database_labels[positions] == wanted)
    print(f"precision of the first {N_FOUND} by {name}: {precision:.3f}")
shared = [len(np.intersect1d(*pair)) for pair in zip(by_code, by_float, strict=True)]
print(f"neighbours in both lists: {np.mean(shared):.1f} of {N_FOUND}")

# %%
# The picture
# -----------
#
# The picture shows the first query of each class; none were hand-picked. The bar below
# a neighbour is blue if it has the query's class, and orange otherwise.

SAME, OTHER = "#1b6ca8", "#d95f02"


def show(ax, pixels, color=None):
    """Draw an image, with a bar below it where a colour is given."""
    ax.imshow(pixels.reshape(SIDE, SIDE), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    if color is not None:
        ax.spines["bottom"].set(visible=True, color=color, linewidth=2.5)
        ax.spines["bottom"].set_bounds(0, SIDE - 1)


queries = [int((data.query_labels == label).argmax()) for label in range(len(names))]
GAP = 0.35
widths = [1, GAP, *[1] * N_FOUND, GAP, *[1] * N_FOUND]
shape = len(queries), len(widths)
figure, axes = plt.subplots(*shape, figsize=(12.5, 6), width_ratios=widths)
figure.subplots_adjust(0.085, 0.01, 0.995, 0.955, wspace=0.06, hspace=0.1)
for row, query in zip(axes, queries, strict=True):
    label = data.query_labels[query]
    show(row[0], data.query[query])
    row[0].set_ylabel(names[label], rotation=0, ha="right", va="center", fontsize=9)
    for ax in row[[1, 2 + N_FOUND]]:
        ax.set_axis_off()
    found = np.concatenate([by_code[query], by_float[query]])
    places = np.concatenate([row[2 : 2 + N_FOUND], row[3 + N_FOUND :]])
    for ax, position in zip(places, found, strict=True):
        is_same = data.database_labels[position] == label
        show(ax, data.database[position], SAME if is_same else OTHER)

for column, text in {
    0: "query",
    2: f"nearest by {encoder.n_bits}-bit code",
    3 + N_FOUND: "nearest by Euclidean distance",
}.items():
    axes[0, column].set_title(text, loc="left", fontsize=10)
plt.show()
