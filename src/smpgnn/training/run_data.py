"""What a run stores about its data: the split of each row, or the folds, and a fingerprint."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
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
        position = self.outputs(rows, node_ptr)
        there = position >= 0
        return Split(*(position[there & (self.part == part)].sort().values for part in range(3)))

    def outputs(self, rows: Tensor, node_ptr: Tensor) -> Tensor:
        """The positions of these rows (or nodes) among all graphs (or nodes), [K]; −1: none."""
        graph = torch.full((int(torch.cat([self.row, rows]).max()) + 1,), -1)
        graph[rows] = torch.arange(rows.numel())
        position = graph[self.row]
        if self.node is None:
            return position
        nodes = node_ptr[position] + self.node
        if bool((nodes >= node_ptr[position + 1]).any()):
            raise InputError("splits.csv: names a node that its graph does not have: restore it.")
        return nodes

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
class FoldTable:
    """The split of each repeat and fold, by (repeat, fold); both count from 1.

    A fold is the test split of its members. Each row is in one fold of each repeat.
    """

    splits: Mapping[tuple[int, int], SplitTable]

    @property
    def first(self) -> SplitTable:
        """The split of the first fold."""
        return next(iter(self.splits.values()))

    @property
    def row(self) -> torch.Tensor:
        """The rows in any split."""
        return self.first.row

    @property
    def node(self) -> torch.Tensor | None:
        """The nodes in any split, if nodes are split."""
        return self.first.node

    def to_csv(self) -> str:
        """The text of splits.csv: a line for each row that is not for training."""
        import pandas as pd

        frames = []
        for (repeat, fold), table in self.splits.items():
            frame = table.frame()
            frame.insert(0, "repeat", repeat)
            frame.insert(1, "fold", fold)
            frames.append(frame[frame["split"] != PARTS[0]])
        return pd.concat(frames).to_csv(index=False, lineterminator="\n")

    @classmethod
    def from_csv(cls, text: str) -> FoldTable:
        """Read what `to_csv` wrote; raises `ValueError` for anything else."""
        import pandas as pd

        kinds = dict.fromkeys(("repeat", "fold", "row", "node"), np.int64)
        frame = pd.read_csv(io.StringIO(text), dtype={**kinds, "split": str})
        names = [str(name) for name in frame]
        if names not in ([*list(kinds)[:3], "split"], [*kinds, "split"]) or frame.empty:
            raise ValueError(f"columns {names}")
        if not frame["split"].isin(PARTS[1:]).all() or bool((frame[names[:-1]] < 1).any(axis=None)):
            raise ValueError("each line has a split and numbers from 1")
        units = names[2:-1]
        splits = {}
        for repeat, part in frame.groupby("repeat"):
            held = part[part["split"] == "test"].sort_values(units)[units]
            if bool(held.duplicated().any()):
                raise ValueError("a row is in two folds")
            position = pd.MultiIndex.from_frame(held)
            index = torch.from_numpy(held.to_numpy().T.copy()) - 1
            for fold, lines in part.groupby("fold"):
                where = position.get_indexer(pd.MultiIndex.from_frame(lines[units]))
                if bool((where < 0).any()):
                    raise ValueError("a row is in no fold")
                parts = torch.zeros(len(held), dtype=torch.long)
                parts[torch.from_numpy(where)] = torch.tensor(
                    lines["split"].map({"val": 1, "test": 2}).to_numpy()
                )
                node = index[1] if len(units) > 1 else None
                splits[int(str(repeat)), int(str(fold))] = SplitTable(index[0], parts, node)
        return cls(splits)


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
