"""Tables: Parquet and Arrow files, and columns of any table that are ids."""

import warnings

import numpy as np

from skhash.datasets._damage import PathLike, imported, listed, parsing

# Rows that are looked at for ids, and how many of these differ by more than chance.
HEAD_ROWS, ENOUGH_ROWS = 10_000, 100
BATCH_ROWS = 2**14


@np.errstate(all="ignore")
def without_ids(path: PathLike, X: np.ndarray, names, keep_ids: bool) -> np.ndarray:
    """Return columns as float32, and leave out those that are ids, with a warning.

    X : ndarray of float64, in which whole numbers are told apart
    """
    head, vectors = X[:HEAD_ROWS], X.astype(np.float32)
    n = len(head)
    counts = n > 2 and (np.diff(head, axis=0) == 1).all(axis=0)
    differ = [n >= ENOUGH_ROWS and len(np.unique(one)) == n for one in head.T]
    ids = np.flatnonzero((counts | np.array(differ)) & (head == np.rint(head)).all(0))
    if keep_ids or not 0 < len(ids) < X.shape[1]:
        return vectors
    warnings.warn(
        f"{path}: left out {listed(names[i] for i in ids)}, since whole numbers that "
        "count rows or all differ are ids; keep_ids=True (--keep-ids) keeps them.",
        stacklevel=4,
    )
    return np.delete(vectors, ids, axis=1)


def open_table(path: PathLike, column: str | None, keep_ids: bool) -> np.ndarray:
    """Read a column of lists, or else all columns of numbers, batch by batch."""
    dataset = imported("pyarrow.dataset", "arrow", path).dataset
    with open(path, "rb") as file, parsing(f"{path} cannot be read as a table"):
        table = _table(dataset, path, file.read(4))
        names, of_lists = _columns(table.schema, column)
        width, dtype = len(names), np.float64
        if of_lists is not None:
            head = table.head(1, columns=names)
            head.validate(full=True)
            width = len(head.column(0)[0])
            dtype = of_lists.to_pandas_dtype()
        X, stop = np.empty((table.count_rows(), width), dtype), 0
        options = {"batch_size": BATCH_ROWS, "batch_readahead": 1}
        for batch in table.to_batches(columns=names, **options):
            start, stop = stop, stop + len(batch)
            X[start:stop] = _rows(batch, width, of_lists)
        if stop != len(X):
            raise ValueError(f"it declares {len(X)} rows, and has {stop}")
    return without_ids(path, X, names, keep_ids) if of_lists is None else X


def _table(dataset, path, magic):
    """Return a file as pyarrow's data set; a stream of Arrow is mapped whole."""
    if magic in (b"PAR1", b"ARRO"):
        return dataset(path, format="ipc" if magic == b"ARRO" else "parquet")
    import pyarrow as pa

    return dataset(pa.ipc.open_stream(pa.memory_map(str(path))).read_all())


def _columns(schema, column):
    """Return the names of the columns of vectors, and the type in lists, or None."""
    from pyarrow import types

    def is_number(kind):
        return kind and (types.is_integer(kind) or types.is_floating(kind))

    fields = [one for one in schema if column in (None, one.name)]
    lists = [one for one in fields if is_number(getattr(one.type, "value_type", None))]
    numbers = [one for one in fields if is_number(one.type)]
    if len(lists) > 1 or not lists + numbers:
        raise ValueError(
            "it is not clear which column has the vectors: name one of numbers, or of "
            f"lists of numbers, column=NAME, among {listed(schema.names)}"
        )
    names = [one.name for one in lists or numbers]
    return names, lists[0].type.value_type if lists else None


def _rows(batch, width, of_lists):
    """Return the numbers of a batch, one row each."""
    import pyarrow as pa

    batch.validate(full=True)  # nothing else looks at what a file says of lists
    columns = batch.columns
    if of_lists is not None:
        columns.append(columns[0].cast(pa.list_(of_lists, width)).flatten())
    if any(one.null_count for one in columns):
        raise ValueError(f"{', '.join(batch.schema.names)} has missing values")
    if of_lists is not None:
        return columns[1].to_numpy().reshape(len(batch), width)
    return np.stack([one.to_numpy() for one in columns], axis=1)
