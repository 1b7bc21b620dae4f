"""Padded batches, cut out of the index arrays of a data set without synchronising with the CPU.

An axis (nodes, edges, rows, …) contains the entries of all graphs, one graph after another. A batch
concatenates the entries of some graphs and pads each axis to a fixed size. Spans describe where the
graphs of a batch are, [4, K, B + 1] for K axes: END and BEGIN in the batch, SHIFT from there to the
data set, and BASE, which is added to an index within the graph. The last graph is padding: its
entries begin after those of the others, and its BASE is the last index of the axis, which no graph
uses.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.topology import take
from smpgnn.ops.backend import fused

END, BEGIN, SHIFT, BASE = range(4)


def place(graphs: Tensor, table: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of the graphs of a batch in the data set [B + 1], and their spans [4, K, B + 1].

    Shapes: graphs [B], −1 for none; table [2, K, G + 1], the number of entries of each graph along
    each axis and the first one, and for index G no entries; last [K], the last index of each padded
    axis.
    """
    if fused(table):
        from smpgnn.ops.ragged import kernel

        slots, spans = kernel.place(graphs, table, last)
        return slots, spans
    slots = F.pad(graphs, (0, 1), value=-1).remainder(table.size(2))
    counts, first = table.index_select(2, slots)
    end = counts.cumsum(1)
    begin = end - counts
    base = torch.cat([begin[:, :-1], last.unsqueeze(1)], dim=1)
    return slots, torch.stack([end, begin, first - begin, base])


def cut(
    spans: Tensor, axis: int, table: Tensor, bases: Tensor, none: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """The first `size` entries of one axis of a batch: [2 + C, size], and the last C as int32.

    The first two rows are the graph of each entry and its index in the table. The columns of the
    table follow, each plus its base: row `bases[c]` of the spans as [4 K, B + 1], or zero if that
    is −1. A negative entry means none, and becomes none[c].

    Shapes: table [C, entries + 1] int32, whose last entry is for padding; bases, none [C].
    """
    if fused(table):
        from smpgnn.ops.ragged import kernel

        wide, small = kernel.cut(spans, axis, table, bases, none, size)
        return wide, small
    index = torch.arange(size, device=table.device)
    graph, entry = find_entries(spans[END, axis], spans[SHIFT, axis], index, table.size(1) - 1)
    offsets = F.pad(spans.flatten(0, 1), (0, 0, 0, 1))  # a last row of zeros, for −1
    values = table.index_select(1, entry).long()
    offset = offsets.index_select(0, bases.remainder(offsets.size(0))).index_select(1, graph)
    columns = torch.where(values < 0, none.unsqueeze(1), values + offset)
    return torch.cat([torch.stack([graph, entry]), columns]), columns.int()


def find_entries(end: Tensor, shift: Tensor, index: Tensor, last: int) -> tuple[Tensor, Tensor]:
    """The graph of each index of a padded axis, and its entry in a table whose last is `last`.

    Graphs end at `end` in the batch, and their entries are `shift` further on in the table,
    [B + 1] each.
    """
    graph = torch.searchsorted(end[:-1], index, right=True)
    return graph, (index + take(shift, graph)).clamp(max=last)


def square_owners(spans: Tensor, node: int, row: int, size: int) -> Tensor:
    """The node that owns each row if every node has one row per node of its graph, [size].

    `node` and `row` are the two axes.
    """
    index = torch.arange(size, device=spans.device)
    graph = torch.searchsorted(spans[END, row, :-1], index, right=True)
    nodes = take(spans[END, node] - spans[BEGIN, node], graph)
    local = (index - take(spans[BEGIN, row], graph)) // nodes.clamp(min=1)
    return local.masked_fill(nodes == 0, 0) + take(spans[BASE, node], graph)
