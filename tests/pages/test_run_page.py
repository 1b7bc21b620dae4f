"""The page of a run: whole HTML, nothing from outside, and the numbers of the files."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli.commands import done, smpgnn
from cli.commands import molecules as table
from paper.report.page_reader import read
from sklearn.metrics import roc_auc_score
from training.small_members import molecules, run
from training.small_runs import GRAPHS, rings

import smpgnn as library
from smpgnn.errors import InputError
from smpgnn.pages.drawn import Explainer, drawings
from smpgnn.pages.predicted import predicted_targets
from smpgnn.pages.run_charts import _thinned, by_fold, class_curves, error_by_similarity, parity
from smpgnn.pages.run_files import RunFiles, read_run
from smpgnn.pages.run_page import page
from smpgnn.pages.run_words import metric_tables

FRAME = molecules(80)
SMALL: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 2, "epochs": 2, "batch_size": 16, "device": "cpu",
    "quiet": True,
}  # fmt: skip


def trained(folder: Path, data: Any = FRAME, task: str = "molecules", **options: Any) -> Path:
    return library.train(task, data=data, output=str(folder), **{**SMALL, **options}).folder


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("page") / "size", targets=["size"])


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("page") / "polar", FRAME, targets=["polar"], folds=3).folder


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = {"train": range(40), "val": range(40, 50), "test": range(50, 88)}
    folder = tmp_path_factory.mktemp("page") / "both"
    both = {"targets": ["size", "polar"], "ensemble": 2, "calibration": 0.2}
    return run(folder, FRAME, parts=parts, **both).folder


def text_of(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def files(folder: Path) -> RunFiles:
    return read_run(folder)


@pytest.mark.parametrize("name", ["numbers", "folds", "ensemble"])
def test_the_page_is_whole_and_needs_nothing_from_outside(
    name: str, request: pytest.FixtureRequest
) -> None:
    text = text_of(request.getfixturevalue(name))
    reader = read(text)
    assert reader.links == []
    assert not re.search(r"<script|https?:|url\(|@import|#0000[cd]|\bnan\b", text)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {"metrics", "target-1", "training", "data", "settings"} <= set(reader.ids)
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 300_000


def test_it_is_made_anew_from_the_folder(numbers: Path, tmp_path: Path) -> None:
    before = text_of(numbers)
    assert "report.html" in done("report", numbers).out
    assert text_of(numbers) == before
    assert library.report(numbers, tmp_path / "page.html") == tmp_path / "page.html"
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == before


def test_metrics_are_those_of_the_run(numbers: Path) -> None:
    (shown,) = metric_tables(files(numbers))
    record = files(numbers).record
    rows = dict(shown.rows)
    assert list(rows) == [
        "validation", "test", "validation, gradient boosting", "test, gradient boosting",
    ]  # fmt: skip
    assert rows["test"][0] == f"{record['test']['rmse']:.4f}"
    better = record["baseline"]["better"]["test"]
    assert ((1 if better == "network" else 3), 0) in shown.best
    (cells,) = (table for table in read(text_of(numbers)).cells["metrics"])
    assert cells[2][1].strip() == rows["test"][0]


def test_numbers_are_beside_the_real_ones(numbers: Path) -> None:
    said = pd.read_csv(numbers / "test_predictions.csv")
    (target,) = predicted_targets(files(numbers))
    chart = parity(target, "")
    assert chart is not None
    (dots,) = chart.series
    wanted = said[["size", "predicted_size"]].to_numpy()
    assert np.allclose([point[:2] for point in dots.points], wanted)
    near = pd.read_csv(numbers / "similarity.csv")
    similar = error_by_similarity(target, "error")
    assert similar is not None
    errors = near[["similarity", "error_size"]].abs().to_numpy()
    assert np.allclose([point[:2] for point in similar.series[0].points], errors, rtol=1e-4)


def test_the_worst_and_best_molecules_are_drawn(numbers: Path) -> None:
    said = pd.read_csv(numbers / "test_predictions.csv")
    assert said["smiles"].tolist() == FRAME["smiles"].iloc[said["row"] - 1].tolist()
    order = (said["size"] - said["predicted_size"]).abs().sort_values(kind="stable").index
    (target,) = predicted_targets(files(numbers))
    shown = drawings(target, Explainer(files(numbers)))
    assert shown is not None
    few = len(shown.worst)
    assert [one.row for one in shown.worst] == said["row"][order[::-1][:few]].tolist()
    assert {one.row for one in shown.best} == set(said["row"][order[: len(shown.best)]])
    for one in shown.worst:
        assert one.svg.count("<ellipse") == len(re.findall("[A-Z]", one.smiles.replace("l", "")))
    assert text_of(numbers).count('<figure class="card">') == few + len(shown.best)


def test_folds_are_explained_by_networks_that_did_not_see_them(folds: Path) -> None:
    found = files(folds)
    (target,) = predicted_targets(found)
    assert len(target.real) == 88
    (one,) = Explainer(found).explain([1], [target.smiles[0]])
    assert one.explanation is not None
    member = library.load(folds / "members" / f"fold{found.fold[1]}", device="cpu")
    alone = member.explain([target.smiles[0]], steps=64)["added_polar=yes"][1:]
    assert [values[0] for values in one.explanation.nodes] == pytest.approx(alone.tolist())


def test_curves_of_classes(folds: Path) -> None:
    found = files(folds)
    (target,) = predicted_targets(found)
    said = pd.read_csv(folds / "test_predictions.csv")
    area = roc_auc_score(said["polar"] == "yes", said["probability_polar_yes"])
    roc, precision = class_curves(target)
    assert roc.series[0].name == f"yes: area {area:.3f}"
    assert precision.guides[0][0][1] == pytest.approx((said["polar"] == "yes").mean())
    chart = by_fold(found)
    assert chart is not None
    network, trees = chart.series
    assert [point[0] for point in network.points] == [1, 2, 3]
    values = [one.record["test"]["auc"] for one in found.networks]
    assert [point[1] for point in network.points] == values
    assert len(trees.points) == 3
    text = text_of(folds)
    assert "Reliability before and after calibration" in text
    assert f"{found.record['calibration']['targets']['polar']['brier']['raw']:.4f}" in text


def test_thinned_curves_keep_their_corners() -> None:
    x, y = np.array([0, 0, 0, 0, 0.5, 1, 1.0]), np.array([1, 0, 0, 0, 0.2, 0.4, 0.1])
    assert [point[:2] for point in _thinned(x, y)] == [(0, 1), (0, 0), (1, 0.4), (1, 0.1)]
    x = np.linspace(0, 1, 5_000)
    assert 100 < len(_thinned(x, x**2)) < 130


def test_intervals_and_several_targets(ensemble: Path) -> None:
    size, polar = predicted_targets(files(ensemble))
    said = pd.read_csv(ensemble / "test_predictions.csv")
    assert size.low is not None
    assert size.high is not None
    assert np.allclose(size.low, said["low_size"])
    assert np.allclose(size.high, said["high_size"])
    inside = ((said["low_size"] <= said["size"]) & (said["size"] <= said["high_size"])).mean()
    text = text_of(ensemble)
    assert f"90% intervals; {inside:.0%} of the intervals contain the real value" in text
    assert polar.shares is not None
    assert np.allclose(polar.shares[:, 1], said["probability_polar_yes"])
    assert "Test predictions: size" in text
    assert "Test predictions: polar" in text


def test_a_page_that_fails_does_not_lose_the_run(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "run" / "report.html").mkdir(parents=True)
    small = ("--hidden-channels", "4", "--num-layers", "1", "--epochs", "1", "--device", "cpu")
    words = ("train", "molecules", tmp_path / "data.csv", "--targets", "size", *small)
    found = done(*words, "--no-baseline", "--output", tmp_path / "run")
    last = found.err.strip().splitlines()[-1]
    assert last.startswith("smpgnn: the run is finished, but its page could not be written")
    assert "is a folder" in last
    assert "Test rmse" in found.out
    (tmp_path / "run" / "report.html").rmdir()
    done("report", tmp_path / "run")
    assert text_of(tmp_path / "run").startswith("<!DOCTYPE html>")


def test_without_a_library_of_the_page_the_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "smpgnn.pages.run_page", None)  # as if it lacked a library
    folder = trained(tmp_path / "run", rings(), "graphs", hidden_channels=4, epochs=1)
    assert not (folder / "report.html").exists()
    assert "run is finished, but its page could not be written (" in capsys.readouterr().err
    assert (folder / "run.json").exists()


def test_it_can_be_left_out_and_members_have_none(folds: Path, tmp_path: Path) -> None:
    folder = trained(tmp_path / "run", rings(), "graphs", report=False, hidden_channels=4, epochs=1)
    assert not (folder / "report.html").exists()
    assert not (folds / "members" / "fold1" / "report.html").exists()


def test_other_tasks_have_what_makes_sense(tmp_path: Path) -> None:
    cycles = {**SMALL, "k": 4, "n": 12, "train_samples": 32, "test_samples": 32}
    folder = library.train("cycles", output=str(tmp_path / "cycles"), **cycles).folder
    reader = read(text_of(folder))
    assert {"metrics", "target-1", "training", "data", "settings"} == set(reader.ids)
    assert "On 32 test rows, the network reaches accuracy" in text_of(folder)
    nodes = rings(6)
    for graph in nodes:
        graph.y = graph.x[:, 0]
    many = {**GRAPHS, "level": "node", "epochs": 1, "quiet": True}
    folder = library.train("graphs", data=nodes, output=str(tmp_path / "n"), **many).folder
    (target,) = predicted_targets(files(folder))
    assert len(target.real) == len(pd.read_csv(folder / "test_predictions.csv"))
    assert "Worst predictions" not in text_of(folder)


def test_odd_targets(tmp_path: Path) -> None:
    """Bounds, logarithms, names that are no HTML, columns as descriptors, no test rows."""
    frame = FRAME.assign(**{"IC50 <b> [nM]": FRAME["size"] * 100.0}, heat=1.5)
    frame["IC50 <b> [nM]"] = frame["IC50 <b> [nM]"].astype(object)
    frame.loc[::3, "IC50 <b> [nM]"] = ">10000"
    parts = {"train": range(60), "val": range(60, 70), "test": range(70, 88)}
    options = {"targets": ["IC50 <b> [nM]"], "log_target": True, "descriptors": ["heat"], **parts}
    folder = trained(tmp_path / "odd", frame, baseline=False, **options)
    (target,) = predicted_targets(files(folder))
    known = [row for row in range(70, 88) if row % 3]
    assert (target.row - 1).tolist() == known
    assert np.allclose(target.real, FRAME["size"].iloc[known] * 100)
    text = text_of(folder)
    read(text)
    assert "IC50 &lt;b&gt; [nM]" in text
    assert "<b> [nM]" not in text
    assert "columns 'heat'" in text.replace("&#39;", "'")
    assert "absolute error (log10)" in text
    rest = {"train": range(60), "val": range(60, 88)}
    folder = trained(tmp_path / "rest", FRAME, targets=["size"], **rest)
    assert "there are no test rows" in text_of(folder)


def test_runs_that_have_no_page(numbers: Path, tmp_path: Path) -> None:
    found = smpgnn("report", tmp_path)
    assert found.status == 2
    assert "contains no run" in found.err
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in ("config.yaml", "data.json", "splits.csv"):
        (begun / name).write_bytes((numbers / name).read_bytes())
    with pytest.raises(InputError, match="is not finished: continue it with --resume"):
        page(read_run(begun))
    for file in numbers.iterdir():
        if file.is_file():
            (begun / file.name).write_bytes(file.read_bytes())
    said = (begun / "test_predictions.csv").read_text()
    (begun / "test_predictions.csv").write_text(said.replace("1", "2", 1))
    found = smpgnn("report", begun, "-o", tmp_path / "out.html")
    assert found.status == 2
    assert "wrong checksum" in found.err
    assert not (tmp_path / "out.html").exists()
