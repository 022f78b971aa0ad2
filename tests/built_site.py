"""Find faults of a built site: ``python tests/built_site.py docs/_build``.

It prints links to nowhere inside the site and examples without a picture, and ends with
1 where there are any, or where there is no site.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The targets of a page's links, pictures and scripts, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.anchors = [], {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        self.targets += [own[name] for name in ("href", "src") if own.get(name)]
        self.anchors |= {own.get("id"), own.get("name")}


def broken_links(site):
    """Return a line for each link to a file or an anchor that is not there."""
    site, broken = Path(site).resolve(), []
    files = [
        path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts
    ]
    pages = {path: Page(path) for path in files}
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            link = urlsplit(target)
            if link.scheme or link.netloc:
                continue
            file = path.parent.joinpath(unquote(link.path)).resolve()
            file = file if link.path else path
            anchors = pages[file].anchors if file in pages else None
            lost = anchors is not None and unquote(link.fragment) not in anchors
            if lost or not file.is_file():
                broken.append(f"{path.relative_to(site)}: {target}")
    return broken


def missing_pictures(site):
    """Return the pages of examples without their own picture.

    Their thumbnails are those that sphinx-gallery takes where it has none.
    """
    return [
        path.name
        for path in sorted(Path(site).glob("auto_examples/plot_*.html"))
        if not any(f"sphx_glr_{path.stem}_0" in name for name in Page(path).targets)
    ]


def main(site):
    if not list(Path(site).glob("*.html")):
        sys.exit(f"no site in {site}")
    complaints = [f"broken link in {line}" for line in broken_links(site)]
    complaints += [f"no picture in {name}" for name in missing_pictures(site)]
    print("\n".join(complaints) or f"{site}: every link and picture is there")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main(sys.argv[1])
