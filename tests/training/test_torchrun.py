"""Two processes that torchrun starts, killed and resumed, end as undisturbed ones."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
import yaml
from processes import finish, start, wait_for_epochs
from safetensors.torch import load_file
from small_runs import CYCLES, lines, record
from test_several_processes import children

TORCHRUN = shutil.which("torchrun", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TORCHRUN is None, reason="torchrun is not beside this Python"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc"),
]


def torchrun(config: Path, folder: Path, *more: str) -> list[object]:
    """The words of a training of two processes on this machine."""
    assert TORCHRUN is not None
    words = ["--standalone", "--nproc-per-node=2", "-m", "smpgnn", "train", "cycles"]
    return [TORCHRUN, *words, "--config", config, "--devices", "2", "--output", folder, *more]


def test_one_is_killed_and_then_both(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    options = {**CYCLES, "train_samples": 85, "batch_size": 21, "lr": 0.01, "epochs": 30}
    config.write_text(yaml.safe_dump({**options, "norm": "batch"}))
    folder, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"

    process = start([], list(map(str, torchrun(config, folder))))
    wait_for_epochs(process, folder, 4)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    assert finish(process)[0] != 0
    after_one = len(lines(folder))

    process = start([], list(map(str, torchrun(config, folder, "--resume"))))
    wait_for_epochs(process, folder, after_one + 4)
    for one in children(process.pid):
        os.kill(one, signal.SIGKILL)
    assert finish(process)[0] != 0
    after_both = len(lines(folder))
    assert 4 <= after_one < after_both < 30

    status, _, err = finish(start([], list(map(str, torchrun(config, folder, "--resume")))))
    assert status == 0, err
    status, _, err = finish(start([], list(map(str, torchrun(config, undisturbed)))))
    assert status == 0, err
    assert len(lines(folder)) == 30
    ours, theirs = (load_file(one / "model.safetensors") for one in (folder, undisturbed))
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0)
    assert record(folder)["test"] == record(undisturbed)["test"]
