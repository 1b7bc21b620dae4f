"""`smpgnn` in processes of its own, to be killed, interrupted or run side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import smpgnn.training.train  # noqa: F401  # what a fork need not import
from smpgnn.training import side_by_side

Process = Any  # a Fork or a subprocess.Popen


def fork_workers(replace: Callable[[object, str, Any], None] = setattr) -> None:
    """Fork the trainings that run side by side: they need not import torch again.

    `replace` makes the change; `monkeypatch.setattr` also takes it back.
    """
    replace(side_by_side, "get_context", lambda method: multiprocessing.get_context("fork"))


class Fork:
    """`smpgnn WORDS` in a fork of this process, which has imported torch already.

    Args:
        words: the command line.
        environment: more environment variables.
        ignored: a signal that is ignored from the start, as by nohup.
        first: called in the fork before the command.
        last: called in the fork after the command.
    """

    def __init__(
        self,
        words: Sequence[object],
        environment: dict[str, str] | None = None,
        ignored: signal.Signals | None = None,
        first: Callable[[], None] = lambda: None,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        self.returncode: int | None = None
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        self._printed: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forking where there are threads
            self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(environment or {})
            first()
            self._run(list(map(str, words)), ignored, last)

    def _run(
        self, words: list[str], ignored: signal.Signals | None, last: Callable[[], None]
    ) -> NoReturn:
        import smpgnn.__main__ as program

        status: Any = 1
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if ignored is not None:
                signal.signal(ignored, signal.SIG_IGN)
            for number, file in enumerate(self._files, 1):
                os.dup2(file.fileno(), number)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            for name in [name for name in os.environ if "PYTEST" in name]:
                del os.environ[name]
            warnings.simplefilter("ignore")
            # what Lightning starts again for a second process
            sys.modules["__main__"], sys.argv = program, ["smpgnn", *words]
            program.main()
        except SystemExit as stop:
            status = stop.code
            last()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; what was printed."""
        end = time.monotonic() + (240 if timeout is None else timeout)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("smpgnn", timeout or 240)
            time.sleep(0.01)
        for file in self._files:
            with file:
                file.seek(0)
                self._printed.append(file.read())
        self._files = []
        out, err = self._printed
        return out, err


def _listen_to_interrupts() -> None:
    """A shell starts background jobs deaf to SIGINT, and their children inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(
    words: Sequence[object], program: Sequence[str] = (sys.executable, "-m", "smpgnn")
) -> subprocess.Popen[str]:
    """A process of Python from its first import on; `Fork` takes a fraction of the time."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.Popen(
        [*program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "OMP_NUM_THREADS": "1"},
        preexec_fn=_listen_to_interrupts,
    )


def finish(process: Process, seconds: float = 240) -> tuple[int, str, str]:
    """Status, output and errors."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the process hangs: {out} {err}") from None
    return process.returncode, out, err


def wait_for(process: Process, found: Any, seconds: float = 240) -> None:
    """Until `found()` is true; the process must not end before."""
    end = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_epochs(process: Process, folder: Path, epochs: int) -> None:
    """Until metrics.csv has so many epochs."""
    file = folder / "metrics.csv"
    wait_for(process, lambda: file.exists() and len(file.read_text().splitlines()) > epochs)
