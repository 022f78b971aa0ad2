"""
A map and clusters from the graph of codes
==========================================

Some methods need no vectors, only the neighbours of each row: scikit-learn's t-SNE and
spectral clustering, and also UMAP. `HashedNeighbors` provides them with a sparse graph,
as `sklearn.neighbors.KNeighborsTransformer` does, with distances in the same units.
This example compares the graph of the digits' vectors with the graph of their 8-byte
codes.

The page :doc:`/benchmarks/search` has measurements of larger searches.
"""

# %%
# Two pipelines
# -------------
#
# Each pipeline starts with one of these two steps, and ends in the same estimator, with
# ``metric="precomputed"``. The first step of one pipeline compares vectors with
# vectors, that of the other compares vectors with decoded codes. t-SNE needs three
# times as many neighbours as its perplexity.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsTransformer

from skhash import HashedNeighbors

X, y = load_digits(return_X_y=True)
PERPLEXITY = 12
n_neighbors = 3 * PERPLEXITY + 1
graphs = {
    "64 numbers": KNeighborsTransformer(n_neighbors=n_neighbors),
    "8 bytes": HashedNeighbors(8, n_neighbors=n_neighbors),
}
graphs = {name: one.fit_transform(X) for name, one in graphs.items()}
shared = [graph.astype(bool) for graph in graphs.values()]
print(f"{shared[0].multiply(shared[1]).sum() / shared[0].sum():.0%} of edges in both")

# %%
# Clusters
# --------
#
# Spectral clustering partitions the graph, without using the labels. The normalized
# mutual information says how well the clusters match the ten digits: 1 is a perfect
# match.

for name, graph in graphs.items():
    cut = SpectralClustering(
        10, affinity="precomputed_nearest_neighbors", n_neighbors=10, random_state=0
    )
    information = normalized_mutual_info_score(y, cut.fit_predict(graph))
    print(f"{name}: normalized mutual information {information:.2f}")

# %%
# Maps
# ----
#
# Trustworthiness is near 1 if rows that are neighbours on the map are also neighbours
# in the original space.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for ax, (name, graph) in zip(axes, graphs.items(), strict=True):
    options = {"perplexity": PERPLEXITY, "max_iter": 500, "random_state": 0}
    tsne = TSNE(metric="precomputed", init="random", **options)
    places = tsne.fit_transform(graph)
    trust = trustworthiness(X, places, n_neighbors=10)
    ax.scatter(*places.T, c=y, s=4, cmap="tab10")
    for digit in range(10):
        ax.text(*np.median(places[y == digit], axis=0), digit, fontsize=14)
    ax.set(xticks=[], yticks=[], title=f"{name}, trustworthiness {trust:.3f}")
    ax.spines[:].set_visible(False)
plt.show()

# %%
# The same as one pipeline:
#
# .. code-block:: python
#
#    tsne = TSNE(metric="precomputed", init="random")
#    make_pipeline(HashedNeighbors(8, n_neighbors=91), tsne).fit_transform(X)
#
# UMAP (``pip install umap-learn``) takes the positions and distances of the neighbours:
#
# .. code-block:: python
#
#    distances, positions = HashedNeighbors(8).fit(X).kneighbors(X, 15)
#    UMAP(precomputed_knn=(positions, distances.astype("float32"))).fit_transform(X)
