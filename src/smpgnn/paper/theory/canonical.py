"""Canonical order of the nodes of a small graph: isomorphic graphs get the same matrix.

The update of Theorem 2 must choose one of many embeddings of a graph, and the same one, up to the
order of the rows, for isomorphic graphs. It therefore sorts the nodes by a rule that depends on the
graph only: colour refinement, and where nodes keep equal colours, individualisation of each of them
in turn. Nodes that a known automorphism exchanges need one attempt only. This serves graphs of a
few dozen nodes.
"""

from __future__ import annotations

from typing import Any

from networkx.utils import UnionFind
from torch import Tensor

Codes = list[list[int]]


def canonical_order(codes: Tensor) -> list[int]:
    """An order of the nodes in which isomorphic graphs have equal matrices.

    For every permutation π of the nodes, π.codes in its canonical order equals codes in its own.
    Of several such orders, which automorphisms exchange, the numbering of the nodes decides.

    Args:
        codes: symmetric; codes[i, j] > 0 is the kind of the edge between i and j, 0 if there is
            none; codes[i, i] is the kind of node i.

    Shapes: codes [n, n] of integers; returns n node numbers.
    """
    kinds = _ranks(codes.diagonal().tolist())
    return _search(codes.tolist(), kinds)[1]


def _search(codes: Codes, colors: list[int]) -> tuple[Codes, list[int]]:
    """Among the orders that refine these colours, the one with the smallest matrix."""
    colors = _refine(codes, colors)
    nodes = range(len(codes))
    cells: dict[int, list[int]] = {}
    for node in nodes:
        cells.setdefault(colors[node], []).append(node)
    if len(cells) == len(codes):
        order = sorted(nodes, key=colors.__getitem__)
        return [[codes[i][j] for j in order] for i in order], order
    _, color = min((len(cell), color) for color, cell in cells.items() if len(cell) > 1)
    orbits = UnionFind(nodes)
    found: dict[int, tuple[Codes, list[int]]] = {}
    for node in cells[color]:
        for tried in found:
            if _are_twins(codes, tried, node):
                orbits.union(tried, node)
        if any(orbits[node] == orbits[tried] for tried in found):
            continue
        matrix, order = _search(codes, [2 * c - (k == node) for k, c in enumerate(colors)])
        for other_matrix, other in found.values():
            if matrix == other_matrix:  # an automorphism takes one order to the other
                for a, b in zip(order, other, strict=True):
                    orbits.union(a, b)
        found[node] = matrix, order
    return min(found.values())


def _refine(codes: Codes, colors: list[int]) -> list[int]:
    """Colour refinement in which edges have kinds, until no colour splits."""
    count = 0
    while len(set(colors)) > count:
        count = len(set(colors))
        signatures = []
        for i, row in enumerate(codes):
            around = sorted((code, colors[j]) for j, code in enumerate(row) if code and i != j)
            signatures.append((colors[i], around))
        colors = _ranks(signatures)
    return colors


def _ranks(values: list[Any]) -> list[int]:
    """How many of the values are smaller than each."""
    ordered = sorted(values)
    return [ordered.index(value) for value in values]


def _are_twins(codes: Codes, a: int, b: int) -> bool:
    """Whether exchanging a and b, of one colour, changes nothing."""
    return all(x == y for k, (x, y) in enumerate(zip(codes[a], codes[b], strict=True))
               if k not in (a, b))  # fmt: skip
