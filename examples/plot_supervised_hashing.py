"""
Codes from labels, and a search over solvers
============================================

From labels, `DualHashEncoder` learns codes that are near within a class and far apart
between classes. This example uses `GridSearchCV` to choose the solver that pulls its
outputs towards -1 and +1, and shows how labels change the Hamming distances.
"""

# %%
# The search
# ----------
#
# ``solver`` says how the penalty on outputs other than -1 and +1 is applied, and
# ``w_weight`` is its weight. The pipeline ends in `HammingNeighbors`, so
# `retrieval_scorer` takes each row of the validation fold as a query against the codes
# of the training fold, and returns the mean average precision by label. The queries of
# the data set are not used. A smaller training set makes the task harder.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skhash import DualHashEncoder, HammingNeighbors, ITQHash
from skhash.datasets import load_digits_retrieval
from skhash.losses import DualHashLoss
from skhash.metrics import DistanceHistogramDisplay, retrieval_scorer

data = load_digits_retrieval()
train, train_labels = data.train[:600], data.train_labels[:600]
encoder = DualHashEncoder(
    n_bits=16,
    loss=DualHashLoss(penalty=0.3),
    hidden_layer_sizes=(128,),
    max_epochs=15,
    device="cpu",
    random_state=0,
)
pipeline = Pipeline([("encode", encoder), ("search", HammingNeighbors())])
grid = {
    "encode__loss__solver": ["subgradient", "prox", "dual_dc"],
    "encode__loss__w_weight": [0.01, 0.1, 1.0],
}
search = GridSearchCV(pipeline, grid, scoring=retrieval_scorer, cv=3)
search.fit(train, train_labels)
print("chosen:", search.best_params_)

# %%
# All candidates
# --------------
#
# The bars show the standard deviation over the three folds.

columns = {
    "param_encode__loss__solver": "solver",
    "param_encode__loss__w_weight": "w_weight",
    "mean_test_score": "mAP",
    "std_test_score": "std",
}
table = pd.DataFrame(search.cv_results_)[list(columns)].rename(columns=columns)
print(table.round(3).to_string(index=False))

COLORS = {"subgradient": "#8e5ea2", "prox": "#1b6ca8", "dual_dc": "#d95f02"}
figure, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
for number, (solver, color) in enumerate(COLORS.items()):
    rows = table[table["solver"] == solver]
    beside = rows["w_weight"] * 1.06 ** (number - 1)
    style = {"marker": "o", "markersize": 4, "capsize": 2, "color": color}
    ax.errorbar(beside, rows["mAP"], rows["std"], label=solver, **style)
ax.set_xscale("log")
ax.set_xlabel("w_weight")
ax.set_ylabel("mean average precision")
ax.grid(alpha=0.3)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# All are within 0.01 of each other, which is about the spread of the folds. On the
# digits, the choice of the solver hardly matters.

# %%
# Effect of labels
# ----------------
#
# The histograms show the Hamming distances between queries and database, for pairs of
# the same digit and for other pairs. The chosen encoder, fitted to all 600 rows, is
# compared with `ITQHash`, which uses no labels.

encoders = {
    "chosen encoder": search.best_estimator_["encode"],
    "ITQHash": ITQHash(n_bits=16, random_state=0).fit(train),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), sharey=True, layout="constrained")
for ax, (name, fitted) in zip(axes, encoders.items(), strict=True):
    searched = data.query, data.database, data.query_labels, data.database_labels
    DistanceHistogramDisplay.from_estimator(fitted, *searched, name=name, ax=ax)
axes[1].set_ylabel("")
plt.show()

# %%
# The search object acts as the chosen pipeline, fitted to all 600 rows, and a scorer
# accepts it directly.

score = retrieval_scorer(search, data.query, data.query_labels)
print(f"mAP of the queries: {score:.3f}")
