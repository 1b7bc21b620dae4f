"""The index arrays of a data set, and how those of a batch of fixed size are cut out of them.

A data set has axes: nodes, edges, and what the rows of its contexts bring (rows, messages, …). Each
axis has a number of entries in every graph and any number of columns: index arrays with one integer
per entry, counted within the graph. In a batch, each integer is shifted by the start of its graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from smpgnn.ops.ragged import BASE, BEGIN, cut, place


@dataclass(frozen=True, eq=False)
class Column:
    """One integer per entry of an axis.

    Args:
        values: [entries of all graphs], counted within each graph; negative for none.
        base: the axis that the integers index; '' for plain numbers, such as degrees.
        pointer: whether they say where a segment of `base` begins. Segments of padding are empty.
            Other integers of padding are the last index of `base`, which no graph uses.
    """

    values: Tensor
    base: str = ""
    pointer: bool = False


@dataclass(frozen=True, eq=False)
class Axis:
    """Entries of the graphs of a data set: how many each graph has, [G], and their columns."""

    counts: Tensor
    columns: Mapping[str, Column] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of a padded axis: their graph, their place in the data set, and their columns.

    Shapes: graph, place [size]; columns and small (the same as int32) [size] each; pointers have
    one entry more.
    """

    graph: Tensor
    place: Tensor
    columns: Mapping[str, Tensor]
    small: Mapping[str, Tensor]


class IndexTables:
    """Cuts batches of fixed size out of the axes of a data set, on its device.

    Args:
        axes: by name.
        sizes: the padded size of each axis; a batch uses fewer entries than that.
    """

    def __init__(self, axes: Mapping[str, Axis], sizes: Mapping[str, int]) -> None:
        self.names, self.sizes = list(axes), [sizes[name] for name in axes]
        counts = torch.stack([axis.counts for axis in axes.values()])
        begin = torch.cat([counts.new_zeros(counts.size(0), 1), counts.cumsum(1)], dim=1)
        self._graphs = torch.stack([torch.nn.functional.pad(counts, (0, 1)), begin])
        self._counts = counts.cpu()  # to see what fits without a question to the GPU
        self._last = torch.tensor(self.sizes, device=counts.device) - 1
        self._axes = [_Table.of(axis, self.names, self.sizes) for axis in axes.values()]

    def count(self, graphs: Tensor) -> list[int]:
        """The entries of these graphs along each axis; `graphs` on the CPU, −1 for none."""
        found: list[int] = self._counts[:, graphs[graphs >= 0]].sum(1).tolist()
        return found

    def fits(self, graphs: Tensor) -> bool:
        """Whether a batch can hold these graphs."""
        return all(n < size for n, size in zip(self.count(graphs), self.sizes, strict=True))

    def place(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """The places of these graphs in the data set, and their spans: see `smpgnn.ops.ragged`."""
        return place(graphs, self._graphs, self._last)

    def cut(self, spans: Tensor, axis: str) -> Entries:
        """The entries of a batch along one axis."""
        number = self.names.index(axis)
        table, size = self._axes[number], self.sizes[number]
        wide, small = cut(
            spans, number, table.values, table.bases, table.none, size + table.has_pointers
        )
        ends = [size + pointer for pointer in table.pointers]
        named = list(zip(table.names, ends, strict=True))
        return Entries(
            wide[0, :size],
            wide[1, :size],
            {name: wide[2 + k, :end] for k, (name, end) in enumerate(named)},
            {name: small[k, :end] for k, (name, end) in enumerate(named)},
        )


@dataclass(frozen=True, eq=False)
class _Table:
    """The columns of an axis as `smpgnn.ops.ragged.cut` takes them."""

    names: Sequence[str]
    pointers: Sequence[bool]
    values: Tensor
    bases: Tensor
    none: Tensor

    @property
    def has_pointers(self) -> bool:
        return any(self.pointers)

    @classmethod
    def of(cls, axis: Axis, names: Sequence[str], sizes: Sequence[int]) -> _Table:
        columns, device = axis.columns.values(), axis.counts.device
        entries = int(axis.counts.sum())
        values = torch.zeros(len(columns), entries + 1, dtype=torch.int32, device=device)
        bases, none = [], []
        for row, column in zip(values, columns, strict=True):
            row[:-1] = column.values
            if bool((column.values < 0).any()):
                row[-1] = -1
            number = names.index(column.base) if column.base else -1
            kind = BEGIN if column.pointer else BASE
            bases.append(kind * len(names) + number if column.base else -1)
            none.append(sizes[number] if column.base else 0)
        return cls(
            list(axis.columns),
            [column.pointer for column in columns],
            values,
            torch.tensor(bases, dtype=torch.long, device=device),
            torch.tensor(none, dtype=torch.long, device=device),
        )
