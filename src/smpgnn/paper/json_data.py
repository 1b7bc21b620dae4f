"""Dataclasses as JSON: lists stand for tuples, and null for numbers that JSON lacks."""

from __future__ import annotations

import json
import math
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from smpgnn.errors import InputError


def built(kind: Any, value: Any) -> Any:
    """A value of JSON in a type: a dataclass, a list or tuple, one of them or None, or plain."""
    if get_origin(kind) is UnionType:
        return None if value is None else built(get_args(kind)[0], value)
    if get_origin(kind) in (list, tuple):
        entry = get_args(kind)[0]
        if entry is float:  # long curves
            return get_origin(kind)(math.nan if one is None else one for one in value)
        return get_origin(kind)(built(entry, one) for one in value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: built(hints[name], entry) for name, entry in value.items()})
    return math.nan if kind is float and value is None else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def plain(value: Any) -> Any:
    """A value for JSON: null for infinity and NaN."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """What a file contains, in a type; None if there is no file."""
    if not path.exists():
        return None
    try:
        return built(kind, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: cannot be read: {remedy}.") from error
