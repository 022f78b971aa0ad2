"""Results that nobody measured, and all that a page and a terminal show of them.

``PYTHONPATH=.:tests python tests/audit/golden.py`` writes what `tests/data` keeps. Read
the change before you commit it: tests then hold any other page to be wrong.
"""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

import skhash
from skhash import AuditResult
from skhash.auditing import page
from skhash.auditing.evidence import Evidence, Example, Hit
from skhash.auditing.measure import AuditRow
from skhash.cli import _audit, _terminal
from skhash.linear import PCAHash

FOLDER = Path(__file__).parents[1] / "data"
EVIL = '<script>document.title="taken"</script> & "quoted" \' <img src=http://x/y>'
WIDTHS = None, 80, 100, 150


def make_row(method, n_bits, recall, beside=None, codebook=0, **changed):
    """Return a row; `beside` are the bytes beside a code of an asymmetric search."""
    n_bytes = -(-n_bits // 8)
    numbers = {"recall": recall / 2, "recall_error": 0.0125, "depth": 30}
    numbers |= {"recall_reranked": recall, "recall_reranked_error": 0.02}
    speeds = {"encode_per_second": 98_632.0, "search_per_second": 1234.5}
    return AuditRow(
        *(method, n_bits, n_bytes, n_bytes + (beside or 0), codebook),
        search="hamming" if beside is None else "asymmetric",
        **numbers | speeds | {"fit_seconds": 0.456} | changed,
    )


def make_result():
    """Return a result: dense rows by cosine, with labels, whose target is reached."""
    settings = {"n_neighbors": 3, "rerank": 30, "target_recall": 0.9, "n_rows": 1000}
    settings |= {
        "n_vectors": 1000,
        "n_queries": 100,
        "n_database": 900,
        "n_features": 64,
    }
    settings |= {"float_bytes_per_vector": 256, "sparse": False, "metric": "cosine"}
    settings |= {"vector_type": "float32"}
    settings |= {"date": "2026-01-01", "processor": "a <processor>", "n_cores": 2}
    rows = [
        make_row("pca", 8, 0.7, depth=None, mean_average_precision=0.625),
        make_row("pca", 64, 0.95, fit_seconds=None, mean_average_precision=0.75),
        *(make_row("lsh", n_bits, n_bits / 200) for n_bits in (16, 24, 32, 40)),
        make_row("bytes", 16, 0.92, beside=1, codebook=4096),
        make_row("pq", 32, 0.99, beside=0, codebook=65536, search_per_second=None),
        make_row("int8", 512, 1.0, beside=0, codebook=512),
    ]
    encoders = {place: PCAHash(rows[place].n_bits) for place in range(7)}
    skipped = ["rabitq at 8 bits: <no> faiss"]
    result = AuditResult.from_rows(rows, encoders, settings, skipped)
    hits = [Hit(7, 0.25, 1), Hit(12, 0.5, None)]
    examples = [Example(3, 1 / 3, hits), Example(900, 0.0, [Hit(7, 2.0, None)] * 3)]
    scores = np.array([0.25, 0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    vectors = {row: np.arange(64.0) for row in (3, 7, 12, 900)}
    return replace(result, evidence=Evidence(2, *scores, examples, vectors))


def make_other():
    """Return one of sparse rows that misses its target, and was interrupted."""
    result = make_result()
    changed = {"n_neighbors": 1, "rerank": None, "target_recall": 1.0, "sparse": True}
    changed |= {"vector_type": "sparse float32"}
    settings = result.settings | changed | {"metric": "euclidean"}
    settings |= {"n_rows": 10**6, "n_vectors": 10**6}
    rows = [make_row("itq", 9, 0.5), make_row("sign", 64, 0.99995, beside=2)]
    rows = [replace(row, recall=row.recall_reranked) for row in rows]
    return AuditResult.from_rows(rows, {0: PCAHash(9), 1: PCAHash(64)}, settings, [])


def pages():
    """Return two pages and the view of a notebook, without style and script."""
    result = make_result()
    texts = [f"{number} {EVIL}" for number in range(1000)]
    shown = [
        result.to_html(texts=texts, name=EVIL, vectors=EVIL, folder="its folder"),
        result.to_html(image_shape=(8, 8)),
        make_other().to_html(vectors="v.npz", folder="r"),
        result._repr_html_(),
    ]
    text = "\n".join(shown).replace(f"skhash {skhash.__version__}", "skhash")
    for part in ("page.css", "sortable.js"):
        text = text.replace(page._read(part), part)
    return text


def terminals():
    """Return what is printed, by pipes and by terminals of some widths."""
    with redirect_stdout(StringIO()) as printed:
        for width in WIDTHS:
            for result in (make_result(), make_other()):
                given = {"vectors": "its X.npy", "json": False, "quiet": False}
                given |= {"column": None, "name": None, "keep_ids": False}
                given |= {"all": width == 100}
                with patch.object(_terminal, "terminal_width", lambda w=width: w):
                    _audit._print(SimpleNamespace(**given), result, "X.npy")
                print("=" * 80)
    return printed.getvalue()


GOLDEN = {"audit.html": pages, "audit.txt": terminals}

if __name__ == "__main__":
    absent = {"matplotlib.style": None, "matplotlib.image": None}
    with patch.dict(sys.modules, absent):
        for name, make in GOLDEN.items():
            (FOLDER / name).write_text(make(), encoding="utf-8")
