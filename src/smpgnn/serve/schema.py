"""What the JSON interface takes and gives."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

#: Columns of a table by name, as long as the list of SMILES.
Columns = Annotated[
    dict[str, list[float | None]],
    Field(description="the model's further columns, if it has any: a number per molecule"),
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Molecules(_Request):
    """Molecules to predict for."""

    smiles: list[str] = Field(min_length=1, examples=[["CCO", "c1ccccc1O"]])
    descriptors: Columns = {}


class Graphs(_Request):
    """Graphs to predict for."""

    graphs: list[dict[str, Any]] = Field(
        min_length=1,
        description="node-link JSON of NetworkX, with the attributes that the model was trained on",
        examples=[[{"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}]}]],
    )


class Explain(_Request):
    """Molecules whose atoms are to be explained."""

    smiles: list[str] = Field(min_length=1, examples=[["CCO"]])
    score: str | None = Field(
        default=None, description="one of the model's scores; default: its first"
    )
    descriptors: Columns = {}


class Predictions(BaseModel):
    """A row per molecule, or per graph or node, in order."""

    columns: list[str] = Field(description="of the rows, in order: the input, then `predicted`")
    predicted: list[str] = Field(
        description="the new columns, one for each of the model's `columns`; they have other names "
        "if the input has columns of these names"
    )
    rows: list[dict[str, Any]] = Field(
        description="values by column; `error` says why a row has no prediction, else it is null"
    )


class Atom(BaseModel):
    """An atom, in the order of the SMILES."""

    element: str
    contribution: float


class Explanation(BaseModel):
    """What each atom adds to the score: score = rest + sum of the contributions."""

    smiles: str
    score: float | None = Field(
        default=None, description="the prediction, or the log odds of a class"
    )
    rest: float | None = None
    atoms: list[Atom] = []
    drawing: str | None = Field(default=None, description="SVG: red atoms raise the score")
    error: str | None = Field(default=None, description="why there is no explanation")


class Explanations(BaseModel):
    """An explanation per molecule, in order."""

    score: str = Field(description="what is explained")
    rows: list[Explanation]


class Description(BaseModel):
    """What the model takes and gives."""

    run: str = Field(description="name of the run folder or model")
    molecules: bool = Field(description="whether it takes SMILES; otherwise it takes graphs")
    columns: list[str] = Field(description="of the predictions; the last one is 'error'")
    scores: list[str] = Field(description="what /api/explain can explain")
    smiles_column: str = Field(description="of a table, where no other is given")
    descriptors: list[str] = Field(description="further columns of a table that it needs")
    interval: float | None = Field(description="share of the targets that intervals contain")
    domain: bool = Field(description="whether the nearest training molecule is known")
    notes: list[str] = Field(description="why it has no intervals or nearest molecules")


class RequestLimits(BaseModel):
    """Limits of a request."""

    molecules: int
    explained: int = Field(description="molecules of a request to /api/explain")
    characters: int = Field(description="of a SMILES")
    bytes: int = Field(description="of the body")
    seconds: int


class Served(Description):
    """The model and the limits of requests."""

    limits: RequestLimits
    version: str = Field(description="of smpgnn")


class Health(BaseModel):
    """Whether the server can answer, and how many requests it has at the moment."""

    status: str
    requests: int


class Error(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="one sentence that names the reason and the remedy")
