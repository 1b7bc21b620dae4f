"""Apply a network to many graphs; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.loader import plan_batches
from smpgnn.training.memory import inference_bytes, room

Result = TypeVar("Result")

#: Maximum number of graphs in a batch.
TOGETHER = 1024
#: Parts of the messages with which torch reports a lack of memory as a mere RuntimeError.
_SCARCE = ("not enough memory", "out of memory", "can't allocate", "overflow", "buffer size")


@dataclass(frozen=True, eq=False)
class Piece(Generic[Result]):
    """A batch: the indices of its graphs, and the result, or the error if there is none."""

    graphs: list[int]
    result: Result | None
    error: str = ""


def in_pieces(
    store: GraphStore,
    spec: NetworkSpec | None,
    batch_rows: int,
    work: Callable[[GraphBatch], Result],
    *,
    gradients: bool = False,
) -> Iterator[Piece[Result]]:
    """Run `work` on batches of the graphs, in order.

    A graph that is too large for the memory, or that the network refuses, is a piece of its own
    with the error.

    Args:
        store: the graphs.
        spec: of the network, to estimate the memory of a batch beforehand; None: no estimate.
        batch_rows: maximum number of rows (nodes squared) in a batch.
        work: computes the result of a batch.
        gradients: whether `work` keeps intermediate values to differentiate.
    """
    rows = store.num_nodes.square().cpu()
    for graphs in plan_batches(torch.arange(len(store)), rows, TOGETHER, batch_rows):
        if graphs.numel():
            yield from _run(store, spec, graphs, work, gradients)


def _run(
    store: GraphStore,
    spec: NetworkSpec | None,
    graphs: Tensor,
    work: Callable[[GraphBatch], Result],
    gradients: bool,
) -> Iterator[Piece[Result]]:
    part = store.select(graphs)
    try:
        need = 0.0 if spec is None else inference_bytes(part, spec, gradients=gradients)
        if need > room(store.device):
            raise MemoryError
        result = work(part.batch())
    except InputError as error:
        reason = str(error).rstrip(".")
    except (MemoryError, RuntimeError) as error:
        scarce = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not scarce and not any(words in str(error).lower() for words in _SCARCE):
            raise
        reason = (
            f"too large: its {int(part.num_nodes.max()):,} nodes need more memory than is free on "
            f"{store.device.type}"
        )
        if store.device.type == "cuda":
            torch.cuda.empty_cache()
    else:
        yield Piece(graphs.tolist(), result)
        return
    if graphs.numel() == 1:
        yield Piece(graphs.tolist(), None, reason)
        return
    for graph in graphs:
        yield from _run(store, spec, graph.view(1), work, gradients)
