"""The page of an audit: what it says, by an HTML parser, and what a browser draws."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from skhash._audit import _evidence, _measure
from skhash._audit._result import choices_of
from sklearn.datasets import load_digits

import skhash
from skhash.codes import hamming_distances

VOID = {"meta", "img", "br", "input", "link", "hr"}
EVIL = '<script>document.title="taken"</script> & "quoted" \' <img src=http://x/y>'
OPTIONS = {
    "n_bits": [8, 32],
    "methods": ["itq", "lsh", "sign", "int8"],
    "k": 5,
    "rescore": 30,
    "device": "cpu",
}


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
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self._open.append(element)

    def handle_endtag(self, tag):
        if tag not in ("circle", "path", "line", "rect"):
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
    return load_digits().data.astype(np.float32)[:900]


@pytest.fixture(scope="module")
def result(X):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_measure, "TIMED_SECONDS", 0.0)
        return skhash.audit(X, **OPTIONS)


@pytest.fixture(scope="module")
def real(X):
    """A result whose recommended search is by real queries, without re-scoring."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_measure, "TIMED_SECONDS", 0.0)
        options = {**OPTIONS, "rescore": 5, "methods": ["itq"], "target_recall": 0.7}
        return skhash.audit(X, **options)


def drawn(evidence):
    return [hit for one in evidence.examples for hit in (*one.neighbors, *one.answers)]


def n_shown(evidence):
    """Return how many rows the page shows: answers only where they are others."""
    return sum(
        1 + len(one.neighbors) + len(one.answers) * (one.share < 1)
        for one in evidence.examples
    )


class TestEvidence:
    def test_scores_are_hamming_distances_of_the_rows(self, X, result):
        assert result.search == "hamming"
        codes = result.encoder.transform_packed(X)
        for example in result.evidence.examples:
            for hit in (*example.neighbors, *example.answers):
                pair = codes[[example.row]], codes[[hit.row]]
                assert hit.score == hamming_distances(*pair)[0, 0]

    def test_neighbors_are_the_nearest_by_float(self, X, result):
        examples = result.evidence.examples
        for example in examples:
            distances = ((X - X[example.row]) ** 2).sum(axis=1)
            rows = [hit.row for hit in example.neighbors]
            # Queries are no neighbours, so that rows between may be missing.
            assert (np.diff(distances[rows]) >= 0).all()
            assert example.row not in rows
            answers = [hit.row for hit in example.answers]
            assert (np.diff(distances[answers]) >= 0).all()
            # What a re-scored search misses is nearer than what it answers instead.
            missed = [hit.row for hit in example.neighbors if hit.rank is None]
            found = {hit.row for hit in example.neighbors if hit.rank}
            assert found == {hit.row for hit in example.answers if hit.is_true}
            assert example.share == len(found) / 5
            others = [hit.row for hit in example.answers if not hit.is_true]
            assert len(missed) == len(others)
            assert max(distances[missed], default=0) <= min(
                distances[others], default=np.inf
            )

    def test_examples_go_from_the_best_to_the_worst(self, result):
        shares = [example.share for example in result.evidence.examples]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == _evidence.N_EXAMPLES

    def test_the_share_found_is_the_recall(self, result):
        """Of 100 queries of 180; the error of a mean is less than what is allowed."""
        evidence, best = result.evidence, result.choice
        assert evidence.n_queries == 100
        assert evidence.neighbor_scores.shape == (500,)
        mean = np.mean([one.share for one in evidence.examples])
        assert abs(mean - best.recall) < 0.2

    def test_separation_is_that_of_all_pairs_of_scores(self, result):
        near, far = result.evidence.neighbor_scores, result.evidence.random_scores
        wins = (near[:, None] < far).mean() + (near[:, None] == far).mean() / 2
        assert result.evidence.separation == pytest.approx(wins)

    def test_scores_by_real_queries_are_those_of_decoded_codes(self, X, real):
        assert real.search == "asymmetric"
        bits = real.decoder.refine(X, real.encoder.transform(X))
        decoded = real.decoder.inverse_transform(bits).astype(np.float64)
        errors = ((X - decoded) ** 2).sum(axis=1)
        for example in real.evidence.examples:
            for hit in (*example.neighbors, *example.answers):
                squared = ((X[example.row] - decoded[hit.row]) ** 2).sum()
                expected = squared + errors[hit.row] / 4
                assert hit.score == pytest.approx(expected, rel=1e-4)
            # Without re-scoring the answers are what is found, in its order.
            assert [hit.rank for hit in example.answers] == [1, 2, 3, 4, 5]
            scores = [hit.score for hit in example.answers]
            assert scores == sorted(scores)

    def test_rows_are_kept_as_they_were_given(self, X, result):
        vectors = result.evidence.vectors
        assert set(vectors) == {hit.row for hit in drawn(result.evidence)} | {
            example.row for example in result.evidence.examples
        }
        assert all((X[row] == vector).all() for row, vector in vectors.items())

    def test_cosine_keeps_the_rows_as_they_were_given(self, X):
        options = {**OPTIONS, "n_bits": [8], "methods": ["lsh"], "metric": "cosine"}
        vectors = skhash.audit(X, **options).evidence.vectors
        assert all((X[row] == vector).all() for row, vector in vectors.items())

    def test_too_many_numbers_are_not_kept(self, X, monkeypatch):
        monkeypatch.setattr(_evidence, "MAX_NUMBERS", 64)
        result = skhash.audit(X, **{**OPTIONS, "n_bits": [8], "methods": ["lsh"]})
        assert result.evidence.vectors is None
        assert "<img" not in result.to_html(image_shape=(8, 8))

    def test_a_result_of_before_goes_without(self, X):
        results = []
        options = {**OPTIONS, "n_bits": [8], "methods": ["lsh"]}
        skhash.audit(X, **options, progress=lambda _, result: results.append(result))
        assert results[-1].evidence is None
        page = Page(results[-1].to_html(image_shape=(8, 8)))
        assert not page.find("article")
        assert "interrupted before these" in page.texts("main")[0]


class TestContent:
    def test_the_recommendation_is_a_sentence(self, result):
        best = result.choice
        (text,) = Page(result.to_html()).texts("p", "sentence")
        assert text.startswith(f"Take {type(result.encoder).__name__} at ")
        assert f"at {best.row.n_bits} bits" in text
        assert (
            f"keeps {best.n_bytes} bytes of a vector in memory instead of 256" in text
        )
        recall = re.search(r"finds ([\d.]+)% of the 5 true neighbours", text)[1]
        assert float(recall) == pytest.approx(100 * best.recall, abs=0.05)
        assert text.endswith(
            "first 30 candidates are ranked again by the float vectors."
        )

    def test_nothing_reaches_the_target(self, X):
        options = {**OPTIONS, "n_bits": [1], "methods": ["lsh"], "target_recall": 1}
        result = skhash.audit(X, **options)
        (text,) = Page(result.to_html()).texts("p", "sentence")
        assert text.startswith("No code that was measured finds 100% of the 5 true")
        assert "RandomHyperplaneHash at 1 bits" in text

    def test_a_point_for_each_search_that_was_measured(self, result):
        page = Page(result.to_html())
        choices = choices_of(result.rows, True) + choices_of(result.rows, False)
        titles = [text.split("\n") for text in page.texts("g", "point") if text]
        assert len(titles) == len(choices) > 20
        told = {
            (lines[0], float(re.search(r"[\d.]+", lines[1])[0])) for lines in titles
        }
        assert told == {
            (
                f"{one.row.method} at {one.row.n_bits} bits, by "
                + {"hamming": "Hamming distance", "asymmetric": "real queries"}[
                    one.search
                ],
                round(one.recall, 3),
            )
            for one in choices
        }

    def test_the_table_holds_all_rows(self, result):
        page = Page(result.to_html())
        header = page.texts("th")
        cells = np.array(page.texts("td")).reshape(-1, len(header))
        frame = dict(zip(header, cells.T, strict=True))
        assert frame["method"].tolist() == [row.method for row in result.rows]
        assert frame["H 5@30"].tolist() == [
            "-" if row.recall_rescored is None else f"{row.recall_rescored:.3f}"
            for row in result.rows
        ]
        assert page.texts("dt") == header
        (best,) = page.find("tr", "best")
        assert best["text"].startswith(result.recommended.method)

    def test_the_histogram_counts_all_pairs(self, result):
        page = Page(result.to_html())
        bins = [text.split("\n") for text in page.texts("g", "bin")]
        for line, scores in (
            (1, result.evidence.neighbor_scores),
            (2, result.evidence.random_scores),
        ):
            for lines in bins:
                distance = int(re.match(r"\d+", lines[0])[0])
                share = float(re.match(r"[\d.]+", lines[line])[0])
                assert share == pytest.approx(
                    100 * (scores == distance).mean(), abs=0.05
                )
        everything = np.concatenate(
            [result.evidence.neighbor_scores, result.evidence.random_scores]
        )
        assert len(bins) == np.ptp(everything) + 1

    def test_bars_are_as_high_as_their_shares(self, result):
        page = Page(result.to_html())
        lines = np.array([text.split("\n") for text in page.texts("g", "bin")])
        for column, kind in ((1, "near"), (2, "drawn")):
            shares = [float(re.match(r"[\d.]+", text)[0]) for text in lines[:, column]]
            heights = [float(bar["height"][:-1]) for bar in page.find("rect", kind)]
            tops = [float(bar["y"][:-1]) for bar in page.find("rect", kind)]
            assert np.corrcoef(shares, heights)[0, 1] > 0.999
            np.testing.assert_allclose(np.add(tops, heights), 100, atol=0.02)

    def test_pictures_are_the_rows(self, X, result):
        image = pytest.importorskip("PIL.Image")
        page = Page(result.to_html(image_shape=(8, 8)))
        pictures = page.find("img")
        rows = set(result.evidence.rows)
        assert len(pictures) == n_shown(result.evidence) < 66
        values = X[sorted(rows)]
        low, high = values.min(), values.max()
        for picture in pictures:
            row = int(picture["alt"].removeprefix("row "))
            png = base64.b64decode(
                picture["src"].removeprefix("data:image/png;base64,")
            )
            pixels = np.asarray(image.open(io.BytesIO(png)))
            expected = np.round(255 * (X[row] - low) / (high - low)).reshape(8, 8)
            np.testing.assert_array_equal(pixels, expected)

    @pytest.mark.parametrize("shape", [(4, 5, 3), (3, 4, 5)])
    def test_pictures_of_colours(self, shape):
        image = pytest.importorskip("PIL.Image")
        X = np.random.default_rng(0).integers(0, 256, (60, 60)).astype(np.float32)
        options = {**OPTIONS, "n_bits": [8], "methods": ["lsh"], "rescore": 10}
        page = Page(skhash.audit(X, **options).to_html(image_shape=shape))
        picture = page.find("img")[0]
        assert (picture["width"], picture["height"]) == ("5", "4")
        png = base64.b64decode(picture["src"].partition(",")[2])
        pixels = np.asarray(image.open(io.BytesIO(png)), dtype=np.float64)
        row = X[int(picture["alt"].removeprefix("row "))].reshape(shape)
        row = row if shape[-1] == 3 else row.transpose(1, 2, 0)
        assert pixels.shape == (4, 5, 3)
        # The least and the greatest of all rows shown are near 0 and 255.
        assert abs(pixels - row).max() <= 2

    @pytest.mark.parametrize(
        "shape",
        [(8, 9), (64,), (8, 8, 1), (0, 64), (), "8x8", 64, (8.0, 8.0), (-8, -8)],
    )
    def test_other_shapes_are_refused(self, result, shape):
        with pytest.raises(ValueError, match="image"):
            result.to_html(image_shape=shape)

    def test_texts_of_users_are_texts(self, result):
        texts = [f"{number} {EVIL}" for number in range(900)]
        html = result.to_html(texts=texts, name=EVIL, vectors=EVIL, folder=EVIL)
        page = Page(html)
        assert len(page.find("script")) == 1
        assert not page.find("img")
        (head,) = page.texts("h1")
        assert head == f"Audit of {EVIL}"
        (title,) = [text for text in page.texts("title") if text.startswith("Audit")]
        assert title == f"Audit of {EVIL}"
        assert any("<img src=http://x/y>" in text for text in page.texts("code"))
        shown = [text for text in page.texts("p") if text.endswith(EVIL)]
        rows = [int(text.split()[0]) for text in shown]
        evidence = result.evidence
        assert len(rows) == n_shown(evidence)
        assert set(rows) == set(evidence.rows)

    def test_texts_go_by_position_unless_they_are_a_mapping(self, result):
        texts = [f"{number} here" for number in range(900)]
        backwards = pd.Series(texts, index=range(900)[::-1])
        by_row = {row: texts[row] for row in result.evidence.rows}
        pages = {result.to_html(texts=it) for it in (texts, backwards, by_row)}
        assert len(pages) == 1

    @pytest.mark.parametrize("texts", [["a"], {}, []])
    def test_missing_texts_are_named(self, result, texts):
        first = next(row for row in result.evidence.rows if row >= len(texts))
        with pytest.raises(ValueError, match=f"texts has none for row {first},"):
            result.to_html(texts=texts)

    def test_a_single_text_is_refused(self, result):
        with pytest.raises(ValueError, match="a text for each vector"):
            result.to_html(texts="word " * 900)

    def test_long_texts_are_cut(self, result):
        page = Page(result.to_html(texts=["word " * 5000] * 900))
        longest = max(map(len, page.texts("article")))
        assert longest < 11 * 500

    def test_it_names_no_place_to_load_from(self, result):
        page = Page(result.to_html(image_shape=(8, 8)))
        for element in page.elements:
            assert not element.get("href")
            assert element.get("src", "data:").startswith("data:")
        assert "url(" not in "".join(page.texts("style"))
        (policy,) = [one for one in page.find("meta") if "http-equiv" in one]
        assert policy["content"].startswith("default-src 'none'")

    @pytest.mark.parametrize("kind", ["rescored", "alone", "decoder", "cosine"])
    def test_what_to_do_next_runs(self, X, result, real, kind, tmp_path, monkeypatch):
        """The commands and the Python of the page find each query itself."""
        monkeypatch.chdir(tmp_path)
        np.save("my vectors.npy", X)
        if kind == "alone":
            options = {**OPTIONS, "rescore": 5, "n_bits": [128], "target_recall": 0.1}
            result = skhash.audit(X, **{**options, "methods": ["lsh"]})
        if kind == "cosine":
            options = {**OPTIONS, "rescore": 5, "target_recall": 0.7, "k": 5}
            options |= {"methods": ["itq"], "metric": "cosine"}
            result = skhash.audit(X, **options)
            assert result.search == "asymmetric"
        result = real if kind == "decoder" else result
        result.encoder.save("a report/encoder")
        result.decoder.save("a report/decoder")
        page = Page(result.to_html(vectors="my vectors.npy", folder="a report"))
        *commands, python = page.texts("code")[1:]
        self.check_steps(commands, python, kind)

    def check_steps(self, commands, python, kind):
        import shlex

        from skhash.cli import main

        assert len(commands) == (kind not in ("decoder", "cosine"))
        for command in commands:
            first, *words = shlex.split(command)
            assert first == "skhash"
            assert main(words) == 0
        names = {}
        exec(python, names)
        positions = names["positions"]
        assert positions.shape == (5, 5)
        if kind == "rescored":
            assert positions[:, 0].tolist() == [0, 1, 2, 3, 4]
        else:
            assert all(i in row for i, row in enumerate(positions))

    @pytest.mark.parametrize("search", ["hamming", "asymmetric"])
    def test_candidates_among_sparse_vectors_are_ranked(
        self, X, search, tmp_path, monkeypatch
    ):
        # An index takes dense vectors alone; with them it does what the page does.
        monkeypatch.chdir(tmp_path)
        sparse.save_npz("v.npz", sparse.csr_matrix(X))
        result = skhash.audit(sparse.csr_array(X), **{**OPTIONS, "methods": ["itq"]})
        result = replace(result, choice=replace(result.choice, search=search))
        result.encoder.save("r/encoder")
        result.decoder.save("r/decoder")
        np.save("codes.npy", result.encoder.transform_packed(X))
        names = {}
        exec(Page(result.to_html(vectors="v.npz", folder="r")).texts("code")[-1], names)
        k, rescore = result.settings["k"], result.settings["rescore"]
        index = skhash.AsymmetricNeighbors(k, n_candidates=rescore)
        asked, given = {}, {"vectors": X}
        if search == "hamming":
            codes = result.encoder.transform(X)
            asked["codes"] = codes[:5]
        else:
            codes = result.decoder.refine(X, result.encoder.transform(X))
            given["errors"] = result.decoder.reconstruction_error(X, codes)
            given["decoder"] = result.decoder
        expected = index.fit(codes, **given).kneighbors(X[:5], **asked)[1]
        np.testing.assert_array_equal(names["positions"], expected)
        made = eval(result.usage, vars(skhash) | vars(skhash.linear))
        made.fit(sparse.csr_array(X))
        _, candidates = made.kneighbors(sparse.csr_array(X[:5]))
        assert candidates.shape == (5, rescore)
        assert all(i in row for i, row in enumerate(candidates))

    def test_without_files_the_search_is_made_anew(self, X, result):
        code = Page(result.to_html()).texts("code")[-1]
        names = {"X": X, "queries": X[:3]}
        exec(code, names)
        assert names["positions"][:, 0].tolist() == [0, 1, 2]

    def test_a_recall_alone_has_one_curve(self, real):
        page = Page(real.to_html())
        assert len(page.find("div", "curve")) == 1
        assert not page.find("input")
        assert "by the codes alone" in page.texts("p", "sentence")[0]


class TestFragment:
    def test_its_style_is_its_own(self, result):
        (style,) = Page(result._repr_html_()).texts("style")
        style = re.sub(r"@media [^{]*{", "", style)
        rules = re.findall(r"([^{}]+){", style)
        assert len(rules) > 50
        for rule in rules:
            for selector in rule.split(","):
                assert selector.strip().startswith(".skhash-audit")

    def test_it_is_in_a_notebook_what_the_page_is(self, result):
        page = Page(result._repr_html_())
        assert page.texts("p", "sentence") == Page(result.to_html()).texts(
            "p", "sentence"
        )
        assert not page.find("script")
        assert not [element for element in page.elements if "id" in element]

    def test_neighbours_in_the_notebook_stay_as_they_were(
        self, browser, result, tmp_path
    ):
        around = '<h2 id="a">Mine</h2><table id="b"><tr><td>1</td></tr></table>'
        around += '<p id="c" class="sentence">text <small>small</small></p>'
        look = """() => ["a", "b", "c"].map((id) => {
            const style = getComputedStyle(document.getElementById(id));
            return Array.from(style, (name) => style.getPropertyValue(name)).join();
        })"""
        looks = []
        for content in ("", result._repr_html_()):
            path = tmp_path / "notebook.html"
            path.write_text(f"<meta charset=utf-8>{around}{content}", "utf-8")
            looks.append(browser.open(path).evaluate(look))
        assert looks[0] == looks[1]


@pytest.fixture
def opened(browser, result, tmp_path):
    """Return a function that opens the page of the result."""
    path = tmp_path / "report.html"
    path.write_text(result.to_html(image_shape=(8, 8), vectors="v.npy"), "utf-8")

    def opened(**options):
        return browser.open(path, **options)

    return opened


class TestBrowser:
    def test_points_are_where_their_numbers_are(self, opened, result):
        """Bytes on an axis of powers, recalls on a straight one."""
        page = opened()
        points = page.locator(".stage-1 .point")
        choices = {
            f"{one.row.method} {one.row.n_bits} {one.search}": one
            for one in choices_of(result.rows, True)
        }
        assert points.count() == len(choices)
        places = points.evaluate_all(
            """points => points.map((point) => {
                const {x, y, width, height} = point.getBoundingClientRect();
                return [point.dataset.text, x + width / 2, y + height / 2];
            })"""
        )
        known, x, y = [], [], []
        for text, left, top in places:
            words = text.split()
            search = "hamming" if "Hamming" in text.split("\n")[0] else "asymmetric"
            known.append(choices[f"{words[0]} {words[2]} {search}"])
            x.append(left)
            y.append(top)
        log_bytes = np.log2([one.n_bytes for one in known])
        recalls = np.array([one.recall for one in known])
        assert np.abs(np.corrcoef(x, log_bytes)[0, 1]) == pytest.approx(1, abs=1e-6)
        assert np.corrcoef(y, recalls)[0, 1] == pytest.approx(-1, abs=1e-5)

    def test_the_pointer_tells_the_numbers_of_a_point(self, opened, result):
        page = opened()
        best = page.locator(".stage-1 .point.best")
        assert page.locator(".tip").is_hidden()
        best.scroll_into_view_if_needed()
        box = best.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
        text = page.locator(".tip").inner_text()
        row, choice = result.recommended, result.choice
        assert f"{row.method} at {row.n_bits} bits" in text
        assert f"recall {choice.recall:.3f} ± {2 * choice.error:.3f}" in text
        assert f"{choice.n_bytes} bytes a vector" in text
        assert f"{row.search_per_second:,.0f} queries/s" in text
        page.mouse.move(2, 2)
        assert page.locator(".tip").is_hidden()

    def test_arrow_keys_tell_of_every_point(self, opened, result):
        page = opened()
        chart = page.locator(".stage-1 .chart")
        chart.focus()
        told = set()
        for _ in choices_of(result.rows, True):
            page.keyboard.press("ArrowRight")
            assert page.locator(".tip").is_visible()
            told.add(page.locator(".told").get_attribute("data-text"))
        assert len(told) == page.locator(".stage-1 .point").count()
        page.keyboard.press("Escape")
        assert page.locator(".tip").is_hidden()

    def test_the_table_sorts_by_number(self, opened, result):
        page = opened()
        names = page.locator("th").all_text_contents()
        column = names.index("Q/s")
        for direction in (1, -1):
            page.locator("th").nth(column).click()
            shown = page.locator("tbody tr").evaluate_all(
                f"rows => rows.map((row) => row.cells[{column}].textContent)"
            )
            scales = {"k": 1e3, "M": 1e6}
            speeds = [
                float(text.rstrip("kM")) * scales.get(text[-1], 1)
                for text in shown
                if text != "-"
            ]
            assert speeds == sorted(speeds, reverse=direction < 0)
            assert len(shown) == len(result.rows)

    def test_the_codes_alone_are_behind_a_button(self, opened):
        page = opened()
        assert page.locator(".stage-0").is_hidden()
        page.locator("label", has_text="the codes alone").click()
        assert page.locator(".stage-0").is_visible()
        assert page.locator(".stage-1").is_hidden()

    @pytest.mark.parametrize("width", [1300, 400])
    def test_it_fits_in_light_and_dark(self, opened, width):
        colors = []
        for dark in (False, True):
            page = opened(width=width, dark=dark)
            page.locator("summary").click()
            root = "document.documentElement"
            widths = page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]")
            assert widths[0] <= widths[1] == width
            colors.append(
                page.evaluate(
                    """() => {
                        const style = getComputedStyle(document.querySelector("main"));
                        return [style.color, style.backgroundColor];
                    }"""
                )
            )
            # Each picture is drawn, from the page alone.
            pictures = page.locator("img")
            sizes = pictures.evaluate_all("all => all.map((one) => one.naturalWidth)")
            assert set(sizes) == {8}
        brightness = [
            [sum(map(int, re.findall(r"\d+", color)[:3])) for color in pair]
            for pair in colors
        ]
        (front, back), (dark_front, dark_back) = brightness
        assert front + 400 < back
        assert dark_back + 400 < dark_front

    def test_without_scripts_it_can_be_read(self, browser, result, tmp_path):
        html = result.to_html(image_shape=(8, 8))
        path = tmp_path / "report.html"
        path.write_text(re.sub(r"(?s)<script>.*</script>", "", html), "utf-8")
        page = browser.open(path)
        assert page.locator(".stage-1 .point").first.is_visible()
        title = page.locator(".stage-1 .point.best title").text_content()
        assert f"recall {result.choice.recall:.3f}" in title
        page.locator("label", has_text="the codes alone").click()
        assert page.locator(".stage-0").is_visible()

    def test_texts_with_tags_do_nothing(self, browser, result, tmp_path):
        path = tmp_path / "report.html"
        path.write_text(result.to_html(texts=[EVIL] * 900, name=EVIL), "utf-8")
        page = browser.open(path)
        assert page.title() == f"Audit of {EVIL}"
        assert page.locator(".hit p").first.inner_text() == EVIL


def test_numbers_of_the_page_are_those_of_the_report(result):
    """What the page says in its tiles, against the plain data of the result."""
    data = json.loads(json.dumps(result.to_dict()))
    texts = Page(result.to_html()).texts("div", "tile")
    best, settings = data["recommended"], data["settings"]
    assert texts[0].startswith(f"{100 * best['recall']:.1f}".removesuffix(".0") + "%")
    assert texts[1].startswith(f"{best['bytes_per_vector']} bytes a vector")
    (line,) = [
        text
        for text in Page(result.to_html()).texts("li")
        if text.startswith("With this code 10,000,000 vectors would take ")
    ]
    # Of 32 bits by Hamming distance, beside 64 numbers of four bytes.
    assert best["bytes_per_vector"] == 4 and best["decoder_bytes"] == 0
    assert "take 40 MB of memory instead of 2.56 GB and 1,000,000,000" in line
    assert f"lower there than among the {settings['n_database']} that were" in line
    memory = best["bytes_per_vector"] * settings["n_rows"] + best["decoder_bytes"]
    number, unit = re.match(r"([\d.]+) (\w+)", texts[2]).groups()
    assert float(number) * {"bytes": 1, "kB": 1e3}[unit] == pytest.approx(
        memory, rel=0.01
    )
