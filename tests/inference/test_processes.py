"""Predicting in several processes: the same results in order, and clean ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from tiny_model import table, tiny_model

from smpgnn.errors import InputError
from smpgnn.inference import predict, processes
from smpgnn.inference.predict import load, predict_table


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


def test_the_number_of_processes_changes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "PIECE_ROWS", 7)
    data, texts, done = table(tmp_path / "in.csv", 60), [], []
    for count in (1, 2):
        out = tmp_path / f"out{count}.csv"
        written = predict_table(
            load(model, "cpu"), data, out, processes=count, progress=done.append
        )
        assert (written.rows, written.failed) == (60, 1)
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert done == 2 * [*range(7, 60, 7), 60]
    assert pd.read_csv(tmp_path / "out2.csv")["row"].tolist() == list(range(60))


def test_on_a_gpu_the_processes_only_featurise(model: Path) -> None:
    made = load(model, "cpu")
    light = processes._without_network(made)
    assert not list(light.network.parameters())
    assert not list(light.saved.network.parameters())
    smiles = ["CCO", "C1CC", "c1ccccc1"]
    ((item, found),) = processes.in_processes(light.featurize, [("a", (smiles, None))], 1)
    assert item == "a"
    frame = made.predict_molecules(found, 3)
    pd.testing.assert_frame_equal(frame, made.predict_smiles(smiles))


def test_short_tables_take_one_process(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(processes, "in_processes", refused)
    monkeypatch.setattr(processes, "suitable_processes", lambda: 4)
    frames = [pd.DataFrame({"smiles": ["CC", "CO"]}) for _ in range(3)]
    made = load(model, "cpu")
    assert len(list(processes.predicted(made, frames, ["smiles"], 0))) == 3
    monkeypatch.setattr(processes, "FEW_ROWS", 3)
    with pytest.raises(AssertionError):
        list(processes.predicted(made, frames, ["smiles"], 0))


def length(given: list[str], table: None) -> int:
    if given == ["die"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if given == ["refuse"]:
        raise InputError("this is refused: give something else.")
    return len(given)


def test_few_pieces_are_read_ahead() -> None:
    read = 0

    def pieces() -> Iterator[tuple[int, tuple[list[str], None]]]:
        nonlocal read
        for read in range(1, 31):
            yield read, (read * ["x"], None)

    for item, found in processes.in_processes(length, pieces(), 2):
        assert item == found
        assert read <= item + 5


def test_a_killed_process_and_an_error_in_one_are_explained() -> None:
    for word, said in (("die", "one of the 2 processes was killed"), ("refuse", "is refused")):
        given = enumerate(([text], None) for text in ("a", word, "b"))
        with pytest.raises(InputError, match=said):
            list(processes.in_processes(length, given, 2))


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_ctrl_c_ends_all_processes(model: Path, tmp_path: Path) -> None:
    data, out = table(tmp_path / "in.csv", 50_000), tmp_path / "out.csv"
    words = ["predict", model, data, "-o", out, "--device", "cpu", "--processes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "smpgnn", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + 120
    while not any(path.stat().st_size > 1000 for path in tmp_path.glob("*out.csv*")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    printed = process.communicate(timeout=60)
    lines = [line for line in printed[1].splitlines() if " per second" not in line]
    assert (process.returncode, printed[0], lines) == (130, "", ["smpgnn: interrupted."])
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    while _session(process.pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def _session(leader: int) -> list[str]:
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(stat.parent.name)
    return found
