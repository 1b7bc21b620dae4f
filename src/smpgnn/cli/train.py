"""smpgnn train."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace

from smpgnn.errors import InputError
from smpgnn.options import TASKS, TrainOptions, paper_preset, read_config, to_yaml, with_values

#: What may differ when a run goes on: where it runs, not what it does.
PLACE = ("output", "device", "devices", "nodes", "data_dir")


def chosen_options(arguments: argparse.Namespace) -> TrainOptions:
    """Defaults, then the preset, then the config file, then the command line."""
    options = TASKS[arguments.task_name]()
    if getattr(arguments, "preset", None):
        options = paper_preset(options)
    if arguments.config:
        values = read_config(arguments.config)
        task = values.pop("task_type", arguments.task_name)
        if task != arguments.task_name:
            raise InputError(
                f"{arguments.config}: is for 'train {task}', not 'train {arguments.task_name}'."
            )
        options = with_values(options, values, arguments.config)
    given = given_options(arguments)
    return with_values(options, given, "smpgnn train")


def given_options(arguments: argparse.Namespace) -> dict[str, object]:
    """The settings that stand on the command line."""
    names = {entry.name for entry in fields(TASKS[arguments.task_name])}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    if given.get("path") == "":
        del given["path"]
    return given


def train(arguments: argparse.Namespace) -> int:
    options = chosen_options(arguments)
    if arguments.print_config:
        print(to_yaml(options), end="")
        return 0
    if arguments.resume:
        _check_resume(arguments)
    from smpgnn.training.prepare import prepare
    from smpgnn.training.run_folder import RunFolder, default_output
    from smpgnn.training.train import resumed_options, train_run

    if not options.output:
        options = replace(options, output=default_output(options))
    if arguments.resume:
        options = resumed_options(RunFolder(options.output), options)
    prepared = prepare(options)
    for note in prepared.notes:
        print(note, file=sys.stderr)
    try:
        result = train_run(options, resume=arguments.resume, prepared=prepared)
    except KeyboardInterrupt:
        again = f"smpgnn train {arguments.task_name} --output {options.output} --resume"
        print(f"\nsmpgnn: interrupted; go on with: {again}", file=sys.stderr)
        return 130
    monitor = result.saved.task.monitor
    print(
        f"Test {monitor} {result.test[monitor]:.4f}  validation {result.validation[monitor]:.4f}  "
        f"best epoch {result.best_epoch}  {result.seconds:.0f} s"
    )
    print(f"Run folder: {result.folder}")
    return 0


def _check_resume(arguments: argparse.Namespace) -> None:
    given = given_options(arguments)
    if not given.get("output"):
        raise InputError("--resume: name the run to go on with: --output RUN.")
    from smpgnn.training.run_folder import RunFolder

    stored = RunFolder(str(given["output"])).read_options()
    for name, value in given.items():
        known = getattr(stored, name, None)
        same = list(known) == value if isinstance(known, tuple) else known == value
        if name not in PLACE and not same:
            raise InputError(
                f"--{name.replace('_', '-')}: the run has {known}, and --resume goes on with its "
                "settings: leave it out, or start a new run."
            )
