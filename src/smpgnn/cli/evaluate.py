"""smpgnn evaluate."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from smpgnn.cli.interrupts import importing
from smpgnn.cli.trust import import_trusted
from smpgnn.config.options import TableOptions, ZincOptions
from smpgnn.errors import InputError
from smpgnn.pretrained import named, shipped


def evaluate(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.evaluate import evaluate_file
        from smpgnn.inference.predict import load
        from smpgnn.training.evaluation import evaluate_store
        from smpgnn.training.prepare import prepare
        from smpgnn.training.run_folder import RunFolder

    if arguments.data and arguments.positional:
        raise InputError(
            f"--data {arguments.data}: {arguments.positional} is given, too: leave one of them out."
        )
    data = arguments.data or arguments.positional
    for word in () if data else ("labels", "smiles_column", "separator"):
        if getattr(arguments, word):
            option = "--" + word.replace("_", "-")
            raise InputError(f"{option}: applies only to your own data: name them with --data.")
    model = load(arguments.run, arguments.device)
    if data:
        metrics, notes = evaluate_file(
            model,
            data,
            labels=arguments.labels,
            smiles_column=arguments.smiles_column,
            separator=arguments.separator,
        )
        for note in notes:
            print(note, file=sys.stderr)
        what = data
    else:
        name = named(arguments.run)
        if name is None and not Path(arguments.run).is_dir():
            raise InputError(
                f"{arguments.run}: is a model file without data: add --data, or name a run folder."
            )
        run = RunFolder(arguments.run)
        options = run.read_options() if name is None else shipped(name).options
        saved = run.read_data() if name is None else None
        if arguments.data_dir:
            options = replace(options, data_dir=arguments.data_dir)
        if isinstance(options, TableOptions) and not getattr(options, "path", ""):
            raise InputError(
                f"{arguments.run}: was trained from Python: evaluate it there with "
                "smpgnn.load(RUN).evaluate(graphs)."
            )
        if saved is None and isinstance(options, TableOptions):
            print(run.split_again(), file=sys.stderr)
        if isinstance(options, ZincOptions):
            import_trusted(arguments, options.data_dir, subset=not options.full)
        test = prepare(options, saved).splits.test
        metrics = evaluate_store(
            model.network,
            model.task,
            test,
            options.batch_size,
            model.device,
            batch_rows=options.batch_rows,
        )
        what = "test split"
    if arguments.json:
        print(json.dumps(metrics, indent=1))
    else:
        print(f"{what}: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return 0
