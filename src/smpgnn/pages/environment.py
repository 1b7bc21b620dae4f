"""The Jinja environment of all pages."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from smpgnn.pages import words
from smpgnn.pages.charts import svg


def environment(*packages: str) -> Environment:
    """Templates of some packages, then those that all pages share."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "smpgnn.pages")]),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {one.__name__: one for one in (svg, *words.FILTERS)}
    return made
