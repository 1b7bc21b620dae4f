"""SIGTERM inside a command: it is raised until the command ends, and never in the cleanup."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from smpgnn.cli.interrupts import raising
from smpgnn.errors import Terminated


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(command: Callable[[], None]) -> bool:
    """Whether a command that was sent SIGTERM is ended by it."""
    try:
        with raising():
            command()
    except Terminated:
        return True
    return False


def test_what_a_library_swallows_is_raised_again() -> None:
    def command() -> None:
        with contextlib.suppress(BaseException):  # as some libraries do
            signal.raise_signal(signal.SIGTERM)
        time.sleep(30)

    start = time.monotonic()
    assert ended(command)
    assert time.monotonic() - start < 20


def test_the_cleanup_is_not_interrupted() -> None:
    cleaned = []

    def command() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            try:
                raise FileNotFoundError
            except FileNotFoundError:
                signal.raise_signal(signal.SIGTERM)
            time.sleep(1.5)
            cleaned.append(True)

    assert ended(command)
    assert cleaned


def test_nothing_is_raised_after_the_command() -> None:
    assert ended(lambda: signal.raise_signal(signal.SIGTERM))
    time.sleep(1.5)


class Interrupted:
    """Is interrupted where Python cannot raise."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def interrupted_command(seconds: float) -> None:
    with raising():
        Interrupted()
        time.sleep(seconds)


def test_an_interrupt_that_could_not_be_raised_comes_again_but_not_after_the_command() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_command(5)
    interrupted_command(0)
    time.sleep(0.2)
