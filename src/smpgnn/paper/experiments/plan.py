"""What has to be trained for some cells of a table, and what is answered already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.paper.experiments.names import pick
from smpgnn.paper.experiments.protocol import (
    CHOSEN,
    PROTOCOLS,
    Protocol,
    Reduction,
    run_options,
    same_settings,
)
from smpgnn.paper.experiments.records import (
    Choice,
    Record,
    choice_path,
    read_choice,
    read_record,
    record_path,
)
from smpgnn.paper.experiments.search import settings_hash, trial_options
from smpgnn.paper.experiments.table import Selection, Table, Training
from smpgnn.paper.experiments.tables import TABLES, find_table


@dataclass(frozen=True)
class Request:
    """What a person asks for. Without rows or cells all of them are meant."""

    table: str
    rows: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    protocol: str = "modern"
    reduction: Reduction = field(default_factory=Reduction)
    search: bool = True
    again: bool = False
    results: str = "results"
    work_dir: str = "runs/reproduce"
    device: str = "auto"
    data_dir: str = ""
    jobs: int = 1


@dataclass(frozen=True)
class Job:
    """One training for a worker: a trial of a rate, or what answers the cells of a training."""

    table: str
    row: str
    training: str
    trial: bool
    options: TrainOptions
    protocol: str
    reduced: bool
    samples: int | None
    results: str
    jobs: int
    choice: Choice | None = None

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
        """Epochs that the run folder holds."""
        try:
            with (self.folder / "metrics.csv").open("rb") as file:
                return max(0, sum(1 for _ in file) - 1)
        except OSError:
            return 0


@dataclass(frozen=True)
class Pilot:
    """The choice of rate and readout of one row: its trials, or the choice if it is made."""

    table: str
    row: str
    training: str
    rule: str
    usual: float  # the rate of the protocol
    trials: tuple[Job, ...]
    choice: Choice | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.table, self.row, self.training


@dataclass(frozen=True)
class Final:
    """A training that answers cells; `job` lacks the rate where a pilot has to choose it."""

    job: Job
    answered: bool
    pilot: tuple[str, str, str] | None

    def with_choice(self, choice: Choice, work_dir: str) -> Job:
        """The job with the rate that was chosen."""
        return _chosen(self.job, choice, work_dir)


@dataclass(frozen=True)
class Plan:
    """All trainings asked for; the pilots are those that finals still wait for."""

    finals: tuple[Final, ...]
    pilots: tuple[Pilot, ...]
    work_dir: str

    @property
    def open(self) -> tuple[Final, ...]:
        return tuple(final for final in self.finals if not final.answered)


def make_plan(requests: list[Request]) -> Plan:
    """The plan for several requests; what two of them ask for stands in it once."""
    finals: dict[tuple[str, str, str, int], Final] = {}
    pilots: dict[tuple[str, str, str], Pilot] = {}
    for request in requests:
        for final, pilot in _finals(request):
            job = final.job
            finals.setdefault((job.table, job.row, job.training, job.options.seed), final)
            if pilot is not None and not final.answered:
                pilots.setdefault(pilot.key, pilot)
    return Plan(tuple(finals.values()), tuple(pilots.values()), requests[0].work_dir)


def _finals(request: Request) -> Iterator[tuple[Final, Pilot | None]]:
    found = find_table(request.table)
    table = TABLES[found.table] if isinstance(found, Selection) else found
    known_rows = found.rows if isinstance(found, Selection) else [row.name for row in table.rows]
    known_cells = found.cells if isinstance(found, Selection) else [c.name for c in table.cells]
    rows = pick(request.rows, known_rows, "--rows")
    cells = set(pick(request.cells, known_cells, "--cells"))
    homes = {row: TABLES[table.row(row).of or table.name] for row in rows}
    protocols = {home.name: _protocol(request, home) for home in homes.values()}
    for seed in request.seeds:
        for row, home in homes.items():
            for training in table.trainings:
                wanted = tuple(cell.name for cell in training.cells if cell.name in cells)
                if wanted:
                    at, protocol = home.training(training.name), protocols[home.name]
                    yield _final(request, home, row, at, wanted, seed, protocol)


def _protocol(request: Request, table: Table) -> Protocol:
    """The protocol of a request; full records of a table must all have the same one."""
    protocol = PROTOCOLS[request.protocol]
    if request.reduction:
        return protocol
    for path in sorted((Path(request.results) / table.name).glob("*/*-seed*.json")):
        record = read_record(path)
        if not record.reduced and record.protocol != protocol.name:
            raise InputError(
                f"{path}: is of protocol '{record.protocol}', and all rows of a table share one: "
                f"take --protocol {record.protocol}, or another --results."
            )
    return protocol


def _final(
    request: Request,
    table: Table,
    row: str,
    training: Training,
    wanted: tuple[str, ...],
    seed: int,
    protocol: Protocol,
) -> tuple[Final, Pilot | None]:
    pilot = _pilot(request, table, row, training, protocol)
    job = _job(request, table, row, training, seed, protocol)
    if pilot is not None and pilot.choice is not None:
        job = _chosen(job, pilot.choice, request.work_dir)
    answered = True
    for cell in wanted:
        path = record_path(request.results, table.name, row, cell, seed)
        if not (path.exists() and _answers(path, job, request, searched=pilot is not None)):
            answered = False
    return Final(job, answered, None if pilot is None else pilot.key), pilot


def _answers(path: Path, job: Job, request: Request, *, searched: bool) -> bool:
    """Whether the record is of this job; one that must not be replaced is refused."""
    record = read_record(path)
    if _same(record, job, searched):
        # one of a rate that was chosen before, with which another seed diverged, is made anew
        return job.choice is None or same_settings(record.config, job.options, ())
    if job.reduced and not record.reduced:
        raise InputError(
            f"{path}: is of a full run, which a reduced one never replaces: take another --results."
        )
    if record.reduced == job.reduced and not request.again:
        raise InputError(
            f"{path}: was made with other settings: take another --results, or add --again to "
            "train it anew."
        )
    return False


def _same(record: Record, job: Job, searched: bool) -> bool:
    if (record.protocol, record.reduced, record.samples) != (
        job.protocol,
        job.reduced,
        job.samples,
    ):
        return False
    if searched != (record.search is not None):
        return False
    return same_settings(record.config, job.options, CHOSEN if searched else ())


def _pilot(
    request: Request, table: Table, row: str, training: Training, protocol: Protocol
) -> Pilot | None:
    search = protocol.search.get(table.name)
    if search is None or not request.search or "lr" in request.reduction.settings:
        return None
    at = table.training(training.pilot)
    base = _job(request, table, row, at, 0, protocol)
    trials = trial_options(base.options, search, table.row(row))
    jobs = tuple(
        _placed(replace(base, options=options, trial=True), request.work_dir)
        for options in trials.options
    )
    path = choice_path(request.results, table.name, row, at.name, base.reduced)
    choice = read_choice(path)
    if choice is not None and not (
        choice.protocol == protocol.name
        and choice.rule == trials.rule
        and [(trial.lr, trial.readout) for trial in choice.trials]
        == [(job.options.lr, job.options.network.readout) for job in jobs]
        and same_settings(choice.config, jobs[0].options, CHOSEN)
    ):
        choice = None
    return Pilot(table.name, row, at.name, trials.rule, base.options.lr, jobs, choice)


def _job(
    request: Request, table: Table, row: str, training: Training, seed: int, protocol: Protocol
) -> Job:
    options = run_options(table, table.row(row), training, protocol, seed, request.reduction)
    job = Job(
        table=table.name,
        row=row,
        training=training.name,
        trial=False,
        options=replace(options, device=request.device, data_dir=request.data_dir),
        protocol=protocol.name,
        reduced=bool(request.reduction),
        samples=request.reduction.samples,
        results=request.results,
        jobs=request.jobs,
    )
    return _placed(job, request.work_dir)


def _chosen(job: Job, choice: Choice, work_dir: str) -> Job:
    options = job.options.changed(lr=choice.chosen, readout=choice.chosen_readout)
    return _placed(replace(job, options=options, choice=choice), work_dir)


def _placed(job: Job, work_dir: str) -> Job:
    """The job with its run folder, whose name has a part that follows from the settings."""
    options = job.options
    what = f"seed{options.seed}"
    if job.trial:
        what = f"search-{options.network.readout}-{options.lr:g}"
    name = f"{job.training}-{what}-{settings_hash(options, job.trial, job.samples)}"
    folder = Path(work_dir) / job.table / file_name(job.row) / name
    return replace(job, options=replace(options, output=str(folder)))
