"""Pairs and networks of the user in `smpgnn paper theory expressivity`."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from commands import done, smpgnn

MODULE = """
import torch

def gcn():
    from torch_geometric.nn import GraphConv, global_add_pool
    first, second = GraphConv(1, 8).double(), GraphConv(8, 8).double()
    return lambda x, edge_index, batch: global_add_pool(
        second(first(x, edge_index).tanh(), edge_index), batch)

def smp():
    from smpgnn import SMP
    return SMP(1, 8, 8, 4, norm="layer")

def ordered():
    return lambda x, edge_index, batch: global_order(edge_index, batch)

def global_order(edge_index, batch):
    graph = batch[edge_index[0]]
    weight = torch.arange(edge_index.size(1)) * edge_index[1]
    out = torch.zeros(int(batch[-1]) + 1, 1, dtype=torch.float64)
    return out.index_add_(0, graph, weight.double()[:, None].sin())

def wrong_shape():
    return lambda x, edge_index, batch: x

def failing():
    raise RuntimeError("no weights")

nothing = lambda: None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_nets.py").write_text(MODULE)
    graphs = (
        nx.cycle_graph(6),
        nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
        nx.path_graph(4),
        nx.star_graph(3),
    )
    (tmp_path / "mine.g6").write_bytes(
        b"".join(nx.to_graph6_bytes(graph, header=False) for graph in graphs)
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(out: str, start: str) -> list[str]:
    (found,) = [line for line in out.splitlines() if line.startswith(start)]
    return found.removeprefix(start).split()


def measured(*models: str) -> str:
    return done(
        *("paper", "theory", "expressivity", "--pairs", "mine.g6", "--model", *models),
        *("--seeds", 1, "--layers", 3, "--width", 8),
    ).out


def test_own_networks_stand_beside_the_ladder(folder: Path) -> None:
    out = measured("gin", "their_nets:gcn", "their_nets:smp", "their_nets:ordered")
    assert line(out, "pairs ") == ["2"]
    assert line(out, "1-WL refinement") == ["1"]
    assert line(out, "two marks ≤ 3 refinement") == ["2"]
    assert line(out, "gin ") == ["1-WL", "1"]
    assert line(out, "their_nets:gcn") == ["1-WL", "1"]
    assert line(out, "their_nets:smp") == ["SMP", "2"]
    assert line(out, "their_nets:ordered") == ["–", "not", "invariant"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no_such_module:net", "cannot be imported (ModuleNotFoundError"),
        ("their_nets:absent", "cannot be imported (AttributeError"),
        ("their_nets:failing", "fails with RuntimeError: no weights"),
        ("their_nets:nothing", "returns nothing that can be called"),
        ("their_nets:wrong_shape", "must return one row per graph, [8, C]"),
    ],
)
def test_what_is_wrong_with_a_network_is_one_line(folder: Path, model: str, message: str) -> None:
    found = smpgnn(
        *("paper", "theory", "expressivity", "--pairs", "mine.g6", "--model", model),
        *("--relabelings", 1),
    )
    assert found.status == 2
    assert message in found.err
    assert len(found.err.splitlines()) == 1


def test_a_category_with_the_name_of_a_family(folder: Path) -> None:
    (folder / "mine.g6").rename(folder / "csl.g6")
    found = smpgnn("paper", "theory", "expressivity", "--pairs", "csl.g6", "--model", "gin")
    assert found.status == 2
    assert "'csl' is the name of a family of smpgnn" in found.err
