"""The comparison with chemprop: both tools have the same rows, and records give the scores."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("rdkit")
pytestmark = pytest.mark.skipif("SMPGNN_DATA" not in os.environ, reason="SMPGNN_DATA is not set")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "accuracy", raising=False)
    import accuracy

    monkeypatch.setattr(accuracy, "RECORDS", tmp_path)
    return accuracy


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
