r"""Refinements: what networks of a kind can tell apart at most, computed exactly.

Colours of nodes or of pairs of nodes are refined together for all graphs that are to be compared,
until no colour splits any more. Colours are numbers that stand for equal signatures: there is no
hash that could collide. The number of nodes of a graph is part of its colours. Two graphs are *told
apart* where their numbers of nodes (or pairs) of each colour differ.

A network cannot tell apart more than the refinement of its kind, as each layer computes a row from
no more than a round does a colour. One thing in our networks is not local, the average degree of
the graph (and the 1/n of means). It adds nothing: equal final colours imply equal numbers of nodes
and equal degrees, so two graphs that the refinement takes for equal have the same average degree,
and as functions of colours with that number fixed all their rows agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Colors = NDArray[np.int64]
#: From the adjacency matrix and the colours of a graph to the signatures, one more axis.
Round = Callable[[NDArray[np.bool_], Colors], Colors]
#: From graphs to the final colours of each.
Refinement = Callable[[Sequence[nx.Graph]], list[Colors]]


def color_refinement(graphs: Sequence[nx.Graph]) -> list[Colors]:
    r"""Colour refinement (1-WL), the bound of message passing on node features.

    .. math:: c'(i) = \bigl(c(i),\ \{\!\{c(k): k \in N_i\}\!\}\bigr)

    Shapes: colours [n] of each graph.
    """

    def one_round(adjacent: NDArray[np.bool_], color: Colors) -> Colors:
        return np.concatenate([color[:, None], _multisets(adjacent, color[None, :])], axis=1)

    adjacency = [_adjacency(graph) for graph in graphs]
    return _refine(adjacency, [np.zeros(len(a), dtype=np.int64) for a in adjacency], one_round)


def smp_refinement(graphs: Sequence[nx.Graph]) -> list[Colors]:
    r"""The refinement of local contexts, the bound of SMP: c(i, j) is the colour of U_i[j, :].

    .. math::
        c^{(0)}(i, j) = 1[i = j], \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{c(k, j): k \in N_i\}\!\},\
                   \{\!\{c(i, k): k \in V\}\!\},\ 1[i = j]\bigr)

    No SMP of the library can exceed it. The first context is U_i[j] = 1[i = j]. The set map gives
    row j of context i from U_i[j], the mean of all rows of U_i, and whether i = j: one round knows
    all of these. Messages pair row j of i with row j of a neighbour k and are summed over the
    neighbours, and the update sees row j only: a second round knows them. So after two rounds a
    layer, equal colours mean equal rows, and the final colours determine the rows after any number
    of layers. Norms and residuals act row by row; extractors read own rows, row means and row
    maxima, which the final colours determine, too. Contexts of 'neighborhood' identifiers hold the
    same rows.

    It is the bound of the layers of section 4 (default and fast), not of the framework of
    section 3: a message that compares all rows of U_i with those of U_k may see more, and the
    layers of Theorem 2 do.

    Shapes: colours [n, n] of each graph.
    """

    def one_round(adjacent: NDArray[np.bool_], color: Colors) -> Colors:
        n = len(color)
        # neighbours[i, j] is the multiset of c(k, j) over k in N_i, row[i] that of c(i, k)
        neighbors = _multisets(adjacent[:, None, :], color.T[None, :, :])
        row = np.broadcast_to(np.sort(color, axis=1)[:, None, :], (n, n, n))
        own = np.eye(n, dtype=np.int64)
        return np.concatenate([color[..., None], own[..., None], neighbors, row], axis=2)

    adjacency = [_adjacency(graph) for graph in graphs]
    return _refine(adjacency, [np.eye(len(a), dtype=np.int64) for a in adjacency], one_round)


def folklore_refinement(graphs: Sequence[nx.Graph]) -> list[Colors]:
    r"""Folklore refinement of pairs (2-FWL, as powerful as 3-WL), the bound of PPGN and Ring-GNN.

    .. math::
        c^{(0)}(i, j) = \bigl(1[i = j], A_{ij}\bigr), \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{(c(i, k), c(k, j)): k \in V\}\!\}\bigr)

    It is at least as fine as the refinement of contexts: whether k is a neighbour of i is part of
    c(i, k), and with it the multisets of SMP can be read off.

    Shapes: colours [n, n] of each graph.
    """

    def one_round(adjacent: NDArray[np.bool_], color: Colors) -> Colors:
        # through[i, j, k] numbers the pair (c(i, k), c(k, j))
        through = color[:, None, :] * most + color.T[None, :, :]
        return np.concatenate([color[..., None], np.sort(through, axis=2)], axis=2)

    adjacency = [_adjacency(graph) for graph in graphs]
    most = sum(a.size for a in adjacency)  # there are no more colours than pairs
    first = [np.eye(len(a), dtype=np.int64) + 2 * a.astype(np.int64) for a in adjacency]
    return _refine(adjacency, first, one_round)


REFINEMENTS: dict[str, Refinement] = {
    "1-WL": color_refinement,
    "SMP": smp_refinement,
    "2-FWL": folklore_refinement,
}


def classes(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[int]:
    """A number for each graph; equal numbers where the refinement cannot tell them apart."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    found = []
    for color in refinement(graphs):
        histogram = tuple(sorted(Counter(color.ravel().tolist()).items()))
        found.append(numbers.setdefault(histogram, len(numbers)))
    return found


def _refine(
    adjacency: Sequence[NDArray[np.bool_]], colors: list[Colors], one_round: Round
) -> list[Colors]:
    """Rounds for all graphs together, until the number of colours stays the same."""
    colors, count = _renumber([color[..., None] for color in colors])
    while True:
        signatures = [one_round(a, color) for a, color in zip(adjacency, colors, strict=True)]
        colors, new = _renumber(signatures)
        if new == count:
            return colors
        count = new


def _renumber(signatures: Sequence[Colors]) -> tuple[list[Colors], int]:
    """Equal signatures get equal numbers 0, 1, …, over all graphs: the last axis is removed."""
    number: dict[bytes, int] = {}
    colors = []
    for signature in signatures:
        flat = np.ascontiguousarray(signature.reshape(-1, signature.shape[-1]))
        found = [number.setdefault(row.tobytes(), len(number)) for row in flat]
        colors.append(np.array(found, dtype=np.int64).reshape(signature.shape[:-1]))
    return colors, len(number)


def _multisets(chosen: NDArray[np.bool_], values: Colors) -> Colors:
    """The chosen values along the last axis, sorted, after −1 for each that is not chosen."""
    return np.sort(np.where(chosen, values, -1), axis=-1)


def _adjacency(graph: nx.Graph) -> NDArray[np.bool_]:
    matrix: NDArray[np.bool_] = nx.to_numpy_array(graph, nodelist=range(len(graph)), dtype=bool)
    return matrix
