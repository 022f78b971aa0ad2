"""A real browser for tests of pages: Chromium without a window and without a network.

The fixture `browser` skips the test where there is none, and says what to install.
"""

import contextlib
import os
import shutil

import pytest

INSTALL = (
    "no browser: pip install playwright, and apt-get install chromium or "
    "playwright install chromium"
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """Opens files; `complaints` is what their pages print, miss or ask of the net."""

    def __init__(self, chromium):
        self._chromium = chromium
        self.complaints = []

    def open(self, path, *, width=1300, dark=False):
        """Return the page of a file, drawn `width` pixels wide."""
        page = self._chromium.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
        )
        complain = self.complaints.append
        page.on("console", lambda message: complain(f"console: {message.text}"))
        page.on("pageerror", lambda error: complain(f"error: {error}"))
        page.on("requestfailed", lambda request: complain(f"missing: {request.url}"))
        page.route(lambda url: url.startswith("http"), lambda route: route.abort())
        page.goto(path.resolve().as_uri(), wait_until="load")
        return page


@contextlib.contextmanager
def started():
    """Start Chromium, the system's or playwright's own; skip the test without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason=INSTALL)
    with playwright.sync_playwright() as engines:
        path = next(filter(None, map(shutil.which, _NAMES)), None)
        path = path or engines.chromium.executable_path
        if not os.path.exists(path):
            pytest.skip(INSTALL)
        chromium = engines.chromium.launch(executable_path=path)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
