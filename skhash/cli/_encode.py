"""``skhash encode``: a file of vectors into a file of codes, a chunk at a time."""

import json
from functools import partial
from pathlib import Path
from time import monotonic

import numpy as np

from skhash.auditing.rows import read_rows
from skhash.auditing.texts import quoted
from skhash.base import BaseHasher
from skhash.cli._checks import check_device, check_writable, reading_options
from skhash.cli._terminal import print_text
from skhash.codes import packed_width
from skhash.datasets import open_vectors
from skhash.persistence import load
from skhash.quantization import AdditiveQuantizer
from skhash.utils.arrays import unit_rows
from skhash.utils.chunks import row_chunks
from skhash.utils.files import replacing
from skhash.utils.progress import progress

FLOATS = (np.float16, np.float32, np.float64)


def run_encode(arguments) -> None:
    """Run the command with its parsed arguments."""
    path, packed = Path(arguments.codes), arguments.packed
    _check_target(path, Path(arguments.vectors))
    encoder = _load_encoder(arguments.encoder, arguments.device)
    options, start = reading_options(arguments), monotonic()
    X = open_vectors(arguments.vectors, **options)
    if X.shape[1] != encoder.n_features_in_:
        raise ValueError(
            f"{arguments.vectors} holds vectors of {X.shape[1]} numbers, but "
            f"{arguments.encoder} encodes vectors of {encoder.n_features_in_}."
        )
    packed = packed or isinstance(encoder, AdditiveQuantizer)
    n_bits, width = encode_file(encoder, X, path, packed, not arguments.quiet)
    if arguments.json:
        written = {
            "codes": str(path),
            "n_rows": X.shape[0],
            "n_bits": n_bits,
            "n_columns": width,
            "packed": packed,
            "seconds": monotonic() - start,
        }
        print(json.dumps(written))
    elif not arguments.quiet:
        kind = f"packed in {width} bytes" if packed else "a byte each"
        print(f"Wrote {path}: {X.shape[0]:,} codes of {n_bits} bits, {kind}")
        if isinstance(encoder, AdditiveQuantizer):
            _tell_search(arguments.encoder, path, encoder.normalized_)


def _tell_search(encoder, path, is_scaled) -> None:
    """Say how codes of a quantizer are searched: not by Hamming distance."""
    if is_scaled:
        print_text("Vectors were scaled to unit length, as those of the fit were.")
    metric = ', metric="cosine"' * is_scaled
    print_text("Search them with queries of real numbers, in Python:")
    print(
        "import numpy as np; from skhash import AsymmetricNeighbors, load; index = "
        f"AsymmetricNeighbors(packed=True{metric}).fit(np.load({quoted(str(path))}), "
        f"decoder=load({quoted(encoder)}))"
    )


def _check_target(path: Path, vectors: Path) -> None:
    if path.suffix != ".npy":
        raise ValueError(f"{path} must end in .npy, the format of the codes.")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} does not exist; create the directory first.")
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file to write.")
    if path.exists() and vectors.exists() and path.samefile(vectors):
        raise ValueError(f"{path} holds the vectors; write the codes to another file.")
    check_writable(path.parent)


def _load_encoder(path: str, device: str | None) -> BaseHasher | AdditiveQuantizer:
    if device is not None:
        check_device(device)
    encoder = load(path)
    if not isinstance(encoder, BaseHasher | AdditiveQuantizer):
        raise ValueError(
            f"{path} holds a {type(encoder).__name__}, which does not encode vectors; "
            "name the directory of an encoder, such as ITQHash.save writes."
        )
    return encoder if device is None else encoder.set_params(device=device)


def encode_file(encoder, X, path: Path, packed: bool, shown: bool) -> tuple[int, int]:
    """Encode `X` into a ``.npy`` file that is complete or absent, never half.

    Parameters
    ----------
    encoder : fitted encoder
    X : {ndarray, CSR array} of shape (n, n_features)
        Perhaps a file that is mapped into memory.
    path : Path
    packed : bool
    shown : bool
        Whether to show progress.

    Returns
    -------
    n_bits, width : int
        The length of the codes, and the columns of the file.
    """
    n_bits = width = len(encoder.get_feature_names_out())
    n, transform = X.shape[0], encoder.transform
    if isinstance(encoder, AdditiveQuantizer):
        n_bits = 8 * width
        if encoder.normalized_:
            transform = partial(_encode_directions, encoder)
    elif packed:
        width, transform = packed_width(n_bits), encoder.transform_packed
    with replacing(path) as file, progress(shown) as show:
        header = {"descr": "|u1", "fortran_order": False, "shape": (n, width)}
        np.lib.format.write_array_header_1_0(file, header)
        for rows in row_chunks(n, X.dtype.itemsize * X.shape[1] + width):
            file.write(_encode_rows(transform, X, rows))
            show(f"encoding: {rows.stop:,} of {n:,}")
    return n_bits, width


def _encode_directions(quantizer, rows):
    return quantizer.transform(unit_rows(rows))


def _encode_rows(transform, X, rows):
    if X.dtype not in FLOATS:
        return transform(read_rows(X, rows))
    try:
        return transform(X[rows])  # in place, with no copy
    except ValueError:
        read_rows(X, rows)  # its error names a row that is not finite
        raise
