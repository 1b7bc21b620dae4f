"""Records with made-up numbers, for what only reads records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from smpgnn.paper.experiments.protocol import Reduction, run_options, settings_of
from smpgnn.paper.experiments.records import Choice, Curves, Record, Trial, write_record
from smpgnn.paper.experiments.tables import TABLES

CURVES = Curves((1.0, 2.0, 3.0), (0.7, 0.4, 0.2), (60.0, 80.0, 90.0), (1.0, 2.0, 3.0))


def made(table: str, row: str, cell: str, seed: int, value: float, **changes: Any) -> Record:
    """A record of a full run under the modern protocol, as a worker would write it."""
    content = TABLES[table]
    training = next(t for t in content.trainings if cell in [c.name for c in t.cells])
    column = next(c for c in training.cells if c.name == cell)
    options = run_options(content, content.row(row), training, "modern", seed, Reduction())
    trials = (Trial(3e-4, 61.0, 2, 3), Trial(1e-3, 71.0, 3, 3), Trial(3e-3, None, 0, 1, "diverged"))
    choice = Choice(
        table, row, training.pilot, "modern", False, "rule", "validation", trials, 1e-3, {}
    )
    record = Record(
        table=table,
        row=row,
        cell=column.value,
        seed=seed,
        protocol="modern",
        reduced=False,
        metric=content.metric,
        value=value,
        validation=value + 1,
        parameters=12345,
        epochs=3,
        best_epoch=2,
        wall_time_s=30.0,
        peak_memory_mib=512.0,
        memory_of="whole process",
        jobs=2,
        device="a processor",
        versions={"smpgnn": "0.1.0", "torch": "2.13"},
        commit="abc",
        samples=None,
        config=settings_of(options),
        search=choice,
        curves=CURVES,
    )
    return replace(record, **changes)


def write(results: Path, *records: Record) -> None:
    for record in records:
        write_record(results, record)
