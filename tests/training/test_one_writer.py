"""Only one process at a time writes into a run folder, and its claim ends with it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from processes import Fork, finish, wait_for_epochs
from small_runs import CYCLES, lines, record, words

import smpgnn
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder

LONG = {**CYCLES, "epochs": 2000}  # until it is killed
CLAIMED = "another process is training here: wait until it ends, or choose another --output."


def test_a_run_that_is_being_trained_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = Fork(["train", "cycles", *words(LONG), "--output", str(folder)])
    try:
        wait_for_epochs(first, folder, 1)
        with pytest.raises(InputError, match=CLAIMED):
            smpgnn.train("cycles", output=str(folder), resume=True, quiet=True)
        second = Fork(["train", "cycles", "--output", str(folder), "--resume"])
        status, out, err = finish(second)
        assert (status, out, err) == (2, "", f"smpgnn: {folder}: {CLAIMED}\n")
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGKILL)
        finish(first)
    # the claim ended with its process, whatever became of it
    with RunFolder(folder).alone():
        assert lines(folder)


def test_of_two_simultaneous_starts_one_trains(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = ["train", "cycles", *words({**CYCLES, "epochs": 3}), "--output", str(folder)]
    ended = [finish(process) for process in [Fork(command), Fork(command)]]
    assert sorted(status for status, _, _ in ended) == [0, 2]
    for status, out, err in ended:
        assert "Traceback" not in err
        if status == 2:
            assert out == ""
            notes = ("Graphs: ", "Training on ")
            errors = [line for line in err.splitlines() if not line.startswith(notes)]
            assert len(errors) == 1
            assert CLAIMED in errors[0] or "already contains a run" in errors[0]
    assert [line["epoch"] for line in lines(folder)] == [1, 2, 3]
    assert record(folder)["epochs"] == 3


def test_a_start_is_refused_while_another_begins(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.alone():
        with pytest.raises(InputError, match=CLAIMED):
            smpgnn.train("cycles", output=str(folder.path), epochs=1, quiet=True, **CYCLES)
        assert [file.name for file in folder.path.iterdir()] == ["lock"]
    made = smpgnn.train("cycles", output=str(folder.path), epochs=1, quiet=True, **CYCLES)
    assert made.test
    # the claim is given up in the end, after a failure, too, and a folder can be copied or deleted
    with pytest.raises(InputError, match="already contains a run"):
        smpgnn.train("cycles", output=str(folder.path), epochs=1, quiet=True, **CYCLES)
    with folder.alone():
        pass
    shutil.rmtree(folder.path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="file/run: cannot be created"),
        RunFolder(tmp_path / "file/run").alone(),
    ):
        pass
