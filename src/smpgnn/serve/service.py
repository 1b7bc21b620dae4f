"""Requests as pieces for the worker, so that none of them holds up the others for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from smpgnn.data.tables import free_names
from smpgnn.errors import InputError, nearest, quoted
from smpgnn.serve import EXPLAINED, Limits
from smpgnn.serve.problems import Problem, too_slow
from smpgnn.serve.schema import (
    Description,
    Explain,
    Explanation,
    Explanations,
    Graphs,
    Molecules,
    Predictions,
)
from smpgnn.serve.worker import Died, TooSlow, Worker

Asked = TypeVar("Asked", bound=BaseModel)

#: Molecules, and molecules to explain, in a piece.
_PREDICTED, _EXPLAINED = 100, 10


class Service:
    """What the interface can do with the model."""

    def __init__(self, worker: Worker, model: Description, limits: Limits) -> None:
        self.worker, self.model, self.limits = worker, model, limits

    async def molecules(self, body: bytes) -> Predictions:
        """Predictions for the molecules of a JSON body."""
        asked = parsed(Molecules, body)
        self._check(len(asked.smiles), self.limits.molecules)
        descriptors = self._descriptors(asked.descriptors, len(asked.smiles))
        names = ["smiles", *descriptors]
        cells = [list(row) for row in zip(asked.smiles, *descriptors.values(), strict=True)]
        return await self._predicted(names, cells, asked.smiles, descriptors)

    async def table(self, body: bytes, smiles_column: str) -> Predictions:
        """Predictions for the molecules of a CSV."""
        column = smiles_column or self.model.smiles_column
        needed = [column, *(name for name in self.model.descriptors if name != column)]
        names, cells = await self._run("read_table", _text(body), needed, self.limits.molecules)
        self._check(len(cells), self.limits.molecules)
        smiles, *others = ([row[names.index(name)] for row in cells] for name in needed)
        descriptors = dict(zip(needed[1:], others, strict=True))
        return await self._predicted(names, cells, smiles, descriptors)

    async def graphs(self, body: bytes) -> Predictions:
        """Predictions for the graphs of a JSON body."""
        asked = parsed(Graphs, body)
        self._check(len(asked.graphs), self.limits.molecules)
        columns, rows = await self._run("predict_graphs", asked.graphs)
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        return Predictions(columns=columns, predicted=self.model.columns, rows=named)

    async def explain(self, body: bytes) -> Explanations:
        """The contributions of the atoms of molecules of a JSON body."""
        asked = parsed(Explain, body)
        self._check(len(asked.smiles), min(EXPLAINED, self.limits.molecules))
        scores = self.model.scores
        if not scores:
            raise Problem(422, "the predictions of this model cannot be explained: predict only.")
        score = scores[0] if asked.score is None else asked.score
        if score not in scores:
            near = nearest(score, scores)
            hint = f"did you mean {quoted(near)}?" if near else f"it is one of {quoted(scores)}."
            raise Problem(422, f"score: this model has no score {quoted(score)}: {hint}")
        descriptors = self._descriptors(asked.descriptors, len(asked.smiles))
        number = scores.index(score)
        rows = await self._pieces("explain", _EXPLAINED, asked.smiles, descriptors, number)
        return Explanations(score=score, rows=[Explanation(**row) for row in rows])

    async def _predicted(
        self,
        names: list[str],
        cells: list[list[Any]],
        smiles: Sequence[str | None],
        descriptors: Mapping[str, Sequence[Any]],
    ) -> Predictions:
        """The cells of a table, followed by the predictions for its molecules."""
        new = free_names(self.model.columns, names)
        rows = await self._pieces("predict", _PREDICTED, smiles, descriptors)
        columns = [*names, *new]
        both = zip(cells, rows, strict=True)
        named = [dict(zip(columns, [*given, *found], strict=True)) for given, found in both]
        return Predictions(columns=columns, predicted=new, rows=named)

    async def _pieces(
        self,
        job: str,
        size: int,
        smiles: Sequence[str | None],
        descriptors: Mapping[str, Sequence[Any]],
        *more: Any,
    ) -> list[Any]:
        """The rows of a job for all molecules; other requests have their turn between pieces."""
        rows: list[Any] = []
        for start in range(0, len(smiles), size):
            part = slice(start, start + size)
            own = {name: values[part] for name, values in descriptors.items()}
            rows += await self._run(job, smiles[part], own, *more)
        return rows

    async def _run(self, job: str, *arguments: Any) -> Any:
        try:
            return await self.worker.run(job, *arguments)
        except InputError as error:
            raise Problem(422, str(error)) from error
        except TooSlow as error:
            raise too_slow(self.limits.seconds) from error
        except Died as error:
            text = (
                f"the model cannot be loaded any more: {self.worker.trouble}"
                if self.worker.trouble
                else "the process with the model ended while it worked on this request, probably "
                "for lack of memory: send fewer or smaller molecules."
            )
            raise Problem(500, text) from error

    def _check(self, count: int, most: int) -> None:
        what = "molecules" if self.model.molecules else "graphs"
        if count > most:
            raise Problem(
                413, f"more than {most:,} {what} in one request: send them in several requests."
            )

    def _descriptors(
        self, given: Mapping[str, Sequence[Any]], count: int
    ) -> Mapping[str, Sequence[Any]]:
        """The further columns of the model, complete and as long as the list of SMILES."""
        wanted = self.model.descriptors
        for name in wanted:
            if name not in given:
                raise Problem(
                    422,
                    f"descriptors: this model also takes the column {quoted(name)}: give a number "
                    "per molecule, or a CSV that has the column.",
                )
        for name, values in given.items():
            if name not in wanted:
                raise Problem(
                    422, f"descriptors: this model has no column {quoted(name)}: leave it out."
                )
            if len(values) != count:
                raise Problem(
                    422,
                    f"descriptors: {quoted(name)} has {len(values)} numbers, but there are {count} "
                    "molecules: give one per molecule.",
                )
        return given


def parsed(kind: type[Asked], body: bytes) -> Asked:
    """A JSON body; a `Problem` for anything else."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        text = first["msg"].removesuffix(".")
        if first["type"] == "json_invalid":
            text = text.removeprefix("Invalid JSON: ")
            raise Problem(400, f"the body is not JSON ({text}): check it.") from None
        places = [f"item {p + 1}" if isinstance(p, int) else str(p) for p in first["loc"]]
        place = f"{', '.join(places)}: " if places else "the body: "
        raise Problem(422, f"{place}{text[0].lower()}{text[1:]} (see /docs).") from None


def _text(body: bytes) -> bytes:
    """A table as text; a `Problem` for a file of another kind."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Problem(400, "the table is not UTF-8 text: save it as CSV (UTF-8).")
    if not text.strip():
        raise Problem(400, "the table is empty: send a CSV with a header and rows.")
    return body
