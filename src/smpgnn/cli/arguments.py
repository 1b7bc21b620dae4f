"""Command-line options from the fields of a dataclass; errors in one sentence."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Sequence
from textwrap import fill, wrap
from typing import Any, NoReturn

from smpgnn.config.options import DEVICES, TrainOptions
from smpgnn.config.setting import GROUPS, Setting
from smpgnn.config.settings import Options, settings
from smpgnn.errors import InputError, nearest, quoted
from smpgnn.pretrained import NAMES

#: Help text of --data-dir.
DATA_DIR = "folder of the benchmark data; default: SMPGNN_DATA, else a cache"
#: Longest list of choices that is shown in place of a value; longer ones go into the help text.
_LONGEST_CHOICES = 40
_METAVARS = {int: "N", float: "X", str: "NAME"}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions but not examples, and does not break names at their hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else fill(text, width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)


class _HelpAll(argparse.Action):
    """Print the help with all options and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        print(parser.format_help(everything=True), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser that raises `InputError` instead of printing its usage and exiting.

    `--help` leaves out the options in `advanced`; `--help-all`, which exists where there are any,
    shows them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Formatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self.advanced: list[argparse.Action] = []
        # older versions of Python mistake -1e-3 for an option
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")

    def add_help_all(self) -> None:
        """Add the option --help-all, beside --help."""
        self._optionals.title = "help"
        text = "show all options and exit"
        self.add_argument("--help-all", nargs=0, action=_HelpAll, help=text)

    def format_help(self, everything: bool = False) -> str:
        """The help text; -h and --help-all come last."""
        self._action_groups.sort(key=lambda group: group is self._optionals)
        hidden = [] if everything else [(action, action.help) for action in self.advanced]
        for action, _ in hidden:
            action.help = argparse.SUPPRESS
        text = super().format_help()
        for action, help in hidden:
            action.help = help
        if hidden:
            text += f"\n{self.prog} --help-all shows {len(hidden)} more options.\n"
        return text

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message} (see {self.prog} --help).")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like `argparse`, but '-output=FILE' is not read as '-o utput=FILE'."""
        for word in args or ():
            if word == "--":
                break
            if not word.startswith("--") and f"-{word.split('=')[0]}" in self._long:
                self.refuse_unknown([word])
        return super().parse_known_args(args, namespace)

    @property
    def _long(self) -> list[str]:
        names = [name for action in self._actions for name in action.option_strings]
        return [name for name in names if name.startswith("--")]

    def refuse_unknown(self, unknown: list[str]) -> None:
        """Refuse unknown arguments and suggest the most similar option."""
        if not unknown:
            return
        word = unknown[0].split("=")[0]
        near = nearest(word, self._long) if word.startswith("-") else None
        hint = f"did you mean {near}?" if near else f"see {self.prog} --help."
        raise InputError(f"{self.prog}: unknown argument {quoted(word)}: {hint}")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option whose value is an integer in this range."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} to {most}, not {quoted(text)}"
            )
        return value

    return read


def add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "run",
        metavar="RUN",
        help=f"run folder, model file, or a pretrained model ({', '.join(NAMES)})",
    )


def add_inputs(parser: Parser, more: str = "", **several: Any) -> None:
    """Add a model and the data to apply it to; `nargs` says that there may be several tables."""
    data = parser.add_argument_group("model and data")
    add_model(data)
    text = f"table, SDF or Mol file, or graphs{more}"
    data.add_argument("data", metavar="DATA", help=text, **several)
    add_table_format(data)


def add_table_format(group: argparse._ArgumentGroup) -> None:
    """Add the options that say how to read a table of SMILES."""
    group.add_argument(
        "--smiles-column", metavar="NAME", help="column of the SMILES; default: as in training"
    )
    group.add_argument(
        "--separator", metavar="CHAR", help="separator of a CSV file; default: detected"
    )


def add_output(parser: Parser, help: str) -> argparse._ArgumentGroup:
    """Add --output in a group, and return the group."""
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE", required=True, help=help)
    return group


def add_device(parser: Parser) -> argparse._ArgumentGroup:
    """Add --device in a group, and return the group."""
    group = parser.add_argument_group("hardware")
    group.add_argument("--device", choices=DEVICES, default="auto", help="where to run")
    return group


def add_options(parser: Parser, kind: type[TrainOptions]) -> dict[str, argparse._ArgumentGroup]:
    """Add an option for each setting, in titled groups, and return the groups by title.

    --batch-size stands for batch_size, --no-residual for residual=False; `path` is positional.
    """
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    for setting in sorted(settings(kind).values(), key=lambda setting: _depth(kind, setting)):
        action = _add(groups[setting.group], setting)
        if setting.advanced:
            parser.advanced.append(action)
    return groups


def add_settings(group: argparse._ArgumentGroup, kind: type[Options]) -> None:
    """Add an option for each setting, all in one group."""
    for setting in settings(kind).values():
        _add(group, setting)


def _depth(kind: type[TrainOptions], setting: Setting) -> int:
    """How far up in the hierarchy a setting was declared first: the task's own come first."""
    return max(
        n for n, base in enumerate(kind.__mro__) if setting.level in inspect.get_annotations(base)
    )


def _add(group: argparse._ArgumentGroup, setting: Setting) -> argparse.Action:
    text, hint = setting.help, setting.hint
    if setting.name == "path":
        return group.add_argument("path", nargs="?", default="", help=text)
    arguments: dict[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS}
    if hint is bool:
        arguments["action"] = argparse.BooleanOptionalAction
    else:
        several = hint not in _METAVARS  # a tuple
        kind = hint if not several else float if "float" in str(hint) else str
        arguments |= {"type": kind, "metavar": _METAVARS[kind]}
        if several:
            arguments["nargs"] = "+"
        if setting.choices:
            arguments["choices"] = setting.choices
            shown = ",".join(setting.choices)
            if several or len(shown) > _LONGEST_CHOICES:
                text += f": {', '.join(setting.choices)}"
            else:
                arguments["metavar"] = "{" + shown + "}"
    text += _shown_default(setting.default)
    return group.add_argument(setting.option, help=text.replace("%", "%%"), **arguments)


def _shown_default(value: Any) -> str:
    if isinstance(value, bool):
        text = "on" if value else "off"
    else:
        text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f" (default: {text})" if text else ""
