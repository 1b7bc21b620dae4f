"""The comparisons of models and of settings on tables: equal rows, and scores from records."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("rdkit")
pytestmark = pytest.mark.skipif("SMPGNN_DATA" not in os.environ, reason="SMPGNN_DATA is not set")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return script("accuracy", monkeypatch, tmp_path)


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return script("choices", monkeypatch, tmp_path)


def script(name: str, monkeypatch: pytest.MonkeyPatch, records: Path) -> Any:
    """A script of the benchmarks as a module, with records in another folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    for known in (name, "molecule_runs"):
        monkeypatch.delitem(sys.modules, known, raising=False)
    module = importlib.import_module(name)
    monkeypatch.setattr(module, "RECORDS", records)
    return module


def test_scores_of_records(accuracy: Any) -> None:
    random = np.random.default_rng(0)
    for name in ("bace", "esol"):
        about = accuracy.DATASETS[name]
        for split in ("random-0", "random-1"):
            frame = accuracy.split_table(name, split)
            real = frame[frame["split"] == "test"][about.target].to_numpy(float)
            for tool, noise in (("smpgnn", 0.5), ("chemprop", 2.0)):
                for member in range(accuracy.MEMBERS):
                    said = real + random.normal(0, noise, len(real))
                    record = accuracy.Job(name, split, tool, member).record
                    record.parent.mkdir(parents=True, exist_ok=True)
                    content = {"test": about.score(real, said), "predictions": said.tolist()}
                    record.write_text(json.dumps(content))
    rows = accuracy.compared(["chemprop"])
    assert len(rows) == 4  # two tables, single models and ensembles
    for row in rows:
        better = (
            row["ours"] > row["theirs"] if row["metric"] == "auc" else row["ours"] < row["theirs"]
        )
        assert better
        assert row["ahead in"] == 2
    single, mean = (row["ours"] for row in rows if row["table"] == "esol")
    assert single == pytest.approx(0.5, rel=0.15)
    assert mean == pytest.approx(0.5 / np.sqrt(accuracy.MEMBERS), rel=0.2)


def test_a_molecule_is_on_one_side_and_scaffolds_are_new(accuracy: Any) -> None:
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    frame = accuracy.split_table("esol", "scaffold-1")
    assert set(frame["split"]) == {"train", "val", "test"}
    scaffolds = frame["smiles"].map(MurckoScaffoldSmiles)
    train = set(scaffolds[frame["split"] == "train"])
    assert not train & set(scaffolds[frame["split"] == "test"])
    assert not accuracy.split_table("esol", "scaffold-0").equals(frame)


def test_auc_is_that_of_scikit_learn(accuracy: Any) -> None:
    real, said = np.array([0.0, 1, 1, 0]), np.array([0.2, 0.9, 0.1, 0.3])
    assert accuracy.DATASETS["bace"].score(real, said) == roc_auc_score(real, said)


def test_choices_never_see_test_rows(choices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    @contextmanager
    def our_run(frame: pd.DataFrame, *words: Any) -> Iterator[Any]:
        given.append((frame, words))
        found = dict.fromkeys(choices.KEPT) | {"validation": {"rmse": 0.5}}
        yield SimpleNamespace(read_record=lambda: found)

    monkeypatch.setattr(choices, "our_run", our_run)
    job = choices.Job("esol", "scaffold-1", "huber")
    assert choices.run(job, ["--epochs=3"]) == "0.5000"
    frame, (_, seed, *options) = given[0]
    whole = choices.split_table("esol", "scaffold-1")
    assert set(frame["split"]) == {"train", "val"}
    assert len(frame) == (whole["split"] != "test").sum()
    assert (seed, options) == (0, ["--loss", "huber", "--epochs=3"])
    assert json.loads(job.record.read_text())["options"] == options


def test_choices_are_compared_with_the_defaults(choices: Any) -> None:
    values = {"default": (0.6, 0.6), "huber": (0.5, 0.6), "dropout": (0.7,)}
    for variant, found in values.items():
        for seed, value in enumerate(found):
            record = choices.Job("esol", f"random-{seed}", variant).record
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps({"validation": {"rmse": value}}))
    rows = {row["variant"]: row for row in choices.compared()}
    assert list(rows) == ["default", "huber", "dropout"]
    assert rows["huber"]["validation"] == pytest.approx(0.55)
    assert [row["better in"] for row in rows.values()] == ["", "1 of 2", "0 of 1"]
    wanted = list(choices.jobs(choices.VARIANTS, ["bace"], ["random-0"]))
    assert not any("huber" in job.variant for job in wanted)  # classes have one loss only


@pytest.mark.slow
def test_a_run_of_a_choice_leaves_a_record(choices: Any) -> None:
    job = choices.Job("esol", "random-0", "default")
    choices.run(job, ["--epochs=1", "--device=cpu"])
    record = json.loads(job.record.read_text())
    assert record["validation"]["rmse"] > 0
    assert record["epochs"] == 1
