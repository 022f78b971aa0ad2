"""Found and missed neighbours of some queries, as pictures, texts or row numbers."""

from collections.abc import Mapping
from html import escape

from skhash._audit._words import scores_of
from skhash._audit.page._png import check_image_shape, images

# Characters of a text that are shown.
LONGEST_TEXT = 400


def examples(result, image_shape=None, texts=None) -> str:
    """Return the examples of a result, each an article."""
    show = _shower(result, image_shape, texts)
    kind = "texts" if texts is not None else "images" if image_shape else "rows"
    values_of, name = scores_of(result)
    k = result.settings["k"]

    def hit(one, mark, note):
        score = f"{float(values_of(one.score)):.4g} {name}"
        rank = f"place {one.rank}" if one.rank else "beyond the candidates"
        return (
            f'<figure class="hit {mark}" title="row {one.row}: {score}, {rank}">'
            f"{show(one.row)}<figcaption>{note}</figcaption></figure>"
        )

    def hits(title, ones, describe):
        first = f", the first {len(ones)} of {k}" if len(ones) < k else ""
        shown = "".join(hit(one, *describe(one)) for one in ones)
        return f'<h4>{title}{first}</h4><div class="hits">{shown}</div>'

    def article(example):
        answers = hits("What the search answers", example.answers, _of_answer)
        if _rows(example.answers) == _rows(example.neighbors):
            answers = "<h4>The search answers just these, in this order.</h4>"
        return (
            f'<article class="example {kind}"><div class="query"><h3>Query: row '
            f"{example.row}</h3>{show(example.row)}<p>{round(example.share * k)} of "
            f"{k} found</p></div><div>"
            f"{hits('Its true neighbours', example.neighbors, _of_neighbor)}{answers}"
            "</div></article>"
        )

    return "".join(map(article, result.evidence.examples))


def _rows(hits) -> list[int]:
    return [hit.row for hit in hits]


def _of_neighbor(hit) -> tuple[str, str]:
    if hit.rank is None:
        return "missed", "✗ missed"
    return "found", f"✓ place {hit.rank}"


def _of_answer(hit) -> tuple[str, str]:
    return ("found", "✓ true") if hit.is_true else ("other", "another")


def _shower(result, image_shape, texts):
    """Return what shows a row as HTML."""
    if texts is not None:
        chosen = _texts_of(texts, result.evidence.rows)
        return lambda row: f"<p>{escape(_shortened(chosen[row]))}</p>"
    if image_shape is None:
        return lambda row: f"<p>row {row}</p>"
    vectors = result.evidence.vectors
    shape = check_image_shape(image_shape, result.settings["n_features"])
    if vectors is None:
        return lambda row: f"<p>row {row}</p>"
    pictures = images(vectors, shape)
    height, width = shape[1:] if len(shape) == 3 and shape[-1] != 3 else shape[:2]
    return lambda row: (
        f'<img src="{pictures[row]}" width="{width}" height="{height}" alt="row {row}">'
    )


def _texts_of(texts, rows) -> dict[int, str]:
    """Return the texts of these rows, by position where it is no mapping."""
    if isinstance(texts, str):
        raise ValueError("texts must hold a text for each vector; got a single one.")
    if not isinstance(texts, Mapping):
        texts = dict(enumerate(texts))
    missing = [row for row in rows if row not in texts]
    if missing:
        raise ValueError(
            f"texts has none for row {missing[0]}, which the page shows; it takes a "
            "text for each vector."
        )
    return {row: texts[row] for row in rows}


def _shortened(text) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"
