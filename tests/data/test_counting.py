"""Exact counts of cycles, against enumeration by networkx and the published numbers."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from smpgnn.config.options import CountingOptions
from smpgnn.config.settings import settings
from smpgnn.data.counting import CYCLES, SUBSTRUCTURES, counting_splits, counts, read_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

GRAPHS = [
    nx.complete_graph(5),
    nx.path_graph(3),
    nx.petersen_graph(),
    nx.empty_graph(2),
    *(nx.gnm_random_graph(n, m, seed=n) for n, m in ((8, 14), (9, 18), (12, 20), (15, 25))),
]


def store() -> GraphStore:
    edges = [np.array([*g.edges, *((b, a) for a, b in g.edges)]).reshape(-1, 2) for g in GRAPHS]
    return GraphStore.of_sizes(
        [len(graph) for graph in GRAPHS],
        [len(part) for part in edges],
        edge_index=torch.from_numpy(np.concatenate(edges).T.astype(np.int64)),
    )


def write(folder: Path, copies: int = 4) -> Path:
    """A file like the benchmark's, of a few graphs."""
    graphs = GRAPHS * copies
    np.savez(
        folder / "graphs.npz",
        nodes=np.array([len(graph) for graph in graphs]),
        edges=np.array([graph.number_of_edges() for graph in graphs]),
        edge_list=np.concatenate([np.array(graph.edges).reshape(-1, 2) for graph in graphs])
        .astype(np.int64),
        split=np.arange(len(graphs)) % 3,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("size", range(3, 9))
def test_cycles(size: int) -> None:
    whole, through = [], []
    for graph in GRAPHS:
        cycles = [c for c in nx.simple_cycles(graph, length_bound=size) if len(c) == size]
        whole.append(len(cycles))
        through += [sum(node in cycle for cycle in cycles) for node in graph]
    assert counts(store(), f"cycle{size}").tolist() == whole
    assert counts(store(), f"cycle{size}", "node").tolist() == through
    assert sum(whole) > 0


@pytest.mark.parametrize("size", [4, 5])
def test_chordal_cycles(size: int) -> None:
    """All subgraphs with the edges of a cycle and one chord, by brute force."""
    pattern = nx.cycle_graph(size)
    pattern.add_edge(0, 2)
    found = []
    for graph in GRAPHS:
        subgraphs = set()
        for chosen in combinations(graph, size):
            matcher = nx.isomorphism.GraphMatcher(graph.subgraph(chosen), pattern)
            for names in matcher.subgraph_monomorphisms_iter():
                back = {b: a for a, b in names.items()}
                subgraphs.add(frozenset(frozenset((back[a], back[b])) for a, b in pattern.edges))
        found.append(len(subgraphs))
    assert counts(store(), f"chordal{size}").tolist() == found
    assert sum(found) > 0


def test_targets_are_scaled(tmp_path: Path) -> None:
    splits = counting_splits("cycle5", data_dir=write(tmp_path))
    parts = [part.y for part in vars(splits).values()]
    assert all(part is not None and part.dtype == torch.float32 for part in parts)
    assert torch.cat(parts).std().item() == pytest.approx(1.0, abs=1e-5)
    nodes = counting_splits("cycle5", level="node", data_dir=tmp_path)
    known = torch.cat([nodes.train.y_node, nodes.val.y_node])
    assert known.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert known.std().item() == pytest.approx(1.0, abs=1e-5)
    assert nodes.test.y is None


def test_the_options_name_what_can_be_counted() -> None:
    assert settings(CountingOptions)["substructure"].choices == SUBSTRUCTURES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"substructure": "cycle9"}, "substructure is 'cycle9', but must be one of cycle3"),
        ({"substructure": "cycle4", "level": "edge"}, "level is 'edge'"),
        ({"substructure": "chordal4", "level": "node"}, "nodes have counts of cycles only"),
        ({"substructure": "cycle4", "data_dir": "."}, "has no counting/graphs.npz"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        counting_splits(**arguments)


@pytest.mark.parametrize(
    "damage",
    [
        {"split": np.zeros(3)},
        {"edge_list": np.full((5, 2), 99)},
        {"nodes": np.array(["a"])},
        {"nodes": np.zeros(3, dtype=int)},
    ],
)
def test_a_damaged_file_is_refused(damage: dict[str, np.ndarray], tmp_path: Path) -> None:
    with np.load(write(tmp_path) / "graphs.npz") as content:
        whole = dict(content)
    np.savez(tmp_path / "graphs.npz", **{**whole, **damage})
    with pytest.raises(InputError, match="does not contain the graphs of the counting benchmark"):
        counting_splits("cycle3", data_dir=tmp_path)


def test_published_counts() -> None:
    path = Path(os.environ.get("SMPGNN_DATA", "")) / "counting" / "graphs.npz"
    if "SMPGNN_DATA" not in os.environ or not path.is_file():
        pytest.skip("SMPGNN_DATA does not name a folder with counting")
    graphs, split = read_graphs(path)
    assert np.bincount(split).tolist() == [1500, 1000, 2500]
    with np.load(path) as content:
        for name in SUBSTRUCTURES:
            if name in content:
                assert np.array_equal(counts(graphs, name), content[name]), name
    assert {"cycle7", "cycle8"} < set(CYCLES)
