"""How Sphinx makes the site of build/docs/source, where ``build.py`` has put it together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from docutils import nodes

from gradwright import __version__

HERE = Path(__file__).parent

project, author, release = "gradwright", "the gradwright authors", __version__
copyright = "the gradwright authors, Apache-2.0"
extensions = ["myst_nb"]
exclude_patterns = ["_kernel"]
default_role = "code"
highlight_language = "text"
nitpicky = True
smartquotes = False  # dashes and quotes stay as they were written
toc_object_entries = not tags.has("quick")  # noqa: F821 - each page takes 0.5 s to copy them all

# -- pages and notebooks -----------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # a page may begin below a chapter of another

# The kernel shows widgets and plots in a way that needs no kernel afterwards.
os.environ["JUPYTER_PATH"] = os.pathsep.join(
    [str(HERE / "_kernel"), os.environ.get("JUPYTER_PATH", "")]
)
nb_kernel_rgx_aliases = {".*": "gradwright-site"}
nb_execution_mode = "cache"
# Four tutorials are enough for views, exercises and an op of one's own to be seen.
LEFT = ["further/*", "tutorials/0[234689]*"]
nb_execution_excludepatterns = LEFT if tags.has("quick") else []  # noqa: F821 - Sphinx has it
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, Any] = {}  # else every page asks a CDN for what none shows

# -- looks: nothing comes from elsewhere ---------------------------------------------------------

ACCENTED = ("color-brand-primary", "color-brand-content", "color-api-name", "color-api-pre-name")
html_theme = "furo"
html_title = "gradwright"
html_static_path = ["_static"]
html_extra_path: list[str] = ["_pictures"]  # beside the pages that show them
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # pages opened from a folder may not fetch what they would quote
html_theme_options = {
    "light_css_variables": dict.fromkeys(ACCENTED, "#0b6b50"),
    "dark_css_variables": dict.fromkeys(ACCENTED, "#5cc9a7"),
}
html_math_renderer = "text"  # formulas are text; MathJax would come from a CDN


def needs(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give pages with plots the library that draws them: 4 MB that the others do without."""
    if 'class="site-plot"' in context.get("body", ""):
        app.add_js_file("plotly.min.js", priority=400)


def as_text(self: Any, node: Any) -> None:
    """Write a formula as it stands."""
    self.body.append(self.encode(node.astext()))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Connect what the settings cannot say."""
    app.add_html_math_renderer("text", inline_renderers=(as_text, None))
    app.connect("html-page-context", needs)
