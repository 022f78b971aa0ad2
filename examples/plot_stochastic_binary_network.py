"""
The networks in a stochastic binary network
===========================================

A hidden unit of `SBNClassifier` is +1 if its logit exceeds random noise, and otherwise
-1. Once the noise is drawn, the network is an ordinary network of signs, whose decision
regions have straight, abrupt edges. Predictions are means over several such networks.
"""

# %%
# The data are two classes that overlap: points above 0, and points below a cosine.
# Between the two, either class is possible. The problem is that of figure B.1 of
# Shekhovtsov, Yanush and Flach, "Path sample-analytic gradient estimators for
# stochastic binary networks" (NeurIPS 2020).
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import loguniform
from sklearn.metrics import log_loss
from sklearn.model_selection import RandomizedSearchCV

from skhash import SBNClassifier


def draw_points(n_per_class, random):
    x = random.uniform(-np.pi / 2, np.pi / 2, 2 * n_per_class)
    height = random.uniform(0, 1, 2 * n_per_class)
    y = np.repeat([1, 0], n_per_class)
    return np.column_stack([x, np.where(y, height, (1 + np.cos(x)) * height - 1)]), y


random = np.random.default_rng(1)
X, y = draw_points(100, random)
X_test, y_test = draw_points(2000, random)

# %%
# With one draw of the noise in each step, training minimizes the mean loss of the
# networks. With ``n_draws=10``, it minimizes a bound on the loss of their mean
# probability.
params = {
    "hidden_layer_sizes": (30, 30),
    "max_epochs": 200,
    "batch_size": 50,
    "n_predict_samples": 100,
    "random_state": 0,
}
models = {n: SBNClassifier(n_draws=n, **params).fit(X, y) for n in (1, 10)}

# %%
# An ensemble with one member is a single network; ``predict_seed_`` seeds its noise.
across, up = np.linspace(-1.7, 1.7, 150), np.linspace(-1.2, 1.2, 110)
places = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def mean_probability(model, n_members, seed=0):
    model.set_params(n_predict_samples=n_members)
    model.predict_seed_ = seed
    return model.predict_proba(places)[:, 1].reshape(len(up), len(across))


fig, axes = plt.subplots(2, 4, figsize=(11, 4.6), layout="constrained")
for row, (n_draws, model) in zip(axes, models.items(), strict=True):
    pictures = {
        "mean of 100 members": mean_probability(model, 100),
        "one member": mean_probability(model, 1),
        "another": mean_probability(model, 1, seed=1),
    }
    pictures["without noise"] = mean_probability(model, 0)
    model.set_params(n_predict_samples=100)
    for ax, (title, picture) in zip(row, pictures.items(), strict=True):
        style = {"cmap": "RdBu_r", "vmin": 0, "vmax": 1, "shading": "nearest"}
        mesh = ax.pcolormesh(across, up, picture, **style)
        ax.scatter(*X.T, c=y, s=11, cmap="gray", edgecolors="0.4", linewidths=0.5)
        ax.plot(across, np.cos(across), "--", color="0.2", linewidth=0.8)
        ax.axhline(0, color="0.2", linestyle="--", linewidth=0.8)
        ax.set(xticks=[], yticks=[], ylim=(up[0], up[-1]))
        if n_draws == 1:
            ax.set_title(title, fontsize="medium")
    row[0].set_ylabel(f"n_draws={n_draws}")
fig.colorbar(mesh, ax=axes, label="probability of the upper class (white points)")
plt.show()

# %%
# Between the dashed lines the classes overlap. The loss of the ensemble, of its members
# on average, and of the network without noise, on points that were not trained on:
for n_draws, model in models.items():
    ensemble = log_loss(y_test, model.predict_proba(X_test))
    model.set_params(n_predict_samples=1)
    members = []
    for seed in range(20):
        model.predict_seed_ = seed
        members.append(model.predict_proba(X_test)[:, 1])
    loss = np.mean([log_loss(y_test, p) for p in members])
    certain = model.set_params(n_predict_samples=0).predict_proba(X_test)
    print(
        f"n_draws={n_draws}: ensemble {ensemble:.3f}, a member {loss:.3f}, "
        f"without noise {log_loss(y_test, certain):.3f}; "
        f"members differ by {np.std(members, axis=0).mean():.3f}"
    )

# %%
# scikit-learn can search for a suitable learning rate. As in the paper, this search
# takes the best of ten trials of five epochs, with rates between 1e-6 and 1.
trials = SBNClassifier((30, 30), max_epochs=5, lr_schedule=None, random_state=0)
rates, options = {"lr": loguniform(1e-6, 1)}, {"scoring": "neg_log_loss", "cv": 3}
search = RandomizedSearchCV(trials, rates, n_iter=10, random_state=0, **options)
search.fit(X, y)
print(f"lr={search.best_params_['lr']:.4f}, log loss {-search.best_score_:.3f}")
