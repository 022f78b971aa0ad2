"""
Semantic hashing of messages
============================

A stochastic autoencoder turns word counts into 32 bits that a decoder can explain the
words by. This picture shows what the bits of 20 Newsgroups mean: how often each bit is
1 in the messages of each group, and which words it makes likely.

The data are not part of this project. Where they are absent, the script says how to
install them and stops.
"""

# %%
# Data
# ----
#
# The input is tf-idf. It stays sparse all the way.

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from skhash import HammingNeighbors, StochasticAutoencoderHash
from skhash.datasets import load_20newsgroups
from skhash.metrics import precision_at_k_score

try:
    data = load_20newsgroups("texts")
except FileNotFoundError as error:
    print(f"No picture, because 20 Newsgroups is not installed.\n{error}")
    sys.exit(0)
vectorizer = TfidfVectorizer(
    max_features=5000, stop_words="english", sublinear_tf=True, dtype=np.float32
)
database = vectorizer.fit_transform(data.train)
queries = vectorizer.transform(data.query)
print(f"database {database.shape}, queries {queries.shape}")

# %%
# Codes
# -----
#
# The groups are not shown to the encoder. The precision says how many of the 100
# messages with the nearest codes are of the query's group.

encoder = StochasticAutoencoderHash(n_bits=32, random_state=0).fit(database)
codes, query_codes = encoder.transform(database), encoder.transform(queries)
precision = precision_at_k_score(
    query_codes, codes, data.query_labels, data.train_labels, k=100
)
print(f"Precision@100 by 4 bytes a message: {precision:.3f}")

# %%
# The messages nearest to the first query, by the group they are of:

index = HammingNeighbors(n_neighbors=5).fit(codes)
distances, positions = index.kneighbors(query_codes[:1])
names = np.asarray(data.label_names)
print(f"query: {names[data.query_labels[0]]}")
for distance, position in zip(distances[0], positions[0], strict=True):
    print(f"  {distance} bits away: {names[data.train_labels[position]]}")

# %%
# What the bits mean
# ------------------
#
# The decoder is linear: a row of its weights says what a bit adds to the score of each
# word. The words of a bit are those of the 500 most frequent that it raises most. Bits
# are in the order of how much the groups differ in them.

share = np.array([codes[data.train_labels == g].mean(axis=0) for g in range(20)])
order = np.argsort(-share.std(axis=0))[:16]
frequent = np.argsort(-database.sum(axis=0).A1)[:500]
words = vectorizer.get_feature_names_out()[frequent]
effect = encoder.decoder_coefs_[0][:, frequent]
labels = [", ".join(words[np.argsort(-effect[bit])[:3]]) for bit in order]

fig, ax = plt.subplots(figsize=(9, 7), layout="constrained")
image = ax.imshow(share[:, order], cmap="RdBu_r", vmin=0, vmax=1, aspect="auto")
ax.set_yticks(range(20), names)
ax.set_xticks(
    range(len(order)), labels, rotation=60, ha="right", rotation_mode="anchor"
)
ax.set_xlabel("bit, by the words that it makes likelier")
fig.colorbar(image, label="share of the group's messages in which the bit is 1")
plt.show()
