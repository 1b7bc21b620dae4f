"""Cached tensors of an index, which are ordinary tensors in every mode.

A tensor computed under `torch.inference_mode()` cannot take part in training later, and one
computed inside a transform of `torch.func` is invalid after it. An index outlives the call that
first needs one of its tensors, so its tensors are computed outside both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from smpgnn.tracing import traced

P = ParamSpec("P")
R = TypeVar("R")
_MISSING = object()


def outside_modes(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it returns ordinary tensors in these modes, too."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        if traced():
            return make(*args, **kwargs)
        mapped = torch._C._are_functorch_transforms_active()
        if not (mapped or torch.is_inference_mode_enabled()):
            return make(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad(), temporarily_clear_interpreter_stack():
            return make(*args, **kwargs)

    return made


class cached_property(functools.cached_property[R]):
    """`functools.cached_property` for the tensors of an index.

    Values that are known beforehand can be passed to the object by name, in its field `given`.
    Padded batches use this: computing these values would synchronise a GPU with the CPU.
    """

    def __init__(self, make: Callable[[Any], R]) -> None:
        @outside_modes
        def value(instance: Any) -> R:
            given = getattr(instance, "given", {})
            return given[self.attrname] if self.attrname in given else make(instance)

        value.__doc__ = make.__doc__
        super().__init__(value)

    if not TYPE_CHECKING:  # mypy knows the types of the base class

        def __get__(self, instance, owner=None):
            if instance is None or not traced():
                return super().__get__(instance, owner)
            # Not under the own name: eager calls must not find what plain forms alone can use, such
            # as a `Lift` without `ptr`. torch.compile cannot trace the lock of the base class.
            name = f"_traced_{self.attrname}"
            value = getattr(instance, name, _MISSING)
            if value is _MISSING:
                value = self.func(instance)
                object.__setattr__(instance, name, value)
            return value
