"""Count the rows of contexts without building them."""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.config.models import CONTEXTS, PAIRWISE
from smpgnn.contexts.topology import Topology, segments, take
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec

#: Contexts that are counted per graph; those of other nodes are estimated from them.
_NODES = 32
#: Edges that a search follows at once, and in total.
_TOGETHER, _ENOUGH = 1 << 18, 1 << 21


def context_rows(sizes: Tensor, spec: NetworkSpec) -> Tensor:
    """Upper bound on the rows of the contexts of graphs with `sizes` nodes, [G]."""
    return sizes.square() if spec.options.model in PAIRWISE else sizes


def count_rows(store: GraphStore, spec: NetworkSpec) -> Tensor:
    """Rows of each graph's contexts in a layer, and messages between rows, [G, 2].

    For 'local', 'pairs' and 'neighborhood', rows are estimated from some contexts of each graph and
    averaged over the layers; for 'coloring' the result is close to an upper bound. Links between
    rows (docs/concepts/family.md) are not counted: their number grows with rows and messages.
    """
    sizes = store.num_nodes.cpu().double()
    rows = context_rows(sizes, spec)
    if spec.options.model in CONTEXTS and spec.options.identifiers == "pairs":
        # For each node that a context sees, the nodes close to it.
        near = _context_sizes(store, spec, spec.options.pair_distance) - 1
        rows = sizes * (1 + (_context_sizes(store, spec) - 1).minimum(sizes) * near.minimum(sizes))
    elif spec.options.model in CONTEXTS and spec.options.identifiers != "onehot":
        rows = sizes * _context_sizes(store, spec).minimum(sizes)
    return torch.stack([rows, rows * store.num_edges.cpu() / sizes.clamp(min=1)], dim=1)


def _context_sizes(store: GraphStore, spec: NetworkSpec, radius: int | None = None) -> Tensor:
    """The mean number of rows of a context of each graph, or of one of this radius, [G].

    The search starts with the largest graphs; graphs that it does not reach get their mean.
    """
    bare = GraphStore(store.node_ptr.cpu(), store.edge_ptr.cpu(), store.edge_index.cpu())
    batch = bare.batch()
    edges = batch.edge_index
    radius = spec.options.context_radius if radius is None else radius
    if spec.options.identifiers == "neighborhood":
        radius = spec.options.num_layers
    if spec.options.identifiers == "coloring":  # no two nodes within 2L hops share a colour
        edges, radius = torch.cat([edges, edges.flip(0)], dim=1), 2 * spec.options.num_layers
    topology = Topology(edges, batch.batch, batch.num_nodes, len(bare))
    graphs = torch.argsort(bare.num_nodes, descending=True, stable=True)
    sizes = bare.num_nodes[graphs]
    counted = sizes.clamp(max=_NODES)
    which, rank = segments(counted, int(counted.sum()))
    nodes = bare.node_ptr[graphs][which] + rank * sizes[which] // counted[which]
    total = torch.zeros(len(bare), dtype=torch.double)
    seen = torch.zeros(len(bare), dtype=torch.double)
    done, work, piece = 0, 0, 1
    while done < nodes.numel() and work < _ENOUGH:
        balls, cost = ball_sizes(topology, nodes[done : done + piece], radius)
        rows = balls[:, -1].double()
        if spec.options.identifiers == "neighborhood":
            # balls that have stopped growing keep their size
            rows = (balls.sum(1) + rows * (radius + 1 - balls.size(1))) / (radius + 1)
        graph = graphs[which[done : done + piece]]
        total.index_add_(0, graph, rows + 1)
        seen.index_add_(0, graph, torch.ones_like(rows))
        done, work = done + piece, work + cost
        piece = max(1, min(4 * piece, piece * _TOGETHER // max(cost, 1)))
    return torch.where(seen > 0, total / seen, total.sum() / seen.sum().clamp(min=1))


def ball_sizes(topology: Topology, nodes: Tensor, radius: int) -> tuple[Tensor, int]:
    """The number of nodes within 0, 1, …, `radius` hops of each of `nodes`, [K, R].

    R is `radius` + 1, or less if no ball grows any further. The second result is the number of
    edges that the search has followed.
    """
    count = max(topology.num_nodes, 1)
    known = frontier = torch.arange(nodes.numel()) * count + nodes
    sizes, cost = [torch.ones_like(nodes)], 0
    for _ in range(radius):
        at, end = frontier // count, frontier % count
        which, senders = _senders(topology, end)
        reached = torch.unique(take(at * count, which) + senders)
        place = torch.searchsorted(known, reached).clamp(max=max(known.numel() - 1, 0))
        frontier = reached[take(known, place) != reached] if reached.numel() else reached
        cost += senders.numel() + frontier.numel()
        if frontier.numel() == 0:
            break
        known = torch.cat([known, frontier]).sort().values
        sizes.append(sizes[-1] + torch.bincount(frontier // count, minlength=nodes.numel()))
    return torch.stack(sizes, dim=1), cost


def near_nodes(edge_index: Tensor, num_nodes: int, count: int) -> Tensor:
    """A mask of `count` nodes of a graph, [N]: a few that lie apart, and those closest to them."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1).long()
    topology = Topology(both, both.new_zeros(num_nodes), num_nodes, 1)
    frontier = torch.linspace(0, num_nodes - 1, 1 + count // 64, device=both.device).long()
    chosen = torch.zeros(num_nodes, dtype=torch.bool, device=both.device)
    while frontier.numel():
        chosen[frontier] = True
        near = torch.unique(_senders(topology, frontier)[1])
        frontier = near[~chosen[near]][: count - int(chosen.sum())]
    others = torch.nonzero(~chosen).flatten()
    chosen[others[: count - int(chosen.sum())]] = True
    return chosen


def _senders(topology: Topology, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The incoming edges of `nodes`: the position of the receiver in `nodes`, and the sender."""
    ptr, order = topology.edges_by_receiver
    first = take(ptr, nodes)
    fan = take(ptr, nodes + 1) - first
    which, rank = segments(fan, int(fan.sum()))
    return which, take(topology.sender, take(order, take(first, which) + rank))
