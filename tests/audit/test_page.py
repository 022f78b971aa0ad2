"""The page of an audit and its charts, against the data that they show."""

import base64
import io
import shlex
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from audit.golden import FOLDER, GOLDEN
from cases import each
from decoded import numbers_of
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

import skhash
from skhash.auditing import evidence, timing
from skhash.auditing.choices import SEARCHES
from skhash.auditing.peers import PEERS
from skhash.codes import hamming_distances

figures = pytest.importorskip("matplotlib.figure")
VOID = {"meta", "img", "br", "input", "link", "hr"}
OPTIONS = {"n_bits": [8, 32], "n_neighbors": 5, "rerank": 30, "device": "cpu"}
OPTIONS |= {"methods": ["itq", "lsh", "bytes", "sign", "int8"]}
SMALL = {"n_bits": [8], "methods": ["lsh"]}


class Page(HTMLParser):
    """Elements of a page in their order, each with its attributes and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(html)
        self.close()
        assert not self._open, "an element is not closed"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "class": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append({"tag": tag, "text": "", "class": "", **dict(attributes)})

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def find(self, tag, name=None):
        return [
            element
            for element in self.elements
            if element["tag"] == tag and (name in (None, *element["class"].split()))
        ]

    def texts(self, tag, name=None):
        return [element["text"] for element in self.find(tag, name)]


@pytest.fixture(scope="module")
def X():
    return load_digits().data.astype(np.float32)[:500]


def audited(X, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "TIMED_SECONDS", 0.0)
        return skhash.audit(X, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def result(X):
    return audited(X)


@pytest.fixture(scope="module")
def real(X):
    """A result whose recommended search is by uncompressed queries, not re-ranked."""
    return audited(X, rerank=None, methods=["bytes"], target_recall=0.7)


class TestEvidence:
    def test_neighbors_are_the_nearest_by_float_and_seen_by_their_codes(
        self, X, result
    ):
        assert result.recommended.search == "hamming"
        codes, examples = result.encoder.transform_packed(X), result.evidence.examples
        for example in examples:
            rows = [hit.row for hit in example.neighbors]
            distances = ((X - X[example.row]) ** 2).sum(axis=1)
            # Queries are no neighbours, so that rows between may be missing.
            assert (np.diff(distances[rows]) >= 0).all() and example.row not in rows
            scores = hamming_distances(codes[[example.row]], codes)[0]
            assert [hit.score for hit in example.neighbors] == scores[rows].tolist()
            ranks = [hit.rank for hit in example.neighbors if hit.rank]
            assert example.share == len(ranks) / 5 and max(ranks, default=0) <= 30
            for hit in example.neighbors:
                # Queries are held out, and only they may be nearer beside the ranked.
                assert hit.rank is None or hit.rank <= (scores <= hit.score).sum()
        shares = [example.share for example in examples]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == evidence.N_EXAMPLES

    def test_separation_is_that_of_all_pairs_of_scores(self, result):
        near, far = result.evidence.neighbor_scores, result.evidence.random_scores
        wins = (near[:, None] < far).mean() + (near[:, None] == far).mean() / 2
        assert result.evidence.separation == pytest.approx(wins)
        assert near.shape == (5 * result.evidence.n_queries,)

    def test_scores_by_uncompressed_queries_are_those_of_decoded_codes(self, X, real):
        assert real.recommended.search == "asymmetric"
        decoded = real.encoder.inverse_transform(real.encoder.transform(X))
        added = ((X - decoded) ** 2).sum(axis=1) / 4
        beside = numbers_of(decoded, real.encoder.offset_, False, added)
        share = 2.0 ** -(real.encoder.distance_bits_ + 1)
        shown = iter(Page(real.to_html()).find("figure", "hit"))
        for example in real.evidence.examples:
            for hit in example.neighbors:
                squared = ((X[example.row] - decoded[hit.row]) ** 2).sum()
                expected, rounded = squared + added[hit.row], beside[hit.row] * share
                assert hit.score**2 == pytest.approx(expected, abs=rounded + 1e-3)
                assert f" {hit.score:.4g} estimated distance" in next(shown)["title"]

    def test_rows_are_kept_as_they_were_given(self, X, monkeypatch):
        found = audited(X, **SMALL, metric="cosine").evidence
        assert sorted(found.vectors) == found.rows
        assert all((X[row] == vector).all() for row, vector in found.vectors.items())
        monkeypatch.setattr(evidence, "MAX_NUMBERS", 64)
        assert audited(X, **SMALL).evidence.vectors is None

    def test_a_result_of_before_goes_without(self, X):
        results = []
        audited(X, **SMALL, progress=lambda _, result: results.append(result))
        assert results[-1].evidence is None
        assert not Page(results[-1].to_html(image_shape=(8, 8))).find("article")


class TestChart:
    @pytest.mark.parametrize("methods", [OPTIONS["methods"], ["bytes"], ["itq"]])
    def test_best_of_each_length_of_each_search(self, X, methods):
        result, ax = audited(X, methods=methods), figures.Figure().subplots()
        assert result.plot(ax) is ax
        own = [row for row in result.rows if row.method not in PEERS]
        *curves, circle = [line for line in ax.lines if line.get_marker() == "o"]
        expected = []
        for recall in ("recall_reranked", "recall"):
            for search in reversed(SEARCHES):
                points = sorted(
                    (row.bytes_per_vector, getattr(row, recall))
                    for row in own
                    if row.search == search
                )
                expected += [dict(points)] * bool(points)  # the best is a size's last
        assert [dict(line.get_xydata()) for line in curves] == expected
        best, lines = result.choice, {line.get_label(): line for line in ax.lines}
        assert ("by uncompressed queries" in lines) == ("bytes" in methods)
        point = [best.row.bytes_per_vector, best.recall]
        assert circle.get_xydata().tolist() == [point]
        for row in result.rows:
            if row.method in PEERS and row.search == "asymmetric":
                point = [row.bytes_per_vector, row.recall_reranked]
                assert lines[row.method].get_xydata().tolist() == [point]

    @pytest.mark.parametrize("shape", [(8, 8), (4, 5, 3), (3, 4, 5)])
    def test_pictures_are_the_rows(self, X, result, shape):
        image = pytest.importorskip("PIL.Image")
        if len(shape) == 3:
            X = np.random.default_rng(0).integers(0, 256, (60, 60)).astype(np.float32)
            result = audited(X, **SMALL, rerank=10)
        pictures = Page(result.to_html(image_shape=shape)).find("img")
        shown = {int(one["alt"].removeprefix("row ")): one for one in pictures}
        assert sorted(shown) == result.evidence.rows
        values = X[sorted(shown)]
        for row, picture in shown.items():
            data = base64.b64decode(picture["src"].partition(",")[2])
            file = image.open(io.BytesIO(data))
            pixels = np.asarray(file.convert("RGB" if len(shape) == 3 else "L"))
            levels = 255 * (X[row] - values.min()) / np.ptp(values)
            expected = np.round(levels).reshape(shape)
            if shape[0] == 3:
                expected = expected.transpose(1, 2, 0)
            np.testing.assert_array_equal(pixels, expected)

    @each("shape", [(8, 9), (8, 8, 1), (0, 64), "8x8", (8.0, 8.0), (-8, -8)])
    def test_other_shapes_are_refused(self, result, shape):
        with pytest.raises(ValueError, match="image"):
            result.to_html(image_shape=shape)

    @each("texts", [["a"], {}])
    def test_texts_that_are_missing(self, result, texts):
        with pytest.raises(ValueError, match="texts"):
            result.to_html(texts=texts)

    @pytest.mark.parametrize("method", ["itq", "bytes"])
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_the_commands_search(self, X, method, is_sparse, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        name = "v's.npz" if is_sparse else "v's.npy"
        given = sparse.csr_matrix(X) if is_sparse else X
        (sparse.save_npz if is_sparse else np.save)(name, given)
        result, names = audited(given, methods=[method], metric="cosine"), {}
        result.encoder.save("r/encoder")
        page = Page(result.to_html(vectors=name, folder="r"))
        _, code, *others = page.texts("code")
        exec(code, names)
        assert names["search"].encoder_ is names["encoder"]
        command = [f"skhash encode r/encoder {shlex.quote(name)} codes.npy --packed"]
        assert others == command * (method == "itq")
        made = {"made": FrozenEstimator(result.encoder), "X": given}
        exec(f"{result.imports[0]}; own = {result.usage_of(encoder='made')}", made)
        expected = made["own"].kneighbors(given[:5])[1]
        np.testing.assert_array_equal(names["positions"], expected)
        assert names["positions"].shape == (5, 30 if is_sparse else 5)

    def test_without_files_the_search_is_fitted_again(self, X, result):
        names = {"X": X, "queries": X[:3]}
        exec(Page(result.to_html()).texts("code")[-1], names)
        assert names["positions"][:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", GOLDEN)
def test_all_that_is_shown(name, monkeypatch):
    """Of results that nobody measured, without matplotlib's charts."""
    for module in ("matplotlib.style", "matplotlib.image"):
        monkeypatch.setitem(sys.modules, module, None)
    assert GOLDEN[name]() == (FOLDER / name).read_text("utf-8")
