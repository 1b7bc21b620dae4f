"""Read the benchmarks of a results folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.paper.experiments.paper import paper_tables


@dataclass(frozen=True)
class Method:
    """One method of a scaling benchmark: what was measured and what the paper states.

    The exponents are those of the number of nodes; None if the benchmark has none.
    """

    name: str
    points: tuple[dict[str, float], ...]
    memory_exponent: float | None
    time_exponent: float | None
    paper_memory: str = ""
    paper_time: str = ""


@dataclass(frozen=True)
class Scaling:
    """A benchmark of time and memory by the number of nodes."""

    name: str
    device: str
    what: str
    methods: tuple[Method, ...]

    @property
    def in_the_paper(self) -> bool:
        return any(method.paper_memory or method.paper_time for method in self.methods)


@dataclass(frozen=True)
class Timings:
    """A benchmark that is a list of cases."""

    name: str
    device: str
    rows: tuple[dict[str, Any], ...]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))


def read_benchmarks(folder: Path) -> tuple[list[Scaling], list[Timings]]:
    """The benchmarks in a folder of JSON files; files of another form are left out."""
    scaling, timings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}.") from error
        if not isinstance(content, dict):
            continue
        device = _device(str(content.get("device", "")))
        methods = [entry for entry in _dicts(content.get("results")) if "method" in entry]
        layers = tuple(_method(entry) for entry in methods if _dicts(entry.get("points")))
        steps = _steps(content)
        if layers:
            scaling.append(Scaling(path.stem, device, "one layer", layers))
        elif steps:
            what = "a training step on one graph (layer, kind of graph)"
            scaling.append(Scaling(path.stem, device, what, steps))
        elif rows := _dicts(content.get("rows")):
            timings.append(Timings(path.stem, device, tuple(rows)))
    return scaling, timings


def _device(words: str) -> str:
    """'2 thread(s)' are those of a CPU."""
    found = re.fullmatch(r"(\d+) thread\S*", words)
    if found is None:
        return words
    return f"CPU, {found[1]} thread{'' if found[1] == '1' else 's'}"


def _method(entry: dict[str, Any]) -> Method:
    """The paper's row of a method is the one with the same file name."""
    paper = paper_tables()["complexity"]
    name = str(entry["method"])
    row = next((row for row in paper.rows if file_name(row) == file_name(name)), "")
    return Method(
        name=name,
        points=tuple(_dicts(entry["points"])),
        memory_exponent=entry.get("measured_memory_exponent"),
        time_exponent=entry.get("measured_time_exponent"),
        paper_memory=paper.figure(row, "memory per layer") or "",
        paper_time=paper.figure(row, "time per layer") or "",
    )


def _steps(content: dict[str, Any]) -> tuple[Method, ...]:
    """The methods of a benchmark of training steps: each layer on each kind of graph."""
    points: dict[tuple[str, str], list[dict[str, float]]] = {}
    for point in _dicts(content.get("points")):
        if {"graph", "layer", "nodes", "step_s", "peak_mib"} <= set(point):
            time, memory = 1000 * point["step_s"], point["peak_mib"]
            found = {"nodes": point["nodes"], "ms": time, "mib": memory}
            points.setdefault((point["layer"], point["graph"]), []).append(found)
    growth = {(e.get("layer"), e.get("graph")): e for e in _dicts(content.get("exponents"))}
    return tuple(
        Method(
            name=f"{layer}, {graph}",
            points=tuple(found),
            memory_exponent=growth.get((layer, graph), {}).get("memory"),
            time_exponent=growth.get((layer, graph), {}).get("step"),
        )
        for (layer, graph), found in points.items()
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The dictionaries in a list; empty for anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
