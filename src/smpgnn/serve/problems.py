"""Errors of the JSON interface: a status and one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from smpgnn.errors import one_sentence

#: Seconds after which a refused client may try again.
RETRY_AFTER = 5


class Problem(Exception):
    """A request that is refused.

    Args:
        status: of HTTP.
        text: one sentence that says what is wrong and the remedy.
    """

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, dict(headers or {})

    def response(self) -> JSONResponse:
        return JSONResponse({"error": one_sentence(self.text)}, self.status, self.headers)


def busy() -> Problem:
    """Too many requests at a time."""
    text = "the server is busy: send the request again after some seconds."
    return Problem(503, text, {"Retry-After": str(RETRY_AFTER)})


def too_slow(seconds: int) -> Problem:
    """A request, or one of its molecules, took too long."""
    return Problem(
        504,
        f"the request took longer than {seconds} seconds: send fewer or smaller molecules, or "
        "start the server with a larger --timeout.",
    )
