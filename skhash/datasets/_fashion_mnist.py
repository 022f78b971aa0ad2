"""Fashion-MNIST from the user's data home or from the system's package."""

from pathlib import Path

import numpy as np

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._images import read_idx
from skhash.datasets._paths import PathLike, first_file, resolve_data_home
from skhash.datasets._preparation import bundle, first_of_each_class

SYSTEM_FOLDER = Path("/usr/share/datasets/fashion-mnist")
REMEDY = (
    "On Debian and Ubuntu: apt-get install dataset-fashion-mnist. Elsewhere put the "
    "four IDX files of Fashion-MNIST into the folder fashion-mnist of your data home."
)
LABEL_NAMES = (
    "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, "
    "Ankle boot"
).split(", ")


def load_fashion_mnist(
    *,
    n_queries: int | None = 1000,
    n_train: int | None = None,
    data_home: PathLike | None = None,
) -> RetrievalData:
    """Load Fashion-MNIST: 60000 database images of 28 x 28 pixels, queries apart.

    Parameters
    ----------
    n_queries : int, default=1000
        How many of the 10000 test images are queries: the first of each class, equally
        many. ``None`` takes all, for final figures.
    n_train : int, default=None
        How many of the database images are the training part, chosen likewise.
        ``None`` takes all, which suits unsupervised methods. A supervised one that is
        fitted on its whole database is rewarded for memorising: give it, say, 5000.
    data_home : path-like, default=None
        A folder with the files in ``fashion-mnist/``, as they are or gzip-compressed;
        ``None`` is ``~/skhash_data``. The folder of the Debian package
        dataset-fashion-mnist is looked into after it.

    Returns
    -------
    data : RetrievalData
        Float32 rows of 784 pixels from 0 to 1; ``X.reshape(-1, 1, 28, 28)`` are images.

    Raises
    ------
    FileNotFoundError
        If the files are in neither place. Nothing is downloaded.
    ValueError
        If a file is damaged, or the classes cannot give that many rows.
    """
    database, query = _read_part("train", data_home), _read_part("t10k", data_home)
    if n_queries is not None:
        query = first_of_each_class(query, n_queries, "n_queries")
    train = database
    if n_train is not None:
        train = first_of_each_class(database, n_train, "n_train")
    names = np.array(LABEL_NAMES)
    return bundle("fashion-mnist", "euclidean", database, query, train, names)


def _read_part(part: str, data_home: PathLike | None):
    images_path = _find(f"{part}-images-idx3-ubyte", data_home)
    labels_path = _find(f"{part}-labels-idx1-ubyte", data_home)
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{images_path} holds an array of shape {images.shape} and {labels_path} "
            f"one of {labels.shape}; they are not the images and labels of one part."
        )
    pixels = images.reshape(len(images), -1).astype(np.float32)
    pixels /= 255
    return pixels, labels.astype(np.int64)


def _find(name: str, data_home: PathLike | None) -> Path:
    folders = (resolve_data_home(data_home) / "fashion-mnist", SYSTEM_FOLDER)
    return first_file(
        (folder / file for folder in folders for file in (f"{name}.gz", name)), REMEDY
    )
