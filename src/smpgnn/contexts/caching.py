"""Tensors of an index, computed once and kept: ordinary tensors, whatever mode they are made in.

A tensor made under `torch.inference_mode()` cannot take part in a later training, and one made
under a transform of `torch.func` is gone when that ends. An index outlives the call that first
needs one of its tensors, so all that it keeps is made outside of both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

P = ParamSpec("P")
R = TypeVar("R")


def outside_modes(make: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose results are ordinary tensors in these modes, too."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        mapped = torch._C._are_functorch_transforms_active()
        if not (mapped or torch.is_inference_mode_enabled()):
            return make(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad(), temporarily_clear_interpreter_stack():
            return make(*args, **kwargs)

    return made


class cached_property(functools.cached_property[R]):
    """`functools.cached_property` for what an index keeps.

    A value that is known beforehand can be passed to the object in its field `given`, by name.
    Batches of fixed size do so: computing such values would synchronise a GPU with the CPU.
    """

    def __init__(self, make: Callable[[Any], R]) -> None:
        @outside_modes
        def value(instance: Any) -> R:
            given = getattr(instance, "given", {})
            return given[self.attrname] if self.attrname in given else make(instance)

        value.__doc__ = make.__doc__
        super().__init__(value)
