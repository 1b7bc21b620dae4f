"""Loggers of Lightning: real ones where their package is installed, one sentence where not."""

from __future__ import annotations

import csv
import importlib.util
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from small_runs import GRAPHS, rings

import smpgnn
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder

SMALL: dict[str, Any] = {**GRAPHS, "epochs": 2, "quiet": True}


def logged(kind: str, folder: Path) -> Path:
    result = smpgnn.train("graphs", data=rings(), output=folder / "run", logger=kind, **SMALL)
    assert len(RunFolder(result.folder).read_metrics()) == 2
    assert not (result.folder / "tensorboard").exists()
    return result.folder


def test_csv_has_the_values_of_the_run(tmp_path: Path) -> None:
    folder = logged("csv", tmp_path)
    with (folder / "csv" / "metrics.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["val_rmse"]]
    wanted = RunFolder(folder).read_metrics()
    assert [float(line["val_rmse"]) for line in lines] == pytest.approx(
        [line["val_rmse"] for line in wanted], rel=1e-5
    )
    assert "hidden_channels: 8" in (folder / "csv" / "hparams.yaml").read_text()


def test_none_writes_nothing_else(tmp_path: Path) -> None:
    folder = logged("none", tmp_path)
    assert not [path for path in folder.iterdir() if path.is_dir()]


@pytest.mark.parametrize("kind", ["mlflow", "wandb"])
def test_a_missing_package_is_one_sentence(kind: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(kind):
        pytest.skip(f"{kind} is installed")
    with pytest.raises(InputError) as caught:
        logged(kind, tmp_path)
    assert str(caught.value) == f"--logger {kind}: needs a package: pip install {kind}."
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, about MLflow
def test_mlflow_writes_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = logged("mlflow", tmp_path)
    with sqlite3.connect(folder / "mlflow.db") as database:
        found = database.execute("select count(*) from metrics where key = 'val_rmse'").fetchone()
    assert found == (2,)


def test_wandb_is_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert list((logged("wandb", tmp_path) / "wandb").glob("offline-run-*/*.wandb"))


def test_a_run_may_go_on_with_another_logger(tmp_path: Path) -> None:
    folder = logged("none", tmp_path)
    (folder / "run.json").unlink()
    result = smpgnn.train(
        "graphs", data=rings(), output=folder, resume=True, logger="csv", quiet=True
    )
    assert len(RunFolder(result.folder).read_metrics()) == 2
