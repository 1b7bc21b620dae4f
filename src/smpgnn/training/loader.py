"""Batches of a store: which graphs come when, and on which process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytorch_lightning as pl
import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore


def plan_batches(order: Tensor, rows: Tensor, batch_size: int, batch_rows: int) -> list[Tensor]:
    """Cut an order of graphs into batches of at most so many graphs and, if set, so many rows.

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
    """Batches of a store, as indices of graphs, in an order set by the seed and the epoch only.

    With several processes each takes every world_size-th graph of each batch, so that together they
    see the batches that one process would see. In training (`seed` given) they keep step: of a
    batch with fewer graphs than processes some graphs are seen by several of them.
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


class StoreDataModule(pl.LightningDataModule):
    """The three parts of a data set as Lightning takes them.

    A data set that is small beside the memory of the device is moved there once, whole. `rows` says
    how many rows of contexts a graph with so many nodes has.
    """

    def __init__(
        self,
        splits: Splits,
        batch_size: int,
        *,
        rows: Callable[[Tensor], Tensor] = torch.square,
        batch_rows: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.splits, self.batch_size = splits, batch_size
        self.rows, self.batch_rows, self.seed = rows, batch_rows, seed

    def setup(self, stage: str) -> None:
        assert self.trainer is not None
        device = self.trainer.strategy.root_device
        if device.type == "cuda" and store_bytes(self.splits.train) < 2**30:
            self.splits = Splits(
                self.splits.train.to(device),
                self.splits.val.to(device),
                self.splits.test.to(device),
            )

    def _loader(self, store: GraphStore, seed: int | None) -> BatchLoader:
        trainer = self.trainer
        assert trainer is not None
        return BatchLoader(
            store,
            self.batch_size,
            rows=self.rows(store.num_nodes),
            batch_rows=self.batch_rows,
            seed=seed,
            epoch=lambda: trainer.current_epoch,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
        )

    def train_dataloader(self) -> BatchLoader:
        return self._loader(self.splits.train, self.seed)

    def val_dataloader(self) -> BatchLoader:
        return self._loader(self.splits.val, None)

    def transfer_batch_to_device(
        self, batch: Tensor, device: torch.device, dataloader_idx: int
    ) -> Tensor:
        return batch  # indices stay on the CPU


def store_bytes(store: GraphStore) -> int:
    """The memory that the tensors of a store take."""
    tensors = (value for value in vars(store).values() if isinstance(value, Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
