"""The cliques of junction trees, and means between cliques and atoms (for MPNN-JT)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.baselines.tree_decomposition import junction_trees
from smpgnn.capture.padded import Capacity, PaddedStore, usual_size
from smpgnn.capture.rows import NodeAxes
from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.structure import Cut, GraphStructure, PreparedStructure
from smpgnn.contexts.topology import Topology, pointer, take
from smpgnn.data.store import GraphStore
from smpgnn.ops import SparseSum
from smpgnn.ops.ragged import find_entries
from smpgnn.ops.sparse import sparse_apply


@dataclass(frozen=True, eq=False)
class Cliques:
    """The cliques of a batch of graphs, their atoms, and the trees that connect them.

    `trees` has a row for every clique; `members` sums over the atoms of every clique, `homes` over
    the cliques of every atom. Shape: kind [T] (see `JunctionTree`).
    """

    kind: Tensor
    trees: ContextIndex
    members: SparseSum
    homes: SparseSum

    def from_atoms(self, values: Tensor) -> Tensor:
        """The mean over the atoms of every clique, [N, C] to [T, C]."""
        return sparse_apply(values, self.members, self.homes) / self._sizes[0].to(values.dtype)

    def to_atoms(self, values: Tensor) -> Tensor:
        """The mean over the cliques of every atom, [T, C] to [N, C]; zero if there is none."""
        return sparse_apply(values, self.homes, self.members) / self._sizes[1].to(values.dtype)

    @cached_property
    def _sizes(self) -> tuple[Tensor, Tensor]:
        """The number of members [T, 1] and homes [N, 1], at least 1."""
        members, homes = self.members.ptr.diff(), self.homes.ptr.diff()
        return members.clamp(min=1).unsqueeze(1), homes.clamp(min=1).unsqueeze(1)


@dataclass(frozen=True)
class JunctionTrees(GraphStructure[Cliques]):
    """The junction tree of each graph (see `junction_trees`)."""

    def find(self, topology: Topology) -> Cliques:
        found = junction_trees(topology)
        atom, clique, count = found.atom, found.clique, found.kind.numel()
        graph = topology.batch.new_zeros(count)
        graph[clique] = topology.batch[atom]
        trees = Topology(found.edge_index, graph, count, topology.num_graphs)
        members = torch.bincount(clique, minlength=count)
        homes = torch.bincount(atom, minlength=topology.num_nodes)
        by_atom = torch.argsort(atom, stable=True)
        return Cliques(
            found.kind,
            ContextIndex.of_nodes(trees),
            SparseSum(pointer(members), atom),
            SparseSum(pointer(homes), clique[by_atom]),
        )

    def prepare(self, topology: Topology, graphs: int) -> PreparedTrees:
        return PreparedTrees(self.find(topology), topology, graphs)


class PreparedTrees(PreparedStructure[Cliques]):
    """The junction trees of a data set, as graphs of a store, and the atoms of their cliques.

    Args:
        found: the cliques of all graphs.
        topology: the graphs.
        graphs: the most graphs in a batch.
    """

    def __init__(self, found: Cliques, topology: Topology, graphs: int) -> None:
        trees = found.trees.topology
        members, homes = found.members.ptr.diff(), found.homes.ptr.diff()
        joined = trees.batch[trees.sender]
        store = GraphStore(
            trees.graph_ptr,
            pointer(torch.bincount(joined, minlength=trees.num_graphs)),
            trees.edge_index - trees.graph_ptr[joined],
            torch.stack([found.kind, members], 1),
        )
        rows = NodeAxes(store)
        self._trees = PaddedStore(store, Capacity.of(store, graphs, rows), rows)
        # Pairs of an atom and a clique: atoms sorted by clique and cliques sorted by atom, as
        # indices within their graph. All tables have one more entry, for padding.
        graph = trees.batch.repeat_interleave(members)
        atom = found.members.index - topology.graph_ptr[graph]
        clique = found.homes.index - trees.graph_ptr[graph]
        self._pairs = torch.stack([_with_zero(atom), _with_zero(clique)])
        self._homes = _with_zero(homes)
        pairs = torch.bincount(graph, minlength=trees.num_graphs)
        self._segments = torch.stack([_with_zero(pairs), pointer(pairs)])  # sizes and starts
        self._sizes = pairs.cpu()
        self._places = torch.arange(usual_size(pairs, graphs), device=pairs.device)
        self._zeros = pairs.new_zeros(1)

    def fits(self, graphs: Tensor) -> bool:
        pairs = int(self._sizes[graphs[graphs >= 0]].sum())
        return pairs < self._places.numel() and self._trees.fits(graphs)

    def cut(self, batch: Cut) -> Cliques:
        graphs, trees = self._trees.batch(batch.slots[:-1])
        assert graphs.x is not None
        kind, members = graphs.x.long().unbind(1)
        homes = take(self._homes, batch.node)
        size, first = self._segments.index_select(1, batch.slots)
        ends, last = size.cumsum(0), self._pairs.size(1) - 1
        owner, pair = find_entries(ends, first + size - ends, self._places, last)
        shift = torch.stack([batch.topology.graph_ptr[:-1], trees.topology.graph_ptr[:-1]])
        # The atom and the clique of padding are padding as well.
        atom, clique = self._pairs.index_select(1, pair) + shift.index_select(1, owner)
        return Cliques(
            kind,
            trees,
            SparseSum(torch.cat([self._zeros, members.cumsum(0)]), atom),
            SparseSum(torch.cat([self._zeros, homes.cumsum(0)]), clique),
        )


def _with_zero(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_zeros(1)])
