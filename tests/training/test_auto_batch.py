"""Batches sized by rows to the memory that is free."""

from __future__ import annotations

import pytest
import torch

from smpgnn.data.cycles import cycle_graphs
from smpgnn.models.registry import NetworkSpec
from smpgnn.options import CyclesOptions
from smpgnn.training import memory
from smpgnn.training.loader import BatchLoader
from smpgnn.training.prepare import prepare


def spec() -> NetworkSpec:
    return NetworkSpec.from_options(
        CyclesOptions(),
        in_channels=0,
        edge_channels=0,
        node_outputs=0,
        graph_outputs=2,
        num_layers=4,
    )


def test_the_rows_of_a_batch_follow_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = cycle_graphs(4, 20, 40, seed=0)
    found = []
    for free in (2**22, 2**24, 2**26):
        monkeypatch.setattr(memory, "available_bytes", lambda device, free=free: free)
        rows = memory.fitting_rows(store, spec(), torch.device("cpu"))
        loader = BatchLoader(store, 1000, batch_rows=rows)
        assert sum(batch.num_graphs for batch in loader) == len(store)
        largest = max(int(b.batch.bincount().square().sum()) for b in loader)
        assert largest <= rows
        found.append(rows)
    assert found[0] < found[1] < found[2]
    assert found[2] / found[1] == pytest.approx(4, rel=0.1)


def test_a_graph_that_needs_more_still_gets_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1)
    store = cycle_graphs(4, 20, 4, seed=0)
    assert memory.fitting_rows(store, spec(), torch.device("cpu")) == 400


def test_cycles_out_of_distribution_grow_from_part_to_part() -> None:
    splits = prepare(CyclesOptions(k=4, ood=True, train_samples=20, test_samples=20)).splits
    sizes = [int(part.num_nodes.max()) for part in (splits.train, splits.val, splits.test)]
    assert sizes == [20, 28, 36]
