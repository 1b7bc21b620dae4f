"""What the page of a run shows, read from its folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TrainOptions
from smpgnn.config.plain import from_plain
from smpgnn.data.splits import PARTS
from smpgnn.data.summary import DataSummary
from smpgnn.errors import InputError
from smpgnn.training.calibration import Calibration
from smpgnn.training.member_plan import Member, members
from smpgnn.training.probabilities import Bin
from smpgnn.training.run_data import CALIBRATION, FoldTable, SplitTable
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import load_model
from smpgnn.training.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

#: Data of reliability diagrams, in the folder of a run with calibrated probabilities.
RELIABILITY = "reliability.csv"


@dataclass(frozen=True, eq=False)
class Trained:
    """One network of a run: its record, and the metrics of its epochs.

    `member` says which one of a run with members it is.
    """

    folder: Path
    record: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]
    member: Member | None = None


@dataclass(frozen=True, eq=False)
class RunFiles:
    """A finished run."""

    folder: Path
    options: TrainOptions
    record: Mapping[str, Any]  # run.json
    task: Task
    networks: Sequence[Trained]  # several of a run with members
    summary: DataSummary | None  # of the user's own data
    sizes: Mapping[str, int]  # the number of rows (or nodes) of each split
    fold: Mapping[int, int]  # of each row, from the first repeat; empty without folds
    predictions: pd.DataFrame | None  # test_predictions.csv as text; None without test rows
    similarity: pd.DataFrame | None  # similarity.csv as text
    reliability: Mapping[str, Mapping[str, Sequence[Bin]]]  # by target and kind of probabilities
    calibration: Calibration  # of intervals and probabilities


def read_run(path: str | Path) -> RunFiles:
    folder = RunFolder(path)
    options = folder.read_options()
    record = folder.read_record()
    if not record:
        raise InputError(f"{folder.path}: the run is not finished: continue it with --resume.")
    planned = members(options)
    if bool(planned) != ("members" in record):
        raise InputError(
            f"{folder.record}: does not fit to config.yaml: restore it, or write it again with "
            "--resume."
        )
    networks = [_trained(one.folder(folder.path), one) for one in planned]
    networks = networks or [_trained(folder.path, None)]
    summary, sizes, fold = _data(folder)
    return RunFiles(
        folder=folder.path,
        options=options,
        record=record,
        task=load_model(networks[0].folder).task,
        networks=networks,
        summary=summary,
        sizes=sizes,
        fold=fold,
        predictions=folder.read_table(folder.predictions),
        similarity=folder.read_table(folder.similarity),
        reliability=_reliability(folder.path / RELIABILITY),
        calibration=Calibration.load(folder.path),
    )


def _trained(path: Path, member: Member | None) -> Trained:
    folder = RunFolder(path)
    record = folder.read_record()
    if not record or "members" in record:
        raise InputError(f"{path}: is not finished: continue the run with --resume.")
    return Trained(path, record, folder.read_metrics(), member)


def _data(folder: RunFolder) -> tuple[DataSummary | None, dict[str, int], dict[int, int]]:
    """Summary, size of each split, and fold of each row (in splits.csv, from 1)."""
    data = folder.read_data()
    if data is None:  # a run of an older version
        return None, {}, {}
    summary = None
    if data.summary is not None:
        try:
            summary = from_plain(DataSummary, data.summary, "summary")
        except InputError as error:
            raise InputError(
                f"{folder.data}: was changed or not written by smpgnn: restore it, or start a new "
                "run."
            ) from error
    table, fold = data.splits, dict[int, int]()
    if isinstance(table, FoldTable):
        first = table.first
        repeat = next(iter(table.splits))[0]
        for (other, number), split in table.splits.items():
            if other == repeat:
                fold |= dict.fromkeys((split.of("test").row + 1).tolist(), number)
    else:
        first = table
    return summary, _sizes(first), fold


def _sizes(table: SplitTable) -> dict[str, int]:
    counts = table.part.bincount(minlength=len(PARTS) + 1).tolist()
    names = ("training", "validation", "test", CALIBRATION)
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _reliability(path: Path) -> dict[str, dict[str, list[Bin]]]:
    if not path.exists():
        return {}
    found: dict[str, dict[str, list[Bin]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file, strict=True):
                low, high, rows, *shares = (float(line[entry.name]) for entry in fields(Bin))
                kinds = found.setdefault(line["target"], {})
                bins = kinds.setdefault(line["probabilities"], [])
                bins.append(Bin(low, high, int(rows), *shares))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(
            f"{path}: was changed or damaged: write it again with --resume."
        ) from error
    return found
