"""How Sphinx builds the documentation: ``sphinx-build -W docs docs/_build``."""

import importlib.util
import logging
import re
import sys
from pathlib import Path
from pydoc import locate

from docutils import nodes
from sklearn.datasets import load_digits
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

import skhash

sys.path.insert(0, str(Path(__file__).parent))
from measured import byte_codes  # noqa: E402

project = "skhash"
author = "The skhash developers"
copyright = "The skhash developers"
version = release = skhash.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
]
# Pages include what benchmarks have written.
exclude_patterns = ["_build", "results"]
templates_path = ["_templates"]
# `Name` in a docstring is a link where skhash documents it, and else plain code.
default_role = "py:obj"

autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    # In every scikit-learn estimator, and in scikit-learn's words.
    "exclude-members": "get_metadata_routing, get_params, set_output, set_params, "
    "set_fit_request, set_inverse_transform_request, set_partial_fit_request, "
    "set_score_request, set_transform_request",
}
# Docstrings say the types.
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "ignore_pattern": "benchmarks|integrations|serve_http",
    "nested_sections": False,
    "within_subsection_order": "story_order.StoryOrder",
    "backreferences_dir": "generated/examples",
    "doc_module": ("skhash",),
    "inspect_global_variables": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
}

# Where there is a network, names of other projects are links; see `_is_offline`.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", None),
    "numpy": ("https://numpy.org/doc/stable/", None),
    "scipy": ("https://docs.scipy.org/doc/scipy/", None),
    "sklearn": ("https://scikit-learn.org/stable/", None),
    "skorch": ("https://skorch.readthedocs.io/en/stable/", None),
    "torch": ("https://docs.pytorch.org/docs/stable/", None),
    "matplotlib": ("https://matplotlib.org/stable/", None),
}
intersphinx_timeout = 10

# Formulas are drawn without a network, by one file without fonts.
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
mathjax_path = "tex-svg.js"

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"skhash {version}"
(_sortable,) = Path(skhash.__file__).parent.rglob("sortable.js")
html_static_path = [
    "_static",
    str(_sortable),
    str(_mathjax / "static" / "mathjax" / mathjax_path),
]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {"text": "skhash"},
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
# Wide pages: what is beside the others here is on the page that links them.
html_sidebars = {
    name: [] for name in ("index", "api", "generated/*", "auto_examples/*")
}
html_show_sourcelink = False


def _escape_names(app, what, name, obj, options, lines):
    """Keep names from being read as markup.

    ``n_features_`` in a shape is no link to ``n_features``, and the initial that an
    author's name begins with does not begin a list.
    """
    for number, line in enumerate(lines):
        if "shape (" in line:
            line = re.sub(r"(?<=\w)_(?=[,)])", r"\\_", line)
        lines[number] = re.sub(r"^( *[A-Za-z])\.(?= |$)", r"\1\\.", line)


class DarkPictures(SphinxTransform):
    """Show NAME-dark.svg in place of NAME.svg on dark pages, where there is one."""

    default_priority = 10

    def apply(self, **options):
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for picture in list(self.document.findall(nodes.image)):
            name = picture["uri"].replace(".svg", "-dark.svg")
            path = Path(__file__).parent / name[1:] if name[0] == "/" else folder / name
            if name != picture["uri"] and path.is_file():
                dark = picture.copy()
                dark["uri"] = name
                dark["classes"] = [*picture["classes"], "only-dark"]
                picture["classes"] = [*picture["classes"], "only-light"]
                picture.parent.insert(picture.parent.index(picture) + 1, dark)


def _find_elsewhere(app, env, node, content):
    """Link a public name to the page of the same object under another module."""
    name, found = node.get("reftarget", ""), None
    if name.startswith("skhash."):
        found = locate(name)
    for other, entry in env.get_domain("py").objects.items() if found else ():
        is_same = other.rpartition(".")[2] == name.rpartition(".")[2]
        if is_same and locate(other) is found:
            place = entry.docname, entry.node_id
            return make_refnode(app.builder, node["refdoc"], *place, content)
    return None


def _unlink_recalls(app, doctree):
    """Keep a recall such as 10@100 from being an address of mail."""
    for link in list(doctree.findall(nodes.reference)):
        if re.fullmatch(r"mailto:\d+@\d+", link.get("refuri", "")):
            link.replace_self(link.children)


def _make_sortable(app, doctree):
    """Let readers sort the tables of benchmarks, as those of an audit's report."""
    if app.env.docname.startswith("benchmarks/"):
        for table in doctree.findall(nodes.table):
            table["classes"].append("sortable")


def _fill_in(app, page, template, context, doctree):
    """Give the calculator what was measured."""
    if page == "guide/how_many_bits":
        context["body"] = context["body"].replace("MEASURED", byte_codes())


def _write_report(app, error):
    """Write the report that pages embed: an audit of digits, as ``--out`` writes it."""
    if error is None and app.builder.name == "html":
        settings = {"n_bits": [16, 32, 64], "methods": ["bytes", "itq", "sign"]}
        result = skhash.audit(load_digits().data, **settings)
        page = result.to_html(image_shape=(8, 8))
        Path(app.outdir, "report.html").write_text(page, "utf-8")


def _skip_torch(app, what, name, obj, skip, options):
    """Leave out what torch gives its modules: fifty methods, its words on forward."""
    of_torch = (getattr(obj, "__module__", None) or "").startswith("torch.")
    return True if of_torch or name == "forward" and not obj.__doc__ else None


def _is_offline(record) -> bool:
    """Say whether a warning is that documentation of others cannot be reached."""
    return "failed to reach any of the inventories" in record.msg


def setup(app):
    """Connect the hooks; Sphinx calls this."""
    intersphinx = logging.getLogger("sphinx.sphinx.ext.intersphinx")
    intersphinx.addFilter(lambda record: not _is_offline(record))
    app.add_transform(DarkPictures)
    app.connect("missing-reference", _find_elsewhere)
    app.connect("doctree-read", _unlink_recalls)
    app.connect("doctree-read", _make_sortable)
    app.add_js_file(_sortable.name)
    app.connect("html-page-context", _fill_in)
    app.connect("build-finished", _write_report)
    app.connect("autodoc-skip-member", _skip_torch)
    app.connect("autodoc-process-docstring", _escape_names, priority=900)
