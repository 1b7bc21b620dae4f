"""Sphinx configuration of the documentation: `make docs` builds it into build/docs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))
# Notebooks are small: more threads would lose time. tqdm warns where there are no widgets.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")


import smpgnn  # noqa: E402

project = "smpgnn"
author = "The smpgnn developers"
copyright = author
version = release = smpgnn.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "command_line",
    "docstrings",
    "mathml",
    "settings_table",
]
templates_path = ["templates"]
smartquotes_action = "D"  # dashes between a parameter and its text, but no other quotes
nitpicky = True
# Annotations also name classes of other libraries, whose pages the build must not ask the network
# for, and internal classes, which have no page.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|nn|Tensor|np|numpy|pd|pandas|sklearn|collections\.abc)\b.*"),
    ("py:class", r"smpgnn\.\w+\.\w.*"),
]
default_role = "literal"
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # excerpts with … stay without colours
pygments_style, pygments_dark_style = "friendly", "github-dark"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "smpgnn"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b6ca8", "color-brand-content": "#1b6ca8"},
    "dark_css_variables": {"color-brand-primary": "#6db3e8", "color-brand-content": "#6db3e8"},
}
copybutton_exclude = ".linenos, .gp, .go"
