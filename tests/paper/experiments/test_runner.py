"""A learning rate that diverges in the final training: real processes, small trainings."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from training.processes import fork_workers

from smpgnn.paper.experiments.plan import Pilot, Plan, Request, make_plan
from smpgnn.paper.experiments.protocol import CHOSEN, Reduction, settings_of
from smpgnn.paper.experiments.records import (
    Choice,
    Trial,
    choice_path,
    read_choice,
    read_records,
    record_path,
    write_choice,
)
from smpgnn.paper.experiments.runner import Runner, Summary
from smpgnn.paper.experiments.table import Search
from smpgnn.paper.experiments.tables import TABLES

TABLE, ROW, CELL = "cycle_detection", "GIN", "4 20"
GOOD, HUGE = 1e-3, 1e3


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_workers(monkeypatch.setattr)
    monkeypatch.setitem(TABLES, TABLE, replace(TABLES[TABLE], search=Search((GOOD, HUGE))))


def plan(folder: Path) -> Plan:
    settings = {
        "hidden_channels": "8", "num_layers": "2", "batch_size": "64", "norm": "none",
        "optimizer": "sgd", "schedule": "constant", "weight_decay": "900",
    }  # fmt: skip
    request = Request(
        TABLE,
        rows=(ROW,),
        cells=(CELL,),
        seeds=(0, 1),
        reduction=Reduction(2, 40, settings),
        device="cpu",
        results=str(folder / "results"),
        work_dir=str(folder / "work"),
    )
    return make_plan([request])


def choose_the_huge_one(pilot: Pilot) -> None:
    """As if it had gone well in the trials."""
    first = pilot.trials[0]
    names = *pilot.key, first.request.protocol
    trials = (Trial(GOOD, 70.0, 1, 1, readout="max"), Trial(HUGE, 90.0, 1, 1, readout="max"))
    config = {k: v for k, v in settings_of(first.options).items() if k not in CHOSEN}
    choice = Choice(*names, True, pilot.rule, "accuracy", trials, HUGE, config, "max")
    write_choice(first.request.results, choice)


def run(folder: Path, jobs: int) -> tuple[Summary, str]:
    notes: list[str] = []
    summary = Runner(plan(folder), jobs, 0.0, lambda _: None, notes.append).run()
    return summary, "\n".join(notes)


def test_all_seeds_take_the_next_best_rate(tmp_path: Path) -> None:
    (pilot,) = plan(tmp_path).pilots
    choose_the_huge_one(pilot)
    summary, notes = run(tmp_path, jobs=2)
    assert (summary.done, summary.left, summary.failed) == (2, 0, ())
    assert "training diverged at rate 1000: all seeds use the next best rate, 0.001." in notes
    records = read_records(tmp_path / "results")
    assert {record.seed: record.config["lr"] for record in records} == {0: GOOD, 1: GOOD}
    choice = read_choice(choice_path(str(tmp_path / "results"), TABLE, ROW, pilot.key[2], True))
    assert choice is not None
    assert choice.chosen == GOOD
    assert choice.trials[1].validation is None
    assert all(record.search == choice for record in records)

    # a seed that was done before, with the rate that is now given up, is trained anew
    path = record_path(str(tmp_path / "results"), TABLE, ROW, CELL, 0)
    old = json.loads(path.read_text())
    old["config"]["lr"] = HUGE
    path.write_text(json.dumps(old))
    record_path(str(tmp_path / "results"), TABLE, ROW, CELL, 1).unlink()
    shutil.rmtree(tmp_path / "work")
    choose_the_huge_one(pilot)
    assert [final.answered for final in plan(tmp_path).finals] == [True, False]
    summary, _ = run(tmp_path, jobs=1)
    assert (summary.done, summary.left, summary.failed) == (2, 0, ())
    records = read_records(tmp_path / "results")
    assert {record.seed: record.config["lr"] for record in records} == {0: GOOD, 1: GOOD}
