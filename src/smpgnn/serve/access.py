"""Who may use the server: browsers under its own names and from its own page, with the token.

A page of another origin must not use the server through the browser of its user. Such a page can
send requests here but cannot read the answers, since no answer allows it (CORS). It can also give
its own host name our address (DNS rebinding): then its requests name that host.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smpgnn.serve.problems import Problem

#: Everything that the page needs comes from here; drawings are data: and downloads are blob:.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class Access:
    """ASGI middleware that refuses other hosts, other origins and wrong tokens.

    Args:
        names: host names under which the server may be reached, besides IP addresses.
        token: of /api; '': none.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str], token: str) -> None:
        self.app, self.token = app, token
        self.names = frozenset(name.casefold().rstrip(".") for name in ("localhost", *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            self._check(scope["path"], Headers(scope=scope))
        except Problem as problem:
            await problem.response()(scope, receive, protected)
            return
        await self.app(scope, receive, protected)

    def _check(self, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self.is_ours(host):
            raise Problem(
                421,
                "this server is not known under the name of the Host header: use its address, or "
                "start it with --allow-host NAME.",
            )
        if not path.startswith("/api/"):
            return  # the same for everybody
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        other = origin is not None and urlsplit(origin).netloc.casefold() != host.casefold()
        if other or site not in ("same-origin", "none"):
            raise Problem(403, "pages of other origins may not use this server: use its own page.")
        if self.token and not self._has_token(headers.get("authorization", "")):
            raise Problem(
                401,
                "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN' with "
                "the token that 'smpgnn serve' was given or has printed.",
                {"WWW-Authenticate": "Bearer"},
            )

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server; an IP address cannot be another's name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name.rstrip(".") in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_token(self, given: str) -> bool:
        kind, _, token = given.partition(" ")
        ours = self.token.encode()
        return kind.casefold() == "bearer" and hmac.compare_digest(token.strip().encode(), ours)
