"""
Semantic hashing of texts
=========================

A stochastic autoencoder turns the words of a text into 32 bits from which a decoder can
predict the words. The texts are docstrings of NumPy, SciPy and scikit-learn. The
picture shows what the bits mean: how often each bit is 1 in the docstrings of each
module, and which words it makes more likely.
"""

# %%
# Data
# ----
#
# There is one text for each public name of some modules. The input is tf-idf, which
# stays sparse throughout.

import inspect
from importlib import import_module

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from skhash import HammingNeighbors, StochasticAutoencoderHash
from skhash.metrics import precision_at_k_score

MODULES = (
    "numpy numpy.ma numpy.random scipy.fft scipy.integrate scipy.interpolate "
    "scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse "
    "scipy.special scipy.stats sklearn.cluster sklearn.datasets "
    "sklearn.linear_model sklearn.metrics sklearn.preprocessing"
).split()


def read_docstrings(module):
    """Return the docstrings of a module's functions and classes, each once."""
    members = inspect.getmembers(import_module(module), callable)
    return sorted({inspect.getdoc(member) or "" for name, member in members} - {""})


texts = [read_docstrings(module) for module in MODULES]
labels = np.repeat(np.arange(len(MODULES)), [len(own) for own in texts])
database_texts, query_texts, database_labels, query_labels = train_test_split(
    np.concatenate(texts), labels, test_size=0.2, stratify=labels, random_state=0
)
words = {"token_pattern": "[a-z]{3,}", "stop_words": "english", "max_df": 0.2}
vectorizer = TfidfVectorizer(**words, max_features=5000, sublinear_tf=True)
database = vectorizer.fit_transform(database_texts)
queries = vectorizer.transform(query_texts)
print(f"database {database.shape}, queries {queries.shape}")

# %%
# Codes
# -----
#
# The encoder does not know the modules. The precision is the share of the ten texts
# with the nearest codes that come from the query's module.

encoder = StochasticAutoencoderHash(n_bits=32, random_state=0).fit(database)
codes, query_codes = encoder.transform(database), encoder.transform(queries)
precision = precision_at_k_score(
    query_codes, codes, query_labels, database_labels, k=10
)
print(f"Precision@10 with 4 bytes per text: {precision:.3f}")

# %%
# These are the first lines of the texts nearest to the first query:

index = HammingNeighbors(n_neighbors=5).fit(codes)
distances, positions = index.kneighbors(query_codes[:1])
print(f"query, from {MODULES[query_labels[0]]}: {query_texts[0].splitlines()[0]}")
for distance, position in zip(distances[0], positions[0], strict=True):
    module, text = MODULES[database_labels[position]], database_texts[position]
    print(f"{distance} bits away, from {module}: {text.splitlines()[0]}")

# %%
# Meaning of the bits
# -------------------
#
# The decoder is linear: a row of its weights says what a bit adds to the score of each
# word. Each bit is described by the three words whose score it raises most, among the
# 500 most frequent words. Bits in which the modules differ most come first.

share = np.array(
    [codes[database_labels == module].mean(axis=0) for module in range(len(MODULES))]
)
order = np.argsort(-share.std(axis=0))[:16]
frequent = np.argsort(-database.sum(axis=0).A1)[:500]
words = vectorizer.get_feature_names_out()[frequent]
effect = encoder.decoder_coefs_[0][:, frequent]
meanings = [", ".join(words[np.argsort(-effect[bit])[:3]]) for bit in order]

fig, ax = plt.subplots(figsize=(9, 7), layout="constrained")
image = ax.imshow(share[:, order], cmap="RdBu_r", vmin=0, vmax=1, aspect="auto")
ax.set_yticks(range(len(MODULES)), MODULES)
turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
ax.set_xticks(range(len(order)), meanings, **turned)
ax.set_xlabel("bit, with the words that it makes more likely")
fig.colorbar(image, label="share of the module's texts in which the bit is 1")
plt.show()
