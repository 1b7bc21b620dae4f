"""How many rows and messages the contexts of graphs have, counted without building them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.config.catalogue import PAIRWISE
from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.topology import Topology, segments, take
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec

#: Steps of a search from all nodes that are taken together.
_TOGETHER = 1 << 22
#: Steps of search after which a graph is judged by the nodes counted so far, and a store by its
#: largest graphs.
_ENOUGH = 1 << 25
#: Nodes of the largest graph that is coloured to count its colours.
_COLORED = 1 << 13


@dataclass(frozen=True)
class BatchRows:
    """What a batch has: rows before the first and in each layer, messages from row to row.

    `indices` is the number of layers with rows of their own; the others share those of the last.
    """

    graphs: float
    nodes: float
    edges: float
    rows: tuple[float, ...]
    messages: tuple[float, ...]
    indices: int = 1

    def scaled(self, factor: float) -> BatchRows:
        """A batch of so many times the size."""
        return BatchRows(
            factor * self.graphs,
            factor * self.nodes,
            factor * self.edges,
            tuple(factor * value for value in self.rows),
            tuple(factor * value for value in self.messages),
            self.indices,
        )


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The same for each of G graphs.

    Shapes: nodes, edges, indices [G]; rows [G, L + 1]; messages [G, L].
    """

    nodes: Tensor
    edges: Tensor
    rows: Tensor
    messages: Tensor
    indices: Tensor

    def batch(self, graphs: Tensor | None = None) -> BatchRows:
        """These graphs (all without an argument) side by side."""
        if graphs is None:
            graphs = torch.arange(self.nodes.numel())
        return BatchRows(
            float(graphs.numel()),
            float(self.nodes[graphs].sum()),
            float(self.edges[graphs].sum()),
            tuple(self.rows[graphs].sum(0).tolist()),
            tuple(self.messages[graphs].sum(0).tolist()),
            int(self.indices[graphs].max()) if graphs.numel() else 1,
        )

    def order(self, count: int) -> Tensor:
        """The `count` graphs with the most rows, from the largest on."""
        total = self.rows.sum(1)
        return torch.topk(total, min(count, total.numel())).indices

    def limited(self, graphs: Tensor, batch_rows: int, spec: NetworkSpec) -> BatchRows:
        """A batch like that of these graphs with at most so many rows (0: no limit).

        As in training a single graph may have more. The first graph is the largest.
        """
        batch = self.batch(graphs)
        rows = context_rows(self.nodes[graphs], spec)
        if batch_rows <= 0 or graphs.numel() == 0:
            return batch
        return batch.scaled(min(1.0, max(batch_rows, int(rows[0])) / max(1, int(rows.sum()))))


def context_rows(sizes: Tensor, spec: NetworkSpec) -> Tensor:
    """Rows of the contexts of graphs with so many nodes, [G]; the most that the scheme can need."""
    return sizes.square() if spec.model in PAIRWISE else sizes


def count_rows(store: GraphStore, spec: NetworkSpec) -> RowCounts:
    """The counts of all graphs of a store.

    They are exact, but for 'neighborhood', 'local' and 'coloring' on graphs of many thousand nodes
    with many nodes in reach: there they come from a sample of the nodes.
    """
    store = _bare(store)
    if not _searched(spec):
        width = context_rows(store.num_nodes, spec).double() / store.num_nodes.clamp(min=1)
        return _uniform(store, width, spec.num_layers)
    count = _COUNTS[spec.identifiers]
    cost = store.num_nodes * (store.num_nodes + store.num_edges)
    small = cost <= _TOGETHER
    parts: list[tuple[Tensor, RowCounts]] = []
    together = torch.nonzero(small).flatten()
    if together.numel():
        weight = cost[together].cumsum(0) // _TOGETHER
        for piece in torch.split(together, torch.bincount(weight).tolist()):
            if piece.numel():
                parts.append((piece, count(store.select(piece), spec)))
    for graph in torch.nonzero(~small).flatten():
        parts.append((graph.view(1), count(store.select(graph.view(1)), spec)))
    order = torch.argsort(torch.cat([graphs for graphs, _ in parts]))
    return _join([counts for _, counts in parts], order)


def count_largest(store: GraphStore, spec: NetworkSpec, batch_size: int) -> RowCounts:
    """Counts of enough graphs that the `batch_size` with the most rows are among them.

    Where the scheme needs a search, graphs are taken from the largest on, as long as one of those
    that are left could still be among the first.
    """
    if not _searched(spec):
        return count_rows(store, spec)
    store = _bare(store)
    sizes = store.num_nodes
    order = torch.argsort(sizes, descending=True, stable=True)
    most = (sizes * (sizes + 1) * (spec.num_layers + 1))[order]
    found: list[RowCounts] = []
    start, piece, work = 0, max(2 * batch_size, 64), 0.0
    while start < order.numel():
        found.append(count_rows(store.select(order[start : start + piece]), spec))
        start += piece
        work += float(found[-1].messages.sum())
        total = torch.cat([counts.rows.sum(1) for counts in found])
        least = torch.topk(total, min(batch_size, total.numel())).values[-1]
        enough = total.numel() >= batch_size and start < order.numel() and least >= most[start]
        if enough or work > 4 * _ENOUGH:
            break
    return _join(found)


def _bare(store: GraphStore) -> GraphStore:
    """The graphs without features."""
    return GraphStore(store.node_ptr.cpu(), store.edge_ptr.cpu(), store.edge_index.cpu())


def _searched(spec: NetworkSpec) -> bool:
    return spec.model in ("smp", "fast-smp") and spec.identifiers != "onehot"


def _join(parts: list[RowCounts], order: Tensor | None = None) -> RowCounts:
    names = ("nodes", "edges", "rows", "messages", "indices")
    joined = [torch.cat([getattr(part, name) for part in parts]) for name in names]
    return RowCounts(*(joined if order is None else (value[order] for value in joined)))


def _uniform(store: GraphStore, width: Tensor, num_layers: int) -> RowCounts:
    """Contexts of so many rows, the same in all layers. Shape: width [G]."""
    rows = (store.num_nodes * width).unsqueeze(1).expand(-1, num_layers + 1)
    messages = (store.num_edges * width).unsqueeze(1).expand(-1, num_layers)
    ones = torch.ones_like(store.num_nodes)
    return RowCounts(store.num_nodes, store.num_edges, rows, messages, ones)


def _count_colors(store: GraphStore, spec: NetworkSpec) -> RowCounts:
    topology, num_layers = _topology(store), spec.num_layers
    if not _at_once(topology):
        # Nodes are coloured one after the other: where there are many, the largest number of nodes
        # within 2L hops serves, which the number of colours does not exceed.
        both = torch.cat([topology.edge_index, topology.edge_index.flip(0)], dim=1)
        undirected = Topology(both, topology.batch, topology.num_nodes, 1)
        reach, _, cost = _sampled_balls(undirected, 2 * num_layers)
        if topology.num_nodes > _COLORED or cost > _TOGETHER:
            return _uniform(store, reach[:, -1].max().view(1).double(), num_layers)
    width = torch.zeros_like(store.num_nodes)
    width.scatter_reduce_(0, topology.batch, coloring(topology, num_layers) + 1, "amax")
    return _uniform(store, width.double(), num_layers)


def _count_neighborhoods(store: GraphStore, spec: NetworkSpec) -> RowCounts:
    topology, num_layers = _topology(store), spec.num_layers
    seen, nodes, _ = _sampled_balls(topology, num_layers)
    seen = _widened(seen, num_layers + 1)
    graph, size = take(topology.batch, nodes), topology.graph_size
    short = (seen < take(size, graph).unsqueeze(1)).long()
    partial = torch.zeros(len(store), num_layers + 1, dtype=torch.long)
    partial.scatter_reduce_(0, graph.unsqueeze(1).expand_as(short), short, "amax")
    before = torch.cat([partial[:, :1], partial[:, :-1]], dim=1)  # see `Balls.table`
    rows, messages = _graph_totals(topology, nodes, seen + take(before, graph))
    grown = torch.zeros(len(store), num_layers, dtype=torch.long)
    more = seen.diff(dim=1) > 0
    grown.scatter_reduce_(0, graph.unsqueeze(1).expand_as(more), more.long(), "amax")
    indices = (1 + grown.cumprod(1).sum(1)).clamp(max=num_layers)
    return RowCounts(store.num_nodes, store.num_edges, rows, messages[:, 1:], indices)


def _count_local(store: GraphStore, spec: NetworkSpec) -> RowCounts:
    topology, num_layers = _topology(store), spec.num_layers
    seen, nodes, _ = _sampled_balls(topology, spec.context_radius)
    rows, messages = _graph_totals(topology, nodes, seen[:, -1:] + 1)
    ones = torch.ones_like(store.num_nodes)
    return RowCounts(
        store.num_nodes,
        store.num_edges,
        rows.expand(-1, num_layers + 1),
        messages.expand(-1, num_layers),
        ones,
    )


def _graph_totals(topology: Topology, nodes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and messages of each graph, [G, K] each, from the rows of a sample of nodes, [S, K]."""
    graph, rows = take(topology.batch, nodes), rows.double()
    counted = torch.bincount(graph, minlength=topology.num_graphs).clamp(min=1)
    share = (topology.graph_size.double() / counted).unsqueeze(1)
    degree = take(topology.degree, nodes).double().unsqueeze(1)
    none = torch.zeros(topology.num_graphs, rows.size(1), dtype=torch.double)
    total, sent = (none.index_add(0, graph, values) for values in (rows, degree * rows))
    return total * share, sent * share


#: Schemes whose rows are found by a search.
_COUNTS = {
    "coloring": _count_colors,
    "neighborhood": _count_neighborhoods,
    "local": _count_local,
}


def _topology(store: GraphStore) -> Topology:
    batch = store.batch()
    return Topology(batch.edge_index, batch.batch, batch.num_nodes, batch.num_graphs)


def _at_once(topology: Topology) -> bool:
    """Whether all nodes can be searched from together: several graphs, or a small one."""
    cost = topology.num_nodes * (topology.num_nodes + topology.num_edges)
    return topology.num_graphs > 1 or cost <= _TOGETHER


def _sampled_balls(topology: Topology, radius: int) -> tuple[Tensor, Tensor, float]:
    """`ball_sizes` of all nodes, or of those counted when the search has taken long enough.

    Returns the sizes [K, R], the nodes [K] and the cost of a search from all nodes.
    """
    if _at_once(topology):
        nodes = torch.arange(topology.num_nodes)
        sizes, cost = ball_sizes(topology, nodes, radius)
        return sizes, nodes, cost
    nodes = torch.randperm(topology.num_nodes, generator=torch.Generator().manual_seed(0))
    found, done, work, piece = [], 0, 0, 1
    while done < nodes.numel() and work < _ENOUGH:
        sizes, cost = ball_sizes(topology, nodes[done : done + piece], radius)
        found.append(sizes)
        done, work = done + sizes.size(0), work + cost
        piece = max(1, min(4 * piece, piece * _TOGETHER // max(cost, 1)))
    width = max(sizes.size(1) for sizes in found)
    sizes = torch.cat([_widened(sizes, width) for sizes in found])
    return sizes, nodes[:done], work * nodes.numel() / done


def _widened(sizes: Tensor, width: int) -> Tensor:
    """The sizes of balls, [K, R], for more radii, [K, width]: they have stopped growing."""
    more = width - sizes.size(1)
    return torch.cat([sizes, sizes[:, -1:].expand(-1, more)], dim=1) if more > 0 else sizes


def ball_sizes(topology: Topology, nodes: Tensor, radius: int) -> tuple[Tensor, int]:
    """How many nodes each of these has heard of after 0, 1, …, `radius` layers, [K, R].

    R is `radius` + 1, or less where no ball grows any more. The second result is the number of
    edges that the search has gone along.
    """
    count = max(topology.num_nodes, 1)
    ptr, order = topology.edges_by_receiver
    sender = take(topology.sender, order)
    known = frontier = torch.arange(nodes.numel()) * count + nodes
    sizes, cost = [torch.ones_like(nodes)], 0
    for _ in range(radius):
        at, end = frontier // count, frontier % count
        first = take(ptr, end)
        fan = take(ptr, end + 1) - first
        total = int(fan.sum())
        which, rank = segments(fan, total)
        reached = torch.unique(take(at * count, which) + take(sender, take(first, which) + rank))
        place = torch.searchsorted(known, reached).clamp(max=max(known.numel() - 1, 0))
        frontier = reached[take(known, place) != reached] if reached.numel() else reached
        cost += total + frontier.numel()
        if frontier.numel() == 0:
            break
        known = torch.cat([known, frontier]).sort().values
        sizes.append(sizes[-1] + torch.bincount(frontier // count, minlength=nodes.numel()))
    return torch.stack(sizes, dim=1), cost
