"""The site, as a browser draws it from files and without a network."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "docs" / "_build"
# Messages of the theme to the console.
GREETINGS = "console: [PST]: "
# How browsers refuse excerpts of what a search finds, where pages are files.
REFUSALS = (
    "console: Access to fetch at 'file:",
    "console: Failed to load resource: net::ERR_FAILED",
    "missing: file:",
    "error: Failed to fetch",
)


def forget(browser, beginnings):
    """Take complaints away that begin so."""
    browser.complaints[:] = [
        line for line in browser.complaints if not line.startswith(beginnings)
    ]


@pytest.fixture
def open_page(browser):
    """A function that opens a page of the site by its name."""
    if not (SITE / "index.html").is_file():
        pytest.skip("no site: .ci/docs, or sphinx-build -W docs docs/_build")
    yield lambda name, **how: browser.open(SITE / name, **how)
    forget(browser, GREETINGS)


def drawn_width(page, selector):
    """Return the pixels of the first picture's file across; 0 if it is not drawn."""
    return page.locator(selector).first.evaluate(
        "picture => picture.offsetWidth && picture.naturalWidth"
    )


@pytest.mark.parametrize(("width", "dark"), [(1300, False), (400, True)])
def test_the_landing_page_is_drawn(open_page, width, dark):
    page = open_page("index.html", width=width, dark=dark)
    assert page.locator("h1").inner_text().startswith("skhash")
    assert drawn_width(page, "article img:visible") > 300
    assert page.locator("figcaption").first.is_visible()
    assert page.locator(".sd-card:visible").count() == 4
    article = page.locator(".bd-article-container")
    assert article.evaluate("it => it.scrollWidth - it.clientWidth") == 0
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, color.strip("rgb()").split(","))) < 3 * 128) == dark


def test_the_calculator_says_what_was_measured(open_page):
    page = open_page("guide/how_many_bits.html")
    rows = [line.split(" | ") for line in (SITE.parent / "results/bytes.md").open()]
    end = next(i for i, cells in enumerate(rows) if "<details>" in cells[0])
    methods = "| skhash AdditiveQuantizer", "| skhash LinearDecoder, 8-bit blocks"
    codes = [cells for cells in rows[:end] if cells[0] in methods]
    output = page.locator("output")
    page.locator("[name=rows]").fill("1000")
    for target in (90, 95, 99.9):
        page.locator("[name=target]").fill(str(target))
        enough = [cells for cells in codes if 100 * float(cells[5]) >= target]
        least = min(int(cells[2]) for cells in enough or codes)
        wanted = least if enough else max(int(cells[2]) for cells in codes)
        assert f": {wanted} bytes a vector" in output.inner_text()
        assert ("No length that was measured" in output.inner_text()) != bool(enough)
    page.locator("[name=rows]").fill("1000000000")
    assert "extrapolated to your number of vectors" in output.inner_text()


def test_words_are_found(open_page, browser):
    page = open_page("index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("spherical")
    page.keyboard.press("Enter")
    page.locator("#search-results li a", has_text="SphericalHash").first.wait_for()
    forget(browser, REFUSALS)


def test_formulas_are_set(open_page):
    page = open_page("guide/gradients.html")
    formulas = page.locator("article .math")
    formulas.first.locator("svg").wait_for()
    assert formulas.count() > 10
    for formula in formulas.all():
        assert formula.locator("svg").first.evaluate("it => it.getBBox().width") > 0
        assert "\\" not in formula.inner_text()


def test_examples_show_their_pictures(open_page):
    page = open_page("auto_examples/index.html")
    thumbnails = page.locator(".sphx-glr-thumbcontainer img")
    assert thumbnails.count() > 5
    page.locator(".sphx-glr-thumbcontainer a").first.click()
    page.wait_for_load_state()
    assert drawn_width(page, "article img.sphx-glr-single-img") > 100
