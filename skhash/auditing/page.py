"""The page of an audit: one HTML file that needs no network.

All that comes from users or their files is escaped where it is written.
"""

import base64
import io
from collections.abc import Mapping
from functools import partial
from html import escape
from importlib.resources import files
from numbers import Integral
from string import Template

import numpy as np

from skhash.auditing import chart, texts
from skhash.auditing.peers import PEERS
from skhash.auditing.result import choices_of

# Characters of a text that are shown.
LONGEST_TEXT = 400
NO_EVIDENCE = "<p>The audit was interrupted before these were measured.</p>"
NO_CHART = (
    '<p>Charts and pictures need matplotlib: <code>pip install "scikit-hash[audit]"'
    "</code>.</p>"
)


def page(result, image_shape, texts_of_rows, name, vectors, folder) -> str:
    """Return the whole page of a result; see `AuditResult.to_html`."""
    from skhash import __version__

    return _template("page.html").substitute(
        **_shared(result),
        name=escape(name or vectors or "these vectors"),
        sortable=_read("sortable.js"),
        **texts.tiles(result),
        reason=_reason(result),
        distances=_distances(result),
        examples=_examples(result, image_shape, texts_of_rows),
        steps=_steps(result, vectors, folder),
        measured=_measured(result),
        version=__version__,
    )


def fragment(result) -> str:
    """Return what a notebook shows: sentence, chart and table, with their own style."""
    return _template("fragment.html").substitute(_shared(result))


def _shared(result) -> dict:
    return {
        "css": _read("page.css"),
        "sentence": texts.sentence(result),
        "curve": _recalls(result),
        "table": _table(result),
    }


def _read(name) -> str:
    return (files("skhash.auditing") / name).read_text("utf-8")


def _template(name) -> Template:
    return Template(_read(name))


def _reason(result) -> str:
    lines = [
        f"Why: it is {result.reason}.",
        f"It stores {texts.stored(result)}.",
        texts.at_scale(result),
        *result.alternatives,
        texts.caution(result.settings),
    ]
    return "".join(f"<li>{escape(line.replace('+-', '±'))}</li>" for line in lines)


def _chart(draw, size, points=()) -> str:
    try:
        return f'<div class="chart">{chart.svg(draw, size, points)}</div>'
    except ImportError:
        return NO_CHART


def _recalls(result) -> str:
    stages = {result.is_rescored, False}
    points = [
        (one.n_bytes, one.recall, texts.point_text(one, result, rescored))
        for rescored in stages
        for one in choices_of(result.rows, rescored)
    ]
    return _chart(partial(chart.draw_recall, result), chart.FIGURE_SIZE, points)


def _table(result) -> str:
    has_labels = any(row.mean_average_precision is not None for row in result.rows)
    rows = texts.cells_of(result.rows, result.settings, has_labels)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "".join(
        f"<tr{_class_of(row, result)}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells.values())
        + "</tr>"
        for row, cells in zip(result.rows, rows, strict=True)
    )
    return (
        f'<div class="scroll sortable" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _class_of(row, result) -> str:
    if row is result.recommended:
        return ' class="best"'
    return ' class="peer"' if row.method in PEERS else ""


def _distances(result) -> str:
    evidence = result.evidence
    if evidence is None:
        return NO_EVIDENCE
    values_of, name = texts.scores_of(result)
    name = f"{name}, of {evidence.n_queries} queries"
    scores = map(values_of, (evidence.neighbor_scores, evidence.random_scores))
    return (
        f"<p>In {texts.percent(evidence.separation)} of all cases a true neighbour is "
        "nearer by the recommended code than a random vector: 100% would be perfect, "
        "50% is chance.</p>"
        + _chart(partial(chart.draw_scores, *scores, name), chart.SCORES_SIZE)
    )


def _steps(result, vectors, folder) -> str:
    return "".join(
        f"<p>{escape(what)}</p><pre><code>{escape(code)}</code></pre>"
        for what, code in texts.steps(result, vectors, folder)
    )


def _measured(result) -> str:
    lines = [
        texts.how_measured(result.settings),
        *(f"Left out: {line}." for line in result.skipped),
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


# Examples


def _examples(result, image_shape, texts_of_rows) -> str:
    if result.evidence is None:
        return NO_EVIDENCE
    show = _shower(result, image_shape, texts_of_rows)
    kind = "images" if image_shape else "rows"
    kind = kind if texts_of_rows is None else "texts"
    return (
        f"<p>Some of {result.evidence.n_queries} queries, from the best answered to "
        "the worst. A true neighbour is found where it is among the first "
        f"{result.settings['rescore']} by the code; its place there is below it.</p>"
        + "".join(_example(one, result, kind, show) for one in result.evidence.examples)
    )


def _example(example, result, kind, show) -> str:
    k = result.settings["k"]
    values_of, name = texts.scores_of(result)

    def hit(one, mark, note):
        score = f"{float(values_of(one.score)):.4g} {name}"
        return (
            f'<figure class="hit {mark}" title="row {one.row}: {score}">'
            f"{show(one.row)}<figcaption>{note}</figcaption></figure>"
        )

    def hits(title, ones, describe):
        first = f", the first {len(ones)} of {k}" if len(ones) < k else ""
        shown = "".join(hit(one, *describe(one)) for one in ones)
        return f'<h4>{title}{first}</h4><div class="hits">{shown}</div>'

    answers = hits("Answers of the search", example.answers, _of_answer)
    rows, others = (
        [one.row for one in it] for it in (example.answers, example.neighbors)
    )
    if rows == others:
        answers = "<h4>The search answers just these, in this order.</h4>"
    return (
        f'<article class="example {kind}"><div class="query"><h3>Query: row '
        f"{example.row}</h3>{show(example.row)}<p>{round(example.share * k)} of {k} "
        f"found</p></div><div>"
        f"{hits('Its true neighbours', example.neighbors, _of_neighbor)}{answers}"
        "</div></article>"
    )


def _of_neighbor(hit) -> tuple[str, str]:
    if hit.rank is None:
        return "missed", "✗ missed"
    return "found", f"✓ place {hit.rank}"


def _of_answer(hit) -> tuple[str, str]:
    return ("found", "✓ true") if hit.is_true else ("other", "another")


def _shower(result, image_shape, texts_of_rows):
    """Return a function that shows a row as HTML: its text, its picture, its number."""
    evidence = result.evidence
    if texts_of_rows is not None:
        chosen = _texts_of(texts_of_rows, evidence.rows)
        return lambda row: f"<p>{escape(_shortened(chosen[row]))}</p>"
    pictures = {}
    if image_shape is not None:
        shape = check_image_shape(image_shape, result.settings["n_features"])
        if evidence.vectors is not None:
            pictures = _pictures(evidence.vectors, shape)
    return lambda row: pictures.get(row, f"<p>row {row}</p>")


def _texts_of(given, rows) -> dict[int, str]:
    """Return the texts of these rows, by position where it is no mapping."""
    if isinstance(given, str):
        raise ValueError("texts must hold a text for each vector; got a single one.")
    if not isinstance(given, Mapping):
        given = dict(enumerate(given))
    missing = [row for row in rows if row not in given]
    if missing:
        raise ValueError(
            f"texts has none for row {missing[0]}, which the page shows; give a text "
            "for each vector."
        )
    return {row: given[row] for row in rows}


def _shortened(text) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def check_image_shape(shape, n_features) -> tuple[int, ...]:
    """Return the shape of an image, or raise where rows are none of that shape.

    Parameters
    ----------
    shape : sequence of int
        Height and width, and for colours 3 behind or before them.
    n_features : int
    """
    is_shape = (
        isinstance(shape, tuple | list)
        and all(isinstance(size, Integral) and size > 0 for size in shape)
        and (len(shape) == 2 or (len(shape) == 3 and 3 in (shape[0], shape[-1])))
    )
    if not is_shape:
        raise ValueError(
            f"image_shape={shape!r} is no height and width, such as (28, 28), and no "
            "(28, 28, 3) or (3, 28, 28) of colours."
        )
    if np.prod(shape) != n_features:
        raise ValueError(
            f"An image of shape {'x'.join(map(str, shape))} has {np.prod(shape):,} "
            f"numbers, and the vectors have {n_features:,}."
        )
    return tuple(shape)


def _pictures(vectors, shape) -> dict[int, str]:
    """Return rows as images: from the least of their values, black, to the greatest."""
    try:
        from matplotlib.image import imsave
    except ImportError:
        return {}
    values = np.array(list(vectors.values()), dtype=np.float64)
    low, high = values.min(), values.max()
    levels = np.round(255 * (values - low) / ((high - low) or 1)).astype(np.uint8)
    levels = levels.reshape(-1, *shape)
    if len(shape) == 3 and shape[-1] != 3:
        levels = np.moveaxis(levels, 1, -1)
    result = {}
    for row, pixels in zip(vectors, levels, strict=True):
        file = io.BytesIO()
        imsave(file, pixels, cmap="gray", vmin=0, vmax=255, format="png")
        data, (height, width) = base64.b64encode(file.getvalue()), pixels.shape[:2]
        result[row] = (
            f'<img src="data:image/png;base64,{data.decode()}" width="{width}" '
            f'height="{height}" alt="row {row}">'
        )
    return result
