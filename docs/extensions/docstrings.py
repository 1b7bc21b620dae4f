"""Docstrings with `Args:` sections, read by napoleon; those of properties are plain text.

Napoleon itself would take the words before a colon in a property's docstring for its type. Options
get the help text of each of their settings.
"""

from __future__ import annotations

from typing import Any

from command_line import text
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

from smpgnn.config.settings import Options, settings


def arguments(kind: type[Options]) -> list[str]:
    """An `Args:` section with the settings of these options; nested ones have their own page."""
    found = ["", "Args:"]
    for one in settings(kind).values():
        if one.level == one.name:
            choices = f": {', '.join(map(repr, one.choices))}" if one.choices else ""
            found.append(f"    {one.name}: {text(one.help)}{choices}.")
    return found


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "class" and isinstance(obj, type) and issubclass(obj, Options):
        lines.extend(arguments(obj))
    if what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
