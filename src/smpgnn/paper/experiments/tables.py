"""All tables by name, from tables.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import yaml

from smpgnn.errors import InputError, nearest
from smpgnn.paper.experiments.table import Cell, Row, Search, Selection, Table, Training


def _read() -> dict[str, Table]:
    text = files("smpgnn.paper.experiments").joinpath("tables.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    known: dict[str, dict[str, Any]] = {}
    for name, own in yaml.load(text, loader).items():
        like = known.get(own.pop("like", ""), {})
        modern = {**like.get("modern", {}), **own.get("modern", {})}
        known[name] = {**like, **own, "modern": modern}
    return {name: _table(name, **content) for name, content in known.items()}


def _table(
    name: str,
    *,
    rows: dict[str, Any],
    trainings: dict[Any, Any],
    base: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    search: dict[str, Any] | None = None,
    note: str | list[str] = "",
    **content: Any,
) -> Table:
    return Table(
        name=name,
        rows=tuple(_row(row, **{**(base or {}), **own}) for row, own in rows.items()),
        trainings=tuple(
            _training(str(one), **{**(settings or {}), **own}) for one, own in trainings.items()
        ),
        search=None if search is None else Search(**_tuples(search)),
        note=note if isinstance(note, str) else " ".join(note),
        **_tuples(content),
    )


def _row(
    name: str,
    *,
    model: str = "smp",
    of: str = "",
    seeds: Sequence[int] = (),
    after_test: str = "",
    **settings: Any,
) -> Row:
    return Row(name, model, _tuples(settings), of, tuple(seeds), after_test)


def _training(
    name: str,
    *,
    cells: list[list[Any]],
    pilot: str = "",
    modern: dict[str, Any] | None = None,
    **settings: Any,
) -> Training:
    columns = tuple(Cell(value, *(label or [value])) for value, *label in cells)
    return Training(name, columns, _tuples(settings), pilot or name, modern or {})


def _tuples(content: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}


TABLES = _read()

SELECTIONS: dict[str, Selection] = {
    "training_curves": Selection(
        name="training_curves",
        title="Training curves of SMP, PPGN and Ring-GNN at the largest size of each cycle length",
        table="cycle_detection",
        rows=("SMP", "PPGN", "Ring-GNN"),
        cells=("4 36", "6 56", "8 72"),
    )
}


def find_table(name: str) -> Table | Selection:
    """The table or selection of this name; raises `InputError` if there is none."""
    known: dict[str, Table | Selection] = {**TABLES, **SELECTIONS}
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known are: {', '.join(known)}."
        raise InputError(f"TABLE '{name}': there is none of this name: {hint}")
    return known[name]
