"""Reading what was saved: the one list of classes that a file may name."""

from pathlib import Path

from skhash._persistence import load_estimator, read_manifest
from skhash.classification import SBNClassifier
from skhash.linear import (
    BinaryAutoencoderHash,
    ITQHash,
    KMeansHash,
    LinearDecoder,
    PCAHash,
    RandomHyperplaneHash,
    ScalableGraphHash,
    SpectralHash,
    SphericalHash,
    SupervisedDiscreteHash,
)
from skhash.neighbors import HammingNeighbors, HashedNeighbors
from skhash.neural import (
    DualHashEncoder,
    NeighborHash,
    SGHEncoder,
    StochasticAutoencoderHash,
    SupervisedHash,
)

LOADABLE = {
    cls.__name__: cls
    for cls in (
        BinaryAutoencoderHash,
        DualHashEncoder,
        ITQHash,
        KMeansHash,
        LinearDecoder,
        NeighborHash,
        PCAHash,
        RandomHyperplaneHash,
        SBNClassifier,
        SGHEncoder,
        ScalableGraphHash,
        SpectralHash,
        SphericalHash,
        StochasticAutoencoderHash,
        SupervisedDiscreteHash,
        SupervisedHash,
    )
}


# Those that read their files themselves, and can map them into memory.
INDEXES = {cls.__name__: cls for cls in (HammingNeighbors, HashedNeighbors)}


def load(path):
    """Load what a ``save`` method wrote: an encoder, a classifier, an index, a search.

    It runs no code from the file. `HammingNeighbors.load` and `HashedNeighbors.load`
    can also map an index into memory.

    Parameters
    ----------
    path : path-like
        The directory that was given to ``save``.

    Returns
    -------
    estimator : object
        The fitted estimator, of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If `path` holds nothing that was saved.
    ValueError
        If a file is damaged, was written by a newer version, or names an unknown class.

    Examples
    --------
    >>> import tempfile
    >>> import skhash
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = skhash.ITQHash(n_bits=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder.save(folder)
    ...     loaded = skhash.load(folder)
    >>> bool((loaded.transform(X) == encoder.transform(X)).all())
    True
    """
    name = read_manifest(Path(path))["class"]
    if name in INDEXES:
        return INDEXES[name].load(path)
    return load_estimator(path, LOADABLE)
