"""The process that has the model: one job at a time, each with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from smpgnn.errors import InputError
from smpgnn.serve import Settings
from smpgnn.serve.schema import Description
from smpgnn.signals import without_interrupts


class TooSlow(Exception):
    """A job took longer than the limit; the process was ended."""


class Died(Exception):
    """The process ended during a job, such as for lack of memory."""


class Worker:
    """A process with the model; it is started again when it was ended.

    Jobs of all requests wait in one line. A job whose request is cancelled leaves the line; if it
    runs already, it is finished first, so that the next one reads its own answer.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.trouble = ""  # why the process cannot be started again
        self._turn = asyncio.Lock()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._ours: Connection | None = None

    def start(self) -> Description:
        """Start the process and load the model; raises the `InputError` of loading it."""
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.settings), daemon=True)
        with without_interrupts():  # the process inherits this
            process.start()
        self._process = process
        theirs.close()  # so that the end of the process ends our reading
        try:
            described: Description = self._answer()
            return described
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process; a job that runs raises `Died`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()

    async def run(self, job: str, *arguments: Any) -> Any:
        """The result of a job, a method of `Jobs`."""
        await self._turn.acquire()
        task = asyncio.create_task(asyncio.to_thread(self._ask, job, arguments))
        task.add_done_callback(self._next)
        return await asyncio.shield(task)

    def _next(self, task: asyncio.Task[Any]) -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # the request may be gone

    def _ask(self, job: str, arguments: tuple[Any, ...]) -> Any:
        if self._process is None or not self._process.is_alive():
            try:
                self.start()
            except InputError as error:
                self.trouble = str(error)
                raise Died from error
            self.trouble = ""
        assert self._ours is not None
        try:
            self._ours.send((job, arguments))
            if not self._ours.poll(self.settings.limits.seconds):
                raise TooSlow
            return self._answer()
        except (TooSlow, Died, OSError) as error:
            self.stop()
            if isinstance(error, OSError):
                raise Died from error
            raise

    def _answer(self) -> Any:
        assert self._ours is not None
        try:
            result, refused = self._ours.recv()
        except (EOFError, OSError) as error:
            raise Died from error
        if refused is not None:
            raise InputError(refused)
        return result


def _work(pipe: Connection, settings: Settings) -> None:
    """Answer the jobs that arrive until the server ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        try:
            from smpgnn.serve.jobs import Jobs

            limits = settings.limits
            jobs = Jobs(settings.run, settings.device, settings.level, limits.characters)
            pipe.send((jobs.describe(), None))
        except InputError as error:
            pipe.send((None, str(error)))
            return
        while True:
            job, arguments = pipe.recv()
            answer: tuple[Any, str | None]
            try:
                answer = getattr(jobs, job)(*arguments), None
            except InputError as error:
                answer = None, str(error)
            pipe.send(answer)
    sys.stdout.flush()
    os._exit(0)  # libraries may wait for their threads
