"""Batches sized by rows to the memory that is free."""

from __future__ import annotations

import pytest
import torch

from smpgnn.config.options import CyclesOptions
from smpgnn.data.cycles import cycle_graphs
from smpgnn.models.registry import NetworkSpec
from smpgnn.training import memory, memory_probe
from smpgnn.training.loader import BatchLoader
from smpgnn.training.prepare import prepare


def spec() -> NetworkSpec:
    return NetworkSpec(graph_outputs=2, options=CyclesOptions().network.changed(num_layers=4))


@pytest.mark.parametrize("identifiers", ["onehot", "coloring", "neighborhood", "local"])
def test_a_batch_takes_half_of_the_free_memory(
    identifiers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, network = cycle_graphs(4, 20, 200, seed=0), spec().changed(identifiers=identifiers)
    cpu, found = torch.device("cpu"), []
    for free in (2**24, 2**25, 2**26):
        monkeypatch.setattr(memory, "available_bytes", lambda device, free=free: free)
        rows = memory.fitting_rows(store, network, cpu)
        loader = BatchLoader(store, 1000, batch_rows=rows)
        assert sum(map(len, loader)) == len(store)
        largest = max(loader, key=len)
        assert int(store.num_nodes[largest].square().sum()) <= rows
        few = store.select(range(len(largest)))
        if rows < 400 * len(store):
            assert memory_probe.step_bytes(few, network, cpu) == pytest.approx(free / 2, rel=0.3)
        found.append(rows)
    assert found[0] < found[1] < found[2]


def test_checkpointing_allows_larger_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 2**28)
    store, deep = cycle_graphs(4, 20, 40, seed=0), spec().changed(num_layers=12)
    rows = [
        memory.fitting_rows(store, network, torch.device("cpu"))
        for network in (deep, deep.changed(checkpoint=True))
    ]
    assert rows[1] > 1.4 * rows[0]


def test_a_graph_that_needs_more_still_gets_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1)
    store = cycle_graphs(4, 20, 4, seed=0)
    assert memory.fitting_rows(store, spec(), torch.device("cpu")) == 400


def test_cycles_out_of_distribution_grow_from_part_to_part() -> None:
    splits = prepare(CyclesOptions(k=4, ood=True, train_samples=20, test_samples=20)).splits
    sizes = [int(part.num_nodes.max()) for part in (splits.train, splits.val, splits.test)]
    assert sizes == [20, 28, 36]
