"""The links between rows, and fixed channels of initial rows, in batches of fixed size.

Each link is a list of entries (edges, rows, messages inside a context, triples), and each entry
names some rows or edges. The lists of a batch, and the order and pointers that sort the entries by
what they name, are cut out of those of the data set like all other index arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.axes import Axis, Column, Entries, IndexTables
from smpgnn.capture.rows import RowAxes, RowCut
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.contexts.topology import pointer, take
from smpgnn.data.store import GraphStore
from smpgnn.ops import Lift, RowGather, Triples

#: What the entries of each list name, on which axis; the entries are sorted by the first. Lists of
#: one name have an entry for each edge or row, and the others an axis of their own.
_LISTS: dict[str, dict[str, str]] = {
    "arcs": {"index": "row"},
    "back_arcs": {"index": "row"},
    "mirror": {"index": "row"},
    "diagonal": {"index": "row"},
    "inside": {"target": "row", "source": "row", "edge": "edge"},
    "triples": {"target": "row", "left": "row", "right": "row"},
    "block_triples": {"target": "row", "left": "row", "right": "row"},
}


@dataclass(frozen=True, eq=False)
class _Start:
    """Where each graph begins along an axis, [G + 1], and the graph of each entry."""

    ptr: Tensor
    graph: Tensor

    @classmethod
    def of(cls, graph: Tensor, graphs: int) -> _Start:
        return cls(pointer(torch.bincount(graph, minlength=graphs)), graph)

    def within(self, place: Tensor, graph: Tensor) -> Tensor:
        """Places counted within their graphs."""
        return place - take(self.ptr, graph)


class LinkAxes(RowAxes):
    """Other rows with links between them, and with fixed channels of their initial rows.

    Args:
        rows: of the contexts.
        store: the data set.
        index: of all its graphs, with edges sorted by receiver.
        links: names of the links (`smpgnn.contexts.links.Links`).
        first: the initial rows.
        row_axis: the axis of the rows of `index`.
    """

    def __init__(
        self,
        rows: RowAxes,
        store: GraphStore,
        index: ContextIndex,
        links: Sequence[str],
        first: FirstRows,
        row_axis: str = "row",
    ) -> None:
        self.rows, self.row_axis, self.node_columns = rows, rows.row_axis, rows.node_columns
        whole = isinstance(index.table, IdentifierRows)  # products of all pairs are dense
        self.links = [name for name in dict.fromkeys(links) if not (whole and name == "triples")]
        self.first, self._row_axis = first, row_axis
        graphs, topology = len(store), index.topology
        self._starts = {
            "row": _Start.of(index.row_graph, graphs),
            "edge": _Start.of(take(topology.batch, topology.receiver), graphs),
        }
        self._columns: dict[str, dict[str, Column]] = {"link_row": {}, "link_edge": {}}
        counts = {f"link_{axis}": start.ptr.diff() for axis, start in self._starts.items()}
        for name in self.links:
            found = getattr(index.links, name)
            lists = {field: getattr(found, field) for field in _LISTS[name]}
            if len(lists) > 1:
                start = _Start.of(take(index.row_graph, next(iter(lists.values()))), graphs)
                self._starts[name], self._columns[name] = start, {}
                counts[name] = start.ptr.diff()
            self._add(name, lists)
        self.axes = {
            **rows.axes,
            **{axis: Axis(counts[axis], columns) for axis, columns in self._columns.items()},
        }
        self._values: Tensor | None = None
        if first.fixed:
            values = first.values(index).float()
            self._values = torch.cat([values, values.new_zeros(1, values.size(1))])

    def _add(self, name: str, lists: Mapping[str, Tensor]) -> None:
        """The columns of one list: what its entries name, and the entries sorted by it."""
        axis = _axis(name)
        own, table = self._starts[axis], self._columns[_table(axis)]
        for number, (field, named) in enumerate(lists.items()):
            base = _LISTS[name][field]
            to = self._starts[base]
            table[f"{name} {field}"] = Column(to.within(named, own.graph), self._base(base))
            order = torch.argsort(named, stable=True)  # the entries of a graph stay together
            if number or len(lists) == 1:
                by = Column(own.within(order, own.graph), self._base(axis))
                table[f"{name} by {field}"] = by
            ptr = pointer(torch.bincount(named, minlength=to.graph.numel()))[:-1]
            ends = Column(own.within(ptr, to.graph), self._base(axis), pointer=True)
            self._columns[_table(base)][f"{name} {field} ptr"] = ends

    def _base(self, axis: str) -> str:
        return self._row_axis if axis == "row" else axis

    def cut(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, sizes: Mapping[str, int]
    ) -> RowCut:
        cut = self.rows.cut(tables, spans, nodes, sizes)
        entries = {axis: tables.cut(spans, axis) for axis in self._columns}
        lists = {name: _list_of(name, entries, sizes[self._row_axis]) for name in self.links}
        if "inside" in lists:
            lists["inside_entries"] = lists.pop("inside")
        given: dict[str, Any] = {"link_lists": lists}
        if self._values is not None:
            rows = self._values.index_select(0, entries["link_row"].place)
            given["first_rows"] = {self.first.key: rows}
        return RowCut(cut.table, cut.receive, cut.send, {**cut.given, **given})


def _axis(name: str) -> str:
    """The axis of the entries of a list."""
    if len(_LISTS[name]) > 1:
        return name
    return "edge" if name.endswith("arcs") else "row"


def _table(axis: str) -> str:
    """The axis that has our columns for the entries of an axis."""
    return f"link_{axis}" if axis in ("row", "edge") else axis


def _list_of(name: str, entries: Mapping[str, Entries], num_rows: int) -> Any:
    """One list of a batch: a `RowGather`, the entries of a `Lift`, or `Triples`."""
    axis, fields = _axis(name), _LISTS[name]
    own = entries[_table(axis)].columns
    named = [own[f"{name} {field}"] for field in fields]
    orders = [own.get(f"{name} by {field}") for field in fields]
    ptrs = [entries[_table(base)].columns[f"{name} {f} ptr"] for f, base in fields.items()]
    if len(fields) == 1:
        return RowGather(named[0], num_rows, given={"by_row": (ptrs[0], orders[0])})
    if name == "inside":
        target, source, edge = named
        given = {"by_source": (ptrs[1], orders[1]), "by_edge": orders[2], "edge_ends": ptrs[2]}
        return Lift(ptrs[0], source, target, edge, source.new_empty(0), given=given)
    target, left, right = named
    sorting = {"ptrs": tuple(ptrs), "orders": tuple(orders[1:])}
    return Triples(target, left, right, num_rows, given=sorting)
