"""From the folder of records to what the page shows."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.paper.experiments.paper import PaperTable, paper_tables
from smpgnn.paper.experiments.protocol import PROTOCOLS
from smpgnn.paper.experiments.records import Record, read_records
from smpgnn.paper.experiments.table import Cell, Row, Table, Training
from smpgnn.paper.experiments.tables import TABLES


@dataclass(frozen=True)
class Summary:
    """The records of one cell over the seeds, beside the paper's figure (None: not given)."""

    records: tuple[Record, ...]
    paper: float | None

    @property
    def mean(self) -> float | None:
        return statistics.fmean(r.value for r in self.records) if self.records else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for a single one."""
        if len(self.records) < 2:
            return None
        return statistics.stdev(record.value for record in self.records)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.mean is None or self.paper is None:
            return None
        return self.mean - self.paper


def training_label(table: Table, training: Training) -> str:
    """The columns that a training answers, in words."""
    if table.measure == "sizes":
        return f"k={training.name}"
    if len(training.cells) == 1:
        return training.cells[0].label
    return "all columns" if len(table.trainings) == 1 else f"{len(training.cells)} columns"


@dataclass(frozen=True)
class TableReport:
    """One table with all its records; those of reduced runs never stand beside the paper's."""

    table: Table
    paper: PaperTable | None
    records: tuple[Record, ...]
    reduced: bool

    def summary(self, row: str, cell: str) -> Summary:
        found = tuple(r for r in self.records if r.row == row and r.cell_name == cell)
        figure = None if self.paper is None or self.reduced else self.paper.figure(row, cell)
        return Summary(found, figure)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows to show: those that have a record or stand in the paper."""
        printed = () if self.paper is None or self.reduced else self.paper.rows
        return tuple(r for r in self.table.rows if r.name in self._trained or r.name in printed)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the rows that have no record yet."""
        return tuple(row.name for row in self.table.rows if row.name not in self._trained)

    @property
    def _trained(self) -> set[str]:
        return {record.row for record in self.records}

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The columns to show: all, of reduced runs those that have any."""
        there = {record.cell_name for record in self.records}
        return tuple(cell for cell in self.table.cells if cell.name in there or not self.reduced)

    def best(self, cell: str) -> float | None:
        """The best mean of a column, None where there are not two to compare."""
        means = [self.summary(row.name, cell).mean for row in self.table.rows]
        known = [mean for mean in means if mean is not None]
        if len(known) < 2:
            return None
        return max(known) if self.table.larger_is_better else min(known)

    @property
    def protocols(self) -> list[str]:
        return sorted({record.protocol for record in self.records})

    @property
    def trainings(self) -> list[tuple[str, str, tuple[Record, ...]]]:
        """Row, cells in words and records over the seeds of each training that has any."""
        found = []
        for row in self.table.rows:
            for training in self.table.trainings:
                records = self.summary(row.name, training.cells[0].name).records
                if records:
                    found.append((row.name, training_label(self.table, training), records))
        return found


@dataclass(frozen=True)
class Method:
    """One method of a scaling benchmark: its points, what the paper states, what was measured.

    The exponents are those of the number of nodes; None where the benchmark has none.
    """

    name: str
    points: tuple[dict[str, float], ...]
    paper_memory: str
    paper_time: str
    memory_exponent: float | None
    time_exponent: float | None


@dataclass(frozen=True)
class Scaling:
    """Time and memory of some methods by the number of nodes: a benchmark with points."""

    name: str
    device: str
    what: str
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class Timings:
    """A benchmark that is a list of cases."""

    name: str
    device: str
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Report:
    """All that there is to show."""

    records: tuple[Record, ...]
    tables: tuple[TableReport, ...]
    reduced: tuple[TableReport, ...]
    scaling: tuple[Scaling, ...]
    timings: tuple[Timings, ...]

    @property
    def of_the_paper(self) -> tuple[TableReport, ...]:
        return tuple(table for table in self.tables if table.paper is not None)

    @property
    def beyond(self) -> tuple[TableReport, ...]:
        """The tables that the paper does not have, as far as they are trained."""
        return tuple(table for table in self.tables if table.paper is None and table.records)

    @property
    def to_come(self) -> tuple[TableReport, ...]:
        """Those that are not."""
        return tuple(table for table in self.tables if table.paper is None and not table.records)

    @property
    def protocol_texts(self) -> list[str]:
        """The protocols of the records, each in a sentence."""
        names = sorted({record.protocol for record in self.records} & set(PROTOCOLS))
        return [f"Protocol {name}: {PROTOCOLS[name].text}." for name in names]


def collect(results: str | Path) -> Report:
    """Read all records and benchmarks below a folder."""
    records = tuple(read_records(results))
    for record in records:
        _check_names(record)
    paper = paper_tables()

    def tables(reduced: bool) -> tuple[TableReport, ...]:
        return tuple(
            TableReport(
                table,
                paper.get(name),
                tuple(r for r in _shown(table, records) if r.reduced == reduced),
                reduced,
            )
            for name, table in TABLES.items()
        )

    scaling, timings = _benchmarks(Path(results) / "benchmarks")
    return Report(
        records=records,
        tables=tables(False),
        reduced=tuple(table for table in tables(True) if table.records),
        scaling=tuple(scaling),
        timings=tuple(timings),
    )


def _shown(table: Table, records: tuple[Record, ...]) -> tuple[Record, ...]:
    """The records of a table, and those of its rows that were trained for another one.

    Rows of another table alone make no table.
    """
    homes = {(row.of or table.name, row.name) for row in table.rows}
    cells = {cell.name for cell in table.cells}
    found = [r for r in records if (r.table, r.row) in homes and r.cell_name in cells]
    if not any(record.table == table.name for record in found):
        return ()
    return tuple(replace(record, table=table.name) for record in found)


def _check_names(record: Record) -> None:
    table = TABLES.get(record.table)
    known = table is not None and (
        record.row in [row.name for row in table.rows]
        and record.cell_name in [cell.name for cell in table.cells]
    )
    if not known:
        raise InputError(
            f"record '{record.table}', '{record.row}', '{record.cell_name}': no table of this "
            "version has such a cell: delete it, or install the version that wrote it."
        )


def _benchmarks(folder: Path) -> tuple[list[Scaling], list[Timings]]:
    scaling, timings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}.") from error
        if not isinstance(content, dict):
            continue
        device = _device(str(content.get("device", "")))
        layers = [
            _method(entry)
            for entry in _dicts(content.get("results"))
            if "method" in entry and _dicts(entry.get("points"))
        ]
        steps = _steps(content)
        if layers:
            scaling.append(Scaling(path.stem, device, "one layer", tuple(layers)))
        elif steps:
            scaling.append(
                Scaling(
                    path.stem, device, "a training step on one graph (layer, kind of graph)", steps
                )
            )
        elif _dicts(content.get("rows")):
            timings.append(Timings(path.stem, device, tuple(_dicts(content["rows"]))))
    return scaling, timings


def _device(words: str) -> str:
    """'2 thread(s)' are those of a CPU."""
    found = re.fullmatch(r"(\d+) thread\S*", words)
    if found is None:
        return words
    return f"CPU, {found[1]} thread{'' if found[1] == '1' else 's'}"


def _method(entry: dict[str, Any]) -> Method:
    """The paper's row of a method is the one whose name has the same file name."""
    paper = paper_tables()["complexity"]
    name = str(entry["method"])
    row = next((row for row in paper.rows if file_name(row) == file_name(name)), "")
    return Method(
        name=name,
        points=tuple(_dicts(entry["points"])),
        paper_memory=paper.figure(row, "memory per layer") or "",
        paper_time=paper.figure(row, "time per layer") or "",
        memory_exponent=entry.get("measured_memory_exponent"),
        time_exponent=entry.get("measured_time_exponent"),
    )


def _steps(content: dict[str, Any]) -> tuple[Method, ...]:
    """Points of training steps, each with its graph and layer, as methods."""
    points: dict[tuple[str, str], list[dict[str, float]]] = {}
    for point in _dicts(content.get("points")):
        if {"graph", "layer", "nodes", "step_s", "peak_mib"} <= set(point):
            place = {
                "nodes": point["nodes"],
                "ms": 1000 * point["step_s"],
                "mib": point["peak_mib"],
            }
            points.setdefault((point["layer"], point["graph"]), []).append(place)
    growth = {(e.get("layer"), e.get("graph")): e for e in _dicts(content.get("exponents"))}
    return tuple(
        Method(
            name=f"{layer}, {graph}",
            points=tuple(places),
            paper_memory="",
            paper_time="",
            memory_exponent=growth.get((layer, graph), {}).get("memory"),
            time_exponent=growth.get((layer, graph), {}).get("step"),
        )
        for (layer, graph), places in points.items()
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The dictionaries of a list; nothing of anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
