"""Junction trees of graphs: rings and bonds as the nodes of a tree (for MPNN-JT)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.baselines.per_graph import CACHE_SIZE, GraphKey, split_graphs
from smpgnn.baselines.rings import relevant_cycles
from smpgnn.contexts.topology import Topology

RING, BOND, BRIDGED, SINGLETON = range(4)
NUM_KINDS = 4

Clique = frozenset[int]


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """The junction trees of a batch of graphs.

    Shapes: kind [T] (0 ring, 1 bond, 2 bridged rings, 3 single atom), edge_index [2, F] between
    cliques, atom [M] and clique [M]: atom[k] is in clique[k].
    """

    kind: Tensor
    edge_index: Tensor
    atom: Tensor
    clique: Tensor


def junction_trees(topology: Topology) -> JunctionTree:
    """Decompose each graph of a batch, as undirected graphs without repeated edges and self loops.

    Cost: one or two milliseconds per molecule on the CPU, once per graph and process: results are
    cached by the edges of the graph (see `per_graph.CACHE_SIZE`). Meant for sparse graphs; dense
    ones have very many rings.
    """
    keys, _ = split_graphs(topology)
    trees = [_tree(key) for key in keys]
    first_atom = np.cumsum([0, *(key.num_nodes for key in keys)])
    first_clique = np.cumsum([0, *(len(kind) for kind, _, _ in trees)])
    kinds, edges, members = [], [], []
    for number, (kind, edge, member) in enumerate(trees):
        kinds.append(kind)
        edges.append(edge + first_clique[number])
        members.append(member + np.array([first_atom[number], first_clique[number]])[:, None])
    kind = np.concatenate([np.zeros(0, dtype=np.int64), *kinds])
    edge_index, member = (
        np.concatenate([np.zeros((2, 0), dtype=np.int64), *parts], axis=1)
        for parts in (edges, members)
    )
    atom, clique = torch.from_numpy(member).to(topology.device)
    return JunctionTree(
        torch.from_numpy(kind).to(topology.device),
        torch.from_numpy(edge_index).to(topology.device),
        atom,
        clique,
    )


@lru_cache(maxsize=CACHE_SIZE)
def _tree(key: GraphKey) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Kinds [T], edges in both directions [2, F] and (atom, clique) pairs [2, M] of one graph."""
    cliques, kinds, edges = decompose(key.pairs)
    both = [edge for a, b in edges for edge in ((a, b), (b, a))]
    members = [(atom, number) for number, clique in enumerate(cliques) for atom in sorted(clique)]
    return np.array(kinds, dtype=np.int64), _columns(both), _columns(members)


def decompose(
    pairs: list[tuple[int, int]],
) -> tuple[list[Clique], list[int], list[tuple[int, int]]]:
    """The cliques of a graph, their kinds, and the edges of the tree between them.

    The rules are those of `torch_geometric.utils.tree_decomposition` (Jin et al., 2018), which
    needs a molecule of RDKit. Cliques are rings, merged if they share more than two atoms, and the
    bonds outside of rings; an atom in many cliques becomes a clique of its own. The tree is a
    spanning tree of cliques that maximises the number of shared atoms.

    Ties are broken there by the order of the atoms. Here the result does not depend on the order:
    it has the rings of all minimum cycle bases and the edges of all maximum spanning trees. So it
    may have cycles where rings meet with high symmetry.
    """
    rings = relevant_cycles(pairs)
    in_ring = {pair for ring in rings for pair in ring}
    found = _merged([frozenset(a for pair in ring for a in pair) for ring in rings])
    found += [(frozenset(pair), BOND) for pair in pairs if pair not in in_ring]
    cliques, kinds = [clique for clique, _ in found], [kind for _, kind in found]
    weight: dict[tuple[int, int], int] = {}
    for atom, meeting in sorted(_meeting(cliques).items()):
        if len(meeting) < 2:
            continue
        bonds = sum(len(cliques[c]) == 2 for c in meeting)
        large = sum(len(cliques[c]) > 4 for c in meeting)
        crowded = bonds > 2 or (bonds == 2 and len(meeting) > 2)
        if crowded or large > 2:
            for c in meeting:
                weight[c, len(cliques)] = 1 if crowded else 99
            cliques.append(frozenset([atom]))
            kinds.append(SINGLETON)
        else:
            for a, b in combinations(meeting, 2):
                weight[a, b] = len(cliques[a] & cliques[b])
    return cliques, kinds, _spanning_edges(len(cliques), weight)


def _merged(rings: list[Clique]) -> list[tuple[Clique, int]]:
    """Merge rings that share more than two atoms, until none do."""
    groups: list[tuple[Clique, int]] = []
    for ring in rings:
        kind = RING
        while touching := [group for group in groups if len(group[0] & ring) > 2]:
            groups = [group for group in groups if group not in touching]
            ring, kind = ring.union(*(clique for clique, _ in touching)), BRIDGED
        groups.append((ring, kind))
    return groups


def _meeting(cliques: list[Clique]) -> dict[int, list[int]]:
    """The cliques that each atom is in."""
    meeting: dict[int, list[int]] = defaultdict(list)
    for number, clique in enumerate(cliques):
        for atom in clique:
            meeting[atom].append(number)
    return meeting


def _spanning_edges(count: int, weight: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """The edges of all maximum spanning trees: Kruskal, with all edges of a weight at once."""
    group = list(range(count))  # cliques joined so far have the same number
    kept: list[tuple[int, int]] = []
    for level in sorted(set(weight.values()), reverse=True):
        new = [(a, b) for (a, b), w in weight.items() if w == level and group[a] != group[b]]
        kept += new
        for a, b in new:
            old, joined = group[a], group[b]
            group = [joined if g == old else g for g in group]
    return kept


def _columns(rows: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, 2).T
