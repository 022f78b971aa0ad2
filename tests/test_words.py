"""Pages, docstrings and messages have no phrases that are translated word by word."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Folders below docs/ that scripts and Sphinx write.
WRITTEN = {"results", "_build", "generated", "auto_examples"}
PHRASES = (
    *(r"\bin sum\b", r"\bneeds? not\b", r"\bmend(s|ed|ing)?\b", r"\banew\b"),
    *(r"\bdiffer much\b", r"\bare no error\b", r"\bsome (tens|hundred|thousand)s?\b"),
    *(r"\bfrom (there|then|now|here) on\b", r"\bk among k\b", r"\bone may\b"),
    *(r"\bfrom \S*\d\S* (\w+ )?on\b(?! (a|an|the|one|two)\b)", r"\bin so many\b"),
    *(r"\bgo(es|ne) on from\b", r"\breal quer", r"quantis"),
    *(r"\bas long as the fits\b", r"\bof unit length but for\b", "cannot be told"),
)
# A phrase may be on two lines, also of a comment.
BAD = re.compile("|".join(PHRASES).replace(" ", r"[\s#]+"), re.IGNORECASE)
CODE = re.compile(
    r"```.*?```|``.+?``|`[^`]+`|^ *(?:>>>|\.\.\.) [^\n]*$"
    r"|(?:^ *\.\. code-block::[^\n]*|::)\n(?:\n| +[^\n]*\n)+",
    re.DOTALL | re.MULTILINE,
)


def pages():
    docs = [*(ROOT / "docs").rglob("*.rst"), *(ROOT / "docs").rglob("*.md")]
    for path in [*ROOT.glob("*.md"), *docs, *(ROOT / "examples").glob("*.py")]:
        if not WRITTEN & {*path.relative_to(ROOT).parts}:
            yield path, 1, path.read_text(encoding="utf-8")


def sources():
    for path in (ROOT / "skhash").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for line, text in texts(node):
                yield path, line, text


def texts(node):
    """Yield the line and text of a public docstring, and those of messages."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        if not getattr(node, "name", "").startswith("_") and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node)
    call = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Raise) or (call and ast.unparse(call).endswith("warn")):
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


def test_no_phrase_is_translated_word_by_word():
    found = set()
    for path, first, text in [*pages(), *sources()]:
        prose = CODE.sub(lambda code: re.sub(r"[^\n]", "~", code[0]), text)
        for match in BAD.finditer(prose):
            line = first + prose.count("\n", 0, match.start())
            found.add(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    assert not found, "\n".join(["Say these in plain English:", *sorted(found)])
