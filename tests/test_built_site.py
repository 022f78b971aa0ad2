"""The check of built sites finds what a tiny one lacks, and nothing else."""

import pytest
from built_site import broken_links, missing_pictures

FILES = {
    "index.html": '<a id="here" href="a%20b.html?x=1#%C3%BC">b</a><a href="#here">'
    '<a href="https://example.org/none#none"><a href="mailto:a@b.c"><a href="#">',
    "a b.html": '<h1 id="ü">b</h1><a href="index.html#here"><a href="index.html">',
    "_static/template.html": '<a href="{{ path }}">',
    "auto_examples/plot_a.html": '<img src="../sphx_glr_plot_a_001.png">',
    "sphx_glr_plot_a_001.png": "",
}
BROKEN = ["none.html", "#none", "a%20b.html#here", "_static", "/a.js"]


@pytest.mark.parametrize("target", ["", *BROKEN])
@pytest.mark.parametrize("form", ['<a href="{}">', '<img src="{}">'])
def test_broken_links_and_missing_pictures_are_found(tmp_path, target, form):
    other = {"auto_examples/plot_b.html": FILES["auto_examples/plot_a.html"]}
    for name, content in (FILES | other).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        last = form.format(target) if name == "index.html" else ""
        path.write_text(content + last, encoding="utf-8")
    assert broken_links(tmp_path) == [f"index.html: {target}"] * bool(target)
    assert missing_pictures(tmp_path) == ["plot_b.html"]
