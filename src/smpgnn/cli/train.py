"""smpgnn train."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from shlex import quote
from typing import Any

from smpgnn.cli.arguments import Parser, add_options
from smpgnn.cli.interrupts import importing
from smpgnn.cli.metrics_table import metrics_table, shown
from smpgnn.cli.trust import add_trust_pickle, import_trusted
from smpgnn.config.options import (
    TASKS,
    TableOptions,
    TrainOptions,
    ZincOptions,
    read_config,
    to_yaml,
)
from smpgnn.config.presets import PRESETS, presets, with_preset
from smpgnn.config.setting import DATA, RUN
from smpgnn.config.settings import settings, with_values
from smpgnn.errors import InputError, Terminated

EXAMPLES = {
    "cycles": "smpgnn train cycles --k 6 --n 42 --epochs 50 --output runs/cycles",
    "properties": "smpgnn train properties --model smp --output runs/properties",
    "zinc": "smpgnn train zinc --data-dir ~/data --output runs/zinc",
    "counting": "smpgnn train counting --substructure cycle6 --data-dir ~/data",
    "molecules": "smpgnn train molecules data.csv --smiles-column smiles --targets logS",
    "graphs": "smpgnn train graphs my_graphs/ --labels labels.csv --targets class",
}
PRESET_HELP = {
    "paper": "settings of the paper's experiment",
    "small": "a network that trains faster on a CPU",
}


def add_train(verbs: Any) -> None:
    parser = verbs.add_parser(
        "train",
        help="train a model",
        description="Train a model on one of the paper's tasks or on your own data.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.values()),
    )
    parser.set_defaults(parser=parser, command=train)
    tasks = parser.add_subparsers(dest="task_name", metavar="TASK", parser_class=Parser)
    for name, kind in TASKS.items():
        task = tasks.add_parser(
            name,
            help=(kind.__doc__ or "").splitlines()[0],
            description=(kind.__doc__ or "").splitlines()[0],
            epilog=f"example:\n  {EXAMPLES[name]}",
            usage=f"{EXAMPLES[name].split(' --')[0]} [options]",
        )
        groups = add_options(task, kind)
        run = groups[RUN]
        run.add_argument("--resume", action="store_true", help="continue the run in --output")
        run.add_argument("--config", metavar="FILE", help="read settings from a YAML file")
        run.add_argument(
            "--print_config",
            "--print-config",
            action="store_true",
            help="print all settings as YAML and exit",
        )
        if presets(name):
            about = ", or ".join(PRESET_HELP[preset] for preset in presets(name))
            run.add_argument("--preset", choices=presets(name), help=about)
        if name == "zinc":
            add_trust_pickle(groups[DATA])
        task.add_help_all()
        task.set_defaults(parser=task)


def chosen_options(arguments: argparse.Namespace) -> tuple[TrainOptions, set[str]]:
    """Defaults, overridden by preset, then config file, then command line; and what these name."""
    task = arguments.task_name
    options, named = TASKS[task](), set[str]()
    if getattr(arguments, "preset", None):
        options = with_preset(options, arguments.preset)
        named = {*PRESETS[arguments.preset][task]}
    if arguments.config is not None:
        values = read_config(arguments.config)
        other = values.pop("task_type", task)
        if other != task:
            raise InputError(f"{arguments.config}: is for 'train {other}', not for 'train {task}'.")
        options, named = with_values(options, values, arguments.config), named | {*values}
    given = given_options(arguments)
    named = (named | {*given}) & {*settings(TASKS[task])}
    return with_values(options, given, "smpgnn train"), named


def given_options(arguments: argparse.Namespace) -> dict[str, object]:
    names = settings(TASKS[arguments.task_name])
    given = {name: value for name, value in vars(arguments).items() if name in names}
    if given.get("path") == "":
        del given["path"]
    return given


def train(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.training.member_plan import members
        from smpgnn.training.processes import check_environment, first_process
        from smpgnn.training.resume import resumed_options
        from smpgnn.training.run_folder import RunFolder, default_output

    if arguments.task_name is None:
        raise InputError(f"smpgnn train: name a task ({', '.join(TASKS)}).")
    options, named = chosen_options(arguments)
    members(options)  # refuses settings that contradict each other
    if arguments.print_config:
        print(to_yaml(options), end="")
        return 0
    check_environment()
    first = first_process()
    if arguments.resume:
        options = resumed_options(options, named)
    else:
        if getattr(options, "from_run", ""):
            with importing():
                from smpgnn.training.start import with_start
            options = with_start(options, named)
        if not options.output:
            options = replace(options, output=default_output(options))
        if first:
            RunFolder(options.output).refuse_old()
    if isinstance(options, ZincOptions):
        import_trusted(arguments, options.data_dir, subset=not options.full)
    # importing torch takes seconds, so all checks above come first
    with importing():
        from smpgnn.training.train import train_run
        from smpgnn.training.verdict import split_metrics, verdict

    try:
        result = train_run(options, resume=arguments.resume)
    except KeyboardInterrupt as stop:
        again = f"smpgnn train {arguments.task_name} --output {quote(options.output)} --resume"
        begun = RunFolder(options.output).config.exists()
        hint = f"; continue with: {again}" if begun else " before the training began."
        if first:
            print(f"\nsmpgnn: interrupted{hint}", file=sys.stderr)
        return 143 if isinstance(stop, Terminated) else 130
    if not first:
        return 0
    task, record = result.saved.task, vars(result)
    if result.best_epoch:  # not of a run with members
        test, validation = (
            shown(part.get(task.monitor)) for part in (result.test, result.validation)
        )
        print(
            f"Test {task.monitor} {test}  validation {validation}  "
            f"best epoch {result.best_epoch}  {result.seconds:.0f} s"
        )
    if not result.best_epoch or isinstance(options, TableOptions):
        print(metrics_table(task, split_metrics(record)))
        print(verdict(record), end="\n" if result.baseline else "")
    print(f"Run folder: {result.folder}")
    return 0
