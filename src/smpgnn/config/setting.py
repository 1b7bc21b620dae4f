"""One setting: its default, help, choices and bounds, and how its value is checked."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from smpgnn.errors import InputError, quoted

#: Titles of the groups of settings, in the order in which the help shows them.
GROUPS = ("data", "training run", "network", "optimiser", "hardware and memory")
DATA, RUN, NETWORK, OPTIMISER, HARDWARE = GROUPS

_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt
}  # fmt: skip
_TYPES: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text"
}  # fmt: skip


def option(
    default: Any,
    group: str,
    help: str,
    choices: tuple[str, ...] = (),
    *,
    advanced: bool = False,
    flag: str = "",
    **bounds: float,
) -> Any:
    """A field of a dataclass with its help, choices and bounds: at_least, above, at_most, below.

    Only `--help-all` shows one that is `advanced`. `flag` is its flag if not that of its name.
    """
    about = {"group": group, "help": help, "choices": choices, "advanced": advanced, "flag": flag}
    return field(default=default, metadata={**about, "bounds": bounds})


#: The same for a setting that only `--help-all` shows.
advanced = partial(option, advanced=True)


@dataclass(frozen=True)
class Setting:
    """One setting; `level` is the field of the options that contains it.

    `hint` is its type: bool, int, float, str, or a tuple of texts or numbers.
    """

    name: str
    hint: Any
    default: Any
    level: str
    group: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    advanced: bool = False
    flag: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """Its flag on the command line."""
        return self.flag or "--" + self.name.replace("_", "-")

    def checked(self, value: Any, where: str) -> Any:
        """The value in the type of the setting; `where` names its origin in errors."""
        typed = self._typed(value, self.hint)
        wrong = ""
        if typed is None:
            wrong = _TYPES.get(self.hint, "a list")
            if isinstance(value, list | tuple):
                wrong = f"a list of {'numbers' if 'float' in str(self.hint) else 'texts'}"
        elif self.choices and not isinstance(typed, tuple) and typed not in self.choices:
            wrong = f"one of {', '.join(self.choices)}"
        elif self.choices and isinstance(typed, tuple) and not set(typed) <= set(self.choices):
            wrong = f"some of {', '.join(self.choices)}"
        else:
            for kind, bound in self.bounds.items():
                if not _BOUNDS[kind](typed, bound):
                    wrong = f"{kind.replace('_', ' ')} {bound}"
            if self.choices and isinstance(typed, tuple):  # a set of names, in one order
                typed = tuple(choice for choice in self.choices if choice in typed)
        if wrong:
            shown = value if typed is None else typed
            raise InputError(f"{where}: {self.name} must be {wrong}, not {quoted(shown)}.")
        return typed

    def _typed(self, value: Any, hint: Any) -> Any:
        """The value in this type; None if it does not fit."""
        if hint is bool:
            return value if isinstance(value, bool) else None
        if hint is int:
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        if hint is float:
            return _number(value)
        if hint is str:
            value = "none" if value is None and "none" in self.choices else value
            value = os.fspath(value) if isinstance(value, os.PathLike) else value
            return value if isinstance(value, str) and _is_text(value) else None
        values = [value] if isinstance(value, str | float | int) else value
        if not isinstance(values, list | tuple):
            return None
        kind = float if "float" in str(hint) else str
        typed = tuple(self._typed(entry, kind) for entry in values)
        return None if None in typed else typed


def _number(value: Any) -> float | None:
    """A finite number; YAML reads 1e-3 as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # not a number, or an integer of 400 digits
        return None
    return number if math.isfinite(number) else None


def _is_text(value: str) -> bool:
    """Whether a text can be written to a file and be a file name."""
    try:
        value.encode()
    except UnicodeEncodeError:  # the command line contained bytes that are not UTF-8
        return False
    return "\0" not in value
