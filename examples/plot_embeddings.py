"""
From a file of embeddings to texts that answer
==============================================

Embeddings of texts often come as an ``.npy`` file with one row per text. This example
starts with such a file and ends with the texts that are nearest to a question. An audit
measures the recall at each code length, and the search keeps eight bytes per vector in
memory while the vectors stay on disk.
"""

# %%
# The file
# --------
#
# With sentence-transformers, you would write it like this:
#
# .. code-block:: python
#
#    model = SentenceTransformer("all-MiniLM-L6-v2")
#    np.save("vectors.npy", model.encode(texts).astype(np.float16))
#
# To avoid downloading a model, this example uses tf-idf and a projection instead. The
# texts are the docstrings of Python's standard library.

import ast
import sysconfig
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import skhash
from skhash import HashedNeighbors

library = Path(sysconfig.get_path("stdlib"))
texts = {}
for path in sorted([*library.glob("*.py"), *library.glob("*/*.py")]):
    if path.parent.name in ("test", "idlelib", "lib2to3", "site-packages"):
        continue
    module = ".".join(path.relative_to(library).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if len(text := ast.get_docstring(node) or "") > 60:
                texts[text] = f"{module}.{node.name}"
names, texts = list(texts.values()), list(texts)

model = make_pipeline(
    TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2),
    TruncatedSVD(128, random_state=0),
    Normalizer(),
).fit(texts)
folder = Path(tempfile.mkdtemp())
np.save(folder / "vectors.npy", model.transform(texts).astype(np.float16))

# %%
# Measure before you choose
# -------------------------
#
# The file is mapped into memory, and read one chunk at a time. The equivalent on the
# command line is ``skhash audit vectors.npy --metric cosine``.

vectors = np.load(folder / "vectors.npy", mmap_mode="r")
print(vectors.shape, vectors.dtype)
compared = {"n_bits": [32, 64], "methods": ["bytes", "itq", "sign"]}
result = skhash.audit(vectors, **compared, metric="cosine")
print(f"{result.choice}: {result.reason}")

# %%
# The picture shows the recall of the ten true neighbours against the bytes per vector
# in memory. "sign" is what vector databases call binary quantization.

ax = result.plot()
plt.show()

# %%
# Search
# ------
#
# The search keeps only the codes in memory. For each question, it reads the vectors of
# the 100 best candidates from the file, and no others.

options = {"metric": "cosine", "rerank": 100, "vectors": folder / "vectors.npy"}
search = HashedNeighbors(8, **options).fit(vectors)
print(f"{8 * len(vectors):,} bytes of codes, {vectors.nbytes:,} of vectors on disk")

for question in [
    "copy a directory and all the files in it",
    "parse a date from a string",
    "wait until a lock is released by another thread",
]:
    distances, positions = search.kneighbors(model.transform([question]), 4)
    print(f"\n{question}")
    for distance, position in zip(distances[0], positions[0], strict=True):
        first_line = texts[position].partition("\n")[0]
        print(f"  {1 - distance:.2f} {names[position]}: {first_line}")

# %%
# Save and open
# -------------
#
# The search is saved together with its encoder. With ``mmap=True``, it is mapped into
# memory when it is opened. The guide shows how to :doc:`serve it over HTTP
# </guide/serve_http>`, and how to :doc:`search its codes with other engines
# </guide/other_engines>`.

search.save(folder / "search")
again = skhash.load(folder / "search", mmap=True)
print((again.kneighbors(vectors)[1] == search.kneighbors(vectors)[1]).all())
