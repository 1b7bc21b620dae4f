"""What a table contains: counts, ranges, units and classes of its targets."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.targets import Targets, TargetSpec, exact
from smpgnn.errors import shown

_UNIT = re.compile(r".*(?:\[([^\[\]]+)\]|\s\(([^()]+)\))\s*", re.DOTALL)
#: Classes that a line shows.
_MOST = 6


@dataclass(frozen=True)
class TargetSummary:
    """One target: how many values are known and missing; of numbers or of classes.

    `low`, `median`, `high`, `mean` and `deviation` are those of exact numbers; `above` and `below`
    count values that are bounds; `classes` counts the rows of each.
    """

    kind: str
    known: int
    missing: int
    unit: str = ""
    log10: bool = False
    low: float | None = None
    median: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None
    above: int = 0
    below: int = 0
    classes: dict[str, int] = field(default_factory=dict)

    def line(self, name: str) -> str:
        """The summary in one line."""
        if self.classes:
            counts = [f"{shown(label)} ({count:,})" for label, count in self.classes.items()]
            more = f" and {len(counts) - _MOST} more" if len(counts) > _MOST else ""
            parts = [f"classes {', '.join(counts[:_MOST])}{more}"]
        else:
            unit = f" {shown(self.unit)}" if self.unit else ""
            span = f"from {self.low:.4g} to {self.high:.4g}{unit}, median {self.median:.4g}"
            parts = ["no exact number" if self.low is None else f"numbers {span}"]
        for count, what in (
            (self.missing, "missing"),
            (self.above, "only known to be larger than a bound"),
            (self.below, "only known to be smaller than a bound"),
        ):
            parts += [f"{count:,} {what}"] if count else []
        parts += ["learned as log10"] if self.log10 else []
        return f"Target '{shown(name)}': {'; '.join(parts)}."


@dataclass(frozen=True)
class DataSummary:
    """The data of a run: rows in the table and left out, molecules, choices, targets.

    `molecules` are different ones; `several` of them have several rows, `several_rows` in all. For
    graphs they are None, and rows are graphs or nodes.
    """

    rows: int
    left_out: int
    targets: dict[str, TargetSummary]
    molecules: int | None = None
    several: int | None = None
    several_rows: int | None = None
    conflicts: dict[str, int] = field(default_factory=dict)
    replicates: str = "keep"
    standardize: bool = False
    changed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def lines(self) -> tuple[str, ...]:
        """The summary for the user."""
        return tuple(target.line(name) for name, target in self.targets.items())


def unit_of(name: str) -> str:
    """The unit in brackets at the end of a column's name: 'nM' of 'IC50 [nM]' or 'IC50 (nM)'."""
    found = _UNIT.fullmatch(name)
    return (found[1] or found[2]).strip() if found else ""


def summarize(targets: Targets) -> dict[str, TargetSummary]:
    """The summary of each target."""
    values = exact(targets.values, targets.side)
    return {
        name: _summary(targets, name, number, values[:, number])
        for number, name in enumerate(targets.spec.names)
    }


def _summary(targets: Targets, name: str, number: int, values: Tensor) -> TargetSummary:
    spec: TargetSpec = targets.spec
    given, known = targets.values[:, number], values[~values.isnan()]
    there = int((~given.isnan()).sum())
    counts: dict[str, Any] = {"known": there, "missing": given.numel() - there}
    labels = spec.labels[number]
    if labels:
        rows = torch.bincount(known.long(), minlength=len(labels)).tolist()
        classes = dict(zip(labels, rows, strict=True))
        return TargetSummary("classification", **counts, classes=classes)
    if targets.side is not None:
        side = targets.side[:, number]
        counts |= {"above": int((side > 0).sum()), "below": int((side < 0).sum())}
    if known.numel():
        found = known.double().numpy()
        counts |= {"low": float(found.min()), "median": float(np.median(found))}
        counts |= {"high": float(found.max()), "mean": float(found.mean())}
        counts["deviation"] = float(found.std())
    return TargetSummary("regression", **counts, unit=unit_of(name), log10=spec.log10)
