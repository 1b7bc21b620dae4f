"""Real `smpgnn` processes, on one thread each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

COMMAND = [sys.executable, "-m", "smpgnn"]


def _listen_to_interrupts() -> None:
    """A shell starts background jobs deaf to SIGINT, and their children inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(words: Sequence[str], program: Sequence[str] = COMMAND) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.Popen(
        [*program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "OMP_NUM_THREADS": "1"},
        preexec_fn=_listen_to_interrupts,
    )


def finish(process: subprocess.Popen[str], seconds: float = 240) -> tuple[int, str, str]:
    """Status, output and errors."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the process hangs: {out} {err}") from None
    return process.returncode, out, err


def wait_for_epochs(process: subprocess.Popen[str], folder: Path, epochs: int) -> None:
    """Until metrics.csv has so many epochs."""
    end = time.monotonic() + 240
    file = folder / "metrics.csv"
    while not file.exists() or len(file.read_text().splitlines()) <= epochs:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
