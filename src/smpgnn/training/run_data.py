"""What a run stores about its data: the split of each row, and a fingerprint."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import Content, Fingerprint
from smpgnn.data.splits import PARTS, Split
from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.training.fold_table import FoldTable

#: Rows that no model is trained or chosen on, which a run with members may have.
CALIBRATION = "calibration"
_PARTS = (*PARTS, CALIBRATION)


@dataclass(frozen=True, eq=False)
class SplitTable:
    """The split of each row of the user's data, or of each node if a single graph is split.

    Rows in no split (not a molecule, or without a known target) are left out.

    Shapes: row, node, part [K]; `row` and `node` are indices from 0, `part` is an index into PARTS,
    or 3 for calibration.
    """

    row: Tensor
    part: Tensor
    node: Tensor | None = None

    @classmethod
    def of_rows(cls, split: Iterable[Tensor], rows: Tensor | None = None) -> SplitTable:
        """From the positions of the splits; `rows` [n] are the rows at these positions."""
        position, part = _flat(split)
        return cls(position if rows is None else rows[position], part)

    @classmethod
    def of_nodes(cls, split: Iterable[Tensor], node_ptr: Tensor) -> SplitTable:
        """From nodes counted through all graphs."""
        position, part = _flat(split)
        row = torch.searchsorted(node_ptr, position, right=True) - 1
        return cls(row, part, position - node_ptr[row])

    @classmethod
    def of_splits(cls, splits: Splits) -> SplitTable:
        """From a data set that comes split: rows are counted through its three splits."""
        sizes = torch.tensor([len(part) for part in vars(splits).values()])
        return cls(torch.arange(int(sizes.sum())), torch.arange(3).repeat_interleave(sizes))

    def split(self, rows: Tensor, node_ptr: Tensor) -> Split:
        """The split of graphs that come from `rows` [G], or of their nodes if these are split."""
        if self.node is not None:
            return self.split_of_nodes(node_ptr)
        return self.split_of_rows(rows)

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

    def outputs(self, rows: Tensor, node_ptr: Tensor) -> Tensor:
        """The positions of these rows (or nodes) among all graphs (or nodes), [K]."""
        graph = torch.full((int(torch.cat([self.row, rows]).max()) + 1,), -1)
        graph[rows] = torch.arange(rows.numel())
        position = graph[self.row]
        return position if self.node is None else node_ptr[position] + self.node

    def of(self, part: str) -> SplitTable:
        """The rows of one split."""
        chosen = self.part == _PARTS.index(part)
        node = None if self.node is None else self.node[chosen]
        return SplitTable(self.row[chosen], self.part[chosen], node)

    def without_calibration(self) -> SplitTable:
        """The same, where rows for calibration are for training."""
        return SplitTable(self.row, self.part % len(PARTS), self.node)

    def with_nodes(self, sizes: Tensor) -> SplitTable:
        """One row per node; the rows have `sizes` [K] nodes."""
        sizes = sizes.cpu()
        first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        row, part = self.row.repeat_interleave(sizes), self.part.repeat_interleave(sizes)
        return SplitTable(row, part, torch.arange(row.numel()) - first)

    def frame(self) -> pd.DataFrame:
        """The columns row, node (if nodes are split) and split; rows and nodes count from 1."""
        import pandas as pd

        columns = {"row": (self.row + 1).numpy()}
        if self.node is not None:
            columns["node"] = (self.node + 1).numpy()
        return pd.DataFrame({**columns, "split": np.array(_PARTS)[self.part.numpy()]})

    def to_csv(self) -> str:
        """The text of splits.csv."""
        return self.frame().to_csv(index=False, lineterminator="\n")

    @classmethod
    def from_csv(cls, text: str) -> SplitTable:
        """Read what `to_csv` wrote; raises `ValueError` for anything else."""
        import pandas as pd

        kinds = {"row": np.int64, "node": np.int64, "split": str}
        with np.errstate(invalid="ignore"):  # infinite numbers are refused below
            frame = pd.read_csv(io.StringIO(text), dtype=kinds, skip_blank_lines=False)
        numbers = frame.columns[:-1].tolist()
        if numbers not in (["row"], ["row", "node"]) or frame.columns[-1] != "split":
            raise ValueError(f"columns {list(frame)}")
        if frame.empty or not frame["split"].isin(_PARTS).all():
            raise ValueError("each row has a split")
        indices = torch.from_numpy(frame[numbers].to_numpy().T.copy()) - 1
        if int(indices.min()) < 0:
            raise ValueError("rows and nodes count from 1")
        row, *node = indices.unbind()
        part = torch.tensor(frame["split"].map(_PARTS.index).to_numpy())
        return cls(row, part, node[0] if node else None)


@dataclass(frozen=True, eq=False)
class RunData:
    """The data of a run at its start; `summary` has the plain values of a `DataSummary`."""

    fingerprint: Fingerprint
    splits: SplitTable | FoldTable
    summary: dict[str, Any] | None = None

    def check(self, content: Content) -> None:
        """Refuse data that differ from those of the run."""
        change = self.fingerprint.change(content.fingerprint, content.place)
        if change:
            raise InputError(
                f"{content.source}: is not the data of this run: {change}; restore it, start a new "
                "run, or evaluate all its rows with smpgnn evaluate RUN --data FILE."
            )


def _flat(split: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """All positions in ascending order, and the split of each."""
    parts = list(split)
    position = torch.cat(parts)
    sizes = torch.tensor([rows.numel() for rows in parts])
    part = torch.arange(len(parts)).repeat_interleave(sizes)
    order = position.argsort()
    return position[order], part[order]
