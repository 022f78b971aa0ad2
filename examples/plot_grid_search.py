"""
Tuning an encoder with GridSearchCV
===================================

Encoders are scikit-learn estimators, so `GridSearchCV` can tune them. It needs a scorer
that measures how good a code is. This example searches over the code length, the
gradient estimator and the learning rate of `SGHEncoder`, with two kinds of scorers.
"""

# %%
# The pipeline
# ------------
#
# The encoder makes codes of 0 and 1. `HammingNeighbors` is the last step, and keeps the
# codes and the labels of the training fold. Only the training part of the digits is
# used, so nothing is chosen on the queries.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skhash import HammingNeighbors, SGHEncoder
from skhash.datasets import load_digits_retrieval
from skhash.metrics import (
    make_neighbor_recall_scorer,
    make_retrieval_scorer,
    precision_at_k_score,
    retrieval_scorer,
)

data = load_digits_retrieval()
pipeline = Pipeline(
    [
        ("encode", SGHEncoder(max_epochs=6, batch_size=100, random_state=0)),
        ("search", HammingNeighbors(n_neighbors=10)),
    ]
)

# %%
# The scorers
# -----------
#
# `retrieval_scorer` is the mean average precision, where rows with the same label are
# relevant. Because the pipeline ends in `HammingNeighbors`, each row of the validation
# fold is a query against the codes of the training fold. `make_retrieval_scorer` does
# the same for any metric of `skhash.metrics`.
#
# The scorer of `make_neighbor_recall_scorer` needs no labels. Within the validation
# fold, it measures how many of the ten true neighbours of a row, by the float vectors,
# are among its 20 nearest codes. A row does not count as its own neighbour.

scoring = {
    "mAP": retrieval_scorer,
    "precision_10": make_retrieval_scorer(precision_at_k_score, k=10),
    "recall_20": make_neighbor_recall_scorer(n_neighbors=10, n_retrieved=20),
}

# %%
# The search
# ----------
#
# ``refit`` names the score by which the best candidate is chosen.

grid = {
    "encode__n_bits": [16, 32, 64],
    "encode__gradient": ["analytic", "exact", "linear"],
    "encode__lr": [0.01, 0.05],
}
search = GridSearchCV(pipeline, grid, scoring=scoring, refit="recall_20", cv=3)
search.fit(data.train, data.train_labels)
print("chosen:", search.best_params_)

# %%
# All candidates
# --------------

columns = {f"param_{name}": name.removeprefix("encode__") for name in grid}
columns |= {f"mean_test_{name}": name for name in scoring}
table = pd.DataFrame(search.cv_results_)[list(columns)].rename(columns=columns)
print(table.round(3).to_string(index=False))

# %%
# In this run, more bits raise every score. The larger learning rate lowers the scores
# by label, but hardly changes the recall of neighbours, and the linear gradient is
# behind in the scores by label. Which candidate is best depends on what the codes are
# for, so choose the score first. The docstring of `SGHEncoder` explains the gradients.

TITLES = {
    "mAP": "mean average precision",
    "precision_10": "precision of the first 10",
    "recall_20": "10 true neighbours in 20",
}
COLORS = {"analytic": "#1b6ca8", "exact": "#2a9d6f", "linear": "#d95f02"}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for ax, (score, title) in zip(axes, TITLES.items(), strict=True):
    for (gradient, lr), rows in table.groupby(["gradient", "lr"]):
        style = {"color": COLORS[gradient], "label": f"{gradient}, lr={lr}"}
        line = "o-" if lr == 0.01 else "o--"
        ax.plot(rows["n_bits"], rows[score], line, markersize=4, **style)
    ax.set_xticks(grid["encode__n_bits"])
    ax.set_xlabel("bits")
    ax.set_title(title, fontsize="medium")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
lines = axes[0].get_legend_handles_labels()
figure.legend(*lines, loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# The search object acts as the chosen pipeline, fitted to all training rows, and a
# scorer accepts it directly. Here it scores the queries, which were not used in the
# search, against the index.

score = retrieval_scorer(search, data.query, data.query_labels)
print(f"mAP of the queries: {score:.3f}")
