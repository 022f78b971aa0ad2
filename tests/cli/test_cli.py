"""The command line: called here, twice as a process, and on a fake terminal."""

import builtins
import functools
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from screens import Screen

import skhash
from skhash._audit import _measure
from skhash._audit._words import stored
from skhash.cli import _audit as audit_command
from skhash.cli import _encode as encode_command
from skhash.cli import _files, _main, _terminal, main
from skhash.persistence.estimators import FILE
from skhash.utils.chunks import row_chunks
from skhash.utils.progress import short

N, D = 150, 6
FAST = ["--bits", "8", "--methods", "lsh", "--rescore", "30", "--device", "cpu"]
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def timed_once(monkeypatch):
    """Results do not depend on how often the audit takes the time."""
    monkeypatch.setattr(_measure, "TIMED_SECONDS", 0.0)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.fixture
def vectors(X, tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, X)
    return str(path)


@pytest.fixture
def encoder(X, tmp_path):
    """Return a fitted encoder of 5 bits, saved in the directory "encoder"."""
    encoder = skhash.PCAHash(n_bits=5, random_state=0).fit(X)
    encoder.save(tmp_path / "encoder")
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
    """Return a function that makes standard streams terminals of some width."""

    def on_terminal(width=100, stream="stdout"):
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
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


def table(output):
    """Return the header and the rows of the printed table, as words."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("method"))
    rows = []
    for line in lines[start:]:
        if not line.strip():
            break
        rows.append(re.split(r"\s{2,}", line.strip()))
    return rows[0], rows[1:]


class TestProcess:
    """What only a process of its own shows; all the rest is called here."""

    def start(self, *words):
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(skhash.__file__).parents[1]),
        }
        return subprocess.run(
            [sys.executable, "-m", "skhash", *words],
            capture_output=True,
            text=True,
            env=environment,
        )

    def test_version(self):
        done = self.start("--version")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.strip() == skhash.__version__

    def test_piped_output_is_plain(self):
        done = self.start("audit", "--bits", "16", "--methods", "lsh")
        assert done.returncode == 0
        for text in (done.stdout, done.stderr):
            assert "\x1b" not in text
            assert "\r" not in text
        assert done.stderr == ""
        header, rows = table(done.stdout)
        assert header[0] == "method"
        assert [row[:3] for row in rows] == [["lsh", "16", "2+4"]]
        assert len(rows[0]) == len(header) == 16


class TestHelp:
    @pytest.mark.parametrize(
        "words, expected",
        [
            ([], ["audit", "encode", "examples:", "--version"]),
            (
                ["audit"],
                "VECTORS --labels --bits --methods --metric --k --rescore --sample "
                "--queries --target-recall --device --seed --out".split(),
            ),
            (["encode"], ["ENCODER", "VECTORS", "CODES.npy", "--packed", "--device"]),
        ],
    )
    def test_help(self, words, expected, capsys):
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0
        output = capsys.readouterr().out
        for text in expected:
            assert text in output
        assert "None" not in output

    def test_defaults_are_those_of_the_function(self, monkeypatch):
        import inspect

        given = {}
        monkeypatch.setattr(audit_command, "print_audit", lambda *arguments: None)
        monkeypatch.setattr(audit_command, "audit", lambda X, y, **k: given.update(k))
        main(["audit"])
        defaults = inspect.signature(skhash.audit).parameters
        assert callable(given.pop("progress")) and callable(given.pop("on_row"))
        assert given.pop("sample") == 100_000  # the one that differs: for large files
        for name, value in given.items():
            default = defaults[name].default
            expected = list(default) if isinstance(default, tuple) else default
            assert value == expected, name

    @pytest.mark.parametrize(
        "words, message",
        [
            ([], "COMMAND"),
            (["audit", "--bits", "16,x"], "--bits: '16,x' is not a list of whole"),
            (["audit", "--k", "many"], "--k: invalid int value"),
            (["audit", "--image-shape", "28"], "'28' is not the height and width of"),
            (["audit", "--metric", "hamming"], "--metric: invalid choice"),
            (["encode", "encoder"], "VECTORS, CODES.npy"),
            (["audit", "a.npy", "b.npy"], "unrecognized arguments: b.npy"),
        ],
    )
    def test_argparse_refuses(self, words, message, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err


class TestAudit:
    def test_without_arguments_digits_are_measured(self, run, monkeypatch):
        called = []

        def audit(X, y, **options):
            called.append((X.shape, X.dtype, len(y), options["n_bits"]))
            options.update(n_bits=[8], methods=["lsh"])
            return skhash.audit(X, y, **options)

        monkeypatch.setattr(audit_command, "audit", audit)
        status, output, _ = run("audit")
        assert status == 0
        assert called == [((1797, 64), np.float32, 1797, [16, 32, 64, 128])]
        assert output.startswith("scikit-learn's digits: 1,797 vectors of 64 numbers")
        assert "mAP" in table(output)[0]

    def test_the_table_holds_what_the_function_measures(self, run, X, vectors):
        words = ["--bits", "4,8", "--methods", "pca,lsh,int8", "--k", "3"]
        words += ["--metric", "cosine", "--queries", "20", "--seed", "5"]
        words += ["--sample", "120", "--target-recall", "0.5", "--device", "cpu"]
        status, output, _ = run("audit", vectors, "--rescore", "30", *words)
        assert status == 0
        result = skhash.audit(
            X, n_bits=[4, 8], methods=["pca", "lsh", "int8"], k=3, rescore=30,
            metric="cosine", n_queries=20, random_state=5, sample=120,
            target_recall=0.5, device="cpu",
        )  # fmt: skip
        header, rows = table(output)
        assert header == (
            ["method", "bits", "bytes", "codebook", "fit s", "encode/s", "refine/s"]
            + ["H/s", "Q/s", "H 3@3", "H 3@30", "Q 3@3", "Q 3@30", "balance", "corr"]
        )
        got = [dict(zip(header, row, strict=True)) for row in rows]
        assert len(got) == len(result.rows) == 4  # pca makes no 8 bits of 6 numbers
        columns = {
            "H 3@3": ("recall", 6e-4),
            "H 3@30": ("recall_rescored", 6e-4),
            "Q 3@3": ("recall_asymmetric", 6e-4),
            "Q 3@30": ("recall_asymmetric_rescored", 6e-4),
            "balance": ("bit_balance", 6e-3),
            "corr": ("bit_correlation", 6e-3),
        }
        for cells, row in zip(got, result.rows, strict=True):
            assert cells["method"] == row.method
            assert int(cells["bits"]) == row.n_bits
            assert sum(map(int, cells["bytes"].split("+"))) == row.bytes_per_vector
            assert int(cells["bytes"].split("+")[0]) == row.code_bytes
            for column, (name, rounding) in columns.items():
                value = getattr(row, name)
                if value is None:
                    assert cells[column] == "-"
                else:
                    assert float(cells[column]) == pytest.approx(value, abs=rounding)
        assert f"Recommended: {result.choice}: {result.reason}." in output
        assert "+- is two standard errors over the 20 queries." in output
        assert f"Use: {result.usage}\n" in output
        for line in result.alternatives:
            assert line in output
        assert f"Left out: {result.skipped[0]}." in output
        assert "vectors.npy: 150 vectors of 6 numbers\n" in output
        assert "with 20 vectors as queries among 100 others, of 24 bytes" in output
        assert "metric: cosine." in output
        assert "Expect less among all 150 vectors" in output

    def test_what_has_to_be_stored(self, run, vectors):
        words = [*FAST, "--bits", "512", "--target-recall", "0.01"]
        output = run("audit", vectors, *words)[1]
        assert "Store: 64 bytes of code a vector; the vectors, 24 bytes each" in output
        storage = {"code": 8, "floats": 4, "decoder": 3_147_264, "vector": 0}
        assert stored(SimpleNamespace(storage=storage)) == (
            "8 bytes of code a vector; 4 bytes of floats a vector; the decoder once, "
            "3,147,264 bytes"
        )

    def test_rows_are_printed_as_they_are_measured(self, vectors, monkeypatch, capsys):
        seen = []

        def audit(*arguments, on_row, **options):
            def look(row):
                on_row(row)
                seen.append(capsys.readouterr().out)

            return skhash.audit(*arguments, on_row=look, **options)

        monkeypatch.setattr(audit_command, "audit", audit)
        assert main(["audit", vectors, *FAST, "--bits", "4,8"]) == 0
        first, second = seen
        assert first.startswith("vectors.npy: 150 vectors of 6 numbers\n\nmethod")
        assert first.splitlines()[-1].split()[:2] == ["lsh", "4"]
        assert [line.split()[:2] for line in second.splitlines()] == [["lsh", "8"]]

    def test_all_rows_measured(self, run, vectors):
        output = run("audit", vectors, *FAST)[1]
        assert "Expect less" not in output
        assert "Recall falls as a database grows" in output

    def test_rescoring_no_more_than_k_has_one_column(self, run, vectors):
        output = run("audit", vectors, *FAST[:-4], "--k", "9", "--rescore", "9")[1]
        header, _ = table(output)
        assert [name for name in header if "9@9" in name] == ["H 9@9", "Q 9@9"]
        assert "re-scor" not in output
        assert "the vectors" not in output

    def test_labels_add_a_column(self, run, vectors, tmp_path):
        np.save(tmp_path / "y.npy", np.arange(N) % 3)
        output = run("audit", vectors, "--labels", tmp_path / "y.npy", *FAST)[1]
        header, rows = table(output)
        cells = dict(zip(header, rows[0], strict=True))
        assert 0 < float(cells["mAP"]) < 1
        assert "mAP" not in table(run("audit", vectors, *FAST)[1])[0]

    def test_labels_that_no_rows_share(self, run, vectors, tmp_path):
        np.save(tmp_path / "y.npy", np.arange(N))
        status, output, _ = run("audit", vectors, "--labels", tmp_path / "y.npy", *FAST)
        header, rows = table(output)
        cells = dict(zip(header, rows[0], strict=True))
        assert (status, cells["mAP"]) == (0, "-")
        assert "Left out: mAP: no query has a label" in output

    def test_sparse_vectors(self, run, tmp_path):
        X = np.random.default_rng(0).random((N, 40))
        X[X < np.sort(X, axis=1)[:, [-8]]] = 0  # eight values are left in each row
        sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X))
        status, output, _ = run("audit", tmp_path / "X.npz", *FAST)
        assert status == 0
        assert "of 64 bytes each as sparse float32" in output

    @pytest.mark.parametrize(
        "number, text",
        [
            (0.5, "0.5"),
            (12.34, "12.3"),
            (999.4, "999"),
            (999.6, "1k"),
            (98_640.0, "98.6k"),
            (4_100_000.0, "4.1M"),
            (2.5e9, "2.5G"),
            (3e13, "3e+04G"),
        ],
    )
    def test_speeds_are_short(self, number, text):
        assert short(number) == text


class TestForPrograms:
    def test_an_audit_as_json_is_the_result(self, run, X, vectors, tmp_path):
        words = ["--bits", "4,8", "--json", "--out", tmp_path / "report"]
        status, output, errors = run("audit", vectors, *FAST, *words)
        assert (status, errors) == (0, "")
        data = json.loads(output)
        assert data == json.loads((tmp_path / "report" / "report.json").read_text())
        result = skhash.audit(
            X, n_bits=[4, 8], methods=["lsh"], rescore=30, device="cpu"
        )
        for row, measured in zip(data["rows"], result.rows, strict=True):
            assert row["recall"] == measured.recall
        assert data["recommended"]["usage"] == result.usage

    def test_a_quiet_audit_is_the_recommendation(
        self, run, vectors, tmp_path, on_terminal
    ):
        on_terminal(stream="stderr")
        full = run("audit", vectors, *FAST)[1]
        words = [*FAST, "--quiet", "--out", tmp_path / "report"]
        status, output, errors = run("audit", vectors, *words)
        assert (status, errors) == (0, "")
        assert output.startswith("Recommended: lsh at 8 bits")
        assert full.endswith(output)
        assert (tmp_path / "report" / "report.html").exists()

    def test_encoding_as_json(self, run, vectors, encoder, tmp_path):
        codes = tmp_path / "codes.npy"
        words = ["encode", tmp_path / "encoder", vectors, codes, "--packed", "--json"]
        status, output, errors = run(*words)
        assert (status, errors) == (0, "")
        written = json.loads(output)
        assert written.pop("seconds") > 0
        assert written == {
            "codes": str(codes),
            "n_rows": N,
            "n_bits": 5,
            "n_columns": np.load(codes).shape[1],
            "packed": True,
        }


class TestOut:
    def test_report_picture_and_encoder(self, run, X, vectors, tmp_path):
        out = tmp_path / "a report" / "of today"
        status, output, _ = run("audit", vectors, "--out", out, *FAST)
        assert status == 0
        report = json.loads((out / "report.json").read_text())
        assert report["settings"]["n_rows"] == N
        assert [row["n_bits"] for row in report["rows"]] == [8]
        picture = (out / "audit.png").read_bytes()
        assert picture.startswith(PNG_MAGIC)
        assert len(picture) > 1000
        codes = tmp_path / "codes.npy"
        assert run("encode", out / "encoder", vectors, codes)[0] == 0
        loaded = skhash.load(out / "encoder")
        np.testing.assert_array_equal(np.load(codes), loaded.transform(X))
        result = skhash.audit(
            X, n_bits=[8], methods=["lsh"], rescore=30, device="cpu", sample=100_000
        )
        np.testing.assert_array_equal(np.load(codes), result.encoder.transform(X))
        decoder = skhash.load(out / "decoder")
        np.testing.assert_array_equal(decoder.codebook_, result.decoder.codebook_)
        assert report["recommended"]["usage"] == result.usage

    def test_page(self, run, vectors, tmp_path):
        texts, out = tmp_path / "texts.txt", tmp_path / "report"
        lines = [f"<text {number}> caf\xe9" for number in range(N)]
        texts.write_bytes("\r\n".join(lines).encode("latin-1"))
        words = ["--texts", texts, "--image-shape", "2x3", "--target-recall", "0.01"]
        status, output, _ = run("audit", vectors, *words, "--out", out, *FAST)
        assert status == 0
        assert f"Wrote {out}: report.html, report.json, encoder/, decoder/" in output
        page = (out / "report.html").read_text("utf-8")
        assert "<title>Audit of vectors.npy</title>" in page
        shown = {
            int(number) for number in re.findall(r"&lt;text (\d+)&gt; caf\ufffd<", page)
        }
        named = {int(number) for number in re.findall(r"Query: row (\d+)<", page)}
        assert len(named) == 6 and named < shown
        assert f"skhash encode {out}/encoder {vectors} codes.npy --packed" in page
        assert page.count("<img") == 0  # texts say more

    def test_page_with_pictures(self, run, vectors, tmp_path):
        words = ["--image-shape", "2x3", "--out", tmp_path / "report"]
        assert run("audit", vectors, *words, *FAST)[0] == 0
        page = (tmp_path / "report" / "report.html").read_text("utf-8")
        assert 'width="3" height="2"' in page

    @pytest.mark.parametrize(
        "words, message",
        [
            (["--texts", "t.txt"], "--texts is for the page that --out writes; add"),
            (["--image-shape", "2x3"], "--image-shape is for the page that --out"),
            (["--texts", "t.txt", "--out", "r"], "t.txt has 3 lines for 150 vectors"),
            (["--texts", "absent.txt", "--out", "r"], "absent.txt: No such file"),
            (["--image-shape", "2x4", "--out", "r"], "2x4 has 8 numbers, and the vec"),
            (["--image-shape", "1x2x4", "--out", "r"], "is no height and width"),
        ],
    )
    def test_what_the_page_shows_is_tried_before_the_audit(
        self, run, vectors, tmp_path, monkeypatch, words, message
    ):
        monkeypatch.setattr(audit_command, "audit", None)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "t.txt").write_text("one\ntwo\nthree")
        status, _, errors = run("audit", vectors, *words)
        assert status == 2
        assert message in errors

    def test_the_next_command_is_one(self, run, vectors, tmp_path, monkeypatch):
        import shlex

        monkeypatch.chdir(tmp_path)
        output = run("audit", vectors, "--out", tmp_path / "with space", *FAST)[1]
        (line,) = [line for line in output.splitlines() if line.startswith("Next: ")]
        words = shlex.split(line.removeprefix("Next: "))
        assert words[0] == "skhash"
        assert run(*words[1:])[0] == 0
        assert np.load(tmp_path / "codes.npy").shape == (N, 1)

    def test_again_into_the_same_directory(self, run, vectors, tmp_path):
        out = tmp_path / "report"
        for bits in (8, 4):
            words = ["--bits", bits, "--methods", "lsh", "--rescore", "30"]
            assert run("audit", vectors, "--out", out, *words)[0] == 0
        assert skhash.load(out / "encoder").n_bits == 4

    def test_a_full_disk_leaves_no_half_report(
        self, vectors, tmp_path, monkeypatch, capsys, full_disk
    ):
        monkeypatch.setattr(
            audit_command, "print_audit", lambda *arguments: full_disk()
        )
        status = main(["audit", vectors, "--out", str(tmp_path / "report"), *FAST])
        full_disk(False)
        message = f"skhash: {tmp_path / 'report' / 'report.json'}: File too large\n"
        assert status == 2
        assert capsys.readouterr().err.endswith(message)
        assert not list((tmp_path / "report").iterdir())

    def test_digits_have_no_file_to_encode(self, run, tmp_path):
        output = run("audit", "--out", tmp_path / "report", *FAST)[1]
        assert "VECTORS.npy codes.npy --packed" in output

    def test_without_matplotlib_there_is_no_picture(
        self, run, vectors, tmp_path, no_import
    ):
        no_import("matplotlib")
        out = tmp_path / "report"
        status, output, _ = run("audit", vectors, "--out", out, *FAST)
        assert status == 0
        assert 'pip install "scikit-hash[audit]"' in output
        assert sorted(path.name for path in out.iterdir()) == [
            "decoder",
            "encoder",
            "report.html",
            "report.json",
        ]

    @pytest.mark.parametrize(
        "out, message",
        [
            ("vectors.npy", "vectors.npy is a file; name a directory"),
            ("vectors.npy/report", "vectors.npy is a file; name a directory"),
            ("dangling", "dangling is a file; name a directory"),
            ("taken", "encoder is a directory with other content"),
            ("taken too", "decoder is a directory with other content"),
            ("guarded/report", "guarded cannot be written to: Permission denied"),
        ],
    )
    def test_it_is_tried_before_the_audit(
        self, run, vectors, tmp_path, monkeypatch, out, message
    ):
        def temporary_file(dir):
            if dir.name == "guarded":  # the superuser may write to any
                raise PermissionError(13, "Permission denied")
            return open(os.devnull)

        monkeypatch.setattr(_files.tempfile, "TemporaryFile", temporary_file)
        monkeypatch.setattr(audit_command, "audit", None)
        (tmp_path / "taken" / "encoder" / "other").mkdir(parents=True)
        (tmp_path / "taken too" / "decoder" / "other").mkdir(parents=True)
        (tmp_path / "guarded").mkdir()
        (tmp_path / "dangling").symlink_to(tmp_path / "absent")
        before = sorted(tmp_path.rglob("*"))
        status, _, errors = run("audit", vectors, "--out", tmp_path / out)
        assert status == 2
        assert message in errors
        assert sorted(tmp_path.rglob("*")) == before


class TestEncode:
    @pytest.mark.parametrize("packed", [False, True])
    def test_chunks(self, run, X, vectors, encoder, tmp_path, small_chunks, packed):
        codes = tmp_path / "codes.npy"
        words = ["--packed"] if packed else []
        status, output, errors = run(
            "encode", tmp_path / "encoder", vectors, codes, *words
        )
        assert (status, errors) == (0, "")
        transform = encoder.transform_packed if packed else encoder.transform
        written = np.load(codes)
        assert written.dtype == np.uint8
        np.testing.assert_array_equal(written, transform(X))
        kind = "packed in 1 bytes" if packed else "a byte each"
        assert output == f"Wrote {codes}: 150 codes of 5 bits, {kind}\n"
        assert not list(tmp_path.glob("*.part"))

    def test_progress(
        self, run, X, vectors, encoder, tmp_path, small_chunks, on_terminal, no_import,
        monkeypatch,
    ):  # fmt: skip
        """Each chunk takes two seconds here."""
        on_terminal(stream="stderr")
        no_import("rich")
        clock = itertools.count(100, 2)
        monkeypatch.setattr(encode_command, "monotonic", lambda: next(clock))
        words = "encode", tmp_path / "encoder", vectors, tmp_path / "codes.npy"
        status, _, errors = run(*words)
        assert status == 0
        size = next(encode_command.row_chunks(N, X[0].nbytes + 5)).stop
        rate, left = size / 2, 2 * (N - size) / size
        line = f"encoding: {size} of 150, {rate:,.0f} rows/s, {left:.0f} s left"
        assert line in errors
        assert "encoding: 150 of 150" in errors
        assert run(*words, "--quiet") == (0, "", "")
        np.testing.assert_array_equal(
            np.load(tmp_path / "codes.npy"), encoder.transform(X)
        )

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_a_value_that_is_not_finite_is_found_in_its_row(
        self, run, X, encoder, tmp_path, small_chunks, dtype
    ):
        rows = X.astype(dtype)
        rows[77, 1] = -np.inf
        np.save(tmp_path / "rows.npy", rows)
        words = "encode", tmp_path / "encoder", tmp_path / "rows.npy"
        status, _, errors = run(*words, tmp_path / "codes.npy")
        assert status == 2
        assert errors == "skhash: Row 77 (from 0) holds NaN or infinity.\n"

    def test_other_formats(self, run, X, encoder, tmp_path, small_chunks):
        widths = np.full((N, 1), D, dtype="<i4")
        np.hstack([widths.view("<f4"), X]).astype("<f4").tofile(tmp_path / "X.fvecs")
        np.savetxt(tmp_path / "X.csv", X, delimiter=",", fmt="%.9g")
        np.save(tmp_path / "half.npy", X.astype(np.float16))
        np.save(tmp_path / "whole.npy", np.round(10 * X).astype(np.int16))
        sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X))
        others = {
            "half.npy": X.astype(np.float16),
            "whole.npy": np.round(10 * X),
        }
        for name in ("X.fvecs", "X.csv", "half.npy", "whole.npy", "X.npz"):
            codes = tmp_path / f"{name}.codes.npy"
            status, _, errors = run(
                "encode", tmp_path / "encoder", tmp_path / name, codes
            )
            assert (status, errors) == (0, "")
            expected = encoder.transform(others.get(name, X))
            np.testing.assert_array_equal(np.load(codes), expected)

    def test_device(self, run, vectors, encoder, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(
            encode_command,
            "encode_file",
            lambda encoder, *_: seen.append(encoder.device) or (5, 1),
        )
        words = ["encode", tmp_path / "encoder", vectors, tmp_path / "codes.npy"]
        run(*words)
        run(*words, "--device", "cpu")
        assert seen == ["auto", "cpu"]

    @pytest.mark.parametrize("existing", [False, True])
    @pytest.mark.parametrize("failure", ["nan", "exception", "interrupt"])
    def test_a_failure_midway_leaves_the_target_as_it_was(
        self, run, X, vectors, encoder, tmp_path, small_chunks, monkeypatch,
        existing, failure,
    ):  # fmt: skip
        codes = tmp_path / "codes.npy"
        if existing:
            codes.write_bytes(b"what was here")
        transform = skhash.PCAHash.transform
        calls = []

        def fail_later(self, rows):
            calls.append(len(rows))
            if len(calls) == 2:
                raise KeyboardInterrupt if failure == "interrupt" else OSError("full")
            return transform(self, rows)

        if failure == "nan":
            X[140, 2] = np.nan
            np.save(vectors, X)
        else:
            monkeypatch.setattr(skhash.PCAHash, "transform", fail_later)
        before = sorted(tmp_path.iterdir())
        status, output, errors = run("encode", tmp_path / "encoder", vectors, codes)
        expected = {
            "nan": (2, "skhash: Row 140 (from 0) holds NaN or infinity.\n"),
            "exception": (2, "skhash: full\n"),
            "interrupt": (130, "skhash: interrupted\n"),
        }
        assert (status, errors) == expected[failure]
        assert output == ""
        assert sorted(tmp_path.iterdir()) == before
        if existing:
            assert codes.read_bytes() == b"what was here"

    def test_refused_targets(self, run, X, vectors, encoder, tmp_path):
        (tmp_path / "folder.npy").mkdir()
        targets = {
            tmp_path / "codes.bin": "codes are written as .npy",
            tmp_path / "nowhere" / "codes.npy": "there is no directory",
            tmp_path / "folder.npy": "is a directory",
            vectors: "holds the vectors",
        }
        for target, message in targets.items():
            status, _, errors = run("encode", tmp_path / "encoder", vectors, target)
            assert status == 2
            assert message in errors
        np.testing.assert_array_equal(np.load(vectors), X)

    def test_vectors_of_another_width(self, run, X, encoder, tmp_path):
        np.save(tmp_path / "wide.npy", np.hstack([X, X]))
        status, _, errors = run(
            "encode", tmp_path / "encoder", tmp_path / "wide.npy", tmp_path / "c.npy"
        )
        assert status == 2
        assert "wide.npy holds vectors of 12 numbers" in errors
        assert "encodes vectors of 6" in errors

    def test_a_full_disk_is_noticed_midway(
        self, vectors, encoder, tmp_path, monkeypatch, capsys, full_disk
    ):
        transform = skhash.PCAHash.transform

        def fill_disk(self, rows):  # no file may grow; maps of grown ones may
            full_disk()
            return transform(self, rows)

        monkeypatch.setattr(skhash.PCAHash, "transform", fill_disk)
        codes = tmp_path / "codes.npy"
        before = sorted(tmp_path.iterdir())
        status = main(["encode", str(tmp_path / "encoder"), vectors, str(codes)])
        full_disk(False)
        assert (status, capsys.readouterr().err) == (
            2,
            f"skhash: {codes}: File too large\n",
        )
        assert sorted(tmp_path.iterdir()) == before

    def test_a_full_disk_is_noticed_before_the_work(
        self, run, vectors, encoder, tmp_path, monkeypatch
    ):
        free = SimpleNamespace(free=749)
        monkeypatch.setattr(_files.shutil, "disk_usage", lambda path: free)
        words = ["encode", tmp_path / "encoder", vectors, tmp_path / "codes.npy"]
        status, _, errors = run(*words)
        assert status == 2
        assert "codes.npy takes 750 bytes, and its disk has 749 left" in errors
        assert run(*words, "--packed")[0] == 0

    def test_what_is_no_encoder(self, run, X, vectors, encoder, tmp_path):
        index = skhash.HammingNeighbors().fit(encoder.transform(X))
        index.save(tmp_path / "index")
        status, _, errors = run(
            "encode", tmp_path / "index", vectors, tmp_path / "c.npy"
        )
        assert status == 2
        assert "index holds a HammingNeighbors, which encodes no vectors" in errors

    def test_no_encoder(self, run, vectors, tmp_path):
        status, _, errors = run("encode", tmp_path, vectors, tmp_path / "c.npy")
        assert status == 2
        assert "is not a saved skhash estimator" in errors


class TestErrors:
    @pytest.mark.parametrize(
        "words, message",
        [
            (["missing.npy"], "missing.npy: No such file"),
            (["X.txt"], "suffix '.txt', which is not known"),
            (["text.npy"], "text.npy is not a .npy file"),
            (["nan.npy"], "Row 3 (from 0) holds NaN or infinity."),
            (["X.npy", "--labels", "short.npy"], "shape (9,) for 150 vectors"),
            (["X.npy", "--labels", "number.npy"], "shape () for 150 vectors"),
            (["X.npy", "--labels", "column.npy"], "--labels column.npy holds an array"),
            (["X.npy", "--labels", "pairs.npy"], "--labels pairs.npy holds an array"),
            (["X.npy", "--labels", "halves.npy"], "labels are whole numbers or"),
            (["X.npy", "--labels", "missing.npy"], "missing.npy: No such file"),
            (["X.npy", "--labels", "X.txt"], "labels are read from .npy"),
            (["X.npy", "--labels", "text.npy"], "text.npy cannot be read as labels"),
            (["X.npy", "--labels", "empty.npy"], "empty.npy cannot be read as labels"),
            (["--labels", "short.npy"], "--labels belong to VECTORS"),
            (["X.npy", "--methods", "lsh,foo"], "Unknown methods: foo"),
            (
                ["X.npy", "--bits", "0"],
                "n_bits must be integers from 1 to 65536, got 0",
            ),
            (["X.npy", "--bits", "99999999999"], "from 1 to 65536, got 99999999999"),
            (["X.npy", "--bits", "64", "128"], "--bits 64,128"),
            (["--bits", "64,", "128", "X.npy"], "--bits 64,128"),
            (["X.npy", "--k", "200"], "rescore >= k"),
            (["X.npy", "--rescore", "140"], "150 rows are too few"),
            (["X.npy", "--target-recall", "90"], "'target_recall'"),
            (["X.npy", "--device", "nowhere"], "'nowhere' is not a device"),
            (["X.npy", "--methods", "pca", "--bits", "7"], "Nothing could be measured"),
        ],
    )
    def test_one_line_and_status_2(self, run, X, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        np.save("X.npy", X)
        np.save("short.npy", np.arange(9))
        np.save("number.npy", 9)
        np.save("column.npy", np.arange(N)[:, None])
        np.save("pairs.npy", np.arange(2 * N).reshape(N, 2))
        np.save("halves.npy", np.arange(N) / 2)
        X[3, 1] = np.nan
        np.save("nan.npy", X)
        Path("X.txt").touch()
        Path("empty.npy").touch()
        Path("text.npy").write_text("not an array")
        status, output, errors = run("audit", *words)
        assert (status, output) == (2, "")
        (line,) = [line for line in errors.splitlines() if line.startswith("skhash: ")]
        assert message in line
        assert errors.endswith(f"{line}\n")

    @pytest.mark.parametrize(
        "error, line",
        [
            (ValueError("one\ntwo"), "one two"),
            (ValueError("one\r\n\u2028two"), "one two"),
            (ValueError("begun " + 10**6 * "x"), "begun ..."),
            (MemoryError("1 TiB"), "out of memory, so try fewer rows or bits: 1 TiB"),
            (RuntimeError("CUDA out of memory"), "out of memory, so try fewer rows or "
             "bits: CUDA out of memory"),
            (OSError(28, "No space left"), "No space left"),
        ],
    )  # fmt: skip
    def test_any_message_becomes_one_line(self, run, vectors, monkeypatch, error, line):
        def fail(*arguments, **options):
            raise error

        monkeypatch.setattr(audit_command, "audit", fail)
        assert run("audit", vectors) == (2, "", f"skhash: {line}\n")

    @pytest.mark.parametrize("device", ["nowhere", "meta"])
    @pytest.mark.parametrize(
        "words", [["audit", "absent.npy"], ["encode", "absent", "absent.npy", "c.npy"]]
    )
    def test_the_device_is_tried_before_anything_is_read(self, run, words, device):
        status, output, errors = run(*words, "--device", device)
        assert (status, output) == (2, "")
        assert device in errors and "absent" not in errors

    def test_an_interrupt_while_arguments_are_read(self, run, monkeypatch):
        def interrupt():
            raise KeyboardInterrupt

        monkeypatch.setattr(_main, "_parser", interrupt)
        assert run("audit") == (130, "", "skhash: interrupted\n")

    def test_a_mistake_in_the_program_is_not_hidden(self, vectors, monkeypatch):
        for mistake in (AssertionError, RuntimeError("a mistake")):

            def fail(*arguments, mistake=mistake, **options):
                raise mistake

            monkeypatch.setattr(audit_command, "audit", fail)
            with pytest.raises((AssertionError, RuntimeError)):
                main(["audit", vectors])


@pytest.fixture
def closed_stream():
    """Return a stream into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    yield stream
    stream.close()  # fails where the test has left something to write


class TestClosedStreams:
    def test_nobody_reads_the_output(
        self, vectors, tmp_path, monkeypatch, capsys, closed_stream
    ):
        monkeypatch.setattr(sys, "stdout", closed_stream)
        status = main(["audit", vectors, "--out", str(tmp_path / "report"), *FAST])
        assert status == 2
        errors = capsys.readouterr().err
        assert errors.endswith("skhash: standard output: Broken pipe\n")
        assert (tmp_path / "report" / "report.json").exists()

    def test_the_output_is_closed(self, run, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)
        assert run("audit") == (2, "", "skhash: standard output is closed\n")

    def test_nobody_reads_the_errors(self, monkeypatch, closed_stream):
        monkeypatch.setattr(sys, "stderr", closed_stream)
        assert main(["audit", "absent.npy"]) == 2

    def test_errors_are_closed(self, vectors, monkeypatch):
        monkeypatch.setattr(sys, "stderr", None)
        assert main(["audit", vectors, *FAST]) == 0


WIDTHS = {"name": 3, "long number": 2, "small": 1}
CELLS = [
    {"name": "a", "long number": "1", "small": "2"},
    {"small": "3", "long number": "12", "name": "bcd", "unknown": "x"},
]


def print_table(*dispensable, widths=WIDTHS):
    """Print a table and return the columns that were left out."""
    written = _terminal.Table(widths, dispensable)
    written.print_header()
    for cells in CELLS:
        written.print_row(cells)
    return written.left_out


class TestTerminal:
    def test_piped_table(self, capsys):
        assert print_table("small") == []
        assert capsys.readouterr().out == (
            "name  long number  small\n"
            "a               1      2\n"
            "bcd            12      3\n"
        )

    def test_a_wide_cell_moves_its_row_alone(self, capsys):
        written = _terminal.Table(WIDTHS)
        written.print_row(CELLS[0] | {"long number": 12 * "1"})
        written.print_row(CELLS[0])
        assert capsys.readouterr().out == (
            "a     111111111111      2\na               1      2\n"
        )

    @pytest.mark.parametrize(
        "width, left_out",
        [(24, []), (23, ["small"]), (20, ["small", "long number"])],
    )
    def test_a_narrow_one_has_fewer_columns(self, on_terminal, capsys, width, left_out):
        on_terminal(width)
        # Longer than 17 columns without "small", so that both go at 20.
        widths = WIDTHS | {"name": 8} if width == 20 else WIDTHS
        columns = ("small", "absent", "long number")
        assert print_table(*columns, widths=widths) == left_out
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        assert set(lines[1]) == {"-"}

    @pytest.mark.parametrize("width", [80, 100, 140])
    def test_an_audit_fits(self, run, vectors, tmp_path, on_terminal, width):
        np.save(tmp_path / "y.npy", np.arange(N) % 3)
        on_terminal(width)
        output = run("audit", vectors, "--labels", tmp_path / "y.npy", *FAST)[1]
        assert max(map(len, output.splitlines())) <= width
        header = table(output)[0]
        assert header[:3] == ["method", "bits", "bytes"]
        assert {"H 10@10", "H 10@30", "Q 10@10", "Q 10@30"} <= set(header)
        assert ("corr" in header) == (width == 140)
        assert ("encode/s" in header) == (width >= 100)
        assert ("Too wide for this terminal: corr, balance" in output) == (width < 140)

    def test_text_in_one_line_where_piped(self, on_terminal, capsys):
        text = "some words " * 20 + "and/one/long-path" * 3
        _terminal.print_text(text)
        assert capsys.readouterr().out == text + "\n"
        on_terminal(40)
        _terminal.print_text(text)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 5
        assert "and/one/long-path" * 3 in lines


class TestProgress:
    def test_piped_nothing(self, capsys):
        with _terminal.progress() as show:
            show("working")
        assert capsys.readouterr().err == ""

    def test_rich(self, on_terminal, capsys):
        pytest.importorskip("rich")
        on_terminal(40, stream="stderr")
        with _terminal.progress() as show:
            show("working [red]hard" + 60 * "!")
            show("")
            print("a row")
            show("more")
        captured = capsys.readouterr()
        assert captured.out == "a row\n"
        assert "working [red]hard!!" in captured.err and "more" in captured.err
        screen = Screen(captured.err.replace("\n", "\r\n"), 40)
        assert not screen.wrapped
        assert not "".join(screen.lines).strip()

    def test_plain(self, on_terminal, no_import, capsys):
        on_terminal(stream="stderr")
        no_import("rich")
        with _terminal.progress() as show:
            show("a long step")
            show("short")
        errors = capsys.readouterr().err
        assert errors == "\ra long step\rshort      \r     \r"

    def test_plain_is_blank_while_something_is_printed(
        self, on_terminal, no_import, capsys
    ):
        on_terminal(stream="stderr")
        no_import("rich")
        with _terminal.progress() as show:
            show("a step")
            show("")
            assert capsys.readouterr().err == "\ra step\r      \r"

    def test_plain_is_cut_to_the_terminal(self, on_terminal, no_import, capsys):
        on_terminal(20, stream="stderr")
        no_import("rich")
        with _terminal.progress() as show:
            show(30 * "x")
            assert capsys.readouterr().err == "\r" + 19 * "x"

    def test_plain_ends_blank_after_an_error(self, on_terminal, no_import, capsys):
        on_terminal(stream="stderr")
        no_import("rich")
        with pytest.raises(ValueError), _terminal.progress() as show:
            show("a step")
            raise ValueError
        assert capsys.readouterr().err.endswith("\r      \r")

    def test_steps_of_an_audit(self, run, vectors, on_terminal, no_import):
        on_terminal(stream="stderr")
        no_import("rich")
        _, output, errors = run("audit", vectors, *FAST)
        steps = [step.strip() for step in errors.split("\r") if step.strip()]
        assert steps == [
            "reading 150 of 150 rows",
            "finding the true neighbours of 30 queries",
            "compiling what fits and searches take, once in a process",
            "lsh at 8 bits (1 of 1)",
            "looking at neighbours by lsh at 8 bits",
        ]
        assert "\r" not in output

    def test_an_interrupt_keeps_what_was_measured(
        self, run, vectors, tmp_path, monkeypatch
    ):
        def audit(*arguments, progress, **options):
            def interrupt(line):
                if "(2 of 2)" in line:
                    raise KeyboardInterrupt

            return skhash.audit(*arguments, progress=interrupt, **options)

        monkeypatch.setattr(audit_command, "audit", audit)
        words = [*FAST, "--bits", "4,8", "--out", tmp_path / "report"]
        status, output, _ = run("audit", vectors, *words)
        assert status == 0
        assert len(table(output)[1]) == 1
        assert "Left out: interrupted, so without lsh at 8 bits." in output
        assert skhash.load(tmp_path / "report" / "encoder").n_bits == 4

    def test_steps_of_encoding(
        self, run, vectors, encoder, tmp_path, small_chunks, on_terminal, no_import
    ):
        on_terminal(stream="stderr")
        no_import("rich")
        words = ["encode", tmp_path / "encoder", vectors, tmp_path / "codes.npy"]
        errors = run(*words)[2]
        steps = [step.strip() for step in errors.split("\r") if step.strip()]
        assert len(steps) > 2
        assert steps[-1].startswith("encoding: 150 of 150, ")


def test_the_arguments_of_the_process_are_the_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["skhash", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.strip() == skhash.__version__


class TestCheck:
    def test_whole_and_damaged_files(self, run, encoder, tmp_path):
        """Below the directory, too; status and message say what is wrong."""
        encoder.save(tmp_path / "report" / "again")
        for folder, paths in {
            "encoder": ["encoder"],
            "report": ["report/again"],
            ".": ["encoder", "report/again"],
        }.items():
            status, output, errors = run("check", tmp_path / folder)
            lines = [f"{tmp_path / path}: a PCAHash, whole" for path in paths]
            assert (status, output.splitlines(), errors) == (0, lines, "")
        assert run("check", tmp_path, "--quiet") == (0, "", "")
        file = tmp_path / "report" / "again" / FILE
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        status, _, errors = run("check", tmp_path)
        assert status == 2
        assert f"{file.parent} is damaged" in errors and "checksum" in errors

    def test_nothing_there(self, run, tmp_path):
        for folder in (tmp_path, tmp_path / "absent"):
            status, _, errors = run("check", folder)
            assert status == 2
            assert f"{folder} is not a saved skhash estimator" in errors
