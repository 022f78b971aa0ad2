"""
Texts that say nearly the same
==============================

Collections of texts often contain near copies: quoted, shortened, or with a different
date. Codes of 32 bytes find them by Hamming distance, and a formula converts distances
to cosines. The texts are the paragraphs of the manual that comes with Python; some of
them occur more than once.
"""

# %%
# Texts, vectors, codes
# ---------------------
#
# Words are weighted by tf-idf. A bit of `RandomHyperplaneHash` says on which side of a
# random hyperplane a vector lies, so the codes of two vectors at angle t differ in a
# share t / pi of their bits, on average.

from difflib import ndiff
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from skhash.linear import RandomHyperplaneHash
from skhash.neighbors import duplicate_groups, radius_pairs

N_BITS = 256
paragraphs = "\n\n".join(topics.values()).split("\n\n")
texts = [" ".join(paragraph.split()) for paragraph in paragraphs]
texts = [text for text in texts if len(text) > 80]
X = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
encoder = RandomHyperplaneHash(n_bits=N_BITS, center=False, random_state=0)
codes = encoder.fit(X).transform_packed(X)

# %%
# Pairs
# -----

distances, pairs = radius_pairs(codes, radius=100, packed=True)
cosines = np.ravel(X[pairs[:, 0]].multiply(X[pairs[:, 1]]).sum(axis=1))
print(f"{len(texts):,} paragraphs, {len(pairs):,} pairs within 100 bits")

# %%
# Which distance is small enough? For a cosine of 0.9, the expected distance in bits is
#
# .. math:: 256 \arccos(0.9) / \pi = 37 .
#
# Actual distances scatter around the expected one, like the number of heads in coin
# tosses; with longer codes they scatter less.

LEAST_COSINE = 0.9
radius = round(N_BITS * np.arccos(LEAST_COSINE) / np.pi)
is_near, is_found = cosines >= LEAST_COSINE, distances <= radius
print(f"pairs with a cosine of at least {LEAST_COSINE}: {is_near.sum()}")
print(f"pairs within {radius} bits: {is_found.sum()}")
print(f"both: {(is_near & is_found).sum()}")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
rng = np.random.default_rng(0)
apart = distances + rng.uniform(-0.4, 0.4, len(pairs))
ax.scatter(apart, cosines, s=4, color="#1b6ca8")
ts = np.linspace(0, 100, 200)
ax.plot(ts, np.cos(np.pi * ts / N_BITS), color="0.4")
ax.text(6, 0.93, "expected", color="0.4")
ax.axvline(radius + 0.5, color="#d95f02")
ax.text(radius + 2, 0.32, f"radius {radius}", color="#d95f02")
ax.set(xlabel=f"bits of {N_BITS} that differ", ylabel="cosine", xlim=(-2, 101))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Groups
# ------
#
# `duplicate_groups` merges pairs that share a text into groups. One text of each group
# is kept.

groups, kept = duplicate_groups(codes, radius, packed=True)
print(f"{len(kept):,} of {len(texts):,} paragraphs are kept")
print(f"{len(set(texts)):,} paragraphs are distinct, letter for letter")

# %%
# Here are some of the pairs that are found but not identical, with the words that
# differ:

shown = [pair for pair in pairs[is_found] if texts[pair[0]] != texts[pair[1]]]
for first, second in shown[:4]:
    changes = ndiff(texts[first].split(), texts[second].split())
    changed = [word for word in changes if word[0] in "+-"]
    print(f"{texts[first][:70]}...")
    print(f"  {' '.join(changed)[:80]}")
