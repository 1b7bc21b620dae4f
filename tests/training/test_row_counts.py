"""Rows and messages are counted as the index has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import ODD, SCHEMES, Structure, batches, cycle, long_structures, path

from smpgnn import Topology
from smpgnn.config.options import CyclesOptions
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec
from smpgnn.training import row_counts
from smpgnn.training.row_counts import BatchRows, count_largest, count_rows


def spec(identifiers: str, num_layers: int = 3) -> NetworkSpec:
    options = CyclesOptions(model="smp", identifiers=identifiers, num_layers=num_layers)
    return NetworkSpec.from_options(
        options, in_channels=0, edge_channels=0, node_outputs=0, graph_outputs=1
    )


def store_of(structures: list[Structure]) -> GraphStore:
    columns = [edge for _, edges in structures for edge in edges]
    return GraphStore(
        pointer(torch.tensor([n for n, _ in structures])),
        pointer(torch.tensor([len(edges) for _, edges in structures])),
        torch.tensor(columns, dtype=torch.long).reshape(-1, 2).t(),
    )


def built(store: GraphStore, network: NetworkSpec) -> BatchRows:
    """The same numbers from the index itself."""
    batch, count = store.batch(), network.num_layers
    topology = Topology.checked(
        batch.edge_index, batch.batch, num_nodes=batch.num_nodes, num_graphs=len(store)
    )
    if network.identifiers != "neighborhood":
        index = ContextIndex.build(topology, network.identifiers, count)
        rows, messages = (index.num_rows,) * (count + 1), (index.lift.source.numel(),) * count
        different = 1
    else:
        grown = GrowingIndex.of(topology, count)
        rows = (grown.first.num_rows, *(layer.num_rows for layer in grown.layers))
        messages = tuple(layer.lift.source.numel() for layer in grown.layers)
        different = len({id(layer) for layer in grown.layers})
    return BatchRows(len(store), topology.num_nodes, topology.num_edges, rows, messages, different)


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(
    graphs=st.one_of(batches(max_nodes=6), st.lists(long_structures(), min_size=1, max_size=3)),
    num_layers=st.integers(1, 5),
)
def test_counts_are_those_of_the_index(
    identifiers: str, graphs: list[Structure], num_layers: int
) -> None:
    store, network = store_of(graphs), spec(identifiers, num_layers)
    assert count_rows(store, network).batch() == built(store, network)


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_graphs_are_counted_one_by_one_and_in_their_order(
    identifiers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [*ODD.values(), path(7), cycle(8)]
    store, network = store_of(graphs), spec(identifiers)
    each = [built(store.select([g]), network) for g in range(len(graphs))]
    pieces = (300, 10**6) if identifiers == "coloring" else (1, 40, 10**6)
    for together in pieces:
        monkeypatch.setattr(row_counts, "_TOGETHER", together)
        counts = count_rows(store, network)
        assert [counts.batch(torch.tensor([g])) for g in range(len(graphs))] == each


def test_large_graphs_are_judged_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of([path(3000)])
    exact = built(store, spec("neighborhood"))
    assert count_rows(store, spec("neighborhood")).batch() == exact
    monkeypatch.setattr(row_counts, "_ENOUGH", 2000)
    sampled = count_rows(store, spec("neighborhood")).batch()
    assert sampled != exact
    assert sampled.rows == pytest.approx(exact.rows, rel=0.02)
    assert sampled.messages == pytest.approx(exact.messages, rel=0.02)


def test_colors_of_large_graphs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    store, network = store_of([path(3000)]), spec("coloring")
    exact = built(store, network)
    assert count_rows(store, network).batch() == exact
    monkeypatch.setattr(row_counts, "_COLORED", 2999)
    bound = count_rows(store, network).batch()
    assert exact.rows[0] < bound.rows[0] <= 3000 * 13


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_the_graphs_with_the_most_rows_are_found(identifiers: str) -> None:
    sizes = torch.randint(3, 30, (150,), generator=torch.Generator().manual_seed(0)).tolist()
    graphs = [cycle(n) if k % 3 else path(n) for k, n in enumerate(sizes)]
    store, network = store_of(graphs), spec(identifiers)
    everything = count_rows(store, network)
    for batch_size in (1, 5, 1000):
        found = count_largest(store, network, batch_size)
        best = found.rows.sum(1)[found.order(batch_size)]
        expected = everything.rows.sum(1)[everything.order(batch_size)]
        assert torch.equal(best, expected)


def test_batches_are_limited_by_rows() -> None:
    store, network = store_of([cycle(4), cycle(3), cycle(2)]), spec("onehot")
    counts = count_rows(store, network)
    graphs = counts.order(3)
    assert counts.limited(graphs, 0, network).rows[0] == 16 + 9 + 4
    assert counts.limited(graphs, 20, network).rows[0] == pytest.approx(20)
    assert counts.limited(graphs, 1, network).rows[0] == pytest.approx(16)
    nodes = replace(network, model="mpnn")
    assert count_rows(store, nodes).batch().rows[0] == 9


def test_a_dense_graph_is_judged_without_a_search_along_all_its_edges() -> None:
    n = 400
    edge_index = (~torch.eye(n, dtype=torch.bool)).nonzero().t()
    dense = GraphStore(torch.tensor([0, n]), torch.tensor([0, n * (n - 1)]), edge_index)
    found = count_rows(dense, spec("neighborhood")).batch()  # of 6 · 10^7 messages
    # after a layer all is seen; the row for the unseen goes with the next one
    assert found.rows == pytest.approx((2 * n, n * (n + 1), n * n, n * n))
    last = n * n * (n - 1)
    assert found.messages == pytest.approx((n * (n - 1) * (n + 1), last, last))
    assert count_rows(dense, spec("coloring")).batch().rows[0] == n * n


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_a_search_ends_when_no_ball_grows(identifiers: str) -> None:
    """Radii and depths beyond every graph cost no more than those that reach all of it."""
    store = store_of([*ODD.values(), path(7), cycle(8)])
    far, near = (replace(spec(identifiers), context_radius=radius) for radius in (10**12, 20))
    assert count_rows(store, far).batch() == count_rows(store, near).batch()
    topology = Topology.checked(store.batch().edge_index, store.batch().batch)
    index = ContextIndex.build(topology, identifiers, 3, 10**12)
    assert index.num_rows == ContextIndex.build(topology, identifiers, 3, 20).num_rows
    deep = ContextIndex.build(topology, identifiers, 10**12)
    assert deep.num_rows == ContextIndex.build(topology, identifiers, 20).num_rows
