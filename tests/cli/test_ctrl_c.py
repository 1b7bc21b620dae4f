"""Ctrl-C at any moment: one line, status 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import smpgnn

VERBS = {
    "train": "train cycles --output {} --device cpu",
    "predict": "predict {} data.csv -o out.csv",
    "info": "info cycles",
    "theory": "paper theory mpnn",
}


@pytest.mark.skipif(not Path("/proc").exists(), reason="libraries are found in /proc")
@pytest.mark.parametrize("verb", VERBS)
def test_while_torch_is_loaded(verb: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "smpgnn", *VERBS[verb].format(tmp_path / "run").split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + 60
    while "libtorch_cpu" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "smpgnn: interrupted.\n")
    assert not (tmp_path / "run").exists()


#: Ctrl-C inside a command, and what libraries may make of it.
HOW = {
    "as it is": "press()",
    "turned into another error": """
try:
    press()
except KeyboardInterrupt:
    raise ImportError("numpy.core.multiarray failed to import") from None
""",
    "swallowed": """
class Swallows:
    def __del__(self):
        press()

Swallows()
time.sleep(20)
""",
}
PROGRAM = """
import os, signal, sys, time
from smpgnn.cli import info
from smpgnn.cli.main import main

def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)

def interrupted(*_):
    exec({how!r}, {{"press": press, "time": time}})
    return 0

info.info = interrupted
sys.argv = ["smpgnn", "info", "models"]
main()
"""


@pytest.mark.parametrize("how", HOW)
def test_whatever_becomes_of_it(how: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(how=HOW[how])],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (found.returncode, found.stderr) == (130, "smpgnn: interrupted.\n")


def test_errors_of_the_machine_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from smpgnn.cli import info

    def failing(make: Callable[[], object]) -> str:
        monkeypatch.setattr(info, "info", lambda *_: make())
        found = smpgnn("info", "models")
        assert found.status == 2
        assert found.err.count("\n") == 1
        return found.err

    assert "out of memory" in failing(lambda: torch.zeros(10**15))
    assert "out of memory" in failing(lambda: bytearray(10**15))
    assert failing(lambda: os.stat("/none")) == "smpgnn: /none: No such file or directory.\n"
