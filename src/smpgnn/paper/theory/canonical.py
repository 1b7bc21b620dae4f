"""Canonical order of the nodes of a small graph: isomorphic graphs get the same matrix.

The update of Theorem 2 must choose one of many embeddings of a graph, and isomorphic graphs must
get the same choice up to the order of the rows. So the nodes are put into an order that depends on
the graph only, by colour refinement and, where it leaves nodes with one colour, by trying each of
them (individualisation). Two of them that a known automorphism exchanges need one try only. It is
meant for graphs of a few dozen nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

Codes = tuple[tuple[int, ...], ...]
#: The colour of a node, and the kinds and colours of its edges and neighbours.
Signature = tuple[int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, order=True)
class _Leaf:
    codes: Codes
    order: tuple[int, ...]


def canonical_order(codes: Tensor) -> tuple[int, ...]:
    """An order of the nodes in which isomorphic graphs have equal matrices.

    For a permutation π of the nodes, π.codes in its canonical order equals codes in its own. Which
    of the orders that automorphisms exchange is returned depends on how the nodes are numbered.

    Args:
        codes: symmetric; codes[i, j] > 0 is the kind of the edge between i and j, 0 where there is
            none, codes[i, i] the kind of node i.

    Shapes: codes [n, n] of integers; returns n node numbers.
    """
    return _canonical(tuple(tuple(int(v) for v in row) for row in codes.tolist()))


@lru_cache(maxsize=4096)
def _canonical(codes: Codes) -> tuple[int, ...]:
    return _search(codes, _ranks([(codes[i][i], ()) for i in range(len(codes))])).order


def _search(codes: Codes, colors: list[int]) -> _Leaf:
    """The least matrix among the orders that refine these colours."""
    n = len(codes)
    colors = _refine(codes, colors)
    cells: dict[int, list[int]] = {}
    for node, color in enumerate(colors):
        cells.setdefault(color, []).append(node)
    if len(cells) == n:
        order = tuple(cells[color][0] for color in range(n))
        return _Leaf(tuple(tuple(codes[i][j] for j in order) for i in order), order)
    _, color = min((len(cell), color) for color, cell in cells.items() if len(cell) > 1)
    orbit = list(range(n))  # nodes that automorphisms exchange share a number
    leaves: dict[int, _Leaf] = {}
    for node in cells[color]:
        twin = next((tried for tried in leaves if _are_twins(codes, tried, node)), node)
        _merge(orbit, twin, node)
        if orbit[node] in (orbit[tried] for tried in leaves):
            continue
        single: list[Signature] = [(2 * c - (k == node), ()) for k, c in enumerate(colors)]
        leaf = _search(codes, _ranks(single))
        for other in leaves.values():
            if other.codes == leaf.codes:
                for a, b in zip(other.order, leaf.order, strict=True):
                    _merge(orbit, a, b)
        leaves[node] = leaf
    return min(leaves.values())


def _refine(codes: Codes, colors: list[int]) -> list[int]:
    """Colour refinement with kinds of edges, until no colour splits."""
    count = len(set(colors))
    while True:
        around = [
            sorted((code, colors[j]) for j, code in enumerate(row) if code and i != j)
            for i, row in enumerate(codes)
        ]
        colors = _ranks([(c, tuple(a)) for c, a in zip(colors, around, strict=True)])
        if (new := len(set(colors))) == count:
            return colors
        count = new


def _ranks(signatures: Sequence[Signature]) -> list[int]:
    """How many signatures are smaller than each: 0 … n − 1 where all differ."""
    first: dict[Signature, int] = {}
    for place, signature in enumerate(sorted(signatures)):
        first.setdefault(signature, place)
    return [first[signature] for signature in signatures]


def _are_twins(codes: Codes, a: int, b: int) -> bool:
    """Whether exchanging a and b, of one colour, changes nothing."""
    return all(codes[a][k] == codes[b][k] for k in range(len(codes)) if k not in (a, b))


def _merge(orbit: list[int], a: int, b: int) -> None:
    low, high = sorted((orbit[a], orbit[b]))
    for node, number in enumerate(orbit):
        if number == high:
            orbit[node] = low
