"""Runs and models of earlier versions predict and evaluate as they did, and can be resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import smpgnn
from smpgnn.data.graphs import read_graphs

KEPT = Path(__file__).parent.parent / "kept"
VERSIONS = sorted(path.name for path in KEPT.iterdir() if path.is_dir() and path.name[0].isdigit())
MOLECULES = ("regression", "classification", "mixed")


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a version left behind; the working folder is that of the kind."""
    shutil.copytree(KEPT / request.param, tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "kept")
    return tmp_path / "kept"


def expected(kind: str) -> dict[str, Any]:
    """What the version said, unless RDKit computes other descriptors now."""
    found: dict[str, Any] = json.loads(Path("expected.json").read_text(encoding="utf-8"))
    if kind == "regression":
        rdkit = pytest.importorskip("rdkit")
        if rdkit.__version__ != found["versions"]["rdkit"]:
            pytest.skip(f"RDKit {rdkit.__version__} may compute other descriptors")
    return found


def assert_same(table: pd.DataFrame, before: dict[str, dict[str, Any]]) -> None:
    """The same columns and texts; numbers agree to 1e-5."""
    assert list(table.columns) == list(before)
    for name, cells in before.items():
        values = list(cells.values())
        if all(isinstance(value, float | int) for value in values):
            assert table[name].to_numpy(float) == pytest.approx(np.array(values), abs=1e-5)
        else:
            assert [None if pd.isna(v) else v for v in table[name]] == values


def assert_metrics(found: dict[str, float], before: dict[str, float], tolerance: float) -> None:
    assert found == pytest.approx(before, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("kind", [*MOLECULES, "graphs"])
def test_predictions_and_metrics_are_those_of_the_version(
    kept: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kept / kind)
    before = expected(kind)
    model = smpgnn.load("model.safetensors" if kind == "mixed" else "run", "cpu")
    if kind == "graphs":
        store = read_graphs("graphs", schema=model.schema("read them")).store
        assert_same(model.predict(store), before["predictions"])
        metrics = model.evaluate("graphs", labels="labels.csv")
    else:
        assert_same(model.predict(pd.read_csv("data.csv")), before["predictions"])
        metrics = model.evaluate("data.csv")
    assert_metrics(metrics, before["metrics"], 1e-4)


@pytest.mark.parametrize("kind", ["regression", "graphs"])
def test_a_killed_run_ends_as_an_undisturbed_one_did(
    kept: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kept / kind)
    before = expected(kind)
    graphs = {"path": "graphs", "labels": "labels.csv"}
    task, data = ("graphs", graphs) if kind == "graphs" else ("molecules", {"path": "data.csv"})
    made = smpgnn.train(task, output="run", resume=True, quiet=True, **data)
    assert_metrics(made.test, before["test"], 1e-2)


@pytest.mark.slow
def test_a_member_is_trained_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept / "classification")
    before = expected("classification")
    shutil.rmtree("run/members/fold2-member1")
    for name in ("run.json", "calibration.json"):
        Path("run", name).unlink()
    made = smpgnn.train("molecules", output="run", resume=True, quiet=True, path="data.csv")
    assert_metrics(made.test, before["test"], 1e-2)


def test_there_are_runs_of_this_version() -> None:
    assert smpgnn.__version__ in VERSIONS, "run tests/kept/make.py, as docs/releasing.md says"
