"""The training molecules of a run, and its test errors by the similarity to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch
from smpgnn.inference.domain import Domain
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import SplitTable
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.tasks import OneLevelTask, Task
from smpgnn.training.tasks.quantities import parts_of, quantities


class TestErrors:
    """The error of each test prediction, by target.

    For numbers: the prediction minus the target (of logarithms with --log-target). For classes: 1
    minus the probability of the true class. NaN if the target is unknown or a bound.
    """

    def __init__(self, task: Task) -> None:
        assert isinstance(task, OneLevelTask)
        self.task, self.parts = task, parts_of(task)
        self._found: list[Tensor] = []

    def keep(self, output: Any, batch: GraphBatch) -> None:
        """Add a batch."""
        values, target = quantities(self.task, output).cpu(), self.task.exact(batch).cpu()
        errors = []
        for part, real in zip(self.parts, target.double().unbind(1), strict=True):
            if part.classes:
                number = real.nan_to_num().long().unsqueeze(1)
                lacking = 1 - part.probabilities(values).gather(1, number)[:, 0]
                errors.append(torch.where(real.isnan(), torch.nan, lacking))
            else:
                errors.append(values[:, part.columns[0]] - real)
        self._found.append(torch.stack(errors, dim=1))

    def frame(self) -> pd.DataFrame:
        """A column `error_…` for each target."""
        names = [f"error_{part.name}" for part in self.parts]
        return pd.DataFrame(torch.cat(self._found).float().numpy(), columns=names)


def write_domain(folder: RunFolder, prepared: Prepared, errors: TestErrors) -> None:
    """Store the training molecules, and similarity and error of each test row.

    similarity.csv has the columns row, similarity, nearest_row and the errors; rows of the table
    count from 1.
    """
    table = prepared.split_table()
    assert isinstance(table, SplitTable)
    rows = {part: table.of(part).row for part in ("train", "test")}
    domain = Domain.of(prepared.smiles_of("train"), rows["train"].tolist())
    domain.save(folder.path)
    if rows["test"].numel() == 0:
        return
    near = domain.frame(prepared.smiles_of("test")).drop(columns="nearest").round(6)
    near.insert(0, "row", rows["test"].numpy() + 1)
    folder.write_similarity(pd.concat([near, errors.frame()], axis=1))


def write_domain_of_members(
    folder: RunFolder,
    prepared: Prepared,
    splits: Sequence[SplitTable],
    groups: Sequence[Path],
    rows: Tensor,
    errors: TestErrors,
) -> None:
    """The same for a run with members: the molecules on which any of them was trained.

    Each test row has its similarity to those of the members that never saw it.

    Args:
        splits: of each group of members.
        groups: the run folder of one member of each group of the first repeat.
        rows: of the table, of the test rows in `errors`.
    """
    train = torch.unique(torch.cat([table.of("train").row for table in splits])).tolist()
    Domain.of([prepared.smiles[row] for row in train], train).save(folder.path)
    if rows.numel() == 0:
        return
    near = pd.concat([pd.read_csv(RunFolder(group).similarity) for group in groups])
    near = near.set_index("row")[["similarity", "nearest_row"]].astype({"nearest_row": "Int64"})
    near = near.loc[rows.numpy() + 1].reset_index()
    folder.write_similarity(pd.concat([near, errors.frame()], axis=1))
