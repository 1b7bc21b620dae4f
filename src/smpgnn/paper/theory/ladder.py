r"""The refinements of the family, from message passing to two marks.

Every refinement here is the class of networks: of SMP, of one of its relatives, or of a baseline.
c(i, j) is the colour of row j of the context of node i, c(i; j, k) that of the row with two marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from smpgnn.paper.theory.refinement import Multisets, Refinement, Rows

Index = NDArray[np.int32]


def color_refinement(graphs: Sequence[nx.Graph]) -> Rows:
    r"""Colour refinement (1-WL), the bound of message passing on node features.

    .. math:: c'(i) = \bigl(c(i),\ \{\!\{c(k): k \in N_i\}\!\}\bigr)
    """
    sizes = np.array([len(graph) for graph in graphs])
    around = _joined([_neighbors(graph) for graph in graphs], sizes)
    return Rows(np.zeros(sizes.sum(), dtype=np.int64), _pointer(sizes), (Multisets(around),))


def context_refinement(
    graphs: Sequence[nx.Graph], *, inside: bool = False, folklore: bool = False
) -> Rows:
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
    sizes = np.array([len(graph) for graph in graphs])
    outer, inner, left, right, context = [], [], [], [], []
    for graph in graphs:
        around, n = _neighbors(graph), len(graph)
        i, j = np.divmod(np.arange(n * n, dtype=np.int32)[:, None], n)
        outer.append(np.where(around[i[:, 0]] < 0, -1, around[i[:, 0]] * n + j))  # (k, j), k in N_i
        inner.append(np.where(around[j[:, 0]] < 0, -1, around[j[:, 0]] + i * n))  # (i, k), k in N_j
        if folklore:
            left.append(np.where(outer[-1] < 0, -1, around[i[:, 0]] + i * n))
            right.append(np.where(inner[-1] < 0, -1, around[j[:, 0]] * n + j))
        context.append(np.arange(n * n, dtype=np.int32).reshape(n, n))
    rows = sizes**2
    join = partial(_joined, rows=rows)
    received = [Multisets(join(context), group=_owner(sizes, sizes))]
    if folklore:
        received += [
            Multisets(join(left), join(outer)),
            Multisets(join(inner), join(right)),
        ]
    else:
        received += [Multisets(join(index)) for index in ([outer, inner] if inside else [outer])]
    own = np.concatenate([np.eye(n, dtype=np.int64).ravel() for n in sizes])
    return Rows(own, _pointer(rows), tuple(received))


def folklore_refinement(graphs: Sequence[nx.Graph]) -> Rows:
    r"""Folklore refinement of pairs (2-FWL, as powerful as 3-WL), the bound of PPGN and Ring-GNN.

    .. math::
        c^{(0)}(i, j) = \bigl(1[i = j], A_{ij}\bigr), \qquad
        c'(i, j) = \bigl(c(i, j),\ \{\!\{(c(i, k), c(k, j)): k \in V\}\!\}\bigr)

    It is at least as fine as the refinements of contexts: c(i, k) tells whether k is a neighbour of
    i, and c(k, j) whether it is one of j, so their multisets can be read off.
    """
    sizes = np.array([len(graph) for graph in graphs])
    first, left, right = [], [], []
    for graph in graphs:
        n = len(graph)
        pair = np.arange(n * n, dtype=np.int32).reshape(n, n)
        left.append(np.repeat(pair, n, axis=0))
        right.append(np.tile(pair.T, (n, 1)))
        first.append((np.eye(n, dtype=np.int64) + 2 * _adjacency(graph)).ravel())
    received = Multisets(_joined(left, sizes**2), _joined(right, sizes**2))
    return Rows(np.concatenate(first), _pointer(sizes**2), (received,))


def marks_refinement(graphs: Sequence[nx.Graph], *, radius: int) -> Rows:
    r"""Contexts whose rows are described by two marks (j, k) at most `radius` hops apart.

    .. math::
        c^{(0)}(i; j, k) = \bigl(1[i = j], 1[i = k], d(j, k)\bigr), \qquad
        c'(i; j, k) = \bigl(c(i; j, k),\ \{\!\{c(l; j, k): l \in N_i\}\!\},\
                      \{\!\{c(i; j', k')\}\!\}\bigr)

    The last multiset is over all rows of the context. Rows with j = k are those of SMP.
    """
    sizes = np.array([len(graph) for graph in graphs])
    first, outer, context, marks = [], [], [], []
    for graph in graphs:
        around, n = _neighbors(graph), len(graph)
        distance = shortest_path(_adjacency(graph), unweighted=True)
        j, k = np.nonzero(distance <= radius)
        node, mark = np.arange(n, dtype=np.int32)[:, None], np.arange(len(j), dtype=np.int32)
        first.append(((node == j) + 2 * (node == k) + 4 * distance[j, k].astype(np.int64)).ravel())
        reached = around[:, None, :] * len(j) + mark[:, None]  # [n, M, D]
        outer.append(np.where(around[:, None, :] < 0, -1, reached).reshape(n * len(j), -1))
        context.append(node * len(j) + mark)
        marks.append(len(j))
    rows = sizes * np.array(marks)
    received = (
        Multisets(_joined(context, rows), group=_owner(sizes, np.array(marks))),
        Multisets(_joined(outer, rows)),
    )
    return Rows(np.concatenate(first), _pointer(rows), received)


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


def _joined(indices: Sequence[Index], rows: NDArray[np.int64]) -> Index:
    """Indices into the rows of single graphs as indices into those of all, of equal width."""
    width = max(index.shape[1] for index in indices)
    starts = _pointer(rows)[:-1]
    return np.concatenate(
        [
            np.pad(
                np.where(index < 0, -1, index + np.int32(start)),
                ((0, 0), (0, width - index.shape[1])),
                constant_values=-1,
            )
            for index, start in zip(indices, starts, strict=True)
        ]
    )


def _owner(sizes: NDArray[np.int64], rows: NDArray[np.int64]) -> Index:
    """The context of each row, for graphs with `sizes` nodes and `rows` rows per context."""
    return np.arange(sizes.sum(), dtype=np.int32).repeat(np.repeat(rows, sizes))


def _pointer(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)])
