"""The application in this process, or `smpgnn serve` in one of its own."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from starlette.testclient import TestClient
from training.processes import Process, finish, start, wait_for

from smpgnn.serve import Settings
from smpgnn.serve.app import create_app
from smpgnn.serve.schema import Description
from smpgnn.serve.worker import Worker

#: A host name under which the application may be reached.
NAME = "chemistry.example"


@dataclass(frozen=True)
class Loaded:
    """A process with a model."""

    worker: Worker
    description: Description

    @contextmanager
    def client(self, **changed: Any) -> Iterator[TestClient]:
        """A client of the application with other settings."""
        settings = replace(self.worker.settings, **changed)
        app, _ = create_app(self.worker, self.description, settings, [NAME])
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            yield client


@contextmanager
def loaded(settings: Settings) -> Iterator[Loaded]:
    """The process with a model, and what the model takes."""
    worker = Worker(settings)
    try:
        yield Loaded(worker, worker.start())
    finally:
        worker.stop()


@dataclass(frozen=True)
class Server:
    """`smpgnn serve` in a process of its own; `log` is what it has printed."""

    process: Process
    url: str
    log: list[str]

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=120, trust_env=False, **options)


@contextmanager
def serving(*words: object) -> Iterator[Server]:
    """`smpgnn serve WORDS` on a free port; at last it must end as asked, without a traceback."""
    process = start(["serve", *words, "--device", "cpu", "--port", 0])
    try:
        yield _announced(process)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            status, _, err = finish(process, 60)
            assert status == 143, err
            assert err.endswith("smpgnn: terminated by the system.\n")
            assert "Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def _announced(process: Process) -> Server:
    lines: list[str] = []

    def listens() -> bool:
        lines.append(process.stdout.readline())
        return lines[-1].startswith("Serving ")

    wait_for(process, listens, 120)
    found = re.search(r" at (http://[^\s/#]+)", lines[-1])
    assert found is not None, lines
    return Server(process, found[1], lines)
