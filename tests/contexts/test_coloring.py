"""Algorithm 1: the greedy colouring, what it guarantees, and where it equals one-hot."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import DenseGraph
from strategies import (
    ODD,
    Structure,
    assert_same,
    batches,
    cycle,
    long_structures,
    make_case,
    path,
    randomize,
    seeds,
    structures,
)
from torch import Tensor, nn

from smpgnn import SMP, ContextIndex, LocalContext, SMPLayer
from smpgnn.contexts.coloring import coloring

ANY = st.one_of(structures(max_nodes=8), long_structures(14))


def greedy(graph: DenseGraph, num_layers: int) -> list[int]:
    """Node by node, the smallest colour that no earlier node within 2L hops has."""
    hops = graph.undirected().hops()
    colours: list[int] = []
    for i in range(graph.num_nodes):
        taken = {colours[j] for j in range(i) if hops[i][j] <= 2 * num_layers}
        colours.append(next(c for c in range(i + 1) if c not in taken))
    return colours


@given(graphs=st.lists(ANY, min_size=1, max_size=3), num_layers=st.integers(0, 3))
def test_is_the_greedy_colouring_in_the_order_of_the_nodes(
    graphs: list[Structure], num_layers: int
) -> None:
    case = make_case(graphs)
    expected = [colour for graph in case.graphs for colour in greedy(graph, num_layers)]
    assert coloring(case.topology, num_layers).tolist() == expected


@given(graph=ANY, num_layers=st.integers(1, 3))
def test_is_one_that_networkx_could_find(graph: Structure, num_layers: int) -> None:
    n, edges = graph
    near = nx.Graph()
    near.add_nodes_from(range(n))
    near.add_edges_from((a, b) for a, b in edges if a != b)
    far = nx.Graph()
    far.add_nodes_from(range(n))
    for a, reached in nx.all_pairs_shortest_path_length(near, cutoff=2 * num_layers):
        far.add_edges_from((a, b) for b in reached if b != a)
    found = nx.greedy_color(far, strategy=lambda g, colours: range(n))
    colours = coloring(make_case([graph]).topology, num_layers)
    assert colours.tolist() == [found[i] for i in range(n)]


@given(graph=ANY, num_layers=st.integers(1, 3))
def test_no_node_sees_a_colour_twice(graph: Structure, num_layers: int) -> None:
    case = make_case([graph])
    colours = coloring(case.topology, num_layers).tolist()
    for row in case.graphs[0].hops():
        seen = [colours[j] for j, hops in enumerate(row) if hops <= num_layers]
        assert len(seen) == len(set(seen))


@given(n=st.integers(1, 9), num_layers=st.integers(1, 4))
def test_uses_n_colours_where_every_pair_is_within_2l_hops(n: int, num_layers: int) -> None:
    colours = coloring(make_case([path(n)]).topology, num_layers)
    assert int(colours.max()) + 1 == min(n, 2 * num_layers + 1)


def test_parts_of_a_graph_share_colours() -> None:
    assert coloring(make_case([ODD["two parts"]]).topology, 1).tolist() == [0, 1, 0, 1, 2]


def test_a_context_has_as_many_rows_as_its_own_graph_has_colours() -> None:
    index = make_case([path(20), cycle(3), ODD["edgeless"]]).index("coloring", 1)
    assert index.table.ptr.diff().tolist() == [3] * 20 + [3] * 3 + [1] * 3


class RowWise(SMPLayer):
    """Row by row and without constants: what no node has heard of stays zero."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__("sum")
        self.in_channels = in_channels
        self.receiver = nn.Linear(in_channels, out_channels, bias=False)
        self.sender = nn.Linear(in_channels, out_channels, bias=False)
        self.own = nn.Linear(in_channels, out_channels, bias=False)

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        hidden = torch.tanh(self.receiver(u_i.rows)) * self.sender(u_j.rows)
        return u_j.with_rows(hidden + self.sender(u_j.rows).relu())

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(self.own(context.rows) + messages.rows)


@given(graph=ANY, num_layers=st.integers(1, 3), seed=seeds())
def test_row_wise_layers_equal_onehot(graph: Structure, num_layers: int, seed: int) -> None:
    """U_i[c_j] = U_i[j] for all j within L hops; all other rows are zero in both."""
    case = make_case([graph], seed=seed)
    layers = [randomize(RowWise(3, 3), seed + k) for k in range(num_layers)]
    contexts = {}
    for identifiers in ("onehot", "coloring"):
        index = case.index(identifiers, num_layers)
        context = index.initial(case.x, torch.float64)
        for layer in layers:
            context = layer(context, index)
        contexts[identifiers] = context
    onehot, coloured = contexts["onehot"], contexts["coloring"]
    colours = coloring(case.topology, num_layers)
    ptr = case.index("coloring", num_layers).table.ptr
    hops = case.graphs[0].hops()
    for i in range(graph[0]):
        for j in range(graph[0]):
            row = onehot.rows[i * graph[0] + j]
            if hops[i][j] <= num_layers:
                assert_same(coloured.rows[ptr[i] + colours[j]], row)
            else:
                assert (row == 0).all()
    assert_same(coloured.own(), onehot.own())
    assert_same(coloured.sum(), onehot.sum())


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(max_nodes=5), seed=seeds())
def test_networks_equal_onehot_where_n_colours_are_used(
    layer: str, level: str, graphs: list[Structure], seed: int
) -> None:
    """Connected graphs of at most 5 nodes have a diameter of at most 4 = 2 L."""
    graphs = [(n, edges + path(n)[1]) for n, edges in graphs]
    case = make_case(graphs, 2, 0, seed)
    model = randomize(SMP(2, 1, 4, 2, layer, "coloring", level=level, norm="batch"), seed)
    onehot = randomize(SMP(2, 1, 4, 2, layer, "onehot", level=level, norm="batch"), seed)
    assert_same(case.call(model), case.call(onehot))


def test_more_colours_are_needed_with_more_layers() -> None:
    topology = make_case([cycle(30)]).topology
    counts = [int(coloring(topology, num_layers).max()) + 1 for num_layers in (0, 1, 2, 3)]
    assert counts == [1, 3, 5, 9]
