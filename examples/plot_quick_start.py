"""
A quick start: search vectors in eight bytes each
=================================================

This example compresses each vector to eight bytes, searches the codes, and measures
how many of the true neighbours it finds, on the digits that come with scikit-learn.
"""

# %%
# Vectors
# -------
#
# The digits are images of 8 x 8 grey values, stored as vectors of 64 numbers. Some are
# held out as queries; the rest form the database.

import matplotlib.pyplot as plt

from skhash import HashedNeighbors
from skhash.datasets import load_digits_retrieval
from skhash.metrics import search_recall_score, true_neighbors

data = load_digits_retrieval()
print(f"database {data.database.shape}, queries {data.query.shape}")

# %%
# Search
# ------
#
# `fit` learns codes of eight bytes, and keeps the code of each vector. Queries are not
# compressed: they are compared with the vectors that the codes decode to.

search = HashedNeighbors(8).fit(data.database)
distances, positions = search.kneighbors(data.query, 10)
print("distances of the first query:", distances[0].round(1))
print("their labels:", data.database_labels[positions[0]])

# %%
# How good is it?
# ---------------
#
# Recall is the share of the true neighbours (those of an exhaustive search of the
# vectors) that are found. With `rerank`, the best candidates are re-ranked by their
# original vectors.

truth = true_neighbors(data.query, data.database, 10)
reranked = HashedNeighbors(8, rerank=100, vectors=True).fit(data.database)
found = reranked.kneighbors(data.query, 10, return_distance=False)
print(f"codes alone: {search_recall_score(positions, truth):.3f}")
print(f"re-ranked:   {search_recall_score(found, truth):.3f}")

# %%
# A picture
# ---------
#
# The picture shows the first query of every second digit, its ten nearest neighbours,
# and below each neighbour what its code decodes to. The number is the distance. It is
# orange if the neighbour is a different digit.

SAME, OTHER = "0.35", "#d95f02"
shown = [int((data.query_labels == digit).argmax()) for digit in range(0, 10, 2)]
decoded = search.encoder_.inverse_transform(search.index_.packed_codes_)
look = {"figsize": (7, 7.4), "layout": "constrained"}
figure, axes = plt.subplots(2 * len(shown), 1 + positions.shape[1], **look)
for i, query in enumerate(shown):
    axes[2 * i, 0].imshow(data.query[query].reshape(8, 8), cmap="gray_r")
    pairs = zip(positions[query], distances[query], strict=True)
    for j, (position, distance) in enumerate(pairs, start=1):
        for ax, rows in zip(axes[2 * i :, j], (data.database, decoded), strict=False):
            ax.imshow(rows[position].reshape(8, 8), cmap="gray_r")
        is_same = data.database_labels[position] == data.query_labels[query]
        color, weight = (SAME, "normal") if is_same else (OTHER, "bold")
        style = {"color": color, "fontweight": weight, "fontsize": 8, "pad": 2}
        axes[2 * i, j].set_title(f"{distance:.1f}", **style)
for ax in axes.ravel():
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(bool(ax.images))
    ax.spines[:].set_color("0.8")
axes[0, 0].set_title("query", fontsize=8, pad=2)
plt.show()
