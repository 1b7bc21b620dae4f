"""Ctrl-C, kill and kill -9 in the middle of a real run; then it goes on as if nothing had been."""

from __future__ import annotations

import signal
from pathlib import Path

import torch
from processes import Fork, finish, wait_for_epochs
from safetensors.torch import load_file
from small_runs import CYCLES, lines, record, words

import smpgnn

EPOCHS = 12  # so many that the signal comes well before the end
COSINE = {**CYCLES, "epochs": EPOCHS, "lr": 0.01, "batch_size": 1000}
PLATEAU = {**COSINE, "dropout": 0.5, "schedule": "plateau", "decay_epochs": 1, "batch_rows": 6000}


def stop_after(
    process: Fork, folder: Path, epochs: int, how: signal.Signals
) -> tuple[int, str, str]:
    """Send the signal when so many epochs are done, and wait for the end."""
    wait_for_epochs(process, folder, epochs)
    process.send_signal(how)
    ended = finish(process)
    assert epochs <= len(lines(folder)) < EPOCHS
    return ended


def assert_same_run(folder: Path, whole: Path) -> None:
    assert lines(folder) == lines(whole)
    for name in ("test", "validation", "best_epoch", "epochs"):
        assert record(folder)[name] == record(whole)[name]
    ours, theirs = (load_file(run / "model.safetensors") for run in (folder, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not list(folder.glob(".*"))


def assert_polite(folder: Path, err: str) -> None:
    hint = f"smpgnn: interrupted; continue with: smpgnn train cycles --output {folder} --resume"
    assert err.splitlines()[-1] == hint
    assert "Traceback" not in err
    assert not list(folder.glob(".*"))


def test_a_run_continues_after_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    process = Fork(["train", "cycles", *words(COSINE), "--output", str(folder)])
    status, out, err = stop_after(process, folder, 2, signal.SIGINT)
    assert status == 130
    assert out == ""
    assert_polite(folder, err)
    smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)
    whole = smpgnn.train("cycles", output=str(tmp_path / "whole"), quiet=True, **COSINE)
    assert_same_run(folder, whole.folder)


def test_a_run_continues_after_sigkill_and_sigterm(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    process = Fork(["train", "cycles", *words(PLATEAU), "--output", str(folder)])
    status, _, _ = stop_after(process, folder, 2, signal.SIGKILL)
    assert status == -signal.SIGKILL
    done = len(lines(folder))
    process = Fork(["train", "cycles", "--output", str(folder), "--resume"])
    status, _, err = stop_after(process, folder, done + 1, signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert_polite(folder, err)
    again = smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)
    whole = smpgnn.train("cycles", output=str(tmp_path / "whole"), quiet=True, **PLATEAU)
    assert again.test == whole.test
    assert again.seconds > 0
    assert_same_run(folder, whole.folder)
