"""How Sphinx builds the documentation: ``sphinx-build -W docs docs/_build``."""

import re
import sys
from pathlib import Path

import skhash
from skhash.datasets import load_fashion_mnist

sys.path.insert(0, str(Path(__file__).parent))

project = "skhash"
author = "The skhash developers"
copyright = "The skhash developers"
version = release = skhash.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "render_results",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
# `Name` in a docstring is a link where skhash documents it, and else plain code.
default_role = "py:obj"

autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    # What every scikit-learn estimator has, in scikit-learn's words.
    "exclude-members": "get_metadata_routing, get_params, set_output, set_params, "
    "set_fit_request, set_inverse_transform_request, set_partial_fit_request, "
    "set_score_request, set_transform_request",
}
numpydoc_show_class_members = False


def _is_installed(load) -> bool:
    try:
        load()
    except FileNotFoundError:
        return False
    return True


# Without its data, this example ends itself and would end the build with it: then its
# page shows the code alone.
_SKIPPED = "" if _is_installed(load_fashion_mnist) else "(?!nearest_images)"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": f"plot_{_SKIPPED}",
    "ignore_pattern": "benchmarks|serve_http",
    "nested_sections": False,
    "within_subsection_order": "ExampleTitleSortKey",
    "backreferences_dir": "generated/examples",
    "doc_module": ("skhash",),
    "inspect_global_variables": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"skhash {version}"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "auto_examples/plot_*": []}
html_show_sourcelink = False


def _escape_shapes(app, what, name, obj, options, lines):
    """Keep ``n_features_`` in a shape from being read as a link to ``n_features``."""
    for number, line in enumerate(lines):
        if "shape (" in line:
            lines[number] = re.sub(r"(?<=\w)_(?=[,)])", r"\\_", line)


def setup(app):
    """Connect the hooks; Sphinx calls this."""
    app.connect("autodoc-process-docstring", _escape_shapes, priority=900)
