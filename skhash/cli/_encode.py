"""``skhash encode``: a file of vectors into a file of codes, a chunk at a time."""

import os
from pathlib import Path

import numpy as np

from skhash._load import load
from skhash.cli._terminal import progress
from skhash.codes import packed_width
from skhash.datasets import open_vectors
from skhash.utils.chunks import row_chunks


def run_encode(arguments) -> None:
    """Run the command with its parsed arguments."""
    encoder = load(arguments.encoder)
    if arguments.device is not None:
        encoder.set_params(device=arguments.device)
    X = open_vectors(arguments.vectors)
    encode_file(encoder, X, Path(arguments.codes), arguments.packed)
    kind = "packed bytes" if arguments.packed else "bits"
    print(f"wrote {arguments.codes}: {X.shape[0]:,} codes of {encoder.n_bits} {kind}")


def encode_file(encoder, X, path: Path, packed: bool) -> None:
    """Encode `X` into a ``.npy`` file that is complete or absent, never half."""
    if path.suffix != ".npy":
        raise ValueError(f"{path}: codes are written as .npy.")
    n_bits = encoder.n_bits
    shape = (X.shape[0], packed_width(n_bits) if packed else n_bits)
    transform = encoder.transform_packed if packed else encoder.transform
    temporary = path.with_name(path.name + ".part")
    codes = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)
    try:
        with progress() as show:
            for rows in row_chunks(X.shape[0], 8 * X.shape[1] + shape[1]):
                codes[rows] = transform(X[rows])
                show(f"{rows.stop:,} of {X.shape[0]:,}")
        codes.flush()
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
