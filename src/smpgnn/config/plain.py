"""Convert plain values from a JSON file to frozen dataclasses and check their types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from smpgnn.errors import InputError

Made = TypeVar("Made")


def from_plain(kind: type[Made], values: Any, where: str) -> Made:
    """Build the dataclass `kind` from a mapping of its fields; `where` names it in errors.

    Lists become tuples. Unknown keys, missing keys, values of another type and numbers that are
    not finite are refused. What is already a `kind` stays as it is.
    """
    if isinstance(values, kind):
        return values
    if not isinstance(values, Mapping):
        raise InputError(f"{where} must be an object, not {_shown(values)}")
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for name in values:
        if name not in known:
            raise InputError(f"{where} has an unknown key {_shown(name)}")
    for name, entry in known.items():
        needed = entry.default is MISSING and entry.default_factory is MISSING
        if needed and name not in values:
            raise InputError(f"{where} has no '{name}'")
    made = {name: _value(hints[name], value, f"{where}.{name}") for name, value in values.items()}
    return kind(**made)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        (rest,) = (entry for entry in inner if entry is not NoneType)
        return _value(rest, value, where)
    if origin is Literal:
        fits = isinstance(value, str) and value in inner
    elif origin is tuple:
        fits = isinstance(value, list | tuple)
        if fits and inner[-1] is not Ellipsis:
            fits = len(value) == len(inner)
        if fits:
            kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(_value(kind, entry, f"{where}[{n}]") for n, (kind, entry) in pairs)
    elif origin is dict:
        fits = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
        if fits:
            return {
                name: _value(inner[1], entry, f"{where}.{name}") for name, entry in value.items()
            }
    elif hint is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and abs(value) < 1e300 and math.isfinite(value)
    elif hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, hint)
    if not fits:
        raise InputError(f"{where} is {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
