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
from skhash.auditing.choices import SEARCHES, choices_in
from skhash.auditing.peers import PEERS

BYTES = (" bytes", " kB", " MB", " GB", " TB", " PB")
# Characters of a text that are shown.
LONGEST_TEXT = 400
# How the scores of a search are shown, and their name.
SCORES = {
    "hamming": (np.asarray, "bits that differ"),
    "euclidean": (np.asarray, "estimated distance"),
    "inner_product": (lambda scores: 0.0 - scores, "estimated inner product"),
    "cosine": (lambda scores: 1.0 - scores, "estimated cosine"),
}
NO_EVIDENCE = "<p>The audit was interrupted before these were measured.</p>"
NO_CHART = (
    '<p>Charts and pictures need matplotlib: <code>pip install "scikit-hash[audit]"'
    "</code>.</p>"
)


def whole_page(
    result, image_shape, texts_of_rows, name, vectors, options, folder
) -> str:
    """Return the page of a result; see `AuditResult.to_html`."""
    from skhash import __version__

    settings = result.settings
    reasons = [
        f"Why: it is {result.reason}.",
        f"It stores {texts.stored(result)}.",
        *result.alternatives,
        texts.caution(result),
    ]
    left_out = [f"Left out: {line}." for line in result.skipped]
    return _filled(
        "page.html",
        **_shared(result),
        name=escape(name or vectors or "these vectors"),
        sortable=_read("sortable.js"),
        **_tiles(result),
        reason=_elements("li", [line.replace("+-", "±") for line in reasons]),
        distances=_distances(result),
        examples=_examples(result, image_shape, texts_of_rows),
        steps="".join(
            f"<p>{escape(what)}</p><pre><code>{escape(code)}</code></pre>"
            for what, code in _steps(result, vectors, options, folder)
        ),
        measured=_elements("p", [texts.how_measured(settings), *left_out]),
        version=__version__,
    )


def fragment(result) -> str:
    """Return the view of a notebook: sentence, chart and table, with their style."""
    return _filled("fragment.html", **_shared(result))


def _shared(result) -> dict:
    return {
        "css": _read("page.css"),
        "sentence": _sentence(result),
        "curve": _recalls(result),
        "table": _table(result),
    }


def _read(name) -> str:
    return (files("skhash.auditing") / name).read_text("utf-8")


def _filled(template, **values) -> str:
    return Template(_read(template)).substitute(values)


def _elements(tag, lines) -> str:
    return "".join(f"<{tag}>{escape(line)}</{tag}>" for line in lines)


# The recommendation


def _sentence(result) -> str:
    settings, best = result.settings, result.choice
    target, neighbors = settings["target_recall"], texts.neighbors_of(settings)
    row, maker = best.row, type(result.encoder).__name__
    code = (
        f"<strong>{escape(maker)} at {row.n_bits} bits</strong> "
        f"(<code>{escape(row.method)}</code> below), searched by {SEARCHES[row.search]}"
    )
    kept = (
        f"keeps <strong>{texts.in_bytes(row.bytes_per_vector)}</strong> of a vector in "
        f"memory instead of {settings['float_bytes_per_vector']:,}"
    )
    how = "by the codes alone"
    if result.is_reranked:
        how = f"after re-ranking {settings['rerank']} candidates by their vectors"
    # A recall that is rounded to the target does not reach it.
    digits = 4 if best.recall < target <= best.recall + 1e-3 else 1
    recall = _percent(best.recall, digits)
    finds = f"finds <strong>{recall}</strong> of the {neighbors} {how}"
    if best.recall < target:
        return (
            f"No code that was measured finds {_percent(target)} of the {neighbors}. "
            f"The nearest to it, {code}, {kept}, and {finds}."
        )
    return f"Take {code}: it {kept}, and {finds}."


def _tiles(result) -> dict[str, str]:
    """Return the costs of the recommendation, for the fields of the template."""
    settings, best = result.settings, result.choice
    floats, n = settings["float_bytes_per_vector"], settings["n_vectors"]
    size = best.row.bytes_per_vector
    ratio = floats / size
    return {
        "recall": _percent(best.recall),
        "error": _percent(2 * best.error),
        "target": _percent(settings["target_recall"]),
        "neighbors": texts.neighbors_of(settings),
        "n_bytes": f"{size:,}",
        "float_bytes": f"{floats:,}",
        "times": f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}",
        "memory": texts.short(best.memory(n), BYTES),
        "float_memory": texts.short(n * floats, BYTES),
        "speed": f"{best.row.search_per_second:,.0f}",
        **{n: f"{settings[n]:,}" for n in ("n_vectors", "n_queries", "n_database")},
        "k": f"{settings['n_neighbors']:,}",
    }


def _percent(share, digits=1) -> str:
    return f"{100 * share:.{digits}f}".removesuffix(".0") + "%"


# Chart and table


def _chart(draw, size, points=()) -> str:
    try:
        return f'<div class="chart">{chart.svg(draw, size, points)}</div>'
    except ImportError:
        return NO_CHART


def _recalls(result) -> str:
    points = []
    for is_reranked in {result.is_reranked, False}:
        for choice in choices_in(result, is_reranked):
            text = f"{choice}{', re-ranked' * is_reranked}".replace("+-", "±")
            points.append((choice.row.bytes_per_vector, choice.recall, text))
    return _chart(partial(chart.draw_recall, result), chart.FIGURE_SIZE, points)


def _table(result) -> str:
    rows = texts.cells_of(result.rows, result.settings)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "".join(
        f'<tr class="{_class_of(row, result)}">{_elements("td", cells.values())}</tr>'
        for row, cells in zip(result.rows, rows, strict=True)
    )
    return (
        f'<div class="scroll sortable" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _class_of(row, result) -> str:
    is_peer = row.method in PEERS
    return "best" if row is result.recommended else "peer" if is_peer else "own"


# Commands for the user's files


def _steps(result, vectors, options, folder) -> list[tuple[str, str]]:
    """Return the next steps: the purpose, and the command or the Python code.

    vectors, folder : str or None
        The file of the vectors, and the folder of the saved encoder.
    options : dict, those of `open_vectors`
    """
    lines, given, commands = [*result.imports], {}, []
    if folder is not None:
        vectors, path = vectors or "VECTORS.npy", f"{folder}/encoder"
        reading, given = texts.reading_of(vectors, options)
        lines = [
            reading,
            *texts.REUSING,
            "",
            f"X = {given['X']}",
            f"encoder = FrozenEstimator(load({texts.quoted(path)}))  # is not refitted",
            "queries = X[:5]  # yours",
        ]
        given |= {"X": "X", "encoder": "encoder"}
        if result.recommended.search == "hamming":
            words = ["skhash", "encode", path, vectors, "codes.npy", "--packed"]
            words += texts.flags_of(options)
            commands = [("Or encode them for another engine:", texts.command(words))]
    lines += [f"search = {result.usage_of(**given)}"]
    lines += ["distances, positions = search.kneighbors(queries)"]
    if result.is_reranked and not result.keeps_vectors:
        lines += ["# These are the candidates, to be compared by the sparse vectors."]
    return [("Search all vectors X, in Python:", "\n".join(lines)), *commands]


# Evidence


def _scores_of(result):
    """Return the function that converts scores for display, and their name."""
    by_hamming = result.recommended.search == "hamming"
    return SCORES["hamming" if by_hamming else result.settings["metric"]]


def _distances(result) -> str:
    evidence = result.evidence
    if evidence is None:
        return NO_EVIDENCE
    values_of, name = _scores_of(result)
    name = f"{name}, of {evidence.n_queries} queries"
    scores = map(values_of, (evidence.neighbor_scores, evidence.random_scores))
    return (
        f"<p>In {_percent(evidence.separation)} of all cases a true neighbour is "
        "nearer by the recommended code than a random vector: 100% would be perfect, "
        "50% is chance.</p>"
        + _chart(partial(chart.draw_scores, *scores, name), chart.SCORES_SIZE)
    )


def _examples(result, image_shape, texts_of_rows) -> str:
    if result.evidence is None:
        return NO_EVIDENCE
    show = _shower(result, image_shape, texts_of_rows)
    kind = "texts" if texts_of_rows is not None else "images" if image_shape else "rows"
    n_first = result.settings["rerank"] or result.settings["n_neighbors"]
    return (
        f"<p>Some of {result.evidence.n_queries} queries, from the best answered to "
        "the worst. A true neighbour is found where it is among the first "
        f"{n_first} by the code; its place there is below it.</p>"
        + "".join(_example(e, result, kind, show) for e in result.evidence.examples)
    )


def _example(example, result, kind, show) -> str:
    k, n_hits = result.settings["n_neighbors"], len(example.neighbors)
    values_of, name = _scores_of(result)
    hits = ""
    for hit in example.neighbors:
        mark = "found" if hit.rank else "missed"
        note = f"✓ place {hit.rank}" if hit.rank else "✗ missed"
        hits += (
            f'<figure class="hit {mark}" title="row {hit.row}: '
            f'{float(values_of(hit.score)):.4g} {name}">{show(hit.row)}'
            f"<figcaption>{note}</figcaption></figure>"
        )
    return (
        f'<article class="example {kind}"><div class="query"><h3>Query: row '
        f"{example.row}</h3>{show(example.row)}<p>{round(example.share * k)} of {k} "
        "found</p></div><div><h4>Its true neighbours"
        f"{f', the first {n_hits} of {k}' * (n_hits < k)}</h4>"
        f'<div class="hits">{hits}</div></div></article>'
    )


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
    """Return the texts of these rows, from a mapping or a sequence."""
    if isinstance(given, str):
        raise ValueError("texts must hold one text per vector, got a single string.")
    if not isinstance(given, Mapping):
        given = dict(enumerate(given))
    missing = [row for row in rows if row not in given]
    if missing:
        raise ValueError(
            f"texts has no text for row {missing[0]}, which the page shows; give one "
            "text per vector."
        )
    return {row: given[row] for row in rows}


def _shortened(text) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def check_image_shape(shape, n_features) -> tuple[int, ...]:
    """Return the shape of an image, or raise if rows do not fit it.

    Parameters
    ----------
    shape : sequence of int
        Height and width, and for colours 3 behind or before them.
    n_features : int
    """
    is_shape = isinstance(shape, tuple | list) and all(
        isinstance(size, Integral) and size > 0 for size in shape
    )
    colors = len(shape) == 3 and 3 in (shape[0], shape[-1]) if is_shape else False
    if not (is_shape and (len(shape) == 2 or colors) and np.prod(shape) == n_features):
        raise ValueError(
            f"image_shape={shape!r} is not a shape of images with {n_features:,} "
            "numbers, such as (28, 28), or (28, 28, 3) or (3, 28, 28) for colour."
        )
    return tuple(shape)


def _pictures(vectors, shape) -> dict[int, str]:
    """Return rows as images, their least value black, the greatest white."""
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
