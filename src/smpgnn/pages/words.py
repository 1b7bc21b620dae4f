"""Numbers and names as text: filters that all pages share."""

from __future__ import annotations

import math
from typing import Any


def number(value: float, digits: int) -> str:
    """A number with a proper minus sign; a network beyond float32 is an overflow."""
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else "overflow"


def short(value: float, digits: int = 4) -> str:
    """A number with so many significant digits and a proper minus sign."""
    return f"{value:.{digits}g}".replace("-", "−")


def setting(value: Any) -> str:
    """A setting or a measured value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return ", ".join(setting(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def sentence(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


FILTERS = (number, short, setting, sentence)
