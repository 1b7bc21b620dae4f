"""Proposition 1: the simulation of MPNNs, and tr(A³)."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import torch

from smpgnn.baselines.gin import GIN
from smpgnn.baselines.pna import PNA
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models import MPNN
from smpgnn.paper.theory.graphs import topology
from smpgnn.paper.theory.mpnn import (
    TOLERANCE,
    DiagonalLayer,
    compare,
    diagonal,
    separate,
    simulate,
    trace_of_cube,
)
from smpgnn.testing import assert_equivariant

GRAPHS = [nx.petersen_graph(), nx.star_graph(4), nx.empty_graph(1), nx.path_graph(6)]


@pytest.mark.parametrize(
    ("make", "edges"),
    [
        (lambda: MPNN(2, 3, 8, 3, edge_channels=2), True),
        (lambda: MPNN(2, 3, 8, 3, message_residual=True, update_residual=True), False),
        (lambda: MPNN(2, 3, 8, 3, layer="fast", norm="batch"), False),
        (lambda: MPNN(2, 3, 8, 3, level="node", residual=True), False),
        (lambda: GIN(2, 3, 8, 3), False),
    ],
    ids=["edge features", "residuals", "fast, batch norm", "nodes", "gin"],
)
def test_any_mpnn_is_simulated_on_the_diagonal(make, edges: bool) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    batch = topology(GRAPHS)
    x = torch.randn(batch.num_nodes, 2, dtype=torch.float64)
    y = torch.randn(batch.num_edges, 2, dtype=torch.float64) if edges else None
    found = compare("", make(), GRAPHS, x, y)
    assert found.own_gap <= TOLERANCE
    assert found.output_gap <= TOLERANCE
    assert found.elsewhere == 0


class Sorted(SMPLayer):
    """Message passing that is no sum: the largest of neighbours' features times the own ones."""

    def __init__(self) -> None:
        super().__init__("max")

    def message(
        self, u_i: LocalContext, u_j: LocalContext, y_ij: torch.Tensor | None
    ) -> LocalContext:
        return u_j.with_rows(u_i.rows.sin() * u_j.rows)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(context.rows.cos() + messages.rows + 1.0)


def test_a_layer_of_your_own_is_simulated_too() -> None:
    batch = topology(GRAPHS)
    torch.manual_seed(1)
    x = torch.randn(batch.num_nodes, 3, dtype=torch.float64)
    nodes, contexts = ContextIndex.of_nodes(batch), ContextIndex.build(batch, "onehot", 2)
    plain = LocalContext(x, nodes.layout)
    context = LocalContext(
        torch.zeros(contexts.num_rows, 3, dtype=torch.float64).index_copy(0, contexts.table.own, x),
        contexts.layout,
    )
    layer = Sorted()
    for _ in range(3):
        plain = layer(plain, nodes)
        context = DiagonalLayer(layer)(context, contexts)
        torch.testing.assert_close(context.own(), plain.rows, rtol=0, atol=TOLERANCE)
        assert torch.equal(context.rows, diagonal(context).rows)


def test_the_simulation_is_equivariant_and_leaves_the_network_alone() -> None:
    network = MPNN(0, 2, 8, 2).double().eval()
    smp = simulate(network)
    assert network.backbone.identifiers == "nodes"
    assert_equivariant(smp, None, topology([nx.ladder_graph(4)]).edge_index)


def test_layers_without_a_message_of_their_own_are_refused() -> None:
    with pytest.raises(InputError, match="layers of type PNALayer"):
        simulate(PNA(0, 1, 4, 1))


@pytest.mark.parametrize(
    "graph", [nx.complete_graph(5), nx.petersen_graph(), nx.barabasi_albert_graph(15, 3, seed=2)]
)
def test_trace_counts_triangles(graph: nx.Graph) -> None:
    assert trace_of_cube(graph) == 2 * sum(nx.triangles(graph).values())


def test_pair_without_a_difference_in_triangles() -> None:
    found = separate(nx.cycle_graph(8), nx.disjoint_union(*[nx.cycle_graph(4)] * 2), ("", ""))
    assert found.first_trace == found.second_trace == 0
    assert not found.refinement_differs


def test_the_example_of_the_page_runs() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "theory" / "mpnn.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(code, {})
