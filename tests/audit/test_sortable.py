"""Tables that sort themselves, in a real browser."""

import random
from importlib.resources import files

SCRIPT = files("skhash.auditing") / "sortable.js"
# Each list in the order that its cells have to take; "-" and "" are empty.
ORDERS = {
    "numbers": ["-1,000", "−2.5", "0.41", "9", "10", "1,234", "2e4"],
    "shares": ["7%", "79%", "100%"],
    "times": ["3 µs", "20 ms", "0.41 s", "2 s ± 1", "5 min"],
    "sizes": ["512", "1.5k", "2 KiB", "98.6k", "2.1 GB"],
    "texts": ["apple", "Pear", "pear 2", "pear 10"],
    "mixed": ["2", "16+8", "exact", "-"],
    "empty": ["1", "-", "–", ""],
}


def table_of(cells, before="", after=""):
    """Return a page with a table as Sphinx writes it, the cells in a second column."""
    rows = "".join(
        f'<tr class="row-odd"><td><p>{number}</p></td><td><p>{cell}</p></td></tr>'
        for number, cell in enumerate(cells)
    )
    head = "<thead><tr><th><p>no</p></th><th><p>what</p></th></tr></thead>"
    return f"{before}<table{after}>{head}<tbody>{rows}</tbody></table>"


def open_tables(browser, tmp_path, html):
    path = tmp_path / "page.html"
    script = f"<script>{SCRIPT.read_text('utf-8')}</script>"
    path.write_text(f'<meta charset="utf-8">{script}{html}', "utf-8")
    return browser.open(path)


def shown(page):
    return page.locator("td:nth-child(2)").all_text_contents()


def test_columns_sort_by_what_they_hold(browser, tmp_path):
    for name, ordered in ORDERS.items():
        cells = random.Random(0).sample(ordered, len(ordered))
        html = table_of(cells, before='<div class="sortable">')
        page = open_tables(browser, tmp_path, html)
        assert shown(page) == cells
        header = page.locator("th:nth-child(2)")
        header.click()
        n_full = len([cell for cell in ordered if cell not in ("-", "–", "")])
        empty = [cell for cell in cells if cell in ("-", "–", "")]
        assert shown(page) == ordered[:n_full] + empty, name
        assert header.get_attribute("aria-sort") == "ascending"
        assert page.locator("th:nth-child(1)").get_attribute("aria-sort") == "none"
        header.click()
        if name != "mixed":  # there numbers stay before texts
            assert shown(page) == ordered[:n_full][::-1] + empty, name
        assert header.get_attribute("aria-sort") == "descending"
        # Rows moved whole: the first column still numbers the cells.
        numbers = page.locator("td:nth-child(1)").all_text_contents()
        assert [cells[int(number)] for number in numbers] == shown(page)
        page.close()
