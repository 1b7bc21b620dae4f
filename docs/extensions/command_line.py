"""Pages of the command-line reference, one per verb, written from the parser before each build."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING

from smpgnn.cli.arguments import Parser
from smpgnn.cli.main import build_parser

if TYPE_CHECKING:  # the test of these pages does not need Sphinx
    from sphinx.application import Sphinx

FOLDER = "reference/commands"


def text(words: str | None) -> str:
    """Plain text as reStructuredText, with options and commands as literals."""
    escaped = re.sub(r"([\\*_`|<>])", r"\\\1", (words or "").replace("%%", "%"))
    return re.sub(
        r"(?<![\w-])--[a-z][\w\\-]*", lambda found: f"``{found[0].replace(chr(92), '')}``", escaped
    )


def children(parser: argparse.ArgumentParser) -> Iterator[tuple[Parser, str]]:
    """The verbs below a parser, each with its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            yield from ((below, helps.get(name, "")) for name, below in action.choices.items())


def name_of(parser: argparse.ArgumentParser) -> str:
    """The name of a verb's page: `train-molecules` for `smpgnn train molecules`."""
    return "-".join(words_of(parser)[1:]) or "index"


def words_of(parser: argparse.ArgumentParser) -> list[str]:
    return [word for word in parser.prog.split() if re.fullmatch(r"[a-z][a-z_-]*", word)]


def option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """One option as a directive."""
    formatter = parser._get_formatter()
    value = formatter._format_args(action, action.metavar or action.dest.upper())
    if action.option_strings:
        names = [f"{name} {value}".strip() for name in action.option_strings]
    else:
        names = [str(action.metavar or action.dest)]
    body = text(action.help)
    if not action.option_strings and action.choices:
        body += f": {', '.join(map(str, action.choices))}"
    return f".. option:: {', '.join(names)}\n\n{indent(body, '   ')}\n"


def groups(parser: Parser) -> Iterator[str]:
    """The options by group; those that only --help-all shows stand below the others."""
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.help is not argparse.SUPPRESS
            and not isinstance(action, argparse._SubParsersAction)
            and not {"--help", "--help-all"} & set(action.option_strings)
        ]
        if not actions:
            continue
        yield f".. rubric:: {(group.title or '').capitalize()}\n"
        yield from (option(parser, one) for one in actions if one not in parser.advanced)
        rare = [one for one in actions if one in parser.advanced]
        if rare:
            yield "Shown by ``--help-all``:\n"
            yield from (option(parser, one) for one in rare)


def epilog(words: str) -> Iterator[str]:
    """Paragraphs; lines below a title that ends with a colon are a block."""
    for part in re.split(r"\n\s*\n", words):
        title, _, rest = part.partition("\n")
        if rest and title.endswith(":"):
            lines = indent(dedent(rest), "   ")
            yield f".. rubric:: {title[:-1].capitalize()}\n\n.. code-block:: none\n\n{lines}\n"
        else:
            yield f"{text(part)}\n"


def page(parser: Parser) -> str:
    """The page of a verb, with links to the verbs below it."""
    title = " ".join(words_of(parser))
    usage = parser.format_usage().removeprefix("usage: ").strip()
    parts = [f"{title}\n{'=' * len(title)}\n", f"{text(parser.description)}\n"]
    parts += [f".. program:: {title}\n", f".. code-block:: none\n\n{indent(usage, '   ')}\n"]
    below = list(children(parser))
    if below:
        rows = [
            f"   * - :doc:`{' '.join(words_of(one))} </{FOLDER}/{name_of(one)}>`\n"
            f"     - {text(help)}"
            for one, help in below
        ]
        parts.append(".. list-table::\n\n" + "\n".join(rows) + "\n")
        names = "\n".join(f"   /{FOLDER}/{name_of(one)}" for one, _ in below)
        parts.append(f".. toctree::\n   :hidden:\n\n{names}\n")
    parts += [*groups(parser), *epilog(parser.epilog or "")]
    return "\n".join(parts)


def pages(parser: Parser) -> Iterator[tuple[str, str]]:
    """Name and text of the pages of a parser and of all verbs below it."""
    yield name_of(parser), page(parser)
    for below, _ in children(parser):
        yield from pages(below)


def write(folder: Path) -> None:
    """Write the pages that have changed, and remove those of verbs that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {folder / f"{name}.rst": words for name, words in pages(build_parser())}
    for path in set(folder.glob("*.rst")) - set(new):
        path.unlink()
    for path, words in new.items():
        if not path.exists() or path.read_text(encoding="utf-8") != words:
            path.write_text(words, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write(Path(app.srcdir) / FOLDER))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
