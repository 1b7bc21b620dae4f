"""One value of a setting: its type, choices and bounds, checked with one sentence as error."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

from smpgnn.errors import InputError, quoted

#: Bounds by the name under which a field has them, and how a message says them.
BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "at_least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "at_most": ("at most", operator.le),
    "below": ("below", operator.lt),
}
_TYPES: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text"
}  # fmt: skip


def checked(
    name: str,
    value: Any,
    hint: Any,
    where: str,
    *,
    choices: tuple[str, ...] = (),
    bounds: Mapping[str, float] | None = None,
) -> Any:
    """The value as the type `hint`; raises `InputError` if it does not fit.

    Args:
        name: of the setting.
        hint: bool, int, float, str, or a tuple of texts or numbers.
        where: the origin of the value, for the message.
        choices: the allowed texts.
        bounds: limits by their names in `BOUNDS`.
    """
    value = _typed(name, value, hint, where, none="none" in choices)
    if choices and value not in choices:
        raise InputError(
            f"{where}: {name} must be one of {', '.join(choices)}, not {quoted(value)}."
        )
    for kind, bound in (bounds or {}).items():
        words, holds = BOUNDS[kind]
        if not holds(value, bound):
            raise InputError(f"{where}: {name} must be {words} {bound}, not {quoted(value)}.")
    return value


def _typed(name: str, value: Any, hint: Any, where: str, *, none: bool = False) -> Any:
    wrong = InputError(
        f"{where}: {name} must be {_TYPES.get(hint, 'a list')}, not {quoted(value)}."
    )
    if hint is bool:
        fits = isinstance(value, bool)
    elif hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif hint is float:
        value = _number(value)
        fits = value is not None
    elif hint is str:
        value = "none" if value is None and none else value
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        fits = isinstance(value, str) and _is_text(value)
    else:
        value = [value] if isinstance(value, str | float | int) else value
        fits = isinstance(value, list | tuple)
        if fits:
            item = float if "float" in str(hint) else str
            value = tuple(_typed(name, entry, item, where) for entry in value)
    if not fits:
        raise wrong
    return value


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
