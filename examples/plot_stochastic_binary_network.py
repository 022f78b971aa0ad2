"""
The networks in a stochastic binary network
===========================================

The hidden units of `SBNClassifier` are +1 where their logit exceeds noise, else
-1. With the noise drawn once, the network is an ordinary one of signs, whose decision
regions have straight, abrupt edges. Predictions are means over such networks.
"""

# %%
# Two moons, and two layers of units. With 8 samples of the noise in each step,
# ``objective="multi_sample"`` trains for the mean of the members' probabilities instead
# of the mean of their losses.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from skhash import SBNClassifier

X, y = make_moons(300, noise=0.15, random_state=0)
params = {
    "hidden_layer_sizes": (30, 30),
    "n_train_samples": 8,
    "max_epochs": 100,
    "batch_size": 75,
    "random_state": 0,
}
models = {
    objective: SBNClassifier(objective=objective, **params).fit(X, y)
    for objective in ("expected", "multi_sample")
}

# %%
# An ensemble of one is the first member of all larger ensembles; the second member is
# what an ensemble of two has in addition.
ticks = np.linspace(-1.6, 2.6, 120)
places = np.stack(np.meshgrid(ticks, ticks - 0.3), axis=-1).reshape(-1, 2)


def mean_probability(model, n_members):
    model.set_params(n_predict_samples=n_members)
    return model.predict_proba(places)[:, 1].reshape(len(ticks), -1)


fig, axes = plt.subplots(2, 4, figsize=(10, 5.4), sharex=True, sharey=True)
for row, (objective, model) in zip(axes, models.items(), strict=True):
    first = mean_probability(model, 1)
    second = 2 * mean_probability(model, 2) - first
    pictures = {
        "one member": first,
        "another": second,
        "mean of 100": mean_probability(model, 100),
    }
    model.set_params(predict_mode="det")
    pictures["without noise"] = mean_probability(model, 1)
    for ax, (title, picture) in zip(row, pictures.items(), strict=True):
        ax.pcolormesh(
            ticks,
            ticks - 0.3,
            picture,
            cmap="RdBu_r",
            vmin=0,
            vmax=1,
            shading="nearest",
        )
        ax.scatter(*X.T, c=y, s=5, cmap="gray")
        ax.set(title=title, xticks=[], yticks=[])
    row[0].set_ylabel(objective)
fig.tight_layout()

# %%
# How much members differ: the deviation of their probabilities, mean over the picture.
for objective, model in models.items():
    model.set_params(predict_mode="ensemble")
    means = [n * mean_probability(model, n) for n in range(1, 21)]
    members = np.diff(means, axis=0, prepend=0)
    print(f"{objective}: {members.std(axis=0).mean():.3f}")

plt.show()
