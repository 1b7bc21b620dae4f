"""Options of a dataclass as options of the command line; errors in one sentence."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, NoReturn, get_type_hints

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError, nearest, quoted


class Parser(argparse.ArgumentParser):
    """A parser that raises `InputError` instead of printing its usage and leaving."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        # older versions of Python take -1e-3 for an option
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message} (see {self.prog} --help).")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As `argparse` does it, but '-output=FILE' is not taken for '-o utput=FILE'."""
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
        """Refuse what was not understood, with the nearest option that there is."""
        if not unknown:
            return
        word = unknown[0].split("=")[0]
        near = nearest(word, self._long) if word.startswith("-") else None
        hint = f"did you mean {near}?" if near else f"see {self.prog} --help."
        raise InputError(f"{self.prog}: unknown argument {quoted(word)}: {hint}")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that is a whole number of this range."""

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


def add_options(parser: Parser, kind: type[TrainOptions], leave_out: tuple[str, ...] = ()) -> None:
    """An option for each field: --batch-size for batch_size, --no-residual for residual=False."""
    hints = get_type_hints(kind)
    own = set(inspect.get_annotations(kind))
    groups = {
        True: parser.add_argument_group(f"options of {kind.task_name()}"),
        False: parser.add_argument_group("options of every training"),
    }
    for entry in fields(kind):
        if entry.name not in leave_out:
            _add(groups[entry.name in own], entry, hints[entry.name])


def _add(group: argparse._ArgumentGroup, entry: Field[Any], hint: Any) -> None:
    default = entry.default if entry.default is not MISSING else ""
    shown = " ".join(str(v) for v in default) if isinstance(default, tuple) else str(default)
    text = entry.metadata["help"] + (f" (default: {shown})" if shown else "")
    arguments: dict[str, Any] = {
        "dest": entry.name,
        "default": argparse.SUPPRESS,
        "help": text.replace("%", "%%"),
    }
    choices = entry.metadata["choices"]
    if hint is bool:
        arguments["action"] = argparse.BooleanOptionalAction
    elif hint in (int, float, str):
        arguments["type"] = hint
        arguments["metavar"] = {int: "N", float: "X", str: "NAME"}[hint]
        if choices:
            arguments["choices"] = choices
            arguments["metavar"] = "{" + ",".join(choices) + "}"
    else:
        arguments["nargs"] = "+"
        arguments["type"] = float if "float" in str(hint) else str
        arguments["metavar"] = "X" if "float" in str(hint) else "NAME"
    group.add_argument("--" + entry.name.replace("_", "-"), **arguments)
