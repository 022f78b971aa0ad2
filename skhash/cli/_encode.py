"""``skhash encode``: a file of vectors into a file of codes, a chunk at a time."""

import json
from pathlib import Path
from time import monotonic

import numpy as np

from skhash.auditing.data import read_rows
from skhash.base import BaseHasher
from skhash.cli._device import check_device
from skhash.cli._files import check_space, check_writable
from skhash.cli._terminal import nothing, progress
from skhash.codes import packed_width
from skhash.datasets import open_vectors
from skhash.persistence import load
from skhash.utils.chunks import row_chunks
from skhash.utils.files import replacing
from skhash.utils.progress import rate_line

FLOATS = (np.float16, np.float32, np.float64)


def run_encode(arguments) -> None:
    """Run the command with its parsed arguments."""
    path = Path(arguments.codes)
    _check_target(path, Path(arguments.vectors))
    encoder = _load_encoder(arguments.encoder, arguments.device)
    X = open_vectors(arguments.vectors)
    if X.shape[1] != encoder.n_features_in_:
        raise ValueError(
            f"{arguments.vectors} holds vectors of {X.shape[1]} numbers, but "
            f"{arguments.encoder} encodes vectors of {encoder.n_features_in_}."
        )
    watch, start = nothing if arguments.quiet else progress, monotonic()
    n_bits, width = encode_file(encoder, X, path, arguments.packed, watch)
    written = {
        "codes": str(path),
        "n_rows": X.shape[0],
        "n_bits": n_bits,
        "n_columns": width,
        "packed": arguments.packed,
        "seconds": monotonic() - start,
    }
    _tell(written, arguments)


def _tell(written, arguments) -> None:
    """Print what was written, as it is asked for."""
    if arguments.json:
        print(json.dumps(written))
    elif not arguments.quiet:
        packed = f"packed in {written['n_columns']} bytes"
        kind = packed if arguments.packed else "a byte each"
        print(
            f"Wrote {written['codes']}: {written['n_rows']:,} codes of "
            f"{written['n_bits']} bits, {kind}"
        )


def _check_target(path: Path, vectors: Path) -> None:
    if path.suffix != ".npy":
        raise ValueError(f"{path}: codes are written as .npy; name a file CODES.npy.")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no directory {path.parent} to write to.")
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file to write.")
    if path.exists() and vectors.exists() and path.samefile(vectors):
        raise ValueError(f"{path} holds the vectors; write the codes to another file.")
    check_writable(path.parent)


def _load_encoder(path: str, device: str | None) -> BaseHasher:
    if device is not None:
        check_device(device)
    encoder = load(path)
    if not isinstance(encoder, BaseHasher):
        raise ValueError(
            f"{path} holds a {type(encoder).__name__}, which encodes no vectors; name "
            "the directory of an encoder, such as `skhash audit --out` writes."
        )
    return encoder if device is None else encoder.set_params(device=device)


def encode_file(encoder, X, path: Path, packed: bool, watch) -> tuple[int, int]:
    """Encode `X` into a ``.npy`` file that is complete or absent, never half.

    Parameters
    ----------
    encoder : fitted encoder
    X : {ndarray, CSR array} of shape (n, n_features)
        Perhaps a file that is mapped into memory.
    path : Path
    packed : bool
    watch : callable
        `progress`, or `nothing`.

    Returns
    -------
    n_bits, width : int
        The length of the codes, and the columns of the file.
    """
    n_bits = len(encoder.get_feature_names_out())
    width = packed_width(n_bits) if packed else n_bits
    transform = encoder.transform_packed if packed else encoder.transform
    shape = (X.shape[0], width)
    check_space(path, shape[0] * width)
    with replacing(path) as file, watch() as show:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = monotonic()
        for rows in row_chunks(X.shape[0], X.dtype.itemsize * X.shape[1] + width):
            file.write(_encode_rows(transform, X, rows))
            seconds = monotonic() - start
            show(f"encoding: {rate_line(rows.stop, X.shape[0], seconds)}")
    return n_bits, width


def _encode_rows(transform, X, rows):
    if X.dtype not in FLOATS:
        return transform(read_rows(X, rows))
    try:
        return transform(X[rows])  # where they lie, with no copy
    except ValueError:
        read_rows(X, rows)  # which says the row that is not finite, if one is
        raise
