"""The wrapper of models, scored by mteb itself."""

import sys

import pytest
from sklearn.metrics import ndcg_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize


@pytest.fixture(scope="module")
def script(load):
    return load("mteb_codes", "mteb")


@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_of_decoded_codes(script):
    data = script.tools.LOADERS["digits"]()
    n, n_queries = len(data.database), 40
    task = script.SameLabel(data, n_queries)
    database, queries = task.rows[:n], task.rows[n:]
    quantizer = script.AdditiveQuantizer(3).fit(normalize(database))
    model = script.LearnedCompression(script.Rows(task.rows), quantizer)
    codes = quantizer.transform(normalize(database))
    decoded = quantizer.inverse_transform(codes)
    relevant = data.query_labels[:n_queries, None] == data.database_labels
    expected = ndcg_score(relevant, cosine_similarity(queries, decoded), k=10)
    assert abs(script.score(model, task) - expected) < 3e-4
    plain = ndcg_score(relevant, cosine_similarity(queries, database), k=10)
    assert abs(script.score(script.Rows(task.rows), task) - plain) < 3e-4
    assert abs(plain - expected) > 1e-3


@pytest.mark.filterwarnings("ignore")
def test_the_script(script, monkeypatch, tmp_path):
    path, stored = tmp_path / "it.md", script.tools.ROOT / "docs/results/mteb.md"
    words = ["it", "--queries", "20", "--bytes", "1", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", [script.__file__, *words[1:]])
    script.main()
    tables = [it.read_text("utf-8").split("\n\n")[-1] for it in (path, stored)]
    heads, rows = zip(*(table.split("\n|---")[:2] for table in tables), strict=True)
    assert heads[0] == heads[1]
    scores = [float(row.split("|")[-2]) for row in rows[0].strip().split("\n")[1:]]
    assert len(scores) == 4 and min(scores) > 0.5
