"""A reader reads any file, or raises one clear ValueError."""

import io
import json
import random
import struct
import zipfile

import numpy as np
import pytest
from cases import memory_below
from scipy import sparse

from skhash.datasets import open_vectors, read_ann_hdf5

X = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
SMALL = 2**20  # bytes: what a refused file may cost


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def npz(compressed, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def sparse_npz():
    file = io.BytesIO()
    sparse.save_npz(file, sparse.csr_array(X * (X > 0)))
    return file.getvalue()


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def vecs(vectors):
    head = struct.pack("<i", vectors.shape[1])
    return b"".join(head + vector.tobytes() for vector in vectors)


def hdf5(fill):
    h5py = pytest.importorskip("h5py")
    file = io.BytesIO()
    with h5py.File(file, "w") as saved:
        fill(h5py, saved)
    return file.getvalue()


def ann(h5py, saved):
    saved.attrs["distance"] = np.bytes_("angular")
    saved["test"] = X[:3]
    saved.create_dataset("train", data=X, chunks=(4, 5), compression="gzip")


def csv():
    return "\n".join(",".join(f"{value:g}" for value in row) for row in X).encode()


def fbin(rows):
    return struct.pack("<II", *rows.shape) + rows.tobytes()


def safetensors(**tensors):
    header, content = {}, b""
    for name, (kind, array) in tensors.items():
        place = [len(content), len(content) + array.nbytes]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": place}
        content += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def table(write, **columns):
    arrow = pytest.importorskip("pyarrow")
    file = io.BytesIO()
    write(arrow, file, arrow.table(columns))
    return file.getvalue()


def parquet(arrow, file, table):
    pytest.importorskip("pyarrow.parquet").write_table(table, file)


def ipc_file(arrow, file, table):
    with arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def ipc_stream(arrow, file, table):
    with arrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def tables(write):
    return [table(write, v=list(X)), table(write, a=X[:, 0], b=X[:, 1])]


# For each format: the suffix of its files, whole ones, and what reads them.
FORMATS = {
    "npy": (".npy", lambda: [npy(X), npy(X.T.astype(">f8"))], [open_vectors]),
    "npz": (
        ".npz",
        lambda: [npz(False, X=X), npz(True, a=X, b=X[0]), sparse_npz()],
        [open_vectors],
    ),
    "fvecs": (".fvecs", lambda: [vecs(X)], [open_vectors]),
    "bvecs": (".bvecs", lambda: [vecs(X.astype("u1"))], [open_vectors]),
    "ivecs": (".ivecs", lambda: [vecs(X.astype("i4"))], [open_vectors]),
    "csv": (".csv", lambda: [csv(), b"a,b,c,d,e\n" + csv()], [open_vectors]),
    "fbin": (".fbin", lambda: [fbin(X)], [open_vectors]),
    "u8bin": (".u8bin", lambda: [fbin(X.astype("u1"))], [open_vectors]),
    "safetensors": (
        ".safetensors",
        lambda: [
            safetensors(a=("F32", X), b=("I64", np.arange(3))),
            safetensors(a=("BF16", X.astype("u2"))),
        ],
        [open_vectors],
    ),
    "parquet": (".parquet", lambda: tables(parquet), [open_vectors]),
    "arrow": (".arrow", lambda: tables(ipc_file) + tables(ipc_stream), [open_vectors]),
    "hdf5": (".hdf5", lambda: [hdf5(ann)], [open_vectors, read_ann_hdf5]),
}


def truncated(rng, content):
    return content[: rng.randrange(len(content))]


def flipped(rng, content):
    content = bytearray(content)
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def extreme(rng, content):
    """Return the content with the largest or smallest of some integer type in it."""
    width = rng.choice([1, 2, 4, 8])
    number = rng.choice(
        [b"\xff" * width, b"\xff" * (width - 1) + b"\x7f", b"\0" * width]
    )
    start = rng.randrange(len(content))
    return content[:start] + number + content[start + width :]


def cut_out(rng, content):
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.randrange(1, 40) :]


def noise(rng, content):
    return rng.randbytes(rng.randrange(200))


def noise_after_the_start(rng, content):
    return content[: rng.randrange(1, 16)] + noise(rng, content)


# The HDF5 library loops for ever on some damage to its heaps; it is spared these.
HARMLESS = (truncated, noise, noise_after_the_start)
DAMAGES = (*HARMLESS, flipped, extreme, cut_out)
N_DAMAGED = 60


def damaged_files(kind):
    rng = random.Random(kind)
    damages = HARMLESS if kind == "hdf5" else DAMAGES
    wholes = FORMATS[kind][1]()
    for _ in range(N_DAMAGED):
        yield rng.choice(damages)(rng, rng.choice(wholes))


def error_of(read, path):
    """Return the message of the ValueError that a reader raises, or None."""
    try:
        read(path)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", FORMATS)
def test_any_damage_is_one_clear_error_or_none(tmp_path, kind):
    suffix, _, readers = FORMATS[kind]
    path = tmp_path / f"bad{suffix}"
    messages = []
    for content in damaged_files(kind):
        path.write_bytes(content)
        messages += [error_of(read, path) for read in readers]
    told = [message for message in messages if message is not None]
    assert len(told) > len(messages) / 3
    for message in told:
        assert str(path) in message
        assert message.isprintable() and len(message) < 1000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "shape",
    [
        b"(99999999999999999999, 5)",
        b"(4611686018427387904, 4)",
        b"(4294967296, 4294967296)",
        b"(1000000000000, 5)",
        b"(-12, -5)",
        b"(13, 5)",
        b"(" + 200 * b"(",
    ],
)
def test_npy_that_declares_what_it_does_not_hold(tmp_path, shape):
    path = tmp_path / "bad.npy"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b"}"
    header = header.ljust(500) + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    for mmap in (True, False):
        path.write_bytes(content + X.tobytes())
        with pytest.raises(ValueError, match="bad.npy cannot be read as .npy: "):
            open_vectors(path, mmap=mmap)
    path.with_suffix(".npz").write_bytes(zipped(X=content + X.tobytes()))
    with pytest.raises(ValueError, match="bad.npz: the array X cannot be read: "):
        open_vectors(path.with_suffix(".npz"))


def test_bombs_are_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    path.write_bytes(zipped(X=bytes(2**25)))
    with memory_below(SMALL), pytest.raises(ValueError, match=path.name):
        open_vectors(path)


def test_names_in_an_archive_are_shown_on_one_line(tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(zipped(**{"a\nb\x1b[31m": npy(X[0]), 999 * "c": npy(X[0])}))
    message = error_of(open_vectors, path)
    assert message.isprintable() and len(message) < 1000


@pytest.mark.parametrize("mmap", [True, False])
def test_a_vector_of_another_dimension_between_others(tmp_path, mmap):
    content = bytearray(vecs(np.zeros((50_000, 3), np.float32)))
    content[16 * 23_456] = 4
    (tmp_path / "bad.fvecs").write_bytes(content)
    with pytest.raises(ValueError, match="dimension 4, but the first has 3"):
        open_vectors(tmp_path / "bad.fvecs", mmap=mmap)


# HDF5 files that lead elsewhere, or say of `train` what is not so


def external(h5py, saved, folder):
    where = [(str(folder / "secret"), 0, X.nbytes)]
    saved.create_dataset("train", X.shape, X.dtype, external=where)


def virtual(h5py, saved, folder):
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource(str(folder / "secret"), "train", X.shape)
    saved.create_virtual_dataset("train", layout)


def external_link(h5py, saved, folder):
    saved["train"] = h5py.ExternalLink(str(folder / "other.hdf5"), "/train")


def soft_link(h5py, saved, folder):
    saved["train"] = h5py.SoftLink("/test")


def terabytes(h5py, saved, folder):
    saved.create_dataset("train", (10**9, 1000), "f4")


def terabytes_in_chunks(h5py, saved, folder):
    saved.create_dataset("train", (10**9, 1000), "f4", chunks=(1000, 1000))


def texts(h5py, saved, folder):
    saved["train"] = ["text"]


def records(h5py, saved, folder):
    saved["train"] = np.zeros(3, "c8,f4")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (external, "/train lies in other files"),
        (virtual, "/train lies in other files"),
        (external_link, "no data set train, but test; links are not"),
        (soft_link, "no data set train, but test; links are not"),
        (terabytes, "/train declares 4,000,000,000,000 bytes of numbers, and the file"),
        (terabytes_in_chunks, "/train declares 4,000,000,000,000 bytes of numbers"),
        (texts, "which is not numeric"),
        (records, "which is not numeric"),
    ],
)
def test_hdf5_without_numbers_of_its_own(tmp_path, fill, message):
    def fill_file(h5py, saved):
        ann(h5py, saved)
        del saved["train"]
        fill(h5py, saved, tmp_path)

    (tmp_path / "secret").write_bytes(X.tobytes())
    (tmp_path / "other.hdf5").write_bytes(hdf5(ann))
    path = tmp_path / "bad.hdf5"
    path.write_bytes(hdf5(fill_file))
    for read in (open_vectors, read_ann_hdf5):
        found = error_of(read, path)
        assert "bad.hdf5 cannot be read as HDF5: " in found and message in found


def test_a_chunk_of_hdf5_that_is_smaller_than_its_checksum(tmp_path):
    def fill(h5py, saved):
        saved.create_dataset("train", data=X, chunks=(3, 5), fletcher32=True)

    content, path = hdf5(fill), tmp_path / "bad.hdf5"
    first_chunk = struct.pack("<IIQQQ", 64, 0, 0, 0, 0)  # size, filters, position
    assert content.count(first_chunk) == 1
    path.write_bytes(content)
    np.testing.assert_array_equal(open_vectors(path), X)
    path.write_bytes(content.replace(first_chunk, bytes(4) + first_chunk[4:]))
    with pytest.raises(ValueError, match="smaller than its checksum"):
        open_vectors(path)


def test_a_distance_in_hdf5_that_is_no_word(tmp_path):
    def fill(h5py, saved):
        ann(h5py, saved)
        saved.attrs["distance"] = np.arange(3)

    (tmp_path / "bad.hdf5").write_bytes(hdf5(fill))
    message = error_of(read_ann_hdf5, tmp_path / "bad.hdf5")
    assert "the attribute 'distance' is array([0, 1, 2])" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (safetensors(a=("F32", X)) + b"\0", "declares"),
        (safetensors(a=("F32", X), b=("U8", np.zeros(9, "u1")))[:-1], "declares"),
        (safetensors(a=("F64", X)), "length is greater than file size"),
        (safetensors(a=("F16", X)), r"a has shape \(12, 5\) in 240 bytes"),
        (safetensors(a=("I4", X)), "a is of type I4; save it as float32"),
        (safetensors(a=("F32", X)).replace(b"[0, 240]", b"[-8,240]"), "a has shape"),
        (safetensors(), "bad.safetensors cannot be read as safetensors"),
        (struct.pack("<Q", 2**40) + b"{}", "truncated, or of another format"),
    ],
)
def test_tensors_that_do_not_lie_where_they_should(tmp_path, content, message):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    for mmap in (True, False):
        with pytest.raises(ValueError, match=message):
            open_vectors(path, mmap=mmap)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_no_vectors_behind_their_shape(tmp_path, shape):
    (tmp_path / "bad.fbin").write_bytes(struct.pack("<II", *shape))
    with pytest.raises(ValueError, match="bad.fbin has 8 bytes"):
        open_vectors(tmp_path / "bad.fbin")


def test_lists_that_lie_beyond_their_numbers(tmp_path):
    """pyarrow would read what lies behind them, or end the process."""
    offsets = np.arange(0, 61, 5, dtype="<i4")
    content = table(ipc_file, v=list(X))
    assert content.count(offsets.tobytes()) == 1
    changed = content.replace(offsets.tobytes(), (offsets + 1000).tobytes())
    (tmp_path / "bad.arrow").write_bytes(changed)
    with pytest.raises(ValueError, match="bad.arrow cannot be read as a table"):
        open_vectors(tmp_path / "bad.arrow")


def test_parquet_that_declares_more_rows_than_it_has(tmp_path):
    """Its number of rows stands in the footer twice, in all and by group."""
    reader = pytest.importorskip("pyarrow.parquet").ParquetFile
    path, content = tmp_path / "bad.parquet", table(parquet, a=X[:, 0], b=X[:, 1])
    n_found = 0
    for place in range(len(content) - 9, 0, -1):
        if content[place] != 24:  # 12, as such numbers are coded
            continue
        path.write_bytes(content[:place] + b"\x1a" + content[place + 1 :])
        try:
            metadata = reader(path).metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        except (OSError, ValueError):
            continue
        if metadata.num_rows == 13 and [one.num_rows for one in groups] == [12]:
            n_found += 1
            with pytest.raises(ValueError, match="it declares 13 rows, and has 12"):
                open_vectors(path)
    assert n_found == 1
