"""CUDA graphs on the CPU, for tests without a GPU.

A `Tape` records the operations and the kernels of a capture, and repeats them on the same memory.
As on a GPU, it repeats no Python, and refuses whatever asks for the content of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: Operations whose result depends on the content of their arguments in its size, or is a number.
ASKING = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten._unique2.default,
    torch.ops.aten.bincount.default,
    torch.ops.aten.repeat_interleave.Tensor,
    torch.ops.aten.equal.default,
    torch.ops.aten.lift_fresh.default,
)


class Tape(TorchDispatchMode):
    """What happens while this mode is active, to be repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], None]] = []
        self.before: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in ASKING:
            raise RuntimeError(f"{func} cannot be captured.")
        # their shapes as they are now: an operation may change that of a tensor in its place
        given = tree_map_only(Tensor, Tensor.detach, (args, kwargs))
        self.before += [(value, value.clone()) for value in _written(func, *given)]
        out = func(*args, **kwargs)
        if torch.Tag.inplace_view in func.tags or func.is_view:
            return out
        if func._schema.is_mutable:
            self.steps.append(partial(func, *given[0], **given[1]))
        else:
            kept = tree_map_only(Tensor, Tensor.detach, out)
            self.steps.append(partial(_again, func, *given, kept))
        return out

    @torch.no_grad()
    def replay(self) -> None:
        for step in self.steps:
            step()

    @torch.no_grad()
    def undo(self) -> None:
        """Restore what operations have changed: on a GPU a capture runs nothing."""
        for changed, value in reversed(self.before):
            changed.copy_(value)
        self.before.clear()


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The arguments that an operation changes."""
    arguments = func._schema.arguments
    given = {**{a.name: value for a, value in zip(arguments, args, strict=False)}, **kwargs}
    written = [given.get(a.name) for a in arguments if a.alias_info and a.alias_info.is_write]
    return [value for value in tree_leaves(written) if isinstance(value, Tensor)]


def _again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Repeat an operation, with its result where it was."""
    for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
        if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
            old.copy_(new)


class Graph:
    """In place of `torch.cuda.CUDAGraph`."""

    tape: Tape | None = None

    def replay(self) -> None:
        assert self.tape is not None
        self.tape.replay()


class _Stream:
    cuda_stream = 0

    def wait_stream(self, other: Any) -> None: ...


def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture on the CPU, with kernels run by Triton's interpreter."""
    from triton.runtime.interpreter import GridExecutor

    from smpgnn.ops import backend

    active: list[Tape] = []
    launch = GridExecutor.__call__

    def launched(self: Any, *args: Any, **kwargs: Any) -> None:
        if active:
            active[-1].steps.append(partial(launch, self, *args, **kwargs))
        with torch.utils._python_dispatch._disable_current_modes():
            launch(self, *args, **kwargs)

    @contextmanager
    def graph(into: Graph, **_: Any) -> Iterator[None]:
        into.tape = Tape()
        active.append(into.tape)
        try:
            with into.tape:
                yield
        finally:
            active.pop()
        into.tape.undo()

    monkeypatch.setattr(GridExecutor, "__call__", launched)
    monkeypatch.setattr(backend, "INTERPRETED", True)
    for name, value in {
        "CUDAGraph": Graph,
        "graph": graph,
        "Stream": _Stream,
        "stream": lambda _: nullcontext(),
        "current_stream": lambda *_: _Stream(),
        "graph_pool_handle": lambda: None,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "is_current_stream_capturing": lambda: bool(active),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
