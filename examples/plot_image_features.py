"""
Where else does it look like this?
==================================

This example compresses the features of each patch of an image to 8 bytes, and searches
for patches that look like a given one, in the same photograph and in another. The two
photographs come with scikit-learn. The features are edges and colours, computed with
plain NumPy; you can use those of a network, ``model(patches).numpy()``, instead.
"""

# %%
# Features
# --------
#
# Each patch of 32 x 32 pixels is divided into 4 x 4 cells. The features of a cell are
# the strength of edges in each of 8 directions, and the mean colour.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.preprocessing import normalize

from skhash import HashedNeighbors

CELL, STEP, N_CELLS, N_DIRECTIONS = 8, 4, 4, 8
SIDE = CELL * N_CELLS


def features(image):
    """Return a row of features for each patch, and where the patches begin."""
    pixels = image / 255.0
    down, right = np.gradient(pixels.mean(axis=2))
    turn = np.arctan2(down, right) % np.pi * N_DIRECTIONS / np.pi
    planes = [
        np.hypot(down, right) * (turn.astype(int) % N_DIRECTIONS == one)
        for one in range(N_DIRECTIONS)
    ]
    planes = np.concatenate([np.stack(planes, axis=2), pixels], axis=2)
    # Sums over all cells at once, as differences of cumulative sums.
    sums = np.pad(planes.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0), (0, 0)))
    strips = sums[CELL:] - sums[:-CELL]
    cells = ((strips[:, CELL:] - strips[:, :-CELL]) / CELL**2).clip(0)
    tops = np.arange(0, len(image) - SIDE + 1, STEP)
    lefts = np.arange(0, image.shape[1] - SIDE + 1, STEP)
    parts = [
        cells[tops[:, None] + CELL * i, lefts + CELL * j]
        for i in range(N_CELLS)
        for j in range(N_CELLS)
    ]
    rows = np.stack(parts, axis=2)
    edges = rows[..., :N_DIRECTIONS].reshape(len(tops) * len(lefts), -1)
    colours = rows[..., N_DIRECTIONS:].reshape(len(edges), -1)
    places = np.stack(np.meshgrid(tops, lefts, indexing="ij"), axis=2).reshape(-1, 2)
    return np.hstack([normalize(np.sqrt(edges)), colours / 2]), places


images = load_sample_images().images
parts = [features(image) for image in images]
X = np.concatenate([rows for rows, _ in parts])
places = np.concatenate([where for _, where in parts])
of_image = np.repeat(range(len(images)), [len(rows) for rows, _ in parts])
print(f"{X.shape[0]:,} patches with {X.shape[1]} features each")

# %%
# Codes and search
# ----------------
#
# All patches are searched, including those that overlap the query.

search = HashedNeighbors(8).fit(X)
codes = search.index_.packed_codes_
print(f"{X.astype(np.float32).nbytes:,} bytes of features, {codes.nbytes:,} of codes")

# %%
# The picture
# -----------
#
# The patch on the left is the query. The nearer a patch is to it, the more yellow its
# place is; places at distances above 0.8 are not coloured. The frames are the nearest
# patches that do not overlap each other.

ASKED = [(0, (212, 232)), (0, (340, 60)), (1, (180, 320))]
N_SHOWN, FARTHEST = 6, 0.8


def apart(positions, n_shown):
    """Return the first positions whose patches do not overlap."""
    kept = []
    for one in positions:
        near = [
            of_image[one] == of_image[other]
            and (abs(places[one] - places[other]) < SIDE).all()
            for other in kept
        ]
        if not any(near):
            kept.append(one)
        if len(kept) == n_shown:
            break
    return kept


figure, axes = plt.subplots(
    len(ASKED), 3, figsize=(9, 6.6), width_ratios=[1, 3, 3], layout="constrained"
)
for row, (image, where) in zip(axes, ASKED, strict=True):
    away = np.abs(places - where).sum(axis=1) + 1e6 * (of_image != image)
    asked = away.argmin()
    distances, positions = search.kneighbors(X[[asked]], n_neighbors=len(X))
    by_place = np.empty(len(X))
    by_place[positions[0]] = distances[0]
    top, left = places[asked]
    row[0].imshow(images[image][top : top + SIDE, left : left + SIDE])
    shown = apart(positions[0], N_SHOWN)
    for number, ax in enumerate(row[1:]):
        ax.imshow(images[number].mean(axis=2), cmap="gray", vmin=-80, vmax=255)
        of_this = of_image == number
        tops, lefts = (np.unique(places[of_this, axis]) for axis in (0, 1))
        heat = by_place[of_this].reshape(len(tops), len(lefts))
        corners = np.array([lefts[0], lefts[-1], tops[-1], tops[0]])
        extent = corners + SIDE / 2  # a distance stands at the centre of its patch
        near = np.clip(1 - heat / FARTHEST, 0, 1)
        ax.imshow(near, extent=extent, alpha=0.9 * near, cmap="autumn", vmin=0, vmax=1)
        ax.set(xlim=(0, images[number].shape[1]), ylim=(images[number].shape[0], 0))
        for one in shown:
            if of_image[one] == number:
                y, x = places[one]
                frame = plt.Rectangle((x, y), SIDE, SIDE, fill=False, color="white")
                ax.add_patch(frame)
    for ax in row:
        ax.set_axis_off()
axes[0, 0].set_title("query", fontsize=10)
axes[0, 1].set_title("similar patches", fontsize=10, loc="left")
plt.show()
