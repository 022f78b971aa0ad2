"""
A quick start: vectors, codes, search, score
============================================

Vectors become short binary codes, the codes are searched, and the answer is scored.
Four steps, on the digits that come with scikit-learn.
"""

# %%
# Vectors
# -------
#
# The digits are 8 x 8 grey values, rows of 64 numbers. A part is held out as queries;
# the rest is the database that is searched.

import matplotlib.pyplot as plt

from skhash import HammingNeighbors, SGHEncoder
from skhash.datasets import load_digits_retrieval
from skhash.metrics import (
    mean_average_precision_score,
    neighbor_recall_score,
    true_neighbors,
)

data = load_digits_retrieval()
print(f"database {data.database.shape}, queries {data.query.shape}")

# %%
# Codes
# -----
#
# An encoder is a scikit-learn transformer. `transform` gives one column of 0 and 1 for
# each bit; `transform_packed` gives the same codes with eight bits in a byte.

encoder = SGHEncoder(n_bits=32, random_state=0).fit(data.train)
codes = encoder.transform(data.database)
query_codes = encoder.transform(data.query)
packed = encoder.transform_packed(data.database)
print(f"bits {codes.shape}, packed {packed.shape}")
print(f"{data.database.nbytes} bytes of floats, {packed.nbytes} bytes of codes")

# %%
# Search
# ------
#
# `HammingNeighbors` finds the codes that differ in the fewest bits. The search is
# exact. Codes at the same distance are ordered by their position in the database.

index = HammingNeighbors(n_neighbors=8).fit(codes, data.database_labels)
distances, positions = index.kneighbors(query_codes)
print("distances of the first query:", distances[0])
print("their labels:", data.database_labels[positions[0]])

# %%
# Score
# -----
#
# Two questions can be asked of a code. Are the codes near a query of the same class?
# That is the mean average precision. Are the true neighbours, those of the float
# vectors, among the nearest codes? That is the neighbour recall, which needs no labels.

mean_average_precision = mean_average_precision_score(
    query_codes, codes, data.query_labels, data.database_labels
)
truth = true_neighbors(data.query, data.database, n_neighbors=10)
recall = neighbor_recall_score(query_codes, codes, truth, n_retrieved=100)
print(f"mean average precision {mean_average_precision:.3f}")
print(f"10 true neighbours among the 100 nearest codes {recall:.3f}")

# %%
# A picture
# ---------
#
# The first query of each digit, its code of 32 bits, and the digits with the eight
# nearest codes. The number above a digit is the Hamming distance. It is orange where
# the digit is another one.

SAME, OTHER = "0.35", "#d95f02"
shown = [int((data.query_labels == digit).argmax()) for digit in range(10)]
n_found = positions.shape[1]
look = {"figsize": (6, 6.8), "layout": "constrained"}
widths = [1, 1.9] + n_found * [1]
figure, axes = plt.subplots(len(shown), len(widths), width_ratios=widths, **look)
for row, query in zip(axes, shown, strict=True):
    row[0].imshow(data.query[query].reshape(8, 8), cmap="gray_r")
    row[1].imshow(query_codes[query].reshape(4, 8), cmap="gray_r", vmin=0, vmax=1)
    found = zip(row[2:], positions[query], distances[query], strict=True)
    for ax, position, distance in found:
        ax.imshow(data.database[position].reshape(8, 8), cmap="gray_r")
        is_same = data.database_labels[position] == data.query_labels[query]
        color, weight = (SAME, "normal") if is_same else (OTHER, "bold")
        ax.set_title(distance, color=color, fontweight=weight, fontsize=8, pad=2)
    for ax in row:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("0.8")
axes[0, 0].set_title("query", fontsize=8, pad=4)
axes[0, 1].set_title("code", fontsize=8, pad=4)
plt.show()
