"""What a run knows of its data: which split each row is in, and the fingerprint of them all."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import Content, Fingerprint
from smpgnn.data.splits import PARTS, Split
from smpgnn.errors import InputError


@dataclass(frozen=True, eq=False)
class SplitTable:
    """The split of each row of the user's data, or, where one graph is split, of its nodes.

    Shapes: row, node, part [K]; `row` and `node` are indices from 0, `part` is the place in PARTS.
    Rows that are in no split (no molecule, no known target) do not occur.
    """

    row: Tensor
    part: Tensor
    node: Tensor | None = None

    @classmethod
    def of_rows(cls, split: Split, rows: Tensor | None = None) -> SplitTable:
        """From the positions of the splits; `rows` [n] are the rows at these positions."""
        position, part = _flat(split)
        return cls(position if rows is None else rows[position], part)

    @classmethod
    def of_nodes(cls, split: Split, node_ptr: Tensor) -> SplitTable:
        """From nodes counted through all graphs."""
        position, part = _flat(split)
        row = torch.searchsorted(node_ptr, position, right=True) - 1
        return cls(row, part, position - node_ptr[row])

    @classmethod
    def of_splits(cls, splits: Splits) -> SplitTable:
        """Of a data set that comes split: rows are counted through its three splits."""
        sizes = torch.tensor([len(part) for part in vars(splits).values()])
        return cls(torch.arange(int(sizes.sum())), torch.arange(3).repeat_interleave(sizes))

    def split_of_rows(self, rows: Tensor) -> Split:
        """Positions in `rows` [n] of the rows of each split."""
        part = torch.full((int(max(self.row.max(), rows.max())) + 1,), -1)
        part[self.row] = self.part
        return Split(*(torch.nonzero(part[rows] == number).flatten() for number in range(3)))

    def split_of_nodes(self, node_ptr: Tensor) -> Split:
        """The nodes of each split, counted through all graphs."""
        assert self.node is not None
        position = node_ptr[self.row] + self.node
        if bool((position >= node_ptr[self.row + 1]).any()):
            raise InputError("splits.csv: names a node that its graph does not have: restore it.")
        return Split(*(position[self.part == number] for number in range(3)))

    def of(self, part: str) -> SplitTable:
        """The rows of one split."""
        chosen = self.part == PARTS.index(part)
        node = None if self.node is None else self.node[chosen]
        return SplitTable(self.row[chosen], self.part[chosen], node)

    def with_nodes(self, sizes: Tensor) -> SplitTable:
        """A line for each node of the rows, which have these `sizes` [K]."""
        sizes = sizes.cpu()
        first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        row, part = self.row.repeat_interleave(sizes), self.part.repeat_interleave(sizes)
        return SplitTable(row, part, torch.arange(row.numel()) - first)

    def to_csv(self) -> str:
        """The columns row, node (where nodes are split) and split; counted from 1."""
        names = ["row", "split"] if self.node is None else ["row", "node", "split"]
        numbers = [self.row + 1] if self.node is None else [self.row + 1, self.node + 1]
        parts = [PARTS[part] for part in self.part.tolist()]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(*(column.tolist() for column in numbers), parts, strict=True))
        return text.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> SplitTable:
        """What `to_csv` wrote; raises `ValueError` for anything else."""
        reader = csv.reader(io.StringIO(text), strict=True)
        names = next(reader, [])
        if names not in (["row", "split"], ["row", "node", "split"]):
            raise ValueError(f"columns {names}")
        columns = list(zip(*reader, strict=True))
        if len(columns) != len(names):
            raise ValueError("no rows")
        numbers = np.array(columns[:-1], dtype=np.int64) - 1
        if numbers.min() < 0:
            raise ValueError("rows are counted from 1")
        part = torch.tensor([PARTS.index(name) for name in columns[-1]])
        row, *node = torch.from_numpy(numbers).unbind()
        return cls(row, part, node[0] if node else None)


@dataclass(frozen=True, eq=False)
class RunData:
    """The data of a run as they were when it began."""

    fingerprint: Fingerprint
    splits: SplitTable

    def check(self, content: Content) -> None:
        """Refuse data that are not those of the run."""
        change = self.fingerprint.change(content.fingerprint, content.place)
        if change:
            raise InputError(
                f"{content.source}: is not the data of this run: {change}; restore it, start a new "
                "run, or evaluate all its rows with smpgnn evaluate RUN --data FILE."
            )


def _flat(split: Split) -> tuple[Tensor, Tensor]:
    """All positions in ascending order, and the split of each."""
    position = torch.cat(list(split))
    part = torch.arange(3).repeat_interleave(torch.tensor([rows.numel() for rows in split]))
    order = position.argsort()
    return position[order], part[order]
