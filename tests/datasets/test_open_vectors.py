import sys

import numpy as np
import pytest
from cases import each
from special_files import make_pipe

from skhash.datasets import open_vectors

X = np.random.default_rng(0).integers(0, 50, (6, 4)).astype(np.float32)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i8", ">f4"])
def test_npy(tmp_path, dtype, mmap):
    path = tmp_path / "v.npy"
    np.save(path, X.astype(dtype))
    read = open_vectors(path, mmap=mmap)
    assert read.dtype == np.dtype(dtype)
    assert isinstance(read, np.memmap) == mmap
    np.testing.assert_array_equal(read, X)


@pytest.mark.parametrize(
    "arrays",
    [
        {"anything": X},
        {"anything": X, "labels": np.arange(6), "names": np.array([["a"]])},
        {"anything": X, "names": np.array([["a", None]])},
        {"train": X, "test": X[:2]},
        {"arr_0": X[:1], "embeddings": X},
        {"Z": X[:1], "X": X},
    ],
)
def test_npz(tmp_path, arrays):
    np.savez(tmp_path / "v.npz", **arrays)
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.npz"), X)


@pytest.mark.parametrize(
    "header", ["", "a,b,c,d\n", "a,b,c,d\n\n", '"0","x 1",c,d\n', "\ufeff"]
)
def test_csv(tmp_path, header):
    rows = "\n".join(",".join(f"{value:g}" for value in row) for row in X)
    (tmp_path / "v.CSV").write_text(header + rows, encoding="utf-8")
    read = open_vectors(tmp_path / "v.CSV")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, X)


@each("suffix", [".hdf5", ".h5"])
@each("mmap", [False, True])
@each(
    "name, asked",
    [("train", None), ("any", None), ("any", "any"), ("a/b", "a/b"), ("a/b", "/a/b")],
)
def test_hdf5(tmp_path, suffix, mmap, name, asked):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / f"v{suffix}"
    for chunks in (None, (4, 4)):
        with h5py.File(path, "w") as file:
            file["names"], file["group/other"] = np.arange(6), X[1:]
            file.create_dataset(name, data=X, chunks=chunks)
        read = open_vectors(path, mmap=mmap, name=asked)
        np.testing.assert_array_equal(read, X)
        assert isinstance(read, np.memmap) == (mmap and chunks is None)


def test_numbers_of_hdf5_that_numpy_has_in_another_form(tmp_path):
    h5py = pytest.importorskip("h5py")
    kind = h5py.h5t.IEEE_F32LE.copy()  # to be bfloat16
    kind.set_fields(15, 7, 8, 0, 7), kind.set_size(2)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        space = h5py.h5s.create_simple(X.shape)
        file["a"] = h5py.Dataset(h5py.h5d.create(file.id, b"X", kind, space))
        file["X"][:], file["behind"] = X, X
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.h5"), X)


@each("mmap", [False, True])
@each("suffix, dtype", [(".fbin", "<f4"), (".u8bin", "u1"), (".i8bin", "i1")])
def test_files_of_big_ann_benchmarks(tmp_path, suffix, dtype, mmap):
    path, rows = tmp_path / f"v{suffix}", (X - 25).astype(dtype)
    shape = np.array(X.shape, dtype="<u4").tobytes()
    path.write_bytes(shape + rows.tobytes())
    read = open_vectors(path, mmap=mmap)
    assert read.dtype == np.dtype(dtype) and isinstance(read, np.memmap) == mmap
    np.testing.assert_array_equal(read, rows)
    for content in (b"", shape[:5], shape, shape + rows.tobytes() + b"1"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"v{suffix} has {len(content)} bytes"):
            open_vectors(path, mmap=mmap)


@each("mmap", [False, True])
@each("kind", ["float32", "float16", "float64", "uint8", "int8", "int64", "bfloat16"])
def test_safetensors(tmp_path, kind, mmap):
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    path, given = tmp_path / "v.safetensors", torch.randn(6, 4) * 40
    given = given.to(getattr(torch, kind))
    save_file({"a": given, "b": torch.arange(6)}, path, metadata={"c": "d"})
    read = open_vectors(path, mmap=mmap)
    assert isinstance(read, np.memmap) == (mmap and kind != "bfloat16")
    assert str(read.dtype) == kind.replace("bfloat16", "float32")
    np.testing.assert_array_equal(read, given.to(torch.float64).numpy())
    save_file({"a": given, "embeddings": given + 1, "c": given[:2].clone()}, path)
    for name, expected in ((None, given + 1), ("c", given[:2])):
        read = open_vectors(path, name=name, mmap=mmap)
        np.testing.assert_array_equal(read, expected.to(torch.float64).numpy())


def test_a_tensor_of_a_type_that_numpy_lacks(tmp_path):
    torch = pytest.importorskip("torch")
    path, tensor = tmp_path / "v.safetensors", torch.zeros((2, 3))
    tensors = {"a": tensor, "b": tensor.to(torch.float8_e4m3fn)}
    pytest.importorskip("safetensors.torch").save_file(tensors, path)
    np.testing.assert_array_equal(open_vectors(path, name="a"), tensor)
    with pytest.raises(ValueError, match="v.safetensors .* F8_E4M3; save it as"):
        open_vectors(path, name="b")


def columns_of(arrow, kind, rows):
    """Return the columns of a table that hold rows of vectors."""
    lists = arrow.array(list(rows))
    if kind == "columns":
        return dict(zip("pqrs", rows.T, strict=True)) | {"text": ["t"] * len(rows)}
    if kind == "fixed":
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.ravel()), 4)
    if kind == "large":
        lists = lists.cast(arrow.large_list(lists.type.value_type))
    group = arrow.array([7] * len(rows)).dictionary_encode()  # of numbers, as in lists
    return {"id": np.arange(len(rows)), "v": lists, "text": group}


TABLES = "parquet", "feather", "arrow", "arrow stream"


def write_table(arrow, path, table, kind):
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(table, path, row_group_size=7000)
    elif kind == "feather":
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    else:
        new = arrow.ipc.new_stream if "stream" in kind else arrow.ipc.new_file
        with new(path, table.schema) as file:
            file.write_table(table, max_chunksize=7000)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("n", [6, 15_000])
def test_tables(tmp_path, kind, n):
    """Of more batches than one, and of less than a batch."""
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / f"v.{kind.split()[0]}"
    values = np.random.default_rng(0).integers(-99, 99, (n, 4))
    for dtype in ("f4", "f8", "i1", "i8", *(["f2"] if kind != "parquet" else [])):
        rows = values.astype(dtype)
        for form in ("list", "fixed", "large", "columns"):
            table = arrow.table(columns_of(arrow, form, rows))
            write_table(arrow, path, table, kind)
            read = open_vectors(path)
            assert read.dtype == (dtype if form != "columns" else "f4")
            np.testing.assert_array_equal(read, rows)
            if form != "columns":
                write_table(arrow, path, table.append_column("w", table["v"]), kind)
                np.testing.assert_array_equal(open_vectors(path, column="v"), rows)
                with pytest.raises(ValueError, match="column=NAME to .* v, text, w"):
                    open_vectors(path)


@each("kind", TABLES)
@each(
    "column, message",
    [
        ([[1.0, 2.0]] * 999 + [[3.0]], "v.parquet|v.feather|v.arrow"),
        ([[1.0, 2.0]] * 999 + [[3.0, 4.0, 5.0]], "v.parquet|v.feather|v.arrow"),
        ([[1.0, 2.0]] * 999 + [[3.0, None]], "v has missing values"),
        ([[1.0, 2.0]] * 999 + [None], "v has missing values"),
        ([None] + [[1.0, 2.0]] * 999, "v has missing values"),
        ([1.5] * 999 + [None], "no nulls"),
        ([["a"]] * 1000, "column=NAME to .* among v"),
        ([True] * 1000, "column=NAME to .* among v"),
        ([[]] * 1000, "v.parquet|v.feather|v.arrow"),
    ],
)
def test_tables_of_something_else(tmp_path, kind, column, message):
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / f"v.{kind.split()[0]}"
    write_table(arrow, path, arrow.table({"v": column}), kind)
    with pytest.raises(ValueError, match=message):
        open_vectors(path)


@each("kind", TABLES)
def test_batches_of_other_lengths(tmp_path, kind):
    """One number would be read as many equal ones."""
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / f"v.{kind.split()[0]}"
    lists = [[1.0, 2.0]] * 2 * 7000 + [[3.0]] * 50_000
    write_table(arrow, path, arrow.table({"v": lists}), kind)
    with pytest.raises(ValueError, match=f"{path} cannot be read as a table"):
        open_vectors(path)


def test_a_table_without_rows(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    for table in (
        {"v": arrow.array([], arrow.list_(arrow.float32()))},
        {"a": [1.5][:0]},
        {"a": arrow.array([], arrow.float32())},
    ):
        write_table(arrow, tmp_path / "v.parquet", arrow.table(table), "parquet")
        with pytest.raises(ValueError, match="v.parquet"):
            open_vectors(tmp_path / "v.parquet")


IDS = {
    "counts": (np.arange(7, 207), True),
    "shuffled": (np.random.default_rng(0).permutation(200) * 3 - 50, True),
    "beyond float32": (2**40 + np.arange(200) * 2, True),
    "one twice": (np.append(np.arange(199) * 2, 4), False),
    "no whole numbers": (np.arange(200) + 0.5, False),
    "labels": (np.arange(200) % 10, False),
    "missing": (np.append(np.arange(199.0) * 2, np.nan), False),
}


@each("suffix", [".csv", ".parquet"])
@each("case", IDS)
def test_columns_that_are_ids_are_named_and_left_out(tmp_path, suffix, case):
    column, is_id = IDS[case]
    if suffix == ".parquet" and (case == "missing" or not np.isfinite(column).all()):
        return
    path, rows = tmp_path / f"v{suffix}", np.random.default_rng(1).normal(size=(200, 3))
    whole = np.column_stack([rows[:, :2], column, rows[:, 2]])
    if suffix == ".csv":
        np.savetxt(path, whole, "%.17g", ",", header="a,b,key,c", comments="")
    else:
        arrow = pytest.importorskip("pyarrow")
        table = dict(zip(["a", "b", "key", "c"], whole.T, strict=True)) | {
            "key": column
        }
        write_table(arrow, path, arrow.table(table), "parquet")
    kept = open_vectors(path, keep_ids=True)
    np.testing.assert_array_equal(kept, whole.astype(np.float32))
    if not is_id:
        np.testing.assert_array_equal(open_vectors(path), kept)
        return
    with pytest.warns(UserWarning, match=f"v{suffix}: left out key, ") as told:
        read = open_vectors(path)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(read, np.delete(kept, 2, axis=1))


@pytest.mark.filterwarnings("error")
def test_numbers_that_may_be_values_are_kept(tmp_path):
    """Few of them differ by chance, and of ids alone there would be no vectors."""
    path = tmp_path / "v.csv"
    few = np.random.default_rng(0).permutation(40)[:, None]
    for rows in (
        np.hstack([few, few + 0.5]),
        np.arange(300)[:, None],
        [[1, 0.5], [2, 0]],
    ):
        np.savetxt(path, rows, "%g", ",")
        np.testing.assert_array_equal(open_vectors(path), rows)


@each("header", ["", "# a comment"])
def test_columns_without_names_are_counted(tmp_path, header):
    rows, options = np.column_stack([X / 7, np.arange(6)]), {"comments": ""}
    np.savetxt(tmp_path / "v.csv", rows, "%.9g", ",", header=header, **options)
    with pytest.warns(UserWarning, match="left out column 4, .*--keep-ids"):
        read = open_vectors(tmp_path / "v.csv")
    np.testing.assert_array_equal(read, X / 7)


def test_a_pickle_of_torch_is_refused_with_a_line_that_converts_it(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "v.pt"
    torch.save(torch.tensor(X).bfloat16(), path)
    with pytest.raises(ValueError, match="v.pt is a torch pickle") as refused:
        open_vectors(path)
    line = str(refused.value).partition("Convert it: ")[2]
    exec(line, {"np": np, "torch": torch})
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.npy"), X)


@each("suffix, extra", [(".h5", "hdf5"), (".parquet", "arrow"), (".feather", "arrow")])
def test_what_to_install_is_named(tmp_path, monkeypatch, suffix, extra):
    path = tmp_path / f"v{suffix}"
    path.write_bytes(b"PAR1")
    for module in ("h5py", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'"scikit-hash\[{extra}\]"'):
        open_vectors(path)


def test_names_that_are_not_there(tmp_path):
    np.savez(tmp_path / "v.npz", a=X, b=X[1:])
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.npz", name="b"), X[1:])
    with pytest.raises(ValueError, match=r"0 arrays named c among its arrays \(a, b\)"):
        open_vectors(tmp_path / "v.npz", name="c")
    np.save(tmp_path / "v.npy", X)
    for option in ("name", "column"):
        with pytest.raises(ValueError, match="v.npy has no named .* columns, .* c"):
            open_vectors(tmp_path / "v.npy", **{option: "c"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",x,y\n0,1,2\n", r"first column has no name.*index=False"),
        ("0,1,2\n5,6,7\n", r"counts from 0 to 2.*header=False"),
        ("a,b\n", "no row of numbers"),
        ("", "no row of numbers"),
        ("1,2\n3\n", "columns changed from 2 to 1"),
        ("1,2\n3,\n", "could not convert string ''"),
        ("a,b\n1,red\n", "could not convert string 'red'"),
        ("1;2\n3;4\n", "could not convert"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    match = f"bad.csv cannot be read as comma-separated numbers: .*{message}"
    with pytest.raises(ValueError, match=match):
        open_vectors(tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((2, 3), dtype=complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[None]]), "cannot be read"),
    ],
)
def test_npy_of_something_else(tmp_path, array, message):
    np.save(tmp_path / "bad.npy", array)
    for mmap in (True, False):
        with pytest.raises(ValueError, match=f"bad.npy.*{message}"):
            open_vectors(tmp_path / "bad.npy", mmap=mmap)


def test_npz_without_a_clear_matrix(tmp_path):
    np.savez(tmp_path / "bad.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"bad.npz holds 2 matrices.*\(a, b\).*X, vec"):
        open_vectors(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", a=X[0])
    with pytest.raises(ValueError, match="bad.npz holds 0 matrices"):
        open_vectors(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", X=X[0])
    with pytest.raises(ValueError, match=r"bad.npz holds an array of shape \(4,\)"):
        open_vectors(tmp_path / "bad.npz")


@pytest.mark.parametrize("name", ["v.txt", "v", "v.vecs"])
def test_unknown_suffix_lists_what_is_read(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} has the unknown.*\.npy.*\.hdf5"):
        open_vectors(tmp_path / name)


def test_a_pipe_is_not_waited_for(tmp_path):
    make_pipe(tmp_path / "v.csv")
    with pytest.raises(ValueError, match="v.csv is a pipe"):
        open_vectors(tmp_path / "v.csv")
