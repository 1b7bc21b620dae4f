"""Batches of a store: which graphs come when, and in which process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from smpgnn.data.store import GraphStore


def plan_batches(order: Tensor, rows: Tensor, batch_size: int, batch_rows: int) -> list[Tensor]:
    """Cut an order of graphs into batches with limits on graphs and, if not 0, on rows.

    A graph with more rows than the limit gets a batch of its own. Shapes: order [G], rows [G].
    """
    if batch_rows <= 0:
        return list(torch.split(order, batch_size))
    batches, start, total = [], 0, 0
    for place, count in enumerate(rows[order].tolist()):
        if place > start and (place - start == batch_size or total + count > batch_rows):
            batches.append(order[start:place])
            start, total = place, 0
        total += count
    batches.append(order[start:])
    return batches


class BatchLoader:
    """Batches of a store, as graph indices, in an order set by the seed and the epoch only.

    Each of several processes takes every world_size-th graph of each batch, so together they see
    the batches of a single process. In training (`seed` given) all take the same number of steps:
    if a batch has fewer graphs than there are processes, some graphs are used twice.

    Args:
        store: the graphs.
        batch_size: maximum number of graphs in a batch.
        rows: rows of each graph, [G]; default: pairs of nodes.
        batch_rows: maximum number of rows in a batch; 0: no limit.
        seed: shuffles the graphs; None: in their order.
        epoch: returns the current epoch.
        rank: of this process.
        world_size: number of processes.
    """

    def __init__(
        self,
        store: GraphStore,
        batch_size: int,
        *,
        rows: Tensor | None = None,
        batch_rows: int = 0,
        seed: int | None = None,
        epoch: Callable[[], int] = lambda: 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.store, self.batch_size, self.batch_rows = store, batch_size, batch_rows
        self.rows = (store.num_nodes.square() if rows is None else rows).cpu()
        self.seed, self.epoch = seed, epoch
        self.rank, self.world_size = rank, world_size

    def _plan(self) -> list[Tensor]:
        if self.seed is None:
            order = torch.arange(len(self.store))
        else:
            generator = torch.Generator().manual_seed(1_000_003 * self.seed + self.epoch())
            order = torch.randperm(len(self.store), generator=generator)
        return plan_batches(order, self.rows, self.batch_size, self.batch_rows)

    def __len__(self) -> int:
        return len(self._plan())

    def __iter__(self) -> Iterator[Tensor]:
        for graphs in self._plan():
            mine = graphs[self.rank :: self.world_size]
            if self.seed is not None and mine.numel() == 0:
                mine = graphs[[self.rank % graphs.numel()]]
            if mine.numel():
                yield mine


def store_bytes(store: GraphStore) -> int:
    """Bytes of the tensors of a store."""
    tensors = (value for value in vars(store).values() if isinstance(value, Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
