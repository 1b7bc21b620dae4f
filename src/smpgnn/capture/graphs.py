"""CUDA graphs of functions that run one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

#: Runs before the capture, in which kernels are compiled and libraries set up.
WARM_UP = 2


@contextmanager
def side_stream() -> Iterator[None]:
    """Run on another stream, as what is captured later must run first."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)


def capture(
    stages: Sequence[Callable[[], None]], modules: nn.Module, *, warm_up: int = WARM_UP
) -> list[torch.cuda.CUDAGraph]:
    """Run these functions a few times, then capture each; they share their memory.

    The buffers of `modules` are restored after the runs. With `warm_up=0` the functions have run
    before, in a `side_stream`.
    """
    buffers = [buffer.clone() for buffer in modules.buffers()]
    if warm_up:
        with side_stream():
            for _ in range(warm_up):
                for stage in stages:
                    stage()
    pool, graphs = torch.cuda.graph_pool_handle(), []
    # a capture that fails does not restore the stream
    with torch.cuda.stream(torch.cuda.current_stream()):
        for stage in stages:
            graph = torch.cuda.CUDAGraph()
            # other threads, such as that of a data loader, may go on
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                stage()
            graphs.append(graph)
    restore_buffers(modules, buffers)
    return graphs


@torch.no_grad()
def restore_buffers(modules: nn.Module, values: Sequence[Tensor]) -> None:
    """Undo what was written to the buffers; the others may be saved for a backward pass."""
    for buffer, value in zip(modules.buffers(), values, strict=True):
        if not torch.equal(buffer, value):
            buffer.copy_(value)


@contextmanager
def uninitialised_memory() -> Iterator[None]:
    """Deterministic algorithms fill fresh memory, which would cost a pass over each tensor."""
    settings: Any = torch.utils.deterministic
    before = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = before
