"""Rows that describe two marked nodes (not in the paper).

Row (j, k) of context i is what node i knows of the nodes j and k together. There is one for every
pair at most `pair_distance` hops apart whose nodes are both within `context_radius` hops of i, and
a far row for all other pairs. The pairs (j, j) stand for single nodes, and (i, i) is the own row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.rows import LocalRows, RowTable, find_rows, with_last_rows
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.tracing import number, occurrences, true_places


@dataclass(frozen=True, eq=False, kw_only=True)
class PairRows(RowTable):
    """One row per pair of nodes that a context sees, in the order of the pairs, then a far row.

    Every row has multiplicity 1, and the rows serve any number of layers.

    Args:
        pairs: the pairs (j, k) of all graphs, sorted, [2, Q].
        described: the number of the pair of each row, [P]; Q for a far row.
        nodes: the table with one row per node that a context sees.
        first, second: the rows of `nodes` for j and for k, [P]; the far row for a far row.
        pair_distance: the most hops between j and k.
    """

    pairs: Tensor
    described: Tensor
    nodes: LocalRows
    first: Tensor
    second: Tensor
    pair_distance: int

    @classmethod
    def build(
        cls, topology: Topology, balls: Tensor, pairs: Tensor, radius: int, distance: int
    ) -> PairRows:
        """From the pairs (node, node it sees), [2, K], and the pairs (j, k) of marks, [2, Q].

        Both are sorted and without repetition, as `neighborhoods` gives them.
        """
        count = topology.num_nodes
        nodes = LocalRows.build(topology, balls, radius)
        ptr = pointer(occurrences(pairs[0], count))
        fan = take(ptr.diff(), balls[1])
        which, rank = segments(fan, number(fan.sum()))
        pair = take(take(ptr, balls[1]), which) + rank
        owner, second = take(balls[0], which), take(pairs[1], pair)
        place = nodes.row_of(owner, second)
        near = true_places(take(nodes.described, place) < count)
        owner, pair, place = take(owner, near), take(pair, near), take(place, near)
        first = nodes.row_of(owner, take(pairs[0], pair))
        own = true_places((first == place) & (take(nodes.own, owner) == first), count)
        row_ptr, own, described = with_last_rows(
            pointer(occurrences(owner, count)),
            owner, pair, own, torch.ones_like(nodes.own), pairs.size(1),
        )  # fmt: skip
        far = nodes.ptr[1:] - 1
        ends = [described.new_empty(described.numel()) for _ in range(2)]
        seen = torch.arange(owner.numel(), device=owner.device) + owner
        for end, value in zip(ends, (first, place), strict=True):
            end[seen] = value
            end[row_ptr[1:] - 1] = far
        return cls(
            ptr=row_ptr,
            own=own,
            num_rows=described.numel(),
            context_radius=radius,
            pairs=pairs,
            described=described,
            nodes=nodes,
            first=ends[0],
            second=ends[1],
            pair_distance=distance,
        )

    def uncached(self) -> PairRows:
        return replace(self, given={}, nodes=replace(self.nodes, given={}))

    @cached_property
    def key(self) -> Tensor:
        """owner · (Q + 1) + described pair, [P], strictly increasing."""
        return self.owner * (self.pairs.size(1) + 1) + self.described

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        wanted = node * (self.pairs.size(1) + 1) + take(self.described, row)
        return find_rows(self.key, self.ptr, node, wanted)

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[PairRows, Tensor]:
        count, old = topology.num_nodes, self.nodes
        near = torch.nonzero(old.described < count).flatten()
        balls = torch.stack([old.owner, old.described]).index_select(1, near)
        assert self.context_radius is not None
        pairs, order = _renamed(self.pairs, permutation, count)
        table = self.build(
            topology, _renamed(balls, permutation, count)[0], pairs,
            self.context_radius, self.pair_distance,
        )  # fmt: skip
        number = torch.empty_like(order)
        number[order] = torch.arange(order.numel(), device=order.device)
        number = torch.cat([number, number.new_tensor([order.numel()])])
        key = permutation[self.owner] * (order.numel() + 1) + number[self.described]
        return table, torch.searchsorted(table.key, key)


def _renamed(pairs: Tensor, permutation: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Pairs of renamed nodes, sorted, and the order that sorts them."""
    first, second = permutation[pairs]
    key, order = (first * max(count, 1) + second).sort()
    return torch.stack([key // max(count, 1), key % max(count, 1)]), order
