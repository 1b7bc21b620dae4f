"""How much, how long and how many requests at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smpgnn.serve import Limits
from smpgnn.serve.problems import Problem, busy, too_slow

#: Of a body that is too large, so many times the limit are read, so that the client reads our
#: answer; then the connection is closed.
_PATIENCE = 16
#: Requests that take turns at the model; others wait in line, so that the first ones are finished.
_TURNS = 8


class Gone(Exception):
    """The client has closed the connection."""


class Gate:
    """ASGI middleware that bounds the memory and time of requests with a body.

    A request takes its place before its body is read, so at most `limits.requests` bodies are in
    memory. It loses it when it is answered, at the time limit, or when the client is gone. The
    first ones take turns at the model, the others wait in line.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.requests = 0
        self._turns = asyncio.Semaphore(_TURNS)
        self._ended = False
        self._deadlines: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """Refuse all requests from now on, also those that are not answered yet."""
        self._ended = True
        for deadline in [one for one in self._deadlines if not one.expired()]:
            deadline.reschedule(asyncio.get_running_loop().time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        if self.requests >= self.limits.requests or self._ended:
            await busy().response()(scope, receive, send)
            return
        self.requests += 1
        try:
            await self._answer(scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)
        except Gone:
            pass
        finally:
            self.requests -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, started, body = False, False, None

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal begun
            async with self._turns:
                begun = True
                await self.app(scope, receive, send)

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(self.limits.seconds) as deadline:
                self._deadlines.add(deadline)
                try:
                    body = await self._body(Headers(scope=scope), receive)
                    await _until_gone(in_turn, scope, body, receive, noted)
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError:
            if started:
                return  # closes the connection of a client that does not read
            if self._ended:
                raise busy() from None
            if body is None:
                raise self._too_late() from None
            if not begun:
                raise busy() from None
            raise too_slow(self.limits.seconds) from None

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self.limits.bytes
        length = headers.get("content-length", "0")
        size = int(length) if length.isdecimal() else 0
        if size > most and ("expect" in headers or size > _PATIENCE * most):
            raise self._too_large()
        parts: list[bytes] = []
        size, more = 0, True
        while more and size <= _PATIENCE * most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size <= most:
                parts.append(part)
            else:
                parts = []
        if size > most:
            raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"the body is larger than {self.limits.bytes:,} bytes: send fewer molecules at a time, "
            "or start the server with a larger --max-body.",
            {"Connection": "close"},
        )

    def _too_late(self) -> Problem:
        return Problem(
            408,
            f"the body did not arrive within {self.limits.seconds} seconds: send it again.",
            {"Connection": "close"},
        )


async def _until_gone(
    app: Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]],
    scope: Scope,
    body: bytes,
    receive: Receive,
    send: Send,
) -> None:
    """Run an app with a body; cancel it if the client goes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        if not messages:
            await asyncio.Event().wait()  # until this is cancelled
        return messages.pop()

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    work, end = asyncio.create_task(app(scope, given, send)), asyncio.create_task(gone())
    try:
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        end.cancel()
        if not work.done():
            work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
