"""Commands that are ended from outside: no partial file stays, and the status says how."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from training.processes import Fork, Process, finish, wait_for


def begun(process: Process, folder: Path) -> None:
    """Until the output is being written."""
    wait_for(process, lambda: list(folder.glob(".out.csv.*.part")))


def words(verb: str, folder: Path, rows: int) -> list[str]:
    """A command line on a table of so many rows, whose output exists already."""
    (folder / "in.csv").write_text("smiles\n" + "CCCCCCCCCCCCCCCCCCCCO\n" * rows)
    (folder / "out.csv").write_text("old\n")
    paths = [str(folder / "in.csv"), "-o", str(folder / "out.csv")]
    return [verb, "zinc", *paths, "--device", "cpu"]


@pytest.mark.parametrize(
    ("verb", "how", "status", "sentence"),
    [
        ("predict", signal.SIGTERM, 143, "smpgnn: terminated by the system.\n"),
        ("predict", signal.SIGHUP, 143, "smpgnn: terminated by the system.\n"),
        ("predict", signal.SIGINT, 130, "smpgnn: interrupted.\n"),
        ("explain", signal.SIGTERM, 143, "smpgnn: terminated by the system.\n"),
    ],
)
def test_a_signal_leaves_no_partial_file(
    tmp_path: Path, verb: str, how: signal.Signals, status: int, sentence: str
) -> None:
    process = Fork(words(verb, tmp_path, 20_000))
    try:
        begun(process, tmp_path)
        process.send_signal(how)
        found, out, err = finish(process, 60)
    finally:
        process.kill()
    assert (found, out) == (status, "")
    assert err.endswith(sentence)
    assert "Traceback" not in err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old\n"


def test_nohup_still_works(tmp_path: Path) -> None:
    process = Fork(words("predict", tmp_path, 200), ignored=signal.SIGHUP)
    try:
        begun(process, tmp_path)
        process.send_signal(signal.SIGHUP)
        assert finish(process)[0] == 0
    finally:
        process.kill()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 201
