"""The folds of a cross-validation, as they are stored in splits.csv of its run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from smpgnn.data.splits import PARTS
from smpgnn.training.run_data import SplitTable

_VAL, _TEST = PARTS.index("val"), PARTS.index("test")


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
                    lines["split"].map({"val": _VAL, "test": _TEST}).to_numpy()
                )
                node = index[1] if len(units) > 1 else None
                splits[int(str(repeat)), int(str(fold))] = SplitTable(index[0], parts, node)
        return cls(splits)
