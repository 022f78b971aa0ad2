"""The check of built sites finds what a tiny one lacks, and nothing else."""

import pytest
from built_site import broken_links, main, missing_pictures


@pytest.fixture
def site(tmp_path):
    """A site that is whole."""
    files = {
        "index.html": '<a id="here" href="a%20b.html?x=1#%C3%BC">b</a><a href="#here">'
        '<a href="https://example.org/none#none"><a href="mailto:a@b.c"><a href="#">',
        "a b.html": '<h1 id="ü">b</h1><a href="index.html#here"><a href="index.html">'
        '<script src="_static/all.js"></script>',
        "_static/all.js": "",
        "_static/template.html": '<a href="{{ path }}">',
        "auto_examples/plot_a.html": '<img src="../_images/sphx_glr_plot_a_001.png">'
        '<a href="../index.html#here">',
        "_images/sphx_glr_plot_a_001.png": "",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return tmp_path


def test_a_whole_site_lacks_nothing(site):
    assert broken_links(site) == missing_pictures(site) == []
    with pytest.raises(SystemExit, match="0|False"):
        main(site)


@pytest.mark.parametrize(
    "target",
    ["none.html", "#none", "a%20b.html#here", "_static/none.js", "_static", "/a.js"],
)
@pytest.mark.parametrize("form", ['<a href="{}">', '<img src="{}">'])
def test_broken_links_are_found(site, target, form):
    with (site / "index.html").open("a") as page:
        page.write(form.format(target))
    assert broken_links(site) == [f"index.html: {target}"]
    with pytest.raises(SystemExit, match="1|True"):
        main(site)


def test_an_example_without_a_picture_of_its_own_is_found(site):
    other = '<img src="../_images/sphx_glr_plot_a_001.png">'
    (site / "auto_examples" / "plot_b.html").write_text(other)
    assert missing_pictures(site) == ["plot_b.html"]


def test_an_empty_folder_is_no_site(tmp_path):
    with pytest.raises(SystemExit, match="no site in"):
        main(tmp_path)
