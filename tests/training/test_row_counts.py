"""Rows and messages are counted as the index has them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import ODD, SCHEMES, Structure, batches, cycle, long_structures, path

from smpgnn import Topology
from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec
from smpgnn.training import row_counts
from smpgnn.training.row_counts import count_rows, near_nodes


def spec(identifiers: str, num_layers: int = 3) -> NetworkSpec:
    options = NetworkOptions(identifiers=identifiers, num_layers=num_layers)
    return NetworkSpec(graph_outputs=1, options=options)


def store_of(structures: list[Structure]) -> GraphStore:
    columns = [edge for _, edges in structures for edge in edges]
    return GraphStore(
        pointer(torch.tensor([n for n, _ in structures])),
        pointer(torch.tensor([len(edges) for _, edges in structures])),
        torch.tensor(columns, dtype=torch.long).reshape(-1, 2).t(),
    )


def built_rows(store: GraphStore, network: NetworkSpec) -> float:
    """The rows of the index itself, the mean over the layers."""
    batch, count = store.batch(), network.options.num_layers
    topology = Topology.checked(
        batch.edge_index, batch.batch, num_nodes=batch.num_nodes, num_graphs=len(store)
    )
    if network.options.identifiers != "neighborhood":
        return ContextIndex.build(topology, network.options.identifiers, count).num_rows
    grown = GrowingIndex.of(topology, count)
    rows = [grown.first.num_rows, *(layer.num_rows for layer in grown.layers)]
    return sum(rows) / len(rows)


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(
    graphs=st.one_of(batches(max_nodes=6), st.lists(long_structures(), min_size=1, max_size=3)),
    num_layers=st.integers(1, 5),
)
def test_counts_are_about_those_of_the_index(
    identifiers: str, graphs: list[Structure], num_layers: int
) -> None:
    store, network = store_of(graphs), spec(identifiers, num_layers)
    counts, real = count_rows(store, network), built_rows(store, network)
    rows, nodes = float(counts[:, 0].sum()), float(store.num_nodes.sum())
    assert counts.shape == (len(graphs), 2)
    if identifiers == "onehot":
        assert rows == real
    else:  # up to the row of a context for all nodes out of reach
        assert abs(rows - real) <= (nodes if identifiers != "coloring" else 0.5 * rows + nodes)
    assert rows <= float(store.num_nodes.square().sum())


@given(graphs=st.lists(long_structures(), min_size=1, max_size=3), distance=st.integers(0, 2))
def test_rows_of_pairs_are_at_most_a_few_more(graphs: list[Structure], distance: int) -> None:
    """The nodes near a node may lie outside the context; none is forgotten."""
    store = store_of(graphs)
    network = spec("pairs").changed(pair_distance=distance, context_radius=3)
    batch = store.batch()
    topology = Topology.checked(
        batch.edge_index, batch.batch, num_nodes=batch.num_nodes, num_graphs=len(store)
    )
    real = ContextIndex.build(topology, "pairs", 1, 3, distance).num_rows
    counted = float(count_rows(store, network)[:, 0].sum())
    assert 0.7 * real <= counted <= 2 * real
    if distance == 0:
        assert counted == real


def test_messages_are_counted_by_rows() -> None:
    store = store_of([cycle(8), path(3)])
    assert count_rows(store, spec("onehot")).tolist() == [[64, 128], [9, 12]]
    nodes = spec("onehot").changed(model="mpnn")
    assert count_rows(store, nodes).tolist() == [[8, 16], [3, 4]]


def test_large_graphs_are_judged_by_a_sample() -> None:
    store, network = store_of([path(3000)]), spec("neighborhood")
    assert float(count_rows(store, network)[0, 0]) == pytest.approx(
        built_rows(store, network), rel=0.05
    )


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_the_search_ends_in_time(identifiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts with the largest graphs; the others count as their mean."""
    store, network = store_of([cycle(4), *[cycle(30)] * 9, cycle(20)]), spec(identifiers)
    whole = count_rows(store, network)
    monkeypatch.setattr(row_counts, "_ENOUGH", 100)
    assert torch.equal(count_rows(store, network), whole)
    n = 400
    edge_index = (~torch.eye(n, dtype=torch.bool)).nonzero().t()
    dense = GraphStore(torch.tensor([0, n]), torch.tensor([0, n * (n - 1)]), edge_index)
    assert 0.7 * n * n < float(count_rows(dense, network)[0, 0]) <= n * n


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_a_search_ends_when_no_ball_grows(identifiers: str) -> None:
    """Radii and depths beyond every graph cost no more than those that reach all of it."""
    store = store_of([*ODD.values(), path(7), cycle(8)])
    far, near = (spec(identifiers).changed(context_radius=radius) for radius in (10**9, 20))
    assert torch.equal(count_rows(store, far), count_rows(store, near))
    topology = Topology.checked(store.batch().edge_index, store.batch().batch)
    index = ContextIndex.build(topology, identifiers, 3, 10**12)
    assert index.num_rows == ContextIndex.build(topology, identifiers, 3, 20).num_rows
    deep = ContextIndex.build(topology, identifiers, 10**12)
    assert deep.num_rows == ContextIndex.build(topology, identifiers, 20).num_rows


def test_near_nodes_hang_together() -> None:
    store = store_of([path(1000)])
    chosen = near_nodes(store.edge_index, 1000, 20)
    assert chosen.nonzero().flatten().tolist() == list(range(20))
    many = near_nodes(store.edge_index, 1000, 300)
    assert int(many.sum()) == 300
    assert int(many[store.edge_index].all(0).sum()) >= 2 * (300 - 5)  # five paths
    alone = near_nodes(store.edge_index[:, :0], 1000, 300)
    assert int(alone.sum()) == 300
