"""Read the records of a results folder into the tables that the report shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError
from smpgnn.paper.experiments.paper import PaperTable, paper_tables
from smpgnn.paper.experiments.protocol import PROTOCOLS
from smpgnn.paper.experiments.records import BySize, Choice, Record, read_records
from smpgnn.paper.experiments.table import Cell, Row, Table
from smpgnn.paper.experiments.tables import SELECTIONS, TABLES
from smpgnn.paper.report.benchmarks import Scaling, Timings, read_benchmarks

Reduce = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Summary:
    """The records of one cell, one per seed, and the paper's number (None: not given)."""

    records: tuple[Record, ...]
    paper: float | None

    @property
    def mean(self) -> float | None:
        return statistics.fmean(r.value for r in self.records) if self.records else None

    @property
    def validation(self) -> float | None:
        """The mean on validation data; None if there are none."""
        values = [record.validation for record in self.records]
        return None if not values or any(map(math.isnan, values)) else statistics.fmean(values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for a single seed."""
        if len(self.records) < 2:
            return None
        return statistics.stdev(record.value for record in self.records)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.mean is None or self.paper is None:
            return None
        return self.mean - self.paper

    @property
    def by_size(self) -> list[BySize]:
        """The values on larger graphs, for the seeds that have them."""
        return [record.by_size for record in self.records if record.by_size is not None]

    @property
    def size_means(self) -> list[float]:
        """The mean over the seeds at each size."""
        values = (one.value for one in self.by_size)
        return [statistics.fmean(seeds) for seeds in zip(*values, strict=True)]


@dataclass(frozen=True)
class Best:
    """A row and its mean."""

    row: str
    mean: float


@dataclass(frozen=True)
class Runs:
    """The runs of one training of one row; `label` describes the columns it was trained for."""

    row: str
    label: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class TableReport:
    """One table and its records. Reduced runs are never compared with the paper."""

    table: Table
    records: tuple[Record, ...]
    reduced: bool

    @property
    def paper(self) -> PaperTable | None:
        return None if self.reduced else paper_tables().get(self.table.name)

    def summary(self, row: str, cell: str) -> Summary:
        found = tuple(r for r in self.records if r.row == row and r.cell_name == cell)
        return Summary(found, self.paper.figure(row, cell) if self.paper else None)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows to show: those with a record and those in the paper."""
        shown = {record.row for record in self.records} | set(self.paper.rows if self.paper else ())
        return tuple(row for row in self.table.rows if row.name in shown)

    @property
    def own_rows(self) -> tuple[Row, ...]:
        """The rows to show that are not borrowed from another table."""
        return tuple(row for row in self.rows if not row.of)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the rows without a record."""
        trained = {record.row for record in self.records}
        return tuple(row.name for row in self.table.rows if row.name not in trained)

    @property
    def published(self) -> dict[str, dict[str, float]]:
        """What others have published, beside full runs only."""
        return {} if self.reduced else self.table.published

    @property
    def after_test(self) -> dict[str, str]:
        """The rows that were chosen when test values were known, and why."""
        homes = {row.name: TABLES[row.of].row(row.name) if row.of else row for row in self.rows}
        reasons = {name: row.after_test or self.table.after_test for name, row in homes.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def mark(self, row: str) -> str:
        """A dagger after the name of such a row."""
        return " †" if row in self.after_test else ""

    @property
    def validated(self) -> bool:
        """Whether there are validation values."""
        return not all(math.isnan(record.validation) for record in self.records)

    @property
    def unreliable(self) -> str:
        """The rows and seeds whose results for pairs of graphs do not count; '' if none."""
        found = [
            f"{row.name}, seed {record.seed}, {len(record.pairs.unreliable)} in {cell.label}"
            for row in self.rows
            for cell in self.table.cells[:-1]  # the last one has all pairs
            for record in self.summary(row.name, cell.name).records
            if record.pairs is not None and record.pairs.unreliable
        ]
        return f"Unreliable pairs: {'; '.join(found)}." if found else ""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The columns to show: all of them, or for reduced runs those with a record."""
        there = {record.cell_name for record in self.records}
        return tuple(cell for cell in self.table.cells if cell.name in there or not self.reduced)

    @property
    def groups(self) -> list[tuple[str, tuple[Cell, ...]]]:
        """The columns of each group, or all under '' if every group has one column."""
        found = [(name, tuple(cells)) for name, cells in groupby(self.cells, lambda c: c.group)]
        return found if len(found) < len(self.cells) else [("", self.cells)]

    def sizes(self, cell: str) -> list[str]:
        """The ranges of graph sizes that a column has values for: '15–19'."""
        for row in self.own_rows:
            for one in self.summary(row.name, cell).by_size:
                return [f"{low}–{high}" for low, high in zip(one.least, one.most, strict=True)]
        return []

    def over(
        self, row: str, cells: Sequence[str], reduce: Reduce = statistics.fmean, what: str = "mean"
    ) -> float | None:
        """One number of a row for several cells; None if one is missing."""
        values = [getattr(self.summary(row, cell), what) for cell in cells]
        return None if not values or None in values else reduce(values)

    def best_of(
        self, rows: Iterable[str], cells: Sequence[str], reduce: Reduce = statistics.fmean
    ) -> Best | None:
        """The best of the rows that have all these cells."""
        found = [
            Best(row, mean) for row in rows if (mean := self.over(row, cells, reduce)) is not None
        ]
        choose = max if self.table.larger_is_better else min
        return choose(found, key=lambda best: best.mean, default=None)

    def best(self, cell: str) -> float | None:
        """The best mean of a column; None with fewer than two means."""
        rows = [row.name for row in self.table.rows if self.summary(row.name, cell).records]
        found = self.best_of(rows, [cell])
        return found.mean if found and len(rows) > 1 else None

    @property
    def protocols(self) -> list[str]:
        return sorted({record.protocol for record in self.records})

    @property
    def trainings(self) -> list[Runs]:
        """The trainings that have been run."""
        return [
            Runs(row.name, training.label, records)
            for row in self.table.rows
            for training in self.table.trainings
            if (records := self.summary(row.name, training.cells[0].name).records)
        ]

    @property
    def runs(self) -> list[Record]:
        """One record of every run."""
        return [record for training in self.trainings for record in training.records]

    @property
    def choices(self) -> list[Choice]:
        """The searches behind the runs."""
        found = (record.search for record in self.runs if record.search is not None)
        return list({(choice.row, choice.training): choice for choice in found}.values())

    @property
    def chose_readouts(self) -> bool:
        """Whether a search tried several readouts."""
        return any(len({trial.readout for trial in c.trials}) > 1 for c in self.choices)

    @property
    def settings(self) -> tuple[dict[str, Any], list[str]]:
        """The settings that all runs have in common, and the names of the others."""
        first, *others = [record.config for record in self.runs]
        shared = {
            name: value
            for name, value in first.items()
            if all(other.get(name) == value for other in others)
        }
        return shared, [name for name in first if name not in shared]

    @property
    def versions(self) -> list[str]:
        """The names of the packages whose versions the runs state."""
        return list(dict.fromkeys(name for record in self.runs for name in record.versions))


@dataclass(frozen=True)
class Report:
    """Everything the report shows."""

    records: tuple[Record, ...]
    tables: tuple[TableReport, ...]
    reduced: tuple[TableReport, ...]
    scaling: list[Scaling]
    timings: list[Timings]

    @property
    def full(self) -> list[Record]:
        """The records of full runs."""
        return [record for record in self.records if not record.reduced]

    @property
    def trained(self) -> tuple[TableReport, ...]:
        """The tables with records of full runs, the paper's first."""
        return tuple(t for t in (*self.of_the_paper, *self.beyond) if t.records)

    @property
    def of_the_paper(self) -> tuple[TableReport, ...]:
        return tuple(table for table in self.tables if table.paper is not None)

    @property
    def beyond(self) -> tuple[TableReport, ...]:
        """The trained tables that the paper does not have."""
        return tuple(table for table in self.tables if table.paper is None and table.records)

    @property
    def to_come(self) -> tuple[TableReport, ...]:
        """The tables that the paper does not have and that are not trained yet."""
        return tuple(table for table in self.tables if table.paper is None and not table.records)

    @property
    def losses(self) -> list[TableReport]:
        """The figures of training losses that have records."""
        homes = {report.table.name: report for report in self.tables}
        found = [replace(homes[one.rows[0].of], table=one) for one in SELECTIONS.values()]
        return [report for report in found if report.trainings]

    @property
    def protocol_texts(self) -> list[str]:
        """One sentence for each protocol of the records."""
        names = sorted({record.protocol for record in self.records} & set(PROTOCOLS))
        return [f"Protocol {name}: {PROTOCOLS[name]}." for name in names]


def collect(results: str | Path) -> Report:
    """Read all records and benchmarks in a folder."""
    records = tuple(read_records(results))
    for record in records:
        _check_names(record)
    full, reduced = (
        tuple(
            TableReport(table, _records_of(table, records, small), small)
            for table in TABLES.values()
        )
        for small in (False, True)
    )
    scaling, timings = read_benchmarks(Path(results) / "benchmarks")
    return Report(records, full, tuple(t for t in reduced if t.records), scaling, timings)


def _records_of(table: Table, records: Iterable[Record], reduced: bool) -> tuple[Record, ...]:
    """The records of a table, with those of rows that it borrows from another table.

    A table with borrowed rows only counts as not trained.
    """
    homes = {(row.of or table.name, row.name) for row in table.rows}
    cells = {cell.name for cell in table.cells}
    found = [
        record
        for record in records
        if (record.table, record.row) in homes
        and record.cell_name in cells
        and record.reduced == reduced
    ]
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
