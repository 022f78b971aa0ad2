"""The command line, called here and once as a process."""

import builtins
import functools
import inspect
import io
import json
import os
import re
import shlex
import sys
import warnings
from html import unescape
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import sparse
from special_files import make_link

import skhash
from skhash import HashedNeighbors
from skhash.auditing import timing
from skhash.auditing.texts import command
from skhash.cli import _audit as audit_command
from skhash.cli import _checks
from skhash.cli import _encode as encode_command
from skhash.cli._main import main
from skhash.persistence.estimators import FILE
from skhash.utils.chunks import row_chunks

N, D = 150, 6
FAST = ["--bits", "8", "--methods", "lsh", "--rerank", "30", "--device", "cpu"]
FILES = ["audit.png", "encoder", "report.html", "report.json"]


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Work in a directory of the test, and take the time once."""
    monkeypatch.setattr(timing, "TIMED_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def X():
    """Vectors, which are saved as X.npy."""
    X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
    np.save("X.npy", X)
    return X


@pytest.fixture
def encoder(X):
    """Return a fitted encoder of 5 bits, saved in the directory "encoder"."""
    encoder = skhash.PCAHash(n_bits=5, random_state=0).fit(X)
    encoder.save("encoder")
    return encoder


@pytest.fixture
def small_chunks(monkeypatch):
    """Make `skhash encode` read some tens of rows at a time."""
    chunks = functools.partial(row_chunks, budget=2000)
    monkeypatch.setattr(encode_command, "row_chunks", chunks)
    assert len(list(chunks(N, 8 * D))) > 2


@pytest.fixture
def full_disk():
    """Return a function after which no file can grow, until it is called with False."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full_disk(full=True):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0 if full else soft, hard))

    yield full_disk
    full_disk(False)


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and gives status, output and errors."""

    def run(*words):
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def on_terminal(monkeypatch):
    """Return a function that makes a standard stream a terminal of some width."""

    def on_terminal(stream, width=100):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True)

    return on_terminal


@pytest.fixture
def no_import(monkeypatch):
    """Return a function that makes the import of a package fail."""

    def no_import(package):
        def fail(name, *arguments, **options):
            if name.split(".")[0] == package:
                raise ImportError(f"No module named {package!r}")
            return original(name, *arguments, **options)

        original = builtins.__import__
        monkeypatch.setattr(builtins, "__import__", fail)

    return no_import


def words_of(line):
    """Return the words of a printed command, as the system's shell splits it."""
    line = line.replace("\\", "\\\\") if sys.platform == "win32" else line
    return shlex.split(line)


def run_with_warning(run, words):
    with pytest.warns(UserWarning, match="left out column 0, .*--keep-ids"):
        return run(*words)[1]


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


class TestArguments:
    def test_defaults_are_those_of_the_function(self, monkeypatch):
        given = {}

        def audit(X, y, **options):
            given.update(options, shape=X.shape, labels=len(y))
            raise ValueError

        monkeypatch.setattr(audit_command, "audit", audit)
        assert main(["audit"]) == 2
        # Without vectors, digits are measured.
        assert (given.pop("shape"), given.pop("labels")) == ((1797, 64), 1797)
        defaults = inspect.signature(skhash.audit).parameters
        assert given.keys() == defaults.keys() - {"X", "y"}
        assert callable(given.pop("progress"))
        assert given.pop("sample") == 100_000  # the one that differs: for large files
        for name, value in given.items():
            default = defaults[name].default
            expected = list(default) if isinstance(default, tuple) else default
            assert value == expected, name


class TestAudit:
    WORDS = ["--bits", "4,8", "--methods", "pca,lsh,bytes,sign,int8", "--metric"]
    WORDS += ["cosine", "--n-neighbors", "3", "--rerank", "30", "--queries", "20"]
    WORDS += ["--seed", "5", "--sample", "120", "--target-recall", "0.5"]
    OPTIONS = {
        **{"n_bits": [4, 8], "methods": ["pca", "lsh", "bytes", "sign", "int8"]},
        **{"n_neighbors": 3, "rerank": 30, "metric": "cosine", "n_queries": 20},
        **{"random_state": 5, "sample": 120, "target_recall": 0.5},
    }

    @pytest.mark.parametrize(
        "name, method, metric",
        [
            ("X.npy", "bytes", "euclidean"),
            ("my \"own\" 'vectors'.NPY", "lsh", "inner_product"),
            ("it's.npy", "bytes", "cosine"),
            ("a\\n.csv", "lsh", "cosine"),
            ("X.npz", "lsh", "euclidean"),
            ("X.npz", "bytes", "inner_product"),
        ],
    )
    def test_use_is_a_line_that_runs(self, run, X, on_terminal, name, method, metric):
        on_terminal("stdout", 80)
        X += np.arange(D)
        if os.name == "nt":
            name = re.sub(r'["\\]', "", name)
        with open(name, "wb") as file:
            if name.endswith("csv"):
                np.savetxt(file, X, delimiter=",", fmt="%.9g")
            elif name.endswith("npz"):
                sparse.save_npz(file, sparse.csr_array(X))
            else:
                np.save(file, X)
        words = *FAST, "--methods", method, "--metric", metric
        output = run("audit", name, *words)[1]
        (line,) = [one for one in output.splitlines() if one.startswith("Use: ")]
        names = {}
        exec(line.removeprefix("Use: "), names)
        search = names["search"]
        distances, found = search.kneighbors(X[:9])
        if name.endswith("npz"):  # the candidates, by their codes
            assert search.metric == metric and found.shape == (9, 30)
            return
        queries, own = X[:9, None].astype(float), X[found].astype(float)
        expected = {
            "euclidean": np.linalg.norm(queries - own, axis=2),
            "inner_product": -(queries * own).sum(axis=2),
        }
        lengths = np.linalg.norm(queries, axis=2) * np.linalg.norm(own, axis=2)
        expected["cosine"] = 1 + expected["inner_product"] / lengths
        np.testing.assert_allclose(distances, expected[metric], atol=1e-3)
        assert (distances[:, 0] == distances.min(axis=1)).all() and search.rerank == 30

    def test_a_sparse_file(self, run):
        X = np.random.default_rng(0).random((N, 40))
        X[X < np.sort(X, axis=1)[:, [-8]]] = 0  # eight values are left in each row
        sparse.save_npz("X.npz", sparse.csr_array(X))
        settings = json.loads(run("audit", "X.npz", *FAST, "--json")[1])["settings"]
        assert settings["float_bytes_per_vector"] == 64 and settings["sparse"]

    def test_more_vectors(self, run, X):
        few = "--n-neighbors", "2", "--rerank", "2", "--n-vectors", "900", "--json"
        growth = json.loads(run("audit", "X.npy", *FAST, *few)[1])["growth"]
        assert growth["n_vectors"] == 900 and 0 < growth["expected"] < 1

    def test_json_and_quiet(self, run, X, on_terminal):
        on_terminal("stderr")
        words = "X.npy", *self.WORDS
        status, output, _ = run("audit", *words, "--json", "--out", "report")
        assert status == 0
        data = json.loads(output)
        assert data == json.loads(Path("report/report.json").read_text())
        result = skhash.audit(X, **self.OPTIONS)
        # pca makes no 8 bits of 6 numbers, bytes are one of each, sign has two rows.
        assert len(result.rows) == 7
        for row, one in zip(data["rows"], result.rows, strict=True):
            assert (row["recall"], row["search"]) == (one.recall, one.search)
        assert (data["settings"], data["skipped"]) == (result.settings, result.skipped)
        assert data["recommended"]["usage"] == result.usage
        full = run("audit", *words)[1]
        assert "all 7" in full and "all 7" not in run("audit", *words, "--all")[1]
        status, output, errors = run("audit", *words, "--quiet", "--out", "report")
        assert (status, errors) == (0, "")
        assert full.endswith(output) and "Use: " in output
        assert "method" not in output


class TestOut:
    def test_all_files(self, run, X):
        out = Path("a report", "of today")
        for bits in (4, 8):  # again into the same directory
            words = *FAST, "--bits", bits
            status, output, _ = run("audit", "X.npy", "--out", out, *words)
            assert status == 0 and names_in(out) == FILES
        assert (out / "audit.png").read_bytes().startswith(b"\x89PNG")
        report = json.loads((out / "report.json").read_text())
        assert report["settings"]["n_rows"] == N
        assert [row["n_bits"] for row in report["rows"]] == [8]
        (line,) = [
            line
            for line in output.splitlines()
            if line.startswith("For another engine: ")
        ]
        assert run(*words_of(line.removeprefix("For another engine: "))[1:])[0] == 0
        result = skhash.audit(X, n_bits=[8], methods=["lsh"], rerank=30, device="cpu")
        packed = result.encoder.transform_packed(X)
        np.testing.assert_array_equal(np.load("codes.npy"), packed)
        assert report["recommended"]["usage"] == result.usage

    def test_page_with_texts_or_pictures(self, run, X):
        lines = [f"<text {number}> caf\xe9" for number in range(N)]
        Path("texts").write_bytes("\r\n".join(lines).encode("latin-1"))
        words = ["X.npy", "--image-shape", "2x3", "--out", "report", *FAST]
        assert run("audit", *words)[0] == 0
        page = Path("report", "report.html")
        assert 'width="3" height="2"' in page.read_text("utf-8")
        assert run("audit", "--texts", "texts", *words)[0] == 0
        html = page.read_text("utf-8")
        shown = set(re.findall(r"&lt;text (\d+)&gt; caf\ufffd<", html))
        named = set(re.findall(r"Query: row (\d+)<", html))
        assert len(named) == 6 and named < shown
        assert "<img" not in html  # texts say more
        assert "skhash encode report/encoder X.npy codes.npy --packed" in html

    @pytest.mark.parametrize("options", [["--name", "it's"], ["--keep-ids"], []])
    def test_printed_lines_read_what_was_measured(self, run, X, options):
        """Whichever array or columns of the file that was."""
        if "--name" in options:
            name, expected = "X.npz", X
            np.savez(name, **{"X": -X[:, 1:], options[1]: X})
        else:
            name, expected = "X.csv", np.hstack([np.arange(N)[:, None], X])
            np.savetxt(name, expected, "%.9g", ",")
            expected = expected if options else X
        read = ("audit", name, "--out", "report", *options, *FAST)
        output = run(*read)[1] if options else run_with_warning(run, read)
        lines = output.splitlines()
        (use,) = [one for one in lines if one.startswith("Use: ")]
        (encode,) = [one for one in lines if one.startswith("For another engine: ")]
        words = words_of(encode.removeprefix("For another engine: "))
        html = unescape(Path("report", "report.html").read_text())
        assert use.partition("open_vectors(")[2].partition(")")[0] in html
        assert command(words) in html
        names = {}
        with warnings.catch_warnings(action="ignore"):
            (again,) = [one for one in lines if one.startswith("Without another fit: ")]
            exec(again.removeprefix("Without another fit: "), names)
            kept = names["search"]
            exec(use.removeprefix("Use: "), names)
            encoder = skhash.load("report/encoder")
            np.testing.assert_array_equal(
                kept.index_.packed_codes_, encoder.transform_packed(expected)
            )
            assert run(*words[1:])[0] == 0
        assert names["search"].n_features_in_ == expected.shape[1]
        encoder = skhash.load("report/encoder")
        codes = encoder.transform_packed(expected.astype(np.float32))
        np.testing.assert_array_equal(np.load("codes.npy"), codes)

    def test_without_matplotlib_there_is_no_picture(self, run, X, no_import):
        no_import("matplotlib")
        status, output, _ = run("audit", "X.npy", "--out", "report", *FAST)
        assert status == 0 and "scikit-hash[audit]" in output
        assert names_in("report") == FILES[1:]

    def test_a_full_disk_leaves_no_half_report(self, X, monkeypatch, capsys, full_disk):
        monkeypatch.setattr(audit_command, "_print", lambda *arguments: full_disk())
        status = main(["audit", "X.npy", "--out", "report", *FAST])
        full_disk(False)
        assert status == 2 and "report/report.json" in capsys.readouterr().err
        assert not names_in("report")

    @pytest.mark.parametrize(
        "words, message",
        [
            (["--texts", "t.txt"], "--out"),
            (["--image-shape", "2x3"], "--out"),
            (["--texts", "t.txt", "--out", "r"], "t.txt .*3 .*150"),
            (["--texts", "absent.txt", "--out", "r"], "absent.txt"),
            (["--image-shape", "2x4", "--out", "r"], "2, 4"),
            (["--image-shape", "1x2x4", "--out", "r"], "1, 2, 4"),
            (["--out", ""], "--out ''"),
            (["--out", "X.npy"], "X.npy"),
            (["--out", "X.npy/report"], "X.npy"),
            (["--out", "dangling"], "dangling"),
            (["--out", "taken"], "encoder"),
            (["--out", "guarded/report"], "guarded .*Permission denied"),
        ],
    )
    def test_what_cannot_be_written_is_refused_before_the_audit(
        self, run, X, monkeypatch, words, message
    ):
        def temporary_file(dir):
            if dir.name == "guarded":  # the superuser may write to any
                raise PermissionError(13, "Permission denied")
            return open(os.devnull)

        monkeypatch.setattr(_checks.tempfile, "TemporaryFile", temporary_file)
        monkeypatch.setattr(audit_command, "audit", None)
        Path("t.txt").write_text("one\ntwo\nthree")
        for folder in ("taken/encoder/other", "guarded"):
            Path(folder).mkdir(parents=True)
        make_link(Path("dangling"), "absent")
        before = sorted(Path().rglob("*"))
        status, output, errors = run("audit", "X.npy", *words)
        assert (status, output) == (2, "")
        assert re.search(message, errors)
        assert sorted(Path().rglob("*")) == before

    def test_a_drive_that_does_not_exist_is_named(self, run, X, monkeypatch):
        """Elsewhere than on Windows, there is always a root."""
        monkeypatch.setattr(os.path, "lexists", lambda path: False)
        status, output, errors = run("audit", "X.npy", "--out", "report", *FAST)
        assert (status, output) == (2, "")
        assert "report is on a drive that does not exist" in errors

    def test_a_path_that_the_terminal_cannot_show(self, X, monkeypatch):
        output = io.TextIOWrapper(io.BytesIO(), "ascii")
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["audit", "X.npy", "--out", "отчёт", *FAST]) == 0
        assert f"Wrote {'?' * 5}: " in output.buffer.getvalue().decode()
        assert names_in("отчёт") == FILES


def test_commands_are_quoted_as_the_system_has_it(monkeypatch):
    words = ["skhash", "encode", "C:\\my data\\a.npy", "R&D.npy", "--packed"]
    assert shlex.split(command(words)) == words
    monkeypatch.setattr(sys, "platform", "win32")
    expected = 'skhash encode "C:\\my data\\a.npy" "R&D.npy" --packed'
    assert command(words) == expected


class TestEncode:
    WORDS = "encode", "encoder", "X.npy", "codes.npy"

    @pytest.mark.parametrize("packed", [False, True])
    def test_chunks(self, run, X, encoder, small_chunks, packed):
        words = [*self.WORDS, *["--packed"] * packed]
        status, output, errors = run(*words)
        assert (status, errors) == (0, "")
        expected = (encoder.transform_packed if packed else encoder.transform)(X)
        np.testing.assert_array_equal(np.load("codes.npy"), expected, strict=True)
        assert output.startswith("Wrote codes.npy: 150 codes of 5 bits")
        assert names_in(".") == ["X.npy", "codes.npy", "encoder"]
        status, output, errors = run(*words, "--json")
        written = json.loads(output)
        assert written.pop("seconds") > 0
        assert written == {
            **{"codes": "codes.npy", "n_rows": N, "n_bits": 5, "packed": packed},
            "n_columns": expected.shape[1],
        }

    @pytest.mark.parametrize("is_scaled", [False, True])
    def test_bytes_are_those_of_a_search(self, run, X, small_chunks, is_scaled):
        """The line that is printed finds what a search of the vectors finds."""
        if is_scaled:
            X = X * np.random.default_rng(0).uniform(0.1, 9, (len(X), 1))
            np.save("X.npy", X)
        metric = "cosine" if is_scaled else "euclidean"
        search = HashedNeighbors(2, metric=metric, n_neighbors=9).fit(X)
        search.encoder_.save("encoder")
        status, output, errors = run(*self.WORDS)
        assert (status, errors) == (0, "")
        assert ("scaled to unit length" in output) == is_scaled
        np.testing.assert_array_equal(np.load("codes.npy"), search.index_.packed_codes_)
        names = {}
        exec(output.splitlines()[-1], names)
        found = names["index"].kneighbors(X, 9, return_distance=False)
        expected = search.kneighbors(X, return_distance=False)
        # Without the errors of codes, Euclidean distances may differ a little.
        assert (found == expected).mean() > (0.7 if metric == "euclidean" else 0.999)

    def test_other_formats(self, run, X, encoder, small_chunks):
        widths = np.full((N, 1), D, dtype="<i4")
        np.hstack([widths.view("<f4"), X]).astype("<f4").tofile("X.fvecs")
        np.savetxt("X.csv", X, delimiter=",", fmt="%.9g")
        np.save("half.npy", X.astype(np.float16))
        np.save("whole.npy", np.round(10 * X).astype(np.int16))
        sparse.save_npz("X.npz", sparse.csr_array(X))
        others = {"half.npy": X.astype(np.float16), "whole.npy": np.round(10 * X)}
        for name in ("X.fvecs", "X.csv", "half.npy", "whole.npy", "X.npz"):
            assert run("encode", "encoder", name, "codes.npy", "--quiet") == (0, "", "")
            expected = encoder.transform(others.get(name, X))
            np.testing.assert_array_equal(np.load("codes.npy"), expected)

    @pytest.mark.parametrize("existing", [False, True])
    @pytest.mark.parametrize(
        "failure, status, message",
        [
            ("nan", 2, "Row 140 (from 0) holds NaN or infinity."),
            (OSError("full"), 2, "full"),
            (KeyboardInterrupt, 130, "interrupted"),
            ("full disk", 2, "codes.npy: File too large"),
        ],
        ids=str,
    )
    def test_a_failure_midway_leaves_the_target_as_it_was(
        self, X, encoder, small_chunks, monkeypatch, capsys, full_disk,
        existing, failure, status, message,
    ):  # fmt: skip
        transform, calls = skhash.PCAHash.transform, []

        def fail_later(self, rows):
            calls.append(len(rows))
            if len(calls) == 2 and failure == "full disk":
                full_disk()
            elif len(calls) == 2:
                raise failure
            return transform(self, rows)

        if failure == "nan":
            X[140, 2] = np.nan
            np.save("X.npy", X)
        else:
            monkeypatch.setattr(skhash.PCAHash, "transform", fail_later)
        if existing:
            Path("codes.npy").write_bytes(b"what was here")
        before = names_in(".")
        found = main([*self.WORDS])
        full_disk(False)
        assert found == status
        assert capsys.readouterr() == ("", f"skhash: {message}\n")
        assert names_in(".") == before
        assert not existing or Path("codes.npy").read_bytes() == b"what was here"

    @pytest.mark.parametrize(
        "words, message",
        [
            (("encoder", "X.npy", "codes.bin"), "must end in .npy"),
            (("encoder", "X.npy", "nowhere/codes.npy"), "does not exist; create"),
            (("encoder", "X.npy", "folder.npy"), "is a directory"),
            (("encoder", "X.npy", "X.npy"), "holds the vectors"),
            (("encoder", "wide.npy", "c.npy"), "12 numbers, .* encodes vectors of 6"),
            (("index", "X.npy", "c.npy"), "a HammingNeighbors, which does not"),
            (("absent", "X.npy", "c.npy"), "is not a saved skhash estimator"),
            (("encoder", "X.npy", "c.npy", "--name", ""), "has no named arrays"),
        ],
    )
    def test_what_is_refused(self, run, X, encoder, words, message):
        Path("folder.npy").mkdir()
        np.save("wide.npy", np.hstack([X, X]))
        skhash.HammingNeighbors().fit(encoder.transform(X)).save("index")
        status, _, errors = run("encode", *words)
        assert status == 2 and re.search(message, errors)
        np.testing.assert_array_equal(np.load("X.npy"), X)


class TestErrors:
    @pytest.mark.parametrize(
        "words, message",
        [
            (["missing.npy"], "missing.npy"),
            (["X.txt"], "'.txt'"),
            (["text.npy"], "text.npy"),
            (["nan.npy"], "Row 3"),
            (["X.npy", "--labels", "short.npy"], "shape (9,) for 150 vectors"),
            (["X.npy", "--labels", "number.npy"], "shape () for 150 vectors"),
            (["X.npy", "--labels", "halves.npy"], "must be classes"),
            (["X.npy", "--labels", "missing.npy"], "missing.npy"),
            (["X.npy", "--labels", "text.npy"], "text.npy"),
            (["--labels", "short.npy"], "--labels"),
            (["X.npy", "--methods", "lsh,foo"], "'foo'"),
            (["X.npy", "--bits", "99999999999"], "99999999999"),
            (["X.npy", "--rerank", "140"], "fewer than the 140"),
            (["X.npy", "--device", "nowhere"], "'nowhere' is not a device"),
            (["X.npy", "--methods", "pca", "--bits", "7"], "pca at 7 bits"),
        ],
    )
    def test_one_line_and_status_2(self, run, X, words, message):
        np.save("short.npy", np.arange(9))
        np.save("number.npy", 9)
        np.save("halves.npy", np.arange(N) / 2)
        X[3, 1] = np.nan
        np.save("nan.npy", X)
        for name in ("X.txt", "text.npy"):
            Path(name).write_text("not an array")
        status, output, errors = run("audit", *words)
        assert (status, output) == (2, "")
        (line,) = [line for line in errors.splitlines() if line.startswith("skhash: ")]
        assert message in line
        assert errors.endswith(f"{line}\n")

    @pytest.mark.parametrize(
        "error, status, line",
        [
            (ValueError("one\r\n\u2028two"), 2, "one two"),
            (ValueError("begun " + 10**6 * "x"), 2, "begun ..."),
            (ValueError("a\x1b[31mb"), 2, "a?[31mb"),
            (MemoryError("1 TiB"), 2, "out of memory; .* or bits: 1 TiB"),
            (RuntimeError("CUDA out of memory"), 2, "out of memory; .*: CUDA .*"),
            (OSError(28, "No space left"), 2, "No space left"),
            (KeyboardInterrupt(), 130, "interrupted"),
        ],
    )
    def test_any_message_becomes_one_line(
        self, run, X, monkeypatch, error, status, line
    ):
        monkeypatch.setattr(audit_command, "audit", Mock(side_effect=error))
        found = run("audit", "X.npy")
        assert found[:2] == (status, "")
        line = re.escape(line) if ".*" not in line else line
        assert re.fullmatch(f"skhash: {line}\n", found[2])

    @pytest.mark.parametrize("mistake", [AssertionError, RuntimeError("a mistake")])
    def test_a_mistake_in_the_program_is_not_hidden(self, X, monkeypatch, mistake):
        monkeypatch.setattr(audit_command, "audit", Mock(side_effect=mistake))
        with pytest.raises((AssertionError, RuntimeError)):
            main(["audit", "X.npy"])

    @pytest.mark.parametrize("device", ["nowhere", "meta"])
    @pytest.mark.parametrize(
        "words", [["audit", "absent.npy"], ["encode", "absent", "absent.npy", "c.npy"]]
    )
    def test_the_device_is_tried_before_anything_is_read(self, run, words, device):
        status, output, errors = run(*words, "--device", device)
        assert (status, output) == (2, "")
        assert device in errors and "absent" not in errors


@pytest.fixture(params=["buffered", "unbuffered"])
def closed_stream(request):
    """Return a stream into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    at_once = request.param == "unbuffered"
    file = os.fdopen(writing, "wb", buffering=0 if at_once else -1)
    stream = io.TextIOWrapper(file, write_through=at_once)
    yield stream
    stream.close()  # fails where the test has left something to write


class TestStreams:
    def test_nobody_reads_the_output(self, X, monkeypatch, capsys, closed_stream):
        monkeypatch.setattr(sys, "stdout", closed_stream)
        assert main(["audit", "X.npy", "--out", "report", *FAST]) == 2
        errors = capsys.readouterr().err
        assert errors.endswith("skhash: standard output: Broken pipe\n")
        assert Path("report", "report.json").exists()

    def test_the_output_is_closed(self, run, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)
        assert run("audit") == (2, "", "skhash: standard output is closed\n")

    def test_nobody_reads_the_errors(self, X, monkeypatch, closed_stream):
        monkeypatch.setattr(sys, "stderr", closed_stream)
        assert main(["audit", "absent.npy"]) == 2
        monkeypatch.setattr(sys, "stderr", None)
        assert main(["audit", "X.npy", *FAST]) == 0

    @pytest.mark.parametrize("command", ["audit", "encode"])
    def test_steps_on_a_terminal(
        self, run, encoder, small_chunks, on_terminal, no_import, command
    ):
        words = ["audit", "X.npy", *FAST] if command == "audit" else TestEncode.WORDS
        last = "lsh at 8 bits" if command == "audit" else "150 of 150"
        piped = run(*words)[2].splitlines()
        if command == "audit":
            assert piped[0] == "reading the rows" and last in piped[-1]
        else:
            assert not piped
        assert run(*words, "--quiet")[2] == ""
        on_terminal("stderr")
        assert run(*words, "--quiet")[2] == ""
        errors = run(*words)[2]
        assert last in errors  # by rich
        assert errors.startswith("Auditing X.npy: ") == (command == "audit")
        no_import("rich")
        errors = run(*words)[2].splitlines()
        assert len(errors) > 2 and last in errors[-1]


class TestCheck:
    def test_whole_and_damaged_files(self, run, encoder):
        """Below the directory, too; status and message say what is wrong."""
        encoder.save("report/again")
        for folder, paths in {
            "encoder": ["encoder"],
            "report": ["report/again"],
            ".": ["encoder", "report/again"],
        }.items():
            lines = [f"{path}: {type(encoder).__name__}, intact" for path in paths]
            assert run("check", folder) == (0, "\n".join([*lines, ""]), "")
        assert run("check", ".", "--quiet") == (0, "", "")
        file = Path("report/again", FILE)
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        status, _, errors = run("check", ".")
        assert status == 2
        assert "report/again is damaged" in errors and "checksum" in errors

    def test_nothing_there(self, run):
        for folder in (".", "absent"):
            status, _, errors = run("check", folder)
            assert status == 2
            assert f"{folder} is not a saved skhash estimator" in errors
