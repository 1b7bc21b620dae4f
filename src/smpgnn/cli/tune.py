"""smpgnn tune."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from shlex import quote
from typing import Any

from smpgnn.cli.arguments import Parser, add_options, add_settings
from smpgnn.cli.interrupts import importing
from smpgnn.cli.train import chosen_options, given_options
from smpgnn.config.options import TASKS
from smpgnn.config.setting import RUN
from smpgnn.config.settings import settings, with_values
from smpgnn.config.tuning import SPACE, TuneOptions
from smpgnn.errors import InputError, Terminated

EXAMPLES = {
    "molecules": "smpgnn tune molecules data.csv --targets logS --trials 30",
    "graphs": "smpgnn tune graphs my_graphs/ --labels labels.csv --targets class --trials 30",
}
_ABOUT = (
    "Search for settings with a good validation metric. Run the same command again to continue a "
    "search, or in several processes to share it. Settings on the command line are fixed; the "
    "first trial takes the others from --config or the defaults. Test rows are not used."
)


def add_tune(verbs: Any) -> None:
    parser = verbs.add_parser(
        "tune",
        help="search for good settings",
        description=_ABOUT,
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.values()),
    )
    parser.set_defaults(parser=parser, command=tune)
    tasks = parser.add_subparsers(dest="task_name", metavar="TASK", parser_class=Parser)
    space = "\n".join(f"  {choice.name}: {choice}" for choice in SPACE)
    for name, example in EXAMPLES.items():
        task = tasks.add_parser(
            name,
            help=f"search settings of smpgnn train {name}",
            description=_ABOUT,
            epilog=f"searched, where it has an effect:\n{space}\n\nexample:\n  {example}",
            usage=f"{example.split(' --')[0]} [options]",
        )
        groups = add_options(task, TASKS[name])
        add_settings(groups[RUN], TuneOptions)
        groups[RUN].add_argument("--config", metavar="FILE", help="read settings from a YAML file")
        for action in task._actions:
            if action.dest == "output":
                action.help = "folder of the search; default: runs/tune-TASK-DATA-TARGETS"
        task.add_help_all()
        task.set_defaults(parser=task)


def tune(arguments: argparse.Namespace) -> int:
    if arguments.task_name is None:
        raise InputError(f"smpgnn tune: name a task ({', '.join(EXAMPLES)}).")
    if importlib.util.find_spec("optuna") is None:
        raise InputError("smpgnn tune: needs Optuna: pip install 'smpgnn[tune]'.")
    known = settings(TuneOptions)
    wanted = {name: value for name, value in vars(arguments).items() if name in known}
    plan = with_values(TuneOptions(), wanted, "smpgnn tune")
    options, _ = chosen_options(arguments)
    with importing():
        from smpgnn.tuning.search import default_folder, tune_run

    try:
        result = tune_run(options, plan, given=given_options(arguments))
    except KeyboardInterrupt as stop:
        where = options.output or default_folder(options)
        print(
            f"\nsmpgnn: interrupted; the same command goes on with the search in {where}",
            file=sys.stderr,
        )
        return 143 if isinstance(stop, Terminated) else 130
    default = "" if result.default is None else f"  with the defaults {result.default:.4f}"
    print(f"Validation {result.metric} {result.value:.4f}{default}")
    print(f"Trials: {result.folder / 'trials.csv'}, {result.folder / 'study.png'}")
    best = quote(str(result.folder / "best.yaml"))
    print(f"Train with: smpgnn train {arguments.task_name} --config {best}")
    return 0
