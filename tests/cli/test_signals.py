"""Commands that are ended from outside: nothing half-written stays, and the status says how."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 120.0


def begun(folder: Path, process: subprocess.Popen[str]) -> bool:
    """Whether the output is being written now."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if list(folder.glob(".out.csv.*.part")):
            return True
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("verb", "how", "status", "sentence"),
    [
        ("predict", signal.SIGTERM, 143, "smpgnn: terminated by the system.\n"),
        ("predict", signal.SIGHUP, 143, "smpgnn: terminated by the system.\n"),
        ("predict", signal.SIGINT, 130, "smpgnn: interrupted.\n"),
        ("explain", signal.SIGTERM, 143, "smpgnn: terminated by the system.\n"),
    ],
)
def test_a_signal_leaves_no_half_written_file(
    tmp_path: Path, verb: str, how: signal.Signals, status: int, sentence: str
) -> None:
    (tmp_path / "in.csv").write_text("smiles\n" + "CCCCCCCCCCCCCCCCCCCCO\n" * 20_000)
    (tmp_path / "out.csv").write_text("old\n")
    words = [verb, "zinc", str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv")]
    process = subprocess.Popen(
        [sys.executable, "-m", "smpgnn", *words, "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert begun(tmp_path, process)
        process.send_signal(how)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, out) == (status, "")
    assert err.endswith(sentence)
    assert "Traceback" not in err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old\n"


def test_nohup_still_works(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles\n" + "CCCCCCCCCCCCCCCCCCCCO\n" * 500)
    words = ["predict", "zinc", str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv")]
    process = subprocess.Popen(
        [sys.executable, "-m", "smpgnn", *words, "--device", "cpu"],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    try:
        assert begun(tmp_path, process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 501
