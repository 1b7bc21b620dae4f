"""smpgnn paper reproduce."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from smpgnn.cli.arguments import DATA_DIR, whole_number
from smpgnn.cli.interrupts import importing
from smpgnn.cli.trust import add_trust_pickle, import_trusted
from smpgnn.config.options import ZincOptions
from smpgnn.errors import InputError
from smpgnn.paper.experiments.plan import Plan, Request, make_plan
from smpgnn.paper.experiments.protocol import CHOICES, Reduction
from smpgnn.paper.experiments.tables import SELECTIONS, TABLES

EXAMPLES = (
    "smpgnn paper reproduce cycle_detection --dry-run",
    "smpgnn paper reproduce cycle_detection --rows SMP GIN --cells 4-36 6-56 --jobs 4",
    "smpgnn paper reproduce zinc --seeds 0 1 2 3 --minutes 60",
)


def add_reproduce(verbs: Any) -> None:
    """The verb and its options."""
    names = ", ".join([*TABLES, *SELECTIONS])
    parser = verbs.add_parser(
        "reproduce",
        help="train the models of the paper's tables",
        description="Train the models of the paper's tables, in parallel. Trainings that have a "
        "record are skipped; interrupted ones are resumed.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES),
    )
    add = parser.add_argument_group("what to train").add_argument
    add("tables", metavar="TABLE", nargs="+", help=f"one or more of: {names}; or all")
    add("--rows", metavar="ROW", nargs="+", default=[], help="methods, as in the table or by name")
    add("--cells", metavar="CELL", nargs="+", default=[], help="columns, such as 4-12 or in-4")
    add("--seeds", metavar="S", nargs="+", type=whole_number(0, 2**32 - 1), default=[],
        help="default: those of the table, mostly 0 1 2")  # fmt: skip
    add("--protocol", choices=CHOICES, default="modern", help="how to train all rows")
    add(
        "--search",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="choose learning rates on held-out training data if the protocol says so",
    )
    add("--again", action="store_true", help="replace records made with other settings")
    add("--dry-run", action="store_true", help="list what would be trained and exit")
    folders = parser.add_argument_group("data and results")
    add = folders.add_argument
    add("--results", metavar="DIR", default="results", help="folder of the records")
    add("--work-dir", metavar="DIR", default="runs/reproduce", help="folder of the runs and logs")
    add("--data-dir", metavar="DIR", default="", help=DATA_DIR)
    add_trust_pickle(folders)
    add = parser.add_argument_group("hardware").add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    add(
        "--jobs",
        metavar="N",
        type=whole_number(1, 1000),
        default=1,
        help="parallel trainings (default: 1)",
    )
    add("--minutes", metavar="M", type=float, default=0.0, help="stop after M minutes; 0: never")
    add = parser.add_argument_group(
        "smaller runs, whose records are marked as reduced"
    ).add_argument
    most = whole_number(1, 10**7)
    add("--epochs", metavar="N", type=most, help="maximum number of epochs")
    add("--samples", metavar="N", type=most,
        help="number of training and test graphs, or of pairs of each category")  # fmt: skip
    add("--set", metavar="NAME=VALUE", nargs="+", default=[], help="any setting of smpgnn train")
    parser.set_defaults(parser=parser, command=reproduce)


def requests(arguments: argparse.Namespace) -> list[Request]:
    """What the command line asks for, a request for each table."""
    if not (math.isfinite(arguments.minutes) and arguments.minutes >= 0):
        raise InputError(f"--minutes {arguments.minutes}: must be 0 or more.")
    tables = list(TABLES) if arguments.tables == ["all"] else arguments.tables
    reduction = Reduction(arguments.epochs, arguments.samples, _pairs(arguments.set))
    same = ("protocol", "search", "again", "results", "work_dir", "device", "data_dir", "jobs")
    return [
        Request(
            table=table,
            rows=tuple(arguments.rows),
            cells=tuple(arguments.cells),
            seeds=tuple(dict.fromkeys(arguments.seeds)),
            reduction=reduction,
            **{name: getattr(arguments, name) for name in same},
        )
        for table in tables
    ]


def reproduce(arguments: argparse.Namespace) -> int:
    plan = make_plan(requests(arguments))
    if arguments.dry_run:
        _print_plan(plan)
        return 0
    if not plan.open:
        print(f"all {len(plan.finals)} trainings are answered by records already.")
        return 0
    if any(isinstance(job.options, ZincOptions) for job in plan.open):
        import_trusted(arguments, arguments.data_dir)
    with importing():
        from smpgnn.paper.experiments.runner import Runner
        from smpgnn.training.side_by_side_display import display

    with display() as shown:
        runner = Runner(plan, arguments.jobs, arguments.minutes, shown.show, shown.note)
        summary = runner.run()
    for label, error in summary.failed:
        print(f"smpgnn: {label}: {error}", file=sys.stderr)
    answered = len(plan.finals) - len(plan.open)
    print(
        f"{summary.done} trainings done now, {answered} answered before, "
        f"{len(summary.failed)} failed, {summary.left} left."
    )
    if summary.stopped:
        why = {
            "minutes": f"the {arguments.minutes:g} minutes are over",
            "interrupt": "interrupted",
            "terminate": "terminated by the system",
        }[summary.stopped]
        print(f"smpgnn: {why}; run the same command again to continue.", file=sys.stderr)
    if summary.stopped in ("interrupt", "terminate"):
        return 130 if summary.stopped == "interrupt" else 143
    return 1 if summary.failed else 0


def _print_plan(plan: Plan) -> None:
    for pilot in plan.searches:
        rates = ", ".join(f"{job.options.lr:g}" for job in pilot.trials)
        print(f"choose  {pilot.label}: {rates}, {pilot.trials[0].options.epochs} epochs each")
    for job in plan.finals:
        if job.answered:
            state, more = "done", ""
        else:
            before = job.epochs_done()
            state, more = ("begun", f", {before} of") if before else ("open", ",")
            more += f" {job.options.epochs} epochs"
        print(f"{state:<7} {job.label}{more}")
    trials = sum(len(pilot.trials) for pilot in plan.searches)
    print(
        f"{len(plan.finals)} trainings: {len(plan.finals) - len(plan.open)} answered by records, "
        f"{len(plan.open)} to do; {trials} short ones to choose learning rates."
    )


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, found, value = word.partition("=")
        if not found:
            raise InputError(f"--set {word}: must be NAME=VALUE, as in --set hidden_channels=8.")
        pairs[name.replace("-", "_")] = value
    return pairs
