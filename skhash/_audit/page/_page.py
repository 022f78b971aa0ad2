"""The page and the fragment, put together."""

from html import escape
from importlib.resources import files
from string import Template

from skhash._audit import _words
from skhash._audit._columns import columns_of
from skhash._audit._peers import PEERS
from skhash._audit.page import _charts
from skhash._audit.page._examples import examples
from skhash._audit.page._recipe import steps

SEPARATION = (
    "In {share} of all cases a true neighbour is nearer by the recommended code than a "
    "random vector: 100% would be perfect, 50% is chance."
)


def page(
    result, *, image_shape=None, texts=None, name=None, vectors=None, folder=None
) -> str:
    """Return the whole page of a result; see `AuditResult.to_html`."""
    name = name or vectors or "these vectors"
    return _template("page.html").substitute(
        name=escape(name),
        css=_read("page.css"),
        scripts=_read("sortable.js") + _read("page.js"),
        summary=_summary(result),
        reason=_reason(result),
        curves=_curves(result),
        table=_table(result),
        meanings=_meanings(result),
        distances=_distances(result),
        examples=_examples(result, image_shape, texts),
        steps=_steps(result, vectors, folder),
        measured=_measured(result),
        version=_version(),
    )


def fragment(result) -> str:
    """Return what a notebook shows: sentence, curve and table, with their own style."""
    return _template("fragment.html").substitute(
        css=_read("page.css"),
        sentence=_words.sentence(result),
        curve=_charts.curve(result, result.is_rescored),
        key=_key(),
        table=_table(result),
    )


def _read(name) -> str:
    return (files("skhash._audit.page") / name).read_text("utf-8")


def _template(name) -> Template:
    return Template(_read(name))


def _version() -> str:
    from skhash import __version__

    return __version__


def _summary(result) -> str:
    tiles = "".join(
        f'<div class="tile"><p><b>{number}</b> {unit}</p><small>{meaning}</small></div>'
        for number, unit, meaning in _words.tiles(result)
    )
    return (
        f'<p class="sentence">{_words.sentence(result)}</p>'
        f'<div class="tiles">{tiles}</div>'
    )


def _reason(result) -> str:
    lines = [
        f"Why: it is {result.reason}.",
        f"It stores {_words.stored(result)}.",
        _words.at_scale(result),
        *result.alternatives,
        _words.caution(result.settings),
    ]
    return "".join(f"<li>{escape(line.replace('+-', '±'))}</li>" for line in lines)


def _key() -> str:
    names = {
        "hamming": "by Hamming distance",
        "asymmetric": "by real queries",
        "peer": "other engines",
    }
    marks = "".join(
        f'<li><svg class="mark" viewBox="-8 -8 16 16"><g class="point {kind}">'
        f"{_charts.SHAPES[kind]}</g></svg>{name}</li>"
        for kind, name in names.items()
    )
    return f'<ul class="key">{marks}</ul>'


def _curves(result) -> str:
    """Return the curve, and where there is re-scoring the one without behind it."""
    if not result.is_rescored:
        return _key() + _charts.curve(result, False)
    rescore = result.settings["rescore"]
    names = {
        True: f"the first {rescore} candidates ranked again by the float vectors",
        False: "the codes alone",
    }
    buttons = "".join(
        f'<input type="radio" name="stage" id="stage-{int(stage)}"'
        f'{" checked" if stage else ""}><label for="stage-{int(stage)}">{name}</label>'
        for stage, name in names.items()
    )
    charts = "".join(
        f'<div class="stage-{int(stage)}">{_charts.curve(result, stage)}</div>'
        for stage in names
    )
    return f'<div class="stages">{buttons}{_key()}{charts}</div>'


def _columns(result):
    has_labels = any(row.mean_average_precision is not None for row in result.rows)
    settings = result.settings
    return columns_of(settings["k"], settings["rescore"], has_labels)


def _table(result) -> str:
    columns = _columns(result)
    head = "".join(
        f'<th scope="col" title="{escape(column.meaning)}">{escape(column.name)}</th>'
        for column in columns
    )
    body = "".join(
        f"<tr{_class_of(row, result)}>"
        + "".join(f"<td>{escape(column.write(row))}</td>" for column in columns)
        + "</tr>"
        for row in result.rows
    )
    return (
        f'<div class="scroll sortable" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _class_of(row, result) -> str:
    if row is result.recommended:
        return ' class="best"'
    return ' class="peer"' if row.method in PEERS else ""


def _meanings(result) -> str:
    return "".join(
        f"<dt>{escape(column.name)}</dt><dd>{escape(column.meaning)}</dd>"
        for column in _columns(result)
    )


def _distances(result) -> str:
    if result.evidence is None:
        return "<p>The audit was interrupted before these were measured.</p>"
    values_of, name = _words.scores_of(result)
    share = _words.percent(result.evidence.separation)
    return (
        f"<p>{SEPARATION.format(share=share)}</p>"
        '<ul class="key"><li><i class="near"></i>true neighbours</li>'
        '<li><i class="drawn"></i>random pairs</li></ul>'
        f"{_charts.histogram(result.evidence, values_of, name)}"
        f'<p class="axis">{name}, of {result.evidence.n_queries} queries</p>'
    )


def _examples(result, image_shape, texts) -> str:
    if result.evidence is None:
        return "<p>The audit was interrupted before these were measured.</p>"
    shown = examples(result, image_shape, texts)
    return (
        f"<p>Some of {result.evidence.n_queries} queries, from the best answered to "
        "the worst. A true neighbour is found where it is among the first "
        f"{result.settings['rescore']} by the code; its place there is below it.</p>"
        + shown
    )


def _steps(result, vectors, folder) -> str:
    return "".join(
        f"<p>{escape(what)}</p><pre><code>{escape(code)}</code></pre>"
        for what, code in steps(result, vectors, folder)
    )


def _measured(result) -> str:
    lines = [
        _words.how_measured(result.settings),
        *(f"Left out: {line}." for line in result.skipped),
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
