"""Listen on an address until a signal ends the server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import uvicorn

from smpgnn.errors import InputError, quoted
from smpgnn.serve import Settings
from smpgnn.serve.app import create_app
from smpgnn.serve.gate import Gate
from smpgnn.serve.schema import Description
from smpgnn.serve.worker import Died, Worker

#: Connections at a time; further ones are refused.
_CONNECTIONS = 1_000
#: Seconds for requests to finish after a signal.
_GRACE = 3


def serve(settings: Settings) -> None:
    """Serve until a signal; bad input raises `InputError` before anything listens."""
    with _listening(settings.host, settings.port) as address:
        if not settings.token and not _is_local(address):
            settings = replace(settings, token=secrets.token_urlsafe(24))
        worker = Worker(settings)
        try:
            model = worker.start()
        except Died as error:
            raise InputError(
                f"{settings.run}: the process that loads the model ended: see the message above, "
                "or free some memory."
            ) from error
        try:
            asyncio.run(_serve(worker, model, settings, address))
        finally:
            worker.stop()


async def _serve(
    worker: Worker, model: Description, settings: Settings, address: socket.socket
) -> None:
    names = [settings.host, socket.gethostname(), *settings.names]
    app, gate = create_app(worker, model, settings, names)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=2 * _GRACE,
    )
    server = _Server(config, gate, lambda: _announce(model, settings, address))
    with _hangup_ends(server):
        # ends on SIGINT and SIGTERM, then raises the signal again for the command line
        await server.serve(sockets=[address])


class _Server(uvicorn.Server):
    """Says when it listens; at its end, gives requests `_GRACE` seconds."""

    def __init__(self, config: uvicorn.Config, gate: Gate, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._gate, self._announce = gate, announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(_GRACE, self._gate.end)
        await super().shutdown(sockets)


@contextlib.contextmanager
def _hangup_ends(server: uvicorn.Server) -> Iterator[None]:
    """SIGHUP is handled like SIGTERM, unless it is ignored (as by nohup)."""
    number = getattr(signal, "SIGHUP", None)  # Windows has none
    before = None if number is None else signal.getsignal(number)
    if number is None or before == signal.SIG_IGN:
        yield
        return
    signal.signal(number, lambda *_: server.handle_exit(signal.SIGTERM, None))
    try:
        yield
    finally:
        signal.signal(number, before)


def _announce(model: Description, settings: Settings, address: socket.socket) -> None:
    host, port = address.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    end = f"/#token={settings.token}" if settings.token else ""
    for note in model.notes:
        print(note)
    print(f"Serving {model.run} at http://{shown}:{port}{end} (Ctrl-C to stop)", flush=True)


def _listening(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before the model is loaded."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host {quoted(host)}: is not an address of this machine: use 127.0.0.1 for this "
            "machine only, or 0.0.0.0 for all its networks."
        ) from error
    found = socket.socket(kind, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_REUSEPORT"):  # Windows would share the port with other servers
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise InputError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror or error}): choose "
            "another port, or --port 0 for any free one."
        ) from error
    return found


def _is_local(address: socket.socket) -> bool:
    """Whether only this machine can reach the address."""
    return ipaddress.ip_address(address.getsockname()[0]).is_loopback
