"""A batch that cannot fit is refused, with an estimate, before training starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import CYCLES
from torch_geometric.data import Data

import smpgnn
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.options import CyclesOptions
from smpgnn.training import memory
from smpgnn.training.memory import available_bytes, check_memory, largest_batch_bytes

CPU = torch.device("cpu")


def spec(model: str = "smp", identifiers: str = "onehot") -> NetworkSpec:
    options = CyclesOptions(model=model, identifiers=identifiers, hidden_channels=8, num_layers=2)
    return NetworkSpec.from_options(
        options, in_channels=0, edge_channels=0, node_outputs=0, graph_outputs=1
    )


def test_the_estimate_grows_with_what_needs_memory() -> None:
    store = cycle_graphs(4, 12, 40, seed=0)
    small = largest_batch_bytes(store, spec(), 4)
    assert 0 < small < largest_batch_bytes(store, spec(), 8)
    assert largest_batch_bytes(store, spec("mpnn"), 4) < small
    assert largest_batch_bytes(store, spec(), 10**6) == largest_batch_bytes(store, spec(), 40)


def test_what_is_free_is_positive_and_less_than_all() -> None:
    assert 2**20 < available_bytes(CPU) < 2**50


def test_a_batch_is_refused_and_batch_rows_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    store = cycle_graphs(4, 12, 40, seed=0)
    free = largest_batch_bytes(store, spec(), 10)
    monkeypatch.setattr(memory, "available_bytes", lambda device: free)
    check_memory(store, spec(), 10, 0, CPU)
    with pytest.raises(InputError, match=r"may need .* GiB, but .* GiB are free on cpu: lower --b"):
        check_memory(store, spec(), 11, 0, CPU)
    check_memory(store, spec(), 40, 500, CPU)


def test_one_graph_that_is_too_large_is_told_as_such() -> None:
    n = 10**6  # 10^12 rows: more than there is anywhere
    huge = GraphStore(
        torch.tensor([0, n, n + 3]), torch.tensor([0, 2, 4]), torch.tensor([[0, 1] * 2, [1, 0] * 2])
    )
    for batch_rows in (0, 1000):
        with pytest.raises(InputError, match=r"largest graph, of 1000000 nodes, need about .* GiB"):
            check_memory(huge, spec(), 1, batch_rows, CPU)
    check_memory(huge, spec(identifiers="neighborhood"), 1, 0, CPU)
    check_memory(huge.select([1]), spec(), 1, 0, CPU)


def test_training_refuses_before_it_makes_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 10**6)
    with pytest.raises(InputError, match=r"lower --batch-size \(now 64\)"):
        smpgnn.train("cycles", output=str(tmp_path / "run"), quiet=True, **CYCLES)
    graph = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=400, y=torch.tensor(1.0))
    with pytest.raises(InputError, match="largest graph, of 400 nodes"):
        smpgnn.train(
            "graphs",
            [graph, graph, Data(edge_index=graph.edge_index, num_nodes=400, y=torch.tensor(2.0))],
            identifiers="onehot",
            task="regression",
            output=str(tmp_path / "run"),
            quiet=True,
        )
    assert list(tmp_path.iterdir()) == []
