"""The pretrained models: how a run becomes one, what a name refers to, what it predicts."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from cli.commands import Outcome, done, smpgnn
from scripts import run_script

import smpgnn as package
from smpgnn import pretrained
from smpgnn.checksums import file_digest
from smpgnn.config.options import ZincOptions
from smpgnn.data.base import Splits
from smpgnn.data.zinc_vocabulary import ZincFeaturizer
from smpgnn.inference.predict import load
from smpgnn.paper.experiments.protocol import settings_of
from smpgnn.paper.experiments.records import Curves, Record, write_record
from smpgnn.training.prepare import assemble, prepare
from smpgnn.training.saved import SavedModel, save_model
from smpgnn.training.tasks import Regression
from smpgnn.training.train import evaluate_store, train_run

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "docs" / "ship.py"
SMILES = ["CCO", "c1ccccc1", "CC(C)N", "CCCl", "CC#N", "C1CCCCC1", "CCOC", "CCS", "c1ccncc1"]


def ship(*words: object) -> Outcome:
    return run_script(SCRIPT, *words)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run on a few molecules in the representation of ZINC."""
    pytest.importorskip("rdkit")
    folder = tmp_path_factory.mktemp("ship") / "run"
    found = ZincFeaturizer().featurize(SMILES).store
    store = replace(found, y=found.num_nodes.float().unsqueeze(1))
    part = Splits(store, store, store)
    options = ZincOptions().changed(
        hidden_channels=8, num_layers=2, towers=2, extractor_channels=8, epochs=2, batch_size=4,
        device="cpu", data_dir="somewhere", output=str(folder),
    )  # fmt: skip
    source = {"kind": "zinc", "smiles_column": "smiles"}
    task = Regression.fit(("y",), store)
    train_run(options, prepared=assemble(options, part, task, source), quiet=True)
    return folder


@pytest.fixture(scope="module")
def root(run: Path) -> Path:
    """A copy of nothing but what the script writes."""
    root = run.parent / "root"
    made = ship(run, "--root", root)
    assert made.status == 0, made.err
    return root


@pytest.fixture
def here(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, with the model shipped and a table of molecules."""
    monkeypatch.setattr(pretrained, "FOLDER", root / "src/smpgnn/pretrained")
    monkeypatch.setattr(pretrained, "NAMES", {"zinc": "smpgnn predict zinc FILE"})
    monkeypatch.setattr("smpgnn.cli.info.NAMES", pretrained.NAMES)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"smiles": [*SMILES, "[Na+]"]}).to_csv("molecules.csv", index=False)
    return tmp_path


def test_the_name_predicts_as_the_run_does(here: Path, run: Path) -> None:
    done("predict", "zinc", "molecules.csv", "-o", "ours.csv")
    done("predict", run, "molecules.csv", "-o", "theirs.csv")
    ours = pd.read_csv("ours.csv")
    pd.testing.assert_frame_equal(ours, pd.read_csv("theirs.csv"))
    assert ours["error"].isna().tolist() == [True] * len(SMILES) + [False]
    frame = package.load("zinc", "cpu").predict(SMILES)
    assert frame["predicted_y"].tolist() == pytest.approx(ours["predicted_y"][:-1].tolist())


def test_info_and_evaluate_know_it(here: Path, run: Path) -> None:
    shown = done("info", "pretrained").out
    record = json.loads((run / "run.json").read_text())
    assert shown.startswith("zinc: 0.0")
    assert f"parameters  {record['parameters']:,}" in shown
    assert f"mae {record['test']['mae']:.4f}" in shown
    model = pretrained.shipped("zinc")
    assert isinstance(model.options, ZincOptions)
    assert model.options.network.layer.towers == 2
    assert (model.options.data_dir, model.options.output) == ("", "")  # where it ran stays out
    table = pd.DataFrame({"smiles": SMILES, "y": [1.0] * len(SMILES)})
    table.to_csv("known.csv", index=False)
    assert "mae" in done("evaluate", "zinc", "known.csv").out


def test_a_run_of_that_name_wins_and_another_folder_does_not(here: Path, run: Path) -> None:
    Path("zinc").mkdir()
    Path("zinc/raw").mkdir()  # the data, say
    done("predict", "zinc", "molecules.csv", "-o", "shipped.csv")
    other = load(run, "cpu").saved
    with torch.no_grad():
        for value in other.network.parameters():
            value.zero_()
    save_model("zinc/model.safetensors", other)
    done("predict", "zinc", "molecules.csv", "-o", "local.csv")
    local, shipped = (pd.read_csv(f"{name}.csv")["predicted_y"] for name in ("local", "shipped"))
    assert local.nunique() == 1
    assert shipped.nunique() > 1


def test_a_missing_shipped_model_is_one_sentence(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", here / "nothing")
    message = (
        "smpgnn: zinc: this version has no pretrained model of that name: name a run folder or "
        "model file.\n"
    )
    for words in (
        ("predict", "zinc", "molecules.csv", "-o", "out.csv"),
        ("evaluate", "zinc"),
        ("info", "pretrained"),
    ):
        found = smpgnn(*words)
        assert (found.status, found.err) == (2, message)
    assert not Path("out.csv").exists()


def test_the_card_is_written_from_the_record(root: Path, run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    text = (root / "docs/models/zinc.md").read_text()
    assert f"{record['parameters']:,} parameters" in text
    assert f"{record['test']['mae']:.4f}" in text
    assert f"{record['validation']['mae']:.4f}" in text
    assert f"(epoch {record['best_epoch']} of 2)" in text
    assert "towers: 2" in text
    assert "somewhere" not in text + (root / "src/smpgnn/pretrained/zinc.json").read_text()
    assert ship("--check", "--root", root).status == 0
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    (copy / "docs/models/zinc.md").write_text(text.replace("(epoch", "(Epoch"))
    found = ship("--check", "--root", copy)
    assert found.status == 1
    assert "docs/models/zinc.md does not match" in found.err
    assert ship("--root", copy).status == 0  # without a run: the card of what ships
    assert ship("--check", "--root", copy).status == 0
    assert "there is no pretrained model yet" in ship("--root", copy / "docs").err


def test_a_model_of_a_table_ships_with_its_record(run: Path, tmp_path: Path) -> None:
    made = json.loads((run / "run.json").read_text())
    kept = ("parameters", "epochs", "best_epoch", "wall_time_s", "device", "versions", "commit")
    config = settings_of(ZincOptions().changed(hidden_channels=8, num_layers=2, epochs=2))
    record = Record(
        table="zinc", row="SMP", cell="with edge features", seed=0, protocol="modern",
        reduced=True, metric="test MAE", value=made["test"]["mae"],
        validation=made["validation"]["mae"], peak_memory_mib=1.0, memory_of="", jobs=1,
        samples=None, config=config, search=None, curves=Curves((), (), (), ()),
        **{name: made[name] for name in kept},
    )  # fmt: skip
    path, root = write_record(tmp_path, record), tmp_path / "root"
    found = ship(run / "model.safetensors", "--record", path, "--root", root)
    assert found.status == 0, found.err
    text = (root / "docs/models/zinc.md").read_text()
    assert "One run, zinc: SMP, with edge features, seed 0;" in text
    assert f"| test | {made['test']['mae']:.4f} |" in text
    assert ship("--check", "--root", root).status == 0
    for wrong, message in (
        (replace(record, table="cycle_detection", seed=1), "not of ZINC"),
        (replace(record, parameters=7, seed=2), "but the record says 7"),
    ):
        other = tmp_path / "other"
        words = "--record", write_record(tmp_path, wrong), "--root", other
        found = ship(run / "model.safetensors", *words)
        assert found.status == 1
        assert message in found.err
        assert not other.exists()


def test_the_model_that_ships_is_made_by_the_defaults() -> None:
    made = pretrained.shipped("zinc").options
    assert settings_of(replace(made, seed=0)) == settings_of(ZincOptions())


def test_what_must_not_ship_is_refused(run: Path, tmp_path: Path) -> None:
    def refusal(folder: Path) -> str:
        found = ship(folder, "--root", tmp_path / "root")
        assert found.status == 1
        assert not (tmp_path / "root").exists()
        assert "Traceback" not in found.err
        return found.err

    half = tmp_path / "half"
    shutil.copytree(run, half)
    (half / "run.json").unlink()
    assert "is not finished" in refusal(half)
    other = tmp_path / "other"
    done("train", "cycles", "--k", 4, "--n", 12, "--train-samples", 8, "--test-samples", 8,
         "--epochs", 1, "--device", "cpu", "--output", other)  # fmt: skip
    assert "is a run of 'cycles', not of 'zinc'" in refusal(other)
    large = tmp_path / "large"
    shutil.copytree(run, large)
    saved = load(run, "cpu").saved
    spec = saved.spec.changed(hidden_channels=256)
    save_model(
        large / "model.safetensors", SavedModel(spec.build(), spec, saved.task, saved.source)
    )
    assert "must have fewer than 2,000,000" in refusal(large)


@pytest.mark.parametrize("name", pretrained.NAMES)
def test_the_shipped_models_are_small_and_match_their_records(name: str) -> None:
    model = pretrained.shipped(name)
    assert model.file.stat().st_size < 2_000_000
    network = load(name, "cpu").network
    assert sum(p.numel() for p in network.parameters()) == model.run["parameters"]
    assert model.options.network == load(name, "cpu").saved.spec.options


def test_the_cards_are_true() -> None:
    found = ship("--check")
    assert found.status == 0, found.err


@pytest.mark.skipif(not os.environ.get("SMPGNN_DATA"), reason="SMPGNN_DATA is not set")
def test_the_shipped_model_reproduces_its_test_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shipped, model = pretrained.shipped("zinc"), load("zinc", "cpu")
    test = prepare(shipped.options).splits.test
    found = evaluate_store(model.network, model.task, test, 128, model.device)
    assert found["mae"] == pytest.approx(shipped.run["test"]["mae"], abs=1e-3)  # it was TF32


def test_the_comparison_is_that_of_the_general_model() -> None:
    digest = file_digest(pretrained.shipped("general").file)
    records = [json.loads(path.read_text()) for path in (ROOT / "results/pretrained").iterdir()]
    started = [record for record in records if record["start"] != "scratch"]
    assert started
    assert {record["model"] for record in started} == {digest}


def test_the_general_model_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"smiles": SMILES, "y": range(len(SMILES))}).to_csv("data.csv", index=False)
    shown = done("info", "general").out
    assert shown.startswith("general: 0.4")
    assert "--from general" in shown.splitlines()[0]
    assert shown.count("validation") == 1
    assert "test  " not in shown  # it has no test part
    model = load("general", "cpu")
    done("embed", "general", "data.csv", "-o", "vectors.csv")
    vectors = pd.read_csv("vectors.csv").filter(like="embedding_").to_numpy()
    rows = model.task.measured(model.network.out(torch.tensor(vectors, dtype=torch.float32)))
    predicted = model.predict(SMILES)
    for number, name in enumerate(model.task.target_names()):
        expected = predicted[f"predicted_{name}"].to_numpy()
        assert rows[:, number].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-3)
    (atoms,) = model.predict(["CC(=O)Oc1ccccc1C(=O)O"])["predicted_NumHeavyAtoms"]
    assert atoms == pytest.approx(13, abs=0.5)
    refused = smpgnn("evaluate", "general")
    message = "smpgnn: general: its data are not in the package: name labelled data.\n"
    assert (refused.status, refused.err) == (2, message)
