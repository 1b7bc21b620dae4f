"""What to train for some cells of a table, and which of them have records already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.paper.experiments.protocol import (
    CHOSEN,
    Reduction,
    run_options,
    same_settings,
    search_of,
    settings_of,
)
from smpgnn.paper.experiments.records import (
    Choice,
    Record,
    choice_path,
    read_choice,
    read_record,
    record_path,
    write_record,
)
from smpgnn.paper.experiments.search import settings_hash, trial_options
from smpgnn.paper.experiments.table import Row, Table, Training, pick
from smpgnn.paper.experiments.tables import TABLES, find_table
from smpgnn.training.side_by_side import epochs_done

#: Table, row and training at which a learning rate is chosen.
PilotKey = tuple[str, str, str]


@dataclass(frozen=True)
class Request:
    """What the user asks for. No rows, cells or seeds: all of them."""

    table: str
    rows: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    protocol: str = "modern"
    reduction: Reduction = field(default_factory=Reduction)
    search: bool = True
    again: bool = False
    results: str = "results"
    work_dir: str = "runs/reproduce"
    device: str = "auto"
    data_dir: str = ""
    jobs: int = 1

    @property
    def reduced(self) -> bool:
        return bool(self.reduction)


@dataclass(frozen=True)
class Job:
    """One training: a trial of a candidate, or the final training that yields cells.

    `pilot` is the search that it belongs to. A final training lacks its rate as long as there is no
    `choice`; it is `answered` if its cells have records.
    """

    request: Request
    table: str
    row: str
    training: str
    options: TrainOptions
    trial: bool = False
    pilot: PilotKey | None = None
    choice: Choice | None = None
    answered: bool = False

    @property
    def ready(self) -> bool:
        """Whether its learning rate is known."""
        return self.trial or self.pilot is None or self.choice is not None

    @property
    def label(self) -> str:
        what = f"seed {self.options.seed}"
        if self.trial:
            what = f"rate {self.options.lr:g}, {self.options.network.readout}"
        return f"{self.table}: {self.row}, {self.training}, {what}"

    @property
    def folder(self) -> Path:
        return Path(self.options.output)

    def epochs_done(self) -> int:
        """Epochs in the run folder."""
        return epochs_done(self.folder)

    def write(self, found: Mapping[str, Mapping[str, Any]], **shared: Any) -> str:
        """Write a record for each cell, and return the values as text."""
        request, table, shown = self.request, TABLES[self.table], []
        for cell in table.training(self.training).cells:
            record = Record(
                table=self.table,
                row=self.row,
                cell=cell.value,
                seed=self.options.seed,
                protocol=request.protocol,
                reduced=request.reduced,
                metric=table.metric,
                jobs=request.jobs,
                samples=request.reduction.samples,
                config=settings_of(self.options),
                search=self.choice,
                **found[cell.name],
                **shared,
            )
            write_record(request.results, record)
            of = f" of {record.pairs.count}" if record.pairs else ""
            shown.append(f"{cell.name}: {record.value:.{table.digits}f}{of}")
        return ", ".join(shown)

    def chosen(self, choice: Choice) -> Job:
        """The job with the chosen rate and readout."""
        options = self.options.changed(lr=choice.chosen, readout=choice.chosen_readout)
        return replace(self, options=options, choice=choice).placed()

    def placed(self) -> Job:
        """The job with its run folder, whose name depends on the settings."""
        options = self.options
        what = f"seed{options.seed}"
        if self.trial:
            what = f"search-{options.network.readout}-{options.lr:g}"
        digest = settings_hash(options, self.trial, self.request.reduction.samples)
        folder = Path(self.request.work_dir) / self.table / file_name(self.row)
        output = str(folder / f"{self.training}-{what}-{digest}")
        return replace(self, options=replace(options, output=output))


@dataclass(frozen=True)
class Pilot:
    """The search of one row: its trials, and the choice if there is one."""

    key: PilotKey
    rule: str
    usual: float  # the rate of the protocol
    trials: tuple[Job, ...]
    choice: Choice | None

    @property
    def label(self) -> str:
        table, row, training = self.key
        return f"{table}: {row}, {training}"


@dataclass(frozen=True)
class Plan:
    """All trainings of some requests, and the searches that they wait for."""

    finals: tuple[Job, ...]
    pilots: tuple[Pilot, ...]
    work_dir: str

    @property
    def open(self) -> tuple[Job, ...]:
        return tuple(final for final in self.finals if not final.answered)

    @property
    def searches(self) -> tuple[Pilot, ...]:
        """The searches without a choice."""
        return tuple(pilot for pilot in self.pilots if pilot.choice is None)


def make_plan(requests: list[Request]) -> Plan:
    """The plan for several requests, each training once."""
    finals: dict[tuple[str, str, str, int], Job] = {}
    pilots: dict[PilotKey, Pilot] = {}
    for request in requests:
        for job, pilot in _finals(request):
            finals.setdefault((job.table, job.row, job.training, job.options.seed), job)
            if pilot is not None and not job.answered:
                pilots.setdefault(pilot.key, pilot)
    return Plan(tuple(finals.values()), tuple(pilots.values()), requests[0].work_dir)


def _finals(request: Request) -> Iterator[tuple[Job, Pilot | None]]:
    table = find_table(request.table)
    cells = set(pick(request.cells, [cell.name for cell in table.cells], "--cells"))
    rows = pick(request.rows, [row.name for row in table.rows], "--rows")
    homes = {row: TABLES[table.row(row).of or table.name] for row in rows}
    protocols = {home.name: _protocol(request, home) for home in homes.values()}
    planners = [
        _RowPlanner(request, home, home.row(row), protocols[home.name])
        for row, home in homes.items()
    ]
    for seed in dict.fromkeys(seed for planner in planners for seed in planner.seeds):
        for planner in planners:
            for training in table.trainings if seed in planner.seeds else ():
                wanted = [cell.name for cell in training.cells if cell.name in cells]
                if wanted:
                    yield planner.final(training.name, wanted, seed)


def _protocol(request: Request, table: Table) -> str:
    """The protocol of a request, which all full records of a table must share."""
    protocol = table.protocol or request.protocol
    if request.reduced:
        return protocol
    for path in sorted((Path(request.results) / table.name).glob("*/*-seed*.json")):
        record = read_record(path)
        if not record.reduced and record.protocol != protocol:
            raise InputError(
                f"{path}: is of protocol '{record.protocol}', and all rows of a table share one: "
                f"use --protocol {record.protocol}, or another --results."
            )
    return protocol


class _RowPlanner:
    """The trainings of one row in the table that trains it."""

    def __init__(self, request: Request, table: Table, row: Row, protocol: str) -> None:
        self.request = replace(request, protocol=protocol)
        self.table, self.row, self.protocol = table, row, protocol
        self.seeds = request.seeds or row.seeds or table.seeds
        searches = request.search and "lr" not in request.reduction.settings
        self.search = search_of(table, protocol) if searches else None

    def final(self, name: str, cells: list[str], seed: int) -> tuple[Job, Pilot | None]:
        training = self.table.training(name)
        job, pilot = self._job(training, seed), self._pilot(training)
        if pilot is not None:
            job = replace(job, pilot=pilot.key)
            job = job if pilot.choice is None else job.chosen(pilot.choice)
        paths = [
            record_path(self.request.results, self.table.name, self.row.name, cell, seed)
            for cell in cells
        ]
        answered = [path.exists() and self._answers(path, job) for path in paths]
        return replace(job, answered=all(answered)), pilot

    def _job(self, training: Training, seed: int) -> Job:
        request = self.request
        options = run_options(
            self.table, self.row, training, self.protocol, seed, request.reduction
        )
        options = replace(options, device=request.device, data_dir=request.data_dir)
        return Job(request, self.table.name, self.row.name, training.name, options).placed()

    def _pilot(self, training: Training) -> Pilot | None:
        if self.search is None:
            return None
        at = self.table.training(training.pilot)
        key = self.table.name, self.row.name, at.name
        base = replace(self._job(at, 0), trial=True, pilot=key)
        jobs = tuple(
            replace(base, options=options).placed()
            for options in trial_options(base.options, self.search, self.row)
        )
        choice = read_choice(choice_path(self.request.results, *key, self.request.reduced))
        if choice is not None and not (
            choice.protocol == self.protocol
            and choice.rule == self.search.rule
            and [(trial.lr, trial.readout) for trial in choice.trials]
            == [(job.options.lr, job.options.network.readout) for job in jobs]
            and same_settings(choice.config, jobs[0].options, CHOSEN)
        ):
            choice = None
        return Pilot(key, self.search.rule, base.options.lr, jobs, choice)

    def _answers(self, path: Path, job: Job) -> bool:
        """Whether the record is of this job; refuse one that must not be replaced."""
        record, request = read_record(path), self.request
        without = () if self.search is None else CHOSEN
        if (
            (record.protocol, record.reduced, record.samples)
            == (self.protocol, request.reduced, request.reduction.samples)
            and (record.search is None) == (self.search is None)
            and same_settings(record.config, job.options, without)
        ):
            # if another seed diverged with this rate, it is trained again with the next best one
            return job.choice is None or same_settings(record.config, job.options)
        if request.reduced and not record.reduced:
            raise InputError(
                f"{path}: is of a full run, which a reduced one never replaces: use another "
                "--results."
            )
        if record.reduced == request.reduced and not request.again:
            raise InputError(
                f"{path}: was made with other settings: use another --results, or add --again to "
                "train it anew."
            )
        return False
