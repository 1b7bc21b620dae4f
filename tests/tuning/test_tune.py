"""smpgnn tune: what it searches, finds and writes, and how it goes on."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import smpgnn
from smpgnn.cli.main import run
from smpgnn.config.options import GraphsOptions, MoleculesOptions, from_config, read_config
from smpgnn.config.tuning import SPACE, search_space
from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder

#: Settings that are not searched, with which a trial takes a fraction of a second.
SMALL: dict[str, Any] = {
    "targets": ["size"],
    "hidden_channels": 8,
    "num_layers": 1,
    "epochs": 2,
    "device": "cpu",
    "logger": "none",
    "split_column": "part",
    "quiet": True,
}


def table() -> pd.DataFrame:
    """Chains of carbon with an end, their size, and a split."""
    ends = ("", "O", "N", "Cl", "=O")
    lines = [
        {
            "smiles": "C" * (1 + row // 5) + ends[row % 5],
            "size": 1 + row // 5 + 0.3 * (row % 5),
            "part": ("train", "train", "val", "test")[row % 4],
        }
        for row in range(40)
    ]
    return pd.DataFrame(lines)


def rings() -> list[Data]:
    """Rings and stars of five nodes; y says which."""
    a = torch.arange(5)
    ring, star = torch.stack([a, (a + 1) % 5]), torch.stack([0 * a[1:], a[1:]])
    edges = [torch.cat([one, one.flip(0)], 1) for one in (ring, star)]
    return [Data(x=torch.ones(5, 1), edge_index=edges[i % 2], y=i % 2) for i in range(24)]


def search(folder: Path, data: pd.DataFrame | None = None, **options: Any) -> Any:
    given = {**SMALL, "output": folder, **options}
    return smpgnn.tune("molecules", table() if data is None else data, **given)


def outcome(result: Any) -> pd.DataFrame:
    """The table of trials without what is measured."""
    frame: pd.DataFrame = result.trials.drop(columns="seconds")
    return frame


def test_the_best_settings_train_to_the_same_value(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    found = search(tmp_path / "tune", data=str(tmp_path / "data.csv"), trials=3)
    assert sorted(path.name for path in (tmp_path / "tune").iterdir()) == [
        "best.yaml", "lock", "study.log", "study.png", "trials", "trials.csv",
    ]  # fmt: skip
    written = pd.read_csv(tmp_path / "tune" / "trials.csv")
    assert written["state"].tolist() == ["complete"] * 3
    assert written["validation_rmse"].tolist() == found.trials["validation_rmse"].tolist()
    assert found.value == written["validation_rmse"].min()
    assert found.default == written["validation_rmse"][0]
    options = from_config(read_config(tmp_path / "tune" / "best.yaml"), "best.yaml")
    assert options == found.options
    assert {name: getattr(options, name, None) for name in ("lr", "loss")} == {
        name: found.best[name] for name in ("lr", "loss")
    }
    words = ["--config", str(tmp_path / "tune" / "best.yaml"), "--output", str(tmp_path / "run")]
    assert run(["train", "molecules", *words]) == 0
    record = RunFolder(tmp_path / "run").read_record()
    assert record["validation"]["rmse"] == found.value
    assert record["test"]


def test_the_first_trial_has_the_defaults(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    found = search(tmp_path / "tune", data=str(tmp_path / "data.csv"), trials=1)
    (row,) = found.trials.to_dict("records")
    default = MoleculesOptions()
    assert (row["lr"], row["batch_size"], row["readout"], row["loss"]) == (
        default.lr, default.batch_size, default.network.readout, "mae",
    )  # fmt: skip
    trial = RunFolder(tmp_path / "tune" / "trials" / "0000")
    assert trial.read_record()["test"] == {}
    assert not trial.predictions.exists()
    with pytest.raises(InputError, match="there are no test rows: name labelled data, as in"):
        run(["evaluate", str(trial.path)])


def test_test_rows_play_no_part(tmp_path: Path) -> None:
    other = table()
    tests = other["part"] == "test"
    other.loc[tests, "size"] = 1000.0 - 50 * other.loc[tests, "size"]
    other.loc[tests, "smiles"] = "c1ccncc1Br"
    here, there = (
        search(tmp_path / name, data=data, trials=4, epochs=3, pruner="halving")
        for name, data in (("one", table()), ("two", other))
    )
    pd.testing.assert_frame_equal(outcome(here), outcome(there))


def test_a_continued_search_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole", trials=3)
    for trials in (1, 3, 3):
        parts = search(tmp_path / "parts", trials=trials)
        assert len(parts.trials) == trials
    pd.testing.assert_frame_equal(outcome(whole), outcome(parts))
    with pytest.raises(InputError, match=r"another search: lr is 0.1, but the search has 0.002"):
        search(tmp_path / "parts", trials=4, lr=0.1)
    with pytest.raises(InputError, match="another search: the data differ: use the same, or"):
        search(tmp_path / "parts", table().head(32), trials=4)


def test_a_database_serves_as_well(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    whole = search(tmp_path / "whole", trials=3)
    for trials in (2, 3):
        found = search(tmp_path / "parts", trials=trials, storage=url)
    pd.testing.assert_frame_equal(outcome(whole), outcome(found))
    with pytest.raises(InputError, match="cannot store a search"):
        search(tmp_path / "other", storage="nobase://x")


def test_data_are_featurised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, usual = [], MoleculeFeaturizer.featurize

    def counted(self: MoleculeFeaturizer, smiles: Any) -> Any:
        calls.append(len(smiles))
        return usual(self, smiles)

    monkeypatch.setattr(MoleculeFeaturizer, "featurize", counted)
    search(tmp_path / "tune", trials=3)
    assert calls == [40]


def test_hopeless_trials_are_stopped(tmp_path: Path) -> None:
    found = search(tmp_path / "tune", trials=6, epochs=9, pruner="halving").trials
    stopped = found[found["state"] == "pruned"]
    assert len(stopped) >= 2
    assert (stopped["epochs"] < 9).all()
    assert stopped["validation_rmse"].isna().all()
    kept = found[found["state"] == "complete"]
    assert (kept["epochs"] == 9).all()
    assert found["state"][0] == "complete"


def test_a_refused_network_is_a_note_on_its_trial(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no trial finished \(.*towers"):
        search(tmp_path / "none", trials=2, towers=3)
    written = pd.read_csv(tmp_path / "none" / "trials.csv")
    assert written["state"].tolist() == ["pruned"] * 2
    assert written["note"].str.contains("towers").all()
    assert not (tmp_path / "none" / "best.yaml").exists()


def test_classes_of_graphs(tmp_path: Path) -> None:
    small = {"hidden_channels": 8, "num_layers": 2, "batch_size": 8, "epochs": 1}
    found = smpgnn.tune(
        "graphs", rings(), trials=2, output=tmp_path / "tune", quiet=True, device="cpu",
        logger="none", **small,
    )  # fmt: skip
    assert found.metric == "auc"
    assert found.value == found.trials["validation_auc"].max()
    assert set(found.best) == {"readout", "dropout", "lr", "weight_decay"}


def test_the_space() -> None:
    options = MoleculesOptions().changed(lr=0.05, batch_size=7, num_layers=1)
    space = {choice.name: choice for choice in search_space(options, ("dropout",), "mae+huber")}
    assert list(space) == [choice.name for choice in SPACE if choice.name != "dropout"]
    assert (space["lr"].low, space["lr"].high, space["lr"].log) == (3e-4, 0.05, True)
    assert space["batch_size"].values == (16, 32, 64, 128, 7)
    assert (space["num_layers"].low, space["num_layers"].high) == (1, 8)
    assert space["loss"].values == ("mae", "mse", "huber", "mae+huber")
    graphs = {choice.name for choice in search_space(GraphsOptions(), (), "")}
    assert graphs == {c.name for c in SPACE} - {"context_radius", "loss"}
    every = [choice.name for choice in SPACE if choice.name != "loss"]
    with pytest.raises(InputError, match="all settings that could be searched are given"):
        smpgnn.tune("graphs", rings(), quiet=True, **dict.fromkeys(every, 1) | {
            "readout": "mean", "dropout": 0.0, "lr": 0.1,
        })  # fmt: skip


def test_bad_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="tune: task must be 'molecules' or 'graphs', not 'zinc'"):
        smpgnn.tune("zinc")
    with pytest.raises(InputError, match="a trial uses one device"):
        search(tmp_path, devices=2)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(InputError, match="already contains a run"):
        search(tmp_path)
    (tmp_path / "tune").mkdir()
    for text in ("{not a journal}\n", "smiles,size\nC,1\n", "{}\n", "7"):
        (tmp_path / "tune" / "study.log").write_text(text)
        with pytest.raises(InputError, match=r"study.log: is not a journal of a search: restore"):
            search(tmp_path / "tune")
        assert (tmp_path / "tune" / "study.log").read_text() == text
    with pytest.raises(InputError, match=r"is not a journal of a search"):
        search(tmp_path / "tune", storage=str(tmp_path))
    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna" else usual(name)
    )
    with pytest.raises(InputError, match=r"needs Optuna: pip install 'smpgnn\[tune\]'"):
        search(tmp_path / "tune")


def command(trials: int, epochs: int) -> list[str]:
    return (
        "tune molecules data.csv --targets size --hidden-channels 8 --num-layers 1 --device cpu "
        f"--logger none --split-column part --output tune --trials {trials} --epochs {epochs}"
    ).split()


def begun(folder: Path, trials: int, epochs: int) -> subprocess.Popen[str]:
    table().to_csv(folder / "data.csv", index=False)
    return subprocess.Popen(
        [sys.executable, "-m", "smpgnn", *command(trials, epochs)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL],
    ids=["ctrl-c", "kill"],
)
def test_a_killed_search_continues(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = begun(tmp_path, trials=1, epochs=60)
    metrics, end = tmp_path / "tune" / "trials" / "0000" / "metrics.csv", time.monotonic() + 90
    while not metrics.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert err.endswith("interrupted; the same command goes on with the search in tune\n")
        assert "Traceback" not in err
    monkeypatch.chdir(tmp_path)
    assert run(command(trials=1, epochs=60)) == 0
    trials = pd.read_csv("tune/trials.csv")
    assert trials["state"].tolist() == ["fail", "complete"]
    same = trials[[choice.name for choice in SPACE if choice.name in trials]]
    assert same.nunique().eq(1).all()  # the killed trial is repeated
    assert [path.name for path in Path("tune/trials").iterdir()] == ["0001"]
    assert Path("tune/best.yaml").exists()


@pytest.mark.slow
def test_processes_share_a_search(tmp_path: Path) -> None:
    both = [begun(tmp_path, trials=3, epochs=3) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, (out, err)
    trials = pd.read_csv(tmp_path / "tune" / "trials.csv")
    assert 3 <= len(trials) <= 4  # two may begin the last one at once
    assert set(trials["state"]) == {"complete"}
    assert not trials.drop(columns=["trial", "seconds"]).duplicated().any()
    assert os.listdir(tmp_path / "tune" / "trials")
