"""Codes of other engines for the same vectors: rows to compare with.

They are codes of whole columns (``sign``, ``int8``) and those of faiss (``pq``,
``rabitq``), where it is installed. They compare uncompressed queries with decoded
codes, and are measured as the encoders are.
"""

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import sparse

from skhash.auditing import timing
from skhash.auditing.measure import AuditRow, by_hamming, found_recalls
from skhash.auditing.timing import seconds_of, timed
from skhash.codes import pack_bits, packed_width
from skhash.metrics import true_neighbors

# Entries of a codebook of product quantization: a byte of a code names one.
PQ_ENTRIES = 256


def measure_sign(task, n_bits) -> list[AuditRow]:
    """A bit a column: whether it is above its mean. It decodes to the mean of its side.

    The codebook is the mean and those of both sides of each column.
    """
    data, n_columns = task.data, task.data.train.shape[1]
    (mean, low, high), fit_seconds = seconds_of(lambda: _sides(data.train))
    above, encode_seconds = timed(lambda: data.database > mean)
    row = partial(
        AuditRow,
        method="sign",
        n_bits=n_columns,
        code_bytes=packed_width(n_columns),
        bytes_per_vector=packed_width(n_columns),
        fit_seconds=fit_seconds,
        encode_per_second=len(above) / encode_seconds,
    )
    hamming = by_hamming(pack_bits(data.queries > mean), pack_bits(above), task)
    decoded = _by_decoded(np.where(above, high, low), task)
    n_bytes = 3 * 4 * n_columns
    return [row(codebook_bytes=0, **hamming), row(codebook_bytes=n_bytes, **decoded)]


def _sides(X):
    """Return the means of each column, of its values up to them, and of those above."""
    mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
    above = X > mean
    n_above = above.sum(axis=0)
    high = np.where(above, X, 0).sum(axis=0, dtype=np.float64) / np.maximum(n_above, 1)
    low = np.where(above, 0, X).sum(axis=0, dtype=np.float64)
    low /= np.maximum(len(X) - n_above, 1)
    return mean, low.astype(np.float32), high.astype(np.float32)


def measure_int8(task, n_bits) -> list[AuditRow]:
    """A byte a column: 256 even steps from its least to its greatest value.

    The codebook is both of these of each column.
    """
    data, n_columns = task.data, task.data.train.shape[1]
    ends = np.min, np.max
    (least, most), fit_seconds = seconds_of(lambda: [f(data.train, 0) for f in ends])
    step = np.where(most > least, (most - least) / 255, 1).astype(least.dtype)

    def encode():
        steps = np.rint((data.database - least) / step)
        return np.clip(steps, 0, 255).astype(np.uint8)

    codes, encode_seconds = timed(encode)
    row = AuditRow(
        method="int8",
        n_bits=8 * n_columns,
        code_bytes=n_columns,
        bytes_per_vector=n_columns,
        codebook_bytes=2 * 4 * n_columns,
        fit_seconds=fit_seconds,
        encode_per_second=len(codes) / encode_seconds,
        **_by_decoded(codes * step + least, task),
    )
    return [row]


def _by_decoded(decoded, task) -> dict:
    """Return the recalls of an exact search among decoded vectors."""
    queries, n_found = task.data.queries, max(task.cuts)
    candidates = true_neighbors(queries, decoded, n_found, metric=task.metric)
    return found_recalls(candidates, task)


def measure_pq(task, n_bits) -> list[AuditRow]:
    """Product quantization of faiss, with a byte for each part of the columns."""
    _require_faiss()
    n_parts, n_columns = packed_width(n_bits), task.data.train.shape[1]
    if n_parts > n_columns:
        raise ValueError(f"{n_parts} bytes need as many columns, not {n_columns}")
    if len(task.data.train) < PQ_ENTRIES:
        raise ValueError(f"at least {PQ_ENTRIES} rows are needed")
    # Columns of zeros add nothing to a distance; the parts have to be equally wide.
    width = -(-n_columns // n_parts) * n_parts
    code_size, measured = search_by_faiss(task, "pq", width, n_parts)
    row = AuditRow(
        method="pq",
        n_bits=8 * n_parts,
        code_bytes=n_parts,
        bytes_per_vector=code_size,
        codebook_bytes=4 * PQ_ENTRIES * width,
        **measured,
    )
    return [row]


def measure_rabitq(task, n_bits) -> list[AuditRow]:
    """RaBitQ of faiss: a bit a column, turned at random, and two floats.

    The codebook is the rotation and the mean.
    """
    _require_faiss()
    n_columns = task.data.train.shape[1]
    code_size, measured = search_by_faiss(task, "rabitq", n_columns)
    row = AuditRow(
        method="rabitq",
        n_bits=n_columns,
        code_bytes=packed_width(n_columns),
        bytes_per_vector=code_size,
        codebook_bytes=4 * (n_columns + 1) * n_columns,
        **measured,
    )
    return [row]


def _require_faiss():
    if importlib.util.find_spec("faiss") is None:
        raise ValueError('faiss is not installed; pip install "scikit-hash[audit]"')


def search_by_faiss(task, method, width, n_parts=None, part_bits=8):
    """Return the bytes of a vector, and speeds and recalls, of an index of faiss.

    A separate process searches; see `skhash.auditing.timing`.

    width : number of columns, of which the last ones are zeros
    """
    # Rows have unit length for the cosine, so both metrics give the same order.
    product = task.metric == "inner_product"
    metric = "METRIC_INNER_PRODUCT" if product else "METRIC_L2"
    index = {"method": method, "metric": metric}
    index |= {"n_parts": n_parts, "part_bits": part_bits}
    told = {"index": index, "n_timed": task.n_candidates, "n_found": max(task.cuts)}
    with TemporaryDirectory(prefix="skhash") as name:
        folder = Path(name)
        (folder / "task.json").write_text(json.dumps(told))
        for part in ("train", "database", "queries"):
            X = getattr(task.data, part)
            X = np.pad(X.astype(np.float32), [(0, 0), (0, width - X.shape[1])])
            np.save(folder / f"{part}.npy", X)
        _run(folder)
        code_size, seconds = json.loads((folder / "done.json").read_text())
        candidates = np.load(folder / "found.npy")
    return code_size, {
        "fit_seconds": seconds["training"],
        "encode_per_second": task.data.database.shape[0] / seconds["adding"],
        "search_per_second": task.data.queries.shape[0] / seconds["searching"],
        **found_recalls(candidates, task),
    }


def _run(folder) -> None:
    """Run the process of faiss; if it fails, raise ``ValueError`` with its words."""
    command = [sys.executable, "-P", timing.__file__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        words = done.stderr.strip().rpartition("\n")[2]
        raise ValueError(words or f"faiss ended with status {done.returncode}")


MEASURES = measure_sign, measure_int8, measure_pq, measure_rabitq
PEERS = {measure.__name__.removeprefix("measure_"): measure for measure in MEASURES}


def measure_peer(method, n_bits, task) -> list[AuditRow]:
    """Return the rows of a peer; raise ``ValueError`` if it cannot run."""
    if sparse.issparse(task.data.database):
        raise ValueError("the vectors must be dense")
    return PEERS[method](task, n_bits)
