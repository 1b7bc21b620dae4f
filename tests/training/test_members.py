"""Runs with members: folds, ensembles, calibration rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cli.commands import done
from small_members import molecules, run
from small_runs import rings

import smpgnn
from smpgnn.errors import InputError
from smpgnn.inference.predict import Model

FRAME = molecules()


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def members_of(folder: Path) -> dict[str, Model]:
    return {
        one.name: smpgnn.load(one, "cpu") for one in sorted((folder / "members").iterdir())
        if one.is_dir()
    }  # fmt: skip


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ensemble"
    run(
        folder,
        FRAME,
        targets=["size"],
        ensemble=3,
        calibration=0.2,
        split_fractions=[0.6, 0.2, 0.2],
    )
    return folder


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "folds"
    run(folder, FRAME, targets=["size"], folds=2, repeats=2)
    return folder


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "classes"
    run(folder, FRAME, targets=["polar"], folds=2, ensemble=2)
    return folder


def test_the_mean_of_the_members_and_their_spread(ensemble: Path) -> None:
    smiles = ["CCO", "no molecule", "CCCCN"]
    found = smpgnn.load(ensemble, "cpu").predict(smiles)
    assert list(found) == ["predicted_size", "std_size", "error"]
    each = np.stack(
        [one.predict(smiles)["predicted_size"] for one in members_of(ensemble).values()]
    )
    assert len(each) == 3
    np.testing.assert_allclose(found["predicted_size"], each.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found["std_size"], each.std(0, ddof=1), rtol=1e-3)
    assert found["error"].notna().tolist() == [False, True, False]
    assert found.loc[1, ["predicted_size", "std_size"]].isna().all()


def test_calibration_and_test_rows_are_in_no_member(ensemble: Path) -> None:
    whole = pd.read_csv(ensemble / "splits.csv").set_index("row")["split"]
    assert whole.value_counts().to_dict()["calibration"] == pytest.approx(0.2 * len(FRAME), abs=2)
    for one in (ensemble / "members").iterdir():
        if one.is_dir():
            own = pd.read_csv(one / "splits.csv").set_index("row")["split"]
            pd.testing.assert_series_equal(own, whole[whole != "calibration"])
    predicted = pd.read_csv(ensemble / "test_predictions.csv")
    assert predicted["row"].tolist() == whole.index[whole == "test"].tolist()


def test_results_of_an_ensemble(ensemble: Path) -> None:
    about, model = record(ensemble), smpgnn.load(ensemble, "cpu")
    test = pd.read_csv(ensemble / "test_predictions.csv")
    again = model.predict(FRAME.iloc[test["row"] - 1], interval=0.9)
    for name in ("predicted_size", "low_size", "high_size", "std_size"):
        np.testing.assert_allclose(test[name], again[name], rtol=1e-5, atol=1e-5)
    gap = test["size"] - test["predicted_size"]
    assert about["test"]["rmse"] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-5)
    alone = [one["test"]["rmse"] for one in about["members"]]
    assert about["test_of_members"]["rmse"] == pytest.approx(np.mean(alone))
    assert about["test"]["rmse"] <= about["test_of_members"]["rmse"] + 1e-6
    assert [one["seed"] for one in about["members"]] == [0, 1, 2]
    inside = (test["low_size"] <= test["size"]) & (test["size"] <= test["high_size"])
    of_target = about["calibration"]["targets"]["size"]
    assert of_target["test_coverage"] == pytest.approx(inside.mean())
    assert model.evaluate(FRAME.iloc[test["row"] - 1])["rmse"] == pytest.approx(
        about["test"]["rmse"]
    )


def test_intervals_of_predictions(ensemble: Path) -> None:
    model = smpgnn.load(ensemble, "cpu")
    found = model.predict(["CCO", "CCCCCCN", "?"], interval=0.8)
    assert list(found) == ["predicted_size", "low_size", "high_size", "std_size", "error"]
    middle = (found["low_size"] + found["high_size"]) / 2
    np.testing.assert_allclose(middle[:2], found["predicted_size"][:2], rtol=1e-6)
    assert found.loc[2].isna().tolist() == [True, True, True, True, False]
    wide = model.predict(["CCO"], interval=0.9)
    assert wide.loc[0, "low_size"] <= found.loc[0, "low_size"]
    assert list(model.predict(["CCO"])) == ["predicted_size", "std_size", "error"]  # unchanged
    for level in (0, 1, 1.5, float("nan"), "0.9", True):
        with pytest.raises(InputError, match="between 0 and 1"):
            model.predict(["CCO"], interval=level)
    with pytest.raises(InputError, match=r"0\.99: needs 99 calibration rows of 'size'"):
        model.predict(["CCO"], interval=0.99)
    single = smpgnn.load(ensemble / "members" / "member1", "cpu")
    with pytest.raises(InputError, match=r"no calibration rows: train it with --calibration 0\.1"):
        single.predict(["CCO"], interval=0.9)


def test_each_row_is_held_out_once_in_each_repeat(folds: Path) -> None:
    table = pd.read_csv(folds / "splits.csv")
    for repeat in (1, 2):
        held = table[(table["repeat"] == repeat) & (table["split"] == "test")]
        assert sorted(held["row"]) == list(range(1, len(FRAME) + 1))
        fold = held.set_index("row")["fold"].sort_index().to_numpy()
        assert abs(int((fold == 1).sum()) - int((fold == 2).sum())) <= 2
        for one, other in ((0, 1), (11, 12)):  # written in two ways
            assert FRAME["size"][one] == FRAME["size"][other]
            assert fold[one] == fold[other]
    first = table[(table["fold"] == 1) & (table["split"] == "test")]
    assert set(first[first["repeat"] == 1]["row"]) != set(first[first["repeat"] == 2]["row"])
    own = pd.read_csv(folds / "members" / "fold2-repeat1" / "splits.csv")
    mine = table[(table["repeat"] == 1) & (table["fold"] == 2)]
    for part in ("val", "test"):
        assert (
            own[own["split"] == part]["row"].tolist() == mine[mine["split"] == part]["row"].tolist()
        )
    assert len(own) == len(FRAME)


def test_results_of_folds(folds: Path) -> None:
    about = record(folds)
    single = [one["test"]["rmse"] for one in about["members"]]
    assert len(single) == 4
    assert about["test"]["rmse"] == pytest.approx(np.mean(single), rel=1e-5)
    assert about["test_sd"]["rmse"] == pytest.approx(np.std(single, ddof=1), rel=1e-4)
    held = [
        pd.read_csv(folds / "members" / one["name"] / "test_predictions.csv")
        for one in about["members"]
    ]
    wanted = pd.concat(held).groupby("row")["predicted_size"].agg(["mean", "std"])
    found = pd.read_csv(folds / "test_predictions.csv").set_index("row")
    np.testing.assert_allclose(found["predicted_size"], wanted["mean"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["std_size"], wanted["std"], rtol=1e-3, atol=1e-5)
    assert about["calibration"]["rows"] == "held-out folds"
    calibrated = json.loads((folds / "calibration.json").read_text())["intervals"][0]
    assert len(calibrated["scores"]) == len(FRAME)
    model = smpgnn.load(folds, "cpu")
    assert len(model.members()) == 4
    inside = model.predict(FRAME, interval=0.9)
    assert (inside["high_size"] > inside["low_size"]).all()


def test_info_describes_all_members(ensemble: Path, folds: Path) -> None:
    found = done("info", ensemble).out
    assert "in each of 3 members" in found
    assert f"{record(ensemble)['test']['rmse']:.4f}" in found.split("test, ensemble")[1]
    assert "held-out folds, sd" in done("info", folds).out


def test_classes_have_the_mean_probability_calibrated(classes: Path) -> None:
    model, smiles = smpgnn.load(classes, "cpu"), ["CCO", "CCCC", "C1CCCCC1CN"]
    found = model.predict(smiles)
    assert list(found) == [
        "predicted_polar",
        "probability_polar_no",
        "probability_polar_yes",
        "error",
    ]
    each = [one.predict(smiles)["probability_polar_yes"] for one in members_of(classes).values()]
    mean = np.mean(each, axis=0)
    (calibrator,) = model.network.calibration.calibrators  # type: ignore[union-attr]
    wanted = calibrator(np.stack([1 - mean, mean], axis=1))  # type: ignore[operator]
    np.testing.assert_allclose(found["probability_polar_yes"], wanted[:, 1], rtol=1e-4)
    with pytest.raises(InputError, match="is for numbers, but this model predicts classes"):
        model.predict(smiles, interval=0.9)


def test_measures_of_calibration(classes: Path) -> None:
    about = record(classes)["calibration"]["targets"]["polar"]
    assert about["method"] in ("none", "temperature", "isotonic")
    assert about["rows"] == len(FRAME)
    assert {"raw", "calibrated"} == set(about["brier"]) == set(about["ece"])
    assert about["log_loss"]["calibrated"] <= about["log_loss"]["raw"]
    bins = pd.read_csv(classes / "reliability.csv")
    assert list(bins) == [
        "target", "probabilities", "low", "high", "rows", "probability", "observed",
    ]  # fmt: skip
    raw = bins[bins["probabilities"] == "raw"]
    assert raw["rows"].sum() == len(FRAME)
    error = ((raw["probability"] - raw["observed"]).abs() * raw["rows"]).sum() / raw["rows"].sum()
    assert about["ece"]["raw"] == pytest.approx(error, abs=1e-6)


def test_members_of_a_fold_predict_together(classes: Path) -> None:
    about = record(classes)
    assert [one["name"] for one in about["members"]] == [
        "fold1-member1", "fold1-member2", "fold2-member1", "fold2-member2",
    ]  # fmt: skip
    held = pd.read_csv(classes / "test_predictions.csv")
    assert len(held) == len(FRAME)
    alone = [one["test"]["log_loss"] for one in about["members"]]
    assert about["test"]["log_loss"] <= np.mean(alone) + 1e-6  # the loss is convex


def test_several_labels_with_gaps(tmp_path: Path) -> None:
    frame = FRAME.assign(polar=(FRAME["polar"] == "yes").astype(int))
    found = run(tmp_path / "run", frame, targets=["polar", "ring"], ensemble=2, calibration=0.3)
    assert found.best_epoch == 0
    about = record(tmp_path / "run")["calibration"]["targets"]
    assert set(about) == {"polar", "ring"}
    predicted = smpgnn.load(tmp_path / "run", "cpu").predict(["CCO"])
    assert predicted["probability_ring_1"].between(0, 1).all()


def test_a_single_calibrated_model_has_constant_intervals(tmp_path: Path) -> None:
    run(tmp_path / "run", FRAME, targets=["size"], calibration=0.3)
    model = smpgnn.load(tmp_path / "run", "cpu")
    found = model.predict(["CCO", "CCCCN"], interval=0.8)
    assert list(found) == ["predicted_size", "low_size", "high_size", "error"]
    width = found["high_size"] - found["low_size"]
    assert width[0] == pytest.approx(width[1], rel=1e-5)
    assert width[0] > 0


def test_explanations_sum_to_the_prediction(folds: Path) -> None:
    model = smpgnn.load(folds, "cpu")
    parts = model.explain(["CCO", "C1CCCCC1CN"], steps=5)
    sums = parts.groupby("row")["added_size"].sum()
    np.testing.assert_allclose(
        sums, model.predict(["CCO", "C1CCCCC1CN"])["predicted_size"], rtol=1e-4
    )


def test_graphs_in_memory_and_their_own_split(tmp_path: Path) -> None:
    parts = {"train": range(24), "val": range(24, 30), "test": range(30, 36)}
    graphs = rings(36)
    run(tmp_path / "run", graphs, "graphs", parts, ensemble=2, calibration=0.25)
    table = pd.read_csv(tmp_path / "run" / "splits.csv")
    assert table["split"].value_counts().to_dict() == {
        "train": 15, "calibration": 9, "val": 6, "test": 6,
    }  # fmt: skip
    assert set(table[table["split"] == "calibration"]["row"]) <= set(range(1, 25))
    found = smpgnn.load(tmp_path / "run", "cpu").predict(graphs[:3], interval=0.5)
    assert found["low_y"].notna().all()


def test_folds_of_nodes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    (graph,) = rings(1)
    edges = torch.arange(40)
    graph.x, graph.edge_index = torch.randn(40, 2), torch.stack([edges, edges.roll(1)])
    graph.num_nodes, graph.y = 40, torch.randn(40)
    graph.y[::10] = torch.nan
    run(tmp_path / "run", [graph], "graphs", level="node", folds=3)
    table = pd.read_csv(tmp_path / "run" / "splits.csv")
    assert list(table) == ["repeat", "fold", "row", "node", "split"]
    held = table[table["split"] == "test"]["node"]
    known = [node + 1 for node in range(40) if node % 10]
    assert sorted(held) == known
    predicted = pd.read_csv(tmp_path / "run" / "test_predictions.csv")
    assert predicted["node"].tolist() == known
    np.testing.assert_allclose(predicted["y"], graph.y[np.array(known) - 1], rtol=1e-6)
    members = [
        pd.read_csv(tmp_path / "run" / "members" / f"fold{fold}" / "test_predictions.csv")
        for fold in (1, 2, 3)
    ]
    wanted = pd.concat(members).set_index("node")["predicted_y"].sort_index()
    np.testing.assert_allclose(predicted["predicted_y"], wanted, rtol=1e-4, atol=1e-6)


def test_each_member_has_categories_of_its_own_and_there_need_be_no_test_rows(
    tmp_path: Path,
) -> None:
    graphs = rings(18)
    for number, graph in enumerate(graphs):
        graph.x = torch.arange(graph.num_nodes)[:, None] % 3 + 4 * (number % 9)
        graph.y = torch.tensor(float(number))
    options: dict[str, Any] = {"integers": "categories", "epochs": 1}
    run(tmp_path / "folds", graphs, "graphs", folds=3, **options)
    model = smpgnn.load(tmp_path / "folds", "cpu")
    found = model.predict(graphs, interval=0.5)
    each = [one.predict(graphs)["predicted_y"] for one in members_of(tmp_path / "folds").values()]
    np.testing.assert_allclose(found["predicted_y"], np.mean(each, axis=0), rtol=1e-5)
    sums = model.explain(graphs[:2], steps=3).groupby("graph")["added_y"].sum()
    np.testing.assert_allclose(sums, found["predicted_y"][:2], rtol=1e-4)
    parts = {"train": range(12), "val": range(12, 18), "test": None}
    result = run(tmp_path / "two", graphs, "graphs", parts, ensemble=2, **options)
    assert result.test == record(tmp_path / "two")["test"] == {}
    assert smpgnn.load(tmp_path / "two", "cpu").predict(graphs)["std_y"].notna().all()


def test_node_targets_of_several_graphs(tmp_path: Path) -> None:
    graphs = rings(9)
    for graph in graphs:
        graph.y = graph.x.sum(1)
    run(tmp_path / "run", graphs, "graphs", level="node", folds=3)
    predicted = pd.read_csv(tmp_path / "run" / "test_predictions.csv")
    assert len(predicted) == sum(graph.num_nodes for graph in graphs)
    wanted = np.concatenate([graph.y.numpy() for graph in graphs])
    np.testing.assert_allclose(predicted["y"], wanted, rtol=1e-5, atol=1e-6)
