"""Members in separate processes: interrupted, resumed, equal to those trained one by one."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from processes import Fork, finish, fork_workers, wait_for_epochs
from safetensors.torch import load_file
from small_members import SMALL, begin, molecules, run
from small_runs import lines, words

import smpgnn
from smpgnn.errors import InputError

NAMES = ("fold1", "fold2", "fold3")


def results(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "run.json").read_text())
    kept: dict[str, Any] = {name: found[name] for name in ("test", "test_sd", "calibration")}
    return kept


@pytest.mark.slow
def test_a_run_continues_after_ctrl_c_with_the_same_results(tmp_path: Path) -> None:
    options = {**SMALL, "epochs": 12, "folds": 3}
    data = tmp_path / "data.csv"
    molecules().to_csv(data, index=False)
    folder = tmp_path / "half"
    command = ["train", "molecules", str(data), "--targets", "size", *words(options)]
    process = Fork([*command, "--output", str(folder), "--jobs", "2"])
    wait_for_epochs(process, folder / "members" / "fold2", 2)
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert status == 130
    assert out == ""
    again = f"smpgnn train molecules --output {folder} --resume"
    assert err.splitlines()[-1] == f"smpgnn: interrupted; continue with: {again}"
    assert "fold1: starts" in err
    assert not (folder / "run.json").exists()
    with pytest.raises(InputError, match="of 3 members are not trained to the end"):
        smpgnn.load(folder)

    resumed = smpgnn.train("molecules", output=str(folder), resume=True, jobs=3, quiet=True)
    whole = run(tmp_path / "whole", pd.read_csv(data), targets=["size"], epochs=12, folds=3)
    assert resumed.test == whole.test
    assert results(folder) == results(whole.folder)
    for name in NAMES:
        ours, theirs = (one / "members" / name for one in (folder, whole.folder))
        assert lines(ours) == lines(theirs)
        first, second = (load_file(one / "model.safetensors") for one in (ours, theirs))
        assert all(torch.equal(first[key], second[key]) for key in first)
    assert not list(folder.rglob(".*"))


def test_a_member_that_fails_is_named_and_trained_again_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, folder = molecules(), tmp_path / "run"
    begin(folder, frame, targets=["size"], ensemble=2)
    broken = folder / "members" / "member2"
    before = load_file(broken / "model.safetensors")
    (broken / "run.json").unlink()
    (broken / "last.ckpt").write_bytes(b"no checkpoint")
    resume: dict[str, Any] = {"data": frame, "output": str(folder), "resume": True, "quiet": True}
    with monkeypatch.context() as forked:
        fork_workers(forked.setattr)
        with pytest.raises(InputError) as refused:
            smpgnn.train("molecules", **resume)
    text = str(refused.value)
    assert f"{folder}: 1 of 2 members failed; member2: " in text
    assert "last.ckpt: is damaged" in text
    assert not (folder / "run.json").exists()
    shutil.rmtree(broken)
    assert len(smpgnn.train("molecules", **resume).test) == 6
    after = load_file(broken / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
