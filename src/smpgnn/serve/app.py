"""The application: its page, its JSON interface and the documentation of that."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from smpgnn import __version__
from smpgnn.errors import one_sentence
from smpgnn.serve import EXPLAINED, Settings
from smpgnn.serve.access import Access
from smpgnn.serve.gate import Gate
from smpgnn.serve.problems import Problem
from smpgnn.serve.schema import (
    Description,
    Error,
    Explain,
    Explanations,
    Graphs,
    Health,
    Molecules,
    Predictions,
    RequestLimits,
    Served,
)
from smpgnn.serve.service import Service
from smpgnn.serve.worker import Worker

_TEXT = """Predictions of a trained model. Errors are JSON, too: `{"error": "…"}`. Where the server
listens beyond localhost, requests to `/api` need the header `Authorization: Bearer TOKEN`."""
_REFUSED = {
    400: "The body is not JSON, or not a table.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another origin.",
    408: "The body did not arrive within the time limit.",
    413: "The body is too large, or has too many molecules.",
    415: "The body is of another type.",
    421: "The Host header names another server.",
    422: "The body is JSON or a table, but what it contains is wrong.",
    500: "The process with the model ended; it is started again.",
    503: "The server is busy: try again after the seconds of Retry-After.",
    504: "The answer took longer than the time limit.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": text} for status, text in _REFUSED.items()
}
_READ = ("GET", "HEAD")


def create_app(
    worker: Worker, model: Description, settings: Settings, names: list[str]
) -> tuple[Access, Gate]:
    """The application for a model that `worker` has, and its gate.

    `names` are the host names of the server.
    """
    service = Service(worker, model, settings.limits)
    api = FastAPI(
        title="smpgnn serve", version=__version__, description=_TEXT, docs_url=None, redoc_url=None
    )
    gate = Gate(api, settings.limits)
    _add_pages(api, gate, worker)
    _add_model(api, model, settings)
    if model.molecules:
        _add_molecules(api, service)
    else:
        _add_graphs(api, service)
    api.add_exception_handler(Problem, _refused)
    api.add_exception_handler(HTTPException, _unknown)
    api.add_exception_handler(Exception, _failed)
    return Access(gate, names, settings.token), gate


def _add_pages(api: FastAPI, gate: Gate, worker: Worker) -> None:
    templates = _templates()
    page = templates.get_template("page.html").render()

    @api.api_route("/", methods=[*_READ], include_in_schema=False)
    async def show() -> HTMLResponse:
        return HTMLResponse(page)

    @api.api_route("/docs", methods=[*_READ], include_in_schema=False)
    async def document() -> HTMLResponse:
        return HTMLResponse(templates.get_template("docs.html").render(schema=api.openapi()))

    @api.get(
        "/health",
        summary="Whether the server can answer",
        response_model=Health,
        responses={503: {"model": Error, "description": "The model cannot be loaded any more."}},
    )
    async def health() -> Health:
        """Needs no token."""
        if worker.trouble:
            raise Problem(503, worker.trouble)
        return Health(status="ok", requests=gate.requests)

    api.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")


def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("smpgnn.serve"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {"code": _with_code, "plain": json.dumps}
    return found


def _with_code(text: str) -> Markup:
    """A text in which backquotes mark code, as HTML."""
    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))


def _add_model(api: FastAPI, model: Description, settings: Settings) -> None:
    limits = settings.limits
    allowed = RequestLimits(
        molecules=limits.molecules,
        explained=min(EXPLAINED, limits.molecules),
        characters=limits.characters,
        bytes=limits.bytes,
        seconds=limits.seconds,
    )
    served = Served(**model.model_dump(), limits=allowed, version=__version__)

    @api.get("/api/model", summary="The model and the limits", responses=_only(401, 403, 421))
    async def describe() -> Served:
        """What the model takes and gives, and the limits of requests."""
        return served


def _add_molecules(api: FastAPI, service: Service) -> None:
    @api.post(
        "/api/predict",
        summary="Predict for molecules",
        response_model=Predictions,
        responses={200: {"content": {"text/csv": {}}}, **_ERRORS},
        openapi_extra=_body({"application/json": Molecules, "text/csv": None}),
    )
    async def predict(request: Request, smiles_column: str = "") -> Response:
        """Takes a list of SMILES as JSON, or a table as CSV.

        The answer has a row per molecule, in order. It is JSON, or CSV if the request has the
        header `Accept: text/csv`. `smiles_column` names the column of a CSV; default: as in
        training.
        """
        if _type(request, "application/json", "text/csv") == "text/csv":
            found = await service.table(await request.body(), smiles_column)
        else:
            found = await service.molecules(await request.body())
        return _shown(found, request)

    @api.post(
        "/api/explain",
        summary="Explain a prediction by the atoms",
        response_model=Explanations,
        responses=_ERRORS,
        openapi_extra=_body({"application/json": Explain}),
    )
    async def explain(request: Request) -> Response:
        """Takes a few SMILES and gives each atom's contribution to a score, and a drawing."""
        _type(request, "application/json")
        return JSONResponse((await service.explain(await request.body())).model_dump())


def _add_graphs(api: FastAPI, service: Service) -> None:
    @api.post(
        "/api/predict",
        summary="Predict for graphs",
        response_model=Predictions,
        responses={200: {"content": {"text/csv": {}}}, **_ERRORS},
        openapi_extra=_body({"application/json": Graphs}),
    )
    async def predict(request: Request) -> Response:
        """Takes graphs as node-link JSON.

        The answer has a row per graph, or per node if the model predicts for nodes. It is JSON, or
        CSV if the request has the header `Accept: text/csv`.
        """
        _type(request, "application/json")
        return _shown(await service.graphs(await request.body()), request)


def _only(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _ERRORS[status] for status in statuses}


def _body(kinds: dict[str, type[BaseModel] | None]) -> dict[str, Any]:
    """The request body in the OpenAPI document; None stands for text."""
    content = {
        name: {"schema": {"type": "string"} if kind is None else kind.model_json_schema()}
        for name, kind in kinds.items()
    }
    return {"requestBody": {"required": True, "content": content}}


def _type(request: Request, *allowed: str) -> str:
    """The type of the body, which must be one of these."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if found not in allowed:
        text = " or ".join(f"'Content-Type: {name}'" for name in allowed)
        raise Problem(415, f"the type of the body is not known: send the header {text}.")
    return found


def _shown(found: Predictions, request: Request) -> Response:
    """Predictions as JSON or CSV, as the request asks."""
    if "text/csv" not in request.headers.get("accept", "").casefold():
        return JSONResponse(found.model_dump())
    text = io.StringIO()
    writer = csv.DictWriter(text, found.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.rows)
    return Response(text.getvalue(), media_type="text/csv")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path}: {error.detail} (see /docs)."
    return JSONResponse({"error": one_sentence(text)}, error.status_code, error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    return Problem(500, "an error inside the server: its log has more.").response()
