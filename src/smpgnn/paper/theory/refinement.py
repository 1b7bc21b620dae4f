r"""Refinements: exact upper bounds on what networks can distinguish.

A refinement colours nodes, or pairs of nodes, of all graphs to be compared and refines the colours
until none splits any more. Colours number the different signatures, without hash collisions. Graphs
are padded with absent nodes to the size of the largest; absent nodes have a colour of their own.
Two graphs are *distinguished* if some colour occurs a different number of times in them.

A layer computes a row from no more than a round of its refinement uses, so a network cannot
distinguish what the refinement does not. One input is not local: the average degree of the graph
(and n in means). It adds nothing. Graphs with equal colours have equal numbers of nodes and equal
degrees, hence equal averages, and for a fixed average all rows are functions of the colours.

Shapes: G graphs with at most N nodes; colours [G, N] of nodes or [G, N, N] of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import networkx as nx
import torch
from torch import Tensor

from smpgnn.paper.theory.graphs import adjacency_matrix

Refinement = Callable[[Sequence[nx.Graph]], Tensor]


def color_refinement(graphs: Sequence[nx.Graph]) -> Tensor:
    r"""Colour refinement (1-WL), the bound of message passing on node features.

    .. math:: c'(i) = \bigl(c(i),\ \{\!\{c(k): k \in N_i\}\!\}\bigr)

    Shapes: returns [G, N].
    """
    adjacent, present = _padded(graphs)

    def signatures(color: Tensor) -> Tensor:
        neighbors = _multisets(adjacent, color.unsqueeze(1))
        return torch.cat([color.unsqueeze(2), neighbors], dim=2)

    return _stable_colors(present.long(), signatures)


def smp_refinement(graphs: Sequence[nx.Graph]) -> Tensor:
    r"""The refinement of local contexts, the bound of SMP: c(i, j) is the colour of U_i[j, :].

    .. math::
        c^{(0)}(i, j) = 1[i = j], \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{c(k, j): k \in N_i\}\!\},\
                   \{\!\{c(i, k): k \in V\}\!\},\ 1[i = j]\bigr)

    No default or fast SMP can exceed it. The first context is U_i[j] = 1[i = j]. The set map
    computes row j of context i from U_i[j], the mean of all rows of U_i, and whether i = j: one
    round has all of these. A message combines row j of i with row j of a neighbour k, the
    aggregation sums over the neighbours, and the update uses row j only: a second round has these.
    So with two rounds per layer, equal colours imply equal rows, after any number of layers. Norms
    and residuals act row by row. Extractors read own rows, means and maxima of rows, all of which
    the final colours determine. Contexts of 'neighborhood' identifiers hold the same rows.

    This bounds the layers of section 4, not the framework of section 3: a message that compares
    all rows of U_i with those of U_k may distinguish more, and the layers of Theorem 2 do.

    Shapes: returns [G, N, N].
    """
    adjacent, present = _padded(graphs)
    own = torch.eye(present.size(1), dtype=torch.long).expand(adjacent.shape)

    def signatures(color: Tensor) -> Tensor:
        neighbors = _multisets(adjacent.unsqueeze(2), color.transpose(1, 2).unsqueeze(1))
        context = _numbered(color.sort(dim=2).values)
        both = torch.stack([color, context.unsqueeze(2).expand_as(color), own], dim=3)
        return torch.cat([both, neighbors], dim=3)

    return _stable_colors(_pairs(present, own), signatures)


def folklore_refinement(graphs: Sequence[nx.Graph]) -> Tensor:
    r"""Folklore refinement of pairs (2-FWL, as powerful as 3-WL), the bound of PPGN and Ring-GNN.

    .. math::
        c^{(0)}(i, j) = \bigl(1[i = j], A_{ij}\bigr), \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{(c(i, k), c(k, j)): k \in V\}\!\}\bigr)

    It is at least as fine as the refinement of contexts: c(i, k) tells whether k is a neighbour of
    i, so the multisets of SMP can be read off.

    Shapes: returns [G, N, N].
    """
    adjacent, present = _padded(graphs)
    first = torch.eye(present.size(1), dtype=torch.long) + 2 * adjacent

    def signatures(color: Tensor) -> Tensor:
        through = color.unsqueeze(2) * (color.max() + 1) + color.transpose(1, 2).unsqueeze(1)
        return torch.cat([color.unsqueeze(3), through.sort(dim=3).values], dim=3)

    return _stable_colors(_pairs(present, first), signatures)


REFINEMENTS: dict[str, Refinement] = {
    "1-WL": color_refinement,
    "SMP": smp_refinement,
    "2-FWL": folklore_refinement,
}


def classes(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[int]:
    """A number for each graph; equal numbers if the refinement cannot distinguish them."""
    colors: list[int] = _numbered(refinement(graphs).flatten(1).sort(dim=1).values).tolist()
    return colors


def _stable_colors(color: Tensor, signatures: Callable[[Tensor], Tensor]) -> Tensor:
    """Replace colours by the numbers of their signatures until no colour splits any more."""
    color, count = _numbered(color.unsqueeze(-1)), 0
    while int(color.max()) + 1 > count:
        count = int(color.max()) + 1
        color = _numbered(signatures(color))
    return color


def _multisets(chosen: Tensor, values: Tensor) -> Tensor:
    """The chosen values along the last dimension, sorted, after −1 for each that is not chosen."""
    return torch.where(chosen, values, -1).sort(dim=-1).values


def _numbered(signatures: Tensor) -> Tensor:
    """Equal signatures, along the last dimension, get equal numbers 0, 1, …"""
    number: dict[bytes, int] = {}
    rows = signatures.flatten(0, -2).numpy()
    found = [number.setdefault(row.tobytes(), len(number)) for row in rows]
    return torch.tensor(found).view(signatures.shape[:-1])


def _padded(graphs: Sequence[nx.Graph]) -> tuple[Tensor, Tensor]:
    """Adjacency matrices [G, N, N] and which nodes are present [G, N], both bool."""
    most = max(len(graph) for graph in graphs)
    adjacent = torch.zeros(len(graphs), most, most, dtype=torch.bool)
    present = torch.zeros(len(graphs), most, dtype=torch.bool)
    for number, graph in enumerate(graphs):
        n = len(graph)
        adjacent[number, :n, :n] = adjacency_matrix(graph) > 0
        present[number, :n] = True
    return adjacent, present


def _pairs(present: Tensor, first: Tensor) -> Tensor:
    """The first colours of pairs of nodes, −1 where one is absent."""
    return torch.where(present.unsqueeze(2) & present.unsqueeze(1), first, -1)
