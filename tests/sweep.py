"""Sweeps over many parameters: some cases run always, the others with `make test-all`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest


def sweep(*values: Any, always: Callable[..., bool]) -> list[Any]:
    """All combinations of these values as parameters of a test.

    Those for which `always` is false are marked slow.
    """
    return [
        pytest.param(*case, marks=[] if always(*case) else pytest.mark.slow)
        for case in product(*values)
    ]
