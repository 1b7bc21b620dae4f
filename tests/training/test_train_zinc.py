"""Training on ZINC, where the data is at hand: a few epochs beat the mean by far."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from smpgnn.config.options import ZincOptions
from smpgnn.data.base import Splits
from smpgnn.data.zinc import zinc_splits
from smpgnn.inference.predict import Model
from smpgnn.training.prepare import assemble
from smpgnn.training.tasks import Regression
from smpgnn.training.train import train_run


@pytest.mark.skipif(not os.environ.get("SMPGNN_DATA"), reason="SMPGNN_DATA is not set")
def test_a_few_epochs_beat_the_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = zinc_splits()
    splits = Splits(
        whole.train.select(torch.arange(512)),
        whole.val.select(torch.arange(64)),
        whole.test.select(torch.arange(256)),
    )
    options = ZincOptions().changed(
        hidden_channels=16, num_layers=2, towers=2, extractor_channels=32, epochs=5,
        batch_size=16, lr=1e-2, device="cpu", output=str(tmp_path / "run"),
    )  # fmt: skip
    task = Regression.fit(("y",), splits.train)
    source = {"kind": "zinc", "smiles_column": "smiles"}
    result = train_run(options, prepared=assemble(options, splits, task, source), quiet=True)
    assert splits.test.y is not None
    mean = (splits.test.y - task.mean[0]).abs().mean().item()
    assert result.test["mae"] < 0.75 * mean
    # the model predicts for SMILES, too
    frame = Model(result.saved, "cpu").predict(["CCO", "[Na+]"])
    assert frame["error"].isna().tolist() == [True, False]
    assert replace(options, output="").task_name() == "zinc"
