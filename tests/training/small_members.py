"""Small runs with members, trained in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import smpgnn
from smpgnn.config.options import TASKS, GraphsOptions, MoleculesOptions
from smpgnn.config.settings import with_values
from smpgnn.training.from_python import prepare_python
from smpgnn.training.members import Given, jobs_of, train_member
from smpgnn.training.run_data import RunData
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import Result
from smpgnn.training.unseen import splits_of

NONE: dict[str, Any] = dict.fromkeys(("train", "val", "test"))
SMALL: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 1, "epochs": 2, "batch_size": 16, "device": "cpu",
}  # fmt: skip


def molecules(rows: int = 60) -> pd.DataFrame:
    """Chains and rings with a size, two kinds of classes, and each tenth molecule twice."""
    lines = []
    for row in range(rows):
        length, end = 1 + row // 4, ("", "O", "N", "Cl")[row % 4]
        text = ("C1CCCCC1" if row % 2 else "") + "C" * length + end
        lines.append(
            {
                "smiles": text,
                "size": length + 0.5 * len(end),
                "polar": "yes" if end in ("O", "N") else "no",
                "ring": row % 2 if row % 7 else None,
            }
        )
        if row % 10 == 0:
            lines.append({**lines[-1], "smiles": end + "C" * length + ("C1CCCCC1" * (row % 2))})
    frame = pd.DataFrame(lines)
    frame["ring"] = frame["ring"].astype("Int64")
    return frame


def begin(
    folder: Path, data: Any, task: str = "molecules", parts: Any = None, **settings: Any
) -> list[str]:
    """Make the run folder and train its members here, one after the other."""
    options = with_values(TASKS[task](), {**SMALL, **settings, "output": str(folder)}, "test")
    assert isinstance(options, MoleculesOptions | GraphsOptions)
    given = Given(data, parts or NONE)
    prepared = prepare_python(options, given.data, given.parts, None)
    content, table = prepared.content(task), prepared.split_table()
    folder.mkdir(parents=True)
    RunFolder(folder).create(options, RunData(content.fingerprint, table))
    jobs = jobs_of(options, content.fingerprint, splits_of(table), given)
    return [train_member(job) for job in jobs]


def run(
    folder: Path, data: Any, task: str = "molecules", parts: Any = None, **settings: Any
) -> Result:
    """The same, and then the results by `resume`, which finds all members trained."""
    begin(folder, data, task, parts, **settings)
    return smpgnn.train(
        task, data=data, **(parts or {}), output=str(folder), resume=True, quiet=True
    )
