"""What a worker does with a job: real small trainings, in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from smpgnn.data import properties
from smpgnn.data.cycles import cycle_splits
from smpgnn.data.properties import extrapolation_splits
from smpgnn.errors import InputError
from smpgnn.inference.predict import load
from smpgnn.paper.experiments.plan import Job, Request, make_plan
from smpgnn.paper.experiments.protocol import Reduction
from smpgnn.paper.experiments.records import (
    Choice,
    Record,
    Trial,
    choice_path,
    read_choice,
    read_records,
)
from smpgnn.paper.experiments.search import read_trial
from smpgnn.paper.experiments.worker import NextRate, perform
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import evaluate_store

SMALL = {"hidden_channels": "8", "num_layers": "2", "towers": "1", "batch_size": "64"}


def job(tmp_path: Path, table: str, row: str, cell: str, samples: int = 60) -> Job:
    request = Request(
        table,
        rows=(row,),
        cells=(cell,),
        seeds=(0,),
        reduction=Reduction(2, samples, SMALL),
        search=False,
        device="cpu",
        results=str(tmp_path / "results"),
        work_dir=str(tmp_path / "work"),
    )
    return make_plan([request]).finals[0]


def trained(tmp_path: Path, *words: str) -> list[Record]:
    text = perform(job(tmp_path, *words))
    records = read_records(tmp_path / "results")
    assert all(f"{record.cell_name}: " in text for record in records)
    return records


def test_a_record_agrees_with_its_run_folder(tmp_path: Path) -> None:
    (record,) = trained(tmp_path, "cycle_detection", "SMP", "4-12")
    wanted = job(tmp_path, "cycle_detection", "SMP", "4-12")
    run = RunFolder(wanted.folder).read_record()
    assert record.value == pytest.approx(100 * run["test"]["accuracy"])
    assert record.validation == pytest.approx(100 * run["validation"]["accuracy"])
    for name in ("parameters", "epochs", "best_epoch", "wall_time_s", "peak_memory_mib", "commit"):
        assert getattr(record, name) == run[name]
    assert record.peak_memory_mib > 100  # torch alone takes more
    assert record.reduced
    assert (record.samples, record.cell, record.epochs) == (60, [4, 12], 2)
    assert record.config["train_samples"] == 60
    assert record.curves.epoch == (1, 2)
    assert record.curves.seconds[0] < record.curves.seconds[1] <= record.wall_time_s + 0.01
    assert max(record.curves.validation) == pytest.approx(record.validation, abs=0.01)


def test_one_training_answers_in_and_out_of_distribution(tmp_path: Path) -> None:
    records = {r.cell_name: r for r in trained(tmp_path, "cycle_generalization", "GIN", "in-4")}
    assert set(records) == {"in 4", "out 4"}
    model = load(job(tmp_path, "cycle_generalization", "GIN", "in-4").folder, "cpu")
    for cell, n in (("in 4", 20), ("out 4", 36)):
        test = cycle_splits(4, n, seed=0, train=1, val=1, test=60).test
        found = evaluate_store(model.network, model.task, test, 64, model.device)
        assert records[cell].value == pytest.approx(100 * found["accuracy"])


def test_one_training_answers_all_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(properties, "_generate", cache(properties._generate))
    records = trained(tmp_path, "graph_properties", "GIN", "dist")
    values = {record.cell_name: record.value for record in records}
    assert len(values) == 7
    mean = values.pop("average")
    assert mean == pytest.approx(sum(values.values()) / 6)
    run = RunFolder(job(tmp_path, "graph_properties", "GIN", "dist").folder).read_record()
    assert mean == pytest.approx(run["test"]["log_mse"], abs=1e-5)
    # and how each goes on with larger graphs
    for record in records:
        assert record.by_size is not None
        assert record.by_size.least == (15, 20, 25, 30, 35, 40, 45)
        assert record.by_size.most == (19, 24, 29, 34, 39, 44, 49)
        assert record.by_size.value[0] == record.value
        assert record.by_size.validation[0] == record.validation
        assert len(record.by_size.validation) == len(record.by_size.value)
    curves = {r.cell_name: r.by_size.value for r in records if r.by_size is not None}
    average = curves.pop("average")
    assert average == pytest.approx([sum(v) / 6 for v in zip(*curves.values(), strict=True)])
    model = load(job(tmp_path, "graph_properties", "GIN", "dist").folder, "cpu")
    larger = extrapolation_splits(graphs_per_size=12).larger["45-49"]
    found = evaluate_store(model.network, model.task, larger, 64, model.device)
    assert average[-1] == pytest.approx(found["log_mse"], abs=1e-5)


def test_a_trial_never_sees_the_test_part(tmp_path: Path) -> None:
    trial = replace(job(tmp_path, "cycle_detection", "GIN", "4-12"), trial=True)
    perform(trial)
    run = RunFolder(trial.folder).read_record()
    assert run["test"] == run["validation"]  # both are the held-back graphs
    found = read_trial(trial.folder)
    assert found is not None
    assert found.validation == pytest.approx(100 * run["validation"]["accuracy"])
    assert (found.lr, found.epochs) == (1e-3, 2)
    assert read_records(tmp_path) == []


def test_a_trial_that_diverges_is_a_result_and_a_final_that_does_is_an_error(
    tmp_path: Path,
) -> None:
    wanted = job(tmp_path, "cycle_detection", "GIN", "4-12")
    wild = {"optimizer": "sgd", "schedule": "constant", "norm": "none", "weight_decay": 1000}
    options = wanted.options.changed(lr=1e3, **wild)
    assert perform(replace(wanted, options=options, trial=True)) == "diverged"
    found = read_trial(wanted.folder)
    assert found is not None
    assert found.validation is None
    assert found.error.startswith("diverged: training diverged in epoch")
    again = replace(options, output=str(tmp_path / "final"))
    with pytest.raises(InputError, match="training diverged in epoch"):
        perform(replace(wanted, options=again))
    trials = (Trial(1e-3, 80.0, 1, 2), Trial(1e3, 90.0, 1, 2))
    choice = Choice(
        wanted.table, "GIN", "4-12", "modern", True, "rule", "accuracy", trials, 1e3, {}
    )
    with pytest.raises(NextRate, match=r"all seeds use the next best rate, 0\.001\."):
        perform(replace(wanted, options=again, choice=choice))
    written = read_choice(choice_path(wanted.request.results, wanted.table, "GIN", "4-12", True))
    assert written is not None
    assert written.chosen == 1e-3
    assert written.trials[1].error.startswith("in the training proper: training diverged")
    # another seed that diverges later follows, and gives nothing up a second time
    with pytest.raises(NextRate) as later:
        perform(replace(wanted, options=again, choice=choice))
    assert later.value.choice == written


def test_a_finished_run_without_a_record_is_not_trained_again(tmp_path: Path) -> None:
    (record,) = trained(tmp_path, "cycle_detection", "SMP", "4-12")
    path = next((tmp_path / "results").glob("*/*/*.json"))
    before = json.loads(path.read_text())["curves"]
    path.unlink()  # as if it had been killed just before
    (again,) = trained(tmp_path, "cycle_detection", "SMP", "4-12")
    assert json.loads(path.read_text())["curves"] == before
    assert again.value == record.value
    assert again.peak_memory_mib >= record.peak_memory_mib
