"""A Sphinx extension: figures of ``docs/results`` in the pages of the guide.

The role ``:measured:`knn.ratio | .1f``` is what an expression comes to, written as
`format` has it. The directive ``.. measured:: rerank.searches | bits, 10@10`` is a
table, or those columns of it, with the command, the machine and the date below it.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]
SORTABLE = ROOT / "skhash" / "auditing" / "sortable.js"
sys.path.insert(0, str(ROOT / "examples" / "benchmarks"))
import pages  # noqa: E402


def measured(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Write a figure."""
    return [nodes.Text(pages.Results().figure(text))], []


class Measured(SphinxDirective):
    """Write a table and, in small print, where its numbers are from."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        results = pages.Results()
        table = results.table(self.arguments[0])
        rows = [list(table.formats), *map(table.cells, table.rows)]
        lines = [".. list-table::", "   :header-rows: 1", "   :class: sortable", ""]
        for row in rows:
            # 10@10 is no address to write to, and "q. error" begins no list.
            row = [re.sub(r"@|(?<=^[a-z])\.", r"\\\g<0>", cell) for cell in row]
            lines += ["   * - " + row[0], *("     - " + cell for cell in row[1:])]
        result = results[self.arguments[0].partition(".")[0]]
        commands = ", ".join(f"``{command}``" for command in result.content["commands"])
        lines += ["", f"{commands}. *{result.line()}*"]
        return self.parse_text_to_nodes("\n".join(lines))


def make_sortable(app, doctree):
    """Let readers sort the tables of benchmarks, as those of an audit's report."""
    if app.env.docname.startswith("benchmarks/"):
        for table in doctree.findall(nodes.table):
            table["classes"].append("sortable")


def setup(app):
    """Connect role, directive and tables; Sphinx calls this."""
    app.add_role("measured", measured)
    app.add_directive("measured", Measured)
    app.connect("config-inited", lambda _, c: c.html_static_path.append(str(SORTABLE)))
    app.add_js_file(SORTABLE.name)
    app.connect("doctree-read", make_sortable)
    return {"parallel_read_safe": True}
