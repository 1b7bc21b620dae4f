"""All tables by name, from tables.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.resources import files
from typing import Any

import yaml

from smpgnn.errors import InputError, nearest
from smpgnn.paper.experiments.table import Row, Table, Training
from smpgnn.paper.json_data import built


def _read() -> dict[str, Table]:
    text = files("smpgnn.paper.experiments").joinpath("tables.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    known: dict[str, dict[str, Any]] = {}
    for name, own in yaml.load(text, loader).items():
        like = known.get(own.pop("like", ""), {})
        modern = {**like.get("modern", {}), **own.get("modern", {})}
        known[name] = {**like, **own, "name": name, "modern": modern}
    return {name: _table(content) for name, content in known.items()}


def _table(content: dict[str, Any]) -> Table:
    content = dict(content)
    base, settings = content.pop("base", {}), content.pop("settings", {})
    note = content.get("note", "")
    content["note"] = note if isinstance(note, str) else " ".join(note)
    content["rows"] = [_named(Row, name, {**base, **own}) for name, own in content["rows"].items()]
    content["trainings"] = [
        _named(Training, name, {"pilot": str(name), **settings, **own})
        for name, own in content["trainings"].items()
    ]
    table: Table = built(Table, content)
    return table


def _named(kind: type, name: Any, content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row or training; what is none of them is a setting."""
    own = {field.name for field in fields(kind)}
    settings = {key: value for key, value in content.items() if key not in own}
    return {"name": str(name), "settings": settings} | {
        key: value for key, value in content.items() if key in own
    }


TABLES = _read()


def _selection(
    name: str, title: str, of: str, rows: Sequence[str], trainings: Sequence[str]
) -> Table:
    """Some rows and cells of a table for a figure; they are trained there."""
    home = TABLES[of]
    return replace(
        home,
        name=name,
        title=title,
        rows=tuple(replace(home.row(row), of=of) for row in rows),
        trainings=tuple(home.training(training) for training in trainings),
    )


SELECTIONS: dict[str, Table] = {
    "training_curves": _selection(
        "training_curves",
        "Training curves of SMP, PPGN and Ring-GNN at the largest size of each cycle length",
        of="cycle_detection",
        rows=("SMP", "PPGN", "Ring-GNN"),
        trainings=("4-36", "6-56", "8-72"),
    )
}


def find_table(name: str) -> Table:
    """The table or selection of this name; raises `InputError` if there is none."""
    known = {**TABLES, **SELECTIONS}
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known are: {', '.join(known)}."
        raise InputError(f"TABLE '{name}': there is none of this name: {hint}")
    return known[name]
