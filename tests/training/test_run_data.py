"""A run knows its data: the split, the test predictions, a fingerprint; others are refused."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from small_runs import CYCLES, GRAPHS, record, ring, rings

import smpgnn
from smpgnn.data.splits import Split
from smpgnn.errors import InputError
from smpgnn.training.prepare import prepare
from smpgnn.training.run_data import SplitTable
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import Result, evaluate_store

SMALL: dict[str, Any] = {**GRAPHS, "epochs": 1, "quiet": True}
OLD = Path(__file__).parent / "old_run"


def table() -> pd.DataFrame:
    """Thirty molecules, and a row that is none."""
    smiles = ["C" * (1 + i // 3) + ("", "O", "N")[i % 3] for i in range(31)]
    smiles[4] = "C("
    size = [float(len(text)) if i % 9 else None for i, text in enumerate(smiles)]
    return pd.DataFrame({"smiles": smiles, "size": size, "kind": ["a", "b", "c"] * 10 + ["a"]})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    table().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def train(data: Path, targets: tuple[str, ...] = ("size",), **options: Any) -> Result:
    folder = data.parent / "run"
    return smpgnn.train(
        "molecules", path=str(data), targets=targets, output=str(folder), **{**SMALL, **options}
    )


def again(data: Path, **options: Any) -> Result:
    folder = str(data.parent / "run")
    return smpgnn.train("molecules", output=folder, resume=True, quiet=True, **options)


def test_the_split_is_written_by_row(data: Path) -> None:
    made = train(data)
    frame = pd.read_csv(made.folder / "splits.csv")
    assert list(frame.columns) == ["row", "split"]
    assert frame["row"].tolist() == [row for row in range(1, 32) if row != 5]
    assert frame["split"].value_counts().to_dict() == {"train": 24, "val": 3, "test": 3}
    options = RunFolder(made.folder).read_options()
    rows = frame["row"][frame["split"] == "test"] - 1
    smiles = table()["smiles"][rows].tolist()
    test = prepare(options).splits.test
    known = test.num_nodes.tolist()
    assert known == [len(text) for text in smiles]


@pytest.mark.parametrize(
    ("targets", "columns"),
    [
        (("size",), ["row", "smiles", "size", "predicted_size"]),
        (("kind",), ["row", "smiles", "kind", "predicted_kind"]),
    ],
)
def test_test_predictions_stand_beside_the_targets(
    data: Path, targets: tuple[str, ...], columns: list[str]
) -> None:
    made = train(data, targets, split_fractions=(0.6, 0.1, 0.3))
    frame = pd.read_csv(made.folder / "test_predictions.csv")
    assert list(frame.columns)[:4] == columns
    split = pd.read_csv(made.folder / "splits.csv")
    assert frame["row"].tolist() == split["row"][split["split"] == "test"].tolist()
    whole = table().iloc[frame["row"] - 1].reset_index()
    for name in ("smiles", targets[0]):
        pd.testing.assert_series_equal(frame[name], whole[name])
    said = smpgnn.load(made.folder, device="cpu").predict(whole["smiles"].tolist())
    name = f"predicted_{targets[0]}"
    if targets == ("size",):
        assert frame[name].tolist() == pytest.approx(said[name].tolist(), rel=1e-5)
        assert (frame[name] - frame["size"]).abs().mean() == pytest.approx(made.test["mae"])
    else:
        assert frame[name].tolist() == said[name].tolist()
        assert (frame[name] == frame["kind"]).mean() == pytest.approx(made.test["accuracy"])


def test_a_target_may_be_called_row(tmp_path: Path) -> None:
    table().rename(columns={"size": "row"}).to_csv(tmp_path / "data.csv", index=False)
    made = train(tmp_path / "data.csv", ("row",))
    frame = pd.read_csv(made.folder / "test_predictions.csv")
    assert list(frame.columns) == ["row", "smiles", "target_row", "predicted_row"]


def test_the_data_are_found_from_any_folder(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    made = train(Path("data.csv"))
    other = tmp_path / "other"
    other.mkdir()
    pd.DataFrame({"smiles": ["C"], "size": [1]}).to_csv(other / "data.csv")  # not to be taken
    monkeypatch.chdir(other)
    assert again(tmp_path / "data.csv").test == made.test
    options = RunFolder(tmp_path / "run").read_options()
    assert options.path == str(data)
    # another way to the same file, a copy of it, and where it has moved to
    assert again(data, path="../other/../data.csv").test == made.test
    shutil.move(data, tmp_path / "moved.csv")
    (other / "data.csv").unlink()
    with pytest.raises(InputError, match=r"/data\.csv does not exist"):
        again(data)
    assert again(data, path="../moved.csv").test == made.test
    assert RunFolder(tmp_path / "run").read_options().path == str(tmp_path / "moved.csv")
    assert again(data).test == made.test
    # and a project that moves as a whole is found by the names that it was given
    moved = tmp_path / "project"
    moved.mkdir()
    for name in ("run", "moved.csv"):
        shutil.move(tmp_path / name, moved)
    shutil.move(moved / "moved.csv", moved / "data.csv")
    monkeypatch.chdir(moved)
    assert again(moved / "data.csv").test == made.test


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.assign(size=[9.5, *f["size"][1:]]), r"the targets of 1 row .*line 2\)"),
        (lambda f: f.assign(smiles=[*f["smiles"][:-1], "CCCl"]), r"the SMILES of .*line 32\)"),
        (lambda f: f.iloc[:-1], "it has 30 rows instead of 31"),
        (lambda f: f.iloc[::-1], "its rows are in a different order"),
        (lambda f: f.assign(smiles=f["smiles"].replace("C(", "CC")), r"the SMILES of .*line 6\)"),
    ],
)
def test_other_data_are_refused(data: Path, change: Any, said: str) -> None:
    made = train(data)
    change(table()).to_csv(data, index=False)
    before = {file: file.read_bytes() for file in made.folder.iterdir() if file.is_file()}
    with pytest.raises(InputError, match=rf"data\.csv: is not the data of this run: {said}"):
        again(data)
    assert {file: file.read_bytes() for file in before} == before
    table().assign(more=1).to_csv(data, index=False, sep=";")  # the same again, saved otherwise
    assert again(data).test == made.test


def test_the_saved_split_holds_and_not_a_new_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smpgnn.training import own_splits as module

    made = train(data)
    written = (made.folder / "splits.csv").read_text()

    def other(n: int, *_: Any) -> Split:  # as if another version split in another way
        rows = torch.arange(n)
        return Split(rows[:10], rows[10:20], rows[20:])

    monkeypatch.setattr(module, "random_split", other)
    assert again(data).test == made.test
    folder = RunFolder(made.folder)
    test = prepare(folder.read_options(), folder.read_data()).splits.test
    found = evaluate_store(made.saved.network, made.saved.task, test, 8, torch.device("cpu"))
    assert found == made.test
    assert (made.folder / "splits.csv").read_text() == written


def test_a_split_column_is_read_once(data: Path) -> None:
    parts = ["train"] * 20 + ["val"] * 5 + ["test"] * 6
    table().assign(part=parts).to_csv(data, index=False)
    made = train(data, split_column="part")
    written = pd.read_csv(made.folder / "splits.csv")
    assert written["split"].tolist() == [p for i, p in enumerate(parts) if i != 4]
    table().to_csv(data, index=False)
    assert again(data).test == made.test


def test_graphs_from_python(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    made = smpgnn.train("graphs", rings(), output=folder, **SMALL)
    assert len(pd.read_csv(made.folder / "splits.csv")) == 24
    go: dict[str, Any] = {"output": folder, "resume": True, "quiet": True}
    assert smpgnn.train("graphs", rings(), **go).test == made.test
    graphs = rings()
    graphs[7].x[0, 0] += 1
    with pytest.raises(InputError, match=r"^data: is not .* graphs of 1 row .*\(first: row 8\)"):
        smpgnn.train("graphs", graphs, **go)
    with pytest.raises(InputError, match="it has 23 rows instead of 24"):
        smpgnn.train("graphs", rings(23), **go)


def test_nodes_of_one_graph(tmp_path: Path) -> None:
    graph = ring(30)
    graph.y = graph.x[:, 0].clone()
    graph.y[3] = torch.nan
    folder = tmp_path / "run"
    options = {**SMALL, "level": "node", "output": str(folder)}
    made = smpgnn.train("graphs", [graph], task="regression", **options)
    frame = pd.read_csv(folder / "splits.csv")
    assert list(frame.columns) == ["row", "node", "split"]
    assert frame["node"].tolist() == [node for node in range(1, 31) if node != 4]
    assert set(frame["row"]) == {1}
    said = pd.read_csv(folder / "test_predictions.csv")
    assert list(said.columns) == ["row", "node", "y", "predicted_y"]
    assert said["node"].tolist() == frame["node"][frame["split"] == "test"].tolist()
    assert said["y"].tolist() == pytest.approx(graph.y[said["node"] - 1].tolist())
    assert (said["y"] - said["predicted_y"]).abs().mean() == pytest.approx(made.test["mae"])
    again = smpgnn.train("graphs", [graph], output=str(folder), resume=True, quiet=True)
    assert again.test == made.test


def test_nodes_of_many_graphs(tmp_path: Path) -> None:
    graphs = rings(10)
    for graph in graphs:
        graph.y = graph.x[:, 0] > 0
    folder = tmp_path / "run"
    made = smpgnn.train("graphs", graphs, level="node", output=str(folder), **SMALL)
    frame = pd.read_csv(folder / "splits.csv")
    assert list(frame.columns) == ["row", "split"]
    said = pd.read_csv(folder / "test_predictions.csv")
    (row,) = frame["row"][frame["split"] == "test"]
    assert said["node"].tolist() == list(range(1, graphs[row - 1].num_nodes + 1))
    assert said["y"].tolist() == graphs[row - 1].y.int().tolist()
    assert (said["y"] == said["predicted_y"]).mean() == pytest.approx(made.test["accuracy"])


def test_a_data_set_that_comes_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    made = smpgnn.train("cycles", output=str(folder), quiet=True, epochs=1, **CYCLES)
    counts = pd.read_csv(folder / "splits.csv")["split"].value_counts().to_dict()
    assert counts == {"train": 64, "val": 1000, "test": 64}
    said = pd.read_csv(folder / "test_predictions.csv")
    assert said["row"].tolist() == list(range(1065, 1129))
    assert (said["cycle"] == said["predicted_cycle"]).mean() == made.test["accuracy"]
    assert json.loads((folder / "data.json").read_text())["files"] == {}

    from smpgnn.data import cycles

    right = cycles.cycle_splits
    monkeypatch.setattr(cycles, "cycle_splits", lambda k, n, seed, **m: right(k, n, seed=9, **m))
    with pytest.raises(InputError, match=r"^cycles: is not the data of this run: the graphs of"):
        smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)


def test_a_table_of_splits_comes_back() -> None:
    split = Split(torch.tensor([0, 3]), torch.tensor([1]), torch.tensor([2, 4]))
    rows = torch.tensor([10, 12, 13, 17, 20])
    table = SplitTable.from_csv(SplitTable.of_rows(split, rows).to_csv())
    pointer = torch.tensor([0, 2, 5])
    for part, other in zip(split, table.split(rows, pointer), strict=True):
        assert torch.equal(part, other)
    # a row that is gone is left out, a new one is in no split
    fewer = table.split(torch.tensor([10, 11, 13, 17, 20, 90]), pointer)
    assert [part.tolist() for part in fewer] == [[0, 3], [], [2, 4]]
    table = SplitTable.of_nodes(split, pointer)
    assert table.to_csv().splitlines()[:3] == ["row,node,split", "1,1,train", "1,2,val"]
    table, rows = SplitTable.from_csv(table.to_csv()), torch.arange(2)
    for part, other in zip(split, table.split(rows, pointer), strict=True):
        assert torch.equal(part, other)
    with pytest.raises(InputError, match="names a node that its graph does not have"):
        SplitTable.from_csv("row,node,split\n1,3,train\n").split(rows, pointer)


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interrupted run of the version before runs kept their data, with its table."""
    shutil.copytree(OLD, tmp_path / "old")
    shutil.move(tmp_path / "old" / "data.csv", tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "old"


def test_an_old_run_predicts_and_resumes(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(smpgnn.load(old, device="cpu").predict(["CCO"])) == 1
    made = smpgnn.train("molecules", output="old", resume=True, path=str(old.parent / "data.csv"))
    assert made.test == pytest.approx({"mae": 1.1488040, "mse": 1.5130496}, rel=1e-3)
    assert record(old)["epochs"] == 3
    assert capsys.readouterr().err.count("was started by an older version") == 1
    assert not (old / "data.json").exists()  # what it began with is not known
    shutil.copy(old.parent / "data.csv", old.parent / "copy.csv")
    with pytest.raises(InputError, match=r"^path copy\.csv: the run has data\.csv"):
        smpgnn.train("molecules", output="old", resume=True, path="copy.csv")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "row,split\n",
        "row,part\n1,train\n",
        "row,split\n1\n",
        "row,split\n1,train\n\n",
        "row,split\n1,all\n",
        "row,split\none,train\n",
        "row,split\n0,train\n",
        "row,split\n1,train\ninf,train\n",
        'row,split\n"1,train\n',
        "node,split\n1,train\n",
    ],
)
def test_other_tables_than_a_split_are_refused(text: str) -> None:
    with pytest.raises((ValueError, csv.Error)):
        SplitTable.from_csv(text)
