"""The work of the model's process: each job takes and returns plain values."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.errors import InputError
from smpgnn.inference.domain import domain_file
from smpgnn.inference.draw_molecules import MAX_ATOMS, molecules_svg
from smpgnn.inference.explain import explained
from smpgnn.inference.explain_tables import Molecule, explain_molecules
from smpgnn.inference.predict import graph_frame, load
from smpgnn.pretrained import named
from smpgnn.serve import LEVEL
from smpgnn.serve.schema import Description

if TYPE_CHECKING:
    import pandas as pd

#: Columns of a table, and the cells of each row.
Cells = tuple[list[str], list[list[Any]]]


class Jobs:
    """A model and what it can be asked for.

    Args:
        run: run folder, model file, or the name of a pretrained model.
        level: of the intervals; None: the usual one, if the model can.
        characters: of a SMILES, at most.
    """

    def __init__(self, run: str, device: str, level: float | None, characters: int) -> None:
        self.characters = characters
        self.run, self.model = run, load(run, device)
        self.level, self.notes = level, list[str]()
        self._add_intervals(level)
        if self.model.reads_smiles:
            if domain_file(run).exists():
                self.model = self.model.with_domain()
            else:
                self.notes.append("No nearest training molecules: the model has no fingerprints.")

    def _add_intervals(self, level: float | None) -> None:
        try:
            self.model = self.model.with_interval(LEVEL if level is None else level)
            self.level = LEVEL if level is None else level
        except InputError as error:
            if level is not None:
                raise
            reason = str(error).removeprefix("--interval").removeprefix(":").strip()
            self.notes.append(f"No intervals: {reason}")

    def describe(self) -> Description:
        """What the model takes and gives."""
        model = self.model
        molecules = model.reads_smiles
        if not molecules:
            model.schema("predict with it")  # refuses models that only Python can use
        try:
            scores = explained(model.task).score_names() if molecules else []
        except InputError:
            scores = []
        return Description(
            run=self.run if named(self.run) else Path(self.run).resolve().name,
            molecules=molecules,
            columns=model.all_columns if molecules else model.columns,
            scores=scores,
            smiles_column=model.smiles_column() if molecules else "",
            descriptors=list(model.descriptors.columns),
            interval=self.level,
            domain=model.domain is not None,
            notes=self.notes,
        )

    def read_table(self, content: bytes, needed: Sequence[str], most: int) -> Cells:
        """The cells of a CSV, as text; at most `most + 1` rows are read."""
        from smpgnn.data.tables import require_columns, stream_table, table_columns

        with _file("table.csv", content, "The table") as file:
            names = table_columns(file)
            require_columns(needed, names, file)
            chunk = next(iter(stream_table(file, chunk_rows=most + 1)))
        return list(names), _cells(chunk)

    def predict(
        self, smiles: Sequence[str | None], descriptors: Mapping[str, Sequence[Any]]
    ) -> list[list[Any]]:
        """The values of the columns for SMILES."""
        frame = self.model.predict_smiles(self._shortened(smiles), _table(descriptors))
        rows = _cells(frame)
        for row, reason in self._too_long(smiles).items():
            rows[row][-1] = reason
        return rows

    def predict_graphs(self, graphs: Sequence[Any]) -> Cells:
        """Predictions for node-link graphs: the columns, and a row per graph or node."""
        content = json.dumps(graphs).encode(errors="backslashreplace")
        with _file("graphs.json", content, "graphs") as file:
            frame = graph_frame(self.model, file)
        return list(frame.columns), _cells(frame)

    def explain(
        self,
        smiles: Sequence[str | None],
        descriptors: Mapping[str, Sequence[Any]],
        score: int,
    ) -> list[dict[str, Any]]:
        """The contributions of the atoms to a score, and a drawing, for each molecule."""
        found, _ = explain_molecules(self.model, self._shortened(smiles), _table(descriptors))
        reasons = self._too_long(smiles)
        return [
            _explanation(one, score, given, reasons.get(row, one.error))
            for row, (one, given) in enumerate(zip(found, smiles, strict=True))
        ]

    def _shortened(self, smiles: Sequence[str | None]) -> list[str | None]:
        too_long = self._too_long(smiles)
        return [None if row in too_long else text for row, text in enumerate(smiles)]

    def _too_long(self, smiles: Sequence[str | None]) -> dict[int, str]:
        return {
            row: f"the SMILES has {len(text):,} characters, more than {self.characters:,}"
            for row, text in enumerate(smiles)
            if text is not None and len(text) > self.characters
        }


@contextlib.contextmanager
def _file(name: str, content: bytes, called: str) -> Iterator[Path]:
    """A temporary file; the user does not know it, so errors call it otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            yield file
        except InputError as error:
            raise InputError(str(error).replace(f"{file}", called)) from None


def _explanation(found: Molecule, score: int, given: str | None, error: str) -> dict[str, Any]:
    known = found.explanation
    if known is None:
        return {"smiles": given, "error": error or "the molecule cannot be explained"}
    return {
        "smiles": given,
        "score": known.score[score],
        "rest": known.rest[score],
        "atoms": [
            {"element": atom.GetSymbol(), "contribution": values[score]}
            for atom, values in zip(found.molecule.GetAtoms(), known.nodes, strict=True)
        ],
        "drawing": molecules_svg([found], score, "") if len(known.nodes) <= MAX_ATOMS else None,
    }


def _table(descriptors: Mapping[str, Sequence[Any]]) -> pd.DataFrame | None:
    import pandas as pd

    return pd.DataFrame(dict(descriptors)) if descriptors else None


def _cells(frame: pd.DataFrame) -> list[list[Any]]:
    """The cells as plain values; None for what is missing or not a finite number."""
    rows: list[list[Any]] = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    for row in rows:
        for place, value in enumerate(row):
            if hasattr(value, "item"):
                row[place] = value = value.item()
            if isinstance(value, float) and not math.isfinite(value):
                row[place] = None
    return rows
