"""smpgnn evaluate: the saved split, data of one's own, and runs of older versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import SMALL, done, graph_folder, molecules, smpgnn

from smpgnn.training.run_folder import RunFolder

OLD = Path(__file__).parent.parent / "training" / "old_run"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose table has a relative name."""
    monkeypatch.chdir(tmp_path)
    molecules().to_csv("data.csv", index=False)
    done("train", "molecules", "data.csv", "--targets", "size", *SMALL, "--output", "run")
    return tmp_path / "run"


def metrics(*words: object) -> dict[str, float]:
    found: dict[str, float] = json.loads(done("evaluate", *words, "--json").out)
    return found


def test_the_saved_split_from_any_folder(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = RunFolder(run).read_record()["test"]
    assert metrics("run") == pytest.approx(test, rel=1e-5)
    (run.parent / "deeper").mkdir()
    monkeypatch.chdir(run.parent / "deeper")
    assert metrics("../run") == pytest.approx(test, rel=1e-5)
    assert metrics(run) == pytest.approx(test, rel=1e-5)


def test_a_changed_table_is_refused(run: Path) -> None:
    frame = molecules()
    test = RunFolder(run).read_record()["test"]
    frame.assign(note="new").to_csv("data.csv", index=False, sep=";")
    assert metrics("run") == pytest.approx(test, rel=1e-5)  # the same content
    frame.loc[9, "size"] = 3.25
    frame.to_csv("data.csv", index=False)
    found = smpgnn("evaluate", "run")
    assert (found.status, found.out) == (2, "")
    assert found.err == (
        f"smpgnn: {run.parent / 'data.csv'}: is not the data of this run: the targets of 1 row "
        "changed (first: line 11); restore it, start a new run, or evaluate all its rows with "
        "smpgnn evaluate RUN --data FILE.\n"
    )
    pd.concat([molecules(), molecules().iloc[:2]]).to_csv("data.csv", index=False)
    found = smpgnn("evaluate", "run")
    assert "it has 42 rows instead of 40 (first difference: at line 42)" in found.err
    Path("data.csv").unlink()
    assert "data.csv does not exist" in smpgnn("evaluate", "run").err


def test_a_table_of_ones_own(run: Path) -> None:
    molecules(25).iloc[5:].to_csv("new.csv", index=False)
    done("predict", "run", "new.csv", "-o", "out.csv")
    frame = pd.read_csv("out.csv")
    error = (frame["predicted_size"] - frame["size"]).abs().mean()
    assert metrics("run", "--data", "new.csv")["mae"] == pytest.approx(error, rel=1e-4)
    assert metrics("run", "new.csv") == metrics("run", "--data", "new.csv")
    found = smpgnn("evaluate", "run", "new.csv", "--data", "data.csv")
    assert found.err == "smpgnn: --data data.csv: new.csv is given, too: leave one of them out.\n"
    for option in ("--labels", "--smiles-column", "--separator"):
        found = smpgnn("evaluate", "run", option, "x")
        assert (
            found.err
            == f"smpgnn: {option}: applies only to your own data: name them with --data.\n"
        )


def test_molecules_of_training_are_counted(run: Path) -> None:
    splits = pd.read_csv(run / "splits.csv")
    train = splits[splits["split"] == "train"]["row"].to_numpy()[:3] - 1
    test = splits[splits["split"] == "test"]["row"].to_numpy() - 1
    frame = molecules()
    frame.iloc[[*train, *test]].to_csv("new.csv", index=False)
    found = done("evaluate", "run", "new.csv")
    assert found.err == (
        "new.csv: 3 rows have molecules of the training data: the metrics are better than for new "
        "molecules.\n"
    )
    frame.iloc[test].to_csv("new.csv", index=False)
    assert done("evaluate", "run", "new.csv").err == ""


def test_graphs_of_ones_own(kind_run: Path, home: Path, tmp_path: Path) -> None:
    test = RunFolder(kind_run).read_record()["test"]
    assert metrics(kind_run) == pytest.approx(test, rel=1e-5)
    new = graph_folder(tmp_path / "new", 9)
    labels = tmp_path / "labels.csv"
    found = metrics(kind_run, "--data", new, "--labels", labels)
    done("predict", kind_run, new, "-o", tmp_path / "out.csv")
    said = pd.read_csv(tmp_path / "out.csv")["predicted_kind"]
    assert found["accuracy"] == pytest.approx((said == pd.read_csv(labels)["kind"]).mean())


def test_changed_graphs_are_refused(tmp_path: Path) -> None:
    folder, run = graph_folder(tmp_path / "graphs"), tmp_path / "run"
    labels = tmp_path / "labels.csv"
    done(
        "train", "graphs", folder, "--labels", labels, "--targets", "kind", *SMALL, "--output", run
    )
    whole, table = (folder / "g07.json").read_text(), labels.read_text()
    (folder / "g07.json").write_text(whole.replace('"w":0.5', '"w":0.75'))
    said = "is not the data of this run: the graphs of 1 row changed (first: graph g07.json)"
    assert f"{folder}: {said}" in smpgnn("evaluate", run).err
    assert said in smpgnn("train", "graphs", "--output", run, "--resume").err
    (folder / "g07.json").write_text(whole.replace('"w":0.5', '"w":0.5,"z":1'))
    assert "g07.json" in smpgnn("evaluate", run).err
    (folder / "g07.json").write_text(whole)
    labels.write_text(table.replace("g02.json,star", "g02.json,ring"))
    assert "the targets of 1 row changed (first: graph g02.json)" in smpgnn("evaluate", run).err
    labels.write_text(table)
    (folder / "g23.json").unlink()
    assert "it has 23 rows instead of 24" in smpgnn("evaluate", run).err


def test_a_run_of_an_older_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    found = done("evaluate", ".")
    assert found.err == (
        ".: was started by an older version, which did not save splits: the data are split again "
        "with the same seed.\n"
    )
    assert found.out.startswith("test split: mae 1.")
    assert "predicted_size" in done("info", ".").out
    done("predict", ".", "data.csv", "-o", "out.csv")
    assert len(pd.read_csv("out.csv")) == 30


def test_predictions_of_the_test_rows(run: Path) -> None:
    said = pd.read_csv(run / "test_predictions.csv")
    whole = pd.read_csv("data.csv").iloc[said["row"] - 1]
    assert said["size"].tolist() == whole["size"].tolist()
    error = (said["predicted_size"] - said["size"]).abs().mean()
    assert error == pytest.approx(RunFolder(run).read_record()["test"]["mae"], rel=1e-5)
