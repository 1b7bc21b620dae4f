"""Batches: a partition in the order given, within the limits, the same for every process count."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data.store import GraphStore
from smpgnn.training.loader import BatchLoader, plan_batches, store_bytes


def paths(*sizes: int) -> GraphStore:
    """Paths with so many nodes."""
    ends = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in sizes]
    pointer = torch.tensor([0, *sizes]).cumsum(0)
    edges = torch.tensor([0, *(n - 1 for n in sizes)]).cumsum(0)
    return GraphStore(pointer, edges, torch.cat(ends, 1))


def seen(loader: BatchLoader) -> list[list[int]]:
    """The graphs of each batch."""
    return [graphs.tolist() for graphs in loader]


@given(
    rows=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    batch_size=st.integers(1, 10),
    batch_rows=st.integers(0, 80),
    seed=st.integers(0, 9),
)
def test_plan_is_a_partition_within_the_limits(
    rows: list[int], batch_size: int, batch_rows: int, seed: int
) -> None:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    counts = torch.tensor(rows)
    batches = plan_batches(order, counts, batch_size, batch_rows)
    assert torch.cat(batches).tolist() == order.tolist()
    totals = [int(counts[batch].sum()) for batch in batches]
    for batch, total in zip(batches, totals, strict=True):
        assert 1 <= batch.numel() <= batch_size
        assert not batch_rows or total <= batch_rows or batch.numel() == 1
    # and no batch is cut earlier than it must be
    for batch, after, total in zip(batches, batches[1:], totals, strict=False):
        full = batch.numel() == batch_size
        assert full or (batch_rows and total + rows[int(after[0])] > batch_rows)


def test_order_depends_on_seed_and_epoch_only() -> None:
    store = paths(*range(2, 22))
    epoch = 0
    loader = BatchLoader(store, 4, seed=3, epoch=lambda: epoch)
    first, again = seen(loader), seen(loader)
    assert first == again
    assert sorted(graph for batch in first for graph in batch) == list(range(20))
    epoch = 1
    assert seen(loader) != first
    assert seen(BatchLoader(store, 4, seed=4)) != first
    assert seen(BatchLoader(store, 4, seed=3)) == first
    assert seen(BatchLoader(store, 4)) == [list(range(i, i + 4)) for i in range(0, 20, 4)]


@given(
    sizes=st.lists(st.integers(2, 9), min_size=1, max_size=20),
    batch_size=st.integers(1, 6),
    batch_rows=st.sampled_from([0, 60]),
    world_size=st.integers(1, 4),
)
def test_processes_share_the_batches_of_one(
    sizes: list[int], batch_size: int, batch_rows: int, world_size: int
) -> None:
    store = paths(*sizes)
    whole = seen(BatchLoader(store, batch_size, batch_rows=batch_rows, seed=0))
    parts = [
        seen(
            BatchLoader(
                store, batch_size, batch_rows=batch_rows, seed=0, rank=r, world_size=world_size
            )
        )
        for r in range(world_size)
    ]
    # each takes part in every step, or they would wait for each other for ever
    assert {len(part) for part in parts} == {len(whole)}
    for step, batch in enumerate(whole):
        together = [graph for part in parts for graph in part[step]]
        assert set(together) == set(batch)
        assert len(batch) < world_size or sorted(together) == sorted(batch)
    # without a seed (validation) every graph counts once
    parts = [seen(BatchLoader(store, 5, rank=r, world_size=world_size)) for r in range(world_size)]
    assert sorted(graph for part in parts for b in part for graph in b) == list(range(len(sizes)))


def test_rows_are_node_pairs_by_default() -> None:
    store = paths(3, 3, 3)
    assert [len(b) for b in seen(BatchLoader(store, 9, batch_rows=18))] == [2, 1]
    loader = BatchLoader(store, 9, rows=store.num_nodes, batch_rows=6)
    assert [len(b) for b in seen(loader)] == [2, 1]
    assert len(loader) == 2


def test_memory_of_a_store() -> None:
    store = paths(3, 4)
    assert store_bytes(store) == 8 * (3 + 3 + 2 * 5)


@pytest.mark.parametrize("batch_rows", [0, 5])
def test_no_graphs_no_batches(batch_rows: int) -> None:
    empty = paths(3).select([])
    assert seen(BatchLoader(empty, 4, batch_rows=batch_rows)) == []
