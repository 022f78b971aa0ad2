"""
Find near duplicates
====================

Which images of a data set are copies of each other, up to noise and brightness? Here
200 such copies are hidden among the digits. Codes of 256 bits (32 bytes per image) find
them by Hamming distance, and the distances show where to set the threshold.
"""

# %%
# Digits with copies among them
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skhash.linear import RandomHyperplaneHash
from skhash.neighbors import duplicate_groups, radius_pairs

rng = np.random.default_rng(0)
images = load_digits().data
originals = rng.choice(len(images), 200, replace=False)
brightness = rng.uniform(0.5, 1, (200, 1))
copies = brightness * (images[originals] + rng.normal(0, 0.4, (200, 64)))
X = np.concatenate([images, copies])
copy_of = np.concatenate([np.arange(len(images)), originals])

# %%
# Codes and pairs
# ---------------
#
# If the random hyperplanes pass through the origin, the codes of two vectors at angle t
# differ in a share t / pi of their bits, on average. Brightness does not change the
# angle.

encoder = RandomHyperplaneHash(n_bits=256, center=False, random_state=0)
codes = encoder.fit(X).transform_packed(X)
distances, pairs = radius_pairs(codes, radius=16, packed=True)
is_copy = copy_of[pairs[:, 0]] == copy_of[pairs[:, 1]]

# %%
# Most copies are nearer to their originals than any other two images are to each other:

COPY, OTHER = "#1b6ca8", "#d95f02"
RADIUS = 8

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bins = np.arange(18) - 0.5
counted = [distances[is_copy], distances[~is_copy]]
ax.hist(counted, bins, stacked=True, color=[COPY, OTHER])
ax.text(1.3, 45, "an image and its copy", color=COPY)
ax.text(12.3, 85, "different images", color=OTHER, ha="right")
ax.axvline(RADIUS + 0.5, color="black", linewidth=1)
ax.text(RADIUS + 0.3, 98, f"radius {RADIUS}", ha="right", va="top")
ax.set(xlabel="bits that differ", ylabel="pairs", ylim=(0, 100), xlim=(-0.5, 16.5))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Groups
# ------
#
# `duplicate_groups` merges pairs that share an image into groups. Keep one image of
# each group.

groups, kept = duplicate_groups(codes, RADIUS, packed=True)
within = distances <= RADIUS
print(f"{len(X)} images, {len(kept)} kept")
print(f"copies found: {(within & is_copy).sum()} of {len(originals)}")
print(f"pairs of different images taken for copies: {(within & ~is_copy).sum()}")

# %%
# The pictures show the first groups of two: an image, and below it the image found to
# be its copy.

figure, axes = plt.subplots(2, 12, figsize=(7, 1.3))
twos = np.flatnonzero(np.bincount(groups) == 2)
for column, group in zip(axes.T, twos, strict=False):
    for ax, member in zip(column, np.flatnonzero(groups == group), strict=True):
        ax.imshow(X[member].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set_axis_off()
plt.show()
