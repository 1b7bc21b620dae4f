"""The page of all settings, written from the options of each task before each build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import text

from smpgnn.config.options import TASKS
from smpgnn.config.setting import GROUPS, Setting
from smpgnn.config.settings import settings

if TYPE_CHECKING:  # the test of this page does not need Sphinx
    from sphinx.application import Sphinx

FILE = "reference/settings.rst"
TITLE = "All settings"


def shown(value: Any) -> str:
    """A default as YAML would have it."""
    if isinstance(value, bool):
        return f"``{str(value).lower()}``"
    if isinstance(value, tuple):
        return f"``[{', '.join(map(str, value))}]``"
    return f"``{value}``" if value != "" else ""


def default(by_task: dict[str, Setting]) -> str:
    """The default; tasks with another one are named."""
    values = [shown(one.default) for one in by_task.values()]
    usual = max(values, key=values.count)
    others: dict[str, list[str]] = {}
    for task, value in zip(by_task, values, strict=True):
        if value != usual:
            others.setdefault(value or "empty", []).append(task)
    parts = [f"{value} ({', '.join(tasks)})" for value, tasks in others.items()]
    return "; ".join([usual or "empty", *parts] if parts else [usual])


def row(name: str, by_task: dict[str, Setting]) -> str:
    task, one = next(iter(by_task.items()))
    flag = name if name == "path" else one.option
    about = text(one.help)
    if one.choices:
        about += ": " + ", ".join(f"``{choice}``" for choice in one.choices)
    tasks = "all" if len(by_task) == len(TASKS) else ", ".join(by_task)
    cells = [f":option:`{name} <smpgnn train {task} {flag}>`", about, default(by_task), tasks]
    return "   * - " + "\n     - ".join(cells)


def page() -> str:
    """One table for each group of settings."""
    found: dict[str, dict[str, dict[str, Setting]]] = {group: {} for group in GROUPS}
    for task, kind in TASKS.items():
        for name, one in settings(kind).items():
            found[one.group].setdefault(name, {})[task] = one
    parts = [f"{TITLE}\n{'=' * len(TITLE)}\n"]
    parts.append(
        "Names as in YAML files and in Python; each links to its flag on the command line. Where a "
        "task has another default, it is named. Written from ``smpgnn.config``.\n"
    )
    for group, rows in found.items():
        heading = group.capitalize()
        parts += [
            f"{heading}\n{'-' * len(heading)}\n",
            ".. list-table::\n   :header-rows: 1\n   :widths: 20 45 20 15\n",
            "   * - setting\n     - meaning\n     - default\n     - tasks",
            *(row(name, by_task) for name, by_task in rows.items()),
            "",
        ]
    return "\n".join(parts)


def write(path: Path) -> None:
    words = page()
    if not path.exists() or path.read_text(encoding="utf-8") != words:
        path.write_text(words, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write(Path(app.srcdir) / FILE))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
