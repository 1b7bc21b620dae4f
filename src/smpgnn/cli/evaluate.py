"""smpgnn evaluate."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from smpgnn.errors import InputError


def evaluate(arguments: argparse.Namespace) -> int:
    from smpgnn.training.evaluate import evaluate_file
    from smpgnn.training.predict import load
    from smpgnn.training.prepare import prepare
    from smpgnn.training.run_folder import RunFolder
    from smpgnn.training.train import evaluate_store

    model = load(arguments.run, arguments.device)
    if arguments.data:
        metrics = evaluate_file(
            model, arguments.data, labels=arguments.labels, smiles_column=arguments.smiles_column
        )
        what = arguments.data
    else:
        if not Path(arguments.run).is_dir():
            raise InputError(f"{arguments.run}: is one file, not a run: name the data, too.")
        options = RunFolder(arguments.run).read_options()
        if arguments.data_dir:
            options = replace(options, data_dir=arguments.data_dir)
        test = prepare(options).splits.test
        metrics = evaluate_store(model.network, model.task, test, options.batch_size, model.device)
        what = "test part"
    if arguments.json:
        print(json.dumps(metrics, indent=1))
    else:
        print(f"{what}: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return 0
