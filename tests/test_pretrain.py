"""Pretraining on descriptors, and the bookkeeping of its comparison with runs from scratch."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scripts import run_script

pytest.importorskip("rdkit")

from smpgnn.data.molecule_features import RDKIT, rdkit_descriptors
from smpgnn.errors import InputError
from smpgnn.inference.predict import load

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "docs" / "pretrain.py"
MIDDLES = ("C", "O", "N", "S", "C(=O)", "c1ccc(cc1)", "C(F)", "C1CC1")
SMILES = [f"C{a}C{b}C{c}" for a in MIDDLES for b in MIDDLES for c in ("O", "Cl")]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_targets_are_limited_and_those_that_teach_nothing_left_out(names: dict[str, Any]) -> None:
    values = np.tile(np.arange(1000.0)[:, None], 4)
    values[0, 0] = 1e9
    values[:20, 1] = np.nan
    values[:, 2] = 3
    values[0, 2] = 1e9
    frame, left = names["chosen_targets"](values, ["tail", "gaps", "same", "plain"])
    assert list(frame.columns) == ["tail", "plain"]
    assert left == {
        "gaps": "unknown for too many molecules",
        "same": "3 for nearly all molecules",
    }
    assert frame["tail"].max() == 995
    assert frame["plain"].tolist() == np.clip(np.arange(1000), 5, 994).tolist()


def test_a_few_molecules_from_smiles_to_a_model_to_start_from(
    names: dict[str, Any], tmp_path: Path
) -> None:
    source, folder = tmp_path / "smiles.txt", tmp_path / "made"
    source.write_text("\n".join(["no-molecule", *SMILES]) + "\n")
    words = (folder, "--smiles", source, "--epochs", 1, "--device", "cpu")
    done = run_script(SCRIPT, *words)
    assert (done.status, done.out) == (0, f"Wrote {folder / 'model'}.\n"), done.err

    about = json.loads((folder / "targets.json").read_text())
    table = pd.read_parquet(folder / "targets.parquet")
    assert about["molecules"] == len(table) == len(SMILES)
    assert {*about["targets"], *about["left_out"]} == set(RDKIT)
    mass = rdkit_descriptors(table["smiles"].tolist(), ("exactmw",))[:, 0]
    low, high = np.quantile(mass, names["QUANTILES"], method="nearest")
    assert table["exactmw"].tolist() == np.clip(mass, low, high).astype(np.float32).tolist()

    record = json.loads((folder / "model" / "general.json").read_text())
    card = (folder / "model" / "general.md").read_text()
    assert f"{record['run']['parameters']:,} parameters" in card
    assert f"| {record['run']['validation']['r2']:.4f} |" in card
    assert record["run"]["test"] == {}
    assert record["data"]["origin"] == ""
    assert "ChEMBL" not in card  # the user's own molecules
    weights = folder / "model" / "general.safetensors"
    assert load(weights, "cpu").embed(["CCO"]).shape[0] == 1
    assert "--from general.safetensors\n" in card

    root = tmp_path / "root"
    shipped = run_script(SCRIPT.with_name("ship.py"), folder / "model", "--root", root)
    assert shipped.status == 0, shipped.err
    package = root / "src/smpgnn/pretrained"
    assert (package / "general.safetensors").read_bytes() == weights.read_bytes()
    content = json.loads((package / "general.json").read_text())
    assert content["run"]["validation"].items() < record["run"]["validation"].items()
    assert "--from general\n" in (root / "docs/models/general.md").read_text()
    assert run_script(SCRIPT.with_name("ship.py"), "--check", "--root", root).status == 0

    before = (folder / "run" / "run.json").read_bytes()
    assert run_script(SCRIPT, *words).status == 0  # a finished run stays as it is
    assert (folder / "run" / "run.json").read_bytes() == before
    other = run_script(SCRIPT, *words, "--rows", 120)
    assert (other.status, "name another folder" in other.err) == (1, True)


def test_the_run_continues_after_its_last_epoch(names: dict[str, Any], tmp_path: Path) -> None:
    source, folder = tmp_path / "smiles.txt", tmp_path / "made"
    source.write_text("\n".join(SMILES))
    words = (folder, "--smiles", source, "--epochs", 2, "--device", "cpu")
    assert run_script(SCRIPT, *words).status == 0
    made = [folder / "model" / "general.safetensors", folder / "run" / "run.json"]
    weights = made[0].read_bytes()
    for path in made:
        path.unlink()
    assert run_script(SCRIPT, *words).status == 0
    assert made[0].read_bytes() == weights
    assert json.loads(made[1].read_text())["epochs"] == 2


def test_files_that_are_no_molecules(names: dict[str, Any], tmp_path: Path) -> None:
    packed = tmp_path / "smiles.txt.xz"
    packed.write_bytes(b"no archive")
    with pytest.raises(InputError, match="cannot be read"):
        names["read_smiles"](packed)
    packed.with_suffix("").write_text("C name\n\nCC\n")
    assert names["read_smiles"](packed.with_suffix("")) == ["C", "CC"]
    none = run_script(SCRIPT, tmp_path / "made", "--smiles", tmp_path / "nothing")
    assert (none.status, "does not exist: check the path" in none.err) == (1, True)
    few = run_script(SCRIPT, tmp_path / "made", "--smiles", packed.with_suffix(""))
    assert (few.status, "has only 2 molecules" in few.err) == (1, True)
    assert not (tmp_path / "made").exists()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The script of the comparison, with records in a new folder."""
    if "SMPGNN_DATA" not in os.environ:
        pytest.skip("SMPGNN_DATA is not set")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("molecule_runs", "pretrained"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("pretrained")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    return module


def test_small_tables_are_the_same_for_all_starts(compared: Any) -> None:
    frames = [compared.Job("esol", "200", 1, start).rows() for start in compared.STARTS]
    assert all(frame.equals(frames[0]) for frame in frames)
    whole = compared.Job("esol", "all", 1, "scratch").rows()
    counts = frames[0]["split"].value_counts()
    assert (counts["train"], counts["val"]) == (200, 50)
    assert counts["test"] == (whole["split"] == "test").sum()
    assert whole.loc[frames[0].index, "split"].equals(frames[0]["split"])


def test_wins_and_means_of_records(compared: Any, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.write_bytes(b"weights")
    wanted = list(compared.jobs(["bace", "esol"], ["200"], [0, 1]))
    assert compared.missing(wanted, model, []) == wanted
    compared.RECORDS.mkdir()
    for job in wanted:
        value = {"scratch": 0.5, "pretrained": 0.4 + 0.2 * job.seed, "frozen": 0.5}[job.start]
        metrics = {compared.DATASETS[job.data].metric: value}
        content = {"validation": metrics, "test": metrics, **compared.origin(job, model, [])}
        job.record.write_text(json.dumps(content))
    assert compared.missing(wanted, model, []) == []
    rows = {(row["table"], row["start"]): row for row in compared.compared()}
    assert rows["esol", "pretrained"]["test"] == pytest.approx(0.5)
    assert [rows["esol", s]["wins (test)"] for s in compared.STARTS] == ["", "1 of 2", "0 of 2"]
    assert rows["bace", "frozen"]["wins (validation)"] == "0 of 2"
    wanted[0].record.unlink()  # the comparison needs all starts of a seed
    table = {(row["table"], row["start"]): row for row in compared.compared()}
    assert table["bace", "pretrained"]["wins (test)"] == "1 of 1"
    with pytest.raises(InputError, match="with other options"):
        compared.missing(wanted, model, ["--epochs=3"])
    model.write_bytes(b"other weights")
    with pytest.raises(InputError, match="with other model"):
        compared.missing(wanted, model, [])


@pytest.mark.slow
def test_a_run_of_each_start_leaves_a_record(compared: Any, tmp_path: Path) -> None:
    source, folder = tmp_path / "smiles.txt", tmp_path / "made"
    source.write_text("\n".join(SMILES))
    run_script(SCRIPT, folder, "--smiles", source, "--epochs", 1, "--device", "cpu")
    model, more = folder / "model" / "general.safetensors", ["--epochs=1", "--device=cpu"]
    wanted = list(compared.jobs(["esol"], ["200"], [0]))
    for job in wanted:
        compared.run(job, model, more)
    assert compared.missing(wanted, model, more) == []
    rows = compared.compared()
    assert [row["start"] for row in rows] == ["scratch", "pretrained", "frozen"]
    assert len({row["validation"] for row in rows}) == 3
    record = json.loads(wanted[1].record.read_text())
    assert record["rows"] == {"train": 200, "val": 50, "test": 113}
    assert record["test"]["rmse"] == rows[1]["test"]
    with pytest.raises(InputError, match="none"):
        compared.run(wanted[0], model, ["--epochs=none"])
