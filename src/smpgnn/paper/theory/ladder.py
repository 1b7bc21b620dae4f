r"""The refinements of the family, from message passing to two marks.

Every refinement here is the class of networks: of SMP, of one of its relatives, or of a baseline.
c(i, j) is the colour of row j of the context of node i, c(i; j, k) that of the row with two marks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from smpgnn.paper.theory.refinement import Index, Multisets, Refinement, Rows


def color_refinement(graph: nx.Graph) -> Rows:
    r"""Colour refinement (1-WL), the bound of message passing on node features.

    .. math:: c'(i) = \bigl(c(i),\ \{\!\{c(k): k \in N_i\}\!\}\bigr)
    """
    return Rows(np.zeros(len(graph), dtype=np.int64), (Multisets(_neighbors(graph)),))


def context_refinement(graph: nx.Graph, *, inside: bool = False, folklore: bool = False) -> Rows:
    r"""The refinement of local contexts, the bound of SMP.

    .. math::
        c^{(0)}(i, j) = 1[i = j], \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{c(k, j): k \in N_i\}\!\},\
                   \{\!\{c(i, k): k \in V\}\!\}\bigr)

    No default or fast SMP can exceed it. The first context is U_i[j] = 1[i = j]. The set map
    computes row j of context i from U_i[j], the mean of all rows of U_i, and whether i = j, which
    its colour says: one round has all of these. A message combines row j of i with row j of a
    neighbour k, the aggregation sums over the neighbours, and the update uses row j only: a second
    round has these. So with two rounds per layer, equal colours imply equal rows, after any number
    of layers. Norms and residuals act row by row. Extractors read own rows, means and maxima of
    rows, all of which the final colours determine. Contexts of 'neighborhood' identifiers hold the
    same rows.

    This bounds the layers of section 4, not the framework of section 3: a message that compares
    all rows of U_i with those of U_k may distinguish more, and the layers of Theorem 2 do.

    Args:
        inside: a row also receives :math:`\{\!\{c(i, k): k \in N_j\}\!\}`, the neighbours inside
            its context (SSWL).
        folklore: both sums, over the neighbours of i and of j, have the pairs
            :math:`(c(i, k), c(k, j))` (local 2-FWL).
    """
    n, around = len(graph), _neighbors(graph)
    row, j = _numbers(n, n), np.arange(n)
    i = j[:, None, None]
    outer, inner = row[around[:, None], j[:, None]], row[i, around]  # k in N_i, k in N_j
    received = [_contexts(row)]
    if folklore:
        received += [_multisets(n, row[i, around[:, None]], outer)]
        received += [_multisets(n, inner, row[around, j[:, None]])]
    else:
        received += [_multisets(n, index) for index in ([outer, inner] if inside else [outer])]
    return Rows(np.eye(n, dtype=np.int64).ravel(), tuple(received))


def folklore_refinement(graph: nx.Graph) -> Rows:
    r"""Folklore refinement of pairs (2-FWL, as powerful as 3-WL), the bound of PPGN and Ring-GNN.

    .. math::
        c^{(0)}(i, j) = \bigl(1[i = j], A_{ij}\bigr), \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{(c(i, k), c(k, j)): k \in V\}\!\}\bigr)

    It is at least as fine as the refinements of contexts: c(i, k) tells whether k is a neighbour of
    i, and c(k, j) whether it is one of j, so their multisets can be read off.
    """
    n = len(graph)
    row = _numbers(n, n)[:-1, :-1]
    first = np.eye(n, dtype=np.int64) + 2 * _adjacency(graph)
    return Rows(first.ravel(), (_multisets(n, row[:, None], row.T),))


def marks_refinement(graph: nx.Graph, *, radius: int) -> Rows:
    r"""Contexts whose rows are described by two marks (j, k) at most `radius` hops apart.

    .. math::
        c^{(0)}(i; j, k) = \bigl(1[i = j], 1[i = k], d(j, k)\bigr), \qquad
        c'(i; j, k) = \bigl(c(i; j, k),\ \{\!\{c(l; j, k): l \in N_i\}\!\},\
                      \{\!\{c(i; j', k')\}\!\}\bigr)

    The last multiset is over all rows of the context. Rows with j = k are those of SMP.
    """
    distance = shortest_path(_adjacency(graph), unweighted=True)
    j, k = np.nonzero(distance <= radius)
    row, i = _numbers(len(graph), len(j)), np.arange(len(graph))[:, None]
    first = (i == j) + 2 * (i == k) + 4 * distance[j, k].astype(np.int64)
    outer = row[_neighbors(graph)[:, None], np.arange(len(j))[:, None]]
    return Rows(first.ravel(), (_contexts(row), _multisets(len(j), outer)))


#: The refinements by name, with what their rows receive.
REFINEMENTS: dict[str, Refinement] = {
    "1-WL": color_refinement,
    "SMP": context_refinement,
    "SSWL": partial(context_refinement, inside=True),
    "local 2-FWL": partial(context_refinement, inside=True, folklore=True),
    "2-FWL": folklore_refinement,
    "two marks ≤ 1": partial(marks_refinement, radius=1),
    "two marks ≤ 2": partial(marks_refinement, radius=2),
    "two marks ≤ 3": partial(marks_refinement, radius=3),
}


def _adjacency(graph: nx.Graph) -> NDArray[np.int64]:
    """A, [n, n], with the nodes 0, 1, … in their order."""
    found: Callable[..., NDArray[np.int64]] = nx.to_numpy_array
    return found(graph, nodelist=range(len(graph)), weight=None, dtype=np.int64)


def _neighbors(graph: nx.Graph) -> Index:
    """The neighbours of each node, −1 after the last, [n, D]."""
    lists = [list(graph[node]) for node in range(len(graph))]
    found = np.full((len(lists), max(map(len, lists), default=0)), -1, dtype=np.int32)
    for row, neighbors in zip(found, lists, strict=True):
        row[: len(neighbors)] = neighbors
    return found


def _numbers(nodes: int, rows: int) -> Index:
    """The numbers of the rows of all contexts; −1 in a last row and column, for index −1."""
    numbers = np.arange(nodes * rows, dtype=np.int32).reshape(nodes, rows)
    return np.pad(numbers, (0, 1), constant_values=-1)


def _contexts(row: Index) -> Multisets:
    """All rows of a context, for each of its rows."""
    n, rows = row.shape[0] - 1, row.shape[1] - 1
    return Multisets(row[:-1, :-1], group=np.arange(n, dtype=np.int32).repeat(rows))


def _multisets(rows: int, *indices: Index) -> Multisets:
    """A multiset for each row (i, j), from indices [n or 1, rows or 1, W]."""
    n = max(len(index) for index in indices if index.ndim == 3)
    return Multisets(
        *(np.broadcast_to(index, (n, rows, index.shape[-1])).reshape(n * rows, -1)
          for index in indices)
    )  # fmt: skip
