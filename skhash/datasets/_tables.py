"""Tables: Parquet and Arrow files, and columns of any table that are ids."""

import warnings
from functools import partial

import numpy as np

from skhash.datasets._damage import PathLike, listed, parsing
from skhash.utils.lazy import import_extra

# Rows that are looked at for ids, and how many of these differ by more than chance.
HEAD_ROWS, ENOUGH_ROWS = 10_000, 100
BATCH_ROWS = 2**14


@np.errstate(all="ignore")
def without_ids(path: PathLike, X: np.ndarray, names, keep_ids: bool) -> np.ndarray:
    """Return columns as float32, and leave out those that are ids, with a warning.

    X : ndarray of a type that tells whole numbers apart
    """
    head, vectors = X[:HEAD_ROWS], X.astype(np.float32)
    n = len(head)
    counts = n > 2 and (np.diff(head, axis=0) == 1).all(axis=0)
    differ = [n >= ENOUGH_ROWS and len(np.unique(column)) == n for column in head.T]
    are_ids = (counts | np.array(differ, bool)) & (head == np.rint(head)).all(axis=0)
    ids = np.flatnonzero(are_ids)
    if keep_ids or not 0 < len(ids) < X.shape[1]:
        return vectors
    warnings.warn(
        f"{path}: left out {listed(names[i] for i in ids)}, which look like ids, as "
        "they count rows or all differ; keep_ids=True (--keep-ids) keeps them.",
        stacklevel=5,
    )
    return np.delete(vectors, ids, axis=1)


def open_table(path: PathLike, column: str | None, keep_ids: bool) -> np.ndarray:
    """Read a column of lists, or else all columns of numbers, batch by batch."""
    extra = '"scikit-hash[arrow]"'
    parquet = import_extra("pyarrow.parquet", f"Reading {path}", extra)
    with open(path, "rb") as file, parsing(f"{path} cannot be read as a table"):
        if file.read(4) == b"PAR1":
            table = parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
            schema, n = table.schema_arrow, table.metadata.num_rows
            batches = table.iter_batches
        else:
            table = _arrow_file(path)
            schema, n = table.schema, table.count_rows()
            batches = partial(table.to_batches, batch_readahead=0)
        names, of_lists = _columns(schema, column)
        X, stop = np.empty((0, 0)), 0
        # Several threads would read ahead.
        for batch in batches(batch_size=BATCH_ROWS, columns=names, use_threads=False):
            rows = _rows(batch, of_lists, X.shape[1] if stop else None)
            X = X if stop else np.empty((n, rows.shape[1]), rows.dtype)
            start, stop = stop, stop + len(rows)
            X[start:stop] = rows
        if stop != n:
            raise ValueError(f"it declares {n} rows, and has {stop}")
    return without_ids(path, X, names, keep_ids) if of_lists is None else X


def _arrow_file(path):
    """Return a file of Arrow as a data set; a stream is mapped."""
    import pyarrow as pa
    from pyarrow.dataset import dataset

    source = pa.memory_map(str(path))
    if source.read_at(6, 0) == b"ARROW1":
        return dataset(path, format="ipc")
    return dataset(pa.ipc.open_stream(source).read_all())


def _columns(schema, column):
    """Return the names of the columns of vectors, and the type in lists, or None."""
    from pyarrow import types

    def is_number(kind):
        return types.is_integer(kind) or types.is_floating(kind)

    fields = [field for field in schema if column in (None, field.name)]
    # Categories have a type of values too, but no field of them.
    lists = [f for f in fields if hasattr(f.type, "value_field")]
    lists = [f for f in lists if is_number(f.type.value_type)]
    numbers = [f for f in fields if is_number(f.type)]
    if len(lists) > 1 or not lists + numbers:
        raise ValueError(
            "it is not clear which column has the vectors: set column=NAME to one with "
            f"numbers, or lists of numbers, among {listed(schema.names)}"
        )
    names = [field.name for field in lists or numbers]
    return names, lists[0].type.value_type if lists else None


def _rows(batch, of_lists, width):
    """Return the numbers of a batch, one row each.

    width : the length that lists have to have, or None, to find it
    """
    import pyarrow as pa

    batch.validate(full=True)  # nothing else looks at what a file says of lists
    if of_lists is None:
        return batch.to_tensor().to_numpy()
    lists = batch.column(0)
    if lists.null_count or lists.flatten().null_count:
        raise ValueError(f"{batch.schema.names[0]} has missing values")
    width = len(lists[0]) if width is None else width
    values = lists.cast(pa.list_(of_lists, width)).flatten()
    return values.to_numpy().reshape(len(batch), width)
