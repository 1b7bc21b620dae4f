r"""The warm-up of Appendix B: contexts that are n×n matrices recover the graph by maxima.

.. math::
    U_i^{(1)} = A_i^{(1)}, \qquad U_i^{(l+1)} = \max_{j \in N_i \cup \{i\}} U_j^{(l)}
    \qquad\Longrightarrow\qquad U_i^{(l)} = A_i^{(l)}

A_i⁽ˡ⁾ is the part of the graph that node i can know after l layers: the edges (p, q) with
d(i, p) ≤ l, d(i, q) ≤ l and d(i, p) + d(i, q) < 2l.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers.base import SMPLayer
from smpgnn.paper.theory.graphs import adjacency_matrix, connected_graphs, distances, topology
from smpgnn.paper.theory.tables import print_table


class StarLayer(SMPLayer):
    r"""The first layer: from U_i = δ_i δ_iᵀ to the star of node i and its neighbours.

    .. math:: A_i^{(1)} = \delta_i s^\top + s\, \delta_i^\top, \quad s = \sum_{j \in N_i} \delta_j

    The messages are δ_j δ_jᵀ; their maximum is diag(s), whose row and column sums are s.
    Shapes: rows [P, n] to [P, n].
    """

    def __init__(self) -> None:
        super().__init__(aggregation="max")

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        column = messages.rows.sum(dim=1, keepdim=True) * context.expand(context.sum())
        return context.with_rows(column).add_own(messages.sum())


class MaxLayer(SMPLayer):
    r"""The recursion: :math:`U_i' = \max(U_i, \max_{j \in N_i} U_j)`, entry by entry."""

    def __init__(self) -> None:
        super().__init__(aggregation="max")

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(torch.maximum(context.rows, messages.rows))


def warm_up(graphs: Sequence[nx.Graph], depth: int) -> Tensor:
    """U_i⁽ˡ⁾ for l = 1 … depth, for graphs of the same size n, all in one batch.

    Args:
        graphs: undirected graphs with nodes 0 … n − 1.
        depth: the number of layers, the first of which builds the stars.

    Shapes: returns [number of graphs, depth, n, n, n], indexed by graph, l, i, p, q.
    """
    if len({len(graph) for graph in graphs}) != 1:
        raise InputError("graphs must all have the same number of nodes: call once for each size.")
    n = len(graphs[0])
    index = ContextIndex.build(topology(graphs), "onehot", depth)
    eye = torch.eye(n, dtype=torch.float64).repeat(len(graphs), 1)
    context = index.initial(eye, torch.float64)
    context = context.with_rows(context.rows[:, 1:])
    found = []
    for layer in [StarLayer(), *(MaxLayer() for _ in range(depth - 1))]:
        context = layer(context, index)
        found.append(context.rows.view(len(graphs), n, n, n))
    return torch.stack(found, dim=1)


def receptive_fields(graph: nx.Graph, depth: int) -> Tensor:
    """A_i⁽ˡ⁾ for l = 1 … depth as Appendix B defines it, from distances; [depth, n, n, n]."""
    adjacency = adjacency_matrix(graph)
    d = distances(adjacency)
    to_p, to_q = d.unsqueeze(2), d.unsqueeze(1)  # [i, p, 1] and [i, 1, q]
    return torch.stack(
        [
            adjacency * ((to_p <= hops) & (to_q <= hops) & (to_p + to_q < 2 * hops))
            for hops in range(1, depth + 1)
        ]
    )


def has_far_edge(graph: nx.Graph) -> bool:
    """Whether an edge joins two nodes that both have distance Δ from a third."""
    adjacency = adjacency_matrix(graph)
    d = distances(adjacency)
    far = (d == d.max()).double()
    return bool((far @ adjacency * far).any())


def run(max_nodes: int = 7) -> None:
    """Compare the recursion with A_i⁽ˡ⁾ on all connected graphs from 2 to `max_nodes` nodes."""
    table: list[list[object]] = [
        ["nodes", "graphs", "matrices", "differ", "all know A after Δ", "after Δ + 1"]
    ]
    for n in range(2, max_nodes + 1):
        graphs = connected_graphs(n, n)
        depth = max(nx.diameter(graph) for graph in graphs) + 1
        recursion = warm_up(graphs, depth)
        truth = torch.stack([receptive_fields(graph, depth) for graph in graphs])
        differ = int((recursion != truth).flatten(3).any(dim=3).sum())
        after, later = 0, 0
        for graph, contexts in zip(graphs, recursion, strict=True):
            diameter, adjacency = nx.diameter(graph), adjacency_matrix(graph)
            complete = bool((contexts[diameter - 1] == adjacency).all())
            assert complete != has_far_edge(graph), f"depth Δ on the edges {list(graph.edges)}"
            after += complete
            later += bool((contexts[diameter] == adjacency).all())
        assert differ == 0, f"the recursion differs from A_i⁽ˡ⁾ for {differ} matrices"
        assert later == len(graphs), "Δ + 1 layers do not always suffice"
        table.append([n, len(graphs), len(graphs) * depth * n, differ, after, later])
    print("Contexts are n×n matrices, the aggregation is the element-wise maximum.")
    print("U_i⁽ˡ⁾ of the recursion is compared with A_i⁽ˡ⁾ from distances, entry by entry.\n")
    print_table(table)
    print(
        "\nU_i⁽ˡ⁾ = A_i⁽ˡ⁾ throughout. All nodes hold A after Δ layers iff no edge joins two nodes"
    )
    print("that both have distance Δ from a third (a far edge); Δ + 1 layers always suffice.")
    print("\nThe triangle, Δ = 1, as node 0 sees it: the edge (1, 2) takes a second layer.")
    first, second = warm_up([nx.complete_graph(3)], 2)[0, :, 0].int().tolist()
    for one, two in zip(first, second, strict=True):
        print(f"    {one}    {two}")
