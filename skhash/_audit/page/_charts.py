"""Charts as SVG: places in per cent, so that they stretch and their letters do not."""

from html import escape

import numpy as np

from skhash._audit._peers import PEERS
from skhash._audit._result import SEARCHES, choices_of
from skhash._audit._words import percent, point_lines

# What marks a point, drawn about (0, 0).
SHAPES = {
    "hamming": '<circle r="5"/>',
    "asymmetric": '<path d="M-6 0 0-6 6 0 0 6z"/>',
    "peer": '<path d="M-4-4h8v8h-8z"/>',
}
N_BINS = 40
# Room at both ends of the bytes, as a factor, and above a recall of 1, as a share.
MARGIN, HEADROOM = 1.35, 0.04


def curve(result, rescored) -> str:
    """Draw the recall of every measured search against its bytes of a vector."""
    choices = choices_of(result.rows, rescored)
    target = result.settings["target_recall"]
    axes = _Axes(
        [choice.n_bytes for choice in choices],
        [target, *(choice.recall for choice in choices)],
    )
    parts = [axes.grid(), _target(axes, target)]
    for group in _groups(choices):
        parts.append(_line(axes, group, "pale"))
    own = [choice for choice in choices if choice.row.method not in PEERS]
    for search in SEARCHES:
        of_search = [choice for choice in own if choice.search == search]
        parts.append(_line(axes, _best_of_sizes(of_search), search))
    parts += [_point(axes, choice, result, rescored) for choice in _drawn(choices)]
    ends = {group[-1].row.method: group[-1] for group in _groups(choices)}
    parts += [_peer_name(axes, end) for name, end in ends.items() if name in PEERS]
    if rescored == result.is_rescored:
        parts.append(_recommendation(axes, result.choice))
    label = f"Recall against bytes of a vector: {len(choices)} points"
    return _svg("".join(parts), label, "curve")


class _Axes:
    """Where bytes and recalls lie, in per cent from the upper left corner."""

    def __init__(self, sizes, recalls):
        # Of a single size too they differ.
        ends = min(sizes) / MARGIN, max(sizes) * MARGIN
        self._left, self._right = np.log2(ends)
        self._low = min(0.8, np.floor(5 * min(recalls)) / 5)

    def x(self, n_bytes) -> float:
        share = (np.log2(n_bytes) - self._left) / (self._right - self._left)
        return round(100 * float(share), 2)

    def y(self, recall) -> float:
        share = (1 - recall) / (1 - self._low)
        return round(100 * float(HEADROOM + (1 - HEADROOM) * share), 2)

    def grid(self) -> str:
        parts = []
        n_steps = int(round((1 - self._low) * (5 if self._low < 0.6 else 10)))
        for recall in np.linspace(self._low, 1, n_steps + 1):
            y = self.y(recall)
            parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}%" y2="{y}%"/>')
            parts.append(
                f'<text class="tick" x="0" y="{y}%" dx="-8" dy=".35em" '
                f'text-anchor="end">{percent(recall, 0)}</text>'
            )
        powers = range(int(np.ceil(self._left)), int(self._right) + 1)
        for power in powers:
            parts.append(
                f'<text class="tick" x="{self.x(2.0**power)}%" y="100%" dy="20" '
                f'text-anchor="middle">{2.0**power:g}</text>'
            )
        return "".join(parts)


def _target(axes, target) -> str:
    y = axes.y(target)
    return (
        f'<line class="target" x1="0" x2="100%" y1="{y}%" y2="{y}%"/>'
        f'<text class="tick" x="100%" y="{y}%" dy="-5" text-anchor="end">target '
        f"{percent(target)}</text>"
    )


def _groups(choices):
    """Return the choices of each method and search, by their bytes."""
    groups = {}
    for choice in sorted(choices, key=lambda choice: choice.n_bytes):
        groups.setdefault((choice.row.method, choice.search), []).append(choice)
    return groups.values()


def _best_of_sizes(choices):
    best = {}
    for choice in sorted(choices, key=lambda choice: choice.recall):
        best[choice.n_bytes] = choice
    return sorted(best.values(), key=lambda choice: choice.n_bytes)


def _line(axes, choices, name) -> str:
    points = [(axes.x(one.n_bytes), axes.y(one.recall)) for one in choices]
    return "".join(
        f'<line class="line {name}" x1="{a}%" y1="{b}%" x2="{c}%" y2="{d}%"/>'
        for (a, b), (c, d) in zip(points[:-1], points[1:], strict=True)
    )


def _drawn(choices):
    """Return the choices in the order of drawing: other engines below."""
    return sorted(choices, key=lambda one: (one.row.method not in PEERS, one.n_bytes))


def _point(axes, choice, result, rescored) -> str:
    kind = "peer" if choice.row.method in PEERS else choice.search
    lines = point_lines(choice, result, rescored)
    best = " best" if choice == result.choice else ""
    return (
        f'<svg class="at" x="{axes.x(choice.n_bytes)}%" y="{axes.y(choice.recall)}%">'
        f'<g class="point {kind}{best}">{_title(lines)}{SHAPES[kind]}</g></svg>'
    )


def _title(lines) -> str:
    return f"<title>{escape(chr(10).join(lines))}</title>"


def _peer_name(axes, choice) -> str:
    x, y = axes.x(choice.n_bytes), axes.y(choice.recall)
    return (
        f'<text class="name" x="{x}%" y="{y}%" dx="7" dy="14">'
        f"{escape(choice.row.method)}</text>"
    )


def _recommendation(axes, choice) -> str:
    """Draw a ring around the recommendation and its name below, inside the axes."""
    x, y = axes.x(choice.n_bytes), axes.y(choice.recall)
    side = {"start": 12, "end": -12}
    anchor = "end" if x > 50 else "start"
    row = choice.row
    return (
        f'<circle class="ring" cx="{x}%" cy="{y}%" r="10"/>'
        f'<text class="choice" x="{x}%" y="{y}%" dx="{side[anchor]}" dy="26" '
        f'text-anchor="{anchor}">{escape(row.method)}, {row.n_bits} bits</text>'
    )


def histogram(evidence, values_of, name) -> str:
    """Draw how scores of true neighbours and of random pairs are distributed.

    values_of : callable
        Turns scores into what is shown, called `name`.
    """
    scores = evidence.neighbor_scores, evidence.random_scores
    near, drawn = (values_of(values) for values in scores)
    edges = _edges(np.concatenate([near, drawn]))
    shares = [np.histogram(values, edges)[0] / len(values) for values in (near, drawn)]
    top = max(share.max() for share in shares)
    width = round(100 / (len(edges) - 1), 3)
    parts = []
    for number, pair in enumerate(zip(*shares, strict=True)):
        x = round(number * 100 / (len(edges) - 1), 3)
        lines = [
            f"{_bin_name(edges, number)} {name}",
            f"{percent(pair[0])} of true neighbours",
            f"{percent(pair[1])} of random pairs",
        ]
        bars = "".join(
            f'<rect class="{kind}" x="{x}%" width="{width}%" '
            f'y="{100 - 100 * share / top:.2f}%" height="{100 * share / top:.2f}%"/>'
            for kind, share in (("drawn", pair[1]), ("near", pair[0]))
        )
        parts.append(
            f'<g class="bin">{_title(lines)}{bars}<rect class="whole" x="{x}%" '
            f'width="{width}%" y="0" height="100%"/></g>'
        )
    return _svg("".join(parts) + _bin_ticks(edges), f"Histogram: {name}", "histogram")


def _edges(values) -> np.ndarray:
    """Return the edges of bins: about whole numbers where all values are such."""
    low, high = float(values.min()), float(values.max())
    if (values == np.round(values)).all():
        step = max(1, int(np.ceil((high - low + 1) / N_BINS)))
        return np.arange(low, high + step + 1, step) - 0.5
    return np.linspace(low, high, N_BINS + 1)


def _bin_name(edges, number) -> str:
    low, high = edges[number : number + 2]
    if low % 1 == 0.5 and high % 1 == 0.5:
        low, high = low + 0.5, high - 0.5
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{low:.3g} to {high:.3g}"


def _bin_ticks(edges) -> str:
    whole = edges[0] % 1 == 0.5
    parts = []
    for number in np.unique(np.linspace(0, len(edges) - 2, 6).astype(int)):
        middle = (edges[number] + edges[number + 1]) / 2
        text = f"{edges[number] + 0.5:g}" if whole else f"{middle:.3g}"
        x = 100 * (number + 0.5) / (len(edges) - 1)
        parts.append(
            f'<text class="tick" x="{x:.2f}%" y="100%" dy="20" text-anchor="middle">'
            f"{text}</text>"
        )
    return "".join(parts)


def _svg(content, label, name) -> str:
    return (
        f'<div class="chart {name}"><svg role="group" aria-label="{escape(label)}">'
        f"{content}</svg></div>"
    )
