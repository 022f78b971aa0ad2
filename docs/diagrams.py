"""Diagrams of the guide, for light and dark pages: ``python docs/diagrams.py``."""

from pathlib import Path

import numpy as np

from skhash.metrics import mean_average_precision_score

IMAGES = Path(__file__).parent / "images"
# Of text, remarks, lines, a bit that is 1, and one that is 0.
LIGHT = ("#222832", "#5c6773", "#48566b", "#d62839", "#c3ccd6")
DARK = ("#ced6dd", "#9ca4af", "#9ca4af", "#e5566d", "#48566b")
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" \
font-family="system-ui, sans-serif" font-size="15">
<style>
  text {{ fill: {0} }} .title {{ font-weight: 600 }}
  .mute {{ fill: {1}; font-size: 13px }}
  .box {{ fill: none; stroke: {2}; stroke-width: 1.5 }}
  .one {{ fill: {3} }} .zero {{ fill: {4} }}
</style>
"""


def bits(values, x, y, step=20):
    """Return a row of bits as squares."""
    return "".join(
        f'<rect class="{"one" if value else "zero"}" x="{x + step * i}" y="{y}" '
        f'width="{step - 4}" height="16"/>'
        for i, value in enumerate(values)
    )


def text(words, x, y, kind="", anchor="start"):
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def box(x, y, width, height):
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect class="box" {place} rx="4"/>'


def packing():
    """Ten bits as bytes, the first bit highest, and lowest."""
    code = [1, 0, 0, 1, 1, 0, 1, 0, 1, 1]
    yield text("ten bits", 30, 43, "title") + bits(code, 220, 30)
    for y, order, words in (
        (80, "big", "the first bit is the highest: here, NumPy, sentence-transformers"),
        (150, "little", "the first bit is the lowest: faiss"),
    ):
        packed = np.packbits(code, bitorder=order)
        yield text(order, 30, y + 13, "title")
        for i, byte in enumerate(packed):
            x = 220 + 240 * i
            yield box(x - 8, y - 6, 172, 28)
            yield bits([byte >> place & 1 for place in range(7, -1, -1)], x, y)
            yield text(byte, x + 174, y + 13)
        yield text(words, 220, y + 40, "mute")


def ties():
    """Ten codes at one distance, in three orders."""
    query, database = np.zeros((1, 8)), np.zeros((10, 8))
    for row, (ties, words, order) in enumerate(
        [
            ("best", "relevant codes first", [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
            ("worst", "relevant codes last", [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]),
            ("expected", "the mean of all orders", [0, 1, 0, 0, 1, 0, 0, 0, 1, 0]),
        ]
    ):
        y = 30 + 45 * row
        score = mean_average_precision_score(query, database, [1], order, ties=ties)
        yield text(ties, 30, y + 13, "title") + bits(order, 150, y, 32)
        yield text(f"{words}: {score:.2f}", 500, y + 13, "mute")


DIAGRAMS = {"packing": (packing, 210), "ties": (ties, 160)}


def main(folder=IMAGES):
    for name, (draw, height) in DIAGRAMS.items():
        for ending, colors in (("", LIGHT), ("-dark", DARK)):
            head = HEAD.format(*colors, height=height)
            svg = head + "\n".join(draw()) + "\n</svg>\n"
            (folder / f"{name}{ending}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
