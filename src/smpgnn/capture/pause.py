"""How calls of networks run here: eagerly, or on the padded batch of a step being captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_paused = 0
#: The edges of a padded batch, and what runs a network on it.
_padded: list[tuple[Any, Callable[..., Any]]] = []


@contextmanager
def eager_calls() -> Iterator[None]:
    """Run networks eagerly inside this context, on a GPU too."""
    global _paused
    _paused += 1
    try:
        yield
    finally:
        _paused -= 1


def paused() -> bool:
    """Whether `eager_calls` is active."""
    return _paused > 0


@contextmanager
def padded_calls(edge_index: Any, call: Callable[..., Any]) -> Iterator[None]:
    """Have calls of networks with this `edge_index` run `call(network, x, edge_attr)` instead."""
    _padded.append((edge_index, call))
    try:
        yield
    finally:
        _padded.pop()


def padded_call(edge_index: Any) -> Callable[..., Any] | None:
    """What runs a network with this `edge_index` on a padded batch; None: nothing special."""
    if _padded and _padded[-1][0] is edge_index:
        return _padded[-1][1]
    return None
