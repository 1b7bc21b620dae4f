"""Tensors of an index, computed once and kept: ordinary tensors, whatever mode they are made in.

A tensor made under `torch.inference_mode()` cannot take part in a later training. An index outlives
the call that first needs one of its tensors, so all that it keeps is made outside of this mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def outside_inference_mode(make: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose results are ordinary tensors also under `torch.inference_mode()`."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return make(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return make(*args, **kwargs)

    return made


class cached_property(functools.cached_property[R]):
    """`functools.cached_property` for what an index keeps."""

    def __init__(self, make: Callable[[Any], R]) -> None:
        super().__init__(outside_inference_mode(make))
