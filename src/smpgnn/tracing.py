"""What torch.compile and torch.export need: index arrays without data-dependent Python.

A traced call runs the plain forms of the operations and skips checks of values. Numbers that depend
on the data (of rows, of messages) become symbols, so nothing may branch on them. Some operations
have sizes that torch cannot trace without further settings, or that ONNX lacks; the functions here
have an equal form for them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def traced() -> bool:
    """Whether torch.compile or torch.export traces this call."""
    return torch.compiler.is_compiling()


def number(value: Tensor) -> int:
    """The value of an integer tensor of one element; a symbol while tracing."""
    found: int = value.item()  # type: ignore[assignment]
    return found


def occurrences(index: Tensor, size: int) -> Tensor:
    """How often each of 0, …, size − 1 occurs: [M] to [size]."""
    if not traced():
        return torch.bincount(index, minlength=size)
    return index.new_zeros(size).index_add(0, index, torch.ones_like(index))


def true_places(mask: Tensor, count: int | None = None) -> Tensor:
    """The places of the true entries of a vector, in increasing order; `count` if known."""
    if not traced():
        return torch.nonzero(mask).flatten()
    size = number(mask.sum()) if count is None else count
    places = torch.arange(mask.numel(), device=mask.device)
    return places.repeat_interleave(mask.long(), output_size=size)
