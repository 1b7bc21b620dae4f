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
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.tasks import OneLevelTask, Task
from smpgnn.training.tasks.base import quantities


def test_errors(task: Task, output: Any, batch: GraphBatch) -> Tensor:
    """The errors of a batch of test predictions, [R, T].

    For numbers: the prediction minus the target (of logarithms with --log-target). For classes: 1
    minus the probability of the true class. NaN if the target is unknown or a bound.
    """
    assert isinstance(task, OneLevelTask)
    values, target = quantities(task, output).cpu(), task.exact(batch).cpu()
    errors = []
    for part, real in zip(task.target_parts, target.double().unbind(1), strict=True):
        if part.classes:
            number = real.nan_to_num().long().unsqueeze(1)
            lacking = 1 - part.probabilities(values).gather(1, number)[:, 0]
            errors.append(torch.where(real.isnan(), torch.nan, lacking))
        else:
            errors.append(values[:, part.columns[0]] - real)
    return torch.stack(errors, dim=1)


def write_domain(
    folder: RunFolder,
    prepared: Prepared,
    train: Tensor,
    test: Tensor,
    errors: Sequence[Tensor],
    groups: Sequence[Path] = (),
) -> None:
    """Store the training molecules, and similarity and error of each test row.

    similarity.csv has the columns row, similarity, nearest_row and the errors; rows of the table
    count from 1.

    Args:
        train, test: rows of the table.
        errors: those of the test rows, in pieces.
        groups: if the run has members, the run folder of one member of each group of the first
            repeat: each test row has its similarity to the molecules of those that never saw it.
    """
    domain = Domain.of([prepared.smiles[row] for row in train.tolist()], train.tolist())
    domain.save(folder.path)
    if test.numel() == 0:
        return
    if groups:
        near = pd.concat([pd.read_csv(RunFolder(group).similarity) for group in groups])
        near = near.set_index("row")[["similarity", "nearest_row"]].astype({"nearest_row": "Int64"})
        near = near.loc[test.numpy() + 1].reset_index()
    else:
        near = domain.frame([prepared.smiles[row] for row in test.tolist()])
        near = near.drop(columns="nearest").round(6)
        near.insert(0, "row", test.numpy() + 1)
    names = [f"error_{name}" for name in prepared.task.target_names()]
    values = pd.DataFrame(torch.cat(list(errors)).float().numpy(), columns=names)
    folder.write_table(folder.similarity, pd.concat([near, values], axis=1))
